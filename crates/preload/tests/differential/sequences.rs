//! Generated sequences of calls. A sequence is a text that `interpret.c` runs; one that does not trace the same is made
//! shorter for as long as it differs.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::time::Instant;

use nearwire_lab::emulated_host::is_inside;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::bed::{Bed, Run};
use crate::compare::{Comparison, difference};
use crate::programs::Programs;
use crate::trace;
use crate::{BEDS, SIMPLE};

/// Sequences without `NEARWIRE_SEQUENCES`.
const SEQUENCES: u32 = 320;
/// Attempts to make a sequence that differs shorter.
const SHRINK_ITERATIONS: u32 = 300;
const CALLS_MAX: usize = 60;
/// The size that `far` sends in fragments: the last number's value.
const FRAGMENTED: u32 = 3;
/// What sequences are about: without open, bound sockets and a set little happens.
const PREFACE: &str = "open 0 0\nbind 0 0 0\nopen 1 0\nbind 1 1 0\nset 0\n";
/// The program that runs a sequence.
const INTERPRETER: &str = "interpret.sequence";

/// A word, how often it is chosen, and how many values each of its numbers has (`interpret*.c` say what they mean).
const WORDS: &[(u32, &str, &[u32])] = &[
    (4, "open", &[3, 3]),
    (4, "bind", &[3, 4, 2]),
    (3, "connect", &[3, 6]),
    (2, "send_far", &[3, 3]),
    (4, "send", &[3]),
    (2, "send_local", &[3, 4]),
    (3, "echo", &[3]),
    (16, "far", &[3, 2, 6, 4]),
    (10, "recv", &[3, 4, 4]),
    (3, "recv_all", &[]),
    (2, "recvmsg", &[3, 2]),
    (4, "poll", &[]),
    (2, "select", &[3]),
    (3, "set", &[2]),
    (10, "ctl", &[2, 4, 3, 7]),
    (1, "nest", &[2]),
    (12, "wait", &[2, 2]),
    (2, "dup", &[3, 4]),
    (1, "close", &[3]),
    (1, "close_set", &[2]),
    (1, "shutdown", &[3, 3]),
    (2, "option", &[3, 6, 3]),
    (2, "state", &[3]),
    (3, "signal", &[3, 14, 12, 3, 2, 2, 12, 3, 4, 3]),
    (2, "cancel", &[3, 14, 12, 3, 2]),
    (1, "reopen", &[3]),
    (1, "place", &[2]),
    (1, "beyond", &[3, 3, 6, 3]),
    (1, "send_long", &[3, 3]),
    (1, "flap", &[2, 3]),
];
/// Words all of whose numbers are equally likely.
const EVEN: [&str; 2] = ["signal", "cancel"];
/// Words for a cable with VLAN interfaces.
const VLAN_WORDS: &[(u32, &str, &[u32])] =
    &[(3, "vlan_bind", &[3, 4]), (6, "vlan_far", &[4, 2, 3]), (3, "vlan_send", &[3, 2])];

fn call(has_vlan: bool) -> impl Strategy<Value = String> {
    let vlan = if has_vlan { VLAN_WORDS } else { &[] };
    let words = WORDS.iter().chain(vlan).map(|&(weight, word, values)| {
        // Low numbers are likelier: calls that meet at one socket say more than calls that are spread. But each moment, call
        // and action is as likely as another.
        let is_even = EVEN.contains(&word);
        let number = |&count: &u32| {
            (0..count, 0..count).prop_map(move |(one, other)| if is_even { other } else { one.min(other) })
        };
        let line = values.iter().map(number).collect::<Vec<_>>().prop_map(move |numbers| {
            let line = numbers.iter().fold(word.to_owned(), |line, number| format!("{line} {number}"));
            // Between datagrams that the kernel delivers, from this host or in fragments, and others there is no order.
            let is_of_kernel = word == "send_local" || (word == "far" && numbers[3] == FRAGMENTED);
            if is_of_kernel { format!("drain\n{line}\ndrain") } else { line }
        });
        (weight, line.boxed())
    });
    proptest::strategy::Union::new_weighted(words.collect())
}

fn sequence(has_vlan: bool) -> impl Strategy<Value = String> {
    proptest::collection::vec(call(has_vlan), 4..CALLS_MAX).prop_map(|calls| format!("{PREFACE}{}\n", calls.join("\n")))
}

/// Runs as many sequences as wanted, all cables at once, and fails with the shortest one of each cable that differs.
pub fn compare(programs: &Programs) {
    let (wanted, seed) = (number("NEARWIRE_SEQUENCES", SEQUENCES), number("NEARWIRE_SEED", 1));
    let share = wanted.div_ceil(BEDS as u32);
    let (started, differing) = (Instant::now(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for number in 0..BEDS {
            let differing = &differing;
            scope.spawn(move || {
                let runs = Comparison::chosen().runs_of_sequences();
                // In emulation threads do not decide how they wait: where they would, the cable has VLANs.
                let has_vlan = is_inside() && number + 1 == BEDS;
                let run = if has_vlan { runs[1 % runs.len()] } else { runs[number % runs.len()] };
                let lay = || if has_vlan { Bed::with_vlan(programs, number) } else { Bed::lay(programs, number) };
                if run.is_of_library() {
                    lay().assert_accelerated(SIMPLE, run);
                }
                let failure = match std::env::var("NEARWIRE_SEQUENCE") {
                    Ok(file) => repeat(&mut lay(), run, share, &std::fs::read_to_string(file).unwrap()),
                    Err(_) => compare_on(lay, run, share, seed, number),
                };
                differing.lock().unwrap().extend(failure);
            });
        }
    });
    let differing = differing.into_inner().unwrap();
    let how = Comparison::chosen().name();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{wanted} sequences from seed {seed}, {how}, {seconds:.1} s: {} cables found one that differs",
        differing.len()
    );
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn number(variable: &str, default: u32) -> u32 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |text| text.parse().unwrap_or_else(|error| panic!("{variable} is '{text}': {error}")))
}

/// Runs one sequence again and again.
fn repeat(bed: &mut Bed<'_>, run: Run, times: u32, text: &str) -> Option<String> {
    bed.write("sequence", text);
    (0..times).find_map(|time| {
        let truth = bed.run(&[INTERPRETER], Run::Kernel);
        let other = bed.run(&[INTERPRETER], run);
        difference(&truth, &other, run.name()).map(|told| format!("== time {time} differs:\n{told}"))
    })
}

fn compare_on<'a>(lay: impl Fn() -> Bed<'a>, run: Run, cases: u32, seed: u32, number: usize) -> Option<String> {
    let config = Config { cases, max_shrink_iters: SHRINK_ITERATIONS, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4] = u8::try_from(number).unwrap();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (bed, shown) = (RefCell::new(Some(lay())), RefCell::new(String::new()));
    let runs = Cell::new(0);
    let has_vlan = bed.borrow().as_ref().is_some_and(Bed::has_vlan);
    let outcome = runner.run(&sequence(has_vlan), |text| {
        let mut place = bed.borrow_mut();
        let bed = place.get_or_insert_with(&lay);
        runs.set(runs.get() + 1);
        bed.write("sequence", &text);
        let truth = bed.run(&[INTERPRETER], Run::Kernel);
        let other = bed.run(&[INTERPRETER], run);
        trace::keep(&format!("sequence.{number}.{}", runs.get()), run.name(), &other);
        if [&truth, &other].iter().any(|trace| !trace.contains("[end] with 0\n")) {
            // Nothing is left of what a program did that did not end.
            *place = None;
        }
        difference(&truth, &other, run.name()).map_or(Ok(()), |told| {
            if shown.borrow().is_empty() {
                println!("sequence {} of cable {number} differs, and is made shorter:\n{text}{told}", runs.get());
            }
            shown.replace(told);
            Err(TestCaseError::fail("differs"))
        })
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(_, text)) => {
            Some(format!("== after {} runs, this sequence differs:\n{text}{}", runs.get(), shown.borrow()))
        }
        Err(TestError::Abort(reason)) => panic!("sequences were not generated: {reason}"),
    }
}

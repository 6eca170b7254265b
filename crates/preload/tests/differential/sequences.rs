//! Generated sequences of calls. A sequence is a text that `interpret.c` runs; one that does not trace the same is made
//! shorter for as long as it differs.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::BEDS;
use crate::bed::{Bed, Run};
use crate::compare::{Comparison, difference};
use crate::programs::Programs;
use crate::trace;

/// Sequences without `NEARWIRE_SEQUENCES`.
const SEQUENCES: u32 = 400;
/// Attempts to make a sequence that differs shorter.
const SHRINK_ITERATIONS: u32 = 300;
const CALLS_MAX: usize = 60;
/// The size that `far` sends in fragments: the last number's value.
const FRAGMENTED: u32 = 3;
/// What sequences are about: without open, bound sockets and a set little happens.
const PREFACE: &str = "open 0 0\nbind 0 0 0\nopen 1 0\nbind 1 1 0\nset 0\n";
/// The program that runs a sequence.
const INTERPRETER: &str = "interpret.sequence";

/// A word, how often it is chosen, and how many values each of its numbers has (`interpret.c` says what they mean).
const WORDS: [(u32, &str, [u32; 4]); 23] = [
    (4, "open", [3, 3, 0, 0]),
    (4, "bind", [3, 4, 2, 0]),
    (3, "connect", [3, 5, 0, 0]),
    (2, "send_far", [3, 3, 0, 0]),
    (4, "send", [3, 0, 0, 0]),
    (2, "send_local", [3, 4, 0, 0]),
    (3, "echo", [3, 0, 0, 0]),
    (16, "far", [3, 2, 6, 4]),
    (10, "recv", [3, 4, 4, 0]),
    (3, "recv_all", [0, 0, 0, 0]),
    (2, "recvmsg", [3, 2, 0, 0]),
    (4, "poll", [0, 0, 0, 0]),
    (2, "select", [3, 0, 0, 0]),
    (3, "set", [2, 0, 0, 0]),
    (10, "ctl", [2, 4, 3, 7]),
    (1, "nest", [2, 0, 0, 0]),
    (12, "wait", [2, 2, 0, 0]),
    (2, "dup", [3, 4, 0, 0]),
    (1, "close", [3, 0, 0, 0]),
    (1, "close_set", [2, 0, 0, 0]),
    (1, "shutdown", [3, 3, 0, 0]),
    (2, "option", [3, 5, 3, 0]),
    (2, "state", [3, 0, 0, 0]),
];

fn call() -> impl Strategy<Value = String> {
    let words = WORDS.map(|(weight, word, values)| {
        // Low numbers are likelier: calls that meet at one socket say more than calls that are spread.
        let numbers = values.map(|count| (0..count.max(1), 0..count.max(1)).prop_map(|(one, other)| one.min(other)));
        let count = values.iter().filter(|count| **count > 0).count();
        let line = numbers.prop_map(move |numbers| {
            let line = numbers[..count].iter().fold(word.to_owned(), |line, number| format!("{line} {number}"));
            // Between datagrams that the kernel delivers, from this host or in fragments, and others there is no order.
            let is_of_kernel = word == "send_local" || (word == "far" && numbers[3] == FRAGMENTED);
            if is_of_kernel { format!("drain\n{line}\ndrain") } else { line }
        });
        (weight, line.boxed())
    });
    proptest::strategy::Union::new_weighted(words.to_vec())
}

fn sequence() -> impl Strategy<Value = String> {
    proptest::collection::vec(call(), 4..CALLS_MAX).prop_map(|calls| format!("{PREFACE}{}\n", calls.join("\n")))
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
                let runs = Comparison::chosen().runs();
                let failure = compare_on(Bed::lay(programs, number), runs[number % runs.len()], share, seed, number);
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

fn compare_on(bed: Bed<'_>, run: Run, cases: u32, seed: u32, number: usize) -> Option<String> {
    let config = Config { cases, max_shrink_iters: SHRINK_ITERATIONS, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4] = u8::try_from(number).unwrap();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (bed, shown) = (RefCell::new(bed), RefCell::new(String::new()));
    let runs = Cell::new(0);
    let outcome = runner.run(&sequence(), |text| {
        let mut bed = bed.borrow_mut();
        runs.set(runs.get() + 1);
        bed.write("sequence", &text);
        let truth = bed.run(&[INTERPRETER], Run::Kernel);
        let other = bed.run(&[INTERPRETER], run);
        trace::keep(&format!("sequence.{number}.{}", runs.get()), run.name(), &other);
        difference(&truth, &other, run.name()).map_or(Ok(()), |told| {
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

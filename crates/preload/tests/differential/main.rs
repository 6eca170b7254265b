//! The truth about a socket call is what the kernel does. C programs in `tests/scripts` make calls and write down what came
//! back; each runs on the kernel alone and with the library preloaded, and the two traces must be equal.
//!
//! | variable | meaning |
//! |---|---|
//! | `NEARWIRE_SCRIPTS=kernel` | compare the kernel with the kernel: what differs then is a mistake of a script |
//! | `NEARWIRE_SCRIPTS=agent` | compare the library by shares of an agent's ports with the kernel |
//! | `NEARWIRE_SCRIPT_FILTER=TEXT` | only scripts whose name, as in `poll.timeout`, contains the text, or one of several with commas between |
//! | `NEARWIRE_SCRIPT_SPIN=TIME` | how long the spinning run spins: `forever`, `auto`, `100us`; 50us without this |
//! | `NEARWIRE_SCRIPT_ROUNDS=COUNT` | all scripts so often, to find what differs now and then |
//! | `NEARWIRE_SCRIPT_BEDS=COUNT` | so many scripts at once, 2 without this; 4 are a load that finds races |
//! | `NEARWIRE_TRACES=DIRECTORY` | keep all traces there |
//! | `NEARWIRE_ON_HANG=COMMAND` | is given the number of a program that hangs, before that is ended |
//! | `NEARWIRE_SEQUENCES=COUNT` | runs of generated sequences under the library, without this 240, 90 by shares of an agent, and 160 on connections |
//! | `NEARWIRE_KERNEL_TESTS=all` | all scripts on stock kernels too, with the sequences |
//! | `NEARWIRE_SEQUENCE_MINUTES=TIME` | as many as run in so many minutes |
//! | `NEARWIRE_SEQUENCE_BEDS=COUNT` | so many of them at once, 4 without this |
//! | `NEARWIRE_SEED=NUMBER` | the first one's; each has the next |
//! | `NEARWIRE_SEQUENCE=FILE` | this sequence alone, as often |
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod bed;
mod compare;
mod programs;
mod sequences;
mod shorten;
mod stock_kernels;
mod surroundings;
mod trace;
mod vocabulary;
mod ways;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nearwire_agent::server::Stay;
use nearwire_frames::xdp::AttachMode;
use nearwire_lab::emulated_host::{StockKernel, is_everything_wanted, is_inside};

use bed::Bed;
use compare::{Comparison, Truth};
use programs::Programs;
use ways::Run;

/// Scripts whose traces may differ, in all runs or in the one in brackets, each with the reason.
const MAY_DIFFER: &[(&str, &str)] = &[
    ("epoll_edge.more_than_fit_are_not_lost (spinning)", SEVERAL_QUEUES),
    ("epoll_level.a_thousand_sockets (spinning)", SEVERAL_QUEUES),
    ("epoll_level.one_at_a_time_is_fair (spinning)", SEVERAL_QUEUES),
    ("epoll_level.order_is_that_of_arrival (spinning)", SEVERAL_QUEUES),
    ("faults.bad_receive_buffers", UNMAPPED),
    ("faults.bad_send_buffers", UNMAPPED),
    ("faults.buffer_valid_in_part", UNMAPPED),
    ("faults.read_only_receive_buffer", UNMAPPED),
    ("fork.child_changes_an_inherited_set (by-agent)", SETS_OF_BOTH),
    ("fork.deleted_by_the_parent_before_a_child_looks_it_is_told_of_no_more (by-agent)", SETS_OF_BOTH),
    ("fork.edge_told_after_a_fork_and_the_child_waits_too (by-agent)", SETS_OF_BOTH),
    ("multicast.group_shared_with_a_member_that_comes_later (by-agent)", STRANGER),
    ("multicast.group_shared_with_a_member_that_comes_later (by-agent-sleeping)", STRANGER),
    ("options.overflow_is_counted (auto)", RING_IS_NOT_CHARGED),
    ("options.overflow_is_counted (by-agent)", RING_IS_NOT_CHARGED),
    ("options.overflow_is_counted (by-agent-sleeping)", RING_IS_NOT_CHARGED),
    ("options.overflow_is_counted (spinning)", RING_IS_NOT_CHARGED),
    ("send_recv.far_and_local_take_turns", TWO_WAYS),
    ("send_recv.fragments_between_whole_datagrams", TWO_WAYS),
];

/// The same on Linux before 6.6.
const MAY_DIFFER_BEFORE_6_6: &[(&str, &str)] =
    &[("jumbo.several_wait_in_order", "long frames come by the kernel, short ones by the port; UDP promises no order")];

/// Scripts that count how many datagrams a receive buffer holds. Linux 6.12 copies a frame on its way to an XDP program where that needs
/// headroom, and charges the copy more than what was sent: 389 fit instead of 400, for the kernel alone too, and 396 behind a program in
/// the driver of veth on Linux 6.18. On Linux 6.1 such a program has each frame charged a page: 49 fit instead of 100. The kernel's own count
/// behind a program that passes all frames is as true as that without one.
const COUNT_WHAT_FITS: [&str; 3] = [
    "options.a_full_socket_leaves_the_others_alone",
    "options.default_buffer_holds_a_hundred",
    "options.large_buffer_holds_many",
];

/// Null, small numbers and addresses of the kernel are EFAULT (`faults.*_that_point_nowhere`).
const UNMAPPED: &str = "a pointer into memory that is not mapped, or not writable, is SIGSEGV, as it is of any function that \
                        works in user space: to ask the kernel first costs more than the call";
const RING_IS_NOT_CHARGED: &str = "what lies in a ring is not charged to SO_RCVBUF, so less is lost than in the kernel";
const SETS_OF_BOTH: &str = "by the agent a process learns of what another one has done to a set that both have only with the first use of the socket there \
                            (docs/run.md, \"Fork, and servers with several processes\")";
const STRANGER: &str = "the agent waits three seconds for a program to open the flow of a socket that it has bound";
const TWO_WAYS: &str =
    "datagrams from this host and fragments come by the kernel, others by the port; UDP promises no order";
/// One queue keeps the order; the sleeping run, over the generic path, has one.
const SEVERAL_QUEUES: &str =
    "frames that wait in different receive queues have no order, and a stamp of each would cost every frame";

const FILTER: &str = "NEARWIRE_SCRIPT_FILTER";

/// Scripts of this file run over a cable for jumbo frames.
const JUMBO: &str = "jumbo.";
/// Scripts that receive, one for each cable.
const SIMPLE: &str = "poll.wakes";
const SIMPLE_JUMBO: &str = "jumbo.several_wait_in_order";
/// Scripts whose connections are adopted before what they are about is done.
const OF_CONNECTIONS: [&str; 3] = ["tcp.epoll_of_several", "tcp.poll_wakes", "tcp.peek"];
const JUMBO_MTU_BYTES: u32 = 9000;

/// Scripts at once, some of which spin: more than this machine has CPUs for have them wait for each other. In emulation
/// all processors share the time of one.
fn script_beds() -> usize {
    let wanted = std::env::var("NEARWIRE_SCRIPT_BEDS").map_or(2, |count| count.parse().unwrap());
    if is_inside() { 1 } else { wanted }
}

/// The test that is an agent, and what it says when it is ready.
const AGENT: &str = "agent_of_a_bed";
const AGENT_READY: &str = "the agent is ready";

/// A script that was not the same everywhere.
struct Differing {
    script: String,
    text: String,
    /// The runs that differ.
    runs: Vec<&'static str>,
}

#[test]
fn every_script_traces_the_same_as_on_the_kernel() {
    compare_scripts(Comparison::chosen());
}

#[test]
fn every_script_traces_the_same_by_shares_of_the_agent() {
    compare_scripts(Comparison::ByAgent);
}

/// Not a test: the agent of a bed.
#[test]
#[ignore = "beds start it"]
fn agent_of_a_bed() {
    if std::env::var_os(AGENT).is_some() {
        // The bed may be killed, and has its other end.
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0);
        });
        let nobody_else = std::path::Path::new("/nonexistent");
        let ports = nearwire_agent::ports::xdp::XdpPorts::new().unwrap();
        nearwire_agent::life::serve(ports, nobody_else, Stay::Forever, || println!("{AGENT_READY}")).unwrap();
    }
}

fn compare_scripts(comparison: Comparison) {
    let Some(programs) = Programs::compiled_or_skip() else { return };
    let filter = std::env::var(FILTER).unwrap_or_default();
    let are_few = filter.is_empty() && is_inside() && !is_everything_wanted();
    let is_chosen = |name: &String| {
        filter.split(',').any(|text| name.contains(text))
            && (!are_few || stock_kernels::CHOSEN.contains(&name.as_str()))
    };
    let mut scripts: Vec<String> = programs.list().into_iter().filter(is_chosen).collect();
    assert!(!scripts.is_empty(), "no script is called '{filter}'");
    scripts.sort();
    let rounds = std::env::var("NEARWIRE_SCRIPT_ROUNDS").map_or(1, |count| count.parse().unwrap());
    let (count, started) = (scripts.len() * rounds, Instant::now());
    scripts = (0..rounds).flat_map(|_| scripts.clone()).collect();
    scripts.reverse();
    let (jumbo, scripts): (Vec<_>, Vec<_>) = scripts.into_iter().partition(|name| name.starts_with(JUMBO));
    let (scripts, jumbo) = (Mutex::new(scripts), Mutex::new(jumbo));
    let differing = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..=script_beds() {
            let (scripts, jumbo, differing, programs) = (&scripts, &jumbo, &differing, &programs);
            scope.spawn(move || {
                let is_jumbo = number == script_beds();
                let queue = if is_jumbo { jumbo } else { scripts };
                if queue.lock().unwrap().is_empty() {
                    return;
                }
                let mut bed = match is_jumbo {
                    true => Bed::with_mtu(programs, number, JUMBO_MTU_BYTES),
                    false => Bed::lay(programs, number),
                };
                if comparison == Comparison::ByAgent {
                    bed = bed.with_agent();
                }
                assert_served(comparison, &mut bed, is_jumbo);
                while let Some(script) = { queue.lock().unwrap().pop() } {
                    // Before the lock, which would have one bed at work at a time.
                    let found = compared(comparison, &mut bed, &script);
                    differing.lock().unwrap().extend(found);
                }
                // The last script too: not only as long as the bed was new.
                assert_served(comparison, &mut bed, is_jumbo);
            });
        }
    });
    report(comparison, &mut differing.into_inner().unwrap(), count, started);
}

/// Asserts that the library serves programs on this cable, as is compared.
fn assert_served(comparison: Comparison, bed: &mut Bed<'_>, is_jumbo: bool) {
    // One bed at a time: an agent that waits for the processor answers too late.
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_jumbo || surroundings::has_long_frames() {
        let ways = comparison.runs().iter().filter(|way| way.is_of_library());
        ways.for_each(|way| bed.assert_accelerated(if is_jumbo { SIMPLE_JUMBO } else { SIMPLE }, *way));
    }
    if comparison == Comparison::ByAgent && !is_jumbo {
        let mut adopts = |way: &Run| OF_CONNECTIONS.iter().for_each(|script| bed.assert_adopted(script, *way));
        comparison.runs_of(OF_CONNECTIONS[0]).iter().for_each(&mut adopts);
    }
}

/// How often each run ran, and how long all of it took.
static TAKEN: Mutex<BTreeMap<&str, (u32, Duration)>> = Mutex::new(BTreeMap::new());

fn run(bed: &mut Bed<'_>, script: &str, run: Run) -> String {
    let started = Instant::now();
    let text = bed.run_script(script, run);
    let mut taken = TAKEN.lock().unwrap();
    let (count, time) = taken.entry(run.name()).or_default();
    (*count, *time) = (*count + 1, *time + started.elapsed());
    trace::keep(script, run.name(), &text);
    text
}

/// Runs a script in all ways.
fn compared(comparison: Comparison, bed: &mut Bed<'_>, script: &str) -> Option<Differing> {
    let started = Instant::now();
    let first = run(bed, script, Run::Kernel);
    if first.contains(bed::HUNG) {
        // All runs would, and be the same.
        let text = format!("  it hangs on the kernel alone:\n{first}");
        return Some(Differing { script: script.to_owned(), text, runs: vec![Run::Kernel.name()] });
    }
    let mut truth = Truth::of(first);
    if COUNT_WHAT_FITS.contains(&script) {
        for mode in [AttachMode::Native, AttachMode::Generic] {
            truth.add(run(bed, script, Run::KernelBehindProgram(mode)));
        }
    }
    let mut text = String::new();
    let mut runs = Vec::new();
    for way in comparison.runs_of(script) {
        let other = run(bed, script, *way);
        if let Some(told) = truth.difference(&other, way.name(), || run(bed, script, Run::Kernel)) {
            text += &told;
            runs.push(way.name());
        }
    }
    let (outcome, seconds) = (if runs.is_empty() { "same" } else { "other" }, started.elapsed().as_secs_f64());
    let of_kernel = truth.note();
    println!("{script}: {outcome} in {} runs{of_kernel}, {seconds:.1} s", comparison.runs_of(script).len());
    (!runs.is_empty()).then(|| Differing { script: script.to_owned(), text, runs })
}

fn report(comparison: Comparison, differing: &mut [Differing], count: usize, started: Instant) {
    differing.sort_by(|one, other| one.script.cmp(&other.script));
    let mut unexplained = 0;
    for Differing { script, text, runs } in &*differing {
        let may = |run: &&str| {
            let in_run = format!("{script} ({run})");
            let without = if surroundings::has_long_frames() { &[][..] } else { MAY_DIFFER_BEFORE_6_6 };
            MAY_DIFFER
                .iter()
                .chain(without)
                .find(|(name, _)| name == script || *name == in_run)
                .map(|(_, reason)| *reason)
        };
        let reasons: Option<Vec<_>> = runs.iter().map(may).collect();
        let reason = reasons.and_then(|reasons| reasons.first().copied());
        unexplained += usize::from(reason.is_none());
        let verdict = reason.map_or_else(|| "differs".to_owned(), |reason| format!("may differ: {reason}"));
        println!("== {script}: {verdict}\n{text}");
    }
    for (run, (times, time)) in &*TAKEN.lock().unwrap() {
        println!("{run}: {times} runs, {:.1} s", time.as_secs_f64());
    }
    let seconds = started.elapsed().as_secs_f64();
    let how = comparison.name();
    println!(
        "{count} scripts, {how}, {seconds:.1} s: {} differ, {unexplained} of them without a reason",
        differing.len()
    );
    assert_eq!(unexplained, 0, "scripts differ from the kernel; see above");
}

#[test]
fn generated_sequences_trace_the_same_as_on_the_kernel() {
    let Some(programs) = Programs::compiled_or_skip() else { return };
    sequences::compare(&programs);
}

#[test]
fn generated_sequences_trace_the_same_by_shares_of_the_agent() {
    let Some(programs) = Programs::compiled_or_skip() else { return };
    sequences::compare_by_agent(&programs);
}

#[test]
fn generated_sequences_of_connections_trace_the_same_as_on_the_kernel() {
    let Some(programs) = Programs::compiled_or_skip() else { return };
    sequences::compare_connections(&programs);
}

#[test]
fn scripts_on_stock_kernel_6_1() {
    stock_kernels::compare_on(StockKernel::Linux6_1);
}

#[test]
fn scripts_on_stock_kernel_6_12() {
    stock_kernels::compare_on(StockKernel::Linux6_12);
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn scripts_on_stock_kernel_newest() {
    stock_kernels::compare_on(StockKernel::Newest);
}

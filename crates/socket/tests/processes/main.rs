//! Generated sequences of bind, connect, fork, exec, close, kill, the end of an agent and of a link over several programs, in virtual time: who
//! gets a datagram is held against a model of who has the socket it is for.
//!
//! Each program is a process of its own, so a fork copies its memory and descriptors as the kernel does, and makes the calls that the preload
//! library makes. One of them goes on at a time, by commands of the simulation, which has the network card and the agent: all that happens
//! follows from a seed. Sockets of the kernel are real ones in a network namespace. Needs root (or says SKIP).
//!
//! Every datagram has a number. It comes to a program that has its socket, once for each time that the card brought it; or the socket was
//! closed, or it was on its way to a program that was killed. The table that steers names no program that has not the socket.
//!
//! A sequence that fails is printed with its seed, as short as it still fails. `NEARWIRE_SIMULATION_SEED=N cargo test -p nearwire-socket --test
//! processes` runs one again, `NEARWIRE_SIMULATION_SEEDS=N` so many, from `NEARWIRE_SIMULATION_FROM=N` on, of `NEARWIRE_SIMULATION_STEPS=N`
//! steps; `NEARWIRE_SIMULATION_TRACE=1` prints what happens.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod channel;
mod host;
mod library;
mod named;
mod program;
mod shared;
mod shorten;
mod step;
mod world;
mod zygote;

#[path = "../simulation/machine.rs"]
#[allow(dead_code, reason = "the other simulation has more of it")]
mod machine;
#[path = "../simulation/random.rs"]
mod random;
#[path = "../simulation/segment.rs"]
#[allow(dead_code, reason = "the other simulation has more of it")]
mod segment;
#[path = "../simulation/trace.rs"]
#[allow(dead_code, reason = "the other simulation has more of it")]
mod trace;

#[allow(dead_code, reason = "the other simulation has more of it")]
mod company;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use company::kernel::Kernel;
use host::Bed;
use machine::Surroundings;
use nearwire_sys::affinity;
use random::Random;
use segment::{Faults, Segment};
use shared::Shared;
use step::Step;
use trace::Trace;
use world::{Outcome, World};
use zygote::Zygote;

const NAME: &str = "sequences_over_several_programs_deliver_every_datagram_once";
const SEEDS: u64 = 3000;
const STEPS: u64 = 25;

fn chosen(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// What stays from one sequence to the next.
struct Runs {
    bed: Bed,
    zygote: Zygote,
}

impl Runs {
    fn run(&self, seed: u64, steps: &[Step], trace: &Rc<Trace>, sum: &mut Outcome) -> Result<(), String> {
        World::new(&self.bed, &self.zygote, seed, trace).run(steps, sum)
    }

    /// Whether those that failed once go well now.
    fn run_named(&self, sum: &mut Outcome) -> bool {
        let mut all_well = true;
        for named in &named::ALL {
            let Err(why) = self.run(named.seed, &named.steps(), &Rc::new(Trace::new()), sum) else { continue };
            println!("{} fails: {why}", named.name);
            let _ = self.run(named.seed, &named.steps(), &Rc::new(Trace::Printed), &mut Outcome::default());
            all_well = false;
        }
        all_well
    }

    /// Whether all went well.
    fn run_seed(&self, seed: u64, length: u64, sum: &mut Outcome) -> bool {
        let mut random = Random::new(seed);
        let steps: Vec<Step> = (0..length).map(|_| Step::any(&mut random)).collect();
        let Err(why) = self.run(seed, &steps, &Rc::new(Trace::new()), sum) else { return true };
        println!("NEARWIRE_SIMULATION_SEED={seed} fails: {why}");
        let fails = |steps: &[Step]| self.run(seed, steps, &Rc::new(Trace::Dropped), &mut Outcome::default()).err();
        let (shortest, why) = shorten::shorten(steps, why, fails);
        println!("as short as it fails, {} steps: {why}", shortest.len());
        let _ = self.run(seed, &shortest, &Rc::new(Trace::Printed), &mut Outcome::default());
        false
    }
}

/// What the last panic said, and where.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Panics are told of as failures are.
fn quiet() {
    std::panic::set_hook(Box::new(|panic| *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string()));
}

fn last_panic() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_list = std::env::args().any(|argument| argument == "--list");
    if is_list {
        return println!("{NAME}: test");
    }
    if !filters.is_empty() && !filters.iter().any(|filter| NAME.contains(filter.as_str())) {
        return;
    }
    let Some(kernel) = Kernel::lay() else { return };
    let inside = Rc::clone(&kernel);
    let (named_go_well, failed) = inside.enter(|| run_all(kernel));
    let all_well = named_go_well && failed.is_empty();
    println!("test {NAME} ... {}", if all_well { "ok" } else { "FAILED" });
    if !all_well {
        println!("{} sequences failed: {failed:?}", failed.len());
        std::process::exit(101);
    }
}

/// Whether the sequences with names went well, and the seeds of others that did not.
fn run_all(kernel: Rc<Kernel>) -> (bool, Vec<u64>) {
    quiet();
    // One process goes on at a time: to wake the next on another CPU takes longer than what it does (140 sequences a second, 350 on one CPU).
    let _ = affinity::pin_current_thread(affinity::current_cpu());
    let shared = Rc::new(Shared::new());
    let nowhere = Segment::new(Faults::NONE, Random::new(0), 1);
    let surroundings = Surroundings { segment: nowhere, ticks: Rc::new(Cell::new(0)), trace: Rc::new(Trace::Dropped) };
    let bed = Bed { shared, kernel, surroundings };
    let runs = Runs { zygote: Zygote::start(&bed), bed };
    let from = chosen("NEARWIRE_SIMULATION_FROM").unwrap_or(1);
    let seeds = match chosen("NEARWIRE_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => from..from + chosen("NEARWIRE_SIMULATION_SEEDS").unwrap_or(SEEDS),
    };
    let length = chosen("NEARWIRE_SIMULATION_STEPS").unwrap_or(STEPS);
    let mut sum = Outcome::default();
    let named_go_well = chosen("NEARWIRE_SIMULATION_SEED").is_some() || runs.run_named(&mut sum);
    let failed: Vec<u64> = seeds.filter(|seed| !runs.run_seed(*seed, length, &mut sum)).collect();
    println!("{sum:?}");
    (named_go_well, failed)
}

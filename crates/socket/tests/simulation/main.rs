//! Programs with an engine each on one segment in memory that loses, repeats and reorders frames, in virtual time: what each
//! socket got, held against what was sent.
//!
//! Every datagram has a number. It is delivered to the socket that it was sent to, whole, and as often as the wire brought it;
//! or the wire lost it, or the socket had no room, which its counter says. All that is random follows from one seed, which a
//! failure prints: `NEARWIRE_SIMULATION_SEED=N cargo test -p nearwire-socket --test simulation` runs that one again, and with
//! `NEARWIRE_SIMULATION_TRACE=1` prints what happens. `NEARWIRE_SIMULATION_SEEDS=N` runs so many, of
//! `NEARWIRE_SIMULATION_STEPS=N` steps: a million of short ones find what a thousand of long ones do not.
//!
//! Shadows are real sockets of the kernel, bound to addresses that this host does not have (`IP_FREEBIND`), so that the kernel has
//! no packet for them. No privilege is needed.
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod company;
mod machine;
mod program;
mod random;
mod segment;
mod trace;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use segment::Faults;
use world::{Plan, World};

const SEEDS: u64 = 12;

fn run(plan: Plan) {
    let plan = Plan { steps: steps(plan.steps), ..plan };
    with_each_seed(|seed| {
        World::new(plan, seed).run();
    });
}

fn chosen(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Steps of a run: those that are planned, unless the environment says how many.
fn steps(planned: u32) -> u32 {
    chosen("NEARWIRE_SIMULATION_STEPS").map_or(planned, |steps| steps as u32)
}

/// Runs something with each seed, and says which ones failed.
fn with_each_seed(mut run: impl FnMut(u64)) {
    let seeds = match chosen("NEARWIRE_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..chosen("NEARWIRE_SIMULATION_SEEDS").unwrap_or(SEEDS) + 1,
    };
    let mut failed = Vec::new();
    for seed in seeds {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = outcome {
            println!("NEARWIRE_SIMULATION_SEED={seed} runs this again");
            failed.push((seed, panic));
        }
    }
    println!("{} failed: {:?}", failed.len(), failed.iter().map(|(seed, _)| *seed).collect::<Vec<_>>());
    if let Some((_, panic)) = failed.into_iter().next() {
        resume_unwind(panic);
    }
}

/// One in so many frames.
const FAULTY: Faults = Faults { lost_one_in: 50, doubled_one_in: 40, late_one_in: 10 };

#[test]
fn two_programs_on_a_wire_without_faults_get_every_datagram_once() {
    run(Plan { programs: 2, sockets: 4, steps: 20_000, faults: Faults::NONE, ..Plan::default() });
}

#[test]
fn programs_on_a_faulty_wire_get_what_it_brings() {
    run(Plan { programs: 4, sockets: 6, steps: 20_000, faults: FAULTY, ..Plan::default() });
}

#[test]
fn readers_that_are_too_slow_lose_what_their_buffers_had_no_room_for_and_nothing_else() {
    run(Plan { programs: 2, sockets: 2, steps: 60_000, sends_per_read: 60, faults: FAULTY, ..Plan::default() });
}

#[test]
fn sockets_that_come_and_go_get_nothing_of_one_another() {
    run(Plan { programs: 3, sockets: 8, steps: 20_000, closes_one_in: 40, faults: FAULTY, ..Plan::default() });
}

#[test]
fn links_that_go_down_and_come_up_lose_no_datagram_that_had_arrived() {
    run(Plan { programs: 3, sockets: 4, steps: 20_000, flaps_one_in: 500, faults: FAULTY, ..Plan::default() });
}

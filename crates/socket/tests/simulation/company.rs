//! Several programs on each machine, with shares of one interface by an agent: sockets that share ports, connect, and are waited for by epoll,
//! programs that are killed, agents that end, links that go down. Who gets a datagram is held against a model of who has its flow.
//!
//! What no share has comes to real sockets of a kernel, in a network namespace of the test's. Needs root (or says SKIP).

mod house;
mod kernel;
mod member;
mod worker;
mod world;

use world::{Outcome, Plan, World};

use crate::FAULTY;

/// Runs a plan with each seed; so much of what arrived is to come by shares, in hundredths.
fn run(plan: Plan, steered_least: u64) {
    let Some(namespace) = kernel::lay() else { return };
    let mut sum = Outcome::default();
    let run = || {
        crate::with_each_seed(|seed| {
            let outcome = World::new(plan, seed).run();
            sum.sent += outcome.sent;
            sum.delivered += outcome.delivered;
            sum.arrived += outcome.arrived;
            sum.steered += outcome.steered;
            sum.lost_with_socket += outcome.lost_with_socket;
        });
    };
    namespace.enter(run).unwrap();
    println!("{sum:?}");
    assert!(sum.steered * 100 >= sum.arrived * steered_least, "they are accelerated: {sum:?}");
    assert!(sum.delivered * 3 > sum.sent, "they receive: {sum:?}");
}

#[test]
fn programs_with_shares_of_one_interface_each_get_their_own_datagrams() {
    run(Plan::default(), 60);
}

#[test]
#[ignore = "a run in several ends otherwise with the same seed: a connected socket of a group lacks its exact flow for a moment"]
fn programs_that_are_killed_leave_their_flows_to_others_who_lose_nothing() {
    run(Plan { kills_one_in: 300, faults: FAULTY, ..Plan::default() }, 50);
}

#[test]
#[ignore = "a run in several ends otherwise with the same seed: a connected socket of a group lacks its exact flow for a moment"]
fn agents_that_end_lose_no_datagram_and_the_next_ones_have_all_programs() {
    run(Plan { agent_ends_one_in: 2000, waits_one_in: 2000, kills_one_in: 500, ..Plan::default() }, 20);
}

#[test]
#[ignore = "a run in several ends otherwise with the same seed: a connected socket of a group lacks its exact flow for a moment"]
fn sockets_that_are_not_accelerated_get_what_is_theirs_when_the_agent_has_seen_them() {
    run(Plan { plain: 1, waits_one_in: 800, kills_one_in: 1000, ..Plan::default() }, 10);
}

#[test]
#[ignore = "a run in several ends otherwise with the same seed: a connected socket of a group lacks its exact flow for a moment"]
fn links_that_go_down_and_come_up_lose_no_datagram_that_had_arrived() {
    run(Plan { flaps_one_in: 1000, waits_one_in: 2000, kills_one_in: 1000, ..Plan::default() }, 10);
}

#[test]
#[ignore = "a run in several ends otherwise with the same seed: a connected socket of a group lacks its exact flow for a moment"]
fn all_at_once() {
    let plan = Plan {
        machines: 3,
        plain: 1,
        faults: FAULTY,
        kills_one_in: 400,
        agent_ends_one_in: 4000,
        flaps_one_in: 2000,
        waits_one_in: 1500,
        ..Plan::default()
    };
    run(plan, 5);
}

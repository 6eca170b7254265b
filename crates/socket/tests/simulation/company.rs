//! Several programs on each machine, with shares of one interface by an agent: sockets that share ports, connect, and are waited for by epoll,
//! programs that are killed, agents that end, links that go down. Who gets a datagram is held against a model of who has its flow.
//!
//! What no share has comes to real sockets of a kernel, in a network namespace of the test's. Needs root (or says SKIP).

mod account;
mod house;
mod kernel;
mod member;
mod worker;
mod world;

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use kernel::Kernel;
use world::{Outcome, Plan, World};

use crate::FAULTY;
use crate::trace::Trace;

/// Where a run in another process writes its course.
const COURSE_TO: &str = "NEARWIRE_SIMULATION_COURSE_TO";

const ALL: Plan = Plan {
    machines: 3,
    plain: 1,
    faults: FAULTY,
    kills_one_in: 400,
    agent_ends_one_in: 4000,
    flaps_one_in: 2000,
    waits_one_in: 1500,
    lends_one_in: 200,
    ..Plan::DEFAULT
};

/// Runs a plan with each seed; so much of what arrived is to come by shares, in hundredths.
fn run(plan: Plan, steered_least: u64) {
    let Some(kernel) = Kernel::lay() else { return };
    let plan = Plan { steps: crate::steps(plan.steps), ..plan };
    let mut sum = Outcome::default();
    let run = || {
        crate::with_each_seed(|seed| {
            let outcome = World::new(plan, seed, &kernel, Rc::new(Trace::new())).run();
            sum.sent += outcome.sent;
            sum.delivered += outcome.delivered;
            sum.arrived += outcome.arrived;
            sum.steered += outcome.steered;
            sum.lent += outcome.lent;
        });
    };
    kernel.enter(run);
    println!("{sum:?}");
    assert!(sum.steered * 100 >= sum.arrived * steered_least, "they are accelerated: {sum:?}");
    assert!(sum.delivered * 3 > sum.sent, "they receive: {sum:?}");
    assert_eq!(sum.lent > 0, plan.lends_one_in > 0, "{sum:?}");
}

/// What happens with a seed.
fn course(kernel: &Rc<Kernel>, plan: Plan, seed: u64) -> Vec<String> {
    let trace = Rc::new(Trace::kept());
    kernel.enter(|| World::new(plan, seed, kernel, Rc::clone(&trace)).run());
    trace.take()
}

#[test]
fn same_seed_takes_the_same_course_in_another_namespace_and_another_process() {
    let plan = Plan { steps: 6_000, kills_one_in: 200, agent_ends_one_in: 1000, waits_one_in: 700, ..ALL };
    let Some(kernel) = Kernel::lay() else { return };
    if let Some(path) = std::env::var_os(COURSE_TO) {
        return std::fs::write(path, course(&kernel, plan, 2).join("\n")).unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let elsewhere = |to: &Path| {
        let name = "company::same_seed_takes_the_same_course_in_another_namespace_and_another_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(COURSE_TO, to);
        assert!(kernel::beginning_processes(|| command.spawn()).unwrap().wait().unwrap().success());
        std::fs::read_to_string(to).unwrap().lines().map(str::to_owned).collect()
    };
    let of_two = [course(&kernel, plan, 1), course(&Kernel::lay().unwrap(), plan, 1)];
    let of_processes = [course(&kernel, plan, 2), elsewhere(file.path())];
    for [one, other] in [of_two, of_processes] {
        let parts = one.iter().zip(&other).position(|(one, other)| one != other);
        let parts = parts.or((one.len() != other.len()).then_some(one.len().min(other.len())));
        let from =
            |at: usize, course: &[String]| course[at.saturating_sub(5)..].iter().take(6).cloned().collect::<Vec<_>>();
        let told = parts.map(|at| (from(at, &one), from(at, &other)));
        assert!(told.is_none() && one.len() > 1000, "they part at {parts:?} of {}: {told:#?}", one.len());
    }
}

#[test]
fn programs_with_shares_of_one_interface_each_get_their_own_datagrams() {
    run(Plan::DEFAULT, 60);
}

#[test]
fn programs_that_are_killed_leave_their_flows_to_others_who_lose_nothing() {
    run(Plan { kills_one_in: 300, faults: FAULTY, ..Plan::DEFAULT }, 50);
}

#[test]
fn agents_that_end_lose_no_datagram_and_the_next_ones_have_all_programs() {
    run(Plan { agent_ends_one_in: 2000, waits_one_in: 2000, kills_one_in: 500, ..Plan::DEFAULT }, 20);
    run(Plan { agent_ends_one_in: 3000, kills_one_in: 1000, faults: FAULTY, ..Plan::DEFAULT }, 10);
}

#[test]
fn sockets_that_are_not_accelerated_get_what_is_theirs_when_the_agent_has_seen_them() {
    run(Plan { plain: 1, waits_one_in: 800, kills_one_in: 1000, ..Plan::DEFAULT }, 10);
}

#[test]
fn links_that_go_down_and_come_up_lose_no_datagram_that_had_arrived() {
    run(Plan { flaps_one_in: 1000, waits_one_in: 2000, kills_one_in: 1000, ..Plan::DEFAULT }, 10);
}

#[test]
fn sockets_that_are_lent_to_the_kernel_and_taken_back_lose_no_datagram() {
    run(Plan { lends_one_in: 20, ..Plan::DEFAULT }, 10);
    run(Plan { lends_one_in: 50, kills_one_in: 500, faults: FAULTY, ..Plan::DEFAULT }, 10);
}

#[test]
fn all_at_once() {
    run(ALL, 5);
}

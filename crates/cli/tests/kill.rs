//! kill -9 at any moment leaves nothing. A program of its own, because it compares the whole machine before and after.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Traces, assert_nothing_left, command, kill, may_run};
use nearwire_bench::order::Order;
use rustix::process::Signal;

const KILLS: usize = 25;
/// From the start of the program to well into its rounds.
const LATEST_MS: u64 = 1_000;

#[test]
fn killed_at_any_moment_leaves_nothing() {
    if !may_run() {
        return;
    }
    let before = Traces::now();
    // The moments are spread evenly and come in random order: the first ones hit the laying of the cable.
    for moment in Order::new(9).shuffled(KILLS) {
        let after_ms = LATEST_MS * moment as u64 / KILLS as u64;
        let mut measurement = command(&["bench", "--size", "64", "--time", "10s", "--quiet"]);
        let mut child = measurement.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        kill(child.id(), Signal::KILL);
        child.wait().unwrap();
        assert_nothing_left(&before, &format!("kill -9 after {after_ms} ms"));
    }
}

//! Signals in the middle of a measurement, and a responder that dies.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use common::{assert_says, command, kill, may_run, record, responder_of};
use rustix::process::Signal;

/// Starts a measurement of ten seconds that writes its samples as it goes, and waits for the first ones.
fn under_way(directory: &Path) -> Child {
    let (json, samples) = (directory.join("r.json"), directory.join("s.csv"));
    let mut measurement =
        command(&["bench", "udp/spin", "--size", "64", "--time", "10s", "--rounds", "400", "--quiet"]);
    measurement.arg("--json").arg(&json).arg("--samples").arg(&samples);
    let child = measurement.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(&samples).map_or(0, |file| file.len()) < 1000 {
        assert!(Instant::now() < give_up, "no samples came");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn ended(child: Child) -> Output {
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(6), "it did not end soon");
    output
}

#[test]
fn interrupted_measurement_keeps_what_was_measured() {
    if !may_run() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let directory = tempfile::tempdir().unwrap();
        let child = under_way(directory.path());
        kill(child.id(), signal);
        let output = ended(child);
        assert_says(&output, 130, &[]);
        assert!(common::text(&output).contains("udp/spin"), "the table shows what there is");
        let record = record(&directory.path().join("r.json"));
        assert_eq!(record["interrupted"], true);
        assert!(record["runs"][0]["samples"].as_u64().unwrap() > 0);
    }
}

#[test]
fn responder_gone_in_mid_run_is_said_and_results_are_kept() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let child = under_way(directory.path());
    kill(responder_of(child.id()).unwrap(), Signal::KILL);
    let output = ended(child);
    assert_says(&output, 4, &["has gone"]);
    assert!(record(&directory.path().join("r.json"))["runs"][0]["samples"].as_u64().unwrap() > 0);
}

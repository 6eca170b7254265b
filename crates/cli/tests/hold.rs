//! `nearwire tune hold`, and the units that run it. What it asks for here is longer than any idle state takes to leave: this
//! machine sleeps as before.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{NEARWIRE, assert_says, code, command, errors, kill, may_run, nearwire, text};
use rustix::process::Signal;

const LONG: [&str; 5] = ["tune", "hold", "--latency", "1s", "--"];

/// True where the device can be held.
fn may_hold() -> bool {
    if !may_run() {
        return false;
    }
    let is_there = Path::new("/dev/cpu_dma_latency").exists();
    if !is_there {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs /dev/cpu_dma_latency");
        println!("SKIP no /dev/cpu_dma_latency");
    }
    is_there
}

#[test]
fn program_ended_gives_its_exit_code_and_its_output_alone() {
    if !may_hold() {
        return;
    }
    let run = |script: &str| nearwire(&[&LONG[..], &["sh", "-c", script]].concat());
    let output = run("echo out; exit 7");
    assert_eq!((code(&output), text(&output).as_str()), (Some(7), "out\n"));
    assert!(errors(&output).contains(" us at most"), "{}", errors(&output));
    assert_eq!(code(&run("true")), Some(0));
    assert_eq!(code(&run("kill -9 $$")), Some(137));
    assert_says(&nearwire(&[&LONG[..], &["/nonexistent/program"]].concat()), 2, &["start /nonexistent/program"]);
}

#[test]
fn holder_told_to_end_tells_its_program() {
    if !may_hold() {
        return;
    }
    let mut holder =
        command(&[&LONG[..], &["sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"]].concat());
    let mut holder = holder.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut line).unwrap();
    kill(holder.id(), Signal::TERM);
    assert_eq!(holder.wait().unwrap().code(), Some(5));
}

#[test]
fn holder_without_a_program_ends_well_when_told_to() {
    if !may_hold() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let mut holder = command(&["tune", "hold", "--latency", "1s"]);
        let mut holder = holder.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut line).unwrap();
        assert!(line.ends_with("until Ctrl-C.\n"), "{line}");
        let start = Instant::now();
        kill(holder.id(), signal);
        assert_eq!(holder.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn latency_that_is_no_whole_number_of_microseconds_is_refused() {
    for latency in ["500ns", "2", "1h", "fast"] {
        assert_says(&nearwire(&["tune", "hold", "--latency", latency]), 2, &["--latency"]);
    }
}

#[test]
fn supplied_units_are_taken_by_systemd() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs systemd-analyze");
        println!("SKIP systemd-analyze is not installed");
        return;
    }
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd");
    let directory = tempfile::tempdir().unwrap();
    for (file, instance, command) in [
        ("nearwire-watch.service", "nearwire-watch.service", "tune watch"),
        ("nearwire-hold@.service", "nearwire-hold@2us.service", "tune hold --latency %i"),
    ] {
        let unit = fs::read_to_string(units.join(file)).unwrap();
        assert!(unit.contains(&format!("ExecStart=/usr/local/bin/nearwire {command}\n")), "{unit}");
        let path = directory.path().join(instance);
        fs::write(&path, unit.replace("/usr/local/bin/nearwire", NEARWIRE)).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = errors(&output);
        // It also speaks of units of this machine.
        let against: Vec<_> = said.lines().filter(|line| line.contains("nearwire")).collect();
        assert!(against.is_empty(), "{against:?}");
    }
}

//! `nearwire dataplane --topology port-vm-port`: a guest as the device under test.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nearwire_lab::made_or_skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{assert_says, code, command, errors, nearwire};

const GUEST: [&str; 7] = ["dataplane", "--topology", "port-vm-port", "--device", "l2/guest-kernel", "--size", "64"];

/// What this machine lacks is a reason to skip: the messages that say so name what to get.
fn may_run(said: &str) -> Option<()> {
    let is_missing =
        ["no kernel for a guest", "no program", "create a network namespace"].iter().any(|words| said.contains(words));
    made_or_skip(if is_missing { Err(said) } else { Ok(()) })
}

#[test]
fn devices_that_have_no_place_in_a_topology_are_refused() {
    let refused = |topology: &str, device: &str| nearwire(&["dataplane", "--topology", topology, "--device", device]);
    assert_says(&refused("port-host-port", "l2/guest-xdp"), 2, &["l2/guest-xdp does not belong", "one of io/xdp"]);
    assert_says(&refused("port-vm-port", "l2/xdp"), 2, &["l2/xdp does not belong", "l2/guest-xdp"]);
    assert_says(&refused("port-vm-port", "mac-swap/guest-xdp"), 2, &["is no device under test"]);
}

#[test]
fn kernel_that_is_not_there_is_told_with_where_one_comes_from() {
    let empty = tempfile::tempdir().unwrap();
    let output = command(&GUEST).env("NEARWIRE_GUEST_KERNEL", empty.path()).output().unwrap();
    if errors(&output).contains("create a network namespace") {
        return assert!(may_run(&errors(&output)).is_none());
    }
    assert_says(&output, 4, &[&empty.path().display().to_string(), "NEARWIRE_GUEST_KERNEL", "fetch-kernel"]);
}

#[test]
fn record_of_a_guest_has_its_parts_and_says_what_ran_it() {
    let words = ["--trial", "100ms", "--trials", "1", "--width", "50", "--format", "json", "--quiet"];
    let output = command(&[&GUEST[..], &words].concat()).output().unwrap();
    if may_run(&errors(&output)).is_none() {
        return;
    }
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = record["cells"][0]["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["generator", "host bridge", "l2/guest-kernel", "host bridge", "sink"]);
    let detail = parts[2]["detail"].as_str().unwrap();
    assert!(detail.contains("(KVM)") || detail.contains("(emulated in software"), "{detail}");
    let is_emulated = detail.contains("emulated");
    let warned = record["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "emulated-guest");
    assert_eq!(warned, is_emulated, "{}", record["warnings"]);
    assert_eq!(parts[1]["interfaces"], serde_json::json!(["nw1", "nwtap0"]));
}

#[test]
fn interrupt_ends_a_measurement_with_a_guest_and_keeps_its_words() {
    let words = ["--trial", "2s", "--format", "json"];
    let mut child = command(&[&GUEST[..], &words].concat());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::with_capacity(1, child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("1 of 1") && said.read_line(&mut line).unwrap() > 0 {}
    child.stderr = Some(said.into_inner());
    // While it boots, or in a trial: either is ended.
    std::thread::sleep(Duration::from_secs(6));
    if child.try_wait().unwrap().is_some() {
        let output = child.wait_with_output().unwrap();
        return assert!(may_run(&errors(&output)).is_none(), "{}", errors(&output));
    }
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), errors(&output).as_str()), (Some(130), ""));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["interrupted"], true);
}

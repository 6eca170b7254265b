//! `nearwire plan` on described hosts, from typing to exit code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{DECK, assert_says, code, described, errors, nearwire, text};
use nearwire_lab::host_tree::{HostTree, shapes};
use serde_json::Value;
use tempfile::TempDir;

fn host(name: &str) -> TempDir {
    described(&HostTree::named(name).unwrap())
}

fn plan(host: &Path, args: &[&str]) -> Output {
    let mut all = vec!["plan", "--sysroot", host.to_str().unwrap()];
    all.extend(args);
    nearwire(&all)
}

#[test]
fn deck_asked_prints_its_isolated_cpus_and_pins() {
    let host = host("opennfp");
    let output = plan(host.path(), &DECK);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let text = text(&output);
    for part in [
        "isolcpus=2-23,26-47",
        "hugepagesz=1G hugepages=0:16",
        "virsh vcpupin VM00 1 32",
        "virsh emulatorpin VM03 0,24",
        "pollers: numactl --physcpubind=2,4,26,28 --membind=0 PROGRAM",
        "CPUs for the application: 0 by default",
        "CPUs for interrupts: 0 by default",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn plan_as_json_has_what_follows_and_can_be_shown_again() {
    let host = host("vma");
    let output = plan(host.path(), &["--nic", "enp5s0", "enp5s0d1", "--app-cpus", "2", "--json"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let json: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some("nearwire-plan"), Some(1)));
    assert_eq!(json["asked"]["app_cpus"], 2);
    assert_eq!(json["nics"].as_array().unwrap().len(), 2);
    // CPUs of node 0 have even numbers; 0 is the OS's, 2 takes the interrupts.
    assert_eq!(json["derived"]["boot"][0], "isolcpus=4,6");

    let file = host.path().join("plan.json");
    std::fs::write(&file, text(&output)).unwrap();
    let again = plan(host.path(), &["--from", file.to_str().unwrap(), "--json"]);
    assert_eq!(text(&again), text(&output));
}

#[test]
fn picture_asked_for_is_written_and_stands_alone() {
    let host = host("opennfp");
    let file = host.path().join("plan.svg");
    let mut args = DECK.to_vec();
    args.extend(["--svg", file.to_str().unwrap()]);
    assert_eq!(code(&plan(host.path(), &args)), Some(0));
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("VM03") && svg.contains("enp5s0np0"));
    for foreign in ["<script", "href", "@import", "url(http", "<image"] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    let nowhere = plan(host.path(), &["--nic", "enp5s0np0", "--svg", "/nonexistent/plan.svg"]);
    assert_says(&nowhere, 4, &["/nonexistent/plan.svg"]);
}

#[test]
fn more_cpus_than_the_node_has_asked_is_what_the_host_cannot() {
    let host = host("exanic");
    let output = plan(host.path(), &["--nic", "enp1s0", "--app-cpus", "4"]);
    assert_says(&output, 3, &["--app-cpus", "needs 4 CPUs", "3 free cores", "(1-3)"]);
    assert!(output.stdout.is_empty());
    let output = plan(host.path(), &["--nic", "enp1s0", "--guest", "a:2:64G"]);
    assert_says(&output, 3, &["65536 MiB", "16384 MiB"]);
}

#[test]
fn wrong_words_are_usage_errors_that_say_what_there_is() {
    let host = host("vma");
    assert_says(&plan(host.path(), &["--nic", "eth7"]), 2, &["no interface eth7", "enp5s0, enp5s0d1"]);
    assert_says(&plan(host.path(), &["--nic", "enp5s0", "--node", "3"]), 2, &["node 3", "0, 1"]);
    assert_says(&plan(host.path(), &["--nic", "enp5s0", "--guest", "a:2"]), 2, &["NAME:VCPUS:MEM"]);
    assert_says(&nearwire(&["plan", "--sysroot", "/nonexistent", "--nic", "eth0"]), 2, &["/nonexistent"]);
    let empty = tempfile::tempdir().unwrap();
    assert_says(&plan(empty.path(), &["--nic", "eth0"]), 3, &["/sys/devices/system/cpu/online"]);
}

#[test]
fn plan_of_another_host_or_no_plan_at_all_is_refused() {
    let (large, small) = (host("opennfp"), host("exanic"));
    let file = large.path().join("plan.json");
    std::fs::write(&file, text(&plan(large.path(), &["--nic", "enp5s0np0", "--json"]))).unwrap();
    let file = file.to_str().unwrap();
    assert_says(&plan(small.path(), &["--from", file]), 2, &["CPUs 4-47", "plan again"]);
    assert_says(&plan(small.path(), &["--from", "/proc/self/limits"]), 2, &["is not a plan"]);
    assert_says(&plan(small.path(), &["--from", file, "--app-cpus", "1"]), 2, &["--app-cpus"]);
}

#[test]
fn setting_of_a_copied_host_is_read_from_the_copy() {
    let host = host("opennfp");
    let output = nearwire(&["settings", "cpu.model", "--sysroot", host.path().to_str().unwrap()]);
    assert!(text(&output).contains("E5-2690 v3"), "{}", text(&output));
}

#[test]
fn host_planned_without_an_interface_says_what_is_not_placed() {
    let host = host("vma");
    let output = plan(host.path(), &["--app-cpus", "2"]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let text = text(&output);
    assert!(text.starts_with("Plan: 12 CPUs") && text.contains("No interface is named (--nic)"), "{text}");
}

/// An archive with a directory above the host's, of more CPUs than most have: checked and planned as it is.
#[test]
fn archive_of_1024_cpus_is_checked_and_planned() {
    let shape = shapes().unwrap().into_iter().find(|shape| shape.name == "x86-1024-cpus").unwrap();
    let host = described(&shape.tree());
    let work = tempfile::tempdir().unwrap();
    let archive = work.path().join("host.tar.gz");
    let archive = archive.to_str().unwrap();
    let tar = ["-czf", archive, "--transform", "s,^[.],sosreport-host1,", "-C", host.path().to_str().unwrap(), "."];
    assert!(std::process::Command::new("tar").args(tar).status().unwrap().success());
    let planned = nearwire(&["plan", "--snapshot", archive, "--app-cpus", "32", "--smt-off"]);
    assert_eq!(code(&planned), Some(0), "{}", errors(&planned));
    assert!(text(&planned).starts_with("Plan: 512 CPUs, 512 cores, 8 packages"), "{}", text(&planned));
    let checked = nearwire(&["check", "--snapshot", archive]);
    assert!(code(&checked).is_some_and(|code| code <= 1), "{}", errors(&checked));
    let said = text(&checked);
    assert!(!said.contains("not installed") && !said.contains("built without"), "{said}");
}

#[test]
fn interface_named_twice_is_planned_once() {
    let host = host("vma");
    let once = plan(host.path(), &["--nic", "enp5s0"]);
    assert_eq!(text(&plan(host.path(), &["--nic", "enp5s0", "enp5s0"])), text(&once));
}

#[test]
fn json_that_is_no_object_is_no_plan() {
    let host = host("vma");
    let file = host.path().join("plan.json");
    for wrong in ["[]", "null", "7"] {
        std::fs::write(&file, wrong).unwrap();
        assert_says(
            &plan(host.path(), &["--from", file.to_str().unwrap()]),
            2,
            &["is not a plan: it is no JSON object"],
        );
    }
}

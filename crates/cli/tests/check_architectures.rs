//! `nearwire check` of machines of other architectures: advice about what they cannot have is not shown.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;

use common::{described, nearwire, text};
use nearwire_lab::host_tree::{HostTree, shapes};
use tempfile::TempDir;

/// What only x86 processors, their firmware and their kernels have, as far as the profiles wish something of it.
const OF_X86: [&str; 15] = [
    "cpu.amd-pstate.",
    "cpu.energy-performance-bias",
    "cpu.energy-performance-preference",
    "cpu.pstate.",
    "cpu.uncore.",
    "firmware.amd.",
    "firmware.c1e",
    "firmware.execute-disable",
    "firmware.package-c-state",
    "firmware.prefetcher.",
    "firmware.smi.",
    "kernel.split_lock_mitigate",
    "noise.machine-check-interval",
    "Intel",
    "AMD",
];

/// A copy of a server, with its interfaces and kernel parameters, whose processors are those of a shape.
fn server_with(shape: &str) -> TempDir {
    let host = described(&HostTree::named("vma").unwrap());
    let sys = host.path().join("sys/devices/system");
    for own in ["cpu", "node", "machinecheck"] {
        fs::remove_dir_all(sys.join(own)).unwrap();
    }
    fs::remove_file(host.path().join("proc/cpuinfo")).unwrap();
    let shape = shapes().unwrap().into_iter().find(|one| one.name == shape).unwrap();
    shape.tree().write(host.path()).unwrap();
    host
}

/// The page without the sources of the advice, which name what they name.
fn page(host: &TempDir, profile: &str) -> String {
    let output = nearwire(&["check", "--profile", profile, "--sysroot", host.path().to_str().unwrap()]);
    let said = text(&output);
    assert!(said.contains("vm.swappiness"), "{said}{}", common::errors(&output));
    said.lines().filter(|line| !line.starts_with("    source ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_only_x86_processors_have_is_not_shown_of_a_machine_with_others() {
    for shape in
        ["arm64-80-cores", "arm64-grace-memory-nodes", "s390-books", "s390-guest-of-zvm", "power9-2-nodes-sparse"]
    {
        let host = server_with(shape);
        for profile in ["latency", "raw-frame", "socket-bypass", "bulk"] {
            let said = page(&host, profile);
            let shown: Vec<_> = OF_X86.into_iter().filter(|words| said.contains(words)).collect();
            assert!(shown.is_empty(), "{shape} {profile} {shown:?}: {said}");
        }
    }
}

#[test]
fn what_x86_processors_have_and_a_copy_lacks_is_shown_as_not_judged() {
    let host = server_with("x86-2-packages");
    let said = page(&host, "latency");
    for words in
        ["cpu.pstate.max-percent", "firmware.c1e", "firmware.smi.power-monitoring", "cpu.energy-performance-bias"]
    {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
}

#[test]
fn counter_that_an_architecture_has_alone_is_as_wanted() {
    for (shape, clocksource) in
        [("s390-books", "tod"), ("power9-2-nodes-sparse", "timebase"), ("arm64-80-cores", "arch_sys_counter")]
    {
        let host = server_with(shape);
        fs::write(host.path().join("sys/devices/system/clocksource/clocksource0/current_clocksource"), clocksource)
            .unwrap();
        let said = page(&host, "latency");
        assert!(!said.contains("clock.clocksource"), "{shape}: {said}");
    }
}

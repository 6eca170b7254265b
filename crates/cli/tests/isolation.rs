//! CPUs isolated and kept awake while a host runs, on an emulated host: this machine's own stay as they are.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{HostHardware, HostNic, NicKind};
use serde_json::Value;

use common::emulated::{booted_or_skip, setting};

const APPLY: &str = "nearwire tune apply --yes --profile latency --plan /tmp/plan.json --only cpu.isolated";
const REVERT: &str = "nearwire tune revert --yes";

fn hardware() -> HostHardware {
    HostHardware {
        packages: 1,
        cores_per_package: 4,
        threads_per_core: 1,
        node_memory_mib: vec![512],
        nics: vec![HostNic::new(NicKind::VirtioNet)],
        ..HostHardware::default()
    }
}

#[test]
fn cpus_are_isolated_by_a_partition_and_held_awake_and_all_goes_back() {
    let Some(mut host) = booted_or_skip(&hardware(), "") else { return };
    host.output_of("nearwire plan --nic nic0 --app-cpus 2 --json > /tmp/plan.json").unwrap();
    let untouched = state(&mut host);
    plan_applied_isolates_its_cpus_and_check_is_right(&mut host);
    host.output_of(REVERT).unwrap();
    assert_eq!(state(&mut host), untouched, "after a revert");
    apply_killed_is_reverted(&mut host, &untouched);
    overlap_is_told_in_the_words_of_the_kernel(&mut host, &untouched);
    group_in_use_is_told(&mut host, &untouched);
    resume_latency_is_written_and_put_back(&mut host);
    request_lasts_as_long_as_its_holder(&mut host);

    host.reboot_with("isolcpus=2").unwrap();
    host.output_of("nearwire plan --nic nic0 --app-cpus 2 --json > /tmp/plan.json").unwrap();
    let untouched = state(&mut host);
    let said = refused(&mut host, APPLY);
    assert!(said.contains("housekeeping") && said.contains("isolcpus="), "{said}");
    assert_eq!(state(&mut host), untouched, "after the kernel refused");
}

/// The groups, their controllers, the isolated CPUs and those of the kernel's own work.
fn state(host: &mut EmulatedHost) -> String {
    let files = "cd /sys/fs/cgroup && echo */ && cat cgroup.subtree_control cpuset.cpus.isolated";
    host.output_of(&format!("{files} && cat /sys/devices/virtual/workqueue/cpumask")).unwrap()
}

/// Waits until a command is true.
#[track_caller]
fn until(host: &mut EmulatedHost, command: &str) {
    let script = format!("for i in $(seq 100); do {command} && exit 0; usleep 100000; done; exit 1");
    assert_eq!(host.run(&script).unwrap().status, 0, "'{command}' did not come true");
}

/// What a command that must fail says.
#[track_caller]
fn refused(host: &mut EmulatedHost, command: &str) -> String {
    let output = host.run(command).unwrap();
    assert_ne!(output.status, 0, "{}", output.text());
    output.errors()
}

fn outcome(host: &mut EmulatedHost) -> (String, String) {
    let output = host.run("nearwire check --profile latency --plan /tmp/plan.json --json").unwrap();
    let page: Value = serde_json::from_str(&output.text()).unwrap();
    let findings = page["findings"].as_array().unwrap();
    let isolated =
        findings.iter().find(|finding| finding["id"] == "cpu.isolated" && finding["outcome"] != "not-applicable");
    let isolated = isolated.unwrap_or_else(|| panic!("{page:#}"));
    let word = |key: &str| isolated[key].as_str().unwrap_or_default().to_owned();
    (word("outcome"), word("wanted"))
}

fn plan_applied_isolates_its_cpus_and_check_is_right(host: &mut EmulatedHost) {
    assert_eq!(outcome(host).0, "differs");
    let said = host.output_of(APPLY).unwrap();
    assert!(said.contains("cpu.isolated[controller]") && said.contains("none -> 2-3"), "{said}");
    assert_eq!(setting(host, "cpu.isolated.cgroup"), "2-3");
    assert_eq!(host.output_of("cat /sys/fs/cgroup/nearwire.isolated/cpuset.cpus.partition").unwrap(), "isolated");
    assert_eq!(host.output_of("cat /sys/devices/virtual/workqueue/cpumask").unwrap(), "3");
    assert_eq!(outcome(host).0, "ok");
    assert!(host.output_of(APPLY).unwrap().contains("Nothing to write now"));
    // A CPU that goes offline and comes back changes nothing.
    host.output_of("echo 0 > /sys/devices/system/cpu/cpu3/online").unwrap();
    assert!(!host.output_of("nearwire tune status").unwrap().contains("changed"));
    host.output_of("echo 1 > /sys/devices/system/cpu/cpu3/online").unwrap();
}

/// Killed once the journal, the group or its CPUs are seen, or whatever comes next.
fn apply_killed_is_reverted(host: &mut EmulatedHost, untouched: &str) {
    const GROUP: &str = "/sys/fs/cgroup/nearwire.isolated";
    for seen in
        ["/var/lib/nearwire/journal/journal".to_owned(), GROUP.to_owned(), format!("{GROUP}/cpuset.cpus.partition")]
    {
        let wait = format!("while [ ! -e {seen} ] && [ -e /proc/$p ]; do :; done; kill -9 $p; wait $p");
        let output = host.run(&format!("{APPLY} >/dev/null 2>&1 & p=$!; {wait}; {REVERT}")).unwrap();
        assert!(output.text().ends_with("Everything is back."), "{}", output.text());
        assert_eq!(state(host), untouched, "killed after {seen} was there");
    }
}

fn overlap_is_told_in_the_words_of_the_kernel(host: &mut EmulatedHost, untouched: &str) {
    let other =
        "cd /sys/fs/cgroup && echo +cpuset > cgroup.subtree_control && mkdir other && echo 3 > other/cpuset.cpus";
    host.output_of(other).unwrap();
    let said = refused(host, APPLY);
    assert!(said.contains("isolated invalid (Cpu list in cpuset.cpus not exclusive)"), "{said}");
    assert!(said.contains("everything is as it was"), "{said}");
    host.output_of("cd /sys/fs/cgroup && rmdir other && echo -cpuset > cgroup.subtree_control").unwrap();
    assert_eq!(state(host), untouched, "after the kernel refused");
}

fn group_in_use_is_told(host: &mut EmulatedHost, untouched: &str) {
    host.output_of(APPLY).unwrap();
    host.output_of("sleep 600 >/dev/null 2>&1 & echo $! > /sys/fs/cgroup/nearwire.isolated/cgroup.procs").unwrap();
    let output = host.run(REVERT).unwrap();
    let said = output.text() + &output.errors();
    assert!(said.contains("nearwire.isolated/cgroup.procs"), "{said}");
    assert_eq!(host.output_of("cat /sys/fs/cgroup/cpuset.cpus.isolated").unwrap(), "", "the CPUs were not given back");
    host.output_of("kill $(cat /sys/fs/cgroup/nearwire.isolated/cgroup.procs)").unwrap();
    until(host, "[ -z \"$(cat /sys/fs/cgroup/nearwire.isolated/cgroup.procs)\" ]");
    host.output_of(REVERT).unwrap();
    assert_eq!(state(host), untouched, "after a second revert");
}

fn resume_latency_is_written_and_put_back(host: &mut EmulatedHost) {
    let profile = "purpose = \"CPUs that do not sleep\"\n\n[[wish]]\n\
                   setting = \"cpu.pm-qos-resume-latency-us\"\none-of = [\"n/a\", 1, 2]\nreason = \"A test.\"\n\
                   source = \"Documentation/ABI/testing/sysfs-devices-power\"\n";
    host.write_file("/tmp/awake.toml", profile.as_bytes()).unwrap();
    let files = "cat /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us | sort -u";
    assert_eq!(host.output_of(files).unwrap(), "0");
    host.output_of("nearwire tune apply --yes --profile /tmp/awake.toml").unwrap();
    assert_eq!(host.output_of(files).unwrap(), "n/a");
    assert!(host.output_of("nearwire check --profile /tmp/awake.toml").is_ok());
    host.output_of(REVERT).unwrap();
    assert_eq!(host.output_of(files).unwrap(), "0");
}

fn request_lasts_as_long_as_its_holder(host: &mut EmulatedHost) {
    const NO_REQUEST: &str = "2000000000";
    let profile = "purpose = \"A short wake-up\"\n\n[[wish]]\nsetting = \"cpu.dma-latency-us\"\nat-most = 2\n\
                   reason = \"A test.\"\nsource = \"Documentation/power/pm_qos_interface.rst\"\n";
    host.write_file("/tmp/held.toml", profile.as_bytes()).unwrap();
    let check = |host: &mut EmulatedHost| host.run("nearwire check --profile /tmp/held.toml").unwrap();
    let told = check(host).text();
    assert!(told.contains("nearwire tune hold --latency 2us"), "{told}");
    let told = host.output_of("nearwire tune plan --profile /tmp/held.toml").unwrap();
    assert!(told.contains("nearwire tune hold -- PROGRAM"), "{told}");
    let in_effect = "od -An -td4 /dev/cpu_dma_latency";
    let output = host.run(&format!("nearwire tune hold --latency 5us -- sh -c '{in_effect}; exit 7'")).unwrap();
    assert_eq!((output.status, output.text().as_str()), (7, "5"), "{}", output.errors());
    assert_eq!(host.output_of(in_effect).unwrap(), NO_REQUEST);

    host.output_of("nearwire tune hold >/tmp/held 2>&1 & echo $! > /tmp/holder").unwrap();
    until(host, "grep -q until /tmp/held");
    assert_eq!(host.output_of(in_effect).unwrap(), "2");
    assert_eq!(setting(host, "cpu.dma-latency-us"), "2");
    assert_eq!(check(host).status, 0);
    let second = host.run("nearwire tune hold --latency 20us -- true").unwrap();
    assert!(second.errors().contains("2 us at most: another program asks for less than 20 us"), "{}", second.errors());
    host.output_of("kill $(cat /tmp/holder)").unwrap();
    until(host, "[ ! -e /proc/$(cat /tmp/holder) ]");
    assert_eq!(host.output_of(in_effect).unwrap(), NO_REQUEST);
    assert_eq!(host.output_of("cat /tmp/held").unwrap(), "A wake-up takes 2 us at most, held until Ctrl-C.");
}

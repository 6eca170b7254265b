//! A whole emulated host with the command under test in it, and what its settings say.

use std::collections::{BTreeMap, BTreeSet};

use nearwire_lab::emulated_host::{
    FileStates, HostHardware, HostNic, HostSystem, NicKind, PciePort, SmbiosTable, StockKernel,
};
use nearwire_lab::{EmulatedHost, emulated_or_skip};
use serde_json::Value;

use super::NEARWIRE;

/// Files that a setting of the catalogue may change, and that say the same after each boot with the same options.
pub const SETTING_FILES: [&str; 29] = [
    "/etc/default/grub.d/*",
    "/etc/modprobe.d/*",
    "/etc/sysctl.d/*",
    "/etc/tmpfiles.d/*",
    "/etc/udev/rules.d/*",
    "/etc/systemd/network/*",
    "/etc/systemd/system/*",
    "/etc/systemd/system/*/*",
    "/usr/local/lib/nearwire/*",
    "/proc/cmdline",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity_list",
    // Not random numbers, process numbers and the state of terminals.
    "/proc/sys/kernel/[!nprs]*",
    "/proc/sys/kernel/numa_balancing*",
    "/proc/sys/kernel/sched_*",
    // Not the random key of receive-side scaling.
    "/proc/sys/net/core/[!n]*",
    "/proc/sys/net/core/netdev_[!r]*",
    "/proc/sys/net/ipv4/tcp_[!mf]*",
    // Not user_reserve_kbytes, which follows the memory that was free.
    "/proc/sys/vm/[!u]*",
    "/sys/class/net/*/gro_flush_timeout",
    "/sys/class/net/*/mtu",
    "/sys/class/net/*/queues/*/[rx]ps_*",
    "/sys/devices/system/cpu/*",
    "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
    "/sys/kernel/mm/transparent_hugepage/*",
];

/// The command, and what exported files call. They are written for the shell of a distribution, not for busybox, whose shell
/// takes its own `ip`.
const PROGRAMS: [&str; 5] = [NEARWIRE, "/usr/sbin/ethtool", "/bin/ip", "/sbin/tc", "/bin/sh"];

/// Beginnings of ids of settings that change by themselves.
const CHANGING: &[&str] = &[
    "memory.available",
    "memory.free-blocks",
    "memory.node-free",
    "nic.byte-queue-limit",
    "nic.carrier-changes",
    "noise.",
    "cpu.throttle-count",
    "nic.pcie.errors",
    "stack.softnet",
];

/// Two packages of two cores with two threads each, two nodes, a NIC of each kind, and interrupts whose affinity is in effect
/// when it was written.
pub fn hardware() -> HostHardware {
    let port = PciePort { speed_gt_s: "8".to_owned(), lanes: 8 };
    HostHardware {
        packages: 2,
        cores_per_package: 2,
        threads_per_core: 2,
        node_memory_mib: vec![320, 256],
        nics: vec![
            HostNic { port: Some(port), ..HostNic::new(NicKind::E1000e).on_node(1) },
            HostNic::new(NicKind::Vmxnet3).on_node(0),
            HostNic { queues: 2, ..HostNic::new(NicKind::VirtioNet) },
        ],
        has_iommu: true,
        smbios: vec![SmbiosTable::new(1, &[("manufacturer", "Example, Inc"), ("product", "Two Packages")])],
        ..HostHardware::default()
    }
}

/// A booted host, if this machine can emulate one. Otherwise the test is skipped, or fails where nothing may be skipped.
pub fn booted_or_skip(hardware: &HostHardware, command_line: &str) -> Option<EmulatedHost> {
    booted_with_or_skip(hardware, command_line, &[])
}

/// The same with more programs and libraries, each as `/bin/NAME`.
pub fn booted_with_or_skip(hardware: &HostHardware, command_line: &str, more: &[&str]) -> Option<EmulatedHost> {
    booted_on_or_skip(StockKernel::Linux6_12, hardware, command_line, more)
}

/// The same on a kernel.
pub fn booted_on_or_skip(
    kernel: StockKernel,
    hardware: &HostHardware,
    command_line: &str,
    more: &[&str],
) -> Option<EmulatedHost> {
    let programs = [&PROGRAMS[..], more].concat();
    if let Some(missing) = programs.iter().find(|path| !std::path::Path::new(path).exists()) {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but there is no {missing}");
        println!("SKIP no {missing}");
        return None;
    }
    let system = HostSystem::of_target(env!("CARGO_TARGET_TMPDIR"), &programs).with_kernel(kernel);
    emulated_or_skip(EmulatedHost::boot(hardware, &system, command_line))
}

/// What `nearwire settings` inside says of one setting: the value, or why there is none.
#[track_caller]
pub fn setting(host: &mut EmulatedHost, id: &str) -> String {
    settings(host, &format!("'{id}'")).remove(id).unwrap_or_else(|| panic!("{id} is not told"))
}

/// Values, or why there is none, by id with the interface in brackets.
fn settings(host: &mut EmulatedHost, which: &str) -> BTreeMap<String, String> {
    let text = host.output_of(&format!("nearwire settings {which} --json")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let mut known = BTreeMap::new();
    for setting in list.as_array().unwrap() {
        for now in setting["now"].as_array().unwrap() {
            known.insert(
                now["id"].as_str().unwrap().to_owned(),
                now["value"].as_str().map_or_else(|| now.to_string(), str::to_owned),
            );
        }
    }
    known
}

/// All settings without those that change by themselves.
pub fn settings_now(host: &mut EmulatedHost) -> BTreeMap<String, String> {
    let mut known = settings(host, "--now");
    known.retain(|id, _| !CHANGING.iter().any(|start| id.starts_with(start)));
    known
}

#[track_caller]
pub fn assert_settings(known: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    let told: Vec<_> =
        expected.iter().map(|(id, _)| (*id, known.get(*id).map_or("not told", String::as_str))).collect();
    assert_eq!(told, expected);
}

/// The settings whose values differ, with both values.
pub fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let ids: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differing = ids.into_iter().filter(|id| before.get(*id) != after.get(*id));
    differing.map(|id| format!("{id}: {:?} -> {:?}", before.get(id), after.get(id))).collect()
}

/// Boots with what is exported now, which after a revert is nothing. Gives the files after it.
pub fn rebooted_as_exported(host: &mut EmulatedHost) -> FileStates {
    let options = host.exported_command_line().unwrap();
    host.reboot_with(&options).unwrap();
    host.file_states(&SETTING_FILES).unwrap()
}

/// Fails with each file that differs.
#[track_caller]
pub fn assert_same(before: &FileStates, after: &FileStates, when: &str) {
    let changes: Vec<_> = before.changes(after).iter().map(ToString::to_string).collect();
    assert!(changes.is_empty(), "{when}:\n{}", changes.join("\n"));
}

//! The whole catalogue, read from each described host.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use nearwire_host::{Reading, Root, catalogue, interfaces, read_settings};
use nearwire_lab::host_tree::{HOSTS, HostTree, scratch_directory};

/// What none of these hosts has, so that their trees have no directory for it. A live host would
/// say that it does not have the thing; of a copy nobody can know.
const NOT_COPIED: &[&str] = &[
    "/etc/chrony",
    "/etc/linuxptp",
    "/etc/selinux",
    "/etc/sysconfig",
    "/etc/tuned",
    "/sys/devices/system/cpu/amd_pstate",
    "/sys/devices/system/edac/mc",
    "/sys/devices/system/edac",
    "/sys/firmware/acpi",
    "/sys/firmware/dmi",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/selinux/avc",
    "/sys/hypervisor",
    "/sys/module/ena",
    "/sys/module/mlx4_core",
];
/// What files cannot say.
const LIVE_ONLY: &[&str] = &[
    "cannot be read here because",
    "only the live kernel can be asked",
    "only the live host can be asked",
    "on a live host or from a snapshot only",
];

fn readings(name: &str) -> BTreeMap<String, Reading> {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    HostTree::named(name).unwrap().write(directory.path()).unwrap();
    let root = Root::directory(directory.path()).unwrap();
    let settings: Vec<_> = catalogue::settings().collect();
    read_settings(&root, &settings, &interfaces(&root).unwrap()).into_iter().collect()
}

fn is_expected(why: &str) -> bool {
    let not_copied = why.split_once(" has no copy of ").is_some_and(|(_, path)| NOT_COPIED.contains(&path));
    not_copied || LIVE_ONLY.iter().any(|words| why.contains(words))
}

#[test]
fn every_setting_read_from_a_described_host_is_a_value_or_an_expected_unknown() {
    for (name, _) in HOSTS {
        let readings = readings(name);
        assert!(readings.len() > 300, "{name}");
        for (id, reading) in readings {
            match reading {
                Reading::NeedsRoot => panic!("{name} {id} needs root"),
                Reading::Unknown { why } => assert!(is_expected(&why), "{name} {id}: {why}"),
                Reading::Value(value) => assert!(!value.contains("unknown"), "{name} {id}: {value}"),
                Reading::Unsupported => {}
            }
        }
    }
}

/// One row for each fact a paper prints, and for each default it changes.
#[test]
fn described_host_read_has_what_its_paper_says() {
    const EVEN: &str = "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46";
    let facts = [
        ("exanic", "cpu.model", "Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz"),
        ("exanic", "cpu.frequency.now-khz", "1600000"),
        ("exanic", "cpu.online", "0-3"),
        ("exanic", "nic.pcie.path[enp1s0]", "0000:00:01.1 0000:02:00.0"),
        ("exanic", "nic.pcie.path[enp1s0d1]", "0000:00:01.1 0000:02:00.0"),
        ("exanic", "nic.pcie.speed[enp1s0]", "8.0 GT/s PCIe"),
        ("exanic", "nic.numa-node[enp1s0]", "-1"),
        ("opennfp", "cpu.cores", "24"),
        ("opennfp", "cpu.threads", "48"),
        ("opennfp", "nic.numa-node[enp5s0np0]", "0"),
        ("opennfp", "nic.local-cpus[enp5s0np0]", EVEN),
        ("vma", "cpu.model", "Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz"),
        ("vma", "memory.node-cpus", "0,2,4,6,8,10 (node0), 1,3,5,7,9,11 (node1)"),
        ("vma", "cpu.smt", "notsupported"),
        ("vma", "nic.driver[enp5s0d1]", "mlx4_en"),
        ("usnic", "virtualisation.product", "UCSC-C220-M3S"),
        ("usnic", "hardware.memory-speed", "16 of 16 slots, 1600 of 1600 MT/s"),
        ("usnic", "nic.driver[enp6s0]", "enic"),
        ("busy-poll", "nic.driver[enp129s0f0]", "ixgbe"),
        ("busy-poll", "memory.total", "134217728 kB"),
    ];
    let untuned = [
        ("boot.isolcpus", "not set"),
        ("cpu.isolated", "none"),
        ("cpu.nohz_full", "none"),
        ("cpu.governor", "schedutil"),
        ("irq.irqbalance", "running"),
        ("service.irqbalance", "running, enabled"),
        ("memory.thp", "always"),
        ("net.core.busy_poll", "0"),
        ("kernel.config.no-hz-full", "y"),
    ];
    for (name, _) in HOSTS {
        let readings = readings(name);
        let of_host = facts.iter().filter(|(host, ..)| *host == name).map(|(_, id, value)| (*id, *value));
        for (id, value) in of_host.chain(untuned) {
            assert_eq!(readings[id].as_value(), Some(value), "{name} {id}");
        }
    }
}

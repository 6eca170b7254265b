//! Each way to read, on made-up hosts in temporary directories: what is there, what is not, and
//! what was not copied.

mod today;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::{Reading, Root, catalogue, read_settings};

type Files<'a> = &'a [(&'a str, &'a str)];

fn host(files: Files<'_>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        add(directory.path(), path, text.as_bytes());
    }
    directory
}

fn add(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

/// One setting of a host, of `eth0` if it is one of interfaces.
fn reading(directory: &TempDir, id: &str) -> Reading {
    let root = Root::directory(directory.path()).unwrap();
    let setting = catalogue::setting(id).unwrap();
    let readings = read_settings(&root, &[setting], &["eth0".to_owned()]);
    assert_eq!(readings.len(), 1);
    readings.into_iter().next().unwrap().1
}

fn value(directory: &TempDir, id: &str) -> String {
    match reading(directory, id) {
        Reading::Value(value) => value,
        other => panic!("{id}: {other:?}"),
    }
}

const CONFIG: &str = "CONFIG_HZ=250\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_RFS_ACCEL=y\nCONFIG_RFS_ACCEL_X=n\n";
const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0\n");
const STAT: &str = "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
const INTERRUPTS: &str =
    "      CPU0  CPU1\n 0:  7 8 IO-APIC timer\nLOC: 100 200 Local timer interrupts\nRES: 1 2 R\nTLB: 0 5 T\n";
const KMSG: &str = "6,0,0,-;Linux version 6.1.0\n5,9,0,-;Malformed early option 'idle'\n\
                    5,10,0,-;Unknown kernel command line parameters \"isolcpu=2-3\", will be passed to user space.\n";
const SOFTNET: &str = "0000000a 00000002 00000001 0\n000000ff 00000010 00000000 0\n";

#[test]
fn file_present_read_gives_its_value() {
    let rows: &[(Files<'_>, &str, &str)] = &[
        (&[RELEASE, ("boot/config-6.1.0", CONFIG)], "kernel.config.rfs-accel", "y"),
        (&[RELEASE, ("boot/config-6.1.0", CONFIG)], "kernel.config.no-hz-full", "not set"),
        (&[RELEASE, ("boot/config-6.1.0", CONFIG)], "kernel.config.kasan", "not set"),
        (&[("sys/module/kvm/parameters/halt_poll_ns", "200000\n")], "kvm.halt-poll-ns", "200000"),
        (&[("sys/module/nf_tables/refcnt", "1\n"), ("sys/module/a/b", "")], "stack.packet-filters", "nf_tables"),
        (&[("sys/module/a/b", "")], "stack.packet-filters", "none"),
        (&[("sys/class/infiniband/mlx4_0/fw_ver", "2\n")], "rdma.devices", "mlx4_0"),
        (
            &[("etc/selinux/config", "# SELINUX=x\nSELINUXTYPE=y\nSELINUX=\"disabled\" # why\n")],
            "service.selinux",
            "disabled",
        ),
        (&[("etc/selinux/config", "\n")], "service.selinux", "not set"),
        (&[("etc/tuned/active_profile", "network-latency\n")], "service.tuned.profile", "network-latency"),
        (&[("sys/class/iommu/dmar0/intel-iommu/ecap", "f020df\n")], "firmware.iommu.coherency", "on"),
        (&[("sys/class/iommu/dmar0/intel-iommu/ecap", "f020de\n")], "firmware.iommu.coherency", "off"),
        (&[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    7 kB\n")], "memory.available", "7"),
        (&[("proc/sys/net/core/rps_default_mask", "00000005\n")], "net.core.rps_default_mask", "0,2"),
        (&[("sys/class/dmi/id/bios_vendor", "HPE\n")], "firmware.vendor", "HPE"),
        (&[("proc/cpuinfo", "flags : nx svm\n")], "firmware.virtualisation", "yes"),
        (&[("proc/cpuinfo", "flags : nx\n")], "firmware.virtualisation", "no"),
        (&[("proc/net/softnet_stat", SOFTNET)], "stack.softnet", "18 dropped, 1 squeezed"),
        (&[("proc/net/packet", "sk RefCnt Type Proto\n0 3 3 0003\n0 4 3 88cc\n")], "stack.taps", "1"),
        (&[("proc/stat", STAT)], "noise.steal", "88"),
        (&[("proc/interrupts", INTERRUPTS)], "noise.timer-interrupts", "300"),
        (&[("proc/interrupts", INTERRUPTS)], "noise.cpu-interrupts", "RES 3, TLB 5"),
        (&[("dev/kmsg", KMSG)], "boot.rejected", "'idle' | \"isolcpu=2-3\""),
        (&[("dev/kmsg", "6,0,0,-;Linux version 6.1.0\n")], "boot.rejected", "none"),
        (&[("etc/modprobe.d/mlx4.conf", "softdep  mlx4_core post: mlx4_en\n")], "rdma.mlx4.softdep", "post: mlx4_en"),
        (&[("etc/modprobe.d/mlx4.conf", "\n")], "rdma.mlx4.softdep", "not set"),
        (
            &[("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 64 kB\nNode 1 MemFree:  16 kB\n")],
            "memory.node-free",
            "node1: 16 of 64 kB free",
        ),
        (&[("sys/class/net/eth0/statistics/rx_dropped", "4\n")], "nic.drops", "rx_dropped 4"),
        (&[("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "32\n")], "nic.rps-flow-count", "32"),
        (
            &[("sys/class/net/eth0/upper_bond0/x", ""), ("sys/class/net/eth0/mtu", "1")],
            "nic.neighbours",
            "above: bond0",
        ),
        (&[("sys/class/net/eth0/mtu", "1")], "nic.neighbours", "none"),
        (&[("sys/class/net/eth0/device/sriov_totalvfs", "64\n")], "nic.vfs-max", "64"),
    ];
    for (files, id, wanted) in rows {
        assert_eq!(value(&host(files), id), *wanted, "{id} {files:?}");
    }
}

#[test]
fn file_absent_beside_others_read_is_unsupported() {
    let rows: &[(Files<'_>, &str)] = &[
        (&[("sys/module/kvm/parameters/halt_poll_ns", "1")], "kvm.guest-halt-poll-ns"),
        (&[("sys/module/kvm/parameters/halt_poll_ns", "1")], "kvm.nx-huge-pages"),
        (&[("sys/class/net/x", "")], "rdma.devices"),
        (&[("etc/tuned/x", "")], "service.tuned.profile"),
        (&[("etc/selinux/x", "")], "service.selinux"),
        (&[("sys/devices/system/machinecheck/x", "")], "noise.machine-check-interval"),
        (&[("proc/net/x", "")], "stack.softnet"),
        (&[("proc/interrupts", "LOC: 1\n")], "noise.cpu-interrupts"),
        (&[("proc/stat", "cpu 1 2 3\n")], "noise.steal"),
        (&[("sys/firmware/dmi/entries/0-0/raw", "")], "hardware.memory-speed"),
        (&[("sys/class/net/eth0/mtu", "1")], "nic.vfs"),
        (&[("sys/class/net/eth0/statistics/x", "1")], "nic.drops"),
        (&[("sys/class/net/eth0/queues/rx-0/x", "1")], "nic.rps-flow-count"),
    ];
    for (files, id) in rows {
        assert_eq!(reading(&host(files), id), Reading::Unsupported, "{id} {files:?}");
    }
}

#[test]
fn what_was_not_copied_read_is_unknown() {
    let empty = host(&[]);
    for setting in catalogue::settings() {
        let reading = reading(&empty, setting.id);
        assert!(matches!(reading, Reading::Unknown { .. }), "{}: {reading:?}", setting.id);
    }
    let log_without_boot = host(&[("dev/kmsg", "6,900,0,-;eth0: link up\n")]);
    assert!(matches!(reading(&log_without_boot, "boot.rejected"), Reading::Unknown { .. }));
}

#[test]
fn setting_software_cannot_read_says_where_to_look() {
    let Reading::Unknown { why } = reading(&host(&[]), "switch.cut-through") else { panic!() };
    assert!(why.contains("matter of the switch") && why.contains("data sheet"), "{why}");
}

#[test]
fn unit_files_read_give_enablement_and_run_state() {
    let directory = host(&[
        ("usr/lib/systemd/system/irqbalance.service", "[Unit]\n"),
        ("usr/lib/systemd/system/numad.service", "[Unit]\n"),
        ("usr/lib/systemd/system/tuned.service", "[Unit]\n"),
        ("usr/lib/systemd/system/auditd.service", "[Unit]\n"),
    ]);
    let root = directory.path();
    link(
        root,
        "etc/systemd/system/multi-user.target.wants/irqbalance.service",
        "/lib/systemd/system/irqbalance.service",
    );
    link(root, "etc/systemd/system/tuned.service", "/dev/null");
    link(root, "usr/lib/systemd/system/basic.target.wants/auditd.service", "../auditd.service");
    link(root, "etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target");
    link(root, "etc/systemd/system/timers.target.wants/fstrim.timer", "/lib/systemd/system/fstrim.timer");
    assert_eq!(value(&directory, "service.irqbalance"), "enabled");
    assert_eq!(value(&directory, "service.numad"), "disabled");
    assert_eq!(value(&directory, "service.tuned"), "masked");
    assert_eq!(value(&directory, "service.audit"), "static");
    assert_eq!(value(&directory, "service.thermald"), "not installed");
    assert_eq!(value(&directory, "service.default-target"), "multi-user.target");
    assert_eq!(value(&directory, "noise.timers"), "fstrim.timer");

    add(root, "sys/fs/cgroup/system.slice/irqbalance.service/cgroup.events", b"populated 1\nfrozen 0\n");
    assert_eq!(value(&directory, "service.irqbalance"), "running, enabled");
    assert_eq!(value(&directory, "service.numad"), "stopped, disabled");
}

#[test]
fn rescuers_of_work_queues_are_no_noise_on_isolated_cpus() {
    let directory = host(&[
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/isolated", "1\n"),
        ("proc/9/task/9/status", "Name:\tkworker/R-kblockd\nCpus_allowed_list:\t0-1\n"),
        ("proc/10/task/10/status", "Name:\tkswapd0\nCpus_allowed_list:\t0-1\n"),
    ]);
    assert_eq!(value(&directory, "noise.kernel-threads"), "1");
}

#[test]
fn interrupts_and_threads_on_isolated_cpus_read_are_counted() {
    let directory = host(&[
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("proc/irq/default_smp_affinity", "f\n"),
        ("proc/irq/30/effective_affinity_list", "2\n"),
        ("proc/irq/31/effective_affinity_list", "0-3\n"),
        ("proc/irq/32/effective_affinity_list", "1\n"),
        ("proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 30: 1 0 0 0 x\n 32: 0 4 0 0 x\n"),
        ("proc/6/status", "Name: b\nVmSize: 1 kB\nThreads:\t1\nCpus_allowed_list:\t2-3\n"),
        ("proc/7/status", "Name: a\nVmSize: 1 kB\nThreads:\t2\nCpus_allowed_list:\t2\n"),
        ("proc/7/task/7/status", "Name: a\nVmSize: 1 kB\nCpus_allowed_list:\t2\n"),
        ("proc/7/task/8/status", "Name: a\nVmSize: 1 kB\nCpus_allowed_list:\t0-3\n"),
        ("proc/9/task/9/status", "Name: kworker\nCpus_allowed_list:\t0-2\n"),
        ("proc/10/task/10/status", "Name: migration/2\nCpus_allowed_list:\t2\n"),
    ]);
    assert_eq!(value(&directory, "irq.on-isolated"), "none");
    assert_eq!(value(&directory, "irq.of-each-cpu"), "1 (0,3), 2 (1-2)");
    assert_eq!(value(&directory, "placement.threads-on-isolated"), "3 (2), 2 (3)");
    assert_eq!(value(&directory, "noise.kernel-threads"), "1 (2), 0 (3)");

    let nothing_isolated = host(&[("sys/devices/system/cpu/online", "0-3\n"), ("proc/irq/30/x", "")]);
    assert_eq!(value(&nothing_isolated, "irq.on-isolated"), "no CPU is isolated");
}

/// A structure of type 17 with size, rated and configured speed and configured voltage.
fn memory_module(size: u16, rated: u16, configured: u16, voltage_mv: u16) -> Vec<u8> {
    let mut raw = vec![0; 0x54];
    raw[0] = 17;
    raw[1] = 0x54;
    for (at, field) in [(0x0c, size), (0x15, rated), (0x20, configured), (0x26, voltage_mv)] {
        raw[at..at + 2].copy_from_slice(&field.to_le_bytes());
    }
    raw
}

#[test]
fn memory_modules_read_give_slots_speed_and_voltage() {
    let directory = host(&[]);
    let add_module = |slot: u32, raw: &[u8]| {
        add(directory.path(), &format!("sys/firmware/dmi/entries/17-{slot}/raw"), raw);
    };
    add_module(0, &memory_module(16384, 3200, 2933, 1200));
    add_module(1, &memory_module(0, 0, 0, 0));
    assert_eq!(value(&directory, "hardware.memory-speed"), "1 of 2 slots, 2933 of 3200 MT/s");
    assert_eq!(value(&directory, "firmware.memory-voltage"), "1200");

    add_module(1, &memory_module(16384, 3200, 3200, 1200)[..0x22]);
    assert_eq!(value(&directory, "hardware.memory-speed"), "2 of 2 slots, 2933 of 3200 MT/s, 3200 of 3200 MT/s");
    add_module(1, &[17]);
    assert_eq!(value(&directory, "hardware.memory-speed"), "1 of 2 slots, 2933 of 3200 MT/s");
}

/// A configuration space with a PCI Express capability at 0x40 and, at 0x100, address
/// translation.
fn configuration_space(device_control: u16, link_control: u16, ats_control: u16) -> Vec<u8> {
    let mut config = vec![0; 4096];
    config[0x34] = 0x50;
    config[0x50..0x52].copy_from_slice(&[0x05, 0x60]);
    config[0x60..0x62].copy_from_slice(&[0x10, 0x00]);
    config[0x68..0x6a].copy_from_slice(&device_control.to_le_bytes());
    config[0x70..0x72].copy_from_slice(&link_control.to_le_bytes());
    config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x01, 0x20]);
    config[0x200..0x204].copy_from_slice(&[0x0f, 0x00, 0x01, 0x00]);
    config[0x206..0x208].copy_from_slice(&ats_control.to_le_bytes());
    config
}

#[test]
fn pci_path_read_gives_its_functions_and_their_link_settings() {
    let directory = host(&[]);
    let root = directory.path();
    let port = "sys/devices/pci0000:00/0000:00:01.1";
    let device = format!("{port}/0000:02:00.0");
    add(root, &format!("{port}/config"), &configuration_space(0x0020, 0x0003, 0));
    add(root, &format!("{device}/config"), &configuration_space(0x5150, 0x0000, 0x8000));
    add(root, &format!("{device}/net/eth0/mtu"), b"1500\n");
    link(root, "sys/class/net/eth0", "../../devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth0");
    assert_eq!(value(&directory, "nic.pcie.path"), "0000:00:01.1 0000:02:00.0");
    assert_eq!(value(&directory, "nic.pcie.max-payload"), "256 (0000:00:01.1), 512 (0000:02:00.0)");
    assert_eq!(value(&directory, "nic.pcie.aspm"), "L0s L1 (0000:00:01.1), off (0000:02:00.0)");
    assert_eq!(value(&directory, "nic.pcie.max-read-request"), "4096");
    assert_eq!(value(&directory, "nic.pcie.relaxed-ordering"), "on");
    assert_eq!(value(&directory, "nic.pcie.extended-tags"), "on");
    assert_eq!(value(&directory, "nic.pcie.address-translation"), "on");

    // What anybody may read.
    add(root, &format!("{device}/config"), &configuration_space(0, 0, 0)[..64]);
    assert!(matches!(reading(&directory, "nic.pcie.max-read-request"), Reading::Unknown { .. }));
    // No capability, a list that runs in a circle, noise.
    for config in [vec![0; 4096], vec![0x50; 4096], vec![0xff; 4096], vec![0x41; 300]] {
        add(root, &format!("{device}/config"), &config);
        for id in ["nic.pcie.max-read-request", "nic.pcie.address-translation", "nic.pcie.max-payload"] {
            let _ = reading(&directory, id);
        }
    }
}

#[test]
fn interface_without_pci_function_read_has_no_pci_path() {
    let directory = host(&[("sys/devices/virtual/net/eth0/mtu", "1500\n")]);
    link(directory.path(), "sys/class/net/eth0", "../../devices/virtual/net/eth0");
    assert_eq!(reading(&directory, "nic.pcie.path"), Reading::Unsupported);
}

#[test]
fn live_host_read_gives_every_setting_in_one_line() {
    let root = Root::live().unwrap();
    let all: Vec<_> = catalogue::settings().collect();
    let readings = read_settings(&root, &all, &["lo".to_owned()]);
    assert_eq!(readings.len(), all.len());
    for (id, reading) in readings {
        assert!(reading.as_value().is_none_or(|value| !value.contains('\n')), "{id}");
    }
}

#[test]
fn partitions_of_a_kernel_without_a_file_of_all_are_found_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let add = |path: &str, text: &str| {
        let path = directory.path().join("sys/fs/cgroup").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let reading = || {
        let root = Root::directory(directory.path()).unwrap();
        let setting = catalogue::setting("cpu.isolated.cgroup").unwrap();
        crate::read_settings(&root, &[setting], &[]).remove(0).1
    };
    add("cpuset.cpus.effective", "0-3\n");
    assert_eq!(reading(), Reading::value("none"));
    for (group, state, cpus) in [
        ("a", "isolated\n", "6-7\n"),
        ("b", "isolated invalid\n", "5\n"),
        ("c", "isolated\n", "4\n"),
        ("d", "member\n", "0\n"),
    ] {
        add(&format!("{group}/cpuset.cpus.partition"), state);
        add(&format!("{group}/cpuset.cpus.effective"), cpus);
    }
    assert_eq!(reading(), Reading::value("4,6-7"));
    add("cpuset.cpus.isolated", "2\n");
    assert_eq!(reading(), Reading::value("2"));
}

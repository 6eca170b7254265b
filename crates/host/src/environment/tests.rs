//! Environments of made-up hosts in temporary directories, and of the real one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nearwire_sys::netns;
use tempfile::TempDir;

use super::*;

/// A directory with these files in it.
fn host(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        add(directory.path(), path, text);
    }
    directory
}

fn add(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(directory: &TempDir) -> BTreeMap<String, Reading> {
    let root = Root::directory(directory.path()).unwrap();
    environment(&root, &["eth0".to_owned()])
}

/// What the readings of a host with these files say about one setting.
fn reading(files: &[(&str, &str)], id: &str) -> Reading {
    read(&host(files)).remove(id).expect("a known id")
}

/// (file, its text, setting, value): one row for each way to read.
const VALUES: &[(&str, &str, &str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.1.0\n", "kernel.release", "6.1.0"),
    ("proc/cmdline", "ro quiet isolcpus=1 isolcpus=2-3\n", "boot.isolcpus", "2-3"),
    ("proc/cmdline", "ro nosmt\n", "boot.nosmt", "set"),
    ("proc/cmdline", "ro\n", "boot.nohz_full", "not set"),
    ("proc/cmdline", "ro -- nohz_full=1\n", "boot.nohz_full", "not set"),
    ("proc/cmdline", "intel-idle.max-cstate=0\n", "boot.intel_idle.max_cstate", "0"),
    ("proc/cmdline", "root=PARTUUID=0b7dd5a5-01 ro\n", "boot.command-line", "root=PARTUUID=<uuid> ro"),
    ("proc/cpuinfo", "model name\t: Fast  CPU\n\nmodel name : b\n", "cpu.model", "Fast CPU"),
    ("proc/cpuinfo", "flags : tsc constant_tsc\n", "clock.constant_tsc", "yes"),
    ("proc/cpuinfo", "flags : tsc constant_tsc_x\n", "clock.constant_tsc", "no"),
    ("proc/meminfo", "MemTotal:  16 kB\nMemFree: 1 kB\n", "memory.total", "16 kB"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n", "net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("proc/irq/default_smp_affinity", "00000000,0000000f\n", "irq.default-affinity", "0-3"),
    (
        "proc/self/limits",
        "Limit  Soft Hard Units\nMax locked memory   65536  65536  bytes\n",
        "memory.lock-limit-bytes",
        "65536",
    ),
    ("proc/swaps", "Filename Type\n/dev/sda2 partition\n", "memory.swap", "1"),
    ("proc/7/comm", "irqbalance\n", "irq.irqbalance", "running"),
    ("proc/7/comm", "irqbalanced\n", "irq.irqbalance", "not running"),
    ("sys/devices/system/cpu/nohz_full", "(null)\n", "cpu.nohz_full", "none"),
    ("sys/devices/system/cpu/isolated", "2-3,5\n", "cpu.isolated", "2-3,5"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n", "cpu.turbo", "off"),
    ("sys/devices/system/cpu/cpufreq/boost", "1\n", "cpu.turbo", "on"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n", "memory.thp", "madvise"),
    ("sys/kernel/debug/sched/preempt", "none (voluntary) full\n", "kernel.preemption", "voluntary"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT x\n", "kernel.preemption", "rt"),
    ("sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n", "cpu.mitigations", "not affected"),
    ("sys/class/dmi/id/product_name", "PowerEdge R730\n", "virtualisation.product", "PowerEdge R730"),
    ("sys/class/net/eth0/mtu", "9000\n", "nic.mtu[eth0]", "9000"),
    ("sys/class/net/eth0/gro_flush_timeout", "0\n", "nic.gro-flush-timeout-ns[eth0]", "0"),
    ("sys/class/net/eth0/device/numa_node", "1\n", "nic.numa-node[eth0]", "1"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000003\n", "nic.rps-cpus[eth0]", "0-1"),
];

#[test]
fn file_present_read_gives_its_value() {
    for (path, text, id, value) in VALUES {
        assert_eq!(reading(&[(path, text)], id), Reading::value(value), "{path} {id}");
    }
}

#[test]
fn file_absent_beside_others_read_is_unsupported() {
    let beside = [
        ("proc/sys/net/core/rmem_max", "1\n", "net.core.busy_read"),
        ("sys/devices/system/cpu/online", "0\n", "cpu.isolated"),
        ("sys/class/net/eth0/mtu", "1\n", "nic.threaded[eth0]"),
    ];
    for (path, text, id) in beside {
        assert_eq!(reading(&[(path, text)], id), Reading::Unsupported, "{id}");
    }
}

#[test]
fn directory_absent_from_copy_read_is_unknown() {
    for (id, reading) in read(&host(&[])) {
        assert!(matches!(reading, Reading::Unknown { .. }), "{id}: {reading:?}");
    }
}

#[test]
fn odd_text_read_is_unknown_or_kept() {
    let unknown = [
        ("sys/devices/system/cpu/isolated", "all of them\n", "cpu.isolated"),
        ("proc/irq/default_smp_affinity", "\n", "irq.default-affinity"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always\n", "memory.thp"),
    ];
    for (path, text, id) in unknown {
        let reading = reading(&[(path, text)], id);
        assert!(matches!(reading, Reading::Unknown { .. }), "{id}: {reading:?}");
    }
}

#[test]
fn every_file_replaced_by_noise_never_panics() {
    let noise = ["", "\n\n", "\u{0}\u{1}", "-1", "999999999999", ":::,,,[[((", "0-65535"];
    for text in noise {
        let files: Vec<_> = VALUES
            .iter()
            .filter(|row| row.0 != "sys/devices/system/cpu/isolated")
            .map(|row| (row.0, text))
            .chain([("sys/devices/system/cpu/online", "0-1,70000")])
            .collect();
        read(&host(&files));
    }
}

#[test]
fn unreadable_file_read_needs_root() {
    let directory = host(&[("sys/kernel/mm/ksm/run", "0\n")]);
    let file = directory.path().join("sys/kernel/mm/ksm/run");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let wanted = if fs::read(&file).is_ok() {
        // Root reads everything; then the errno is what can be tested.
        assert_eq!(Reading::from_errno("x", rustix::io::Errno::ACCESS), Reading::NeedsRoot);
        Reading::value("0")
    } else {
        Reading::NeedsRoot
    };
    assert_eq!(read(&directory)["memory.ksm"], wanted);
}

#[test]
fn directory_pipe_or_escaping_link_in_place_of_file_read_is_not_a_value() {
    let directory = host(&[("proc/sys/vm/swappiness/x", "1\n")]);
    let outside = host(&[("secret", "42\n")]);
    let kernel = directory.path().join("proc/sys/kernel");
    fs::create_dir_all(&kernel).unwrap();
    symlink(outside.path().join("secret"), kernel.join("watchdog")).unwrap();
    symlink("../../../../../../../../etc/hostname", kernel.join("osrelease")).unwrap();
    let made = Command::new("mkfifo").arg(kernel.join("nmi_watchdog")).status();
    assert!(made.is_ok_and(|status| status.success()));

    let readings = read(&directory);
    for id in ["vm.swappiness", "kernel.watchdog", "kernel.release", "kernel.nmi_watchdog"] {
        assert_eq!(readings[id].as_value(), None, "{id}");
    }
}

#[test]
fn cpus_that_differ_read_are_told_apart() {
    let files = [
        ("sys/devices/system/cpu/online", "0-2\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
        ("sys/devices/system/cpu/cpu2/cpuidle/state1/disable", "1\n"),
    ];
    let readings = read(&host(&files));
    let value = |id| readings[id].as_value().unwrap();
    assert_eq!(value("cpu.governor"), "powersave (0), performance (1-2)");
    assert_eq!(value("cpu.idle.states"), "POLL 0 us, C6 133 us");
    assert_eq!(value("cpu.idle.disabled"), "none (0-1), C6 (2)");
}

#[test]
fn huge_pages_on_one_node_read_name_it() {
    let node = "sys/devices/system/node/node1/hugepages/hugepages-2048kB";
    let files = [(&*format!("{node}/nr_hugepages"), "512\n"), (&*format!("{node}/free_hugepages"), "500\n")];
    let wanted = Reading::value("node1 2048kB: 500 of 512 free");
    assert_eq!(reading(&files, "memory.huge-pages"), wanted);
}

#[test]
fn kernel_config_beside_release_read_gives_hz_and_preemption() {
    let files = [
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
        ("proc/cmdline", "ro\n"),
        ("boot/config-6.1.0", "CONFIG_PREEMPT=y\nCONFIG_HZ_1000=y\nCONFIG_HZ=1000\n"),
    ];
    assert_eq!(reading(&files, "kernel.hz"), Reading::value("1000"));
    let wanted = Reading::value("full (dynamic, as built)");
    assert_eq!(reading(&files, "kernel.preemption"), wanted);
}

#[test]
fn nic_behind_virtio_read_has_the_pci_function_of_its_parent() {
    let directory = host(&[
        ("sys/devices/pci0/f/virtio0/net/eth0/mtu", "1500\n"),
        ("sys/devices/pci0/f/numa_node", "1\n"),
        ("sys/devices/pci0/f/current_link_width", "8\n"),
        ("sys/devices/pci0/f/msi_irqs/30", "msix\n"),
        ("sys/devices/pci0/f/msi_irqs/31", "msix\n"),
        ("sys/bus/virtio/x", ""),
        ("sys/bus/virtio/drivers/virtio_net/x", ""),
        ("proc/irq/30/effective_affinity_list", "2\n"),
        ("proc/irq/31/effective_affinity_list", "0-1\n"),
    ]);
    let at = |path| directory.path().join(path);
    fs::create_dir_all(at("sys/class/net")).unwrap();
    let nic = "sys/devices/pci0/f/virtio0/net/eth0";
    symlink("../../devices/pci0/f/virtio0/net/eth0", at("sys/class/net/eth0")).unwrap();
    symlink("../../../virtio0", at(nic).join("device")).unwrap();
    symlink("../../../../bus/virtio", at("sys/devices/pci0/f/virtio0/subsystem")).unwrap();
    let driver = "../../../../bus/virtio/drivers/virtio_net";
    symlink(driver, at("sys/devices/pci0/f/virtio0/driver")).unwrap();

    let readings = read(&directory);
    let value = |id| readings[id].as_value().unwrap_or("none");
    assert_eq!(value("nic.mtu[eth0]"), "1500");
    assert_eq!(value("nic.driver[eth0]"), "virtio_net");
    assert_eq!(value("nic.numa-node[eth0]"), "1");
    assert_eq!(value("nic.pcie.width[eth0]"), "8");
    assert_eq!(value("nic.irq-affinity[eth0]"), "2 (30), 0-1 (31)");
}

#[test]
fn interface_name_that_is_a_path_read_is_unknown() {
    for root in [Root::live().unwrap(), Root::directory("/").unwrap()] {
        for name in ["..", "../../etc", "a b", "", "x\0"] {
            for (id, reading) in interface_environment(&root, &[name.to_owned()]) {
                assert!(matches!(reading, Reading::Unknown { .. }), "{id}: {reading:?}");
            }
        }
    }
}

#[test]
fn live_host_read_has_the_basics_quickly() {
    let root = Root::live().unwrap();
    let start = Instant::now();
    let readings = environment(&root, &["lo".to_owned()]);
    let taken = start.elapsed();
    let basics = [
        "kernel.release",
        "kernel.version",
        "kernel.hz",
        "boot.command-line",
        "cpu.online",
        "cpu.cores",
        "memory.total",
        "memory.lock-limit-bytes",
        "nic.mtu[lo]",
        "nic.offload.gro[lo]",
    ];
    for id in basics {
        assert!(readings[id].as_value().is_some(), "{id}: {:?}", readings[id]);
    }
    // 5 ms on an idle 2-CPU guest without optimisation; the rest is for a loaded test host.
    assert!(taken < Duration::from_secs(1), "{taken:?}");
    for (id, reading) in &readings {
        assert!(reading.as_value().is_none_or(|value| !value.contains('\n')), "{id}");
    }
}

#[test]
fn thread_in_another_namespace_read_believes_the_kernel_and_not_sysfs() {
    let namespace = match netns::new_network_namespace() {
        Ok(namespace) => namespace,
        Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => {
            println!("SKIP network namespaces are refused: {error}");
            return;
        }
        Err(error) => panic!("NEARWIRE_REQUIRE is set and namespaces are refused: {error}"),
    };
    let root = Root::live().unwrap();
    let work = || {
        // An interface with a name that the namespace of sysfs has too, often also its index.
        let add = "link add eth0 mtu 1280 type veth peer name nw1";
        match Command::new("ip").args(add.split(' ')).status() {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "ip: {error}");
                println!("SKIP ip is not installed: {error}");
                return;
            }
        }
        let names = ["eth0", "nw1", "lo"].map(str::to_owned);
        let readings = environment(&root, &names);
        let value = |id| readings[id].as_value().unwrap_or("none");
        assert_eq!(value("nic.driver[eth0]"), "veth");
        assert_eq!(value("nic.kind[nw1]"), "veth");
        assert_eq!(value("nic.mtu[eth0]"), "1280");
        assert_eq!(value("nic.speed-mbps[nw1]"), "10000");
        for id in ["nic.threaded[eth0]", "nic.threaded[lo]", "nic.rps-cpus[nw1]", "nic.numa-node[eth0]"] {
            assert!(matches!(readings[id], Reading::Unknown { .. }), "{id}");
        }
        assert_ne!(readings["net.core.netdev_max_backlog"], Reading::Unsupported);
    };
    netns::enter(namespace, work).unwrap();
}

#[test]
fn setting_that_takes_time_is_read_last_and_told_in_its_place() {
    let directory = host(&[
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("proc/interrupts", "     CPU0 CPU1 CPU2 CPU3\n 30: 1 0 0 0 PCI-MSI eth0\n"),
        ("sys/class/net/eth0/mtu", "1500\n"),
    ]);
    let root = Root::directory(directory.path()).unwrap();
    let ids = ["cpu.online", "irq.on-isolated", "nic.mtu", "cpu.isolated", "irq.on-isolated"];
    let settings = ids.map(|id| catalogue::setting(id).unwrap());
    let readings = read_settings(&root, &settings, &["eth0".to_owned()]);
    let told: Vec<_> = readings.iter().map(|(id, reading)| (id.as_str(), reading.as_value().unwrap())).collect();
    let none = ("irq.on-isolated", "none");
    assert_eq!(told, [("cpu.online", "0-3"), none, ("nic.mtu[eth0]", "1500"), ("cpu.isolated", "2-3"), none]);
}

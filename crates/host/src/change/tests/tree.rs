//! Trees of files: the same engine on copies, and never a write outside of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{CpuSet, Root, catalogue};

/// A small host with four CPUs and one interface of two queues and vectors.
pub(super) const FILES: &[(&str, &str)] = &[
    ("proc/sys/vm/swappiness", "60"),
    ("proc/sys/net/core/busy_read", "0"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
    ("proc/sys/kernel/numa_balancing", "2"),
    ("proc/sys/kernel/watchdog_cpumask", "0-3"),
    ("proc/sys/net/core/rps_default_mask", "0"),
    ("sys/devices/system/cpu/online", "0-3"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    ("sys/devices/virtual/workqueue/cpumask", "f"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "0"),
    ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
    ("sys/module/kvm/parameters/kvmclock_periodic_sync", "Y"),
    ("proc/irq/default_smp_affinity", "f"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids"),
    ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory"),
    ("proc/irq/30/smp_affinity_list", "0-3"),
    ("proc/irq/31/smp_affinity_list", "1"),
    ("sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/msi_irqs/30", "msix"),
    ("sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/msi_irqs/31", "msix"),
    ("sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/config", ""),
];
const NET: &str = "sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net";
const INTERFACE_FILES: &[(&str, &str)] = &[
    ("ifindex", "2"),
    ("mtu", "1500"),
    ("tx_queue_len", "1000"),
    ("dev_port", "0"),
    ("gro_flush_timeout", "0"),
    ("napi_defer_hard_irqs", "0"),
    ("queues/rx-0/rps_cpus", "0"),
    ("queues/rx-1/rps_cpus", "00000000"),
    ("queues/tx-0/xps_cpus", "3"),
    ("queues/rx-0/rps_flow_cnt", "0"),
];

pub(super) fn add(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

pub(super) fn add_interface(root: &Path, name: &str) {
    for (file, text) in INTERFACE_FILES {
        add(root, &format!("{NET}/{name}/{file}"), text);
    }
    fs::create_dir_all(root.join("sys/class/net")).unwrap();
    symlink(format!("../../{}/{name}", NET.strip_prefix("sys/").unwrap()), root.join("sys/class/net").join(name))
        .unwrap();
    symlink("../../../0000:02:00.0", root.join(NET).join(name).join("device")).unwrap();
    fs::create_dir_all(root.join("sys/bus/pci")).unwrap();
    let subsystem = root.join("sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/subsystem");
    if !subsystem.is_symlink() {
        symlink("../../../../bus/pci", subsystem).unwrap();
    }
}

pub(super) fn tree() -> TempDir {
    let directory = directory();
    for (path, text) in FILES {
        add(directory.path(), path, text);
    }
    for cpu in 0..4 {
        let cpu = format!("sys/devices/system/cpu/cpu{cpu}");
        add(directory.path(), &format!("{cpu}/topology/thread_siblings_list"), "0");
        add(directory.path(), &format!("{cpu}/cpufreq/scaling_governor"), "schedutil");
        add(directory.path(), &format!("{cpu}/power/pm_qos_resume_latency_us"), "0");
        for (state, name) in [("state0", "POLL"), ("state1", "C6")] {
            add(directory.path(), &format!("{cpu}/cpuidle/{state}/name"), name);
            add(directory.path(), &format!("{cpu}/cpuidle/{state}/latency"), "133");
            add(directory.path(), &format!("{cpu}/cpuidle/{state}/disable"), "0");
        }
    }
    add_interface(directory.path(), "eth4");
    directory
}

/// Every regular file with its text.
pub(super) fn snapshot(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(snapshot(&entry.path()));
        } else if kind.is_file() {
            let path = entry.path().to_string_lossy().into_owned();
            files.insert(path, fs::read_to_string(entry.path()).unwrap().trim_end().to_owned());
        }
    }
    files
}

/// As the kernel would print them again: masks and white space in one way.
fn values(snapshot: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let normal = |(path, text): (String, String)| {
        let is_mask = path.ends_with("_cpus") || path.ends_with("cpumask") || path.ends_with("smp_affinity");
        let text = match CpuSet::from_mask(&text) {
            Ok(set) if is_mask => set.to_string(),
            _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        // A tree takes the bare word, where the kernel would move the brackets.
        let text = if text == "always [madvise] never" { "madvise".to_owned() } else { text };
        (path, text)
    };
    snapshot.into_iter().map(normal).collect()
}

fn host(directory: &TempDir) -> RootHost {
    RootHost::new(Root::directory(directory.path()).unwrap())
}

/// Settings with two values each, one of them not the one found.
const WISHES: &[(&str, &str, &str)] = &[
    ("vm.swappiness", "0", "10"),
    ("net.core.busy_read", "50", "100"),
    ("net.ipv4.tcp_rmem", "4096 65536 1048576", "1 2 3"),
    ("kernel.numa_balancing", "off", "on"),
    ("kernel.watchdog_cpumask", "0-1", "0"),
    ("cpu.turbo", "off", "on"),
    ("cpu.governor", "performance", "powersave"),
    ("cpu.idle.disabled", "on", "off"),
    ("cpu.workqueue-affinity", "0-1", "3"),
    ("memory.huge-pages", "512", "4"),
    ("kvm.halt-poll-ns", "0", "1"),
    ("kvm.periodic-clock-sync", "off", "on"),
    ("irq.default-affinity", "0", "1-2"),
    ("nic.mtu", "9000", "1400"),
    ("nic.tx-queue-length", "500", "10"),
    ("nic.gro-flush-timeout-ns", "20000", "1"),
    ("nic.rps-cpus", "none", "2-3"),
    ("nic.xps-cpus", "0", "1"),
    ("nic.irq-affinity", "2", "0,3"),
    ("cpu.isolated", "2-3", "3"),
    ("cpu.pm-qos-resume-latency-us", "n/a", "2"),
];

pub(super) fn plan(host: &mut RootHost, wishes: &[(usize, bool)]) -> Vec<Change> {
    let interfaces = ["eth4".to_owned()];
    let scope = Scope { interfaces: &interfaces, cpus: None };
    let mut changes = Vec::new();
    for (at, second) in wishes {
        let (id, one, other) = WISHES[at % WISHES.len()];
        let setting = catalogue::setting(id).unwrap();
        for located in targets(host.root(), setting, &scope).unwrap() {
            let wanted = located.wanted(if *second { other } else { one });
            changes.push(Change::plan(&located, wanted, host).unwrap());
        }
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tree_applied_and_reverted_is_identity(
        wishes in proptest::collection::btree_map(0..WISHES.len(), any::<bool>(), 1..10),
        stop_at in 0..60usize,
    ) {
        let (tree, journals) = (tree(), directory());
        let before = values(snapshot(tree.path()));
        let mut host = host(&tree);
        let changes = plan(&mut host, &wishes.into_iter().collect::<Vec<_>>());
        let mut journal = journal(journals.path());
        let asked = std::cell::Cell::new(0);
        let must_stop = || { asked.set(asked.get() + 1); asked.get() > stop_at };
        let options = ApplyOptions { must_stop: &must_stop, ..ApplyOptions::strict(1, None) };
        if let Ok(applied) = apply(&mut host, &mut journal, changes.clone(), &options) {
            for (change, _) in &applied.written {
                let now = host.read(&change.target);
                prop_assert!(change.target.same(&now.unwrap(), &change.wanted));
            }
            if !applied.written.is_empty() {
                prop_assert!(revert(&mut host, &mut journal, 2, RevertOptions::default()).unwrap().is_complete);
            }
        }
        prop_assert_eq!(values(snapshot(tree.path())), before);
    }
}

#[test]
fn interface_with_another_name_after_boot_is_found_by_its_place() {
    let (tree, journals) = (tree(), directory());
    let mut host = host(&tree);
    let changes = plan(&mut host, &[(13, false), (18, false)]);
    assert_eq!(changes[0].target.device().unwrap().place.as_deref(), Some("0000:00:01.1 0000:02:00.0 port 0"));
    apply(&mut host, &mut journal(journals.path()), changes, &ApplyOptions::strict(1, None)).unwrap();
    fs::rename(tree.path().join(NET).join("eth4"), tree.path().join(NET).join("enp2s0")).unwrap();
    fs::remove_file(tree.path().join("sys/class/net/eth4")).unwrap();
    symlink(format!("../../{}/enp2s0", NET.strip_prefix("sys/").unwrap()), tree.path().join("sys/class/net/enp2s0"))
        .unwrap();
    let mtu = tree.path().join(NET).join("enp2s0/mtu");
    assert_eq!(fs::read_to_string(&mtu).unwrap(), "9000\n");
    let reverted = revert(&mut host, &mut journal(journals.path()), 2, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    assert_eq!(fs::read_to_string(&mtu).unwrap(), "1500\n");
    assert_eq!(fs::read_to_string(tree.path().join("proc/irq/30/smp_affinity_list")).unwrap(), "0-3\n");
}

#[test]
fn value_that_the_kernel_does_not_offer_is_refused_before_anything_is_written() {
    let (tree, journals) = (tree(), directory());
    for cpu in 0..4 {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_available_governors");
        add(tree.path(), &path, "performance schedutil");
    }
    let before = values(snapshot(tree.path()));
    let mut host = host(&tree);
    let mut changes = plan(&mut host, &[(0, false), (6, true)]);
    changes.push(change("memory.thp", thp(), "madvise", "sometimes"));
    let error = apply(&mut host, &mut journal(journals.path()), changes, &strict()).unwrap_err().to_string();
    assert!(error.starts_with("5 changes cannot be written, so nothing was:"), "{error}");
    assert!(error.contains("powersave is wanted and the kernel offers performance schedutil"), "{error}");
    assert!(error.contains("sometimes is wanted and the kernel offers always [madvise] never"), "{error}");
    assert_eq!(values(snapshot(tree.path())), before);
    assert!(!journals.path().join("journal").exists());
}

fn thp() -> Target {
    Target::File { path: "/sys/kernel/mm/transparent_hugepage/enabled".into(), form: Form::Choice }
}

#[test]
fn link_out_of_the_tree_is_not_followed() {
    let (tree, outside) = (tree(), directory());
    fs::write(outside.path().join("secret"), "60\n").unwrap();
    let swappiness = tree.path().join("proc/sys/vm/swappiness");
    fs::remove_file(&swappiness).unwrap();
    symlink(outside.path().join("secret"), &swappiness).unwrap();
    let mut host = host(&tree);
    assert!(host.probe(&sysctl("vm.swappiness"), "0").unwrap_err().is_absent());
    assert!(host.write(&sysctl("vm.swappiness"), "0").is_err());
    let climbing = Target::File { path: format!("/../../../..{}/secret", outside.path().display()), form: Form::Text };
    assert!(host.write(&climbing, "0").is_err());
    let odd = Device { interface: "../../../etc".into(), place: None };
    let odd = Target::InterfaceFile { device: odd, file: "x".into(), form: Form::Text };
    assert!(host.write(&odd, "0").is_err());
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "60\n");
}

#[test]
fn pipe_in_the_tree_is_refused_and_does_not_block() {
    let tree = tree();
    let swappiness = tree.path().join("proc/sys/vm/swappiness");
    fs::remove_file(&swappiness).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &swappiness, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut host = host(&tree);
    assert!(host.read(&sysctl("vm.swappiness")).is_err());
    assert!(host.write(&sysctl("vm.swappiness"), "0").is_err());
}

#[test]
fn kernel_and_services_of_a_tree_are_not_asked() {
    let tree = tree();
    let mut host = host(&tree);
    let unit = Target::Service { unit: "irqbalance.service".into() };
    for target in [ring("eth4"), unit] {
        let error = host.probe(&target, "1").unwrap_err().to_string();
        assert!(error.contains("tree of files"), "{error}");
    }
}

/// Interrupts were written while it was found out whether they can be.
#[test]
fn probe_of_every_place_writes_nothing() {
    let tree = tree();
    let mut host = host(&tree);
    let wishes: Vec<_> = (0..WISHES.len()).map(|at| (at, false)).collect();
    let changes = plan(&mut host, &wishes);
    assert!(changes.iter().any(|change| matches!(change.target, Target::Irq { .. })));
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    let files: Vec<_> = snapshot(tree.path()).into_keys().collect();
    for file in &files {
        fs::File::options().append(true).open(file).unwrap().set_modified(old).unwrap();
    }
    for change in &changes {
        let _ = host.probe(&change.target, &change.wanted);
    }
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().modified().unwrap(), old, "{file}");
    }
}

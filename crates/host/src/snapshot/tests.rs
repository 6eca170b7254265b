//! Snapshots of hosts that are directories, and of the real one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::topology::Topology;
use crate::{RootError, catalogue, read_settings};

fn add(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

const NIC: &str = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";

/// A host of two packages with four cores of two threads each, isolated CPUs, and a card on the
/// second.
fn two_sockets() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let cpu = "sys/devices/system/cpu";
    for (file, text) in
        [("online", "0-15\n"), ("possible", "0-15\n"), ("isolated", "5-7,13-15\n"), ("nohz_full", "(null)\n")]
    {
        add(root, &format!("{cpu}/{file}"), text);
    }
    for id in 0..16 {
        let topology = format!("{cpu}/cpu{id}/topology");
        let core = id % 8;
        add(root, &format!("{topology}/physical_package_id"), &format!("{}\n", core / 4));
        add(root, &format!("{topology}/core_id"), &format!("{}\n", core % 4));
        add(root, &format!("{topology}/thread_siblings_list"), &format!("{core},{}\n", core + 8));
        let governor = if core < 4 { "powersave\n" } else { "performance\n" };
        add(root, &format!("{cpu}/cpu{id}/cpufreq/scaling_governor"), governor);
    }
    for node in 0..2 {
        let cpus = format!("{}-{},{}-{}\n", node * 4, node * 4 + 3, node * 4 + 8, node * 4 + 11);
        add(root, &format!("sys/devices/system/node/node{node}/cpulist"), &cpus);
        add(root, &format!("sys/devices/system/node/node{node}/distance"), "10 21\n");
    }
    for (path, text) in [
        ("proc/cmdline", "root=UUID=0b7dd5a5-9cf1-4e2d-a1b8-0d8f4b7c1a2e isolcpus=5-7,13-15\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/hostname", "kestrel\n"),
        ("proc/sys/net/core/busy_poll", "50\n"),
        ("proc/sys/vm/swappiness", "10\n"),
        ("boot/config-6.12.1", "CONFIG_HZ=250\nCONFIG_RFS_ACCEL=y\n"),
        ("proc/7/comm", "kestrel-agent\n"),
        ("proc/7/task/7/status", "Name:\tkestrel\nVmSize:\t1 kB\nCpus_allowed_list:\t0-15\n"),
        ("proc/irq/40/effective_affinity_list", "5\n"),
        ("proc/irq/41/effective_affinity_list", "6\n"),
        ("usr/lib/systemd/system/irqbalance.service", "[Unit]\n"),
        ("etc/selinux/config", "# kestrel\nSELINUX=disabled\n"),
    ] {
        add(root, path, text);
    }
    let nic = format!("{NIC}/net/eth2");
    for (file, text) in [("mtu", "9000\n"), ("ifindex", "3\n"), ("address", "00:1b:21:aa:bb:cc\n"), ("threaded", "0\n")]
    {
        add(root, &format!("{nic}/{file}"), text);
    }
    add(root, &format!("{nic}/queues/rx-0/rps_cpus"), "0000\n");
    for (file, text) in [("numa_node", "1\n"), ("msi_irqs/40", "msix\n"), ("msi_irqs/41", "msix\n"), ("irq", "30\n")] {
        add(root, &format!("{NIC}/{file}"), text);
    }
    link(root, "sys/class/net/eth2", &format!("../../{}", nic.strip_prefix("sys/").unwrap()));
    link(root, &format!("{nic}/device"), "../../../0000:81:00.0");
    link(root, &format!("{NIC}/subsystem"), "../../../../bus/pci");
    add(root, "sys/bus/pci/x", "");
    link(
        root,
        "etc/systemd/system/multi-user.target.wants/irqbalance.service",
        "/lib/systemd/system/irqbalance.service",
    );
    let answers = r#"{"coalesce": {"rx-usecs": 3}, "rings": {"unsupported": true}, "driver": {"driver": "ice"}}"#;
    add(root, "nearwire/interfaces/eth2.json", answers);
    directory
}

fn taken(root: &Root) -> (TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host.tar.zst");
    Snapshot::take(root, &[]).unwrap().write(&path).unwrap();
    let archive = Root::archive(&path).unwrap();
    (directory, archive)
}

/// Every setting; why something is unknown names the root, and differs.
fn readings(root: &Root) -> Vec<(String, Reading)> {
    let all: Vec<_> = catalogue::settings().collect();
    let mut readings = read_settings(root, &all, &crate::interfaces(root).unwrap());
    for (_, reading) in &mut readings {
        if let Reading::Unknown { why } = reading {
            why.clear();
        }
    }
    readings
}

/// What two hosts do not say alike.
fn differences(one: &Root, other: &Root) -> Vec<String> {
    let (one, other) = (readings(one), readings(other));
    assert_eq!(one.len(), other.len());
    let pairs = one.into_iter().zip(other);
    pairs.filter(|(one, other)| one != other).map(|(one, other)| format!("{one:?}, {other:?}")).collect()
}

#[test]
fn host_of_two_sockets_read_from_its_snapshot_is_the_same() {
    let directory = two_sockets();
    let root = Root::directory(directory.path()).unwrap();
    let (kept, archive) = taken(&root);
    assert_eq!(differences(&archive, &root), [""; 0]);
    assert_eq!(Topology::read(&archive), Topology::read(&root));
    let value = |id| readings(&archive).into_iter().find(|(found, _)| found == id).unwrap().1;
    for (id, wanted) in [
        ("cpu.packages", "2"),
        ("cpu.cores", "8"),
        ("cpu.governor", "powersave (0-3,8-11), performance (4-7,12-15)"),
        ("nic.coalesce.rx-usecs[eth2]", "3"),
        ("nic.pcie.path[eth2]", "0000:80:01.0 0000:81:00.0"),
        ("nic.numa-node[eth2]", "1"),
        ("nic.irq-affinity[eth2]", "5 (40), 6 (41)"),
        ("service.irqbalance", "enabled"),
    ] {
        assert_eq!(value(id), Reading::value(wanted), "{id}");
    }
    assert_eq!(value("nic.ring.rx[eth2]"), Reading::Unsupported);

    // Unpacked, and as a snapshot of the snapshot, it says the same.
    let (_kept, again) = taken(&archive);
    assert_eq!(differences(&again, &root), [""; 0]);
    let unpacked = kept.path().join("unpacked");
    let packed = fs::read(kept.path().join("host.tar.zst")).unwrap();
    let tar = crate::root::unpack_zstd(&packed).unwrap();
    tar::Archive::new(tar.as_slice()).unpack(&unpacked).unwrap();
    assert_eq!(differences(&Root::directory(&unpacked).unwrap(), &root), [""; 0]);
}

#[test]
fn what_was_not_looked_at_is_unknown_and_what_was_absent_is_unsupported() {
    let directory = two_sockets();
    add(directory.path(), "sys/module/kvm/parameters/halt_poll_ns", "1\n");
    add(directory.path(), "sys/module/other/parameters/x", "1\n");
    let (_kept, archive) = taken(&Root::directory(directory.path()).unwrap());
    // Looked at and not there, though files beside it are.
    assert_eq!(archive.read("/proc/sys/net/core/busy_read"), Err(Reading::Unsupported));
    // There on the host, and nobody looked.
    for path in ["/sys/module/other/parameters/x", "/sys/module/other/x", "/proc/7/environ", "/sys/bus/pci/x"] {
        assert!(matches!(archive.read(path), Err(Reading::Unknown { .. })), "{path}: {:?}", archive.read(path));
    }
    for path in ["/sys/bus/pci", "/proc/7", "/sys/module/other", "/sys"] {
        assert!(matches!(archive.list(path), Err(Reading::Unknown { .. })), "{path}: {:?}", archive.list(path));
    }
    assert!(archive.has("/sys/module/other"), "its name was seen");
    assert!(matches!(archive.link_name("/sys/module/other"), Err(Reading::Unknown { .. })));
}

#[test]
fn snapshot_of_a_host_with_identifiers_has_none() {
    let directory = two_sockets();
    add(directory.path(), "etc/systemd/system/kestrel.service", "");
    let (kept, archive) = taken(&Root::directory(directory.path()).unwrap());
    let packed = fs::read(kept.path().join("host.tar.zst")).unwrap();
    let text = String::from_utf8_lossy(&crate::root::unpack_zstd(&packed).unwrap()).to_lowercase();
    for identifier in ["kestrel", "00:1b:21", "001b21", "0b7dd5a5", &directory.path().display().to_string()] {
        assert!(
            !text.contains(identifier),
            "{identifier}: {:?}",
            text.find(identifier).map(|at| &text[at - 60..at + 60])
        );
    }
    assert_eq!(archive.read("/proc/7/comm").unwrap(), "<removed>-agent");
}

#[test]
fn interface_whose_name_is_its_address_is_left_out() {
    let directory = two_sockets();
    let nic = "sys/devices/virtual/net/enx001b21aabbdd";
    for (file, text) in [("mtu", "1500\n"), ("ifindex", "4\n"), ("address", "00:1b:21:aa:bb:dd\n")] {
        add(directory.path(), &format!("{nic}/{file}"), text);
    }
    link(directory.path(), "sys/class/net/enx001b21aabbdd", "../../devices/virtual/net/enx001b21aabbdd");
    let (_kept, archive) = taken(&Root::directory(directory.path()).unwrap());
    assert_eq!(crate::interfaces(&archive).unwrap(), ["eth2"]);
    assert!(archive.read(MANIFEST).unwrap().contains("their names identify the machine"));
}

#[test]
fn named_interface_alone_is_taken() {
    let directory = two_sockets();
    let other = "sys/devices/virtual/net/eth9";
    for (file, text) in [("mtu", "1500\n"), ("ifindex", "4\n")] {
        add(directory.path(), &format!("{other}/{file}"), text);
    }
    link(directory.path(), "sys/class/net/eth9", "../../devices/virtual/net/eth9");
    let root = Root::directory(directory.path()).unwrap();
    let path = directory.path().join("one.tar.zst");
    Snapshot::take(&root, &["eth9".to_owned()]).unwrap().write(&path).unwrap();
    assert_eq!(crate::interfaces(&Root::archive(&path).unwrap()).unwrap(), ["eth9"]);

    let error = Snapshot::take(&root, &["eth7".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("eth7") && error.contains("eth2 eth9"), "{error}");
}

#[test]
fn kinds_of_roce_addresses_are_in_a_snapshot_and_the_addresses_are_not() {
    let directory = two_sockets();
    let device = format!("{NIC}/infiniband/mlx5_0");
    let port = format!("{device}/ports/1");
    for (file, text) in [
        ("link_layer", "Ethernet\n"),
        ("gid_attrs/types/0", "IB/RoCE v1\n"),
        ("gid_attrs/types/1", "RoCE v2\n"),
        ("gids/0", "fe80:0000:0000:0000:021b:21ff:feaa:bbcc\n"),
        ("gids/1", "0000:0000:0000:0000:0000:ffff:c000:0205\n"),
    ] {
        add(directory.path(), &format!("{port}/{file}"), text);
    }
    link(directory.path(), "sys/class/infiniband/mlx5_0", &format!("../../{}", device.strip_prefix("sys/").unwrap()));
    let mode = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode";
    add(directory.path(), mode, "IB/RoCE v1\n");
    add(directory.path(), "nearwire/interfaces/eth2.json", r#"{"dcb": {"paused-priorities": 1}, "pause": {}}"#);
    let root = Root::directory(directory.path()).unwrap();
    let (_kept, archive) = taken(&root);
    let of = |root: &Root, id: &str| {
        read_settings(root, &[catalogue::setting(id).unwrap()], &["eth2".to_owned()]).remove(0).1
    };
    assert_eq!(of(&archive, "rdma.roce.gid-types"), Reading::value("IB/RoCE v1, RoCE v2"));
    let chain = of(&archive, "rdma.roce.chain");
    assert!(chain.as_value().is_some_and(|chain| chain.contains("default_roce_mode")), "{chain:?}");
    for id in ["rdma.roce.gid-types", "rdma.roce.chain", "rdma.roce.trust", "rdma.roce.flow-control"] {
        assert_eq!(of(&archive, id), of(&root, id), "{id}");
    }
    assert!(!archive.has("/sys/class/infiniband/mlx5_0/ports/1/gids/0"));
}

#[test]
fn what_only_root_may_read_is_said_to_need_root() {
    let directory = two_sockets();
    add(directory.path(), "nearwire/snapshot.json", r#"{"format": 1}"#);
    add(
        directory.path(),
        "nearwire/looked-at.json",
        r#"{"unread": {"/proc/sys/vm/swappiness": {"needs-root": true}}, "listed": ["/sys/class/net"],
            "devices": {"/dev/cpu_dma_latency": {"0x0": {"bytes": "05000000"}}}}"#,
    );
    let (_kept, archive) = taken(&Root::directory(directory.path()).unwrap());
    let reading = |id| readings(&archive).into_iter().find(|(found, _)| found == id).unwrap().1;
    assert_eq!(reading("vm.swappiness"), Reading::NeedsRoot);
    assert_eq!(reading("cpu.dma-latency-us"), Reading::value("5"));
    assert!(archive.read(MANIFEST).unwrap().contains("/proc/sys/vm/swappiness"));
}

#[test]
fn snapshot_of_another_format_is_refused() {
    for (manifest, looked_at, words) in [
        (r#"{"format": 2}"#, "{}", "format 2"),
        ("{}", "{}", "missing field `format`"),
        ("", "{}", "snapshot.json"),
        (r#"{"format": 1}"#, r#"{"absent": 3}"#, "looked-at.json"),
        (r#"{"format": 1}"#, "", "looked-at.json"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        add(directory.path(), "nearwire/snapshot.json", manifest);
        if !looked_at.is_empty() {
            add(directory.path(), "nearwire/looked-at.json", looked_at);
        }
        let error = Root::directory(directory.path()).unwrap_err();
        assert!(matches!(error, RootError::Manifest { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn file_that_cannot_be_written_leaves_nothing_and_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let host = two_sockets();
    let snapshot = Snapshot::take(&Root::directory(host.path()).unwrap(), &[]).unwrap();
    let path = directory.path().join("host.tar.zst");
    fs::write(&path, "old").unwrap();
    snapshot.write(&path).unwrap();
    assert_ne!(fs::read(&path).unwrap(), b"old");

    let missing = directory.path().join("nowhere/host.tar.zst");
    let error = snapshot.write(&missing).unwrap_err().to_string();
    assert!(error.contains("nowhere/host.tar.zst") && error.contains("No such file"), "{error}");
    for path in [directory.path(), Path::new("/dev/null"), Path::new("/")] {
        let error = snapshot.write(path).unwrap_err();
        assert!(matches!(error, SnapshotError::NotAFile { .. }), "{error}");
    }
    assert!(snapshot.write(Path::new("")).is_err());
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["host.tar.zst"]);
}

//! The live kernel: a veth pair and the sysctls of a network namespace of its own, with a sysfs that
//! shows it. Nothing of the host itself is touched.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use nearwire_host::change::{
    ApplyError, ApplyOptions, Change, RevertError, RevertOptions, RootHost, Scope, apply, revert, status, targets,
};
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_host::{Root, catalogue, read_settings};

use common::{Dying, plan_of, run, skip};

const INSIDE: &str = "NEARWIRE_TEST_INSIDE";
const INTERFACE: &str = "nw0";
/// Four queues each way; the mask of the last one is not the kernel's own.
const PREPARE: &str = "mount -t sysfs none /sys
ip link add nw0 numrxqueues 4 numtxqueues 4 type veth peer name nw1 numrxqueues 4 numtxqueues 4
ip link set nw1 up
ip link set nw0 up
echo 2 > /sys/class/net/nw0/queues/tx-3/xps_cpus";

fn inside(test: &str) {
    if Command::new("ip").arg("-V").output().is_err() {
        return skip("ip(8) is not installed");
    }
    let Some(mut command) = common::test_alone_in_namespaces(test, PREPARE) else { return };
    command.env(INSIDE, "1");
    run(command);
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn live() -> RootHost {
    RootHost::new(Root::live().unwrap())
}

fn journal(directory: &tempfile::TempDir) -> Journal {
    Journal::open(directory.path(), HostIdentity::of(&Root::live().unwrap())).unwrap()
}

/// All readings of the interface and of the namespace's sysctls, and every file of its queues.
fn snapshot() -> BTreeMap<String, String> {
    let root = Root::live().unwrap();
    let is_counter = |id: &str| id.contains("carrier-changes") || id.contains("drops") || id.contains("errors");
    let settings: Vec<_> = catalogue::settings()
        .filter(|s| (s.id.starts_with("nic.") || s.id.starts_with("net.")) && !is_counter(s.id))
        .collect();
    let readings = read_settings(&root, &settings, &[INTERFACE.to_owned()]);
    let mut all: BTreeMap<_, _> = readings.into_iter().map(|(id, reading)| (id, format!("{reading:?}"))).collect();
    let files = Command::new("sh")
        .args(["-c", "grep -r . /sys/class/net/nw0/queues --include=*cpus --include=*rxqs --include=rps_flow_cnt 2>/dev/null | sort"])
        .output()
        .unwrap();
    all.insert("queues".into(), String::from_utf8_lossy(&files.stdout).into_owned());
    let features = Command::new("ethtool").args(["-k", INTERFACE]).output();
    all.insert(
        "ethtool".into(),
        features.map_or(String::new(), |out| String::from_utf8_lossy(&out.stdout).into_owned()),
    );
    all
}

fn assert_as(before: &BTreeMap<String, String>) {
    for (id, now) in snapshot() {
        assert_eq!(Some(&now), before.get(&id), "{id}");
    }
}

fn options() -> ApplyOptions<'static> {
    ApplyOptions::strict(1_790_000_000, Some("test".into()))
}

const WISHES: &[(&str, &str)] = &[
    ("net.ipv4.tcp_sack", "off"),
    ("net.ipv4.tcp_timestamps", "0"),
    ("net.ipv4.tcp_rmem", "4096 65536 1048576"),
    ("net.core.somaxconn", "1024"),
    ("nic.mtu", "1400"),
    ("nic.tx-queue-length", "77"),
    ("nic.channels.rx", "4"),
    ("nic.channels.tx", "3"),
    ("nic.offload.gro", "on"),
    ("nic.offload.tso", "off"),
    ("nic.gro-flush-timeout-ns", "20000"),
    ("nic.napi-defer-hard-irqs", "2"),
];

#[test]
fn child_changes_a_namespace() {
    if !is_inside() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let before = snapshot();
    let mut host = live();
    let mut changes = plan_of(&mut host, &[INTERFACE.to_owned()], WISHES);
    // Of the queues that stay; the mask of one that is given up and comes back is a witness.
    let masks = plan_of(&mut host, &[INTERFACE.to_owned()], &[("nic.rps-cpus", "0"), ("nic.xps-cpus", "1")]);
    changes.extend(masks.into_iter().filter(|change| change.id.ends_with("x-0]")));
    let mut journal = journal(&directory);
    let applied = apply(&mut host, &mut journal, changes.clone(), &options()).unwrap_or_else(|error| panic!("{error}"));
    assert!(applied.skipped.is_empty() && applied.written.len() >= WISHES.len(), "{applied:?}");

    // By other programs.
    let text = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(text("ip", &["link", "show", INTERFACE]).contains("mtu 1400"));
    assert_eq!(text("cat", &["/proc/sys/net/ipv4/tcp_sack"]), "0\n");
    assert_eq!(text("cat", &["/sys/class/net/nw0/gro_flush_timeout"]), "20000\n");
    assert!(text("cat", &["/sys/class/net/nw0/queues/rx-0/rps_cpus"]).trim_end().ends_with('1'));
    let seen = status(&mut host, journal.content(), journal.identity());
    assert!(
        seen.entries.iter().all(|entry| matches!(entry.state, nearwire_host::change::EntryState::InEffect { .. })),
        "{seen:?}"
    );

    let reverted = revert(&mut host, &mut journal, 1_790_000_001, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    assert_as(&before);
}

#[test]
fn live_values_of_a_namespace_changed_and_reverted_are_as_before() {
    inside("child_changes_a_namespace");
}

#[test]
fn child_fails_in_the_middle() {
    if !is_inside() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let before = snapshot();
    let mut host = live();
    let mut changes = plan_of(&mut host, &[INTERFACE.to_owned()], WISHES);
    // Of two sides the kernel takes the first and refuses the second, which is the last to be written.
    for change in &mut changes {
        if change.id.starts_with("nic.napi-defer-hard-irqs") {
            change.wanted = "4294967296".into();
        }
    }
    let error = apply(&mut host, &mut journal(&directory), changes, &options()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ApplyError::Failed { .. }), "{text}");
    assert!(text.contains("nic.napi-defer-hard-irqs[nw0]") && text.ends_with("everything is as it was"), "{text}");
    assert_as(&before);
}

#[test]
fn live_value_refused_in_the_middle_puts_the_others_back() {
    inside("child_fails_in_the_middle");
}

#[test]
fn child_depends_on_another_offload() {
    if !is_inside() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let before = snapshot();
    let mut host = live();
    // What the device cannot have is found before the first write.
    let changes = plan_of(&mut host, &[INTERFACE.to_owned()], &[("nic.mtu", "1400"), ("nic.channels.rx", "5")]);
    let error = apply(&mut host, &mut journal(&directory), changes, &options()).unwrap_err().to_string();
    assert!(error.contains("5 is wanted and the device has at most 4"), "{error}");
    assert_as(&before);

    // Without scatter-gather the kernel switches segmentation off and remembers the wish.
    let changes = plan_of(&mut host, &[INTERFACE.to_owned()], &[("nic.offload.scatter-gather", "off")]);
    let mut journal = journal(&directory);
    apply(&mut host, &mut journal, changes, &options()).unwrap_or_else(|error| panic!("{error}"));
    let scope = Scope { interfaces: &[INTERFACE.to_owned()], cpus: None };
    let tso = targets(host.root(), catalogue::setting("nic.offload.tso").unwrap(), &scope).unwrap();
    let plan = Change::plan(&tso[0], "on", &mut host).unwrap();
    assert_eq!(plan.found, "off, requested");
    // The kernel takes the wish and does not do it.
    let error = apply(&mut host, &mut journal, vec![plan], &options()).unwrap_err().to_string();
    assert!(error.contains("off, requested reads back"), "{error}");
    revert(&mut host, &mut journal, 2, RevertOptions::default()).unwrap();
    assert_as(&before);
}

#[test]
fn live_offload_that_is_taken_without_effect_is_told_from_one_in_effect() {
    inside("child_depends_on_another_offload");
}

/// A tap device takes receive coalescing by frames, up to 64.
#[test]
fn child_changes_coalescing() {
    if !is_inside() {
        return;
    }
    let made = Command::new("ip").args(["tuntap", "add", "nw2", "mode", "tap"]).output().unwrap();
    if !made.status.success() {
        return skip("no tap device can be made");
    }
    let directory = tempfile::tempdir().unwrap();
    let interfaces = ["nw2".to_owned()];
    let frames = || {
        let setting = catalogue::setting("nic.coalesce.rx-frames").unwrap();
        read_settings(&Root::live().unwrap(), &[setting], &interfaces)[0].1.as_value().map(str::to_owned)
    };
    let mut host = live();
    let mut journal = journal(&directory);
    let before = frames();
    let plan = plan_of(&mut host, &interfaces, &[("nic.coalesce.rx-frames", "32"), ("nic.mtu", "1400")]);
    apply(&mut host, &mut journal, plan, &options()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(frames().as_deref(), Some("32"));

    // The driver takes more and keeps 64.
    let plan = plan_of(&mut host, &interfaces, &[("nic.coalesce.rx-frames", "100")]);
    let error = apply(&mut host, &mut journal, plan, &options()).unwrap_err().to_string();
    assert!(error.contains("64 reads back") && error.ends_with("everything is as it was"), "{error}");
    assert_eq!(frames().as_deref(), Some("32"));
    // What it does not have at all is named before anything is written.
    let delay = targets(
        host.root(),
        catalogue::setting("nic.ring.rx").unwrap(),
        &Scope { interfaces: &interfaces, cpus: None },
    );
    let refused = Change::plan(&delay.unwrap()[0], "256", &mut host).unwrap_err();
    assert!(refused.to_string().starts_with("read ring rx of nw2"), "{refused}");

    assert!(revert(&mut host, &mut journal, 2, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(frames(), before);
}

#[test]
fn live_coalescing_that_the_driver_clamps_is_put_back() {
    inside("child_changes_coalescing");
}

const JOURNAL: &str = "NEARWIRE_TEST_JOURNAL";
const KILL_AT: &str = "NEARWIRE_TEST_KILL_AT";
/// The channels take the mask of a queue along; the offload and the files of the interface do not.
const FEW: &[(&str, &str)] = &[
    ("nic.channels.tx", "3"),
    ("nic.offload.gro", "on"),
    ("nic.gro-flush-timeout-ns", "20000"),
    ("nic.mtu", "1400"),
    ("net.ipv4.tcp_sack", "off"),
];

/// Does nothing unless the test below started it.
#[test]
fn grandchild_applies() {
    let (Some(directory), Ok(left)) = (std::env::var_os(JOURNAL), std::env::var(KILL_AT)) else { return };
    let mut host = live();
    let changes = plan_of(&mut host, &[INTERFACE.to_owned()], FEW);
    let mut journal = Journal::open(directory.as_ref(), HostIdentity::of(host.root())).unwrap();
    let mut host = Dying { inner: host, left: left.parse().unwrap() };
    apply(&mut host, &mut journal, changes, &options()).unwrap();
}

#[test]
fn child_kills_applies() {
    if !is_inside() {
        return;
    }
    let before = snapshot();
    for at in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let mut command = common::test_alone("grandchild_applies");
        command.env(JOURNAL, directory.path()).env(KILL_AT, at.to_string());
        let is_killed = common::is_killed(command);
        match revert(&mut live(), &mut journal(&directory), 2, RevertOptions::default()) {
            Ok(reverted) => assert!(reverted.is_complete, "{at}: {reverted:?}"),
            Err(error) => assert!(is_killed && matches!(error, RevertError::Nothing), "{at}: {error}"),
        }
        assert_as(&before);
        if !is_killed {
            // Five changes: a probe, four reads and a write each at least.
            assert!(at >= 30, "{at}");
            break;
        }
    }
}

#[test]
fn live_apply_killed_at_any_call_reverts_to_identity() {
    inside("child_kills_applies");
}

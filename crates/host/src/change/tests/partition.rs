//! CPUs isolated by a control group of a tree: made, given back, and left half made by a kill.

use std::fs;

use super::tree::{add, snapshot, tree};
use super::*;
use crate::journal::Record;
use crate::profile::Wanted;
use crate::tune::{Prepared, prepare};
use crate::{Goal, Root, catalogue};

const GROUP: &str = "sys/fs/cgroup/nearwire.isolated";

fn host(tree: &TempDir) -> RootHost {
    RootHost::new(Root::directory(tree.path()).unwrap())
}

fn isolated(cpus: &str) -> Goal {
    Goal {
        setting: catalogue::setting("cpu.isolated").unwrap(),
        interface: None,
        cpus: None,
        value: cpus.to_owned(),
        wanted: Wanted::Equal(cpus.to_owned()),
        reason: "A reason.".to_owned(),
    }
}

fn prepared(host: &mut RootHost, cpus: &str) -> Prepared {
    prepare(host, &[isolated(cpus)], &[])
}

fn ids(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.id.as_str()).collect()
}

#[test]
fn partition_applied_makes_the_group_and_reverted_removes_it_and_the_controller() {
    let (tree, journals) = (tree(), directory());
    let before = snapshot(tree.path());
    let mut host = host(&tree);
    let changes = prepared(&mut host, "2-3").changes;
    assert_eq!(ids(&changes), ["cpu.isolated[controller]", "cpu.isolated"]);
    let mut journal = journal(journals.path());
    apply(&mut host, &mut journal, changes, &strict()).unwrap();
    let text = |name: &str| fs::read_to_string(tree.path().join(name)).unwrap();
    assert_eq!(text(&format!("{GROUP}/cpuset.cpus")), "2-3\n");
    assert_eq!(text(&format!("{GROUP}/cpuset.cpus.partition")), "isolated\n");
    assert_eq!(text("sys/fs/cgroup/cgroup.subtree_control"), "cpu memory cpuset\n");
    assert!(prepared(&mut host, "2-3").changes.is_empty());
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert!(!tree.path().join(GROUP).exists());
    assert_eq!(snapshot(tree.path()), before);
}

#[test]
fn controller_that_was_on_stays_on() {
    let (tree, journals) = (tree(), directory());
    add(tree.path(), "sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu");
    // Others rely on it, too.
    add(tree.path(), "sys/fs/cgroup/system.slice/cpuset.cpus", "0-1");
    let before = snapshot(tree.path());
    let mut host = host(&tree);
    let changes = prepared(&mut host, "2-3").changes;
    assert_eq!(ids(&changes), ["cpu.isolated"]);
    let mut journal = journal(journals.path());
    apply(&mut host, &mut journal, changes, &strict()).unwrap();
    revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(snapshot(tree.path()), before);
}

/// Without the controller such a group would lose its CPUs.
#[test]
fn controller_that_others_came_to_use_is_kept_and_told() {
    let (tree, journals) = (tree(), directory());
    let mut host = host(&tree);
    let changes = prepared(&mut host, "2-3").changes;
    let mut journal = journal(journals.path());
    apply(&mut host, &mut journal, changes, &strict()).unwrap();
    add(tree.path(), "sys/fs/cgroup/machine.slice/cpuset.cpus", "0-1");
    assert!(hold(&mut host, &journal).is_empty());
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    let kept = reverted.back.items.iter().find(|(id, _)| id == "cpu.isolated[controller]").unwrap();
    assert!(matches!(&kept.1, Outcome::Kept { now, .. } if now == "on, used by machine.slice"), "{kept:?}");
    assert!(!tree.path().join(GROUP).exists());
    let controllers = fs::read_to_string(tree.path().join("sys/fs/cgroup/cgroup.subtree_control")).unwrap();
    assert_eq!(controllers, "cpu memory cpuset\n");
}

/// What a kill between two of the steps leaves: the directory; its CPUs; a state that the kernel
/// does not follow.
const HALFWAY: [&[(&str, &str)]; 4] = [
    &[],
    &[("cpuset.cpus", ""), ("cpuset.cpus.partition", "member")],
    &[("cpuset.cpus", "2-3"), ("cpuset.cpus.partition", "member")],
    &[("cpuset.cpus", "2-3"), ("cpuset.cpus.partition", "isolated invalid (Cpu list in cpuset.cpus not exclusive)")],
];

fn leave_halfway(tree: &TempDir, files: &[(&str, &str)]) {
    let group = tree.path().join(GROUP);
    let _ = fs::remove_dir_all(&group);
    fs::create_dir_all(&group).unwrap();
    for (name, text) in files {
        add(tree.path(), &format!("{GROUP}/{name}"), text);
    }
}

#[test]
fn apply_killed_between_the_steps_of_a_partition_reverts_to_identity() {
    for files in HALFWAY {
        let (tree, journals) = (tree(), directory());
        let before = snapshot(tree.path());
        let mut host = host(&tree);
        let changes = prepared(&mut host, "2-3").changes;
        let mut journal = journal(journals.path());
        journal.begin(NOW, None, changes).unwrap();
        for record in [Record::Intent { change: 0 }, Record::Done { change: 0, effect: "on".into() }] {
            journal.append(record).unwrap();
        }
        add(tree.path(), "sys/fs/cgroup/cgroup.subtree_control", "cpu memory cpuset");
        journal.append(Record::Intent { change: 1 }).unwrap();
        leave_halfway(&tree, files);
        assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
        assert!(!tree.path().join(GROUP).exists(), "{files:?}");
        assert_eq!(snapshot(tree.path()), before, "{files:?}");
    }
}

#[test]
fn revert_killed_between_the_steps_of_a_partition_is_finished_by_the_next() {
    for files in HALFWAY {
        for is_broken_off in [false, true] {
            let (tree, journals) = (tree(), directory());
            let before = snapshot(tree.path());
            let mut host = host(&tree);
            let changes = prepared(&mut host, "2-3").changes;
            let goals = changes.iter().map(|change| (change.target.key(), change.found.clone())).collect();
            let mut journal = journal(journals.path());
            apply(&mut host, &mut journal, changes, &strict()).unwrap();
            if is_broken_off {
                journal.append(Record::Reverting { goals }).unwrap();
            }
            leave_halfway(&tree, files);
            assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
            assert!(!tree.path().join(GROUP).exists(), "{files:?}");
            assert_eq!(snapshot(tree.path()), before, "{files:?}");
        }
    }
}

#[test]
fn partition_that_the_kernel_gave_up_is_told_and_made_again_by_hold() {
    let (tree, journals) = (tree(), directory());
    let mut host = host(&tree);
    let changes = prepared(&mut host, "2-3").changes;
    let target = changes[1].target.clone();
    let mut journal = journal(journals.path());
    apply(&mut host, &mut journal, changes, &strict()).unwrap();
    leave_halfway(&tree, HALFWAY[3]);
    assert!(host.read(&target).unwrap().starts_with("isolated invalid (Cpu list"));
    let held = hold(&mut host, &journal);
    assert!(matches!(&held[..], [(id, Held::Again { .. })] if id == "cpu.isolated"), "{held:?}");
    assert_eq!(host.read(&target).unwrap(), "2-3");
}

#[test]
fn group_that_somebody_left_is_refused_before_anything_is_written() {
    let (tree, journals) = (tree(), directory());
    leave_halfway(&tree, HALFWAY[2]);
    let before = snapshot(tree.path());
    let mut host = host(&tree);
    let changes = prepared(&mut host, "2-3").changes;
    let error = apply(&mut host, &mut journal(journals.path()), changes, &strict()).unwrap_err().to_string();
    assert!(error.contains("says 'member'") && error.contains("rmdir /sys/fs/cgroup/nearwire.isolated"), "{error}");
    assert_eq!(snapshot(tree.path()), before);
}

#[test]
fn cpus_isolated_at_boot_are_named_and_not_written() {
    let tree = tree();
    add(tree.path(), "sys/devices/system/cpu/isolated", "2-3");
    let prepared = prepared(&mut host(&tree), "none");
    assert!(prepared.changes.is_empty() && prepared.failed.is_empty(), "{prepared:?}");
    assert!(matches!(prepared.later[..], [(_, NotAtRunTime::IsolatedAtBoot { .. })]), "{prepared:?}");
}

#[test]
fn host_without_the_controller_says_what_it_needs() {
    let tree = tree();
    add(tree.path(), "sys/fs/cgroup/cgroup.controllers", "cpu memory");
    let prepared = prepared(&mut host(&tree), "2-3");
    let (_, why) = &prepared.later[0];
    assert!(why.to_string().contains("cpuset controller of cgroup v2"), "{why}");
}

#[test]
fn directory_of_a_strangers_tree_is_not_left() {
    let (tree, outside) = (tree(), directory());
    fs::remove_dir_all(tree.path().join("sys/fs/cgroup")).unwrap();
    std::os::unix::fs::symlink(outside.path(), tree.path().join("sys/fs/cgroup")).unwrap();
    let target = Target::Partition { path: format!("/{GROUP}") };
    assert!(host(&tree).write(&target, "2-3").is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

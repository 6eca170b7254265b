//! Second threads of cores that a change takes offline, with all that belongs to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::io::Errno;

use super::super::offline::threads_left;
use super::super::simulated::{AFTER_ONLINE, Fault, Faulty, MemoryHost};
use super::tree::{add, tree};
use super::*;
use crate::topology::Topology;
use crate::{CpuSet, Root, catalogue};

fn off() -> Change {
    change("cpu.smt", smt(), "on", "off")
}

fn governors(found: &str, wanted: &str) -> Vec<Change> {
    let id = |cpu| format!("cpu.governor[cpu{cpu}]");
    [1, 5].into_iter().map(|cpu| change(&id(cpu), governor(cpu), found, wanted)).collect()
}

/// The reads of the CPUs that the first write had taken offline failed the apply, and the way back too.
#[test]
fn smt_switched_off_leaves_values_of_its_second_threads_out_and_reverts() {
    let directory = directory();
    let mut plan = governors(AFTER_ONLINE, "4");
    plan.push(change("cpu.energy-performance-bias[cpu5]", bias(5), AFTER_ONLINE, "0"));
    // A witness: it is as wanted, and would have been held.
    plan.push(change("cpu.energy-performance-bias[cpu6]", bias(6), AFTER_ONLINE, AFTER_ONLINE));
    plan.push(off());
    let mut host = host_of(&plan);
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    let applied = apply(&mut host, &mut journal, plan, &strict()).unwrap();
    let written: Vec<_> = applied.written.iter().map(|(change, _)| change.id.as_str()).collect();
    assert_eq!(written, ["cpu.smt", "cpu.governor[cpu1]"]);
    let skipped: Vec<_> = applied.skipped.iter().map(|(change, why)| format!("{}: {why}", change.id)).collect();
    assert_eq!(skipped.len(), 2);
    assert!(skipped[0].starts_with("cpu.governor[cpu5]") && skipped[0].contains("CPU 5 goes offline with cpu.smt"));
    assert_eq!(journal.content().blocks[0].entries.len(), 2);
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

/// A host whose threads a second plan has switched off after a first one wrote values of theirs: the host, its values before both, the journal.
fn threads_off_after_values(directory: &Path) -> (MemoryHost, BTreeMap<String, String>, Journal) {
    let first = governors("2", "4");
    let mut host = host_of(&[first.clone(), vec![off()]].concat());
    let before = host.values.clone();
    let mut journal = journal(directory);
    apply(&mut host, &mut journal, first, &strict()).unwrap();
    apply(&mut host, &mut journal, vec![off()], &strict()).unwrap();
    (host, before, journal)
}

#[test]
fn interrupt_meant_for_a_thread_that_goes_offline_is_left_out() {
    let directory = directory();
    let plan = vec![
        off(),
        change("nic.irq-affinity[eth4/vector0]", vector("eth4", 0), "0-3", "5"),
        change("nic.irq-affinity[eth4/vector1]", vector("eth4", 1), "0-3", "1,5"),
    ];
    let applied = apply(&mut host_of(&plan), &mut journal(directory.path()), plan, &strict()).unwrap();
    let skipped: Vec<_> = applied.skipped.iter().map(|(change, _)| change.id.as_str()).collect();
    assert_eq!(skipped, ["nic.irq-affinity[eth4/vector0]"]);
}

#[test]
fn sets_of_cpus_are_written_without_the_threads_that_go_offline() {
    let directory = directory();
    let partition = Target::Partition { path: "/sys/fs/cgroup/nearwire.isolated".into() };
    let mask = |file: &str| Target::InterfaceFile {
        device: Device { interface: "eth4".into(), place: None },
        file: format!("queues/{file}"),
        form: Form::CpuMask,
    };
    let workers = Target::File { path: "/sys/devices/virtual/workqueue/cpumask".into(), form: Form::CpuMask };
    let plan = vec![
        off(),
        change("cpu.isolated", partition.clone(), "none", "2-3,6-7"),
        change("nic.rps-cpus[eth4/rx-0]", mask("rx-0/rps_cpus"), "none", "1,5"),
        change("nic.rps-cpus[eth4/rx-1]", mask("rx-1/rps_cpus"), "none", "5"),
        // As wanted: it is not written, and the kernel keeps what it has.
        change("cpu.workqueue-affinity", workers.clone(), "0-1,4-5", "0-1,4-5"),
    ];
    let mut host = host_of(&plan);
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    let applied = apply(&mut host, &mut journal, plan, &strict()).unwrap();
    assert_eq!(host.read(&partition).unwrap(), "2-3");
    assert_eq!(host.read(&mask("rx-0/rps_cpus")).unwrap(), "1");
    assert_eq!(host.read(&mask("rx-1/rps_cpus")).unwrap(), "none");
    assert_eq!(host.read(&workers).unwrap(), "0-1,4-5");
    let skipped: Vec<_> = applied.skipped.iter().map(|(change, why)| format!("{}: {why}", change.id)).collect();
    assert!(
        skipped.len() == 1 && skipped[0].contains("rx-1") && skipped[0].contains("CPU 5 goes offline"),
        "{skipped:?}"
    );
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

/// Half of the CPUs stayed offline: values of CPUs that could not be read were given up before the switch was back.
#[test]
fn smt_reverted_after_values_of_threads_in_an_earlier_plan_brings_all_back() {
    let directory = directory();
    let (mut host, before, mut journal) = threads_off_after_values(directory.path());
    assert!(host.read(&governor(5)).unwrap_err().is_absent());
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    assert_eq!(host.values, before);
}

/// Killed right after the switch was back: the values of the threads are what the kernel starts with, of nobody's.
#[test]
fn revert_broken_off_after_threads_came_back_still_restores_their_values() {
    let directory = directory();
    let (mut host, before, mut journal) = threads_off_after_values(directory.path());
    let goals = vec![(smt().key(), "on".to_owned()), (governor(1).key(), "2".to_owned())];
    journal.append(crate::journal::Record::Reverting { goals }).unwrap();
    host.write(&smt(), "on").unwrap();
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

#[test]
fn plan_failed_after_threads_went_offline_leaves_the_earlier_plan_in_effect() {
    let directory = directory();
    let first = governors("2", "4");
    let second = vec![off(), change("vm.swappiness", sysctl("vm.swappiness"), "60", "0")];
    let mut host = host_of(&[first.clone(), second.clone()].concat());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, first, &strict()).unwrap();
    let between = host.values.clone();
    let mut faulty = Faulty::new(host, vec![(1, Fault::Refuse(Errno::INVAL))]);
    let error = apply(&mut faulty, &mut journal, second, &strict()).unwrap_err().to_string();
    assert!(error.ends_with("everything is as it was"), "{error}");
    assert_eq!(faulty.inner.values, between);
    revert(&mut faulty, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(faulty.inner.values, before);
}

/// Values of threads that a first plan brought online go with them when it is reverted.
#[test]
fn threads_switched_on_and_reverted_take_their_values_along() {
    let directory = directory();
    let on = change("cpu.smt", smt(), "off", "on");
    let mut host = host_of(&[governors(AFTER_ONLINE, "4"), vec![on.clone()]].concat());
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, vec![on], &strict()).unwrap();
    apply(&mut host, &mut journal, governors(AFTER_ONLINE, "4"), &strict()).unwrap();
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    assert_eq!(host.read(&smt()).unwrap(), "off");
}

/// A host of two cores with two threads each.
fn two_cores(control: &str) -> TempDir {
    let tree = tree();
    add(tree.path(), "sys/devices/system/cpu/smt/control", control);
    for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
        add(tree.path(), &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
    }
    tree
}

#[test]
fn threads_that_go_offline_follow_from_the_siblings_of_each_core() {
    let tree = two_cores("on");
    let beyond = |left| Topology::read(&Root::directory(tree.path()).unwrap()).threads_beyond(left);
    assert_eq!(beyond(1), CpuSet::from_list("2-3").unwrap());
    assert!(beyond(2).is_empty());
    assert_eq!(threads_left(&off()), Some(1));
    assert_eq!(threads_left(&change("cpu.smt", smt(), "off", "on")), None);
    assert_eq!(threads_left(&change("vm.swappiness", sysctl("vm.swappiness"), "1", "off")), None);
    // Newer kernels have the list under another name too, and only that is in some copies.
    for cpu in 0..4 {
        let topology = tree.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        fs::rename(topology.join("thread_siblings_list"), topology.join("core_cpus_list")).unwrap();
    }
    assert_eq!(beyond(1), CpuSet::from_list("2-3").unwrap());
}

/// `notsupported` was written back, and into files for the next boot.
#[test]
fn smt_that_cannot_be_switched_is_neither_changed_nor_wanted() {
    for state in ["notsupported", "notimplemented", "forceoff"] {
        let tree = two_cores(state);
        let mut host = RootHost::new(Root::directory(tree.path()).unwrap());
        let setting = catalogue::setting("cpu.smt").unwrap();
        let scope = Scope { interfaces: &[], cpus: None };
        let error = targets(host.root(), setting, &scope).unwrap_err().to_string();
        assert!(error.contains(state) && error.contains("cannot be changed while the host runs"), "{error}");

        assert!(smt().normal(state).is_err());
        let directory = directory();
        for (found, wanted) in [(state, "off"), ("on", state)] {
            let plan = vec![change("cpu.smt", smt(), found, wanted)];
            let error = apply(&mut host, &mut journal(directory.path()), plan, &strict()).unwrap_err();
            assert!(matches!(error, ApplyError::NotWritable { .. }), "{error}");
        }
        let located = Located { id: "cpu.smt".into(), part: Part::Whole, target: smt() };
        assert!(Change::plan(&located, state, &mut host).is_err());
        let control = fs::read_to_string(tree.path().join("sys/devices/system/cpu/smt/control")).unwrap();
        assert_eq!(control.trim(), state);
    }
}

#[test]
fn journal_that_found_a_state_of_smt_never_writes_it_back() {
    let directory = directory();
    let plan = vec![change("cpu.smt", smt(), "notsupported", "off")];
    let mut host = host_of(&plan);
    host.set(&smt(), "off");
    let mut journal = journal(directory.path());
    journal.begin(NOW, None, plan).unwrap();
    for record in [
        crate::journal::Record::Intent { change: 0 },
        crate::journal::Record::Done { change: 0, effect: "off".into() },
        crate::journal::Record::Complete,
    ] {
        journal.append(record).unwrap();
    }
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(host.writes, 0);
    let (_, error) = reverted.back.failed().next().unwrap();
    assert!(error.to_string().contains("notsupported was found, which nobody can write"), "{error}");
}

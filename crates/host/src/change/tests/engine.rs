//! What the engine does with faults, strangers and crashes.

use rustix::io::Errno;

use super::super::simulated::{Fault, Faulty};
use super::*;
use crate::journal::Record;

#[test]
fn plan_applied_and_reverted_is_identity() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    let applied = apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let order: Vec<_> = applied.written.iter().map(|(change, _)| change.id.as_str()).collect();
    assert_eq!(
        order,
        ["vm.swappiness", "nic.ring.rx[eth4]", "nic.coalesce.rx-usecs[eth4]", "nic.irq-affinity[eth4/vector0]"]
    );
    for change in three() {
        assert_eq!(host.values[&change.target.key()], change.wanted);
    }
    let status = status(&mut host, journal.content(), &identity());
    assert_eq!(status.entries.len(), 4);
    assert!(status.entries.iter().all(|entry| matches!(entry.state, EntryState::InEffect { .. })));
    assert!(!status.is_interrupted && !status.is_other_boot);

    let reverted = revert(&mut host, &mut journal, NOW + 1, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete);
    assert_eq!(host.values, before);
    assert!(matches!(revert(&mut host, &mut journal, NOW + 2, RevertOptions::default()), Err(RevertError::Nothing)));
    assert_eq!(std::fs::read_dir(directory.path().join("history")).unwrap().count(), 1);
}

#[test]
fn value_already_as_wanted_applied_writes_nothing_and_no_journal() {
    let directory = directory();
    let changes = vec![change("vm.swappiness", sysctl("vm.swappiness"), "0", "0")];
    let mut host = host_of(&changes);
    let mut journal = journal(directory.path());
    let applied = apply(&mut host, &mut journal, changes, &strict()).unwrap();
    assert_eq!((applied, host.writes), (Applied::default(), 0));
    assert!(!directory.path().join("journal").exists());
}

#[test]
fn ring_changed_resets_interrupts_which_witnesses_put_back() {
    let directory = directory();
    let mut changes = vec![change("nic.ring.rx[eth4]", ring("eth4"), "512", "1024")];
    changes.push(change("nic.irq-affinity[eth4/vector0]", vector("eth4", 0), "1", "1"));
    changes.push(change("nic.irq-affinity[eth5/vector0]", vector("eth5", 0), "1", "1"));
    let mut host = host_of(&changes);
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, changes, &strict()).unwrap();
    assert_eq!(host.values[&vector("eth4", 0).key()], "1");
    // The other device was not touched, so its interrupts are none of our business.
    assert_eq!(journal.content().blocks[0].entries.len(), 2);
    revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(host.values, before);
}

#[test]
fn write_refused_puts_everything_back_and_says_what_was_tried() {
    for (errno, word) in [
        (Errno::INVAL, "does not take this value"),
        (Errno::BUSY, "something else holds it"),
        (Errno::IO, "managed"),
        (Errno::PERM, "belongs to one CPU"),
    ] {
        let directory = directory();
        let mut host = Faulty::new(host_of(&three()), vec![(3, Fault::Refuse(errno))]);
        if !matches!(errno, Errno::IO | Errno::PERM) {
            host.faults = vec![(2, Fault::Refuse(errno))];
        }
        let before = host.inner.values.clone();
        let error = apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap_err().to_string();
        assert!(error.contains(word) && error.ends_with("everything is as it was"), "{error}");
        assert_eq!(host.inner.values, before, "{errno}");
        assert!(!directory.path().join("journal").exists());
    }
}

#[test]
fn effect_other_than_wanted_is_put_back_and_named() {
    let ignored = (Fault::Ignore, "60 reads back");
    let rounded = (Fault::Round("17".into()), "17 reads back");
    for (fault, word) in [ignored, rounded] {
        let directory = directory();
        let mut host = Faulty::new(host_of(&three()), vec![(0, fault)]);
        let before = host.inner.values.clone();
        let error = apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("wrote 0 over 60"), "{error}");
        assert_eq!(host.inner.values, before);
    }
}

#[test]
fn delay_rounded_by_the_device_is_accepted_and_put_back() {
    let directory = directory();
    let wanted = vec![change("nic.coalesce.rx-usecs[eth4]", coalesce("eth4", CoalesceField::RxUsecs), "50", "7")];
    let mut host = Faulty::new(host_of(&wanted), vec![(0, Fault::Round("8".into()))]);
    let before = host.inner.values.clone();
    let mut journal = journal(directory.path());
    let applied = apply(&mut host, &mut journal, wanted, &strict()).unwrap();
    assert_eq!(applied.written[0].1, "8");
    revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(host.inner.values, before);
}

#[test]
fn target_vanished_between_read_and_write_leaves_the_rest_as_it_was() {
    let directory = directory();
    let mut host = Faulty::new(host_of(&three()), vec![(2, Fault::Vanish)]);
    let before = host.inner.values.clone();
    let mut journal = journal(directory.path());
    let error = apply(&mut host, &mut journal, three(), &strict()).unwrap_err().to_string();
    assert!(error.contains("nic.coalesce.rx-usecs[eth4]: it is not there any more"), "{error}");
    assert_eq!(host.inner.values, before);
    // When it is back, revert settles it.
    host.heal();
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.inner.values, before);
}

#[test]
fn place_that_cannot_be_written_is_named_before_anything_is_written() {
    let directory = directory();
    let mut host = Faulty::new(host_of(&three()), Vec::new());
    host.refuse_probe_of = Some((ring("eth4").key(), Errno::ROFS));
    let error = apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap_err().to_string();
    assert!(error.contains("nic.ring.rx[eth4]") && error.contains("mounted read-only"), "{error}");
    assert_eq!(host.writes, 0);

    let options = ApplyOptions { may_skip: &|change, _| change.id.starts_with("nic.ring"), ..strict() };
    let applied = apply(&mut host, &mut journal(directory.path()), three(), &options).unwrap();
    assert_eq!((applied.written.len(), applied.skipped.len()), (3, 1));
}

#[test]
fn value_moved_since_the_plan_stops_before_anything_is_written() {
    let directory = directory();
    let mut host = host_of(&three());
    host.set(&sysctl("vm.swappiness"), "10");
    let error = apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap_err();
    assert!(matches!(&error, ApplyError::Moved { now, .. } if now == "10"), "{error}");
    assert_eq!(host.writes, 0);
}

#[test]
fn two_wishes_for_one_place_are_refused() {
    let directory = directory();
    let mut changes = three();
    changes.push(change("vm.swappiness", sysctl("vm.swappiness"), "60", "1"));
    let mut host = host_of(&three());
    let error = apply(&mut host, &mut journal(directory.path()), changes, &strict()).unwrap_err();
    assert!(matches!(error, ApplyError::Conflict { .. }), "{error}");
}

#[test]
fn stop_asked_for_in_the_middle_puts_everything_back() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let asked = std::cell::Cell::new(0);
    let must_stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let options = ApplyOptions { must_stop: &must_stop, ..strict() };
    let error = apply(&mut host, &mut journal(directory.path()), three(), &options).unwrap_err().to_string();
    assert!(error.contains("interrupted"), "{error}");
    assert_eq!(host.values, before);
}

#[test]
fn value_changed_by_somebody_else_is_kept_and_named() {
    let directory = directory();
    let mut host = host_of(&three());
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    host.set(&sysctl("vm.swappiness"), "33");
    host.set(&vector("eth4", 0), "5");
    let changed = status(&mut host, journal.content(), &identity());
    let foreign = |entry: &&StatusEntry| matches!(entry.state, EntryState::Changed { .. });
    assert_eq!(changed.entries.iter().filter(foreign).count(), 2);

    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    let kept: Vec<_> =
        reverted.back.items.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Kept { .. })).collect();
    assert_eq!(kept.len(), 2, "{reverted:?}");
    assert_eq!(host.values[&sysctl("vm.swappiness").key()], "33");
    // Putting the ring back reset the interrupt, which is again what somebody made it.
    assert_eq!(host.values[&vector("eth4", 0).key()], "5");
    assert_eq!(host.values[&ring("eth4").key()], "512");
    assert!(reverted.is_complete);
}

#[test]
fn second_plan_reverted_goes_back_to_before_the_first() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let second = vec![
        change("vm.swappiness", sysctl("vm.swappiness"), "0", "1"),
        change("nic.ring.rx[eth4]", ring("eth4"), "1024", "2048"),
        change("nic.irq-affinity[eth4/vector0]", vector("eth4", 0), "2", "2"),
    ];
    // The second plan fails at first: the first one stays in effect.
    let mut faulty = Faulty::new(host.clone(), vec![(1, Fault::Refuse(Errno::BUSY))]);
    apply(&mut faulty, &mut journal, second.clone(), &strict()).unwrap_err();
    assert_eq!(faulty.inner.values, host.values);
    apply(&mut host, &mut journal, second, &strict()).unwrap();
    assert_eq!(host.values[&vector("eth4", 0).key()], "2");
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

#[test]
fn host_booted_since_reverts_to_nothing_left_to_do() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap();
    // The boot brings back the values of before, and one device is gone.
    host.values = before;
    host.values.remove(&vector("eth4", 0).key());
    let booted = HostIdentity { boot: Some("b2".into()), ..identity() };
    let mut journal = Journal::open(directory.path(), booted.clone()).unwrap();
    assert!(status(&mut host, journal.content(), &booted).is_other_boot);
    let writes = host.writes;
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete, "{reverted:?}");
    assert_eq!(host.writes, writes);
}

/// What an exported file or somebody else had made permanent was put back without a word.
#[test]
fn value_made_permanent_before_a_boot_is_named_and_kept_until_told_otherwise() {
    for (permanent, is_kept) in [(Permanent::Keep, true), (Permanent::PutBack, false)] {
        let directory = directory();
        let mut host = host_of(&three());
        let before = host.values.clone();
        apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap();
        host.values = before.clone();
        host.set(&sysctl("vm.swappiness"), "0");
        let booted = HostIdentity { boot: Some("b2".into()), ..identity() };
        let mut journal = Journal::open(directory.path(), booted).unwrap();
        let writes = host.writes;
        // Also the second time, after a revert that is not complete.
        for _ in 0..2 {
            let asked = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
            assert_eq!(asked.back.permanent().collect::<Vec<_>>(), ["vm.swappiness"]);
            assert!(!asked.is_complete && host.writes == writes);
        }
        let options = RevertOptions { permanent, ..RevertOptions::default() };
        assert!(revert(&mut host, &mut journal, NOW, options).unwrap().is_complete);
        assert_eq!(host.values[&sysctl("vm.swappiness").key()] == "0", is_kept);
        assert!(!directory.path().join("journal").exists());
    }
}

#[test]
fn device_gone_leaves_the_journal_open_until_it_is_back_or_given_up() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let ring_now = host.values.remove(&ring("eth4").key()).unwrap();
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(reverted.back.absent().collect::<Vec<_>>(), ["nic.ring.rx[eth4]"]);
    assert!(!reverted.is_complete);
    host.set(&ring("eth4"), &ring_now);
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

#[test]
fn write_back_refused_leaves_the_journal_open_for_another_try() {
    let directory = directory();
    let mut host = Faulty::new(host_of(&three()), Vec::new());
    let before = host.inner.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    // The ring comes back third; every round of the revert is refused.
    host.faults = (host.writes..host.writes + 20).map(|at| (at, Fault::Refuse(Errno::BUSY))).collect();
    let reverted = revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert!(!reverted.is_complete && reverted.back.failed().count() == 4, "{reverted:?}");
    host.faults.clear();
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.inner.values, before);
}

/// A bug: values that a broken-off revert's own writes had moved passed for somebody else's.
#[test]
fn revert_broken_off_after_a_reset_still_restores_interrupts() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let goals = before.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    journal.append(Record::Reverting { goals }).unwrap();
    // Killed right after the ring was put back, which reset the interrupt.
    host.write(&ring("eth4"), "512").unwrap();
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

#[test]
fn apply_after_one_that_was_broken_off_is_refused_until_it_is_reverted() {
    let directory = directory();
    let mut host = host_of(&three());
    let mut journal = journal(directory.path());
    journal.begin(NOW, None, three()).unwrap();
    journal.append(Record::Intent { change: 3 }).unwrap();
    let refused = apply(&mut host, &mut journal, three(), &strict()).unwrap_err();
    assert!(matches!(refused, ApplyError::BrokenOff), "{refused}");
    assert_eq!(host.writes, 0);
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
}

/// A host on which one sysctl moves another one, which no table knows.
struct Coupled(MemoryHost);

impl Host for Coupled {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.0.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        if *target == sysctl("vm.dirty_ratio") {
            self.0.set(&sysctl("vm.dirty_background_ratio"), "77");
        }
        self.0.write(target, word)
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.0.probe(target, word)
    }
}

#[test]
fn value_moved_by_another_in_an_unknown_way_fails_and_is_put_back() {
    let directory = directory();
    let changes = vec![
        change("vm.dirty_background_ratio", sysctl("vm.dirty_background_ratio"), "10", "5"),
        change("vm.dirty_ratio", sysctl("vm.dirty_ratio"), "20", "10"),
    ];
    let mut host = Coupled(host_of(&changes));
    let before = host.0.values.clone();
    let error = apply(&mut host, &mut journal(directory.path()), changes, &strict()).unwrap_err().to_string();
    assert!(error.contains("wrote 5 over 10, and 77 reads back"), "{error}");
    assert_eq!(host.0.values, before);
}

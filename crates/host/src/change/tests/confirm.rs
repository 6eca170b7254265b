//! A change that goes back unless it is confirmed.

use std::time::Duration;

use super::super::confirm::{FileWatch, Verdict, Watch, Word, confirm, keep_or_revert};
use super::*;

struct Heard(Vec<Word>, Duration);

impl Watch for Heard {
    fn now(&self) -> Duration {
        self.1
    }

    fn wait(&mut self, at_most: Duration) -> Word {
        self.1 += at_most.min(Duration::from_secs(1));
        self.0.pop().unwrap_or(Word::Nothing)
    }
}

#[test]
fn guardian_keeps_only_what_is_confirmed_in_time() {
    for (words, is_kept) in [(vec![Word::Confirmed, Word::Nothing], true), (vec![], false), (vec![Word::Ended], false)]
    {
        let directory = directory();
        let mut host = host_of(&three());
        let before = host.values.clone();
        let mut journal = journal(directory.path());
        apply(&mut host, &mut journal, three(), &strict()).unwrap();
        let mut watch = Heard(words, Duration::ZERO);
        let within = Duration::from_secs(60);
        let verdict = keep_or_revert(&mut host, &mut journal, &mut watch, within, NOW).unwrap();
        assert_eq!(verdict == Verdict::Kept, is_kept, "{verdict:?}");
        assert_eq!(host.values == before, !is_kept);
        if matches!(verdict, Verdict::TimedOut(_)) {
            assert_eq!(watch.1, within);
        }
        let waits = status(&mut host, journal.content(), &identity()).confirm_by_unix_s;
        assert_eq!(waits, None);
    }
}

#[test]
fn confirmation_by_another_process_reaches_the_guardian_alone() {
    let directory = directory();
    let nobody = confirm(directory.path(), &identity()).unwrap_err();
    assert!(nobody.to_string().contains("no change waits"), "{nobody}");
    let mut host = host_of(&three());
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let unasked = confirm(directory.path(), &identity()).unwrap_err();
    assert!(unasked.to_string().contains("no change waits"), "{unasked}");

    let path = directory.path().to_owned();
    let confirmer = std::thread::spawn(move || {
        while confirm(&path, &identity()).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut watch = FileWatch::new(&journal, || false);
    let within = Duration::from_secs(20);
    let verdict = keep_or_revert(&mut host, &mut journal, &mut watch, within, NOW).unwrap();
    confirmer.join().unwrap();
    assert_eq!(verdict, Verdict::Kept);
}

fn second() -> Vec<Change> {
    vec![
        change("vm.swappiness", sysctl("vm.swappiness"), "0", "1"),
        change("vm.stat_interval", sysctl("vm.stat_interval"), "1", "10"),
    ]
}

/// A plan that was confirmed the week before went back with the one that nobody confirmed.
#[test]
fn guardian_timed_out_takes_back_its_own_plan_only() {
    let directory = directory();
    let mut host = host_of(&[three(), second()[1..].to_vec()].concat());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    let confirmed = host.values.clone();
    apply(&mut host, &mut journal, second(), &strict()).unwrap();
    let mut watch = Heard(vec![], Duration::ZERO);
    let verdict = keep_or_revert(&mut host, &mut journal, &mut watch, Duration::from_secs(60), NOW).unwrap();
    assert!(matches!(&verdict, Verdict::TimedOut(reverted) if reverted.is_complete), "{verdict:?}");
    assert_eq!(host.values, confirmed);
    let status = status(&mut host, journal.content(), &identity());
    assert!(!status.is_interrupted && status.entries.len() == 4);
    assert!(status.entries.iter().all(|entry| matches!(entry.state, EntryState::InEffect { .. })));
    revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap();
    assert_eq!(host.values, before);
}

/// Killed while it took its plan back.
#[test]
fn guardian_killed_on_the_way_back_leaves_what_revert_understands() {
    let directory = directory();
    let mut host = host_of(&[three(), second()[1..].to_vec()].concat());
    let before = host.values.clone();
    let mut journal = journal(directory.path());
    apply(&mut host, &mut journal, three(), &strict()).unwrap();
    apply(&mut host, &mut journal, second(), &strict()).unwrap();
    journal.append(crate::journal::Record::TakingBack).unwrap();
    host.write(&sysctl("vm.stat_interval"), "1").unwrap();
    assert!(journal.content().is_interrupted());
    assert!(revert(&mut host, &mut journal, NOW, RevertOptions::default()).unwrap().is_complete);
    assert_eq!(host.values, before);
}

/// It was told "the values stay" while they went back.
#[test]
fn confirmation_that_comes_too_late_says_so() {
    let directory = directory();
    let mut host = host_of(&three());
    let mut journal = journal(directory.path());
    let options = ApplyOptions { confirm_by_unix_s: Some(NOW), ..strict() };
    apply(&mut host, &mut journal, three(), &options).unwrap();
    let path = directory.path().to_owned();
    let confirmer = std::thread::spawn(move || confirm(&path, &identity()));
    while !directory.path().join("confirmed").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The time is over before the guardian looks.
    let mut watch = Heard(vec![], Duration::ZERO);
    keep_or_revert(&mut host, &mut journal, &mut watch, Duration::from_millis(1), NOW).unwrap();
    let late = confirmer.join().unwrap().unwrap_err().to_string();
    assert!(late.contains("too late"), "{late}");
    assert!(!directory.path().join("confirmed").exists());
}

#[test]
fn values_that_nobody_confirmed_are_not_held() {
    let directory = directory();
    let mut host = host_of(&three());
    let mut journal = journal(directory.path());
    let options = ApplyOptions { confirm_by_unix_s: Some(NOW), ..strict() };
    apply(&mut host, &mut journal, three(), &options).unwrap();
    host.set(&sysctl("vm.swappiness"), "33");
    let writes = host.writes;
    assert!(hold(&mut host, &journal).is_empty());
    assert_eq!(host.writes, writes);
    journal.append(crate::journal::Record::Confirmed).unwrap();
    assert_eq!(hold(&mut host, &journal).len(), 1);
    assert_eq!(host.values[&sysctl("vm.swappiness").key()], "0");
}

/// A boot, which may have been the way back, was undone by whoever watched.
#[test]
fn values_of_before_a_boot_are_not_held() {
    let directory = directory();
    let mut host = host_of(&three());
    let before = host.values.clone();
    // Also what nobody confirmed before: the boot has taken it back.
    let options = ApplyOptions { confirm_by_unix_s: Some(NOW), ..strict() };
    apply(&mut host, &mut journal(directory.path()), three(), &options).unwrap();
    host.values = before.clone();
    let booted = HostIdentity { boot: Some("b2".into()), ..identity() };
    let mut journal = Journal::open(directory.path(), booted).unwrap();
    assert!(hold(&mut host, &journal).is_empty());
    assert_eq!(host.values, before);
    // What is applied now is held.
    apply(&mut host, &mut journal, three()[3..].to_vec(), &strict()).unwrap();
    host.set(&sysctl("vm.swappiness"), "33");
    assert_eq!(hold(&mut host, &journal).len(), 1);
}

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

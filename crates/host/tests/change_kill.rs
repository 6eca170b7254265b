//! Processes that change a tree of files and are killed, meet each other or run out of disk.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_host::change::confirm::{FileWatch, Verdict, keep_or_revert};
use nearwire_host::change::{
    ApplyError, ApplyOptions, AttemptError, Host, HostError, RevertError, RevertOptions, RootHost, Target, apply,
    revert,
};
use nearwire_host::journal::{Journal, JournalError};

use rustix::process::{Pid, Signal, kill_process};

use common::{Dying, host, identity, make_tree, plan, run, skip, snapshot, test_alone};

const TREE: &str = "NEARWIRE_TEST_TREE";
const KILL_AT: &str = "NEARWIRE_TEST_KILL_AT";

/// The tree and the journal's directory of a process that a test started; `None` in a usual run.
fn given() -> Option<(PathBuf, PathBuf)> {
    let tree = PathBuf::from(std::env::var_os(TREE)?);
    let journal = tree.with_extension("journal");
    Some((tree, journal))
}

/// A tree in memory, and its journal's directory beside it.
fn fresh() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let tree = directory.path().join("host");
    make_tree(&tree);
    let journal = tree.with_extension("journal");
    (directory, tree, journal)
}

fn open(tree: &Path, directory: &Path) -> (RootHost, Journal) {
    let host = host(tree);
    let identity = identity(&host);
    (host, Journal::open(directory, identity).unwrap())
}

/// Does nothing unless one of the tests below started it.
#[test]
fn child_applies() {
    let Some((tree, directory)) = given() else { return };
    let (mut host, mut journal) = open(&tree, &directory);
    let changes = plan(&mut host);
    let mut host = Dying { inner: host, left: std::env::var(KILL_AT).unwrap().parse().unwrap() };
    apply(&mut host, &mut journal, changes, &ApplyOptions::strict(1, Some("raw-frame".into()))).unwrap();
}

/// Does nothing unless one of the tests below started it.
#[test]
fn child_reverts() {
    let Some((tree, directory)) = given() else { return };
    let (host, mut journal) = open(&tree, &directory);
    let mut host = Dying { inner: host, left: std::env::var(KILL_AT).unwrap().parse().unwrap() };
    revert(&mut host, &mut journal, 2, RevertOptions::default()).unwrap();
}

fn is_killed(test: &str, tree: &Path, at: usize) -> bool {
    let mut command = test_alone(test);
    command.env(TREE, tree).env(KILL_AT, at.to_string());
    common::is_killed(command)
}

#[test]
fn apply_killed_at_any_call_reverts_to_identity() {
    let mut kills_with_a_journal = 0;
    for at in 0.. {
        let (_directory, tree, directory) = fresh();
        let before = snapshot(&tree);
        let is_killed = is_killed("child_applies", &tree, at);
        let (mut host, mut journal) = open(&tree, &directory);
        match revert(&mut host, &mut journal, 2, RevertOptions::default()) {
            Ok(reverted) => {
                assert!(reverted.is_complete, "{at}: {reverted:?}");
                kills_with_a_journal += usize::from(is_killed);
            }
            Err(RevertError::Nothing) => assert!(is_killed),
            Err(error) => panic!("{at}: {error}"),
        }
        assert_eq!(snapshot(&tree), before, "killed at call {at}");
        if !is_killed {
            break;
        }
    }
    // Eleven values: at least before and after each write.
    assert!(kills_with_a_journal >= 22, "{kills_with_a_journal}");
}

#[test]
fn revert_killed_at_any_call_is_finished_by_the_next() {
    for at in 0.. {
        let (_directory, tree, directory) = fresh();
        let before = snapshot(&tree);
        let (mut host, mut journal) = open(&tree, &directory);
        let changes = plan(&mut host);
        apply(&mut host, &mut journal, changes, &ApplyOptions::strict(1, None)).unwrap();
        drop(journal);
        let is_killed = is_killed("child_reverts", &tree, at);
        let (mut host, mut journal) = open(&tree, &directory);
        let again = revert(&mut host, &mut journal, 3, RevertOptions::default());
        assert_eq!(again.is_err(), !is_killed, "{at}: {again:?}");
        assert_eq!(snapshot(&tree), before, "killed at call {at}");
        if !is_killed {
            assert!(at > 22);
            break;
        }
    }
}

/// Stays at the first write until its standard input closes.
struct Slow(RootHost);

impl Host for Slow {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.0.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        std::io::read_to_string(std::io::stdin()).unwrap();
        self.0.write(target, word)
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.0.probe(target, word)
    }
}

/// Does nothing unless the test below started it.
#[test]
fn child_applies_slowly() {
    let Some((tree, directory)) = given() else { return };
    let (mut host, mut journal) = open(&tree, &directory);
    let changes = plan(&mut host);
    apply(&mut Slow(host), &mut journal, changes, &ApplyOptions::strict(1, None)).unwrap();
}

#[test]
fn two_applies_at_once_the_second_is_refused_and_names_the_first() {
    let (_directory, tree, directory) = fresh();
    let mut command = test_alone("child_applies_slowly");
    let mut child = command.env(TREE, &tree).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !directory.join("journal").exists() {
        assert!(Instant::now() < deadline, "the first apply did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let host = host(&tree);
    let refused = Journal::open(&directory, identity(&host)).unwrap_err();
    assert!(matches!(refused, JournalError::Busy { pid, .. } if pid == Some(child.id())), "{refused}");
    // Looking is always allowed.
    let seen = Journal::look(&directory, &identity(&host)).unwrap().unwrap();
    assert!(seen.is_interrupted());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!Journal::look(&directory, &identity(&host)).unwrap().unwrap().is_interrupted());
}

/// Does nothing unless the test below started it.
#[test]
fn child_guards() {
    let Some((tree, directory)) = given() else { return };
    let (mut host, mut journal) = open(&tree, &directory);
    let changes = plan(&mut host);
    nearwire_sys::usage::catch_interrupts().unwrap();
    apply(&mut host, &mut journal, changes, &ApplyOptions::strict(1, None)).unwrap();
    let mut watch = FileWatch::new(&journal, nearwire_sys::usage::interrupted);
    let verdict = keep_or_revert(&mut host, &mut journal, &mut watch, Duration::from_secs(60), 1).unwrap();
    assert!(matches!(verdict, Verdict::Ended(reverted) if reverted.is_complete));
}

#[test]
fn guardian_ended_by_a_signal_reverts_and_killed_leaves_it_to_revert() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL] {
        let (_directory, tree, directory) = fresh();
        let before = snapshot(&tree);
        let mut command = test_alone("child_guards");
        let mut child = command.env(TREE, &tree).stdout(Stdio::null()).spawn().unwrap();
        let identity = identity(&host(&tree));
        let waits = || {
            let content = Journal::look(&directory, &identity).ok().flatten();
            content.is_some_and(|content| content.blocks.iter().any(|block| block.confirm_by_unix_s.is_some()))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !waits() {
            assert!(Instant::now() < deadline, "the guardian does not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_ne!(snapshot(&tree), before);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let is_success = child.wait().unwrap().success();
        if signal == Signal::KILL {
            let (mut host, mut journal) = open(&tree, &directory);
            assert!(revert(&mut host, &mut journal, 2, RevertOptions::default()).unwrap().is_complete);
        } else {
            assert!(is_success, "{signal:?}");
            assert!(!directory.join("journal").exists());
        }
        assert_eq!(snapshot(&tree), before, "{signal:?}");
    }
}

/// Fills the disk of the journal before the first write.
struct Filling {
    inner: RootHost,
    directory: PathBuf,
}

impl Host for Filling {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.inner.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        let filler = self.directory.join("filler");
        while fs::write(&filler, vec![0; fs::metadata(&filler).map_or(0, |file| file.len() as usize) + 1024]).is_ok() {}
        self.inner.write(target, word)
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.inner.probe(target, word)
    }
}

/// Does nothing unless the test below started it, with a file system of 12 KB at the journal's.
#[test]
fn child_runs_out_of_disk() {
    let Some((tree, directory)) = given() else { return };
    let before = snapshot(&tree);
    let (mut host, mut journal) = open(&tree, &directory);
    let changes = plan(&mut host);
    let options = ApplyOptions::strict(1, None);

    // No room for the plan itself.
    fs::write(directory.join("filler"), vec![0; 8 << 10]).unwrap();
    let error = apply(&mut host, &mut journal, changes.clone(), &options).unwrap_err();
    assert!(matches!(error, ApplyError::Journal(JournalError::Disk { .. })), "{error}");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert_eq!(snapshot(&tree), before);
    fs::remove_file(directory.join("filler")).unwrap();

    // Room for the plan, and for how much of what is done depends on the page it ends in.
    let mut filling = Filling { inner: host, directory: directory.clone() };
    for _ in 0..8 {
        match apply(&mut filling, &mut journal, changes.clone(), &options) {
            Err(ApplyError::Failed { attempt, .. }) => {
                assert!(matches!(attempt.error, AttemptError::Journal(_)), "{attempt}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => drop(revert(&mut filling, &mut journal, 2, RevertOptions::default()).unwrap()),
        }
        assert_eq!(snapshot(&tree), before);
        fs::remove_file(directory.join("filler")).unwrap();
        fs::remove_dir_all(directory.join("history")).unwrap();
    }

    // Read-only from now on.
    drop(journal);
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(&directory).status().unwrap();
    assert!(remount.success());
    let read_only = Journal::open(&directory, identity(&filling.inner)).unwrap_err();
    assert!(read_only.to_string().contains("Read-only file system"), "{read_only}");
    assert_eq!(snapshot(&tree), before);
}

#[test]
fn journal_on_a_full_or_read_only_disk_leaves_the_host_as_it_was() {
    let (_directory, tree, directory) = fresh();
    fs::create_dir(&directory).unwrap();
    let mount = format!("mount -t tmpfs -o size=12k none '{}'", directory.display());
    let Some(mut command) = common::test_alone_in_namespaces("child_runs_out_of_disk", &mount) else { return };
    command.env(TREE, &tree);
    if Command::new("mount").arg("--version").output().is_err() {
        return skip("mount(8) is not installed");
    }
    run(command);
}

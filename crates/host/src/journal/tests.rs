//! Journals that are torn, damaged, of another host or version, and in use.

use std::fs;
use std::path::Path;

use super::*;
use crate::change::simulated::MemoryHost;
use crate::change::tests::{directory, host_of, identity, journal, sysctl, three};
use crate::change::{ApplyError, ApplyOptions, Host, HostError, RevertError, RevertOptions, Target, apply, revert};

const NOW: u64 = 1_790_000_000;

fn strict() -> ApplyOptions<'static> {
    ApplyOptions::strict(NOW, None)
}

/// Remembers, for each read and write, how long the journal was and what the host looked like.
struct Watched<'a> {
    host: MemoryHost,
    path: &'a Path,
    seen: Vec<(u64, MemoryHost)>,
}

impl Watched<'_> {
    fn look(&mut self) {
        let length_bytes = fs::metadata(self.path).map_or(0, |file| file.len());
        self.seen.push((length_bytes, self.host.clone()));
    }
}

impl Host for Watched<'_> {
    fn read(&mut self, target: &Target) -> Result<String, HostError> {
        self.look();
        self.host.read(target)
    }

    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.look();
        let done = self.host.write(target, word);
        self.look();
        done
    }

    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError> {
        self.host.probe(target, word)
    }
}

#[test]
fn journal_torn_at_any_byte_reverts_to_identity() {
    let directory = directory();
    let path = directory.path().join(FILE);
    let mut host = Watched { host: host_of(&three()), path: &path, seen: Vec::new() };
    let before = host.host.values.clone();
    apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap();
    host.look();
    let whole = fs::read(&path).unwrap();
    let plan_bytes = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    for length in 0..=whole.len() {
        // What the host looked like while a journal of this length was being made longer.
        let was_shorter = |(at, _): &&(u64, MemoryHost)| *at <= length as u64;
        let mut torn_host =
            host.seen.iter().rev().find(was_shorter).map_or_else(|| host_of(&three()), |seen| seen.1.clone());
        fs::write(&path, &whole[..length]).unwrap();
        let mut torn = journal(directory.path());
        match revert(&mut torn_host, &mut torn, NOW, RevertOptions::default()) {
            Ok(reverted) => assert!(reverted.is_complete && length >= plan_bytes - 1, "{length}: {reverted:?}"),
            Err(RevertError::Nothing) => assert!(length < plan_bytes, "{length}"),
            Err(error) => panic!("{length}: {error}"),
        }
        assert_eq!(torn_host.values, before, "{length}");
        assert!(!path.exists());
    }
}

#[test]
fn journal_torn_and_used_again_is_whole() {
    let directory = directory();
    let path = directory.path().join(FILE);
    let mut host = host_of(&three());
    let before = host.values.clone();
    apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let mut torn = journal(directory.path());
    assert!(torn.content().is_torn && torn.content().is_interrupted());
    torn.append(Record::Complete).unwrap();
    drop(torn);
    let mut again = journal(directory.path());
    assert!(!again.content().is_torn && !again.content().is_interrupted());
    revert(&mut host, &mut again, NOW, RevertOptions::default()).unwrap();
    assert_eq!(host.values, before);
}

/// The lines of a journal of two plans, and where the second one begins.
fn two_plans(directory: &Path) -> (MemoryHost, Vec<String>, usize) {
    let second = vec![crate::change::tests::change("vm.stat_interval", sysctl("vm.stat_interval"), "1", "10")];
    let mut host = host_of(&[three(), second.clone()].concat());
    apply(&mut host, &mut journal(directory), three(), &strict()).unwrap();
    let first = fs::read_to_string(directory.join(FILE)).unwrap().lines().count();
    apply(&mut host, &mut journal(directory), second, &strict()).unwrap();
    let text = fs::read_to_string(directory.join(FILE)).unwrap();
    (host, text.lines().map(str::to_owned).collect(), first)
}

fn with_damage(lines: &[String], at: usize) -> String {
    let mut lines = lines.to_vec();
    lines[at].replace_range(20..22, "~~");
    lines.join("\n") + "\n"
}

/// One line that a disk had spoilt kept everything in effect for good.
#[test]
fn journal_damaged_in_the_middle_reverts_the_rest_and_names_the_line() {
    let scratch = directory();
    let before = host_of(&three()).values;
    let (_, lines, second) = two_plans(scratch.path());
    for at in 0..lines.len() - 1 {
        let directory = directory();
        let (mut host, ..) = two_plans(directory.path());
        fs::write(directory.path().join(FILE), with_damage(&lines, at)).unwrap();
        let looked = Journal::look(directory.path(), &identity()).unwrap().unwrap();
        assert_eq!(looked.damaged.iter().map(|damage| damage.line).collect::<Vec<_>>(), [at + 1]);
        assert!(looked.is_interrupted());
        let mut damaged = journal(directory.path());
        let refused = apply(&mut host, &mut damaged, three(), &strict()).unwrap_err();
        assert!(matches!(refused, ApplyError::BrokenOff), "{at}: {refused}");
        let reverted = revert(&mut host, &mut damaged, NOW, RevertOptions::default()).unwrap();
        assert!(reverted.is_complete, "{at}: {reverted:?}");
        assert_eq!(reverted.damaged, looked.damaged);
        let is_back = |target: &Target| host.values[&target.key()] == before[&target.key()];
        let is_second_back = host.values[&sysctl("vm.stat_interval").key()] == "1";
        // A plan that was lost takes the values found before along, and only those.
        assert_eq!(three().iter().all(|change| is_back(&change.target)), at != 1, "{at}");
        assert_eq!(is_second_back, at != second, "{at}");
    }
}

/// Its records were taken for those of the plan before it.
#[test]
fn journal_whose_only_plan_is_damaged_is_left_alone_and_named() {
    let directory = directory();
    let path = directory.path().join(FILE);
    let mut host = host_of(&three());
    apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap();
    let text = fs::read_to_string(&path).unwrap().replacen("swappiness", "swappinesz", 1);
    fs::write(&path, &text).unwrap();
    let writes = host.writes;
    let error = revert(&mut host, &mut journal(directory.path()), NOW, RevertOptions::default()).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert_eq!((host.writes, fs::read_to_string(&path).unwrap()), (writes, text));
}

thread_local! {
    static SYNCED: std::cell::RefCell<Vec<std::path::PathBuf>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Directories that were written to the disk by this thread.
pub(super) fn note_sync(path: &Path) {
    SYNCED.with_borrow_mut(|synced| synced.push(path.to_owned()));
}

/// After a crash the journal was there and the directory that it is in was not.
#[test]
fn journal_directory_made_is_on_the_disk_with_its_parents() {
    let top = directory();
    let directory = top.path().join("lib/nearwire/journal");
    let mut host = host_of(&three());
    let mut own = journal(&directory);
    let synced = || SYNCED.with_borrow_mut(std::mem::take);
    let parents = [top.path().to_owned(), top.path().join("lib"), top.path().join("lib/nearwire"), directory.clone()];
    assert_eq!(synced(), parents);
    apply(&mut host, &mut own, three(), &strict()).unwrap();
    assert_eq!(synced(), std::slice::from_ref(&directory));
    revert(&mut host, &mut own, NOW, RevertOptions::default()).unwrap();
    assert_eq!(synced(), [directory.clone(), directory.join(HISTORY), directory]);
}

#[test]
fn journal_of_a_newer_version_is_refused_with_both_formats() {
    let directory = directory();
    let header = Record::Header { format: FORMAT + 1, program: "nearwire 9".into() };
    fs::write(directory.path().join(FILE), line::line(&header).unwrap()).unwrap();
    let error = Journal::open(directory.path(), identity()).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found, .. } if found == FORMAT + 1), "{error}");
    assert!(error.to_string().contains("knows up to 1"), "{error}");
}

#[test]
fn journal_of_another_host_or_namespace_is_refused() {
    let directory = directory();
    let here = HostIdentity { network: Some(1), ..identity() };
    let mut host = host_of(&three());
    let mut own = Journal::open(directory.path(), here.clone()).unwrap();
    apply(&mut host, &mut own, three(), &strict()).unwrap();
    drop(own);
    let other_host = HostIdentity { machine: Some("n".into()), ..here.clone() };
    let error = Journal::open(directory.path(), other_host).unwrap_err();
    assert!(matches!(error, JournalError::OtherHost { .. }), "{error}");
    let other_network = HostIdentity { network: Some(2), ..here.clone() };
    let error = Journal::open(directory.path(), other_network.clone()).unwrap_err();
    assert!(matches!(error, JournalError::OtherNetwork { .. }), "{error}");
    // What belongs to no namespace can be put back from any.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut own = Journal::open(elsewhere.path(), here).unwrap();
    let of_host = three().into_iter().filter(|change| change.target.device().is_none()).collect();
    apply(&mut host_of(&three()), &mut own, of_host, &strict()).unwrap();
    drop(own);
    assert!(Journal::open(elsewhere.path(), other_network.clone()).is_ok());
    // After a boot all namespaces are new ones.
    let booted = HostIdentity { boot: Some("b2".into()), ..other_network };
    assert!(Journal::open(directory.path(), booted).is_ok());
}

#[test]
fn journal_in_use_is_refused_with_the_process_id() {
    let directory = directory();
    let held = journal(directory.path());
    let error = Journal::open(directory.path(), identity()).unwrap_err();
    assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
    drop(held);
    assert!(Journal::open(directory.path(), identity()).is_ok());
}

#[test]
fn journal_that_cannot_be_made_leaves_the_host_untouched() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Journal::open(&file.join("journal"), identity()).unwrap_err();
    assert!(matches!(error, JournalError::Disk { action: "create", .. }), "{error}");

    // The name of the new journal is taken by something that cannot be replaced.
    fs::create_dir_all(directory.path().join(NEW).join("x")).unwrap();
    let mut host = host_of(&three());
    let before = host.values.clone();
    let error = apply(&mut host, &mut journal(directory.path()), three(), &strict()).unwrap_err();
    assert!(matches!(error, ApplyError::Journal(JournalError::Disk { .. })), "{error}");
    assert_eq!((host.values, host.writes), (before, 0));
}

#[test]
fn identity_of_a_host_does_not_show_its_machine_id() {
    let directory = directory();
    fs::create_dir_all(directory.path().join("etc")).unwrap();
    fs::write(directory.path().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let root = crate::Root::directory(directory.path()).unwrap();
    let identity = HostIdentity::of(&root);
    let machine = identity.machine.unwrap();
    assert_eq!(machine.len(), 16);
    assert!(!"0123456789abcdef0123456789abcdef".contains(&machine));
    assert_eq!(identity.network, None);
}

use std::fs;
use std::path::Path;

use nearwire_host::Root;
use nearwire_host::change::{Form, RootHost, Target};
use nearwire_host::journal::HostIdentity;

use super::*;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const STAT: &str = "/proc/sys/vm/stat_interval";

fn change(id: &str, path: &str, found: &str, wanted: &str) -> Change {
    let target = Target::File { path: path.to_owned(), form: Form::Text };
    Change { id: id.to_owned(), target, found: found.to_owned(), wanted: wanted.to_owned() }
}

/// A tree with two values and a journal beside it.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(tree.root().join("proc/sys/vm")).unwrap();
        fs::write(tree.root().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        fs::write(tree.root().join("proc/sys/vm/stat_interval"), "1\n").unwrap();
        tree
    }

    fn root(&self) -> std::path::PathBuf {
        self.0.path().join("root")
    }

    fn host(&self) -> RootHost {
        RootHost::new(Root::directory(self.root()).unwrap())
    }

    fn journal(&self, host: &RootHost) -> Journal {
        Journal::open(&self.0.path().join("journal"), HostIdentity::of(host.root())).unwrap()
    }

    fn values(&self) -> (String, String) {
        let read = |path: &str| fs::read_to_string(self.root().join(path)).unwrap().trim().to_owned();
        (read("proc/sys/vm/swappiness"), read("proc/sys/vm/stat_interval"))
    }

    fn journal_file(&self) -> std::path::PathBuf {
        self.0.path().join("journal/journal")
    }
}

fn settings() -> Vec<Placed> {
    vec![
        Placed::Written { changes: vec![change("vm.swappiness", SWAPPINESS, "60", "10")], keep: Keep::OnDisk },
        Placed::Written { changes: vec![change("vm.stat_interval", STAT, "1", "10")], keep: Keep::InMemory },
    ]
}

fn values(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn settings_switched_have_exactly_the_values_asked_for_and_leave_no_trace() {
    let tree = Tree::new();
    let host = tree.host();
    let journal = tree.journal(&host);
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings(), &|| false, &|_| {});
    for (wanted, expected) in [
        (&[0][..], values("10", "1")),
        (&[1], values("60", "10")),
        (&[0, 1], values("10", "10")),
        (&[], values("60", "1")),
        (&[1, 0], values("10", "10")),
    ] {
        switch.set(wanted).unwrap();
        assert_eq!(tree.values(), expected, "{wanted:?}");
    }
    drop(switch);
    assert_eq!(tree.values(), values("60", "1"));
    assert!(!tree.journal_file().exists());
    assert!(!tree.0.path().join("journal/history").exists());
}

#[test]
fn setting_that_is_refused_leaves_everything_as_found() {
    let tree = Tree::new();
    let host = tree.host();
    let journal = tree.journal(&host);
    let mut settings = settings();
    settings.push(Placed::Written {
        changes: vec![change("vm.nothing", "/proc/sys/vm/nothing", "1", "2")],
        keep: Keep::OnDisk,
    });
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings, &|| false, &|_| {});
    assert!(matches!(switch.set(&[0, 1, 2]), Err(SwitchError::Refused { .. })));
    assert_eq!(tree.values(), values("60", "1"));
    switch.set(&[0]).unwrap();
    assert_eq!(tree.values(), values("10", "1"));
}

/// A process that is killed runs no destructor.
fn killed_with(tree: &Tree, wanted: &[usize]) {
    let host = tree.host();
    let journal = tree.journal(&host);
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings(), &|| false, &|_| {});
    switch.set(wanted).unwrap();
    let copy = tree.0.path().join("kept");
    fs::copy(tree.journal_file(), &copy).unwrap();
    drop(switch);
    fs::write(tree.root().join(&SWAPPINESS[1..]), "10\n").unwrap();
    fs::rename(copy, tree.journal_file()).unwrap();
}

#[test]
fn next_measurement_puts_back_what_a_killed_one_left_and_keeps_what_was_applied() {
    let tree = Tree::new();
    killed_with(&tree, &[0]);
    let mut host = tree.host();
    let mut journal = tree.journal(&host);
    assert!(put_leftovers_back(&mut host, &mut journal).unwrap());
    assert!(!put_leftovers_back(&mut host, &mut journal).unwrap());
    assert_eq!(tree.values(), values("60", "1"));
    assert!(!Path::new(&tree.journal_file()).exists());
}

#[test]
fn plan_of_a_killed_measurement_is_not_held_and_is_reverted() {
    let tree = Tree::new();
    killed_with(&tree, &[0]);
    let mut host = tree.host();
    let mut journal = tree.journal(&host);
    assert!(nearwire_host::change::hold(&mut host, &journal).is_empty());
    let reverted = nearwire_host::change::revert(&mut host, &mut journal, 0, Default::default()).unwrap();
    assert!(reverted.is_complete);
    assert_eq!(tree.values(), values("60", "1"));
}

#[test]
fn interruption_before_a_write_puts_everything_back() {
    let tree = Tree::new();
    let host = tree.host();
    let journal = tree.journal(&host);
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings(), &|| true, &|_| {});
    assert!(switch.set(&[0]).is_err());
    assert_eq!(tree.values(), values("60", "1"));
}

#[test]
fn value_that_somebody_changed_meanwhile_stays_and_is_told() {
    let tree = Tree::new();
    let host = tree.host();
    let journal = tree.journal(&host);
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, settings(), &|| false, &|_| {});
    switch.set(&[0]).unwrap();
    fs::write(tree.root().join(&SWAPPINESS[1..]), "33\n").unwrap();
    switch.set(&[]).unwrap();
    assert_eq!(switch.take_kept(), ["vm.swappiness is 33"]);
    assert_eq!(tree.values(), values("33", "1"));
    assert!(
        matches!(switch.set(&[0]), Err(SwitchError::Refused { .. })),
        "what it is compared with is another value now"
    );
}

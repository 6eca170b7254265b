use std::fs;

use nearwire_host::Root;
use nearwire_host::change::{ApplyOptions, RevertOptions, apply, revert};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const STAT_INTERVAL: &str = "proc/sys/vm/stat_interval";

/// A host in a directory, with a place for its journal beside it.
struct Copy(TempDir);

impl Copy {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let of_host = directory.path().join("host");
        fs::create_dir_all(of_host.join("proc/sys/vm")).unwrap();
        fs::create_dir_all(of_host.join("sys")).unwrap();
        fs::write(of_host.join(SWAPPINESS), "60\n").unwrap();
        fs::write(of_host.join(STAT_INTERVAL), "1\n").unwrap();
        Self(directory)
    }

    fn root(&self) -> Root {
        Root::directory(self.0.path().join("host")).unwrap()
    }

    fn bed(&self) -> Bed {
        Bed { interfaces: Vec::new(), journal: self.0.path().join("journal"), in_use: BTreeMap::new() }
    }

    fn value(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join("host").join(path)).unwrap().trim().to_owned()
    }

    fn values(&self) -> (String, String) {
        (self.value(SWAPPINESS), self.value(STAT_INTERVAL))
    }

    fn plan(&self, settings: &[&str]) -> Result<Planned, VaryError> {
        let varied = settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Planned::new(CableHost::of(self.root()), varied, &self.bed())
    }

    fn vary(&self, settings: &[&str]) -> Variations {
        self.plan(settings).unwrap().begin().unwrap()
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.bed().journal, HostIdentity::of(&self.root())).unwrap()
    }

    fn has_journal(&self) -> bool {
        self.bed().journal.join("journal").exists()
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn values_are_written_one_after_the_other_and_what_was_found_comes_back() {
    let copy = Copy::new();
    let planned = copy.plan(&["vm.swappiness=10,60,100"]).unwrap();
    assert_eq!(planned.on_the_host(), ["vm.swappiness"]);
    assert_eq!(planned.values()[2], BTreeMap::from([pair("vm.swappiness", "100")]));
    assert!(!copy.bed().journal.exists(), "no journal is made before anybody agreed");
    let mut variations = planned.begin().unwrap();
    assert_eq!(copy.value(SWAPPINESS), "60", "nothing is written before it is asked for");
    assert_eq!(variations.set(0).unwrap(), ["vm.swappiness = 10, found 60"]);
    assert_eq!(copy.value(SWAPPINESS), "10");
    assert_eq!(variations.set(2).unwrap(), ["vm.swappiness = 100, found 60"]);
    assert_eq!(copy.value(SWAPPINESS), "100");
    assert_eq!(variations.set(1).unwrap(), ["vm.swappiness = 60, as found"]);
    assert_eq!(copy.value(SWAPPINESS), "60");
    variations.set(0).unwrap();
    variations.put_back().unwrap();
    assert_eq!(copy.value(SWAPPINESS), "60");
    assert!(!copy.has_journal());
    // What is written in every round is of no interest afterwards.
    assert!(!copy.bed().journal.join("history").exists());
}

#[test]
fn several_settings_have_all_combinations_of_their_values() {
    let copy = Copy::new();
    let planned = copy.plan(&["vm.swappiness=10,20", "vm.stat_interval=1,5"]).unwrap();
    let expected = [("10", "1"), ("10", "5"), ("20", "1"), ("20", "5")];
    assert_eq!(planned.values().len(), expected.len());
    let mut variations = planned.begin().unwrap();
    for (at, (swappiness, interval)) in expected.into_iter().enumerate() {
        variations.set(at).unwrap();
        assert_eq!(copy.values(), pair(swappiness, interval));
    }
    drop(variations);
    assert_eq!(copy.values(), pair("60", "1"));
}

/// A process that is killed runs no destructor: the value stays, and the journal.
fn killed_under(copy: &Copy, setting: &str, value: &str) {
    let mut variations = copy.vary(&[setting]);
    variations.set(1).unwrap();
    let (journal, kept) = (copy.bed().journal.join("journal"), copy.0.path().join("kept"));
    fs::copy(&journal, &kept).unwrap();
    drop(variations);
    fs::rename(kept, journal).unwrap();
    fs::write(copy.0.path().join("host").join(SWAPPINESS), value).unwrap();
}

#[test]
fn killed_process_leaves_a_journal_that_revert_understands() {
    let copy = Copy::new();
    killed_under(&copy, "vm.swappiness=10,20", "20");
    let mut host = RootHost::new(copy.root());
    let reverted = revert(&mut host, &mut copy.journal(), 2, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete);
    assert_eq!(copy.value(SWAPPINESS), "60");
}

#[test]
fn next_variation_puts_back_what_a_killed_one_left() {
    let copy = Copy::new();
    killed_under(&copy, "vm.swappiness=10,20", "20");
    let mut variations = copy.vary(&["vm.swappiness=20,30"]);
    assert_eq!(variations.set(0).unwrap(), ["vm.swappiness = 20, found 60"]);
    drop(variations);
    assert_eq!(copy.value(SWAPPINESS), "60");
    assert!(!copy.has_journal());
}

#[test]
fn what_was_applied_before_stays_in_effect() {
    let copy = Copy::new();
    let mut host = RootHost::new(copy.root());
    let scope = Scope { interfaces: &[], cpus: None };
    let place = &targets(&copy.root(), catalogue::setting("vm.swappiness").unwrap(), &scope).unwrap()[0];
    let changes = vec![Change::plan(place, "1", &mut host).unwrap()];
    apply(&mut host, &mut copy.journal(), changes, &ApplyOptions::strict(1, None)).unwrap();
    let mut variations = copy.vary(&["vm.swappiness=10,20"]);
    variations.set(0).unwrap();
    variations.put_back().unwrap();
    drop(variations);
    assert_eq!(copy.value(SWAPPINESS), "1");
    revert(&mut host, &mut copy.journal(), 2, RevertOptions::default()).unwrap();
    assert_eq!(copy.value(SWAPPINESS), "60");
}

#[test]
fn value_that_somebody_changed_meanwhile_is_kept_and_named() {
    let copy = Copy::new();
    let mut variations = copy.vary(&["vm.swappiness=10,20"]);
    variations.set(0).unwrap();
    fs::write(copy.0.path().join("host").join(SWAPPINESS), "33\n").unwrap();
    let error = variations.put_back().unwrap_err().to_string();
    assert!(error.contains("vm.swappiness") && error.contains("33"), "{error}");
    assert_eq!(copy.value(SWAPPINESS), "33");
}

#[test]
fn journal_in_use_writes_nothing() {
    let copy = Copy::new();
    let held = copy.journal();
    let begun = copy.plan(&["vm.swappiness=10,20"]).unwrap().begin();
    assert!(matches!(begun.map(|_| ()), Err(VaryError::Journal(_))));
    assert_eq!(copy.value(SWAPPINESS), "60");
    drop(held);
    copy.vary(&["vm.swappiness=10,20"]).set(0).unwrap();
}

#[test]
fn what_cannot_be_varied_is_refused_with_the_reason() {
    let copy = Copy::new();
    for (settings, words) in [
        (&["vm.swappiness"][..], &["'vm.swappiness'", "=on,off"][..]),
        (&["vm.swappiness=1"], &["'vm.swappiness=1'", "two values"]),
        (&["vm.swappiness=1,"], &["two values"]),
        (&["vm.swapiness=1,2"], &["'vm.swapiness'", "vm.swappiness"]),
        (&["nic.mtu[eth0]=1,2"], &["nic.mtu[eth0]", "name nic.mtu"]),
        (&["vm.swappiness=1,2", "vm.swappiness=3,4"], &["twice"]),
        (&["vm.swappiness=1, 1"], &["'1' and '1' are the same value of vm.swappiness"]),
        (&["vm.swappiness=1,many"], &["vm.swappiness", "'many'"]),
        (&["kernel.randomize_va_space=0,2"], &["kernel.randomize_va_space", "security"]),
        (&["cpu.smt=on,off"], &["cpu.smt", "CPUs"]),
        (&["nic.mtu=1500,9000"], &["nic.mtu", "interrupt the cable"]),
        (&["nic.ring.rx=256,512"], &["nic.ring.rx", "interrupt the cable"]),
        (&["nic.offload.gro=on,off"], &["nic.offload.gro", "none on this host"]),
        (&["boot.isolcpus=1,2"], &["boot.isolcpus", "boot"]),
        (&["vm.dirty_ratio=10,20"], &["vm.dirty_ratio"]),
    ] {
        let Err(error) = copy.plan(settings) else { panic!("{settings:?} can be varied") };
        let error = error.to_string();
        for word in words {
            assert!(error.contains(word), "{settings:?}: no '{word}' in: {error}");
        }
    }
    assert_eq!(copy.values(), pair("60", "1"));
}

#[test]
fn interface_in_use_is_left_alone() {
    let copy = Copy::new();
    let in_use = BTreeMap::from([pair("eth0", "it carries the default route")]);
    let bed = Bed { interfaces: vec!["eth0".to_owned()], in_use, ..copy.bed() };
    let varied = vec!["nic.offload.gro=on,off".parse().unwrap()];
    let error = Planned::new(CableHost::of(copy.root()), varied, &bed).map(|_| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("eth0") && error.contains("default route"), "{error}");
}

#[test]
fn too_many_combinations_are_refused_before_anything_is_looked_up() {
    let copy = Copy::new();
    let values: Vec<_> = (0..9).map(|value| value.to_string()).collect();
    let values = values.join(",");
    let error = copy.plan(&[&format!("vm.swappiness={values}"), &format!("vm.stat_interval={values}")]);
    assert!(matches!(error, Err(VaryError::TooMany { .. })));
}

proptest! {
    #[test]
    fn any_text_is_a_setting_or_refused(text: String) {
        let _ = text.parse::<Vary>();
    }
}

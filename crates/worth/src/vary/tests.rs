use std::fs;

use nearwire_host::change::{ApplyOptions, RevertOptions, RootHost, apply, revert};
use nearwire_host::journal::{HostIdentity, Journal};
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
        Bed { ends: Vec::new(), is_virtual: true, journal: self.0.path().join("journal"), in_use: BTreeMap::new() }
    }

    fn value(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join("host").join(path)).unwrap().trim().to_owned()
    }

    fn values(&self) -> (String, String) {
        (self.value(SWAPPINESS), self.value(STAT_INTERVAL))
    }

    fn vary(&self, settings: &[&str]) -> Result<Variations, VaryError> {
        let varied = settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Variations::prepare(&self.root(), varied, &self.bed())
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
    let mut variations = copy.vary(&["vm.swappiness=10,60,100"]).unwrap();
    assert_eq!(copy.value(SWAPPINESS), "60", "nothing is written before it is asked for");
    assert_eq!(variations.on_the_host(), ["vm.swappiness"]);
    assert_eq!(variations.values()[2], BTreeMap::from([pair("vm.swappiness", "100")]));
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
    let mut variations = copy.vary(&["vm.swappiness=10,20", "vm.stat_interval=1,5"]).unwrap();
    let expected = [("10", "1"), ("10", "5"), ("20", "1"), ("20", "5")];
    assert_eq!(variations.values().len(), expected.len());
    for (at, (swappiness, interval)) in expected.into_iter().enumerate() {
        variations.set(at).unwrap();
        assert_eq!(copy.values(), pair(swappiness, interval));
    }
    drop(variations);
    assert_eq!(copy.values(), pair("60", "1"));
}

#[test]
fn killed_process_leaves_a_journal_that_revert_understands() {
    let copy = Copy::new();
    let mut variations = copy.vary(&["vm.swappiness=10,20"]).unwrap();
    variations.set(1).unwrap();
    // As after kill -9: nothing is put back, and the lock is gone.
    let [place] = &mut variations.places[..] else { panic!("one place") };
    place.forget();
    drop(variations);
    assert_eq!(copy.value(SWAPPINESS), "20");
    let mut host = RootHost::new(copy.root());
    let reverted = revert(&mut host, &mut copy.journal(), 2, RevertOptions::default()).unwrap();
    assert!(reverted.is_complete);
    assert_eq!(copy.value(SWAPPINESS), "60");
}

#[test]
fn what_was_applied_before_stays_in_effect() {
    let copy = Copy::new();
    let mut host = RootHost::new(copy.root());
    let place = &located(&copy.root(), catalogue::setting("vm.swappiness").unwrap(), &[]).unwrap()[0];
    let changes = vec![Change::plan(place, "1", &mut host).unwrap()];
    apply(&mut host, &mut copy.journal(), changes, &ApplyOptions::strict(1, None)).unwrap();
    let mut variations = copy.vary(&["vm.swappiness=10,20"]).unwrap();
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
    let mut variations = copy.vary(&["vm.swappiness=10,20"]).unwrap();
    variations.set(0).unwrap();
    fs::write(copy.0.path().join("host").join(SWAPPINESS), "33\n").unwrap();
    let error = variations.put_back().unwrap_err().to_string();
    assert!(error.contains("vm.swappiness") && error.contains("33"), "{error}");
    assert_eq!(copy.value(SWAPPINESS), "33");
}

#[test]
fn journal_in_use_writes_nothing() {
    let copy = Copy::new();
    let mut variations = copy.vary(&["vm.swappiness=10,20"]).unwrap();
    let held = copy.journal();
    assert!(matches!(variations.set(0), Err(VaryError::Journal(_))));
    assert_eq!(copy.value(SWAPPINESS), "60");
    drop(held);
    variations.set(0).unwrap();
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
        let Err(error) = copy.vary(settings) else { panic!("{settings:?} can be varied") };
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
    let ends = vec![End { interface: "eth0".to_owned(), namespace: None }];
    let in_use = BTreeMap::from([pair("eth0", "it carries the default route")]);
    let bed = Bed { ends, is_virtual: false, in_use, ..copy.bed() };
    let error = Variations::prepare(&copy.root(), vec!["nic.offload.gro=on,off".parse().unwrap()], &bed).map(|_| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("eth0") && error.contains("default route"), "{error}");
}

#[test]
fn too_many_combinations_are_refused_before_anything_is_looked_up() {
    let copy = Copy::new();
    let values: Vec<_> = (0..9).map(|value| value.to_string()).collect();
    let values = values.join(",");
    let error = copy.vary(&[&format!("vm.swappiness={values}"), &format!("vm.stat_interval={values}")]);
    assert!(matches!(error, Err(VaryError::TooMany { .. })));
}

proptest! {
    #[test]
    fn any_text_is_a_setting_or_refused(text: String) {
        let _ = text.parse::<Vary>();
    }
}

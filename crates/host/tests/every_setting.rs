//! Every row of the catalogue is judged on a tree that has it: as wanted, otherwise, absent, not copied and for root only.
//!
//! Two trees are made from where the rows are read, with one value of each setting in the one and another value in the
//! other. A row that cannot be made so by its kind has its files in [`special::FILES`].

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "every_setting/fixture.rs"]
mod fixture;
#[path = "every_setting/special.rs"]
mod special;

use std::collections::BTreeMap;

use fixture::{Lack, Trees};
use nearwire_host::check::{Finding, Outcome, check};
use nearwire_host::profile::{Profile, Verdict, Wanted, Weight, Wish};
use nearwire_host::{ReadFrom, Reading, Root, Setting, catalogue, read_settings};

const INTERFACE: &str = "eth0";

fn wish(setting: &'static Setting, wanted: Wanted) -> Wish {
    Wish {
        setting,
        wanted,
        on: None,
        or: None,
        or_wanted: None,
        reason: "A test.".to_owned(),
        source: "a test".to_owned(),
        weight: Weight::Medium,
        when: Vec::new(),
        fix: None,
        verdict: Verdict::Holds,
        today: None,
        printed: None,
    }
}

/// The findings by id of the setting, of a profile with one wish for each of these.
fn findings(root: &Root, wishes: Vec<Wish>) -> BTreeMap<&'static str, Finding> {
    let count = wishes.len();
    let profile = Profile {
        name: "test".to_owned(),
        purpose: "A test".to_owned(),
        extends: Vec::new(),
        wishes,
        left_out: Vec::new(),
    };
    let found = check(root, &profile, &[INTERFACE.to_owned()], None, &[]);
    let found: BTreeMap<_, _> = found.into_iter().map(|finding| (finding.wish.setting.id, finding)).collect();
    assert_eq!(found.len(), count, "one finding for each wish");
    found
}

fn is_elsewhere(setting: &Setting) -> bool {
    matches!(setting.read, ReadFrom::Elsewhere { .. })
}

/// The rows that software can read, and how many there are without the others.
fn readable() -> Vec<&'static Setting> {
    let all: Vec<_> = catalogue::settings().collect();
    let readable: Vec<_> = all.iter().copied().filter(|setting| !is_elsewhere(setting)).collect();
    let elsewhere = all.iter().filter(|setting| is_elsewhere(setting)).count();
    assert_eq!(readable.len() + elsewhere, all.len());
    assert!(all.len() > 400 && readable.len() > 300, "{} of {}", readable.len(), all.len());
    readable
}

/// The value of each readable setting in the first of the two trees.
fn values(root: &Root) -> BTreeMap<&'static str, String> {
    let interfaces = [INTERFACE.to_owned()];
    let (mut values, mut missing) = (BTreeMap::new(), Vec::new());
    for setting in readable() {
        match read_settings(root, &[setting], &interfaces).remove(0).1 {
            Reading::Value(value) => drop(values.insert(setting.id, value)),
            other => missing.push(format!("{}: {other:?}", setting.id)),
        }
    }
    assert!(missing.is_empty(), "no value in a tree that has it:\n{}", missing.join("\n"));
    values
}

fn equal(values: &BTreeMap<&'static str, String>) -> Vec<Wish> {
    readable().into_iter().map(|setting| wish(setting, Wanted::Equal(values[setting.id].clone()))).collect()
}

/// Says every row whose outcome is another one, not just the first.
#[track_caller]
fn assert_outcomes(findings: &BTreeMap<&'static str, Finding>, wanted: impl Fn(&str) -> &'static str) {
    let wrong: Vec<_> = findings
        .values()
        .filter(|finding| finding.outcome.name() != wanted(finding.wish.setting.id))
        .map(|finding| {
            let (id, wished) = (finding.wish.setting.id, &finding.wish.wanted);
            format!("{id}: {:?} and not {}; wished {wished}, found {:?}", finding.outcome, wanted(id), finding.found)
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), findings.len(), wrong.join("\n"));
}

#[test]
fn setting_with_the_wanted_value_is_ok_and_with_another_one_differs() {
    let trees = Trees::new();
    let values = values(&trees.wanted());
    assert_outcomes(&findings(&trees.wanted(), equal(&values)), |id| {
        special::outcome(special::IN_THE_WANTED_TREE, id, "ok")
    });
    assert_outcomes(&findings(&trees.other(), equal(&values)), |id| {
        special::outcome(special::IN_THE_OTHER_TREE, id, "differs")
    });
}

#[test]
fn setting_that_the_host_lacks_is_unsupported_and_right_where_nothing_is_wanted() {
    let trees = Trees::new();
    let values = values(&trees.wanted());
    let lacks = trees.lacking(Lack::Absent);
    assert_outcomes(&findings(&lacks, equal(&values)), |id| special::outcome(special::WHEN_ABSENT, id, "unsupported"));
    let nothing = readable().into_iter().map(|setting| wish(setting, Wanted::Absent)).collect();
    assert_outcomes(&findings(&lacks, nothing), |id| special::outcome(special::NOTHING_WHEN_ABSENT, id, "ok"));
}

#[test]
fn setting_that_was_not_copied_is_unknown() {
    let trees = Trees::new();
    let values = values(&trees.wanted());
    let empty = tempfile::tempdir().unwrap();
    let root = Root::directory(empty.path()).unwrap();
    assert_outcomes(&findings(&root, equal(&values)), |_| "unknown");
}

#[test]
fn setting_that_only_root_may_read_needs_root() {
    let trees = Trees::new();
    let values = values(&trees.wanted());
    let found = findings(&trees.lacking(Lack::NeedsRoot), equal(&values));
    assert_outcomes(&found, |id| special::outcome(special::WHEN_ROOT_IS_NEEDED, id, "needs-root"));
}

#[test]
fn setting_that_no_software_can_read_is_unknown_and_says_where_to_look() {
    let trees = Trees::new();
    let elsewhere: Vec<_> = catalogue::settings().filter(|setting| is_elsewhere(setting)).collect();
    let wishes = elsewhere.iter().map(|setting| wish(setting, Wanted::Equal("on".to_owned()))).collect();
    let found = findings(&trees.wanted(), wishes);
    assert_eq!(found.len(), elsewhere.len());
    for setting in elsewhere {
        let ReadFrom::Elsewhere { why, look } = setting.read else { continue };
        let Outcome::Unknown { why: said } = &found[setting.id].outcome else { panic!("{}", setting.id) };
        assert!(said.contains(why) && said.contains(look), "{}: {said}", setting.id);
    }
}

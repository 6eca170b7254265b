//! What `nearwire check` makes of results that `nearwire tune measure` kept for such a host.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;

use common::measuring::Place;
use common::{assert_says, command, text};
use nearwire_host::Root;
use nearwire_worth::Figure;
use nearwire_worth::estimate::Scale;
use nearwire_worth::result::{Candidate, Measured, OnSubject, Worth};
use nearwire_worth::store::{Kind, keep};
use nearwire_worth::verdict::{Effect, Verdict};

/// 2026-09-21.
const MEASURED_UNIX_S: u64 = 1_790_000_000;

/// The median of a half round trip with 10 us.
fn median(change_ns: f64, verdict: Verdict) -> Effect {
    Effect {
        figure: Figure::P50Ns,
        found: 10_000.0,
        change: change_ns,
        low: change_ns - 100.0,
        high: change_ns + 100.0,
        percent: Some(change_ns / 100.0),
        visible_percent: Some(1.0),
        scale: Scale::Ratio,
        pairs: 16,
        level: 0.002,
        verdict,
    }
}

fn worth(id: &str, change_ns: f64, verdict: Verdict) -> Worth {
    let candidate = Candidate { id: id.to_owned(), from: "1".to_owned(), to: "10".to_owned() };
    let on = vec![OnSubject { subject: "udp/spin".to_owned(), effects: vec![median(change_ns, verdict)] }];
    Worth { candidate, on, failure: None }
}

/// Parameters of this host's memory that anybody may read: which weight the profile gives them, and what was measured.
fn kept(place: &Place) {
    let settings = vec![
        worth("vm.swappiness", 400.0, Verdict::Worse),
        worth("vm.stat_interval", 3.0, Verdict::NoEffect),
        worth("vm.dirty_ratio", -200.0, Verdict::Better),
        worth("vm.dirty_background_ratio", -4_200.0, Verdict::Better),
        worth("vm.min_free_kbytes", 0.0, Verdict::Noise),
    ];
    let subjects = vec!["udp/spin".to_owned()];
    let (pairs, notes) = (Vec::new(), Vec::new());
    let measured =
        Measured { format: 1, seed: 1, rounds: 8, subjects, settings, pairs, notes, interrupted: false, failure: None };
    let kind = Kind::of(&Root::live().unwrap(), "", "none");
    keep(&place.path("results"), &kind, &measured, MEASURED_UNIX_S).unwrap();
}

/// A profile in which each of these settings of this host differs, the first ones weighing most.
fn differing() -> Place {
    let wish = |setting: &'static str, weight: &str| {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        let found: u64 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        (setting, format!("equal = {}\nweight = '{weight}'", found + 9))
    };
    Place::new(&[
        wish("vm.swappiness", "high"),
        wish("vm.stat_interval", "high"),
        wish("vm.compaction_proactiveness", "high"),
        wish("vm.min_free_kbytes", "medium"),
        wish("vm.zone_reclaim_mode", "low"),
        wish("vm.dirty_ratio", "low"),
        wish("vm.dirty_background_ratio", "low"),
    ])
}

fn check(place: &Place) -> String {
    let mut check = command(&["check", "--profile"]);
    check.arg(place.path("profile.toml")).arg("--results").arg(place.path("results"));
    let output = check.output().unwrap();
    assert_says(&output, 1, &[]);
    text(&output)
}

/// The settings in the order in which they are told.
fn order_of(place: &Place) -> Vec<String> {
    let said = check(place);
    let differing = said.lines().filter(|line| line.starts_with("  DIFFERS"));
    differing.filter_map(|line| Some(line.split_whitespace().last()?.strip_prefix("vm.")?.to_owned())).collect()
}

#[test]
fn differences_are_told_by_measured_gain_and_harm_comes_last() {
    let place = differing();
    let by_weight = order_of(&place);
    assert_eq!(by_weight.iter().position(|id| id == "min_free_kbytes"), Some(3), "{by_weight:?}");
    kept(&place);
    assert_eq!(
        order_of(&place),
        [
            "dirty_background_ratio",   // 4.2 us
            "dirty_ratio",              // 200 ns
            "compaction_proactiveness", // not measured, high
            "zone_reclaim_mode",        // not measured, low
            "stat_interval",            // no effect, high
            "min_free_kbytes",          // noise, medium
            "swappiness",               // costs 400 ns
        ]
    );
}

#[test]
fn difference_without_effect_on_such_a_host_is_told_to_have_none() {
    let place = differing();
    assert!(!check(&place).contains("worth "), "nothing was measured");
    kept(&place);
    let said = check(&place);
    let worth_of = |setting: &str| {
        let rest = said.split(&format!("vm.{setting}\n")).nth(1).unwrap_or_else(|| panic!("no {setting} in {said}"));
        let own = rest.split("  DIFFERS").next().unwrap();
        own.lines().find_map(|line| line.trim_start().strip_prefix("worth    ")).map(str::to_owned)
    };
    for (setting, told) in [
        ("stat_interval", Some("no effect measured on this host (1 -> 10; udp/spin; 2026-09-21)")),
        ("min_free_kbytes", Some("no effect was larger than the noise on this host (1 -> 10; udp/spin; 2026-09-21)")),
        ("dirty_background_ratio", Some("udp/spin p50 -4.20 us (-4.30 to -4.10) better (1 -> 10; 2026-09-21)")),
        ("swappiness", Some("udp/spin p50 +400 ns (+300 to +500) WORSE (1 -> 10; 2026-09-21)")),
        ("compaction_proactiveness", None),
    ] {
        assert_eq!(worth_of(setting).as_deref(), told, "{setting} in {said}");
    }
}

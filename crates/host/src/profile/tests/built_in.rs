//! The built-in profiles as tables: complete, in the words of the settings, without contradiction.

use std::collections::BTreeSet;

use crate::catalogue;
use crate::profile::document::Document;
use crate::profile::table::Without;
use crate::profile::*;
use crate::setting::{Risk, Value};
use crate::{ReadFrom, Setting};

/// The profiles that hold what a paper prints, and what their sources begin with.
const AS_PRINTED: [(&str, &str); 5] = [
    ("as-printed/exanic", "ExaNIC guide, "),
    ("as-printed/vma", "VMA benchmark, "),
    ("as-printed/busy-poll", "Busy Poll paper, "),
    ("as-printed/usnic", "usNIC white paper, "),
    ("as-printed/opennfp", "OpenNFP deck, "),
];

fn profiles() -> impl Iterator<Item = Profile> {
    names().map(|name| Profile::load(name).unwrap_or_else(|error| panic!("{error}")))
}

/// Every wish with the name of its profile, inherited ones with each profile that has them.
fn wishes() -> Vec<(String, Wish)> {
    profiles()
        .flat_map(|profile| {
            let name = profile.name;
            profile.wishes.into_iter().map(move |wish| (name.clone(), wish))
        })
        .collect()
}

/// What a wish wants of which setting: its own, and the alternative.
fn wanted(wish: &Wish) -> Vec<(&'static Setting, &Wanted)> {
    [(wish.setting, &wish.wanted)].into_iter().chain(wish.alternative()).collect()
}

#[test]
fn every_built_in_profile_loads_and_wants_something() {
    for profile in profiles() {
        assert!(profile.wishes.len() >= 15, "{}", profile.name);
        assert!(!profile.left_out.is_empty(), "{}", profile.name);
    }
    assert!(names().any(|name| name == DEFAULT));
}

/// Where the wanted value is a reading of the printed one, the two have the same numbers.
#[test]
fn every_printed_number_stands_in_the_wish_beside_it() {
    let numbers = |text: &str| -> BTreeSet<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    for (name, wish) in wishes() {
        let Some(printed) = &wish.printed else { continue };
        // Papers print 1 and 0 for on and off.
        let is_switch = [("1", "on"), ("0", "off")].into_iter().any(|(number, word)| {
            printed.split("; ").all(|value| value == number) && wish.wanted == Wanted::Equal(word.to_owned())
        });
        let says = numbers(&format!("{} {} {:?}", wish.wanted, wish.reason, wish.today));
        let missing: Vec<_> = numbers(printed).difference(&says).copied().collect();
        assert!(is_switch || missing.is_empty(), "{name}: {} prints {printed}: {missing:?}", wish.setting.id);
    }
}

#[test]
fn printed_profile_has_only_checks_of_its_paper_with_their_places() {
    for (name, title) in AS_PRINTED {
        let profile = Profile::load(name).unwrap();
        assert!(profile.extends.is_empty(), "{name}");
        let wishes = profile.wishes.iter().map(|wish| (wish.setting.id, wish.source.as_str()));
        let left_out = profile.left_out.iter();
        let left_out = left_out.map(|advice| (advice.setting.id, advice.source.as_deref().unwrap_or_default()));
        for (id, source) in wishes.chain(left_out) {
            assert!(catalogue::printed(id).next().is_some(), "{name}: no check of {id}");
            assert!(source.starts_with(title) && source.len() > title.len(), "{name}: {id} {source}");
        }
    }
}

#[test]
fn errors_of_the_papers_have_a_verdict() {
    let verdicts = [
        ("as-printed/exanic", "boot.intel_idle.max_cstate", Verdict::NoEffect),
        ("as-printed/exanic", "nic.irq-affinity", Verdict::Harmful),
        ("as-printed/exanic", "boot.tsc", Verdict::NoEffect),
        ("as-printed/opennfp", "boot.idle", Verdict::Rejected),
        ("as-printed/opennfp", "boot.processor.max_cstate", Verdict::NoEffect),
        ("as-printed/vma", "net.ipv4.tcp_sack", Verdict::Harmful),
        ("as-printed/vma", "net.ipv4.tcp_low_latency", Verdict::NoEffect),
        ("as-printed/vma", "kernel.shmmax", Verdict::BelowDefault),
        ("as-printed/vma", "net.core.somaxconn", Verdict::BelowDefault),
        ("as-printed/vma", "net.ipv4.tcp_rmem", Verdict::BelowDefault),
        ("as-printed/vma", "nic.pause.autoneg", Verdict::Rejected),
        ("as-printed/usnic", "boot.idle", Verdict::Harmful),
        ("as-printed/usnic", "firmware.dram-refresh", Verdict::Harmful),
    ];
    for (name, id, verdict) in verdicts {
        let profile = Profile::load(name).unwrap();
        let wish = profile.wishes.iter().find(|wish| wish.setting.id == id).unwrap();
        assert_eq!(wish.verdict, verdict, "{name} {id}");
        assert!(wish.today.is_some(), "{name} {id}");
    }
}

#[test]
fn only_printed_profiles_hold_what_a_current_kernel_makes_nothing_of() {
    for (name, wish) in wishes() {
        let is_printed = name.starts_with("as-printed/");
        assert!(is_printed || wish.verdict == Verdict::Holds, "{name} {}", wish.setting.id);
    }
}

#[test]
fn no_profile_wants_what_lowers_security() {
    for (name, wish) in wishes() {
        for (setting, wanted) in wanted(&wish) {
            let is_safe = setting.id == "firmware.execute-disable" && *wanted == Wanted::Equal("on".to_owned());
            assert!(is_safe || !setting.risk.contains(&Risk::Security), "{name} {}", setting.id);
        }
    }
}

/// Words of what [`crate::read::service`] gives.
const SERVICE: [&str; 8] = ["running", "stopped", "enabled", "disabled", "static", "masked", "not", "installed"];

#[test]
fn every_wanted_value_is_in_the_words_that_its_setting_is_read_in() {
    for (name, wish) in wishes() {
        for (setting, wanted) in wanted(&wish) {
            let words: Vec<&str> = match wanted {
                Wanted::Equal(word) | Wanted::AtLeast(word) | Wanted::AtMost(word) | Wanted::Contains(word) => {
                    vec![word]
                }
                Wanted::OneOf(words) | Wanted::Lacks(words) => words.iter().map(String::as_str).collect(),
                Wanted::Absent | Wanted::SameAs(_) | Wanted::AtLeastOf(_) | Wanted::AtMostOf(_) | Wanted::Cpus(..) => {
                    Vec::new()
                }
            };
            for word in words {
                assert!(is_readable(setting, wanted, word), "{name} {}: {word}", setting.id);
            }
            if let Some(other) = wanted.limit_setting() {
                assert_eq!(setting.value, other.value, "{name} {}", setting.id);
            }
        }
    }
}

fn is_readable(setting: &Setting, wanted: &Wanted, word: &str) -> bool {
    let is_limit = matches!(wanted, Wanted::AtLeast(_) | Wanted::AtMost(_));
    match (setting.value, setting.read) {
        (Value::Word(words), _) => words.contains(&word),
        (Value::Switch, _) => ["on", "off"].contains(&word),
        (Value::Number(_), _) => word.parse::<i64>().is_ok() || ["n/a", "unlimited"].contains(&word),
        (Value::CpuList, _) if is_limit => word.parse::<usize>().is_ok(),
        (Value::CpuList, _) => crate::CpuSet::from_list(word).is_ok(),
        (Value::Text, ReadFrom::Service(_)) => word.split([',', ' ']).all(|part| SERVICE.contains(&part)),
        // A text with a limit is a list of numbers or a version.
        (Value::Text, _) if is_limit => word.split([' ', '.']).all(|part| part.parse::<u64>().is_ok()),
        (Value::Text, _) => !word.is_empty() && word == word.trim(),
    }
}

#[test]
fn interface_groups_are_only_used_for_settings_of_interfaces() {
    for (name, wish) in wishes() {
        for (setting, wanted) in wanted(&wish) {
            if let Wanted::Cpus(_, CpuGroup::Irq | CpuGroup::NicNode) = wanted {
                assert!(matches!(setting.read, ReadFrom::Nic(_)), "{name} {}", setting.id);
            }
            if let Some(other) = wanted.limit_setting() {
                let of_interface = |setting: &Setting| matches!(setting.read, ReadFrom::Nic(_));
                assert_eq!(of_interface(setting), of_interface(other), "{name} {}", setting.id);
            }
        }
        // The kind of a core is told by several files, for each CPU all the same.
        let is_each_cpu = matches!(wish.setting.read, ReadFrom::EachCpu(_)) || wish.setting.id == "cpu.kind";
        assert!(wish.on.is_none() || is_each_cpu, "{name} {}", wish.setting.id);
    }
}

#[test]
fn no_two_wishes_of_a_profile_for_one_setting_can_count_together() {
    for profile in profiles() {
        for (at, one) in profile.wishes.iter().enumerate() {
            for other in &profile.wishes[at + 1..] {
                if one.setting == other.setting {
                    let is_apart = one.when.iter().any(|a| other.when.iter().any(|b| excludes(a, b) || excludes(b, a)));
                    assert!(is_apart, "{}: {} twice", profile.name, one.setting.id);
                }
            }
        }
    }
}

/// Whether two conditions cannot hold together, as far as their form shows it.
fn excludes(a: &Condition, b: &Condition) -> bool {
    match (a, b) {
        (Condition::BareMetal, Condition::Guest) => true,
        (Condition::Driver(a), Condition::Driver(b)) => !a.iter().any(|name| b.contains(name)),
        (Condition::Not(not), b) => is_same_or_wider(not, b),
        _ => false,
    }
}

/// Whether one condition holds whenever the other does.
fn is_same_or_wider(wide: &Condition, narrow: &Condition) -> bool {
    match (wide, narrow) {
        (Condition::Driver(wide), Condition::Driver(narrow)) => narrow.iter().all(|name| wide.contains(name)),
        (Condition::Plan, Condition::Plan) | (Condition::Isolated, Condition::Isolated) => true,
        (Condition::BareMetal, Condition::BareMetal) | (Condition::Guest, Condition::Guest) => true,
        _ => false,
    }
}

#[test]
fn what_a_profile_goes_without_is_something_that_it_inherits() {
    for (name, text) in BUILT_IN {
        let document = Document::parse(name, text).unwrap();
        let bases: Vec<_> = document.extends.iter().map(|base| Profile::load(&base.name).unwrap()).collect();
        for Without { id, .. } in document.without {
            let is_inherited = |base: &Profile| base.wishes.iter().any(|wish| wish.setting.id == id);
            assert!(bases.iter().any(is_inherited), "{name} {id}");
            assert!(document.wishes.iter().all(|wish| wish.setting.id != id), "{name} {id} is replaced anyway");
        }
    }
}

#[test]
fn every_reason_is_a_sentence_and_every_source_is_named() {
    let is_sentence = |text: &str| {
        let starts_large = text.chars().next().is_some_and(|c| !c.is_lowercase());
        text.ends_with('.') && !text.contains(". ") && !text.contains('\n') && starts_large
    };
    for profile in profiles() {
        for wish in &profile.wishes {
            let id = wish.setting.id;
            assert!(is_sentence(&wish.reason), "{}: {id}: {}", profile.name, wish.reason);
            assert!(wish.source.len() > 4 && !wish.source.ends_with('.'), "{}: {id}: {}", profile.name, wish.source);
            for text in wish.fix.iter().chain(&wish.today) {
                assert!(is_sentence(text) || text.starts_with('/'), "{}: {id}: {text}", profile.name);
            }
        }
        for advice in &profile.left_out {
            let (id, reason) = (advice.setting.id, &advice.reason);
            assert!(reason.ends_with('.') && !reason.contains(". "), "{}: {id}: {reason}", profile.name);
            if let Some(how) = reason.strip_prefix("measure: ") {
                assert!(
                    how.contains("nearwire bench") || how.contains("nearwire check --probe"),
                    "{}: {id}: {reason}",
                    profile.name
                );
            }
        }
    }
}

#[test]
fn host_that_is_as_a_wider_profile_wants_it_is_not_told_otherwise_by_its_base() {
    let socket_bypass = Profile::load("socket-bypass").unwrap();
    let of = |id: &str| socket_bypass.wishes.iter().filter(|wish| wish.setting.id == id).count();
    assert_eq!(of("memory.thp"), 1);
    assert_eq!(of("nic.bypass-only"), 1);
    assert_eq!(of("nic.coalesce.rx-usecs"), 4);
    let nfv = Profile::load("nfv").unwrap();
    assert!(nfv.wishes.iter().all(|wish| wish.setting.id != "cpu.smt"));
}

#[test]
fn drivers_without_interrupt_delays_are_not_asked_for_one() {
    for name in ["raw-frame", "mpi"] {
        let profile = Profile::load(name).unwrap();
        let delays = profile.wishes.iter().filter(|wish| wish.setting.id == "nic.coalesce.rx-usecs");
        for driver in ["mana", "hv_netvsc"] {
            let counts = delays.clone().filter(|wish| wish.when.iter().all(|condition| may_have(condition, driver)));
            assert_eq!(counts.count(), 0, "{name} {driver}");
        }
        for driver in ["igb", "ixgbe", "vmxnet3", "mlx5_core"] {
            let counts = delays.clone().filter(|wish| wish.when.iter().all(|condition| may_have(condition, driver)));
            assert_eq!(counts.count(), 1, "{name} {driver}");
        }
    }
}

/// Whether a condition about drivers holds for this one.
fn may_have(condition: &Condition, driver: &str) -> bool {
    match condition {
        Condition::Driver(names) => names.iter().any(|name| name == driver),
        Condition::Not(condition) => !may_have(condition, driver),
        _ => true,
    }
}

#[test]
fn queueing_discipline_to_write_is_one_that_every_device_takes() {
    let profile = Profile::load("latency").unwrap();
    let wish = profile.wishes.iter().find(|wish| wish.setting.id == "nic.qdisc").unwrap();
    // Without a queue a physical device loses frames; mq needs several.
    assert_eq!(crate::goal::value(wish.setting, &wish.wanted).as_deref(), Some("pfifo_fast"));
}

//! The tables as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::setting::{Disruption, ReadFrom, Risk, Write};

/// How many checks the papers name in each part of a host, counted in the papers and not here.
const CHECKS: [(&str, usize); 11] = [
    ("firmware, processor and hardware", 47),
    ("kernel build", 4),
    ("kernel command line", 16),
    ("sysctl and memory", 30),
    ("network interface", 43),
    ("services", 7),
    ("placement", 8),
    ("virtualisation", 12),
    ("RDMA modules", 11),
    ("switch", 6),
    ("application and measurement", 9),
];

fn is_one_sentence(text: &str) -> bool {
    let starts = text.chars().next().is_some_and(|c| !c.is_whitespace());
    starts && text.ends_with('.') && !text.contains(". ") && !text.contains('\n') && !text.ends_with("..")
}

#[test]
fn catalogue_ids_are_unique_and_dotted() {
    let mut seen = BTreeSet::new();
    for setting in settings() {
        let id = setting.id;
        assert!(seen.insert(id), "{id} twice");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        assert!(id.contains('.') && id.chars().all(is_plain), "{id}");
        assert!(!id.split('.').any(str::is_empty), "{id}");
    }
}

#[test]
fn catalogue_descriptions_are_one_sentence() {
    for setting in settings() {
        let id = setting.id;
        assert!(is_one_sentence(setting.what), "{id}: {}", setting.what);
        assert!(is_one_sentence(setting.why), "{id}: {}", setting.why);
        if let Some(today) = setting.today {
            assert!(is_one_sentence(today), "{id}: {today}");
        }
    }
}

#[test]
fn settings_are_in_the_area_that_their_id_says() {
    for setting in settings() {
        let word = setting.id.split('.').next().unwrap_or_default();
        let area = match word {
            "net" | "vm" => "sysctl",
            "kernel" if matches!(setting.read, ReadFrom::Sysctl(_)) => "sysctl",
            "irq" if setting.id == "irq.irqbalance" => "service",
            "irq" => "placement",
            "kvm" | "ovs" => "virtualisation",
            "app" => "application",
            word => word,
        };
        assert_eq!(setting.area.name(), area, "{}", setting.id);
    }
}

#[test]
fn every_printed_check_has_exactly_one_setting() {
    let mut seen = BTreeSet::new();
    for (group, (name, count)) in PRINTED.iter().zip(CHECKS) {
        assert_eq!((group.name, group.checks.len()), (name, count));
        for check in group.checks {
            assert!(seen.insert((group.name, check.words)), "{} twice", check.words);
            assert!(setting(check.id).is_some(), "{} has no setting {}", check.words, check.id);
            assert!(said(check.id).next().is_some(), "no paper says anything of {}", check.id);
        }
    }
    assert_eq!(seen.len(), 193);
}

#[test]
fn every_setting_has_a_source() {
    let has_source = |setting: &&Setting| !setting.docs.is_empty() || said(setting.id).next().is_some();
    let without: Vec<_> = settings().filter(|setting| !has_source(setting)).map(|setting| setting.id).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn every_disagreement_is_about_settings() {
    for topic in DISAGREEMENTS {
        assert!(!topic.ids.is_empty() && !topic.positions().is_empty() && !topic.rule.is_empty());
        for id in topic.ids {
            assert!(setting(id).is_some(), "no setting {id}");
        }
    }
}

#[test]
fn settings_that_lower_security_are_marked() {
    let lowering = [
        "boot.mitigations",
        "cpu.mitigations",
        "boot.selinux",
        "service.selinux",
        "service.selinux.enforcing",
        "boot.audit",
        "service.audit",
        "firmware.execute-disable",
        "firmware.iommu",
        "boot.iommu",
        "boot.intel_iommu",
        "boot.init_on_alloc",
        "boot.init_on_free",
        "kernel.security-modules",
        "stack.packet-filters",
    ];
    for id in lowering {
        assert!(setting(id).unwrap().risk.contains(&Risk::Security), "{id}");
    }
}

#[test]
fn writable_setting_says_what_keeps_it_and_boot_setting_needs_a_boot() {
    for setting in settings() {
        let id = setting.id;
        let needs_nothing = matches!(setting.write, Write::Fact | Write::Hardware);
        assert_eq!(setting.persist.is_empty(), needs_nothing, "{id}");
        if matches!(setting.write, Write::BootCommandLine | Write::KernelBuild) {
            assert_eq!(setting.disrupts, Disruption::Reboot, "{id}");
        }
        if setting.write == Write::Fact {
            assert_eq!(setting.disrupts, Disruption::None, "{id}");
        }
    }
}

#[test]
fn setting_software_cannot_read_says_where_to_look() {
    for setting in settings() {
        if let ReadFrom::Elsewhere { why, look } = setting.read {
            assert!(!why.is_empty() && !why.ends_with('.') && !look.is_empty(), "{}", setting.id);
            assert!(!setting.in_record, "{}", setting.id);
        }
    }
}

#[test]
fn records_have_the_settings_they_always_had() {
    let mut by_area = BTreeMap::<&str, usize>::new();
    for setting in settings().filter(|setting| setting.in_record) {
        *by_area.entry(setting.id.split('.').next().unwrap_or_default()).or_default() += 1;
    }
    let wanted = [
        ("boot", 19),
        ("clock", 7),
        ("cpu", 23),
        ("irq", 2),
        ("kernel", 12),
        ("memory", 9),
        ("net", 22),
        ("nic", 53),
        ("virtualisation", 4),
        ("vm", 4),
    ];
    assert_eq!(by_area, BTreeMap::from(wanted));
}

#[test]
fn known_id_looked_up_is_found() {
    assert!(setting("cpu.governor").is_some());
    assert!(setting("cpu.nonsense").is_none());
}

#[test]
fn text_that_is_no_id_finds_what_was_meant() {
    let found = |text| near(text).iter().map(|setting| setting.id).collect::<Vec<_>>();
    assert!(found("nic.coalesce").contains(&"nic.coalesce.rx-usecs"));
    assert!(found("nic.coalesce").iter().all(|id| id.starts_with("nic.coalesce")));
    assert_eq!(found("cpu.govenor"), ["cpu.governor"]);
    assert!(found("hyper-threading").contains(&"cpu.smt"));
    assert!(found("LnkSta").contains(&"nic.pcie.width"));
    assert!(found("xyzzy.plugh").is_empty());
}

//! The settings, one table an area. The tables are data: how a setting is read is written
//! elsewhere, once for each way.

mod clock;
mod cpu;
mod kernel;
mod memory;
pub(crate) mod nic;
mod sysctl;
mod virtualisation;

use crate::Setting;

const TABLES: [&[Setting]; 7] = [
    kernel::SETTINGS,
    cpu::SETTINGS,
    clock::SETTINGS,
    memory::SETTINGS,
    sysctl::SETTINGS,
    nic::SETTINGS,
    virtualisation::SETTINGS,
];

/// Every setting, area by area.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    TABLES.into_iter().flatten()
}

/// The setting of this id (without an interface in brackets).
#[must_use]
pub fn setting(id: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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
            assert!(setting.what.ends_with('.'), "{}", setting.id);
            assert!(!setting.what.contains(". "), "{}", setting.id);
        }
    }

    #[test]
    fn known_id_looked_up_is_found() {
        assert!(setting("cpu.governor").is_some());
        assert!(setting("cpu.nonsense").is_none());
    }
}

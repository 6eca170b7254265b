//! The settings, one table an area. The tables are data: how a setting is read is written
//! elsewhere, once for each way.

mod application;
mod base;
mod boot;
mod clock;
mod cpu;
mod disagreements;
mod firmware;
mod hardware;
mod kernel;
mod memory;
mod net;
pub(crate) mod nic;
mod noise;
mod placement;
mod printed;
mod rdma;
mod service;
mod stack;
mod switch;
mod sysctl;
mod virtualisation;

use crate::Setting;

pub use disagreements::{DISAGREEMENTS, Disagreement, disagreements};
pub use printed::{Group, PAPERS, PRINTED, Paper, Printed, Said, printed, said};

const TABLES: [&[Setting]; 17] = [
    firmware::SETTINGS,
    hardware::SETTINGS,
    kernel::SETTINGS,
    boot::SETTINGS,
    cpu::SETTINGS,
    noise::SETTINGS,
    clock::SETTINGS,
    memory::SETTINGS,
    sysctl::SETTINGS,
    net::SETTINGS,
    stack::SETTINGS,
    service::SETTINGS,
    placement::SETTINGS,
    virtualisation::SETTINGS,
    rdma::SETTINGS,
    switch::SETTINGS,
    application::SETTINGS,
];

/// Every setting, table by table.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    TABLES.into_iter().chain(nic::TABLES).flatten()
}

/// The setting of this id (without an interface in brackets).
#[must_use]
pub fn setting(id: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.id == id)
}

/// The settings that somebody may mean by a text that is no id: those whose id begins with it,
/// else those with it in the id, the description or the words the papers print, else those whose
/// id differs in few letters.
#[must_use]
pub fn near(text: &str) -> Vec<&'static Setting> {
    let text = text.to_lowercase();
    let having = |has: &dyn Fn(&Setting) -> bool| settings().filter(|setting| has(setting)).collect::<Vec<_>>();
    if text.is_empty() {
        return Vec::new();
    }
    let starts = having(&|setting| setting.id.starts_with(&text));
    if !starts.is_empty() {
        return starts;
    }
    let contains = having(&|setting| {
        let mut words = printed(setting.id).map(|check| check.words);
        setting.id.contains(&text)
            || setting.what.to_lowercase().contains(&text)
            || words.any(|words| words.to_lowercase().contains(&text))
    });
    if !contains.is_empty() {
        return contains;
    }
    let letters_max = 1 + text.len() / 5;
    having(&|setting| distance(setting.id, &text) <= letters_max)
}

/// How many letters must be added, left out or changed to make one text of another (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;

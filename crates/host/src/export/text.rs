//! Comments and first lines that all files share. Every format here has `#` for a comment. The comment above what an
//! entry says names the setting and its value, so that a file tells after the boot what should be in force.

use std::fmt::Write;

use super::plan::Entry;
use super::words::one_line;
use crate::{CpuSet, Setting, catalogue};

/// How each file begins.
pub(super) const MADE_BY: &str = "# Made by nearwire from the profile ";

/// The first lines of a file: what made it, from what, and how to take it back.
pub(super) fn header(profile: &str, what: &str, take_back: &str) -> String {
    let profile = one_line(profile);
    format!("{MADE_BY}{profile}: {what}.\n# To take it back: {take_back}.\n")
}

/// The comment above what an entry says.
pub(super) fn comment(entry: &Entry<'_>) -> String {
    let reason = one_line(&entry.goal.reason);
    let reason = if reason.is_empty() { "no reason is given" } else { &reason };
    let cpus = entry.goal.cpus.as_ref().map_or_else(String::new, |cpus| format!("{ON_CPUS}{cpus}"));
    let mut text = format!("# {}{cpus} = {}{BECAUSE}{reason}\n", entry.id, one_line(&entry.goal.value));
    if let Some(other) = &entry.same_as {
        let _ = writeln!(text, "#   {other} says it.");
    }
    text
}

const ON_CPUS: &str = " on CPUs ";
const BECAUSE: &str = " -- ";

/// What a comment says above an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub setting: &'static Setting,
    pub interface: Option<String>,
    pub cpus: Option<CpuSet>,
    pub value: String,
}

/// Reads a line that [`comment`] wrote.
pub(super) fn said(line: &str) -> Option<Said> {
    let (said, _) = line.trim().strip_prefix("# ")?.split_once(BECAUSE)?;
    let (place, value) = said.split_once(" = ")?;
    let (instance, cpus) = match place.split_once(ON_CPUS) {
        Some((instance, cpus)) => (instance, Some(CpuSet::from_list(cpus).ok()?)),
        None => (place, None),
    };
    let (id, interface) = match instance.split_once('[') {
        Some((id, interface)) => (id, Some(interface.strip_suffix(']')?.to_owned())),
        None => (instance, None),
    };
    Some(Said { setting: catalogue::setting(id)?, interface, cpus, value: value.to_owned() })
}

/// The entries as text: above each its comment, and nothing below that another one says already.
pub(super) fn block<'a, 'b: 'a>(
    entries: impl IntoIterator<Item = &'a Entry<'b>>,
    lines: impl Fn(&Entry<'b>) -> String,
) -> String {
    let mut text = String::new();
    for entry in entries {
        text += &comment(entry);
        if entry.same_as.is_none() {
            text += &lines(entry);
        }
    }
    text
}

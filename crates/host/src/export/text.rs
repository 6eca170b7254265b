//! Comments and first lines that all files share. Every format here has `#` for a comment.

use std::fmt::Write;

use super::plan::Entry;
use super::words::one_line;

/// The first lines of a file: what made it, from what, and how to take it back.
pub(super) fn header(profile: &str, what: &str, take_back: &str) -> String {
    let profile = one_line(profile);
    format!("# Made by nearwire from the profile {profile}: {what}.\n# To take it back: {take_back}.\n")
}

/// The comment above what an entry says.
pub(super) fn comment(entry: &Entry<'_>) -> String {
    let reason = one_line(&entry.goal.reason);
    let reason = if reason.is_empty() { "no reason is given" } else { &reason };
    let mut text = format!("# {}: {reason}\n", entry.id);
    if let Some(other) = &entry.same_as {
        let _ = writeln!(text, "#   {other} says it.");
    }
    text
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

//! A fleet as text.

use std::fmt::Write as _;

use nearwire_host::check::fleet::{Group, Row};

use super::Fleet;
use crate::output::{terminal_width, wrapped};

/// Names that a line has of the hosts with a value; JSON and HTML have all.
const NAMES_IN_LINE: usize = 8;

pub(super) fn page(fleet: &Fleet) -> String {
    let mut text = head(fleet);
    for row in fleet.rows.iter().filter(|row| row.differing() > 0) {
        setting(&mut text, fleet, row);
    }
    let alike_wanted: Vec<_> = fleet.rows.iter().filter(|row| row.differing() == 0).collect();
    if !alike_wanted.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nAs the profile wants it everywhere, and not alike");
    }
    for row in alike_wanted {
        setting(&mut text, fleet, row);
    }
    text
}

fn head(fleet: &Fleet) -> String {
    let differing = fleet.rows.iter().filter(|row| row.differing() > 0).count();
    let unalike = fleet.rows.iter().filter(|row| row.is_unalike()).count();
    let hosts = hosts(fleet.members.len());
    let width = terminal_width();
    let first = format!(
        "{hosts}, profile {}: {differing} settings differ from it, {unalike} are not alike.",
        fleet.profile.name
    );
    let mut text = wrapped(&first, 0, width) + "\n";
    for (at, member) in fleet.members.iter().enumerate() {
        let mark = if fleet.baseline == Some(at) { " (baseline)" } else { "" };
        let line = format!("  {}{mark}: {}", member.name, fleet.summary(member));
        let _ = writeln!(text, "{}", wrapped(&line, 4, width));
    }
    for (file, why) in &fleet.unreadable {
        let line = format!("  {}: not checked: {why}", file.display());
        let _ = writeln!(text, "{}", wrapped(&line, 4, width));
    }
    text
}

fn hosts(count: usize) -> String {
    format!("{count} {}", if count == 1 { "host" } else { "hosts" })
}

fn setting(text: &mut String, fleet: &Fleet, row: &Row) {
    let unlike = fleet.unlike(row);
    let mark = if unlike.is_empty() { String::new() } else { format!("; {} unlike the baseline", hosts(unlike.len())) };
    let _ = writeln!(text, "\n{:<6}  {}  wanted {}{mark}", row.weight.name(), row.id, row.wanted);
    for group in &row.groups {
        let line = format!("        {:<12}  {}  {}", word(group), group.found, of_hosts(fleet, group));
        let _ = writeln!(text, "{}", wrapped(&line, 22, terminal_width()));
    }
}

fn word(group: &Group) -> &'static str {
    if group.outcome.is_difference() { "DIFFERS" } else { group.outcome.name() }
}

fn of_hosts(fleet: &Fleet, group: &Group) -> String {
    let mut names: Vec<&str> = fleet.names(&group.members).take(NAMES_IN_LINE).collect();
    if group.members.len() > NAMES_IN_LINE {
        names.push("...");
    }
    format!("({}: {})", hosts(group.members.len()), names.join(", "))
}

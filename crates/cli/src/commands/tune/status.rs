//! `nearwire tune status`: shows what is in effect.

use std::fmt::Write as _;

use nearwire_host::change::{EntryState, RootHost, Status, StatusEntry, status};
use nearwire_host::journal::{HostIdentity, Journal};
use serde_json::{Value, json};

use super::{at, journal_directory};
use crate::args::tune::StatusArgs;
use crate::commands::host_root;
use crate::exit::{self, Failure, Outcome};
use crate::output;

/// The version of the JSON format; it grows when a key changes its meaning.
const FORMAT: u32 = 1;

pub fn run(args: &StatusArgs) -> Outcome {
    let directory = &journal_directory(&args.journal, &args.root)?;
    let mut host = RootHost::new(host_root::open(&args.root)?);
    let identity = HostIdentity::of(host.root());
    let content = Journal::look(directory, &identity).map_err(super::journal_failure)?.unwrap_or_default();
    let status = status(&mut host, &content, &identity);
    let is_guarded = Journal::is_held(directory);
    output::print_of_host(&match args.json {
        true => page(&status, is_guarded),
        false => text(&status, is_guarded, &at(directory, &args.root)),
    })?;
    let is_whole = |entry: &StatusEntry| matches!(entry.state, EntryState::InEffect { .. });
    let is_settled = !status.is_interrupted && (is_guarded || status.confirm_by_unix_s.is_none());
    match is_settled && status.entries.iter().all(is_whole) {
        true => Ok(()),
        false => Err(Failure::silent(exit::DIFFERENCE)),
    }
}

fn text(status: &Status, is_guarded: bool, journal: &str) -> String {
    if status.entries.is_empty() && !status.is_interrupted {
        return "No change of nearwire is in effect.\n".to_owned();
    }
    let mut text = super::revert::damage(&status.damaged);
    let width = status.entries.iter().map(|entry| entry.change.id.len()).max().unwrap_or(0);
    for entry in &status.entries {
        let change = &entry.change;
        let words = match &entry.state {
            EntryState::InEffect { now } => format!("{now} (found {})", change.found),
            EntryState::AsFound => format!("{} as before nearwire, not {}", change.found, change.wanted),
            EntryState::Changed { now } => {
                format!("CHANGED by somebody to {now} (found {}, written {})", change.found, change.wanted)
            }
            EntryState::Unread(error) => format!("cannot be read: {error}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<width$}  {words}", change.id);
    }
    if status.is_interrupted {
        text.push_str(
            "An apply or revert was interrupted, or is running: nearwire tune revert puts everything back.\n",
        );
    }
    if status.is_other_boot {
        text.push_str("The host was booted since, so most values are not in effect any more.\n");
    }
    if status.confirm_by_unix_s.is_some() && !is_guarded {
        let _ = writeln!(
            text,
            "Nobody confirmed, and the process that would have put the newest values back is gone; run: nearwire tune revert{journal}"
        );
    } else if let Some(unix_s) = status.confirm_by_unix_s {
        let time = humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s));
        let _ = writeln!(
            text,
            "The newest values are put back at {time} unless somebody runs: nearwire tune confirm{journal}"
        );
    }
    text
}

fn page(status: &Status, is_guarded: bool) -> String {
    let page = json!({
        "format": FORMAT,
        "interrupted": status.is_interrupted,
        "damaged_lines": status.damaged.iter().map(|damage| damage.line).collect::<Vec<_>>(),
        "other_boot": status.is_other_boot,
        "confirm_by_unix_s": status.confirm_by_unix_s,
        "guarded": status.confirm_by_unix_s.is_some() && is_guarded,
        "values": status.entries.iter().map(entry).collect::<Vec<_>>(),
    });
    format!("{page:#}\n")
}

fn entry(entry: &StatusEntry) -> Value {
    let (state, now) = match &entry.state {
        EntryState::InEffect { now } => ("in-effect", Some(now.clone())),
        EntryState::AsFound => ("as-found", Some(entry.change.found.clone())),
        EntryState::Changed { now } => ("changed", Some(now.clone())),
        EntryState::Unread(_) => ("unread", None),
    };
    json!({
        "id": entry.change.id,
        "target": entry.change.target.to_string(),
        "found": entry.change.found,
        "wanted": entry.change.wanted,
        "now": now,
        "state": state,
        "applied_unix_s": entry.unix_s,
        "profile": entry.profile,
    })
}

//! The kernel's log, for options of the command line that it did not take.

use super::{HostFiles, one_line};
use crate::Reading;
use crate::redact::redact;

/// How the kernel words a refusal (`init/main.c`).
const REFUSALS: [&str; 2] = ["Unknown kernel command line parameters ", "Malformed early option "];

/// The start of the first record after a boot.
const BANNER: &str = "Linux version ";

/// The lines of a log that [`rejected_options`] needs, without what identifies the machine. Of the
/// first line the numbers stay in any case.
pub(crate) fn only_needed(log: &str) -> String {
    let mut kept = String::new();
    for (at, line) in log.lines().enumerate() {
        let (numbers, text) = line.split_once(';').unwrap_or(("", line));
        let text = if REFUSALS.iter().any(|words| text.contains(words)) {
            redact(&one_line(text))
        } else if text.starts_with(BANNER) {
            text.split(' ').take(3).collect::<Vec<_>>().join(" ")
        } else if at == 0 {
            String::new()
        } else {
            continue;
        };
        kept.push_str(&format!("{numbers};{text}\n"));
    }
    kept
}

/// The options of the command line that the kernel says it did not take, or `none`.
///
/// `/proc/cmdline` shows an option whether or not the kernel knows it.
pub(crate) fn rejected_options(files: &HostFiles<'_>) -> Reading {
    let log = match files.root().read_log("/dev/kmsg") {
        Ok(log) => log,
        Err(reading) => return reading,
    };
    // A record is `priority,sequence,microseconds,flags;text`; the sequence starts at 0.
    let first_sequence = log.lines().next().and_then(|line| line.split(',').nth(1));
    let is_whole = log.lines().any(|line| line.contains(BANNER)) || first_sequence == Some("0");
    let texts = log.lines().map(|line| line.split_once(';').map_or(line, |(_, text)| text));
    let refused: Vec<_> = texts
        .filter_map(|text| REFUSALS.iter().find_map(|words| Some(text.split_once(words)?.1)))
        .map(|rest| redact(&one_line(rest.split(", will be passed").next().unwrap_or(rest))))
        .collect();
    match (refused.is_empty(), is_whole) {
        (false, _) => Reading::Value(refused.join(" | ")),
        (true, true) => Reading::value("none"),
        (true, false) => Reading::unknown("the kernel's log no longer holds the boot"),
    }
}

//! The kernel's log, for options of the command line that it did not take.

use super::{HostFiles, one_line};
use crate::Reading;
use crate::redact::redact;

/// How the kernel words a refusal (`init/main.c`).
const REFUSALS: [&str; 2] = ["Unknown kernel command line parameters ", "Malformed early option "];

/// How the kernel says that it does not know options, which is no refusal: they are for whoever reads them later.
const PASSED_ON: &str = ", will be passed";

/// What boot loaders, the initial RAM disk and systemd put on the command line for themselves: names, and beginnings that
/// end in a dot (`kernel-command-line(7)`, `dracut.cmdline(7)`, `bootup(7)`).
const FOR_PROGRAMS: &[&str] = &[
    "BOOT_IMAGE",
    "auto",
    "biosdevname",
    "boot",
    "bootdev",
    "cloud-init",
    "ds",
    "emergency",
    "fastboot",
    "forcefsck",
    "fsck.",
    "ignition.",
    "initrd",
    "live-media",
    "locale.",
    "luks",
    "luks.",
    "mount.",
    "net.",
    "nofail",
    "noplymouth",
    "nosplash",
    "ostree",
    "persistence",
    "plymouth.",
    "quota.",
    "rd.",
    "recovery",
    "rescue",
    "rhgb",
    "rootwait",
    "splash",
    "systemd.",
    "text",
    "udev.",
    "vconsole.",
    "verity",
    "vt.handoff",
    "zswap.",
];

/// The options that no program is known to read, in quotes as the kernel has them; `None` where there are none.
fn misspelt(options: &str) -> Option<String> {
    let is_for_programs = |option: &&str| {
        let name = option.split('=').next().unwrap_or(option);
        FOR_PROGRAMS.iter().any(|known| match known.strip_suffix('.') {
            Some(_) => name.starts_with(known),
            None => name == *known,
        })
    };
    let left: Vec<_> = options.trim_matches('"').split_whitespace().filter(|word| !is_for_programs(word)).collect();
    (!left.is_empty()).then(|| format!("\"{}\"", left.join(" ")))
}

/// The log as `dmesg` printed it, which `sos` keeps.
const DMESG: &str = "/sos_commands/kernel/dmesg";

/// What the kernel does next on every architecture once it has told which options it does not know (`start_kernel` of
/// `init/main.c`).
const AFTER_OPTIONS: &str = "Dentry cache hash table entries";
/// No kernel reads its command line this long after it began.
const BOOT_MAX_US: u64 = 60_000_000;

/// Whether a record is from after the options were looked at. A log has thousands of such records, each of which takes a
/// call to read: 2 of the 13 ms of a check.
fn is_behind_the_options(record: &str) -> bool {
    let time_us = record.split(',').nth(2).and_then(|time| time.parse::<u64>().ok());
    record.contains(AFTER_OPTIONS) || time_us.is_some_and(|time| time > BOOT_MAX_US)
}

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
    let root = files.root();
    let printed = |lack| if root.tells_absence() { Err(lack) } else { root.read(DMESG).map_err(|_| lack) };
    let log = match root.read_log("/dev/kmsg", is_behind_the_options).or_else(printed) {
        Ok(log) => log,
        Err(reading) => return reading,
    };
    // A record is `priority,sequence,microseconds,flags;text`; the sequence starts at 0.
    let first_sequence = log.lines().next().and_then(|line| line.split(',').nth(1));
    let is_whole = log.lines().any(|line| line.contains(BANNER)) || first_sequence == Some("0");
    let texts = log.lines().map(|line| line.split_once(';').map_or(line, |(_, text)| text));
    let refused: Vec<_> = texts
        .filter_map(|text| REFUSALS.iter().find_map(|words| Some(text.split_once(words)?.1)))
        .filter_map(|rest| match rest.split_once(PASSED_ON) {
            Some((options, _)) => misspelt(options),
            None => Some(rest.to_owned()),
        })
        .map(|rest| redact(&one_line(&rest)))
        .collect();
    match (refused.is_empty(), is_whole) {
        (false, _) => Reading::Value(refused.join(" | ")),
        (true, true) => Reading::value("none"),
        (true, false) => Reading::unknown("the kernel's log no longer holds the boot"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_read_up_to_where_options_are_done_with() {
        for (record, is_behind) in [
            ("5,0,0,-;Linux version 6.18.0", false),
            ("5,30,812345,-;Unknown kernel command line parameters \"a=1\", will be passed to user space.", false),
            ("6,31,812400,-;Dentry cache hash table entries: 524288 (order: 10, 4194304 bytes, linear)", true),
            ("6,4100,61000000,-;eth0: link up", true),
            ("odd", false),
        ] {
            assert_eq!(is_behind_the_options(record), is_behind, "{record}");
        }
    }
}

//! Facts of the kernel that need more than one file.

use super::host_files::chosen;
use super::{HostFiles, one_line};
use crate::Reading;

/// The whole command line, without what identifies the machine.
pub(crate) fn command_line(files: &HostFiles<'_>) -> Reading {
    files.command_line().map(str::to_owned).into()
}

/// Which code may be interrupted by a more urgent thread: `none`, `voluntary`, `full`, `lazy`,
/// `rt`.
pub(crate) fn preemption(files: &HostFiles<'_>) -> Reading {
    const DEBUGFS: &str = "/sys/kernel/debug/sched/preempt";
    if files.root().read("/sys/kernel/realtime").as_deref() == Ok("1") {
        return Reading::value("rt");
    }
    let from_debugfs = files.root().read(DEBUGFS);
    if let Ok(text) = &from_debugfs {
        return chosen(DEBUGFS, text, ['(', ')']);
    }
    let version = match files.root().read("/proc/sys/kernel/version") {
        Ok(version) => version,
        Err(reading) => return reading,
    };
    let has = |word| version.split_whitespace().any(|found| found == word);
    if has("PREEMPT_RT") {
        Reading::value("rt")
    } else if has("PREEMPT_DYNAMIC") {
        dynamic_preemption(files, from_debugfs == Err(Reading::NeedsRoot))
    } else if has("PREEMPT_LAZY") {
        Reading::value("lazy")
    } else if has("PREEMPT") {
        Reading::value("full")
    } else {
        Reading::value("none or voluntary")
    }
}

/// A kernel that chooses at boot: by the command line, else by its configuration.
fn dynamic_preemption(files: &HostFiles<'_>, needs_root: bool) -> Reading {
    let line = files.command_line().unwrap_or_default();
    let mut options = line.split(' ').filter_map(|word| word.strip_prefix("preempt="));
    if let Some(mode) = options.next_back() {
        return Reading::value(mode);
    }
    let defaults = [
        ("CONFIG_PREEMPT_NONE=y", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY=y", "voluntary"),
        ("CONFIG_PREEMPT_LAZY=y", "lazy"),
        ("CONFIG_PREEMPT=y", "full"),
    ];
    let config = files.config().unwrap_or_default();
    let has = |line: &str| config.lines().any(|found| found == line);
    match defaults.into_iter().find(|(line, _)| has(line)) {
        Some((_, mode)) => Reading::Value(format!("{mode} (dynamic, as built)")),
        None if needs_root => Reading::NeedsRoot,
        None => Reading::unknown("chosen at boot; debugfs is not mounted and there is no config"),
    }
}

/// Timer interrupts a second on a busy CPU.
pub(crate) fn tick_hz(files: &HostFiles<'_>) -> Reading {
    let configured = files.config().map(|config| {
        let mut lines = config.lines();
        lines.find_map(|line| line.strip_prefix("CONFIG_HZ=").map(one_line))
    });
    match configured {
        Ok(Some(hz)) => Reading::Value(hz),
        found => match (files.root().coarse_clock_resolution_ns(), found) {
            // The coarse clocks advance once a tick, and the kernel says how long that is.
            (Some(tick_ns @ 1..), _) => Reading::value((1_000_000_000 + tick_ns / 2) / tick_ns),
            (Some(0), _) => Reading::unknown("the coarse clock has no resolution"),
            (None, Err(reading)) => reading,
            (None, Ok(_)) => Reading::unknown("the kernel's configuration has no CONFIG_HZ"),
        },
    }
}

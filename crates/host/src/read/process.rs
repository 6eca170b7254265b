//! Facts of processes.

use super::HostFiles;
use crate::Reading;

/// Memory this process may lock, bytes or `unlimited` (soft limit).
pub(crate) fn memory_lock_limit(files: &HostFiles<'_>) -> Reading {
    let text = match files.root().read("/proc/self/limits") {
        Ok(text) => text,
        Err(reading) => return reading,
    };
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix("Max locked memory"));
    match rest.and_then(|rest| rest.split_whitespace().next()) {
        Some(limit) => Reading::value(limit),
        None => Reading::Unsupported,
    }
}

/// Whether irqbalance runs: it moves interrupts while one measures.
pub(crate) fn irqbalance(files: &HostFiles<'_>) -> Reading {
    let entries = match files.root().list("/proc") {
        Ok(entries) => entries,
        Err(reading) => return reading,
    };
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let mut processes = entries.iter().filter(|name| is_number(name)).peekable();
    if processes.peek().is_none() {
        return Reading::unknown("no process is shown in /proc");
    }
    let runs = processes.any(|id| {
        let comm = files.root().read(&format!("/proc/{id}/comm"));
        comm.is_ok_and(|comm| comm == "irqbalance")
    });
    Reading::value(if runs { "running" } else { "not running" })
}

//! Counters since boot: what matters is whether they grow.

use super::HostFiles;
use crate::Reading;

/// Columns of `/proc/net/softnet_stat` (`softnet_seq_show`), hexadecimal, one line a CPU.
const SOFTNET_DROPPED: usize = 1;
const SOFTNET_TIME_SQUEEZE: usize = 2;
/// Column of steal in the first line of `/proc/stat`, the word `cpu` included.
const STEAL: usize = 8;

/// Frames dropped because the queue of a CPU was full, and rounds that ended before the queue was
/// empty, since boot.
pub(crate) fn softnet(files: &HostFiles<'_>) -> Reading {
    let text = match files.root().read("/proc/net/softnet_stat") {
        Ok(text) => text,
        Err(reading) => return reading,
    };
    let sum = |column| {
        let values = text.lines().filter_map(|line| line.split_whitespace().nth(column));
        values.filter_map(|value| u64::from_str_radix(value, 16).ok()).sum::<u64>()
    };
    Reading::Value(format!("{} dropped, {} squeezed", sum(SOFTNET_DROPPED), sum(SOFTNET_TIME_SQUEEZE)))
}

/// Time other guests took from this one since boot, in clock ticks.
pub(crate) fn steal(files: &HostFiles<'_>) -> Reading {
    let line = match files.root().read_first("/proc/stat", 4096) {
        Ok(text) => text.lines().next().unwrap_or_default().to_owned(),
        Err(reading) => return reading,
    };
    match line.split_whitespace().nth(STEAL) {
        Some(ticks) => Reading::value(ticks),
        None => Reading::Unsupported,
    }
}

/// Local timer interrupts since boot, all CPUs.
pub(crate) fn timer_interrupts(files: &HostFiles<'_>) -> Reading {
    interrupts(files, "LOC")
}

/// Interrupts between CPUs since boot: reschedule, function call and TLB shootdown.
pub(crate) fn cpu_interrupts(files: &HostFiles<'_>) -> Reading {
    let of = |name| match interrupts(files, name) {
        Reading::Value(count) => Some(format!("{name} {count}")),
        _ => None,
    };
    let found: Vec<_> = ["RES", "CAL", "TLB"].into_iter().filter_map(of).collect();
    if found.is_empty() { interrupts(files, "RES") } else { Reading::Value(found.join(", ")) }
}

fn interrupts(files: &HostFiles<'_>, name: &str) -> Reading {
    let text = match files.root().read("/proc/interrupts") {
        Ok(text) => text,
        Err(reading) => return reading,
    };
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let Some(line) = line else { return Reading::Unsupported };
    Reading::value(line.split_whitespace().map_while(|count| count.parse::<u64>().ok()).sum::<u64>())
}

/// UDP datagrams that found the buffer of their socket full.
pub(crate) fn udp_buffer_errors(files: &HostFiles<'_>) -> Reading {
    let text = match files.root().read("/proc/net/snmp") {
        Ok(text) => text,
        Err(reading) => return reading,
    };
    // A line of titles, and one of numbers below it.
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (titles, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut fields = titles.split_whitespace().zip(numbers.split_whitespace());
    fields.find(|(title, _)| *title == "RcvbufErrors").map_or(Reading::Unsupported, |(_, count)| Reading::value(count))
}

/// What a packet socket takes, by the fourth column of `/proc/net/packet` (`packet_seq_show`): all frames, IPv4, IPv6.
const TAPPED: [&str; 3] = ["0003", "0800", "86dd"];

/// Open packet sockets that are shown the packets of programs, in the network namespace that `/proc/net` shows. One that is
/// bound to LLDP (88cc) or to the log-in of a port (888e) sees those few frames only.
pub(crate) fn packet_sockets(files: &HostFiles<'_>) -> Reading {
    match files.root().read("/proc/net/packet") {
        Ok(text) => {
            // The first line has the titles.
            let protocols = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
            Reading::value(protocols.filter(|protocol| TAPPED.contains(protocol)).count())
        }
        Err(reading) => reading,
    }
}

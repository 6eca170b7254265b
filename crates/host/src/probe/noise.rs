//! What keeps a spinning thread from running: interrupts, other threads, the hypervisor, the
//! firmware. The thread reads the clock in a loop; between two readings pass some ten nanoseconds
//! unless something took the CPU away.
//!
//! The tracers hwlat and osnoise of the kernel tell causes apart better, and kernels of
//! distributions often lack them. What a window is too short for stays unseen: management
//! interrupts of some firmware come once a minute or once an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use nearwire_sys::tsc::Clock;

use super::{ProbeError, of_each, on_cpu};
use crate::{Reading, Root};

/// Shorter gaps are the loop itself, ns.
pub const GAP_MIN_NS: u64 = 1_000;
/// Interrupts that are named beside a CPU's gaps, the most frequent ones.
const NAMED_MAX: usize = 3;

/// The gaps of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    /// The CPU.
    pub cpu: u32,
    /// How long it was watched, ns.
    pub window_ns: u64,
    /// Gaps of [`GAP_MIN_NS`] or more.
    pub gaps: u64,
    /// Their sum, ns.
    pub gaps_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// Gaps of 10 us or more.
    pub gaps_over_10_us: u64,
    /// Gaps of 100 us or more.
    pub gaps_over_100_us: u64,
    /// The interrupts that the CPU took most often in the window, by the name in
    /// `/proc/interrupts`.
    pub interrupts: Vec<(String, u64)>,
}

/// Watches these CPUs, one after the other, each for the `window`.
///
/// # Errors
/// See [`ProbeError`].
pub fn noise(root: &Root, clock: &Clock, cpus: &[u32], window: Duration) -> Result<Vec<Noise>, ProbeError> {
    cpus.iter().map(|&cpu| watch(root, clock, cpu, window)).collect()
}

impl Noise {
    /// The reading of `noise.sleep-gaps`: the longest gap of each CPU, ns.
    #[must_use]
    pub fn reading(all: &[Self]) -> Reading {
        of_each(all.iter().map(|noise| (noise.cpu, noise.longest_ns)))
    }
}

fn watch(root: &Root, clock: &Clock, cpu: u32, window: Duration) -> Result<Noise, ProbeError> {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let before = interrupts(root, cpu);
    let mut noise = on_cpu(cpu, || spin(clock, cpu, window_ns))?;
    let after = interrupts(root, cpu);
    let grown = after.into_iter().map(|(name, count)| {
        let earlier = before.get(&name).copied().unwrap_or(0);
        (name, count.saturating_sub(earlier))
    });
    noise.interrupts = grown.filter(|(_, count)| *count > 0).collect();
    noise.interrupts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    noise.interrupts.truncate(NAMED_MAX);
    Ok(noise)
}

fn spin(clock: &Clock, cpu: u32, window_ns: u64) -> Noise {
    let gap_min_ticks = clock.ticks(GAP_MIN_NS).max(1);
    let start = clock.now_ticks();
    let end = start.saturating_add(clock.ticks(window_ns));
    let mut gaps = Gaps::default();
    let mut last = start;
    while last < end {
        let now = clock.now_ticks();
        let gap = now.saturating_sub(last);
        if gap >= gap_min_ticks {
            gaps.add(clock.ns(gap));
        }
        last = now;
    }
    let window_ns = clock.ns(last.saturating_sub(start));
    let Gaps { count, sum_ns, longest_ns, over_10_us, over_100_us } = gaps;
    Noise {
        cpu,
        window_ns,
        gaps: count,
        gaps_ns: sum_ns,
        longest_ns,
        gaps_over_10_us: over_10_us,
        gaps_over_100_us: over_100_us,
        interrupts: Vec::new(),
    }
}

#[derive(Default)]
struct Gaps {
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
    over_10_us: u64,
    over_100_us: u64,
}

impl Gaps {
    fn add(&mut self, gap_ns: u64) {
        self.count += 1;
        self.sum_ns += gap_ns;
        self.longest_ns = self.longest_ns.max(gap_ns);
        self.over_10_us += u64::from(gap_ns >= 10_000);
        self.over_100_us += u64::from(gap_ns >= 100_000);
    }
}

/// The interrupts that a CPU took since boot, by the last word of their lines: the device's name,
/// or the kernel's words for an architecture's own.
pub(super) fn interrupts(root: &Root, cpu: u32) -> BTreeMap<String, u64> {
    let text = root.read("/proc/interrupts").unwrap_or_default();
    let mut lines = text.lines();
    let titles = lines.next().unwrap_or_default();
    let title = format!("CPU{cpu}");
    let columns = titles.split_whitespace().count();
    let Some(column) = titles.split_whitespace().position(|word| word == title) else {
        return BTreeMap::new();
    };
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let words: Vec<_> = rest.split_whitespace().collect();
        let Some(count) = words.get(column).and_then(|count| count.parse::<u64>().ok()) else { continue };
        let label = label.trim();
        let is_numbered = label.bytes().all(|byte| byte.is_ascii_digit());
        let name = match words.get(columns..) {
            Some([.., last]) if is_numbered => (*last).to_owned(),
            Some(words) if !words.is_empty() => words.join(" "),
            _ => label.to_owned(),
        };
        *counts.entry(name).or_default() += count;
    }
    counts
}

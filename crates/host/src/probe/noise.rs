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
use serde::{Deserialize, Serialize};

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

/// How often a CPU was taken from a spinning thread, as `sysjitter` and `oslat` tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseRates {
    /// The CPU.
    pub cpu: u32,
    /// Gaps of 1 us or more in a second.
    pub over_1_us_per_second: f64,
    /// Gaps of 10 us or more in a second.
    pub over_10_us_per_second: f64,
    /// Gaps of 100 us or more in a second.
    pub over_100_us_per_second: f64,
    /// The longest gap, ns.
    pub longest_ns: u64,
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

    /// The gaps of each length in a second.
    #[must_use]
    pub fn rates(&self) -> NoiseRates {
        let per_second = |gaps: u64| gaps as f64 * 1e9 / self.window_ns.max(1) as f64;
        NoiseRates {
            cpu: self.cpu,
            over_1_us_per_second: per_second(self.gaps),
            over_10_us_per_second: per_second(self.gaps_over_10_us),
            over_100_us_per_second: per_second(self.gaps_over_100_us),
            longest_ns: self.longest_ns,
        }
    }
}

/// The rates of several CPUs in one line, those of the CPU that is worst at each length: `in a second 250 interruptions
/// over 1 us, 3.1 over 10 us, none over 100 us; longest 41.2 us (CPU 3)`.
#[must_use]
pub fn noise_summary(rates: &[NoiseRates]) -> String {
    let Some(worst) = rates.iter().max_by_key(|rates| rates.longest_ns) else {
        return "no CPU was watched".to_owned();
    };
    let most = |rate: fn(&NoiseRates) -> f64| frequency(rates.iter().map(rate).fold(0.0, f64::max));
    let on = if rates.len() > 1 { " on the worst CPU" } else { "" };
    format!(
        "in a second{on} {} interruptions over 1 us, {} over 10 us, {} over 100 us; longest {:.1} us (CPU {})",
        most(|rates| rates.over_1_us_per_second),
        most(|rates| rates.over_10_us_per_second),
        most(|rates| rates.over_100_us_per_second),
        worst.longest_ns as f64 / 1e3,
        worst.cpu,
    )
}

fn frequency(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 => "none".to_owned(),
        few if few < 10.0 => format!("{few:.1}"),
        many => format!("{many:.0}"),
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
    let start = clock.now_ticks();
    let end = start.saturating_add(clock.ticks(window_ns));
    let (gaps, last) = watch_gaps(start, end, clock.ticks(GAP_MIN_NS), || clock.now_ticks(), |ticks| clock.ns(ticks));
    gaps.noise(cpu, clock.ns(last.saturating_sub(start)))
}

/// Reads the time from `start` until `end`, and takes down what lies between two readings where that is `gap_min_ticks`
/// or more. Gives also the last reading.
fn watch_gaps(
    start: u64,
    end: u64,
    gap_min_ticks: u64,
    mut now_ticks: impl FnMut() -> u64,
    ns: impl Fn(u64) -> u64,
) -> (Gaps, u64) {
    let gap_min_ticks = gap_min_ticks.max(1);
    let mut gaps = Gaps::default();
    let mut last = start;
    while last < end {
        let now = now_ticks();
        let gap = now.saturating_sub(last);
        if gap >= gap_min_ticks {
            gaps.add(ns(gap));
        }
        last = now;
    }
    (gaps, last)
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

    fn noise(self, cpu: u32, window_ns: u64) -> Noise {
        Noise {
            cpu,
            window_ns,
            gaps: self.count,
            gaps_ns: self.sum_ns,
            longest_ns: self.longest_ns,
            gaps_over_10_us: self.over_10_us,
            gaps_over_100_us: self.over_100_us,
            interrupts: Vec::new(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of one tick a nanosecond that stands still for each of these gaps once, and goes on by 20 ns otherwise.
    fn watched(gaps_ns: &[u64], window_ns: u64) -> Noise {
        let (mut now, mut turns) = (0, 0);
        let mut left = gaps_ns.iter();
        let (gaps, last) = watch_gaps(
            0,
            window_ns,
            GAP_MIN_NS,
            || {
                turns += 1;
                now += if turns % 100 == 0 { left.next().copied().unwrap_or(20) } else { 20 };
                now
            },
            |ticks| ticks,
        );
        gaps.noise(3, last)
    }

    #[test]
    fn gaps_of_each_length_are_counted_from_their_limit_on() {
        let noise = watched(&[999, 1_000, 9_999, 10_000, 99_999, 100_000, 2_500_000], 10_000_000);
        assert_eq!((noise.gaps, noise.gaps_over_10_us, noise.gaps_over_100_us), (6, 4, 2));
        assert_eq!(noise.longest_ns, 2_500_000);
        assert_eq!(noise.gaps_ns, 1_000 + 9_999 + 10_000 + 99_999 + 100_000 + 2_500_000);
    }

    #[test]
    fn clock_that_goes_back_makes_no_gap() {
        let mut readings = [100, 50, 120, 5_000].into_iter();
        let (gaps, last) = watch_gaps(0, 5_000, 1_000, || readings.next().unwrap(), |ticks| ticks);
        assert_eq!((gaps.count, gaps.longest_ns, last), (1, 4_880, 5_000));
    }

    #[test]
    fn rates_are_of_a_second_whatever_the_window() {
        let noise = Noise { window_ns: 500_000_000, ..watched(&[1_500, 20_000, 300_000], 1_000_000) };
        let rates = noise.rates();
        assert_eq!((rates.cpu, rates.longest_ns), (3, 300_000));
        assert_eq!(
            [rates.over_1_us_per_second, rates.over_10_us_per_second, rates.over_100_us_per_second],
            [6.0, 4.0, 2.0]
        );
        assert_eq!(Noise { window_ns: 0, gaps: 0, ..noise }.rates().over_1_us_per_second, 0.0);
    }

    #[test]
    fn summary_tells_the_worst_cpu_at_each_length() {
        let quiet = NoiseRates { cpu: 2, over_1_us_per_second: 250.4, longest_ns: 9_000, ..NoiseRates::default() };
        let loud = NoiseRates {
            cpu: 5,
            over_1_us_per_second: 100.0,
            over_10_us_per_second: 3.12,
            longest_ns: 41_230,
            ..NoiseRates::default()
        };
        assert_eq!(
            noise_summary(&[quiet, loud]),
            "in a second on the worst CPU 250 interruptions over 1 us, 3.1 over 10 us, none over 100 us; longest 41.2 us (CPU 5)"
        );
        assert_eq!(
            noise_summary(&[quiet]),
            "in a second 250 interruptions over 1 us, none over 10 us, none over 100 us; longest 9.0 us (CPU 2)"
        );
        assert_eq!(noise_summary(&[]), "no CPU was watched");
    }
}

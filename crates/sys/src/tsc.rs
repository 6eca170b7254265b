//! The time stamp counter: ordered reads, calibration against `CLOCK_MONOTONIC_RAW`, integer conversion.
//!
//! A start stamp is `lfence; rdtsc; lfence`: nothing before it is still running, nothing after it has begun.
//! An end stamp is `rdtscp; lfence`: everything before it is done, and the CPU it was taken on comes along in
//! `IA32_TSC_AUX`, so that a migration can be noticed. (Intel SDM volume 2B, RDTSC and RDTSCP.)
//!
//! Where the counter cannot be trusted, stamps are `CLOCK_MONOTONIC_RAW` nanoseconds and [`Clock::reason`] says why.

mod paced;

pub use paced::PacedClock;
use rustix::time::{ClockId, clock_gettime};

/// Fractional bits of the tick-to-nanosecond factor.
const SHIFT: u32 = 32;
/// How long [`Clock::calibrate`] waits between its two anchors. The bracket around one anchor is about 30 ns wide,
/// so 25 ms bounds the error of the frequency near one part per million.
const CALIBRATION_NS: u64 = 25_000_000;

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The time stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC_RAW`, one tick a nanosecond.
    MonotonicRaw,
}

impl Source {
    /// The name used in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Tsc => "tsc",
            Source::MonotonicRaw => "monotonic-raw",
        }
    }
}

/// A calibrated clock. Copy it to where it is read: it has no state but its factor.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    reason: &'static str,
    ns_per_tick_shifted: u64,
    hz: u64,
    first: Anchor,
}

/// One instant on both clocks.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    ticks: u64,
    raw_ns: u64,
}

impl Clock {
    /// Takes the counter when the kernel itself trusts it, `CLOCK_MONOTONIC_RAW` otherwise. Takes about 25 ms.
    #[must_use]
    pub fn calibrate() -> Clock {
        match tsc_trusted() {
            Ok(()) => Clock::calibrate_tsc(),
            Err(reason) => Clock::monotonic_raw(reason),
        }
    }

    fn calibrate_tsc() -> Clock {
        let first = Anchor::take();
        while monotonic_raw_ns() - first.raw_ns < CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let hz = first.hz_until(&Anchor::take());
        Clock {
            source: Source::Tsc,
            reason: "constant and nonstop counter, and the kernel's own clocksource",
            ns_per_tick_shifted: factor(hz),
            hz,
            first,
        }
    }

    fn monotonic_raw(reason: &'static str) -> Clock {
        let raw_ns = monotonic_raw_ns();
        Clock {
            source: Source::MonotonicRaw,
            reason,
            ns_per_tick_shifted: 1 << SHIFT,
            hz: 1_000_000_000,
            first: Anchor { ticks: raw_ns, raw_ns },
        }
    }

    /// Where stamps come from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Why that source was taken.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Ticks a second, as calibrated.
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Stamp before the thing measured.
    #[inline(always)]
    #[must_use]
    pub fn start_ticks(&self) -> u64 {
        match self.source {
            Source::Tsc => counter::start(),
            Source::MonotonicRaw => monotonic_raw_ns(),
        }
    }

    /// Stamp after the thing measured, with the CPU it was taken on.
    #[inline(always)]
    #[must_use]
    pub fn end_ticks(&self) -> (u64, u32) {
        match self.source {
            Source::Tsc => counter::end(),
            Source::MonotonicRaw => (monotonic_raw_ns(), current_cpu()),
        }
    }

    /// Cheap unordered read for deadlines, where a few nanoseconds do not matter.
    #[inline(always)]
    #[must_use]
    pub fn now_ticks(&self) -> u64 {
        match self.source {
            Source::Tsc => counter::unordered(),
            Source::MonotonicRaw => monotonic_raw_ns(),
        }
    }

    /// Converts a difference of ticks.
    #[inline]
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_shifted)) >> SHIFT) as u64
    }

    /// Converts a duration to ticks, rounding down.
    #[must_use]
    pub fn ticks(&self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.hz)) / 1_000_000_000) as u64
    }

    /// Nanoseconds since the clock was calibrated.
    #[inline]
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.ns(self.now_ticks().saturating_sub(self.first.ticks))
    }

    /// Nanoseconds from the clock's calibration to a stamp.
    #[inline]
    #[must_use]
    pub fn ns_since_calibration(&self, ticks: u64) -> u64 {
        self.ns(ticks.saturating_sub(self.first.ticks))
    }

    /// Second calibration over the whole time since the first: the difference in parts per million.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        if self.source == Source::MonotonicRaw {
            return 0.0;
        }
        let hz = self.first.hz_until(&Anchor::take());
        (hz as f64 - self.hz as f64) / self.hz as f64 * 1e6
    }

    /// Median cost of one stamp, from 10 000 pairs.
    #[must_use]
    pub fn stamp_cost_ns(&self) -> f64 {
        const PAIRS: usize = 10_000;
        // A copy of its own stays in registers; what lies behind a reference is loaded again after each fence.
        let clock = *self;
        let mut costs_ticks = vec![0; PAIRS];
        for cost_ticks in &mut costs_ticks {
            let start = clock.start_ticks();
            let (end, _) = clock.end_ticks();
            *cost_ticks = end.saturating_sub(start);
        }
        costs_ticks.sort_unstable();
        costs_ticks[PAIRS / 2] as f64 * 1e9 / self.hz as f64
    }
}

impl Anchor {
    /// The tightest of 64 bracketed reads: a read that was interrupted has a wide bracket and loses.
    fn take() -> Anchor {
        let mut best = (u64::MAX, Anchor { ticks: 0, raw_ns: 0 });
        for _ in 0..64 {
            let before = counter::start();
            let raw_ns = monotonic_raw_ns();
            let (after, _) = counter::end();
            let width = after.saturating_sub(before);
            if width < best.0 {
                best = (width, Anchor { ticks: before + width / 2, raw_ns });
            }
        }
        best.1
    }

    fn hz_until(&self, later: &Anchor) -> u64 {
        let ticks = u128::from(later.ticks.saturating_sub(self.ticks));
        let ns = u128::from(later.raw_ns.saturating_sub(self.raw_ns)).max(1);
        (ticks * 1_000_000_000 / ns) as u64
    }
}

fn factor(hz: u64) -> u64 {
    ((1_000_000_000_u128 << SHIFT) / u128::from(hz.max(1))) as u64
}

/// The counter of this CPU as it stands, unordered and uncalibrated: between one and five ticks a nanosecond on the machines
/// there are (nanoseconds where there is no counter). For "about so long ago" on hot paths, never for a figure.
#[inline]
#[must_use]
pub fn rough_ticks() -> u64 {
    counter::unordered()
}

/// `CLOCK_MONOTONIC_RAW` in nanoseconds.
#[inline]
#[must_use]
pub fn monotonic_raw_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `CLOCK_REALTIME`: nanoseconds since 1970.
#[inline]
#[must_use]
pub fn time_of_day_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel watches the counter against other clocks and drops it as clocksource when it misbehaves: its verdict is
/// better informed than ours, so `clocksource=tsc` is required beside the two CPU flags.
fn tsc_trusted() -> Result<(), &'static str> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err("no time stamp counter on this architecture");
    }
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or("");
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    if !has("constant_tsc") || !has("nonstop_tsc") {
        return Err("the counter is not both constant_tsc and nonstop_tsc");
    }
    if !has("rdtscp") {
        return Err("the CPU has no rdtscp");
    }
    let clocksource = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match clocksource.as_deref().map(str::trim) {
        Ok("tsc") => Ok(()),
        _ => Err("the kernel's clocksource is not tsc"),
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

    #[inline(always)]
    pub fn start() -> u64 {
        // SAFETY: lfence and rdtsc exist on every x86-64 CPU, touch no memory, and user-space rdtsc is only ever
        // disabled by prctl(PR_SET_TSC), which nothing in this workspace calls.
        unsafe {
            _mm_lfence();
            let ticks = _rdtsc();
            _mm_lfence();
            ticks
        }
    }

    #[inline(always)]
    pub fn end() -> (u64, u32) {
        let mut aux = 0;
        // SAFETY: `Clock::calibrate` takes this source only when the CPU has rdtscp; `aux` is a live local.
        unsafe {
            let ticks = __rdtscp(&mut aux);
            _mm_lfence();
            // Linux puts the CPU number in the low 12 bits of TSC_AUX (arch/x86/kernel/cpu/common.c, setup_getcpu).
            (ticks, aux & 0xfff)
        }
    }

    #[inline(always)]
    pub fn unordered() -> u64 {
        // SAFETY: as in `start`.
        unsafe { _rdtsc() }
    }
}

/// By getcpu(2), which the vDSO answers.
fn current_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX)
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub fn start() -> u64 {
        super::monotonic_raw_ns()
    }
    pub fn end() -> (u64, u32) {
        (super::monotonic_raw_ns(), super::current_cpu())
    }
    pub fn unordered() -> u64 {
        super::monotonic_raw_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_of_known_frequency_converts_within_a_part_per_million() {
        for hz in [1_000_000_000_u64, 2_600_000_000, 2_700_000_123, 24_000_000] {
            let clock = Clock {
                source: Source::Tsc,
                reason: "",
                ns_per_tick_shifted: factor(hz),
                hz,
                first: Anchor { ticks: 0, raw_ns: 0 },
            };
            let ns = clock.ns(hz * 10);
            assert!(ns.abs_diff(10_000_000_000) < 10_000, "{hz}: {ns}");
            assert_eq!(clock.ticks(1_000_000_000), hz);
        }
    }

    #[test]
    fn calibrated_clock_agrees_with_the_kernel() {
        let clock = Clock::calibrate();
        let (start_ticks, start_ns) = (clock.start_ticks(), monotonic_raw_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (end_ns, (end_ticks, _)) = (monotonic_raw_ns(), clock.end_ticks());
        let (ours, kernels) = (clock.ns(end_ticks - start_ticks), end_ns - start_ns);
        assert!(ours.abs_diff(kernels) < kernels / 1000 + 100_000, "{ours} against {kernels}");
    }

    /// Without the counter too: a pinned round on any other CPU than 0 was marked as migrated there.
    #[test]
    fn end_stamp_names_the_cpu_it_was_taken_on() {
        let cpu = *crate::affinity::allowed_cpus().last().unwrap();
        std::thread::spawn(move || {
            crate::affinity::pin_current_thread(cpu).unwrap();
            for clock in [Clock::calibrate(), Clock::monotonic_raw("a test")] {
                assert_eq!(clock.end_ticks().1, cpu, "{:?}", clock.source());
            }
        })
        .join()
        .unwrap();
    }
}

//! The kernel's monotonic clock by the counter of the CPU: what is read of the clock goes on by the counter for up to a millisecond.
//!
//! `clock_gettime` takes 29 ns in a virtual machine, a look at the counter 14 ns. A TCP stack wants the time with every segment.

use super::{monotonic_raw_ns, rough_ticks};

/// A reading of the clock may be this old: 0.2 to 1 ms. A counter that is wrong by a thousandth shows an error of 1 us by then.
const OLD_TICKS: u64 = 1 << 20;
/// Fractional bits of the pace.
const SHIFT: u32 = 32;
/// A counter has between one tick in two nanoseconds and eight in one; what is beyond was measured across a jump.
const PACES: std::ops::RangeInclusive<u64> = 1 << (SHIFT - 3)..=1 << (SHIFT + 1);
/// A thread that was off its CPU between its looks at the counter and at the clock has learned nothing: 2 to 10 us.
const AT_ONCE_TICKS: u64 = 10_000;

/// See the [module](self). It has no source of its own: a caller with another time, as a simulation, tells it what its counter and clock say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacedClock {
    /// Where the pace is measured from: the longer ago, the better it is known.
    first_ticks: u64,
    first_ns: u64,
    /// The last reading.
    read_ticks: u64,
    read_ns: u64,
    /// 0: not known yet.
    ns_per_tick_shifted: u64,
}

impl PacedClock {
    /// Whether the clock is to be read ([`Self::read`]) before it is asked what time it is at `ticks`.
    #[inline]
    #[must_use]
    pub const fn is_old(&self, ticks: u64) -> bool {
        self.ns_per_tick_shifted == 0 || ticks.wrapping_sub(self.read_ticks) > OLD_TICKS
    }

    /// The clock said `ns` between two looks at the counter.
    pub const fn read(&mut self, before_ticks: u64, ns: u64, after_ticks: u64) {
        (self.read_ticks, self.read_ns) = (before_ticks, ns);
        if after_ticks.wrapping_sub(before_ticks) > AT_ONCE_TICKS {
            // The time is right for now, and the next call reads again.
            self.read_ticks = before_ticks.wrapping_sub(OLD_TICKS + 1);
            return;
        }
        let passed_ticks = before_ticks.wrapping_sub(self.first_ticks);
        let is_first = self.first_ticks == 0 || ns < self.first_ns;
        if !is_first && passed_ticks <= OLD_TICKS {
            return;
        }
        let pace = if is_first { 0 } else { ((ns - self.first_ns) as u128) << SHIFT } / passed_ticks as u128;
        if pace >= *PACES.start() as u128 && pace <= *PACES.end() as u128 {
            self.ns_per_tick_shifted = pace as u64;
        } else {
            // The first look, or a counter that jumped, as when a machine is moved to another host.
            (self.first_ticks, self.first_ns, self.ns_per_tick_shifted) = (before_ticks, ns, 0);
        }
    }

    /// What the clock says at `ticks`, ns. A call may see a few nanoseconds less than one before it.
    #[inline]
    #[must_use]
    pub const fn ns(&self, ticks: u64) -> u64 {
        let passed_ticks = ticks.wrapping_sub(self.read_ticks);
        if passed_ticks > OLD_TICKS {
            return self.read_ns;
        }
        self.read_ns + ((passed_ticks as u128 * self.ns_per_tick_shifted as u128) >> SHIFT) as u64
    }

    /// `CLOCK_MONOTONIC_RAW` now, ns.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        let ticks = rough_ticks();
        if self.is_old(ticks) {
            self.read(ticks, monotonic_raw_ns(), rough_ticks());
        }
        self.ns(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS_PER_US: u64 = 2600;

    fn read_at(clock: &mut PacedClock, us: u64) {
        clock.read(us * TICKS_PER_US, us * 1000, us * TICKS_PER_US + 100);
    }

    fn clock() -> PacedClock {
        let mut clock = PacedClock::default();
        read_at(&mut clock, 100);
        read_at(&mut clock, 1100);
        clock
    }

    #[test]
    fn new_clock_is_read_with_every_look_until_the_pace_is_known() {
        let mut clock = PacedClock::default();
        for us in [100, 101, 300] {
            assert!(clock.is_old(us * TICKS_PER_US));
            read_at(&mut clock, us);
            assert_eq!(clock.ns(us * TICKS_PER_US), us * 1000);
        }
        read_at(&mut clock, 1100);
        assert!(!clock.is_old(1101 * TICKS_PER_US));
    }

    #[test]
    fn clock_that_was_read_goes_on_by_the_counter_for_a_while() {
        let clock = clock();
        assert!(clock.ns(1300 * TICKS_PER_US).abs_diff(1_300_000) <= 1);
        assert!(!clock.is_old(1300 * TICKS_PER_US));
        assert!(clock.is_old(1600 * TICKS_PER_US));
        assert!(clock.is_old(1000 * TICKS_PER_US), "a counter that went back");
    }

    #[test]
    fn reading_that_was_interrupted_is_taken_once_and_measures_nothing() {
        let mut clock = clock();
        let late_us = 2000;
        clock.read(1200 * TICKS_PER_US, late_us * 1000, late_us * TICKS_PER_US);
        assert_eq!(clock.ns(1200 * TICKS_PER_US), late_us * 1000);
        assert!(clock.is_old(1201 * TICKS_PER_US));
        read_at(&mut clock, 2001);
        assert!(clock.ns(2101 * TICKS_PER_US).abs_diff(2_101_000) <= 1);
    }

    #[test]
    fn counter_that_jumped_is_measured_anew() {
        let mut clock = clock();
        clock.read(1 << 62, 1_200_000, (1 << 62) + 100);
        assert!(clock.is_old((1 << 62) + 1));
        assert_eq!(clock.ns(1 << 62), 1_200_000);
    }

    #[test]
    fn clock_of_this_host_is_the_kernels() {
        let mut clock = PacedClock::default();
        for _ in 0..20_000 {
            let (before_ns, now_ns, after_ns) = (monotonic_raw_ns(), clock.now_ns(), monotonic_raw_ns());
            assert!(now_ns + 1000 >= before_ns && now_ns <= after_ns + 1000, "{before_ns} {now_ns} {after_ns}");
        }
    }
}

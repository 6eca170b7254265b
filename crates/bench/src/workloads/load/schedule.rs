//! When messages are due. It does not know what became of those before, so a slow answer delays nothing.

use super::{Arrivals, Load};
use crate::order::Order;

/// Times of messages, in clock ticks, one after the other without end.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    began_ticks: u64,
    gap_ticks: f64,
    random: Order,
    messages: u64,
    /// Of the Poisson process. Exact to a fraction of a tick for days.
    passed_ticks: f64,
    next_ticks: u64,
}

impl Schedule {
    /// From `began_ticks` on, of a clock with `hz` ticks a second.
    #[must_use]
    pub fn new(load: &Load, began_ticks: u64, hz: u64) -> Schedule {
        Schedule {
            arrivals: load.arrivals,
            began_ticks,
            gap_ticks: hz as f64 / load.rate_per_second.max(1) as f64,
            random: Order::new(load.seed),
            messages: 0,
            passed_ticks: 0.0,
            next_ticks: began_ticks,
        }
    }

    /// When it began.
    #[must_use]
    pub const fn began_ticks(&self) -> u64 {
        self.began_ticks
    }

    /// When the next message is due.
    #[inline]
    #[must_use]
    pub const fn next_ticks(&self) -> u64 {
        self.next_ticks
    }

    /// The average time between two messages.
    #[must_use]
    pub const fn gap_ticks(&self) -> f64 {
        self.gap_ticks
    }

    /// Goes on to the message behind that.
    #[inline]
    pub fn advance(&mut self) {
        self.messages += 1;
        let after_ticks = match self.arrivals {
            // Multiplied, not added up: the last message of a long round is as exact as the first.
            Arrivals::Fixed => self.messages as f64 * self.gap_ticks,
            Arrivals::Bursts(burst) => (self.messages - self.messages % u64::from(burst)) as f64 * self.gap_ticks,
            Arrivals::Poisson => {
                self.passed_ticks -= self.above_zero().ln() * self.gap_ticks;
                self.passed_ticks
            }
        };
        self.next_ticks = self.began_ticks + after_ticks as u64;
    }

    /// A random number above 0 and up to 1.
    fn above_zero(&mut self) -> f64 {
        const BITS: u32 = f64::MANTISSA_DIGITS;
        ((self.random.number() >> (u64::BITS - BITS)) + 1) as f64 / (1_u64 << BITS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 3_000_000_000;

    fn times(rate_per_second: u64, arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(&Load { rate_per_second, arrivals, seed: 7 }, 1000, HZ);
        let mut next = || {
            let ticks = schedule.next_ticks();
            schedule.advance();
            ticks
        };
        std::iter::repeat_with(&mut next).take(count).collect()
    }

    #[test]
    fn fixed_rate_is_exact_after_a_million_messages() {
        // A gap that is no whole number of ticks.
        let times = times(700_000, Arrivals::Fixed, 1_000_001);
        assert_eq!(times[0], 1000);
        let wanted = 1000 + (1e6 * HZ as f64 / 700_000.0) as u64;
        assert!(times[1_000_000].abs_diff(wanted) <= 1, "{} {wanted}", times[1_000_000]);
    }

    #[test]
    fn burst_comes_at_once_and_keeps_the_average() {
        let times = times(1000, Arrivals::Bursts(4), 12);
        let of_burst = |n: u64| 1000 + n * 4 * HZ / 1000;
        let wanted: Vec<u64> = (0..3).flat_map(|n| [of_burst(n); 4]).collect();
        assert_eq!(times, wanted);
    }

    /// Mean and standard deviation of an exponential distribution are the same; one gap in e is longer than the mean.
    #[test]
    fn poisson_gaps_are_exponential() {
        const COUNT: usize = 200_000;
        let times = times(1_000_000, Arrivals::Poisson, COUNT + 1);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / COUNT as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / COUNT as f64).sqrt();
        let longer = gaps.iter().filter(|gap| **gap > mean).count() as f64 / COUNT as f64;
        assert!((mean / 3000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation} {mean}");
        assert!((longer - (-1.0_f64).exp()).abs() < 0.005, "{longer}");
    }

    #[test]
    fn same_seed_gives_the_same_times() {
        assert_eq!(times(5000, Arrivals::Poisson, 100), times(5000, Arrivals::Poisson, 100));
    }
}

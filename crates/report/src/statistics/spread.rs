//! How far the samples are from independent, and how much wider that makes an interval.
//!
//! Round trips come in bursts of slow ones (a tick, a noisy neighbour) and rounds differ from each other, so a
//! million samples say less than a million independent ones would. For each quantile we count, in consecutive
//! blocks, how many samples lie beyond it. Independent samples would make those counts binomial; the ratio of
//! their observed to the binomial variance is the *dispersion* (Pearson's, also called design effect), and
//! `samples / dispersion` is the effective sample count.
//!
//! Two scales are looked at and the wider interval wins: blocks within rounds catch bursts, whole rounds catch
//! what changes between rounds. Lag correlations would miss the second. Few rounds estimate their variance
//! badly, hence Student's factor instead of the normal one. The dispersion is never taken as below one, so an
//! interval is never narrower than that of independent samples.

use super::rank::NORMAL_95;
use super::student::two_sided_point;

/// Fewer groups than this say nothing about the variance between them.
const LEAST_GROUPS: u64 = 4;
/// How often an interval may be wrong: that of 95 %.
const WRONG: f64 = 0.05;

/// Counts of samples beyond one threshold, over groups of samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dispersion {
    groups: u64,
    samples: f64,
    beyond: f64,
    /// Sum of `count^2 / group size`.
    scaled_squares: f64,
}

impl Dispersion {
    /// Adds a group of `samples` of which `beyond` exceed the threshold.
    pub fn add(&mut self, samples: u64, beyond: u64) {
        if samples == 0 {
            return;
        }
        self.groups += 1;
        self.samples += samples as f64;
        self.beyond += beyond as f64;
        self.scaled_squares += (beyond as f64).powi(2) / samples as f64;
    }

    /// Observed over binomial variance of the counts; `None` when there is too little to tell.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        if self.groups < LEAST_GROUPS || self.beyond == 0.0 || self.beyond >= self.samples {
            return None;
        }
        let share = self.beyond / self.samples;
        let deviation = self.scaled_squares - self.beyond * share;
        Some(deviation / ((self.groups - 1) as f64 * share * (1.0 - share)))
    }

    /// Half-width of a 95 % interval in binomial standard deviations.
    fn deviations(&self) -> f64 {
        match self.ratio() {
            Some(ratio) if ratio > 1.0 => ratio.sqrt() * two_sided_point(WRONG, (self.groups - 1) as f64),
            _ => NORMAL_95,
        }
    }
}

/// The wider of two scales' half-widths, in binomial standard deviations; at least [`NORMAL_95`].
#[must_use]
pub fn wider(blocks: &Dispersion, rounds: &Dispersion) -> f64 {
    blocks.deviations().max(rounds.deviations())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_counts_never_narrow_the_interval() {
        let mut dispersion = Dispersion::default();
        for _ in 0..50 {
            dispersion.add(100, 1);
        }
        assert_eq!(wider(&dispersion, &Dispersion::default()), NORMAL_95);
    }

    #[test]
    fn bursts_widen_the_interval() {
        let mut dispersion = Dispersion::default();
        for block in 0..50 {
            dispersion.add(1000, if block % 10 == 0 { 100 } else { 0 });
        }
        assert!(dispersion.ratio().unwrap() > 50.0);
    }
}

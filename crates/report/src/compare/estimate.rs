//! A logarithm of B/A with what is known of its error: interval, probability and verdict.

use super::{CompareOptions, Figure, Quantity, Verdict};
use crate::statistics::student::{two_sided_p, two_sided_point};

/// The logarithm of a ratio, with the standard error that it has to each side if its rounds are independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Logarithm of B/A.
    pub(super) log_ratio: f64,
    /// Standard error towards lower ratios.
    pub(super) error_below: f64,
    /// Standard error towards higher ratios.
    pub(super) error_above: f64,
    /// Rounds of the side that has fewer.
    pub(super) rounds: f64,
    /// Correlation of neighbouring rounds.
    pub(super) correlation: f64,
}

impl Estimate {
    /// How many independent rounds a round is worth, and Student's degrees of freedom.
    fn worth(&self) -> (f64, f64) {
        let worth = (1.0 - self.correlation) / (1.0 + self.correlation);
        (worth, (self.rounds * worth - 1.0).max(1.0))
    }

    /// Probability of an estimate so far from no change where nothing changed.
    pub(super) fn p_value(&self) -> f64 {
        let (worth, freedom) = self.worth();
        let error = if self.log_ratio > 0.0 { self.error_below } else { self.error_above };
        match self.log_ratio.abs() {
            0.0 => 1.0,
            distance => two_sided_p(distance / error * worth.sqrt(), freedom),
        }
    }

    /// The figure of two medians or quantiles of this ratio.
    pub(super) fn figure(
        &self,
        quantity: Quantity,
        (a_ns, b_ns): (f64, f64),
        noise_floor_percent: Option<f64>,
        options: CompareOptions,
    ) -> Figure {
        let (worth, freedom) = self.worth();
        let point = two_sided_point(options.wrong(), freedom) / worth.sqrt();
        let (below, above) = (point * self.error_below, point * self.error_above);
        let (low, high) = ((self.log_ratio - below).exp(), (self.log_ratio + above).exp());
        let noise_percent = noise_floor_percent.unwrap_or(0.0);
        let is_told = percent(self.log_ratio) > options.threshold_percent.max(noise_percent);
        let limit = 1.0 + options.threshold_percent / 100.0;
        let verdict = match () {
            () if is_told && high < 1.0 => Verdict::Better,
            () if is_told && low > 1.0 => Verdict::Worse,
            () if low * limit >= 1.0 && high <= limit => Verdict::NoDifference,
            () => Verdict::CannotTell,
        };
        Figure {
            quantity,
            a: a_ns,
            b: b_ns,
            change: self.log_ratio.exp(),
            interval: Some((low, high)),
            noise_floor_percent,
            smallest_visible_percent: Some(percent(below.max(above)).max(noise_percent)),
            p_value: Some(self.p_value()),
            verdict,
            is_confirmed: false,
            estimate: Some(*self),
        }
    }
}

/// The distance between two figures with this logarithm of their ratio, percent of the lesser one.
pub(super) fn percent(log_ratio: f64) -> f64 {
    log_ratio.abs().exp_m1() * 100.0
}

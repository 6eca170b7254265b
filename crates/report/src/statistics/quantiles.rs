//! Tables of quantiles from sorted values or from anything that can name the value at a rank.

use super::rank::{LEAST_SUPPORT, NORMAL_95, interval_ranks, quantile_rank, support};
use crate::record::Quantile;

/// The percents in every record: those that people quote, and enough between them for a smooth curve on an
/// axis of nines (about nine points a decade of `100 - percent`).
pub const PERCENTS: [f64; 55] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.0, 94.0, 95.0, 96.0,
    97.0, 98.0, 98.5, 99.0, 99.2, 99.4, 99.5, 99.6, 99.7, 99.8, 99.85, 99.9, 99.92, 99.94, 99.95, 99.96, 99.97, 99.98,
    99.985, 99.99, 99.992, 99.994, 99.995, 99.996, 99.997, 99.998, 99.9985, 99.999, 99.9992, 99.9994, 99.9995, 99.9996,
    99.9997, 99.9998, 99.9999, 100.0,
];

/// What a table of quantiles is read from: the value at a rank from 1 to the number of samples.
pub(super) trait Ranked {
    /// Values that were measured.
    fn samples(&self) -> u64;
    /// Values in nanoseconds at ascending `ranks`.
    fn values_at_ns(&self, ranks: &[u64]) -> Vec<f64>;
}

impl<T: Copy + Into<u64>> Ranked for &[T] {
    fn samples(&self) -> u64 {
        self.len() as u64
    }

    fn values_at_ns(&self, ranks: &[u64]) -> Vec<f64> {
        let at = |rank: &u64| self[(*rank - 1) as usize].into() as f64;
        ranks.iter().map(at).collect()
    }
}

/// Quantiles of `values_ns`, which are sorted in place and not halved: for latencies that are one-way already,
/// as a forwarder's own. Intervals take the values as independent.
pub fn quantiles_of<T: Copy + Ord + Into<u64>>(values_ns: &mut [T]) -> Vec<Quantile> {
    values_ns.sort_unstable();
    let values: &[T] = values_ns;
    table(&values, 0, 1.0, |_| NORMAL_95)
}

/// True for a quantile that enough messages support and that falls among the lost ones: it has no value, and measuring
/// longer does not give it one.
#[must_use]
pub fn is_lost(line: &Quantile) -> bool {
    line.value_ns.is_none() && line.support >= LEAST_SUPPORT
}

/// Quantiles at [`PERCENTS`] of the source's values and of `lost` more that are greater than all of them; each value
/// is divided by `divisor`. `deviations` gives the half-width of the interval of the percent at an index, in binomial
/// standard deviations.
pub(super) fn table(source: &impl Ranked, lost: u64, divisor: f64, deviations: impl Fn(usize) -> f64) -> Vec<Quantile> {
    let counts = Counts { samples: source.samples(), lost };
    let plans: Vec<Plan> =
        PERCENTS.iter().enumerate().map(|(index, &percent)| Plan::new(counts, percent, deviations(index))).collect();
    let mut ranks: Vec<u64> = plans.iter().flat_map(Plan::ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let values = source.values_at_ns(&ranks);
    let value_at = |rank: u64| {
        let found = ranks.binary_search(&rank);
        values[found.expect("every planned rank was looked up")] / divisor
    };
    plans
        .iter()
        .map(|plan| Quantile {
            percent: plan.percent,
            value_ns: plan.value.map(value_at),
            low_ns: plan.low.map(value_at),
            high_ns: plan.high.map(value_at),
            support: plan.support,
        })
        .collect()
}

/// How many messages came back, and how many did not.
#[derive(Clone, Copy)]
struct Counts {
    samples: u64,
    lost: u64,
}

/// The ranks that one line of the table needs; all of them are ranks of values that were measured.
struct Plan {
    percent: f64,
    value: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    support: u64,
}

impl Plan {
    fn new(counts: Counts, percent: f64, deviations: f64) -> Self {
        let Counts { samples, lost } = counts;
        let sent = samples + lost;
        let support = support(sent, percent);
        // Least and greatest are facts about the samples, not estimates of anything: no interval.
        if percent <= 0.0 || percent >= 100.0 {
            let rank = if percent <= 0.0 { 1 } else { samples };
            return Self { percent, value: (samples > 0).then_some(rank), low: None, high: None, support };
        }
        let rank = quantile_rank(sent, percent);
        let is_shown = support >= LEAST_SUPPORT && rank <= samples;
        let (low, high) = if is_shown { interval_ranks(sent, percent, deviations) } else { (None, None) };
        let value = is_shown.then_some(rank);
        Self { percent, value, low, high: high.filter(|&rank| rank <= samples), support }
    }

    fn ranks(&self) -> impl Iterator<Item = u64> + use<> {
        [self.value, self.low, self.high].into_iter().flatten()
    }
}

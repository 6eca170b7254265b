//! Ratio of medians over blocks, with an interval from resampled rounds.

use super::{CompareOptions, Figure, Verdict};
use crate::record::{Block, Run};
use crate::statistics::student::two_sided_point;
use crate::statistics::trend::median;

/// Below this many rounds the spread between rounds is hardly known.
pub(super) const FEW_ROUNDS: usize = 5;
/// Odd against even needs two of each.
const LEAST_ROUNDS: usize = 4;
/// Student's distribution of so many degrees of freedom is the normal one.
const NORMAL: f64 = 1e6;

/// One side's figures: a list of blocks for each round.
pub(super) struct Side(Vec<Vec<f64>>);

impl Side {
    pub(super) fn p50(run: &Run) -> Self {
        Self::new(run, |block| Some(block.p50_ns), |round| round.p50_ns)
    }

    pub(super) fn p99(run: &Run) -> Self {
        Self::new(run, |block| block.p99_ns, |round| round.p99_ns)
    }

    /// Blocks of each round where they support the quantile, else the round's own figure.
    fn new(
        run: &Run,
        of_block: impl Fn(&Block) -> Option<f64>,
        of_round: impl Fn(&crate::record::Round) -> Option<f64>,
    ) -> Self {
        let rounds = run.rounds.iter().map(|round| {
            let blocks: Vec<f64> = round.blocks.iter().filter_map(&of_block).collect();
            if blocks.is_empty() { of_round(round).into_iter().collect() } else { blocks }
        });
        Self(rounds.filter(|blocks| !blocks.is_empty()).collect())
    }

    /// Median over all blocks of the rounds that `wanted` picks.
    fn statistic(&self, wanted: impl Fn(usize) -> bool) -> Option<f64> {
        let picked = self.0.iter().enumerate().filter(|(index, _)| wanted(*index));
        let blocks: Vec<f64> = picked.flat_map(|(_, blocks)| blocks.iter().copied()).collect();
        median(&blocks).filter(|&value| value > 0.0)
    }

    /// The same statistic of a resample: rounds with replacement, then blocks of each with replacement.
    fn resampled(&self, random: &mut SplitMix64, scratch: &mut Vec<f64>) -> f64 {
        scratch.clear();
        for _ in 0..self.0.len() {
            let round = &self.0[random.below(self.0.len())];
            for _ in 0..round.len() {
                scratch.push(round[random.below(round.len())]);
            }
        }
        let middle = scratch.len() / 2;
        *scratch.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// Odd rounds against even ones, percent: what this side calls a difference against itself.
    fn noise_percent(&self) -> Option<f64> {
        let odd = self.statistic(|index| index % 2 == 1)?;
        let even = self.statistic(|index| index % 2 == 0)?;
        Some((odd / even).ln().abs().exp_m1() * 100.0)
    }
}

/// B against A; `None` when either side has too few supported rounds.
pub(super) fn figure(a: &Side, b: &Side, options: CompareOptions, seed: u64) -> Option<Figure> {
    let rounds = a.0.len().min(b.0.len());
    if rounds < LEAST_ROUNDS {
        return None;
    }
    let a_ns = a.statistic(|_| true)?;
    let b_ns = b.statistic(|_| true)?;
    let noise_floor_percent = a.noise_percent()?.max(b.noise_percent()?);
    let ratio = b_ns / a_ns;
    let (low, high) = interval(a, b, ratio, options, seed);
    let beyond_percent = ratio.ln().abs().exp_m1() * 100.0;
    let worth_telling = beyond_percent > options.threshold_percent.max(noise_floor_percent);
    let verdict = match () {
        () if worth_telling && high < 1.0 => Verdict::Faster,
        () if worth_telling && low > 1.0 => Verdict::Slower,
        () => Verdict::NoDifference,
    };
    Some(Figure { a_ns, b_ns, ratio, low, high, noise_floor_percent, verdict })
}

/// Percentile interval of the log ratio, widened for the number of rounds.
fn interval(a: &Side, b: &Side, ratio: f64, options: CompareOptions, seed: u64) -> (f64, f64) {
    let mut random = SplitMix64(seed);
    let mut scratch = Vec::new();
    let mut logs: Vec<f64> = (0..options.resamples.max(100))
        .map(|_| {
            let b_ns = b.resampled(&mut random, &mut scratch);
            (b_ns / a.resampled(&mut random, &mut scratch)).ln()
        })
        .collect();
    logs.sort_unstable_by(f64::total_cmp);
    let wrong = 1.0 - options.confidence.clamp(0.5, 0.9999);
    let tail = wrong / 2.0;
    let last = (logs.len() - 1) as f64;
    let low = logs[(tail * last).floor() as usize];
    let high = logs[((1.0 - tail) * last).ceil() as usize];
    let widen = widening(a.0.len().min(b.0.len()), wrong);
    let centre = ratio.ln();
    let widened = |log: f64| (centre + (log - centre) * widen).exp();
    (widened(low), widened(high))
}

/// How much wider a percentile interval must be that is wrong with this probability.
///
/// A bootstrap over k clusters underestimates their variance by (k - 1) / k and knows nothing of Student; with
/// ten rounds that makes "95 %" about 91 %. Both are put back here.
fn widening(rounds: usize, wrong: f64) -> f64 {
    let rounds = rounds as f64;
    (rounds / (rounds - 1.0)).sqrt() * two_sided_point(wrong, rounds - 1.0) / two_sided_point(wrong, NORMAL)
}

/// SplitMix64 (Steele, Lea and Flood 2014): small, seeded, good enough to resample with.
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias is below `bound / 2^64`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_ten_rounds_is_widened_at_the_level_that_was_asked_for() {
        for (wrong, student, normal) in [(0.05, 2.262, 1.960), (0.01, 3.250, 2.576)] {
            let wanted = (10.0_f64 / 9.0).sqrt() * student / normal;
            let found = widening(10, wrong);
            assert!((found / wanted - 1.0).abs() < 1e-3, "{wrong}: {found}");
        }
    }
}

//! Medians over rounds, and how far they are to be trusted.
//!
//! Each round gives one value: the median over its blocks. A side's statistic is the median over those values, so that
//! rounds weigh alike, whatever their number of blocks. Samples of one round, and its blocks, resemble each other;
//! therefore only whole rounds are resampled (Davison and Hinkley, Bootstrap Methods, section 3.8).
//!
//! Rounds that follow each other resemble each other too where the machine drifts ([`super::drift`]). The error grows
//! accordingly, and so do Student's points.

use super::drift::Drift;
use super::estimate::{Estimate, percent};
use super::random::SplitMix64;
use super::{CompareOptions, Figure, Quantity};
use crate::record::{Block, Round, Run};
use crate::statistics::rank::{LEAST_SUPPORT, NORMAL_95, quantile_rank, support};
use crate::statistics::trend::median;

/// Below this many rounds the spread between rounds is hardly known.
pub(super) const FEW_ROUNDS: usize = 5;
/// Odd against even needs two of each.
const LEAST_ROUNDS: usize = 4;
/// Share of a normal distribution below one standard deviation under its mean, and below [`NORMAL_95`] of them.
const TAILS: [(f64, f64); 2] = [(0.158_655, 1.0), (0.025, NORMAL_95)];

fn message_time_ns(round: &Round) -> Option<f64> {
    (round.samples > 0).then(|| round.duration_ns as f64 / round.samples as f64)
}

/// One side's rounds: a value each, in the order in which they ran; infinite where it falls among the lost messages.
pub(super) struct Rounds {
    values_ns: Vec<f64>,
}

impl Rounds {
    /// `None` for a quantity that rounds do not have.
    pub(super) fn of(run: &Run, quantity: Quantity) -> Option<Self> {
        let of_round: fn(&Round) -> Option<f64> = match quantity {
            Quantity::P50 => |round| value(round, 50.0, round.p50_ns, |block| Some(block.p50_ns)),
            Quantity::P99 => |round| value(round, 99.0, round.p99_ns, |block| block.p99_ns),
            Quantity::CpuInitiator => |round| round.cpu_initiator_ns_per_message,
            Quantity::CpuResponder => |round| round.cpu_responder_ns_per_message,
            Quantity::MessageTime if run.is_one_way() => message_time_ns,
            Quantity::P999 | Quantity::Loss | Quantity::MessageTime => return None,
        };
        Some(Self { values_ns: run.rounds.iter().filter_map(of_round).collect() })
    }

    fn count(&self) -> usize {
        self.values_ns.len()
    }

    /// Median over the rounds that `wanted` picks.
    fn statistic(&self, wanted: impl Fn(usize) -> bool) -> Option<f64> {
        let picked = self.values_ns.iter().enumerate().filter(|(index, _)| wanted(*index));
        let values: Vec<f64> = picked.map(|(_, &value)| value).collect();
        median(&values).filter(|&value| value > 0.0)
    }

    /// The same statistic of rounds that were drawn with replacement.
    fn resampled(&self, random: &mut SplitMix64, scratch: &mut Vec<f64>) -> f64 {
        scratch.clear();
        scratch.extend((0..self.count()).map(|_| self.values_ns[random.below(self.count())]));
        let middle = scratch.len() / 2;
        let is_odd = scratch.len() % 2 == 1;
        let (below, upper, _) = scratch.select_nth_unstable_by(middle, f64::total_cmp);
        if is_odd { *upper } else { f64::midpoint(*upper, below.iter().copied().fold(0.0, f64::max)) }
    }

    /// What this side calls a difference against itself, percent: odd rounds against even ones, and the first half
    /// against the second, whichever is larger.
    fn noise_percent(&self) -> f64 {
        let half = self.count() / 2;
        let between = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) if one.is_finite() || other.is_finite() => percent((one / other).ln()),
            _ => 0.0,
        };
        let turns = between(self.statistic(|index| index % 2 == 1), self.statistic(|index| index % 2 == 0));
        turns.max(between(self.statistic(|index| index < half), self.statistic(|index| index >= half)))
    }
}

/// A round's value; `None` when too few messages support it.
fn value(
    round: &Round,
    quantile_percent: f64,
    own_ns: Option<f64>,
    of_block: impl Fn(&Block) -> Option<f64>,
) -> Option<f64> {
    let lost = |samples: u64, lost: u64| {
        let sent = samples + lost;
        let is_lost =
            support(sent, quantile_percent) >= LEAST_SUPPORT && quantile_rank(sent, quantile_percent) > samples;
        is_lost.then_some(f64::INFINITY)
    };
    if own_ns.is_none()
        && let Some(infinite) = lost(round.samples, round.lost)
    {
        return Some(infinite);
    }
    // Where in the round messages were lost is not recorded: each block has its share of them.
    let share = |block: &Block| {
        let share = u128::from(round.lost) * u128::from(block.samples) / u128::from(round.samples.max(1));
        u64::try_from(share).unwrap_or(u64::MAX >> 1)
    };
    let blocks = round.blocks.iter().filter_map(|block| of_block(block).or_else(|| lost(block.samples, share(block))));
    median(&blocks.collect::<Vec<_>>()).or(own_ns)
}

/// B against A; `None` when either side has too few supported rounds.
pub(super) fn figure(
    quantity: Quantity,
    a: &Rounds,
    b: &Rounds,
    options: CompareOptions,
    random: SplitMix64,
) -> Option<Figure> {
    if a.count().min(b.count()) < LEAST_ROUNDS {
        return None;
    }
    let (a_ns, b_ns) = (a.statistic(|_| true)?, b.statistic(|_| true)?);
    if a_ns.is_infinite() || b_ns.is_infinite() {
        return Some(Figure::lost(quantity, a_ns, b_ns));
    }
    let noise_percent = a.noise_percent().max(b.noise_percent());
    let estimate = estimate((a_ns, b_ns), a, b, options.resamples.max(100), random);
    Some(estimate.figure(quantity, (a_ns, b_ns), Some(noise_percent), options))
}

fn estimate(medians_ns: (f64, f64), a: &Rounds, b: &Rounds, resamples: u32, mut random: SplitMix64) -> Estimate {
    let mut scratch = Vec::new();
    let mut logs: Vec<f64> = (0..resamples)
        .map(|_| {
            let (b_ns, a_ns) = (b.resampled(&mut random, &mut scratch), a.resampled(&mut random, &mut scratch));
            // Two infinite ones tell nothing of each other.
            if a_ns == b_ns { 0.0 } else { (b_ns / a_ns).ln() }
        })
        .collect();
    logs.sort_unstable_by(f64::total_cmp);
    let last = (logs.len() - 1) as f64;
    let centre = (medians_ns.1 / medians_ns.0).ln();
    // The wider of two looks: medians of few rounds jump, and the middle of their distribution may not show it.
    let error = |distance: &dyn Fn(f64) -> f64| {
        let errors = TAILS.map(|(tail, deviations)| distance(tail) / deviations);
        errors.into_iter().fold(0.0, f64::max)
    };
    let below = error(&|tail| centre - logs[(tail * last).floor() as usize]);
    let above = error(&|tail| logs[((1.0 - tail) * last).ceil() as usize] - centre);
    let rounds = a.count().min(b.count()) as f64;
    // A bootstrap over n rounds underestimates their variance by (n - 1) / n.
    let widen = (rounds / (rounds - 1.0)).sqrt();
    Estimate {
        log_ratio: centre,
        error_below: below * widen,
        error_above: above * widen,
        rounds,
        correlation: drift([a, b]).correlation(),
    }
}

/// How the medians of neighbouring rounds of both sides go together.
pub(super) fn drift_of_medians(a: &Run, b: &Run) -> Drift {
    let quantity = if a.is_one_way() { Quantity::MessageTime } else { Quantity::P50 };
    match (Rounds::of(a, quantity), Rounds::of(b, quantity)) {
        (Some(a), Some(b)) if a.count().min(b.count()) >= LEAST_ROUNDS => drift([&a, &b]),
        _ => Drift::default(),
    }
}

fn drift(sides: [&Rounds; 2]) -> Drift {
    let mut drift = Drift::default();
    for side in sides {
        drift.add_side(&side.values_ns);
    }
    drift
}

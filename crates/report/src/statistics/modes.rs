//! Whether a sample is a mixture of two states, so that its median lies between them and describes neither.
//!
//! Two looks, because a mixture shows in two ways. *Within* the samples: their density on a log axis between
//! p1 and p99 has two separated peaks. *Between* rounds: their medians fall into two tight groups, as when a
//! virtual CPU was moved. A long tail is not a mode: each peak must hold a tenth of the samples.

/// Bins between p1 and p99, at most.
const BINS: usize = 64;
/// Narrowest bin, as a ratio: fine structure of the clock must not look like modes.
const NARROWEST: f64 = 1.02;
/// Fewest samples from which peaks can be told.
const LEAST_SAMPLES: u64 = 1_000;
/// Share of the samples each side of the valley must hold.
const LEAST_SHARE: f64 = 0.10;
/// Peaks nearer than this ratio are one state with some width.
const LEAST_RATIO: f64 = 1.2;
/// The valley may reach up to this share of the lower peak.
const DEEPEST: f64 = 0.5;
/// Difference of square roots of counts (standard deviation about 0.7) that chance does not reach.
const LEAST_ROOTS: f64 = 3.0;
/// Half the width, in bins, of the box that smooths the density.
const REACH: usize = 2;

/// Two states, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoModes {
    /// Where the lower state is.
    pub low: f64,
    /// Where the upper state is.
    pub high: f64,
    /// Share of samples (or rounds) in the lower state, 0 to 1.
    pub share_low: f64,
}

/// Two peaks in the density of samples, given as ascending values with counts.
#[must_use]
pub fn within(values: &[(f64, u64)]) -> Option<TwoModes> {
    let samples: u64 = values.iter().map(|(_, count)| count).sum();
    if samples < LEAST_SAMPLES {
        return None;
    }
    let low = value_at(values, samples / 100)?.max(1.0);
    let high = value_at(values, samples - samples / 100)?;
    if high / low < LEAST_RATIO {
        return None;
    }
    let step = (high / low).powf(1.0 / BINS as f64).max(NARROWEST).ln();
    let bins = ((high / low).ln() / step).floor() as usize + 1;
    let mut counts = vec![0u64; bins];
    for &(value, count) in values.iter().filter(|(value, _)| (low..=high).contains(value)) {
        counts[(((value / low).ln() / step) as usize).min(bins - 1)] += count;
    }
    let (left, right, share_low) = two_peaks(&counts)?;
    let at = |bin: usize| low * ((bin as f64 + 0.5) * step).exp();
    (at(right) / at(left) >= LEAST_RATIO).then(|| TwoModes { low: at(left), high: at(right), share_low })
}

fn value_at(values: &[(f64, u64)], rank: u64) -> Option<f64> {
    let mut seen = 0;
    values.iter().find_map(|&(value, count)| {
        seen += count;
        (seen >= rank).then_some(value)
    })
}

/// Bins of the two highest peaks that a deep enough valley parts, and the share left of the valley.
fn two_peaks(counts: &[u64]) -> Option<(usize, usize, f64)> {
    let total: u64 = counts.iter().sum();
    let smooth: Vec<f64> = (0..counts.len())
        .map(|bin| {
            let from = bin.saturating_sub(REACH);
            let to = (bin + REACH + 1).min(counts.len());
            counts[from..to].iter().sum::<u64>() as f64
        })
        .collect();
    let highest = |from: usize, to: usize| (from..to).max_by(|&a, &b| smooth[a].total_cmp(&smooth[b]));
    let mut best: Option<(f64, usize, usize, f64)> = None;
    for valley in 1..counts.len().saturating_sub(1) {
        let (Some(left), Some(right)) = (highest(0, valley), highest(valley + 1, counts.len())) else {
            continue;
        };
        let lower = smooth[left].min(smooth[right]);
        let deep = smooth[valley] <= DEEPEST * lower && lower.sqrt() - smooth[valley].sqrt() >= LEAST_ROOTS;
        let share = counts[..=valley].iter().sum::<u64>() as f64 / total as f64;
        let both = (LEAST_SHARE..=1.0 - LEAST_SHARE).contains(&share);
        let depth = lower - smooth[valley];
        if deep && both && best.is_none_or(|(deepest, ..)| depth > deepest) {
            best = Some((depth, left, right, share));
        }
    }
    best.map(|(_, left, right, share)| (left, right, share))
}

/// Fewest rounds whose medians can be called two groups.
const LEAST_ROUNDS: usize = 6;
/// The gap between the groups against the width of the wider one.
const LEAST_GAP: f64 = 3.0;

/// Two tight groups among the medians of rounds.
#[must_use]
pub fn between(medians: &[f64]) -> Option<TwoModes> {
    if medians.len() < LEAST_ROUNDS {
        return None;
    }
    let mut sorted = medians.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // At least two rounds a group: a single odd one is an outlier, which the rounds show anyway.
    let split =
        (2..=sorted.len() - 2).max_by(|&a, &b| (sorted[a] - sorted[a - 1]).total_cmp(&(sorted[b] - sorted[b - 1])))?;
    let (lower, upper) = sorted.split_at(split);
    let width = |group: &[f64]| group[group.len() - 1] - group[0];
    let gap = upper[0] - lower[lower.len() - 1];
    let separated =
        gap >= LEAST_GAP * width(lower).max(width(upper)) && upper[0] / lower[lower.len() - 1] >= LEAST_RATIO;
    separated.then(|| TwoModes {
        low: lower[lower.len() / 2],
        high: upper[upper.len() / 2],
        share_low: lower.len() as f64 / sorted.len() as f64,
    })
}

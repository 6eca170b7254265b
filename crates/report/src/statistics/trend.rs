//! Whether a series of figures rises or falls over its course (Mann-Kendall, on ranks).
//!
//! Ranks, because one disturbed round must not look like a drift; a least change besides, because with many
//! rounds the faintest slope becomes significant and nobody needs to hear of it.

/// A change of the median from the first to the last third below this share is not worth a warning.
const LEAST_CHANGE: f64 = 0.05;
/// Mann-Kendall deviations that rounds must show: 5 rounds in strict order reach 2.2.
const LEAST_DEVIATIONS: f64 = 2.0;
/// Fewest figures that can be called a trend.
const LEAST_FIGURES: usize = 5;

/// A drift: medians of the first and of the last third, in the unit of the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Median of the first third.
    pub first: f64,
    /// Median of the last third.
    pub last: f64,
}

/// The drift of a series in time order; `None` when it has none worth telling or is too short.
#[must_use]
pub fn drift(series: &[f64]) -> Option<Drift> {
    if series.len() < LEAST_FIGURES || kendall_deviations(series).abs() < LEAST_DEVIATIONS {
        return None;
    }
    let third = series.len().div_ceil(3);
    let first = median(&series[..third])?;
    let last = median(&series[series.len() - third..])?;
    ((last / first - 1.0).abs() >= LEAST_CHANGE).then_some(Drift { first, last })
}

/// Mann-Kendall's S in standard deviations, ties taken into account; positive when rising.
fn kendall_deviations(series: &[f64]) -> f64 {
    let mut rises = 0i64;
    for (index, earlier) in series.iter().enumerate() {
        for later in &series[index + 1..] {
            rises += i64::from(later > earlier) - i64::from(later < earlier);
        }
    }
    let weight = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let ties: f64 = tied_groups(series).into_iter().map(|size| weight(size as f64)).sum();
    let variance = (weight(series.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return 0.0;
    }
    // Continuity correction: S moves in steps of two.
    (rises - rises.signum()) as f64 / variance.sqrt()
}

fn tied_groups(series: &[f64]) -> Vec<usize> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
}

/// Median; the mean of the middle two when their number is even. `None` when empty.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        None
    } else if sorted.len() % 2 == 1 {
        Some(sorted[middle])
    } else {
        Some((sorted[middle - 1] + sorted[middle]) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rising_rounds_are_a_drift() {
        let rounds: Vec<f64> = (0..10).map(|round| 1000.0 + 20.0 * f64::from(round)).collect();
        let found = drift(&rounds).unwrap();
        assert!(found.last > found.first);
    }

    #[test]
    fn one_disturbed_round_is_no_drift() {
        let mut rounds = vec![1000.0; 10];
        rounds[9] = 5000.0;
        assert_eq!(drift(&rounds), None);
    }

    #[test]
    fn faint_but_steady_slope_is_not_worth_a_warning() {
        let rounds: Vec<f64> = (0..100).map(|round| 1000.0 + 0.1 * f64::from(round)).collect();
        assert_eq!(drift(&rounds), None);
    }

    #[test]
    fn few_rounds_are_no_trend() {
        assert_eq!(drift(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(median(&[]), None);
    }
}

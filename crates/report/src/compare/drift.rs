//! How much neighbouring rounds resemble each other, as they do where a machine drifts.
//!
//! Of rounds with correlation r between neighbours n are worth n (1 - r) / (1 + r) independent ones.

/// Correlation of neighbouring rounds that is taken into account, at most.
const MOST: f64 = 0.9;

/// Sums from which the correlation of neighbouring rounds comes; those of several cells can be added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Drift {
    together: f64,
    alone: f64,
    sides: f64,
    /// Sum over the sides of one divided by the number of rounds.
    per_round: f64,
}

impl Drift {
    /// Adds one side's rounds, in the order in which they ran. Ranks are looked at, so that one disturbed round does not
    /// hide a drift.
    pub(super) fn add_side(&mut self, values: &[f64]) {
        let count = values.len() as f64;
        if values.len() < 2 {
            return;
        }
        let ranks = ranks(values);
        let mean = (count - 1.0) / 2.0;
        // So that long series do not outweigh short ones.
        let scale = count.powi(3);
        self.together += ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / scale;
        self.alone += ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>() / scale;
        self.sides += 1.0;
        self.per_round += 1.0 / count;
    }

    /// Adds the sums of another cell.
    pub(super) fn add(&mut self, other: &Self) {
        self.together += other.together;
        self.alone += other.alone;
        self.sides += other.sides;
        self.per_round += other.per_round;
    }

    /// The correlation, from 0 to [`MOST`]. That of few rounds comes out too small by (1 + 3 r) / n on average
    /// (Kendall 1954), which is added again.
    pub(super) fn correlation(&self) -> f64 {
        if self.alone <= 0.0 {
            return 0.0;
        }
        let found = self.together / self.alone;
        (found + (1.0 + 3.0 * found) * self.per_round / self.sides).clamp(0.0, MOST)
    }
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|&value| below(value) + (equal(value) - 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correlation(sides: &[&[f64]]) -> f64 {
        let mut drift = Drift::default();
        for side in sides {
            drift.add_side(side);
        }
        drift.correlation()
    }

    #[test]
    fn rising_rounds_resemble_each_other_and_alternating_ones_do_not() {
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let alternating: Vec<f64> = (0..10).map(|round| f64::from(round % 2)).collect();
        assert!(correlation(&[&rising, &rising]) > 0.8);
        assert_eq!(correlation(&[&alternating, &alternating]), 0.0);
        assert_eq!(correlation(&[&[5.0; 10], &[]]), 0.0);
    }

    #[test]
    fn one_disturbed_round_does_not_hide_a_drift() {
        let mut rising: Vec<f64> = (0..10).map(f64::from).collect();
        rising[4] = f64::INFINITY;
        assert!(correlation(&[&rising]) > 0.4);
    }
}

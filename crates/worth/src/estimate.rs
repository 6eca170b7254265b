//! How much a setting changes a figure: from pairs of runs to one number with an interval.
//!
//! The two runs of a pair follow each other, so that their difference has little of the machine's drift in it. Figures above zero are
//! compared by the logarithm of their ratio, others by their difference. The centre is a trimmed mean (a fifth of the pairs left
//! out at either end) with the interval of Yuen (Biometrika 61, 1974): between mean and median, it stands bursts that hit fewer than a fifth of the pairs, and with 16
//! pairs it needs little more than half of the pairs that an interval of the median needs to see the same effect.

use nearwire_report::statistics::student::{two_sided_p, two_sided_point};
use nearwire_report::statistics::trend::median;
use serde::{Deserialize, Serialize};

/// Of fewer values none is left out: too few would be left to know their spread.
const TRIMMED_FROM: usize = 10;
/// The share left out at either end.
const TRIMMED: f64 = 0.2;
/// Degrees of freedom fewer than Yuen's: far out, where many settings are judged, his intervals are wrong half as often again as they
/// should be (normal noise, 16 pairs, level 0.0005), and with these seldom or never.
const FREEDOM_LESS: f64 = 2.0;
/// Fewer pairs than this say nothing.
pub const PAIRS_MIN: usize = 4;

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// By the logarithm of their ratio.
    Ratio,
    /// By their difference.
    Difference,
}

/// A centre and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centre {
    /// The trimmed mean.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom of that error.
    pub freedom: f64,
}

impl Centre {
    /// The trimmed mean of values; `None` for fewer than [`PAIRS_MIN`].
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < PAIRS_MIN || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let cut = if count < TRIMMED_FROM { 0 } else { (count as f64 * TRIMMED) as usize };
        let kept = &sorted[cut..count - cut];
        let value = kept.iter().sum::<f64>() / kept.len() as f64;
        // Winsorized: what was left out counts as the last that was kept.
        let (least, most) = (kept[0], kept[kept.len() - 1]);
        let mut moved = sorted.iter().map(|value| value.clamp(least, most)).collect::<Vec<_>>();
        let mean = moved.iter().sum::<f64>() / count as f64;
        moved.iter_mut().for_each(|value| *value = (*value - mean).powi(2));
        let kept_count = kept.len() as f64;
        let variance = moved.iter().sum::<f64>() / (kept_count * (kept_count - 1.0));
        let freedom = kept_count - 1.0 - if cut > 0 { FREEDOM_LESS } else { 0.0 };
        Some(Self { value, standard_error: variance.sqrt(), freedom })
    }

    /// Probability of a centre as far from zero as this one where there is no effect.
    #[must_use]
    pub fn p(&self) -> f64 {
        match (self.value == 0.0, self.standard_error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            _ => two_sided_p(self.value / self.standard_error, self.freedom),
        }
    }

    /// Half of the interval that is wrong with this probability.
    #[must_use]
    pub fn half_width(&self, level: f64) -> f64 {
        if self.standard_error == 0.0 { 0.0 } else { two_sided_point(level, self.freedom) * self.standard_error }
    }
}

/// The pairs of one figure, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Median of the runs with the value found.
    pub found: f64,
    /// How they were compared.
    pub scale: Scale,
    /// Wanted against found.
    pub centre: Centre,
    /// How many pairs.
    pub pairs: usize,
}

impl Compared {
    /// Compares pairs of a figure (found, wanted); `None` for fewer than [`PAIRS_MIN`].
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let is_above_zero = pairs.iter().all(|(found, wanted)| *found > 0.0 && *wanted > 0.0);
        let scale = if is_above_zero { Scale::Ratio } else { Scale::Difference };
        let compared: Vec<f64> = pairs.iter().map(|pair| scale.compare(*pair)).collect();
        let found = median(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
        Some(Self { found, scale, centre: Centre::of(&compared)?, pairs: pairs.len() })
    }

    /// What a difference on the scale comes to in the unit of the figure.
    #[must_use]
    pub fn in_unit(&self, difference: f64) -> f64 {
        match self.scale {
            Scale::Ratio => self.found * difference.exp_m1(),
            Scale::Difference => difference,
        }
    }

    /// The same in per cent of the value found; `None` where that is zero.
    #[must_use]
    pub fn in_percent(&self, difference: f64) -> Option<f64> {
        (self.found != 0.0).then(|| self.in_unit(difference) / self.found.abs() * 100.0)
    }
}

impl Scale {
    /// Wanted against found.
    #[must_use]
    pub fn compare(self, (found, wanted): (f64, f64)) -> f64 {
        match self {
            Self::Ratio => (wanted / found).ln(),
            Self::Difference => wanted - found,
        }
    }

    /// A figure as it is added up.
    #[must_use]
    pub fn of_one(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.ln(),
            Self::Difference => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_of_equal_pairs_is_exact() {
        let compared = Compared::of(&[(100.0, 80.0); 8]).unwrap();
        assert_eq!(compared.scale, Scale::Ratio);
        assert!((compared.in_unit(compared.centre.value) + 20.0).abs() < 1e-9);
        assert_eq!(compared.centre.p(), 0.0);
    }

    #[test]
    fn zeros_are_compared_by_difference() {
        let compared = Compared::of(&[(0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (0.0, 1.0)]).unwrap();
        assert_eq!((compared.scale, compared.found), (Scale::Difference, 0.0));
        assert_eq!(compared.in_percent(1.0), None);
    }

    #[test]
    fn too_few_pairs_and_values_that_are_no_numbers_say_nothing() {
        assert_eq!(Compared::of(&[(1.0, 2.0); 3]), None);
        assert_eq!(Centre::of(&[1.0, f64::NAN, 1.0, 1.0]), None);
    }

    #[test]
    fn three_bursts_among_sixteen_pairs_do_not_move_the_centre() {
        let mut values: Vec<f64> = (0..16).map(|n| f64::from(n % 4) * 0.01).collect();
        let quiet = Centre::of(&values).unwrap();
        for at in [2, 7, 11] {
            values[at] = 1.5;
        }
        let loud = Centre::of(&values).unwrap();
        assert!((quiet.value - loud.value).abs() < 0.01, "{quiet:?} {loud:?}");
        assert!(loud.standard_error < 0.01);
    }
}

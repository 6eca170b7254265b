//! What may be said of many settings at once.
//!
//! Among twenty settings that do nothing one differs "with 95 %" by chance. So a setting counts as having an effect on a
//! stricter level: Benjamini's and Hochberg's over the settings, and Bonferroni's over the figures of each (Benjamini and Bogomolov, JRSS B 76,
//! 2014). Of the effects that are told at most one in twenty is expected to be none, and where no setting has any, all verdicts are right with
//! 95 %. The intervals have the same level: a verdict is given where the interval leaves zero out.

use serde::{Deserialize, Serialize};

use crate::estimate::{Compared, Scale};
use crate::subject::Figure;

/// How sure a verdict must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strictness {
    /// Share of false ones among the effects that are told.
    pub false_share: f64,
    /// Effects smaller than this are none, per cent.
    pub least_percent: f64,
    /// Where an effect smaller than this could not have been seen, the noise is said to be too large, per cent.
    pub noise_percent: f64,
}

impl Default for Strictness {
    fn default() -> Self {
        Self { false_share: 0.05, least_percent: 1.0, noise_percent: 20.0 }
    }
}

/// What may be said of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The wanted value is better.
    Better,
    /// It is worse.
    Worse,
    /// No effect was measured.
    NoEffect,
    /// The noise is larger than any effect that could have been seen.
    Noise,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::NoEffect => "no effect",
            Self::Noise => "noise",
        }
    }

    /// Whether an effect was measured.
    #[must_use]
    pub const fn is_effect(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}

/// The effect of a setting on a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The figure.
    pub figure: Figure,
    /// Median with the value found, in the figure's unit.
    pub found: f64,
    /// Change by the wanted value, in the figure's unit.
    pub change: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// The change in per cent; `None` where the value found is zero.
    pub percent: Option<f64>,
    /// The smallest effect that could have been seen, per cent of the value found; `None` where that is zero.
    pub visible_percent: Option<f64>,
    /// How the pairs were compared.
    pub scale: Scale,
    /// How many pairs of runs.
    pub pairs: usize,
    /// Probability that the interval is wrong.
    pub level: f64,
    /// What may be said.
    pub verdict: Verdict,
}

/// One figure of one setting before it is judged, with whatever tells it from others.
#[derive(Clone, Debug)]
pub struct Test<K> {
    /// Which one it is.
    pub key: K,
    /// The figure.
    pub figure: Figure,
    /// Its pairs, compared.
    pub compared: Compared,
}

/// Judges all figures of all settings; the outer list is one of settings.
#[must_use]
pub fn judge<K: Clone>(settings: &[Vec<Test<K>>], strictness: Strictness) -> Vec<Vec<(K, Effect)>> {
    let levels = levels(settings, strictness.false_share);
    let of = |(tests, level): (&Vec<Test<K>>, f64)| {
        tests.iter().map(|test| (test.key.clone(), effect(test, level, strictness))).collect()
    };
    settings.iter().zip(levels).map(of).collect()
}

/// The level of each setting's figures: so sure each of them must be.
fn levels<K>(settings: &[Vec<Test<K>>], false_share: f64) -> Vec<f64> {
    let tested: Vec<&Vec<Test<K>>> = settings.iter().filter(|tests| !tests.is_empty()).collect();
    let mut p_values: Vec<f64> = tested
        .iter()
        .map(|tests| tests.iter().map(|test| test.compared.centre.p()).fold(1.0, f64::min) * tests.len() as f64)
        .collect();
    p_values.sort_unstable_by(f64::total_cmp);
    let share_of = |rank: usize| false_share * rank as f64 / tested.len() as f64;
    let chosen = (1..=p_values.len()).rev().find(|rank| p_values[rank - 1] <= share_of(*rank)).unwrap_or(1);
    settings.iter().map(|tests| share_of(chosen) / tests.len().max(1) as f64).collect()
}

fn effect<K>(test: &Test<K>, level: f64, strictness: Strictness) -> Effect {
    let Test { figure, compared, .. } = test;
    let (centre, half_width) = (compared.centre.value, compared.centre.half_width(level));
    let (low, high) = (centre - half_width, centre + half_width);
    let visible_percent = compared.in_percent(half_width).map(f64::abs);
    let percent = compared.in_percent(centre);
    let is_worth_telling = percent.is_none_or(|percent| percent.abs() >= strictness.least_percent);
    let is_seen = (low > 0.0 || high < 0.0) && is_worth_telling;
    let verdict = match () {
        () if is_seen && (centre > 0.0) == figure.more_is_better() => Verdict::Better,
        () if is_seen => Verdict::Worse,
        () if visible_percent.is_some_and(|visible| visible > strictness.noise_percent) => Verdict::Noise,
        () => Verdict::NoEffect,
    };
    Effect {
        figure: *figure,
        found: compared.found,
        change: compared.in_unit(centre),
        low: compared.in_unit(low),
        high: compared.in_unit(high),
        percent,
        visible_percent,
        scale: compared.scale,
        pairs: compared.pairs,
        level,
        verdict,
    }
}

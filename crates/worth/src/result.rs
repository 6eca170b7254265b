//! What a measurement came to: the file that `--json` writes, and what pages and tables are made of.

use serde::{Deserialize, Serialize};

use crate::subject::Figure;
use crate::verdict::{Effect, Verdict};

/// The version of this format; it grows when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// A setting that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its id, with the interface in brackets: `nic.rps-cpus[nw0]`.
    pub id: String,
    /// The value found.
    pub from: String,
    /// The value wanted.
    pub to: String,
}

/// What a setting does to one path or command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnSubject {
    /// The path or command.
    pub subject: String,
    /// Each of its figures.
    pub effects: Vec<Effect>,
}

impl OnSubject {
    /// The effect on a figure.
    #[must_use]
    pub fn effect(&self, figure: Figure) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.figure == figure)
    }
}

/// What a setting is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// The setting.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// On each path or command; those with too few pairs of runs are left out.
    pub on: Vec<OnSubject>,
    /// Why it was given up, if it was.
    pub failure: Option<String>,
}

impl Worth {
    /// All effects on all subjects.
    pub fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.on.iter().flat_map(|on| &on.effects)
    }

    /// Whether any figure of any subject shows an effect.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.effects().any(|effect| effect.verdict.is_effect())
    }

    /// What the median of a message gains at most on any path where that is sure, nanoseconds; negative where it only
    /// loses, `None` where nothing is sure.
    #[must_use]
    pub fn median_gain_ns(&self) -> Option<f64> {
        let of = self.effects().filter(|effect| effect.figure == Figure::P50Ns && effect.verdict.is_effect());
        of.map(|effect| -effect.change).reduce(f64::max)
    }

    /// Whether the noise hid what there may be everywhere.
    #[must_use]
    pub fn is_noise(&self) -> bool {
        self.effects().next().is_some() && self.effects().all(|effect| effect.verdict == Verdict::Noise)
    }
}

/// How far the effect of two settings together is from the sum of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Id of one.
    pub one: String,
    /// Id of the other.
    pub other: String,
    /// Both together, less the effect of either alone; on each path or command. `found` is the figure with neither.
    pub on: Vec<OnSubject>,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`FORMAT`].
    pub format: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Blocks of four runs of each setting.
    pub rounds: usize,
    /// The paths or commands.
    pub subjects: Vec<String>,
    /// Each setting, in the order in which they were given.
    pub settings: Vec<Worth>,
    /// Pairs that were looked at; empty where fewer than two settings were worth it.
    pub pairs: Vec<Pair>,
    /// What is to be known besides.
    pub notes: Vec<String>,
    /// Whether Ctrl-C ended it: what was measured until then is here.
    pub interrupted: bool,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
}

impl Measured {
    /// The settings as a reader wants them: the greatest gain first, then those without a sure effect on the median, losses
    /// last.
    #[must_use]
    pub fn by_gain(&self) -> Vec<&Worth> {
        let mut sorted: Vec<&Worth> = self.settings.iter().collect();
        let gain = |worth: &Worth| worth.median_gain_ns().unwrap_or(0.0);
        let rank = |worth: &Worth| (worth.failure.is_some(), !worth.has_effect() && gain(worth) == 0.0);
        sorted.sort_by(|one, other| gain(other).total_cmp(&gain(one)).then_with(|| rank(one).cmp(&rank(other))));
        sorted
    }
}

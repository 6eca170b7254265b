//! All trials of a search, by load, and the bounds that follow from them.

use super::classify::{self, Class, Seen, Target};
use super::{Goal, TrialRecord};
use crate::search::Outcome;

/// Relevant bounds of a goal (RFC 9971): the least load that is an upper bound, and the greatest lower bound below it.
///
/// Where there is no upper bound, `lower_fps` is the greatest lower bound, which RFC 9971 calls an effective one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bounds {
    pub(super) lower_fps: Option<f64>,
    pub(super) upper_fps: Option<f64>,
}

impl Bounds {
    /// Whether a load is above the lower and below the upper bound, so that to classify it moves one of them.
    pub(super) fn are_around(&self, fps: f64) -> bool {
        self.lower_fps.is_none_or(|lower_fps| fps > lower_fps) && self.upper_fps.is_none_or(|upper_fps| fps < upper_fps)
    }
}

#[derive(Debug)]
struct Load {
    rate_fps: f64,
    /// Numbers of its trials, in order.
    trials: Vec<usize>,
}

/// What was measured so far.
#[derive(Debug, Default)]
pub(super) struct Loads {
    trials: Vec<TrialRecord>,
    /// By rate, lowest first.
    loads: Vec<Load>,
}

impl Loads {
    /// Keeps a trial. One that only warms up belongs to no load.
    pub(super) fn add(&mut self, trial: TrialRecord) {
        if !trial.is_warm_up {
            let number = self.trials.len();
            match self.place_of(trial.rate_fps) {
                Ok(place) => self.loads[place].trials.push(number),
                Err(place) => self.loads.insert(place, Load { rate_fps: trial.rate_fps, trials: vec![number] }),
            }
        }
        self.trials.push(trial);
    }

    fn place_of(&self, rate_fps: f64) -> Result<usize, usize> {
        self.loads.binary_search_by(|load| load.rate_fps.total_cmp(&rate_fps))
    }

    pub(super) const fn count(&self) -> usize {
        self.trials.len()
    }

    pub(super) fn into_trials(self) -> Vec<TrialRecord> {
        self.trials
    }

    fn seen(&self, load: &Load, goal: usize) -> impl Iterator<Item = Seen> {
        load.trials.iter().map(move |&number| {
            let trial = &self.trials[number];
            let (is_good, loss_ratio) = (trial.is_good_for[goal], trial.outcome.loss_ratio());
            Seen { duration_ns: trial.duration_ns, is_good, loss_ratio }
        })
    }

    /// The bounds of the goal with this number.
    pub(super) fn bounds(&self, goal: usize, target: &Target) -> Bounds {
        let mut lower_fps = None;
        for load in &self.loads {
            match classify::classify(self.seen(load, goal), target) {
                Class::Lower => lower_fps = Some(load.rate_fps),
                Class::Upper => return Bounds { lower_fps, upper_fps: Some(load.rate_fps) },
                Class::Undecided => {}
            }
        }
        Bounds { lower_fps, upper_fps: None }
    }

    fn at(&self, rate_fps: f64) -> Option<&Load> {
        self.place_of(rate_fps).ok().map(|place| &self.loads[place])
    }

    /// Trials at a load.
    pub(super) fn outcomes(&self, rate_fps: f64) -> impl Iterator<Item = &TrialRecord> {
        let numbers = self.at(rate_fps).map_or(&[][..], |load| &load.trials);
        numbers.iter().map(|&number| &self.trials[number])
    }

    /// Whether the last trial at one load was made after the last at another.
    pub(super) fn is_newer(&self, rate_fps: f64, than_fps: f64) -> bool {
        let last_of = |fps| self.at(fps).and_then(|load| load.trials.last());
        last_of(rate_fps) > last_of(than_fps)
    }

    /// See [`classify::conditional_fps`].
    pub(super) fn conditional_fps(&self, rate_fps: f64, goal: usize, target: &Target) -> Option<f64> {
        let load = self.at(rate_fps)?;
        Some(classify::conditional_fps(rate_fps, self.seen(load, goal), target))
    }

    /// Whether most of the bad trials at a load, by their time, are the generator's fault.
    pub(super) fn is_generator_limited(&self, rate_fps: f64, number: usize, goal: &Goal) -> bool {
        let is_its_fault = |outcome: &Outcome| outcome.loss_ratio() > goal.loss_ratio && outcome.is_generator_limited();
        let (mut its_ns, mut bad_ns) = (0, 0);
        for trial in self.outcomes(rate_fps).filter(|trial| !trial.is_good_for[number]) {
            bad_ns += trial.duration_ns;
            its_ns += if is_its_fault(&trial.outcome) { trial.duration_ns } else { 0 };
        }
        its_ns > bad_ns / 2
    }
}

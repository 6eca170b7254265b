//! Multiple Loss Ratio search (RFC 9971, draft-ietf-bmwg-mlrsearch): several goals at once, on devices with noise.
//!
//! A load is not carried or refused by one trial, but by several, some of which may be bad. What trials say about a load
//! (`mlr/classify.rs`) is exactly as the RFC has it, so results can be compared with those of other programs; which loads are
//! tried (`mlr/choice.rs`) the RFC leaves open. In its words, this is the Controller, [`Testbed`] is the Measurer, and the caller
//! the Manager.
//!
//! The planned duration of a trial is its Trial Effective Duration. Frames that were due and were not sent are lost ones; where
//! they are most of the loss at an upper bound, the result is [`GoalResult::GeneratorLimited`].

mod choice;
mod classify;
mod goal;
mod loads;
#[cfg(test)]
mod tests;

pub use goal::{Goal, LatencyBound, Limits};

use self::choice::{LAST_LEVEL, Progress, Range};
use self::loads::{Bounds, Loads};
use super::outcome::latency_of_due_ns;
use super::{InputError, Outcome, Runner, SearchError};
use crate::trial::{Testbed, Trial};

/// One trial of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRecord {
    /// It was the first, which warms the device up and says nothing about a goal.
    pub is_warm_up: bool,
    /// What was offered; infinite where it was as much as the generator can.
    pub rate_fps: f64,
    /// For how long, as planned.
    pub duration_ns: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// For each goal, whether it kept the goal's loss ratio and latency bound. Of a warm-up: empty.
    pub is_good_for: Vec<bool>,
}

/// Why a search ended before all goals were reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// [`Limits::most_trials`] were made.
    Trials,
    /// A further trial would have taken longer than [`Limits::most_time_ns`].
    Time,
}

/// What was found for a goal (RFC 9971, Goal Result). Only [`GoalResult::Found`] is a regular one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GoalResult {
    /// The relevant bounds are as close as the goal wants.
    Found {
        /// Greatest load that is carried (Relevant Lower Bound).
        lower_fps: f64,
        /// Least load that is not (Relevant Upper Bound).
        upper_fps: f64,
        /// What is typically forwarded at the lower bound (Conditional Throughput).
        conditional_fps: f64,
    },
    /// Even the greatest load is carried. The device may carry more.
    AtLeast {
        /// The greatest load.
        most_fps: f64,
        /// What is typically forwarded at it.
        conditional_fps: f64,
    },
    /// Even the least load is not carried.
    NotAtLeast {
        /// The least load.
        least_fps: f64,
    },
    /// Above a load, the generator did not send what was due. The device may carry more; this is no figure of the device. The
    /// bounds are as close as the goal wants unless the search had to stop.
    GeneratorLimited {
        /// Greatest load that is carried; `None`: none that was tried.
        lower_fps: Option<f64>,
        /// Least load that the generator is too slow for. `None`: it could not even send the least load at its full rate.
        upper_fps: Option<f64>,
        /// What is typically forwarded at the lower bound.
        conditional_fps: Option<f64>,
    },
    /// The search ended before the bounds were close enough: an irregular result.
    NotConverged {
        /// Greatest load that is carried, of those below the upper bound; `None`: not known.
        lower_fps: Option<f64>,
        /// Least load that is not; `None`: not known.
        upper_fps: Option<f64>,
        /// What is typically forwarded at the lower bound.
        conditional_fps: Option<f64>,
        /// Why it ended.
        stop: Stop,
    },
}

impl GoalResult {
    /// The greatest load that is known to be carried.
    #[must_use]
    pub const fn carried_fps(&self) -> Option<f64> {
        match *self {
            GoalResult::Found { lower_fps, .. } => Some(lower_fps),
            GoalResult::AtLeast { most_fps, .. } => Some(most_fps),
            GoalResult::NotAtLeast { .. } => None,
            GoalResult::GeneratorLimited { lower_fps, .. } | GoalResult::NotConverged { lower_fps, .. } => lower_fps,
        }
    }
}

/// What came of a search (RFC 9971, Controller Output).
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// For each goal, in the order in which they were given.
    pub goals: Vec<GoalResult>,
    /// Greatest load that could be tried; `None` where the generator's first trial did not tell it.
    pub most_fps: Option<f64>,
    /// Time of all trials with their pauses, as planned.
    pub time_ns: u64,
    /// All trials, in order.
    pub trials: Vec<TrialRecord>,
}

/// Searches for all goals at once.
///
/// # Errors
/// A goal or a limit is not possible, or the test bed failed.
pub fn search<B: Testbed>(bed: &mut B, goals: &[Goal], limits: &Limits) -> Result<Search, SearchError<B::Error>> {
    limits.check()?;
    goals.iter().try_for_each(Goal::check)?;
    if goals.is_empty() {
        return Err(InputError::NoGoal.into());
    }
    Controller { runner: Runner::new(bed, limits.pauses), goals, limits, loads: Loads::default() }.run()
}

struct Controller<'a, B> {
    runner: Runner<'a, B>,
    goals: &'a [Goal],
    limits: &'a Limits,
    loads: Loads,
}

/// A trial, or why there is none.
type Made = Result<Trial, Stop>;

impl<B: Testbed> Controller<'_, B> {
    fn run(mut self) -> Result<Search, SearchError<B::Error>> {
        let sent_fps = match self.warm_up()? {
            Ok(warm_up) => warm_up.sent_fps(),
            Err(stop) => return Ok(self.finish(None, Some(stop))),
        };
        let most_fps = self.limits.most_fps.unwrap_or(sent_fps);
        if most_fps < self.limits.least_fps {
            return Ok(self.finish(None, None));
        }
        let range = Range { least_fps: self.limits.least_fps, most_fps };
        let stop = self.approach(&range)?;
        Ok(self.finish(Some(range), stop))
    }

    /// The first trial: what it shows of the device is ignored (RFC 9971, Consequences).
    fn warm_up(&mut self) -> Result<Made, SearchError<B::Error>> {
        let duration_ns = self.goals.iter().map(|goal| goal.initial_trial_ns).max().unwrap_or_default();
        let rate_fps = self.limits.most_fps.unwrap_or(f64::INFINITY);
        let made = self.trial(rate_fps, duration_ns)?;
        if let Ok(trial) = &made {
            let (outcome, is_good_for) = (Outcome::from(trial), Vec::new());
            self.loads.add(TrialRecord { is_warm_up: true, rate_fps, duration_ns, outcome, is_good_for });
        }
        Ok(made)
    }

    /// Makes trials until all goals are reached, or it must stop. Strict goals come first, since their loads are smaller.
    fn approach(&mut self, range: &Range) -> Result<Option<Stop>, SearchError<B::Error>> {
        let mut order: Vec<usize> = (0..self.goals.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.goals[a], &self.goals[b]);
            a.loss_ratio.total_cmp(&b.loss_ratio).then(a.latency.is_none().cmp(&b.latency.is_none()))
        });
        let mut progress: Vec<Progress> = order.iter().map(|&number| Progress::new(number)).collect();
        while let Some((rate_fps, duration_ns)) = self.next(&order, &mut progress, range) {
            let trial = match self.trial(rate_fps, duration_ns)? {
                Ok(trial) => trial,
                Err(stop) => return Ok(Some(stop)),
            };
            let is_good_for = self.goals.iter().map(|goal| is_good(&trial, goal)).collect();
            let outcome = Outcome::from(&trial);
            self.loads.add(TrialRecord { is_warm_up: false, rate_fps, duration_ns, outcome, is_good_for });
        }
        Ok(None)
    }

    /// Rate and duration of the next trial: for the goal that is furthest behind. A goal that was reached is looked at again, as
    /// a trial for another one may have moved its bounds.
    fn next(&self, order: &[usize], progress: &mut [Progress], range: &Range) -> Option<(f64, u64)> {
        for level in 0..=LAST_LEVEL {
            for (&number, progress) in order.iter().zip(&mut *progress) {
                if progress.level != level {
                    continue;
                }
                let goal = &self.goals[number];
                if let Some(rate_fps) = progress.next_fps(goal, &self.loads, range) {
                    return Some((rate_fps, choice::target(goal, level).trial_ns));
                }
                if level < LAST_LEVEL {
                    progress.rise();
                }
            }
        }
        None
    }

    fn trial(&mut self, rate_fps: f64, duration_ns: u64) -> Result<Made, SearchError<B::Error>> {
        if self.loads.count() >= self.limits.most_trials {
            return Ok(Err(Stop::Trials));
        }
        if self.runner.time_ns.saturating_add(self.runner.cost_ns(duration_ns)) > self.limits.most_time_ns {
            return Ok(Err(Stop::Time));
        }
        self.runner.steady(rate_fps, duration_ns).map(Ok)
    }

    fn finish(self, range: Option<Range>, stop: Option<Stop>) -> Search {
        let results =
            self.goals.iter().enumerate().map(|(number, goal)| self.result(number, goal, range.as_ref(), stop));
        Search {
            goals: results.collect(),
            most_fps: range.map(|range| range.most_fps),
            time_ns: self.runner.time_ns,
            trials: self.loads.into_trials(),
        }
    }

    fn result(&self, number: usize, goal: &Goal, range: Option<&Range>, stop: Option<Stop>) -> GoalResult {
        let target = choice::target(goal, LAST_LEVEL);
        let Bounds { lower_fps, upper_fps } = self.loads.bounds(number, &target);
        let conditional_fps = lower_fps.and_then(|fps| self.loads.conditional_fps(fps, number, &target));
        let bounds = Bounds { lower_fps, upper_fps };
        let is_settled = range.is_some_and(|range| choice::is_settled(&bounds, target.width, range));
        let is_generator_limited = |fps| self.loads.is_generator_limited(fps, number, goal);
        if upper_fps.is_some_and(is_generator_limited) {
            return GoalResult::GeneratorLimited { lower_fps, upper_fps, conditional_fps };
        }
        if let Some(stop) = stop.filter(|_| !is_settled) {
            return GoalResult::NotConverged { lower_fps, upper_fps, conditional_fps, stop };
        }
        match (lower_fps, upper_fps, conditional_fps) {
            (Some(most_fps), None, Some(conditional_fps)) => GoalResult::AtLeast { most_fps, conditional_fps },
            // The first trial showed that the generator is slower than the least load.
            (_, None, _) => GoalResult::GeneratorLimited { lower_fps, upper_fps, conditional_fps },
            (Some(lower_fps), Some(upper_fps), Some(conditional_fps)) => {
                GoalResult::Found { lower_fps, upper_fps, conditional_fps }
            }
            _ => GoalResult::NotAtLeast { least_fps: self.limits.least_fps },
        }
    }
}

/// Whether a trial kept a goal's loss ratio and latency bound.
fn is_good(trial: &Trial, goal: &Goal) -> bool {
    let keeps_latency = goal.latency.is_none_or(|bound| {
        latency_of_due_ns(trial, bound.percentile).is_some_and(|latency_ns| latency_ns <= bound.at_most_ns)
    });
    keeps_latency && Outcome::from(trial).loss_ratio() <= goal.loss_ratio
}

//! Searches, and what they found in the terms of records.

use nearwire_report::dataplane::record;
use nearwire_report::dataplane::record::{BackToBack, LatencyBound, LossAt, State, Throughput};

use crate::bed::{Bed, BedError};
use crate::search::mlr::{self, GoalResult};
use crate::search::rfc2544::{self, BackToBackConfig, FrameLossConfig, ThroughputConfig};
use crate::search::{Outcome, Pauses, SearchError};
use crate::trial::{Testbed, TrialPlan};

/// A device that does not carry so much carries nothing.
pub(super) const LEAST_FPS: f64 = 1000.0;
/// Waits around short trials. A trial ends as soon as all frames came, so only one with loss waits.
pub(super) const PAUSES: Pauses = Pauses { residual_ns: 20_000_000, settle_ns: 0 };
/// Name of the only goal of RFC 2544.
const ZERO_LOSS: &str = "no loss";

/// What a device has to keep to, with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// As in `NDR`.
    pub name: String,
    /// To what.
    pub goal: mlr::Goal,
}

impl Goal {
    /// As records have it.
    pub(super) fn record(&self) -> record::Goal {
        let goal = &self.goal;
        record::Goal {
            name: self.name.clone(),
            loss_ratio: goal.loss_ratio,
            latency: goal
                .latency
                .map(|bound| LatencyBound { percentile: bound.percentile, at_most_ns: bound.at_most_ns }),
            initial_trial_ns: goal.initial_trial_ns,
            final_trial_ns: goal.final_trial_ns,
            duration_sum_ns: goal.duration_sum_ns,
            exceed_ratio: goal.exceed_ratio,
            width: goal.width,
        }
    }
}

/// Times of RFC 2544, which may be shorter than the RFC has them: a record says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rfc2544Times {
    /// A trial that confirms: 60 s.
    pub trial_ns: u64,
    /// Waits after each trial.
    pub pauses: Pauses,
    /// Repetitions of the search for back-to-back frames: 50.
    pub repetitions: u32,
}

impl Rfc2544Times {
    /// As in the RFC.
    pub const STRICT: Rfc2544Times = Rfc2544Times { trial_ns: 60_000_000_000, pauses: Pauses::STRICT, repetitions: 50 };

    /// In the terms of a search for one goal.
    pub(super) fn goal(&self) -> Goal {
        let mut goal = mlr::Goal::rfc2544(self.search_trial_ns(), 0.001);
        goal.final_trial_ns = self.trial_ns;
        goal.duration_sum_ns = self.trial_ns;
        Goal { name: ZERO_LOSS.to_owned(), goal }
    }

    const fn search_trial_ns(&self) -> u64 {
        if self.trial_ns > 60_000_000 { self.trial_ns / 6 } else { self.trial_ns }
    }
}

/// What a search of either kind found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) throughput: Vec<Throughput>,
    /// Rate of the last goal that is carried.
    pub(super) carried_fps: Option<f64>,
    pub(super) frame_loss: Vec<LossAt>,
    pub(super) back_to_back: Option<BackToBack>,
    pub(super) trials: Vec<record::Trial>,
}

/// Searches for all goals at once.
pub(super) fn mlr_search(bed: &mut Bed, goals: &[Goal], limits: &mlr::Limits) -> Result<Found, SearchError<BedError>> {
    let plain: Vec<mlr::Goal> = goals.iter().map(|goal| goal.goal).collect();
    let search = mlr::search(bed, &plain, limits)?;
    Ok(Found {
        throughput: goals.iter().zip(&search.goals).map(|(goal, result)| throughput(&goal.name, result)).collect(),
        carried_fps: search.goals.last().and_then(GoalResult::carried_fps),
        trials: search.trials.iter().map(|made| trial(made.rate_fps, &made.outcome)).collect(),
        ..Found::default()
    })
}

fn throughput(goal: &str, result: &GoalResult) -> Throughput {
    let (state, lower_fps, upper_fps, conditional_fps) = match *result {
        GoalResult::Found { lower_fps, upper_fps, conditional_fps } => {
            (State::Found, Some(lower_fps), Some(upper_fps), Some(conditional_fps))
        }
        // The greatest load is what the generator sent at its full rate: it is the generator's limit.
        GoalResult::AtLeast { most_fps, conditional_fps } => {
            (State::GeneratorLimited, Some(most_fps), None, Some(conditional_fps))
        }
        GoalResult::NotAtLeast { least_fps } => (State::Lossy, None, Some(least_fps), None),
        GoalResult::GeneratorLimited { lower_fps, upper_fps, conditional_fps } => {
            (State::GeneratorLimited, lower_fps, upper_fps, conditional_fps)
        }
        GoalResult::NotConverged { lower_fps, upper_fps, conditional_fps, .. } => {
            (State::NotConverged, lower_fps, upper_fps, conditional_fps)
        }
    };
    Throughput { goal: goal.to_owned(), state, lower_fps, upper_fps, conditional_fps }
}

/// The benchmarks of RFC 2544 that need nothing but frames: throughput, frame loss rate, and back-to-back frames where the device carries
/// less than the generator sends.
pub(super) fn rfc2544(bed: &mut Bed, times: &Rfc2544Times) -> Result<Found, SearchError<BedError>> {
    let full = TrialPlan::steady(f64::INFINITY, times.search_trial_ns(), times.pauses.residual_ns);
    let most_fps = bed.trial(full).map_err(SearchError::Testbed)?.sent_fps().max(LEAST_FPS);
    let config = ThroughputConfig {
        search_trial_ns: times.search_trial_ns(),
        trial_ns: times.trial_ns,
        pauses: times.pauses,
        ..ThroughputConfig::strict(LEAST_FPS, most_fps)
    };
    let found = rfc2544::throughput(bed, &config)?;
    let loss = FrameLossConfig { trial_ns: times.trial_ns, pauses: times.pauses, ..FrameLossConfig::strict(most_fps) };
    let loss = rfc2544::frame_loss(bed, &loss)?;
    let carried_fps = found.throughput.confirmed_fps();
    let waits = carried_fps.filter(|carried_fps| *carried_fps < 0.98 * most_fps);
    let back_to_back = waits.map(|carried_fps| bursts(bed, times, most_fps, carried_fps)).transpose()?;
    Ok(Found {
        throughput: vec![zero_loss(&found.throughput)],
        carried_fps,
        frame_loss: loss
            .points
            .iter()
            .filter_map(|point| Some(LossAt { rate_fps: point.rate_fps, loss_ratio: point.loss_percent? / 100.0 }))
            .collect(),
        back_to_back,
        trials: found.trials.iter().map(|made| trial(made.rate_fps, &made.outcome)).collect(),
    })
}

fn zero_loss(found: &rfc2544::Throughput) -> Throughput {
    use rfc2544::Throughput as Result;
    let (state, lower_fps, upper_fps) = match *found {
        Result::Found { rate_fps, lossy_fps } => (State::Found, Some(rate_fps), Some(lossy_fps)),
        // As above.
        Result::AtLeast { most_fps } => (State::GeneratorLimited, Some(most_fps), None),
        Result::NotAtLeast { least_fps } => (State::Lossy, None, Some(least_fps)),
        Result::GeneratorLimited { rate_fps, lossy_fps } => (State::GeneratorLimited, rate_fps, Some(lossy_fps)),
        Result::NotConverged { lossless_fps, lossy_fps } => (State::NotConverged, lossless_fps, lossy_fps),
    };
    Throughput { goal: ZERO_LOSS.to_owned(), state, lower_fps, upper_fps, conditional_fps: lower_fps }
}

fn bursts(
    bed: &mut Bed,
    times: &Rfc2544Times,
    line_fps: f64,
    throughput_fps: f64,
) -> Result<BackToBack, SearchError<BedError>> {
    let strict = BackToBackConfig::strict(Some(line_fps), throughput_fps);
    let config = BackToBackConfig {
        most_burst_ns: strict.most_burst_ns.min(times.trial_ns),
        repetitions: times.repetitions,
        pauses: times.pauses,
        ..strict
    };
    let found = rfc2544::back_to_back(bed, &config)?;
    Ok(BackToBack {
        repetitions: times.repetitions,
        mean_frames: found.frames.mean,
        least_frames: found.frames.least as u64,
        most_frames: found.frames.greatest as u64,
        deviation_frames: found.frames.standard_deviation.unwrap_or(0.0),
        buffer_ns: Some(found.corrected_buffer_ns),
    })
}

fn trial(rate_fps: f64, outcome: &Outcome) -> record::Trial {
    record::Trial {
        rate_fps: rate_fps.is_finite().then_some(rate_fps),
        duration_ns: outcome.duration_ns,
        sent_frames: outcome.sent_frames,
        unsent_frames: outcome.unsent_frames,
        received_frames: outcome.received_frames,
        duplicated_frames: outcome.duplicated_frames,
        reordered_frames: outcome.reordered_frames,
        corrupted_frames: outcome.corrupted_frames,
        p50_ns: outcome.latency.p50_ns.map(|ns| ns as f64),
        p99_ns: outcome.latency.p99_ns.map(|ns| ns as f64),
    }
}

//! What a search is to find, and how far it may go.

use crate::search::{InputError, Pauses, SECOND_NS};

/// A latency that frames must not exceed. A trial in which they do is as bad as one that loses too much.
///
/// In a trial with too few frames for the percentile, the greatest latency must not exceed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyBound {
    /// Which percentile of all frames that were due, in percent; frames that are missing are the slowest.
    pub percentile: f64,
    /// What it may be at most.
    pub at_most_ns: u64,
}

/// What a load must fulfil (RFC 9971, Search Goal).
///
/// All goals of a search should have the same final trial duration and duration sum: with that, a goal that allows more loss is
/// never below one that allows less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Greatest loss of a good trial, as a part of all frames due: 0 to below 1 (Goal Loss Ratio).
    pub loss_ratio: f64,
    /// A good trial must keep this as well. Not in RFC 9971.
    pub latency: Option<LatencyBound>,
    /// Length of the first trials (Goal Initial Trial Duration).
    pub initial_trial_ns: u64,
    /// Length of a trial that can show that a load is carried (Goal Final Trial Duration).
    pub final_trial_ns: u64,
    /// Trials of so long together decide a load (Goal Duration Sum).
    pub duration_sum_ns: u64,
    /// Greatest part of the duration sum that bad trials may have at a load that is carried: 0 to below 1 (Goal Exceed Ratio).
    pub exceed_ratio: f64,
    /// How close the bounds must be: their difference as a part of the upper one, above 0 and below 1 (Goal Width).
    pub width: f64,
}

impl Goal {
    /// Trials at a load, as FD.io CSIT measures: 21 of the same length.
    const CSIT_TRIALS: u64 = 21;

    /// No loss at all, with the values of FD.io CSIT for trials of 1 s scaled to `trial_ns`: 21 trials at a load, half of which
    /// may be bad, and bounds within 0.5 %.
    #[must_use]
    pub const fn ndr(trial_ns: u64) -> Goal {
        Goal {
            loss_ratio: 0.0,
            latency: None,
            initial_trial_ns: trial_ns,
            final_trial_ns: trial_ns,
            duration_sum_ns: trial_ns.saturating_mul(Goal::CSIT_TRIALS),
            exceed_ratio: 0.5,
            width: 0.005,
        }
    }

    /// As [`Goal::ndr`], with a loss of at most 0.5 %.
    #[must_use]
    pub const fn pdr(trial_ns: u64) -> Goal {
        Goal { loss_ratio: 0.005, ..Goal::ndr(trial_ns) }
    }

    /// What makes the result RFC 2544 throughput (RFC 9971, MLRsearch Compliant with RFC 2544): one trial of 60 s without
    /// loss, after short ones of `initial_trial_ns`.
    #[must_use]
    pub const fn rfc2544(initial_trial_ns: u64, width: f64) -> Goal {
        let final_trial_ns = 60 * SECOND_NS;
        Goal {
            loss_ratio: 0.0,
            latency: None,
            initial_trial_ns,
            final_trial_ns,
            duration_sum_ns: final_trial_ns,
            exceed_ratio: 0.0,
            width,
        }
    }

    pub(super) fn check(&self) -> Result<(), InputError> {
        let is_part = |value: f64| (0.0..1.0).contains(&value);
        InputError::unless(is_part(self.loss_ratio), "the loss ratio", self.loss_ratio, "from 0 to below 1")?;
        InputError::unless(is_part(self.exceed_ratio), "the exceed ratio", self.exceed_ratio, "from 0 to below 1")?;
        let is_width = is_part(self.width) && self.width >= WIDTH_LEAST;
        InputError::unless(is_width, "the width", self.width, "from 0.000001 to below 1")?;
        if let Some(LatencyBound { percentile, .. }) = self.latency {
            let is_percentile = percentile > 0.0 && percentile < 100.0;
            InputError::unless(is_percentile, "the percentile", percentile, "above 0 and below 100")?;
        }
        let [initial_ns, final_ns, sum_ns] =
            [self.initial_trial_ns, self.final_trial_ns, self.duration_sum_ns].map(|ns| ns as f64);
        InputError::unless(initial_ns > 0.0, "the initial trial duration", initial_ns, "above 0 ns")?;
        InputError::unless_ordered(("the initial trial duration", initial_ns), ("the final one", final_ns))?;
        InputError::unless_ordered(("the final trial duration", final_ns), ("the duration sum", sum_ns))
    }
}

/// Bounds are not told apart more finely.
const WIDTH_LEAST: f64 = 1e-6;

/// How far a search may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Least load to try (RFC 9971, Min Load). Such that even the shortest trial sends a frame.
    pub least_fps: f64,
    /// Greatest load to try (RFC 9971, Max Load). `None`: what the generator sends in the first trial, at an infinite rate.
    pub most_fps: Option<f64>,
    /// Trials, with the first, which warms the device up.
    pub most_trials: usize,
    /// Time of all trials together with their pauses, as planned.
    pub most_time_ns: u64,
    /// Waits after each trial.
    pub pauses: Pauses,
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), InputError> {
        let is_rate = |fps: f64| fps > 0.0 && fps.is_finite();
        InputError::unless(is_rate(self.least_fps), "the least rate", self.least_fps, "above 0 fps and finite")?;
        let Some(most_fps) = self.most_fps else { return Ok(()) };
        InputError::unless(is_rate(most_fps), "the greatest rate", most_fps, "above 0 fps and finite")?;
        InputError::unless_ordered(("the least rate", self.least_fps), ("the greatest", most_fps))
    }
}

//! Latency at a rate (RFC 2544 section 26.2).

use super::{Spread, check_rate, check_some};
use crate::search::{LatencySummary, Outcome, Pauses, Runner, SECOND_NS, SearchError};
use crate::trial::{Latencies, Testbed};

/// How latency is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyConfig {
    /// The rate: the throughput that was found before.
    pub rate_fps: f64,
    /// Trials, whose means are averaged: at least 20.
    pub repetitions: u32,
    /// Length of each: at least 120 s.
    pub trial_ns: u64,
    /// Waits after each trial (section 23).
    pub pauses: Pauses,
}

impl LatencyConfig {
    /// The values of the RFC.
    #[must_use]
    pub const fn strict(rate_fps: f64) -> LatencyConfig {
        LatencyConfig { rate_fps, repetitions: 20, trial_ns: 120 * SECOND_NS, pauses: Pauses::STRICT }
    }
}

/// One repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTrial {
    /// What came of it, with its latencies.
    pub outcome: Outcome,
    /// The mean of its latencies; `None` if no frame came back.
    pub mean_ns: Option<f64>,
}

/// Latency at a rate.
///
/// The RFC has one frame tagged after 60 s, and reports the mean of what 20 such frames took. Here every frame is measured, and a
/// trial's value is their mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// At which rate.
    pub rate_fps: f64,
    /// The trials' means: the reported value is the mean of them. `None` if no frame came back in any.
    pub mean_ns: Option<Spread>,
    /// Over the frames of all trials together.
    pub all: LatencySummary,
    /// Frames that were due and did not come back, in all trials. At the throughput none should be.
    pub missing_frames: u64,
    /// Each trial.
    pub trials: Vec<LatencyTrial>,
    /// Time of all trials with their pauses, as planned.
    pub time_ns: u64,
}

/// Measures latency at a rate, by repeated trials.
///
/// # Errors
/// A value is not possible, or the test bed failed.
pub fn latency<B: Testbed>(bed: &mut B, config: &LatencyConfig) -> Result<Latency, SearchError<B::Error>> {
    check_rate("the rate", config.rate_fps)?;
    check_some("the number of repetitions", config.repetitions.into())?;
    check_some("the length of a trial", config.trial_ns)?;
    let mut runner = Runner::new(bed, config.pauses);
    let mut all = Latencies::default();
    let mut trials = Vec::new();
    for _ in 0..config.repetitions {
        let trial = runner.steady(config.rate_fps, config.trial_ns)?;
        all.merge(&trial.latency);
        let outcome = Outcome::from(&trial);
        trials.push(LatencyTrial { outcome, mean_ns: outcome.latency.mean_ns });
    }
    let means: Vec<f64> = trials.iter().filter_map(|trial| trial.mean_ns).collect();
    Ok(Latency {
        rate_fps: config.rate_fps,
        mean_ns: Spread::of(&means),
        all: LatencySummary::from(&all),
        missing_frames: trials.iter().map(|trial| trial.outcome.missing_frames()).sum(),
        trials,
        time_ns: runner.time_ns,
    })
}

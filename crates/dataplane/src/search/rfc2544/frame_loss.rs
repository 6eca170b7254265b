//! Frame loss rate (RFC 2544 section 26.3): which part of the frames is lost at each rate.

use super::{check_rate, check_some};
use crate::search::{InputError, Outcome, Pauses, Runner, SECOND_NS, SearchError};
use crate::trial::Testbed;

/// How the frame loss rate is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameLossConfig {
    /// The first rate: the maximum frame rate of the medium at this frame size (section 20).
    pub most_fps: f64,
    /// How far apart rates are, as a part of the first: at most 0.1.
    pub step: f64,
    /// Length of a trial: at least 60 s (section 24).
    pub trial_ns: u64,
    /// Waits after each trial (section 23).
    pub pauses: Pauses,
}

impl FrameLossConfig {
    /// The values of the RFC.
    #[must_use]
    pub const fn strict(most_fps: f64) -> FrameLossConfig {
        FrameLossConfig { most_fps, step: 0.1, trial_ns: 60 * SECOND_NS, pauses: Pauses::STRICT }
    }
}

/// Loss at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossPoint {
    /// What was offered.
    pub rate_fps: f64,
    /// The same as a part of the first rate, in percent.
    pub of_most_percent: f64,
    /// Of the frames that were sent, how many did not come back, in percent; `None` if none was sent.
    pub loss_percent: Option<f64>,
    /// Frames were due that were not sent: the loss is that at a lower rate than was asked for.
    pub is_generator_limited: bool,
    /// What came of the trial.
    pub outcome: Outcome,
}

/// Loss at each rate.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameLoss {
    /// From the greatest rate downwards.
    pub points: Vec<LossPoint>,
    /// The last two trials lost nothing, so the measurement ended as it should; if not, there was no lower rate left.
    pub ended_lossless: bool,
    /// Time of all trials with their pauses, as planned.
    pub time_ns: u64,
}

/// Tries rates from the greatest downwards until two trials in succession lose nothing.
///
/// # Errors
/// A value is not possible, or the test bed failed.
pub fn frame_loss<B: Testbed>(bed: &mut B, config: &FrameLossConfig) -> Result<FrameLoss, SearchError<B::Error>> {
    check_rate("the greatest rate", config.most_fps)?;
    let is_step = (0.001..=0.1).contains(&config.step);
    InputError::unless(is_step, "the step", config.step, "from 0.001 to 0.1 of the greatest rate")?;
    check_some("the length of a trial", config.trial_ns)?;
    let mut runner = Runner::new(bed, config.pauses);
    let mut points: Vec<LossPoint> = Vec::new();
    // Parts that are not exact in binary may leave a tiny rest, which is no rate.
    let parts = (0..).map(|number| 1.0 - f64::from(number) * config.step).take_while(|&part| part > config.step / 2.0);
    for part in parts {
        let rate_fps = config.most_fps * part;
        let outcome = Outcome::from(&runner.steady(rate_fps, config.trial_ns)?);
        points.push(point(rate_fps, part, outcome));
        if ends_lossless(&points) {
            break;
        }
    }
    Ok(FrameLoss { ended_lossless: ends_lossless(&points), points, time_ns: runner.time_ns })
}

fn point(rate_fps: f64, part: f64, outcome: Outcome) -> LossPoint {
    let lost_frames = outcome.sent_frames.saturating_sub(outcome.received_frames);
    let loss_percent = (outcome.sent_frames > 0).then(|| lost_frames as f64 * 100.0 / outcome.sent_frames as f64);
    let is_generator_limited = outcome.unsent_frames > 0;
    LossPoint { rate_fps, of_most_percent: part * 100.0, loss_percent, is_generator_limited, outcome }
}

fn ends_lossless(points: &[LossPoint]) -> bool {
    matches!(points, [.., last_but_one, last] if last_but_one.outcome.is_lossless() && last.outcome.is_lossless())
}

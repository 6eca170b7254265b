//! What is kept of a trial, and how its loss is counted.

use crate::trial::{Latencies, Trial};

/// Latencies of a trial, without their histogram. `None`: there were too few frames to tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencySummary {
    /// The least.
    pub least_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<f64>,
    /// Half of the frames took no longer.
    pub p50_ns: Option<u64>,
    /// 90 % of the frames took no longer.
    pub p90_ns: Option<u64>,
    /// 99 % of the frames took no longer.
    pub p99_ns: Option<u64>,
    /// 99.9 % of the frames took no longer.
    pub p999_ns: Option<u64>,
    /// The greatest.
    pub greatest_ns: Option<u64>,
}

impl From<&Latencies> for LatencySummary {
    fn from(latencies: &Latencies) -> LatencySummary {
        LatencySummary {
            least_ns: latencies.least_ns(),
            mean_ns: latencies.mean_ns(),
            p50_ns: latencies.percentile_ns(50.0),
            p90_ns: latencies.percentile_ns(90.0),
            p99_ns: latencies.percentile_ns(99.0),
            p999_ns: latencies.percentile_ns(99.9),
            greatest_ns: latencies.greatest_ns(),
        }
    }
}

/// What came of a trial: all of [`Trial`] but the histogram, so small that a search keeps one for each trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// For how long frames were offered.
    pub duration_ns: u64,
    /// Frames that were due and were sent.
    pub sent_frames: u64,
    /// Frames that were due and were not sent.
    pub unsent_frames: u64,
    /// Frames that came back, each counted once.
    pub received_frames: u64,
    /// Frames that came again.
    pub duplicated_frames: u64,
    /// Frames that came behind one that was sent later.
    pub reordered_frames: u64,
    /// Frames whose content is not as it was sent.
    pub corrupted_frames: u64,
    /// From when frames were due to when the sink had them.
    pub latency: LatencySummary,
}

impl From<&Trial> for Outcome {
    fn from(trial: &Trial) -> Outcome {
        Outcome {
            duration_ns: trial.duration_ns,
            sent_frames: trial.sent_frames,
            unsent_frames: trial.unsent_frames,
            received_frames: trial.received_frames,
            duplicated_frames: trial.duplicated_frames,
            reordered_frames: trial.reordered_frames,
            corrupted_frames: trial.corrupted_frames,
            latency: LatencySummary::from(&trial.latency),
        }
    }
}

impl Outcome {
    /// Frames that were to be forwarded: sent or not.
    #[must_use]
    pub const fn due_frames(&self) -> u64 {
        self.sent_frames.saturating_add(self.unsent_frames)
    }

    /// Frames that were due and did not come back, whether the generator or the device failed them.
    #[must_use]
    pub const fn missing_frames(&self) -> u64 {
        self.due_frames().saturating_sub(self.received_frames)
    }

    /// Of the frames that were due, how many did not come back, 0 to 1 (RFC 9971, Trial Loss Ratio). 1 if none was due:
    /// nothing was shown to pass.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        match self.due_frames() {
            0 => 1.0,
            due_frames => self.missing_frames() as f64 / due_frames as f64,
        }
    }

    /// Whether frames were due, and each of them came back.
    #[must_use]
    pub const fn is_lossless(&self) -> bool {
        self.due_frames() > 0 && self.missing_frames() == 0
    }

    /// Whether the generator is to blame for most of the loss.
    #[must_use]
    pub const fn is_generator_limited(&self) -> bool {
        self.unsent_frames > self.missing_frames() / 2
    }
}

/// The latency that `percent` of all frames that were due do not exceed. A frame that did not come back is slower than any
/// other. `None`: so many are missing, or none was measured.
///
/// Where too few frames support the percentile it is the greatest latency, which is not below it.
pub(crate) fn latency_of_due_ns(trial: &Trial, percent: f64) -> Option<u64> {
    let due_frames = trial.sent_frames.saturating_add(trial.unsent_frames);
    let percent_of_received = percent * due_frames as f64 / trial.received_frames.max(1) as f64;
    if percent_of_received > 100.0 {
        return None;
    }
    trial.latency.percentile_ns(percent_of_received).or_else(|| trial.latency.greatest_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(sent_frames: u64, unsent_frames: u64, received_frames: u64) -> Trial {
        let mut trial = Trial { sent_frames, unsent_frames, received_frames, ..Trial::default() };
        (0..received_frames).for_each(|frame| trial.latency.record(1000 + frame));
        trial
    }

    #[test]
    fn frames_that_were_not_sent_count_as_lost() {
        let outcome = Outcome::from(&trial(90, 10, 85));
        assert_eq!((outcome.due_frames(), outcome.missing_frames()), (100, 15));
        assert!((outcome.loss_ratio() - 0.15).abs() < 1e-12);
        assert!(outcome.is_generator_limited() && !outcome.is_lossless());
        assert!(!Outcome::from(&trial(90, 10, 80)).is_generator_limited());
    }

    #[test]
    fn trial_without_a_frame_shows_nothing() {
        let outcome = Outcome::from(&Trial::default());
        assert!(!outcome.is_lossless() && !outcome.is_generator_limited());
        assert!((outcome.loss_ratio() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn missing_frames_are_the_slowest_ones() {
        assert_eq!(latency_of_due_ns(&trial(1000, 0, 1000), 50.0), Some(1499));
        // Half of all is five ninths of those that came.
        assert_eq!(latency_of_due_ns(&trial(1000, 0, 900), 50.0), Some(1499));
        assert_eq!(latency_of_due_ns(&trial(1000, 0, 900), 95.0), None);
    }

    #[test]
    fn percentile_without_support_is_the_greatest_latency() {
        assert_eq!(latency_of_due_ns(&trial(100, 0, 100), 99.0), Some(1099));
        assert_eq!(latency_of_due_ns(&Trial::default(), 99.0), None);
    }
}

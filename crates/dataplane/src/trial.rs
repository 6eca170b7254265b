//! One trial: frames are offered at a rate for a time, and what came out of the device is counted.
//!
//! RFC 2544 section 23 has the words: a trial, the offered load, the frames that were forwarded.

use std::fmt;

use hdrhistogram::Histogram;

/// Longest latency that is told apart; a longer one counts as this long.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of latencies: they are kept to 0.1 %.
const DIGITS: u8 = 3;

/// What a trial is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPlan {
    /// Frames a second to offer. [`f64::INFINITY`]: as many as the generator can; no frame is unsent then.
    pub rate_fps: f64,
    /// For how long. For a burst: the longest time that sending it may take; what is not sent by then is unsent.
    pub duration_ns: u64,
    /// A burst: exactly so many frames are offered at the rate, and the trial ends with the last. `None`: as many as the
    /// rate gives in the time.
    pub frames: Option<u64>,
    /// For how long to wait, after the last frame was sent, for frames that are still on their way
    /// (RFC 2544 section 23, step d). Frames that come within this time are received frames.
    pub residual_ns: u64,
}

impl TrialPlan {
    /// Frames at a steady rate for a time.
    #[must_use]
    pub const fn steady(rate_fps: f64, duration_ns: u64, residual_ns: u64) -> TrialPlan {
        TrialPlan { rate_fps, duration_ns, frames: None, residual_ns }
    }

    /// So many frames, as fast as the generator can, within `most_ns` (RFC 2544 section 26.4).
    #[must_use]
    pub const fn burst(frames: u64, most_ns: u64, residual_ns: u64) -> TrialPlan {
        TrialPlan { rate_fps: f64::INFINITY, duration_ns: most_ns, frames: Some(frames), residual_ns }
    }
}

/// What came of a trial.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// For how long frames were offered.
    pub duration_ns: u64,
    /// Frames that were due in this time and were sent.
    pub sent_frames: u64,
    /// Frames that were due and were not sent: the generator, or the port it sends by, was too slow.
    pub unsent_frames: u64,
    /// Frames that came back, each counted once.
    pub received_frames: u64,
    /// Frames that came again.
    pub duplicated_frames: u64,
    /// Frames that came behind one that was sent later.
    pub reordered_frames: u64,
    /// Frames whose content is not as it was sent.
    pub corrupted_frames: u64,
    /// Frames that came and were sent by an earlier trial.
    pub stale_frames: u64,
    /// Frames that are not of the generator's traffic.
    pub foreign_frames: u64,
    /// From when a frame was due to when the sink had it.
    pub latency: Latencies,
    /// By how much the latency of a frame differs from that of the frame that came before it (RFC 3393, IPDV without its sign).
    pub delay_variation: Latencies,
}

impl Trial {
    /// Frames that were sent and did not come back.
    #[must_use]
    pub const fn lost_frames(&self) -> u64 {
        self.sent_frames.saturating_sub(self.received_frames)
    }

    /// Of the frames that were sent, how many did not come back; 0 if none was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.sent_frames == 0 { 0.0 } else { self.lost_frames() as f64 / self.sent_frames as f64 }
    }

    /// Frames a second that were sent.
    #[must_use]
    pub fn sent_fps(&self) -> f64 {
        per_second(self.sent_frames, self.duration_ns)
    }

    /// Frames a second that came back.
    #[must_use]
    pub fn received_fps(&self) -> f64 {
        per_second(self.received_frames, self.duration_ns)
    }
}

fn per_second(frames: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { frames as f64 * 1e9 / duration_ns as f64 }
}

/// Latencies in constant memory.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?} to {:?} ns", self.count(), self.least_ns(), self.greatest_ns())
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("bounds and digits are constants that hdrhistogram accepts");
        Latencies { histogram }
    }
}

impl Latencies {
    /// Keeps one.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns.max(1));
    }

    /// Keeps all that others kept as well.
    pub fn merge(&mut self, others: &Latencies) {
        // Fails only where the bounds differ, and they are the same constants.
        let merged = self.histogram.add(&others.histogram);
        debug_assert!(merged.is_ok(), "histograms have the same bounds");
    }

    /// How many were kept.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that `percent` of them do not exceed; `None` where fewer than ten lie above it.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        const SUPPORT: f64 = 10.0;
        let above = self.count() as f64 * (1.0 - percent / 100.0);
        // A thousandth of a sample: percents are not exact in binary.
        (above + 1e-3 >= SUPPORT).then(|| self.histogram.value_at_percentile(percent))
    }

    /// The least.
    #[must_use]
    pub fn least_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.min())
    }

    /// The greatest.
    #[must_use]
    pub fn greatest_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.max())
    }

    /// The mean.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.mean())
    }
}

/// A device under test with its generator and sink: something that trials can be made of.
pub trait Testbed {
    /// Why a trial failed for good, as an interface that went down.
    type Error;

    /// Makes one trial, and waits afterwards ([`TrialPlan::residual_ns`]) for frames that are still on their way.
    ///
    /// # Errors
    /// The test bed failed; loss is no error.
    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Self::Error>;

    /// Offers nothing for a time, so that the device comes to rest (RFC 2544 section 23, step e). A search calls this after
    /// each trial; it does not wait itself. A test bed without time returns at once.
    ///
    /// # Errors
    /// The test bed failed.
    fn pause(&mut self, duration_ns: u64) -> Result<(), Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_with_loss_tells_its_ratio_and_rates() {
        let trial = Trial { duration_ns: 500_000_000, sent_frames: 1000, received_frames: 990, ..Trial::default() };
        assert_eq!(trial.lost_frames(), 10);
        assert!((trial.loss_ratio() - 0.01).abs() < 1e-12);
        assert!((trial.sent_fps() - 2000.0).abs() < 1e-9 && (trial.received_fps() - 1980.0).abs() < 1e-9);
    }

    #[test]
    fn trial_without_a_frame_has_no_loss() {
        assert!(Trial::default().loss_ratio().abs() < f64::EPSILON);
    }

    #[test]
    fn latencies_merged_count_both() {
        let (mut all, mut more) = (Latencies::default(), Latencies::default());
        all.record(10);
        more.record(30);
        all.merge(&more);
        assert_eq!((all.count(), all.least_ns(), all.greatest_ns()), (2, Some(10), Some(30)));
    }

    #[test]
    fn percentile_that_few_samples_support_is_none() {
        let mut latencies = Latencies::default();
        (0..1000).for_each(|_| latencies.record(700));
        assert_eq!(latencies.percentile_ns(99.0), Some(700));
        assert_eq!(latencies.percentile_ns(99.9), None);
        assert_eq!((latencies.least_ns(), latencies.greatest_ns()), (Some(700), Some(700)));
    }
}

//! Back-to-back frames (RFC 2544 section 26.4, updated by RFC 9004): the longest burst at full rate that loses no frame, and how
//! long the device's buffer holds frames, which follows from it.

use super::{Spread, check_rate, check_some};
use crate::search::{InputError, Outcome, Pauses, Runner, SECOND_NS, SearchError};
use crate::trial::Testbed;

/// How bursts are searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackToBackConfig {
    /// Greatest frame rate of the medium at this frame size. `None`: what the generator sends at full rate, measured by a first
    /// trial.
    pub line_fps: Option<f64>,
    /// Throughput at this frame size. It must be below the line rate: otherwise no frame waits (RFC 9004 section 5.1).
    pub throughput_fps: f64,
    /// Longest burst to try, as time at line rate. At least 2 s; RFC 9004 section 5.2 wants up to 30 s to be possible.
    pub most_burst_ns: u64,
    /// How close the longest burst without loss and the shortest with loss must be.
    pub resolution_frames: u64,
    /// How often a burst with loss is tried again before it counts (RFC 9004 section 5.2 refers to ETSI TST009 section 12.3.3,
    /// binary search with loss verification).
    pub verifications: u32,
    /// Searches, whose results are averaged: at least 50.
    pub repetitions: u32,
    /// Waits after each burst: at least 2 s until buffers are empty.
    pub pauses: Pauses,
}

impl BackToBackConfig {
    /// The values of the RFCs, which name no resolution: one frame.
    #[must_use]
    pub const fn strict(line_fps: Option<f64>, throughput_fps: f64) -> BackToBackConfig {
        BackToBackConfig {
            line_fps,
            throughput_fps,
            most_burst_ns: 2 * SECOND_NS,
            resolution_frames: 1,
            verifications: 1,
            repetitions: 50,
            pauses: Pauses::STRICT,
        }
    }

    fn check(&self) -> Result<(), InputError> {
        check_rate("the throughput", self.throughput_fps)?;
        check_some("the longest burst", self.most_burst_ns)?;
        check_some("the resolution", self.resolution_frames)?;
        check_some("the number of repetitions", self.repetitions.into())?;
        self.line_fps.map_or(Ok(()), |line_fps| self.check_line(line_fps))
    }

    fn check_line(&self, line_fps: f64) -> Result<(), InputError> {
        check_rate("the line rate", line_fps)?;
        InputError::unless(
            self.throughput_fps < line_fps,
            "the throughput",
            self.throughput_fps,
            "below the line rate, or no frame waits",
        )
    }
}

/// One burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Number of the search it belongs to, from 0.
    pub repetition: u32,
    /// Frames that were due.
    pub frames: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// Back-to-back frames and buffer time.
#[derive(Debug, Clone, PartialEq)]
pub struct BackToBack {
    /// Longest bursts without loss, in frames: mean, least, greatest and deviation of all repetitions (RFC 9004 section 5.4).
    pub frames: Spread,
    /// The line rate that times are computed with.
    pub line_fps: f64,
    /// Implied DUT Buffer Time: the mean burst at line rate.
    pub implied_buffer_ns: f64,
    /// Corrected DUT Buffer Time: without the frames that left the device while the burst came in.
    pub corrected_buffer_ns: f64,
    /// Repetitions whose longest possible burst lost nothing. If there are any, the search must be repeated with longer ones.
    pub at_most_burst: u32,
    /// A burst was not sent in time: the result is no figure of the device.
    pub is_generator_limited: bool,
    /// All bursts, in order.
    pub bursts: Vec<Burst>,
    /// Time of all trials with their pauses, at most.
    pub time_ns: u64,
}

/// Searches for the longest burst without loss, repeatedly.
///
/// # Errors
/// A value is not possible, among them a throughput that is the line rate; or the test bed failed.
pub fn back_to_back<B: Testbed>(bed: &mut B, config: &BackToBackConfig) -> Result<BackToBack, SearchError<B::Error>> {
    config.check()?;
    let mut runner = Runner::new(bed, config.pauses);
    let line_fps = match config.line_fps {
        Some(line_fps) => line_fps,
        None => runner.steady(f64::INFINITY, config.most_burst_ns)?.sent_fps(),
    };
    config.check_line(line_fps)?;
    let most_frames = (line_fps * config.most_burst_ns as f64 / 1e9).round().max(1.0) as u64;
    let mut search = Search { runner, config, most_frames, bursts: Vec::new() };
    let mut longest = Vec::new();
    for repetition in 0..config.repetitions {
        longest.push(search.longest_lossless(repetition)?);
    }
    let Search { runner, bursts, .. } = search;
    Ok(summary(config, line_fps, &longest, most_frames, bursts, runner.time_ns))
}

fn summary(
    config: &BackToBackConfig,
    line_fps: f64,
    longest: &[u64],
    most_frames: u64,
    bursts: Vec<Burst>,
    time_ns: u64,
) -> BackToBack {
    let lengths: Vec<f64> = longest.iter().map(|&frames| frames as f64).collect();
    let nothing = Spread { count: 0, mean: 0.0, least: 0.0, greatest: 0.0, standard_deviation: None };
    let frames = Spread::of(&lengths).unwrap_or(nothing);
    // RFC 9004 section 5.4.
    let implied_buffer_ns = frames.mean / line_fps * 1e9;
    BackToBack {
        frames,
        line_fps,
        implied_buffer_ns,
        corrected_buffer_ns: implied_buffer_ns - implied_buffer_ns * config.throughput_fps / line_fps,
        at_most_burst: longest.iter().map(|&frames| u32::from(frames == most_frames)).sum(),
        is_generator_limited: bursts.iter().any(|burst| burst.outcome.unsent_frames > 0),
        bursts,
        time_ns,
    }
}

struct Search<'a, B> {
    runner: Runner<'a, B>,
    config: &'a BackToBackConfig,
    most_frames: u64,
    bursts: Vec<Burst>,
}

impl<B: Testbed> Search<'_, B> {
    fn longest_lossless(&mut self, repetition: u32) -> Result<u64, SearchError<B::Error>> {
        if self.is_lossless(repetition, self.most_frames)? {
            return Ok(self.most_frames);
        }
        let (mut lossless_frames, mut lossy_frames) = (0, self.most_frames);
        while lossy_frames - lossless_frames > self.config.resolution_frames {
            let frames = lossless_frames.midpoint(lossy_frames);
            if self.is_lossless(repetition, frames)? {
                lossless_frames = frames;
            } else {
                lossy_frames = frames;
            }
        }
        Ok(lossless_frames)
    }

    fn is_lossless(&mut self, repetition: u32, frames: u64) -> Result<bool, SearchError<B::Error>> {
        // A generator that is a little slower than the line still sends the longest burst.
        let most_ns = self.config.most_burst_ns.saturating_mul(2);
        for _ in 0..=self.config.verifications {
            let outcome = Outcome::from(&self.runner.burst(frames, most_ns)?);
            self.bursts.push(Burst { repetition, frames, outcome });
            if outcome.is_lossless() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

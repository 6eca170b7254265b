//! Devices without time, for tests of searches.

use std::convert::Infallible;

use crate::trial::{Testbed, Trial, TrialPlan};

/// Latencies that a trial records at most.
const RECORDED_MOST: u64 = 2000;

/// What a device is given in a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered {
    /// What was sent, in frames a second.
    pub(super) rate_fps: f64,
    pub(super) frames: u64,
    /// For how long it was sent.
    pub(super) seconds: f64,
}

/// Which frames a device does not forward.
type Losing = Box<dyn FnMut(&Offered) -> u64>;

/// A generator, a device and a sink.
pub(super) struct Simulated {
    /// Most that the generator sends.
    pub(super) generator_fps: f64,
    losing: Losing,
    /// Latency of all frames at a rate.
    pub(super) latency_ns: Box<dyn Fn(f64) -> u64>,
    pub(super) plans: Vec<TrialPlan>,
    pub(super) paused_ns: u64,
}

impl Simulated {
    pub(super) fn new(losing: impl FnMut(&Offered) -> u64 + 'static) -> Simulated {
        Simulated {
            generator_fps: 1e9,
            losing: Box::new(losing),
            latency_ns: Box::new(|_| 1000),
            plans: Vec::new(),
            paused_ns: 0,
        }
    }

    /// Forwards up to its capacity and holds so many frames that wait.
    pub(super) fn with_buffer(capacity_fps: f64, buffer_frames: u64) -> Simulated {
        Simulated::new(move |offered| over_capacity(offered, capacity_fps, buffer_frames))
    }

    /// Forwards all below its capacity, and no more than that above it.
    pub(super) fn sharp(capacity_fps: f64) -> Simulated {
        Simulated::with_buffer(capacity_fps, 0)
    }

    /// Loses a few frames in a part of all trials as well.
    pub(super) fn noisy(capacity_fps: f64, part: f64, seed: u64) -> Simulated {
        let mut random = Random(seed);
        Simulated::new(move |offered| {
            let noise_frames = if random.part() < part { 1 + random.next() % 5 } else { 0 };
            over_capacity(offered, capacity_fps, 0) + noise_frames
        })
    }

    pub(super) const fn with_generator(mut self, generator_fps: f64) -> Simulated {
        self.generator_fps = generator_fps;
        self
    }
}

fn over_capacity(offered: &Offered, capacity_fps: f64, buffer_frames: u64) -> u64 {
    // A frame that is forwarded while the last one is sent makes room for it.
    let room_frames = (capacity_fps * offered.seconds + 1e-6).floor() as u64 + buffer_frames;
    if offered.rate_fps <= capacity_fps { 0 } else { offered.frames.saturating_sub(room_frames) }
}

impl Testbed for Simulated {
    type Error = Infallible;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Infallible> {
        self.plans.push(plan);
        let rate_fps = plan.rate_fps.min(self.generator_fps);
        let longest_s = plan.duration_ns as f64 / 1e9;
        let most_frames = (rate_fps * longest_s).round() as u64;
        let sent_frames = plan.frames.unwrap_or(most_frames).min(most_frames);
        let due_frames = match plan.frames {
            Some(frames) => frames,
            None if plan.rate_fps.is_infinite() => sent_frames,
            None => (plan.rate_fps * longest_s).round() as u64,
        };
        let seconds = if plan.frames.is_some() { sent_frames as f64 / rate_fps } else { longest_s };
        let lost_frames = (self.losing)(&Offered { rate_fps, frames: sent_frames, seconds }).min(sent_frames);
        let mut trial = Trial {
            duration_ns: (seconds * 1e9).round() as u64,
            sent_frames,
            unsent_frames: due_frames - sent_frames,
            received_frames: sent_frames - lost_frames,
            ..Trial::default()
        };
        let latency_ns = (self.latency_ns)(rate_fps);
        (0..trial.received_frames.min(RECORDED_MOST)).for_each(|_| trial.latency.record(latency_ns));
        Ok(trial)
    }

    fn pause(&mut self, duration_ns: u64) -> Result<(), Infallible> {
        self.paused_ns += duration_ns;
        Ok(())
    }
}

/// Numbers that look random and are the same for a seed (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

//! The benchmarks of RFC 2544 section 26, by the letter, with back-to-back frames as RFC 9004 updates them.
//!
//! | benchmark | section | function |
//! |---|---|---|
//! | throughput | 26.1 | [`throughput`] |
//! | latency at a rate | 26.2 | [`latency`] |
//! | frame loss rate | 26.3 | [`frame_loss`] |
//! | back-to-back frames, buffer time | 26.4; RFC 9004 section 5 | [`back_to_back`] |
//! | reset | 26.6 | [`reset`] |
//!
//! System recovery (section 26.5) is not here. On a device with noise these results scatter: use [`super::mlr`] there.

mod back_to_back;
mod frame_loss;
mod latency;
mod reset;
mod spread;
#[cfg(test)]
mod tests;
mod throughput;

pub use back_to_back::{BackToBack, BackToBackConfig, Burst, back_to_back};
pub use frame_loss::{FrameLoss, FrameLossConfig, LossPoint, frame_loss};
pub use latency::{Latency, LatencyConfig, LatencyTrial, latency};
pub use reset::{Reset, ResetConfig, Resettable, reset};
pub use spread::Spread;
pub use throughput::{Throughput, ThroughputConfig, ThroughputResult, ThroughputTrial, throughput};

use super::InputError;

/// Fails unless a rate is one that can be offered.
fn check_rate(name: &'static str, rate_fps: f64) -> Result<(), InputError> {
    InputError::unless(rate_fps > 0.0 && rate_fps.is_finite(), name, rate_fps, "above 0 fps and finite")
}

/// Fails unless a count or a time is above 0.
fn check_some(name: &'static str, value: u64) -> Result<(), InputError> {
    InputError::unless(value > 0, name, value as f64, "above 0")
}

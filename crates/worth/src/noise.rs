//! What disturbs the CPUs of a measurement, by itself: asked before it and after it.

use std::time::Duration;

use nearwire_host::Root;
use nearwire_host::probe::{self, ProbeError};
use nearwire_sys::tsc::Clock;

pub use nearwire_host::probe::{NoiseRates, noise_summary};

/// How often each of these CPUs is taken from a spinning thread. They are watched one after the other, each for the
/// `window`, so that this takes as many windows as there are CPUs; nothing of a measurement may run meanwhile.
///
/// # Errors
/// A thread could not be bound to a CPU.
pub fn noise_of(root: &Root, clock: &Clock, cpus: &[u32], window: Duration) -> Result<Vec<NoiseRates>, ProbeError> {
    Ok(probe::noise(root, clock, cpus, window)?.iter().map(probe::Noise::rates).collect())
}

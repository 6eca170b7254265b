//! Active probes: facts of a host that no file tells and that must be measured. They load CPUs
//! while they run, so nothing runs them unless asked.
//!
//! * [`noise()`]: what keeps a spinning thread from running, and for how long;
//! * [`memory()`]: how fast each node's CPUs copy memory of each node;
//! * [`clock()`]: the clock that a busy CPU reaches.
//!
//! Each gives the [`Reading`]s of the settings that it stands for, for [`crate::check::check`].

mod clock;
mod memory;
mod noise;

use nearwire_sys::affinity::pin_current_thread;
use thiserror::Error;

use crate::Reading;
use crate::read::condense;

pub use clock::{ClockReached, clock};
pub use memory::{CopyRate, memory};
pub use noise::{GAP_MIN_NS, Noise, NoiseRates, noise, noise_summary};

/// Why a probe gave nothing.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// A thread could not be bound to a CPU.
    #[error("bind a thread to CPU {cpu} to probe it: {source}; is it online and allowed for this process?")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The thread of the probe ended early.
    #[error("the probe of CPU {cpu} ended early")]
    Thread {
        /// The CPU.
        cpu: u32,
    },
}

/// Runs something on a CPU.
fn on_cpu<T: Send>(cpu: u32, run: impl FnOnce() -> T + Send) -> Result<T, ProbeError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match pin_current_thread(cpu) {
            Ok(()) => Ok(run()),
            Err(errno) => Err(ProbeError::Pin { cpu, source: errno.into() }),
        });
        thread.join().unwrap_or(Err(ProbeError::Thread { cpu }))
    })
}

/// One reading of a number of each CPU or node.
fn of_each(values: impl Iterator<Item = (u32, u64)>) -> Reading {
    condense(values.map(|(label, value)| (label.to_string(), Reading::value(value))).collect())
}

#[cfg(test)]
mod tests;

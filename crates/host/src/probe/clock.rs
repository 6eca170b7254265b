//! The clock that a busy CPU reaches. No register is needed: a chain of multiplications, each of
//! which waits for the one before, takes a known number of cycles on the processors of the last
//! fifteen years.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{ProbeError, of_each, on_cpu};
use crate::Reading;

/// A 64-bit multiplication and an exclusive or: 3 + 1 cycles on Intel since Nehalem and on AMD
/// since Zen (Agner Fog, Instruction tables).
#[cfg(target_arch = "x86_64")]
const CYCLES_OF_STEP: Option<u64> = Some(4);
/// Other architectures differ from model to model.
#[cfg(not(target_arch = "x86_64"))]
const CYCLES_OF_STEP: Option<u64> = None;
/// Steps between two looks at the time.
const STEPS: u64 = 100_000;
/// Before it counts: processors need some milliseconds to raise the clock.
const WARM_UP: Duration = Duration::from_millis(50);
/// How long it counts.
const WINDOW: Duration = Duration::from_millis(100);

/// The clock of one CPU under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReached {
    /// The CPU.
    pub cpu: u32,
    /// Its clock in the best stretch, kHz.
    pub khz: u64,
}

impl ClockReached {
    /// The reading of `cpu.frequency.reached-khz`.
    #[must_use]
    pub fn reading(all: &[Self]) -> Reading {
        of_each(all.iter().map(|reached| (reached.cpu, reached.khz)))
    }
}

/// Loads these CPUs one after the other for 150 ms each. Empty where the cost of the loop is not
/// known: on other architectures than x86-64.
///
/// # Errors
/// See [`ProbeError`].
pub fn clock(cpus: &[u32]) -> Result<Vec<ClockReached>, ProbeError> {
    let Some(cycles) = CYCLES_OF_STEP else { return Ok(Vec::new()) };
    cpus.iter().map(|&cpu| Ok(ClockReached { cpu, khz: on_cpu(cpu, || reach(cycles))? })).collect()
}

fn reach(cycles_of_step: u64) -> u64 {
    let begin = Instant::now();
    let mut best = 0;
    while begin.elapsed() < WARM_UP + WINDOW {
        let start = Instant::now();
        black_box(chain(black_box(0x9e37_79b9_7f4a_7c15), STEPS));
        let ns = start.elapsed().as_nanos().max(1);
        let khz = u128::from(STEPS * cycles_of_step) * 1_000_000 / ns;
        if begin.elapsed() >= WARM_UP {
            best = best.max(u64::try_from(khz).unwrap_or(u64::MAX));
        }
    }
    best
}

/// The factor is not a constant, so that the compiler cannot fold steps.
#[inline(never)]
fn chain(factor: u64, steps: u64) -> u64 {
    let mut x = factor;
    for _ in 0..steps {
        x = x.wrapping_mul(factor) ^ x;
    }
    x
}

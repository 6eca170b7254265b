//! What the command itself costs: help, and a whole default measurement.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::verdicts::{spread, verdict};
use crate::{AnyError, NEARWIRE};

const CALLS: usize = 21;

/// Prints the targets; true when all are met.
pub fn judge() -> Result<bool, AnyError> {
    let help_ms = times_ms(&["--help"])?;
    let (bench_s, peak_mib) = default_bench()?;
    let met = [
        verdict("nearwire --help, ms", spread(&help_ms)?, 0.0, 10.0),
        verdict("nearwire bench without arguments, s", [bench_s; 3], 0.0, 60.0),
        verdict("its peak memory, both ends, MiB", [peak_mib; 3], 0.0, 256.0),
    ];
    Ok(met.iter().all(|met| *met))
}

/// How long the command takes, call by call.
fn times_ms(arguments: &[&str]) -> Result<Vec<f64>, AnyError> {
    let timed = || -> Result<f64, AnyError> {
        let began = Instant::now();
        let status = Command::new(NEARWIRE).args(arguments).stdout(Stdio::null()).status()?;
        if status.success() {
            Ok(began.elapsed().as_secs_f64() * 1e3)
        } else {
            Err(format!("nearwire {} ended with {status}", arguments.join(" ")).into())
        }
    };
    (0..CALLS).map(|_| timed()).collect()
}

/// Duration in seconds and the sum of both ends' peaks in MiB.
fn default_bench() -> Result<(f64, f64), AnyError> {
    let began = Instant::now();
    let mut bench = Command::new(NEARWIRE).args(["bench", "--quiet"]).stdout(Stdio::null()).spawn()?;
    let (mut own_kib, mut child_kib) = (0, 0);
    let status = loop {
        own_kib = own_kib.max(peak_kib(bench.id()).unwrap_or(0));
        child_kib = child_kib.max(responder(bench.id()).and_then(peak_kib).unwrap_or(0));
        if let Some(status) = bench.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(format!("nearwire bench ended with {status}").into());
    }
    Ok((began.elapsed().as_secs_f64(), (own_kib + child_kib) as f64 / 1024.0))
}

/// `VmHWM` of proc(5): the most that was resident at once.
pub fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

fn responder(pid: u32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

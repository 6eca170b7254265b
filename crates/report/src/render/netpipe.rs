//! Columns of NetPIPE's `np.out` (version 3.7.2, `netpipe.c`): bytes, Mbps, seconds for one way.
//!
//! Mbps divides by 2^20 because the format does: 1 byte in 2.23 us is 3.42, not 3.59. The time is the median
//! half round trip, where the original reports the least of seven averages. Cells without a median are left
//! out with a `#` line, and each path begins with one.

use std::fmt::Write as _;

use super::units::cell_name;
use crate::record::{Record, Run};

const BITS_PER_MEGABIT: f64 = 1024.0 * 1024.0;

pub(super) fn render(record: &Record) -> String {
    let mut paths: Vec<(String, Vec<&Run>)> = Vec::new();
    for run in &record.runs {
        let name = cell_name(&run.cell);
        match paths.iter_mut().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(run),
            None => paths.push((name, vec![run])),
        }
    }
    let mut out = String::new();
    for (name, mut runs) in paths {
        runs.sort_by_key(|run| run.cell.size_bytes);
        let _ = writeln!(out, "# {name}");
        for run in runs {
            write_row(&mut out, run);
        }
    }
    out
}

fn write_row(out: &mut String, run: &Run) {
    let size_bytes = run.cell.size_bytes;
    let Some(p50_ns) = run.latency_ns.p50.filter(|&p50_ns| p50_ns > 0.0) else {
        let _ = writeln!(out, "# {size_bytes} bytes: {} samples support no median", run.samples);
        return;
    };
    let seconds = p50_ns / 1e9;
    let mbps = f64::from(size_bytes) * 8.0 / (seconds * BITS_PER_MEGABIT);
    let _ = writeln!(out, "{size_bytes:8} {mbps:.6} {seconds:12.8}");
}

//! Lines of `exanic_perf_test` (cisco/exanic-software, `perf-test/util.c`), for scripts that parse them.
//!
//! The original prints twelve percentiles whatever the count, as whole nanoseconds, and a reader expects all
//! twelve. A percentile that the samples do not support, or that falls among the lost messages, is therefore printed as
//! the nearest value that was measured (the greatest above the median, the least below), and a `Warning:` line in the
//! original's style names it. Two more differences: the figures are half round trips, where the original times one way through
//! a loopback cable; and each cell is preceded by a `#` line.

use std::fmt::Write as _;

use super::units::{cell_comment, quantile};
use crate::record::{Record, Run};
use crate::statistics::is_lost;

const PERCENTILES: [f64; 12] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.999, 100.0];

pub(super) fn render(record: &Record) -> String {
    let mut out = String::new();
    for run in &record.runs {
        if record.runs.len() > 1 {
            out.push_str(&cell_comment(&run.cell));
        }
        let _ = writeln!(out, "CPU GHz = {:.2}", record.clock.hz as f64 / 1e9);
        write_percentiles(&mut out, run);
    }
    out
}

fn write_percentiles(out: &mut String, run: &Run) {
    let (Some(min_ns), Some(max_ns)) = (run.latency_ns.min, run.latency_ns.max) else {
        let _ = writeln!(out, "Warning: No samples, {} messages lost.", run.lost);
        return;
    };
    let mut stood_in = Vec::new();
    for percent in PERCENTILES {
        let value_ns = quantile(run, percent).and_then(|line| line.value_ns).unwrap_or_else(|| {
            let is_lost = quantile(run, percent).is_some_and(is_lost);
            stood_in.push((percent, is_lost));
            if percent < 50.0 && !is_lost { min_ns } else { max_ns }
        });
        let _ = writeln!(out, "Percentile {percent:.3} = {value_ns:.0}ns");
    }
    if run.samples < 1000 {
        out.push_str("Warning: Percentile breakdown may be inaccurate for < 1000 samples.\n");
    }
    for (percent, is_lost) in stood_in {
        if is_lost {
            let _ = writeln!(
                out,
                "Warning: Percentile {percent:.3} is that of a lost message, the greatest stands in for it."
            );
            continue;
        }
        let stand_in = if percent < 50.0 { "least" } else { "greatest" };
        let _ = writeln!(
            out,
            "Warning: Percentile {percent:.3} is not supported by {} samples, the {stand_in} stands in for it.",
            run.samples
        );
    }
}

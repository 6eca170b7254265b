//! Lines of `sockperf ping-pong` (version 3.7, client), for scripts that parse them.
//!
//! The text is the original's without its colours. Percentiles that the samples do not support, or that fall among the
//! lost messages, are left out, where the original prints the maximum in their place; a `#` line says which. `Total Run` counts the warm-up,
//! `Valid Duration` does not, as in the original.

use std::fmt::Write as _;

use super::units::{cell_comment, quantile};
use crate::record::{Record, Run};
use crate::statistics::is_lost;

/// In the original's order, greatest first.
const PERCENTILES: [f64; 8] = [99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0];

pub(super) fn render(record: &Record) -> String {
    let mut out = String::new();
    for run in &record.runs {
        if record.runs.len() > 1 {
            out.push_str(&cell_comment(&run.cell));
        }
        write_totals(&mut out, run, record.interrupted);
        write_latencies(&mut out, run);
    }
    out
}

fn write_totals(out: &mut String, run: &Run, interrupted: bool) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let measured_ns: u64 = run.rounds.iter().map(|round| round.duration_ns).sum();
    let warm_up_ns: u64 = run.rounds.iter().map(|round| round.warm_up_ns).sum();
    let warm_up: u64 = run.rounds.iter().map(|round| round.warm_up_messages).sum();
    let sent = run.sent();
    let by = if interrupted { "Ctrl-C" } else { "timer" };
    let _ = write!(
        out,
        "sockperf: Test end (interrupted by {by})\n\
         sockperf: Test ended\n\
         sockperf: [Total Run] RunTime={:.3} sec; Warm up time={} msec; SentMessages={}; ReceivedMessages={}\n\
         sockperf: ========= Printing statistics for Server No: 0\n\
         sockperf: [Valid Duration] RunTime={:.3} sec; SentMessages={sent}; ReceivedMessages={}\n",
        seconds(measured_ns + warm_up_ns),
        warm_up_ns / 1_000_000,
        sent + warm_up,
        run.samples + warm_up,
        seconds(measured_ns),
        run.samples,
    );
}

fn write_latencies(out: &mut String, run: &Run) {
    let us = |ns: f64| ns / 1000.0;
    if let Some(mean_ns) = run.mean_ns {
        let deviation_ns = run.standard_deviation_ns.unwrap_or(0.0);
        let _ = writeln!(out, "sockperf: ====> avg-latency={:.3} (std-dev={:.3})", us(mean_ns), us(deviation_ns));
    }
    let _ = writeln!(
        out,
        "sockperf: # dropped messages = {}; # duplicated messages = {}; # out-of-order messages = {}",
        run.lost, run.duplicated, run.reordered
    );
    let (Some(mean_ns), Some(min_ns), Some(max_ns)) = (run.mean_ns, run.latency_ns.min, run.latency_ns.max) else {
        out.push_str("sockperf: No valid observations found. Try tune parameters: --time/--mps/--reply-every\n");
        return;
    };
    let _ = write!(
        out,
        "sockperf: Summary: Latency is {:.3} usec\n\
         sockperf: Total {} observations; each percentile contains {:.2} observations\n\
         sockperf: ---> <MAX> observation = {:8.3}\n",
        us(mean_ns),
        run.samples,
        run.samples as f64 / 100.0,
        us(max_ns),
    );
    let (mut unsupported, mut lost) = (Vec::new(), Vec::new());
    for percent in PERCENTILES {
        let line = quantile(run, percent);
        match line.and_then(|line| line.value_ns) {
            Some(value_ns) => {
                let _ = writeln!(out, "sockperf: ---> percentile {percent:6.3} = {:8.3}", us(value_ns));
            }
            None if line.is_some_and(is_lost) => lost.push(format!("{percent:.3}")),
            None => unsupported.push(format!("{percent:.3}")),
        }
    }
    let _ = writeln!(out, "sockperf: ---> <MIN> observation = {:8.3}", us(min_ns));
    if !unsupported.is_empty() {
        let _ = writeln!(
            out,
            "# percentile {} left out: fewer than 10 of {} observations lie beyond",
            unsupported.join(", "),
            run.samples
        );
    }
    if !lost.is_empty() {
        let _ = writeln!(out, "# percentile {} left out: it is that of a dropped message", lost.join(", "));
    }
}

//! What generators and sinks print.

use std::fmt::Write as _;

use nearwire_dataplane::tester::Progress;
use nearwire_dataplane::trial::{Latencies, Trial};

use crate::output;

/// A line on standard error, once a second.
pub fn progress(quiet: bool) -> impl FnMut(Progress) {
    let mut before = Progress::default();
    move |now: Progress| {
        if quiet {
            return;
        }
        let seconds = (now.elapsed_ns - before.elapsed_ns).max(1) as f64 / 1e9;
        let rate = |frames: u64| mega(frames as f64 / seconds);
        let mut line =
            format!("{:.0} s: {} sent", now.elapsed_ns as f64 / 1e9, rate(now.sent_frames - before.sent_frames));
        if now.received_frames > 0 {
            let _ = write!(line, ", {} received", rate(now.received_frames - before.received_frames));
        }
        output::note(&line);
        before = now;
    }
}

/// Frames a second.
pub fn mega(rate_fps: f64) -> String {
    if rate_fps >= 1e6 { format!("{:.3} Mpps", rate_fps / 1e6) } else { format!("{:.1} kpps", rate_fps / 1e3) }
}

/// What was sent.
pub fn sent(trial: &Trial) -> String {
    let mut text = format!("{} frames sent, {}", trial.sent_frames, mega(trial.sent_fps()));
    if trial.unsent_frames > 0 {
        let _ = write!(text, "; {} that were due were not sent: the generator was too slow", trial.unsent_frames);
    }
    text + "\n"
}

/// What came.
pub fn received(trial: &Trial) -> String {
    let mut text = format!(
        "{} frames received, {}; {} lost ({:.4} %)",
        trial.received_frames,
        mega(trial.received_fps()),
        trial.lost_frames(),
        trial.loss_ratio() * 100.0
    );
    let counts = [
        (trial.duplicated_frames, "came again"),
        (trial.reordered_frames, "came behind a later one"),
        (trial.corrupted_frames, "were not as they were sent"),
        (trial.foreign_frames, "were of other traffic"),
    ];
    for (frames, what) in counts.into_iter().filter(|(frames, _)| *frames > 0) {
        let _ = write!(text, ", {frames} {what}");
    }
    text.push('\n');
    if trial.latency.count() > 0 {
        let _ = writeln!(text, "latency, one way, us: {}", quantiles(&trial.latency));
        let least_ns = trial.latency.least_ns().unwrap_or(0);
        let pdv = trial.latency.percentile_ns(99.9).map(|ns| ns - least_ns);
        let _ =
            writeln!(text, "delay variation, us: PDV p99.9 {}, IPDV {}", micro(pdv), quantiles(&trial.delay_variation));
    }
    text
}

fn quantiles(latencies: &Latencies) -> String {
    let of = |percent| micro(latencies.percentile_ns(percent));
    format!("p50 {}, p99 {}, p99.9 {}, max {}", of(50.0), of(99.0), of(99.9), micro(latencies.greatest_ns()))
}

fn micro(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e3))
}

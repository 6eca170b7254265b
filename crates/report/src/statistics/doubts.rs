//! What to doubt, in plain words, and what to try.

use super::modes::TwoModes;
use super::rank::LEAST_SUPPORT;
use super::trend::Drift;
use crate::record::{Run, Warning};

/// Samples that support p99; below it only the median is worth reading.
const FEW_SAMPLES: u64 = 100 * LEAST_SUPPORT;

fn warning(code: &str, text: String, advice: &str) -> Warning {
    Warning { code: code.to_owned(), text, advice: advice.to_owned() }
}

fn us(value_ns: f64) -> String {
    format!("{:.2} us", value_ns / 1000.0)
}

pub(super) fn drifted(drift: Drift) -> Warning {
    let percent = (drift.last / drift.first - 1.0) * 100.0;
    let direction = if percent > 0.0 { "rose" } else { "fell" };
    let text = format!(
        "the median {direction} by {:.0} % in the course of the run, from {} in the first third to {} in the last",
        percent.abs(),
        us(drift.first),
        us(drift.last)
    );
    let advice = "warm up longer, keep other work off these CPUs, and look at the rounds before trusting the total";
    warning("drift", text, advice)
}

pub(super) fn two_levels(modes: TwoModes, rounds: usize) -> Warning {
    let low = (modes.share_low * rounds as f64).round();
    let text = format!(
        "{low:.0} rounds had a median near {} and {:.0} near {}: the total describes neither state",
        us(modes.low),
        rounds as f64 - low,
        us(modes.high)
    );
    let advice = "compare rounds of one level only; look for CPUs that moved (cache-line figures of \
        the rounds), frequency changes or a busy neighbour";
    warning("bimodal", text, advice)
}

pub(super) fn two_peaks(modes: TwoModes) -> Warning {
    let text = format!(
        "round trips fall into two groups, {:.0} % near {} and {:.0} % near {}: the median describes neither",
        modes.share_low * 100.0,
        us(modes.low),
        (1.0 - modes.share_low) * 100.0,
        us(modes.high)
    );
    let advice = "read the percentile curve instead of the median; pin both ends and look for a \
        wake-up or interrupt that only some messages meet";
    warning("bimodal", text, advice)
}

pub(super) fn too_few(sent: u64) -> Option<Warning> {
    (sent < FEW_SAMPLES).then(|| {
        let text = format!("{sent} messages cannot support p99, which needs {FEW_SAMPLES}");
        warning("few-samples", text, "measure longer: raise --time or --count")
    })
}

/// What to doubt about a finished cell: loss, duplicates, reordering, wrong answers and marked rounds.
///
/// Complements [`super::Distribution::warnings`], which looks at the samples themselves; the two share no code.
#[must_use]
pub fn doubts(run: &Run) -> Vec<Warning> {
    let sent = run.sent();
    let share = |count: u64| {
        if sent == 0 { String::new() } else { format!(" ({:.3} %)", count as f64 * 100.0 / sent as f64) }
    };
    let mut warnings = Vec::new();
    if run.samples == 0 && run.lost > 0 {
        let text = format!("none of {sent} messages came back");
        let advice = "check that the far end runs, that the path reaches it, and that no filter drops the traffic";
        warnings.push(warning("all-lost", text, advice));
    } else if run.lost > 0 {
        let text = format!(
            "{} of {sent} messages were lost{}; quantiles rank them above all others",
            run.lost,
            share(run.lost)
        );
        let advice = "find the drop counter that rises, or raise the timeout";
        warnings.push(warning("loss", text, advice));
    }
    if run.duplicated > 0 {
        let text = format!("{} answers came more than once{}", run.duplicated, share(run.duplicated));
        warnings.push(warning("duplicates", text, "look for a mirror port, a bond or a bridge that copies frames"));
    }
    if run.reordered > 0 {
        let text = format!(
            "{} answers came out of order or too late{}; the late ones count as lost",
            run.reordered,
            share(run.reordered)
        );
        warnings.push(warning("reordering", text, "raise the timeout to tell late answers from lost ones"));
    }
    if run.corrupted > 0 {
        let text = format!(
            "{} answers had the wrong length or content{}: the cell's latency means little",
            run.corrupted,
            share(run.corrupted)
        );
        let advice = "check offloads and injected faults, then measure again";
        warnings.push(warning("corruption", text, advice));
    }
    warnings.extend(marked_rounds(run));
    warnings
}

fn marked_rounds(run: &Run) -> Option<Warning> {
    let marked: Vec<_> = run.rounds.iter().filter(|round| !round.marks.is_empty()).collect();
    if marked.is_empty() {
        return None;
    }
    let mut reasons: Vec<&str> = marked.iter().flat_map(|round| round.marks.iter().map(String::as_str)).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let text = format!(
        "{} of {} rounds are marked ({}); they are included",
        marked.len(),
        run.rounds.len(),
        reasons.join(", ")
    );
    let advice = "measure again on a quieter machine, or read the per-round medians";
    Some(warning("marked-rounds", text, advice))
}

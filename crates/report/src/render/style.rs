//! How the table and its notes look: order of runs, and styles.

use std::collections::BTreeMap;

use crate::record::{Latency, Record, Run};

/// Runs by size, in each size by median, runs without one last; those of other latencies than half
/// round trips by path and rate.
pub(crate) fn by_size(record: &Record) -> BTreeMap<u32, Vec<&Run>> {
    let mut groups: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
    for run in &record.runs {
        groups.entry(run.cell.size_bytes).or_default().push(run);
    }
    for runs in groups.values_mut() {
        if record.experiment.latency != Latency::HalfRtt {
            runs.sort_by(|a, b| a.cell.cmp(&b.cell));
            continue;
        }
        runs.sort_by(|a, b| {
            let p50 = |run: &Run| run.latency_ns.p50.unwrap_or(f64::INFINITY);
            p50(a).total_cmp(&p50(b)).then_with(|| a.cell.cmp(&b.cell))
        });
    }
    groups
}

/// ANSI styles, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ink {
    /// The terminal takes ANSI colours.
    pub(crate) colour: bool,
}

impl Ink {
    pub(crate) fn bold(self, text: &str) -> String {
        self.style("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.style("2", text)
    }

    pub(crate) fn alarm(self, text: &str) -> String {
        self.style("33;1", text)
    }

    fn style(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

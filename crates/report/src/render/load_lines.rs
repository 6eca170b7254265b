//! What stands below the table of a load: what each path carries.

use super::units::{cell_name, count, time};
use crate::load::{Capacity, capacities};
use crate::record::{Record, Run};

/// A line for each combination that was measured at several rates.
pub(crate) fn load_lines(record: &Record) -> Vec<String> {
    let capacities = capacities(record);
    capacities.iter().filter(|capacity| capacity.runs.len() > 1).map(line).collect()
}

fn line(capacity: &Capacity<'_>) -> String {
    let name = format!("{} {} B", cell_name(&capacity.cell), capacity.cell.size_bytes);
    let Some(greatest) = capacity.greatest() else {
        let least = capacity.runs.first().map(|run| rate(run)).unwrap_or_default();
        return format!("{name}: carries less than {least}, the least rate measured");
    };
    let mut text = format!("{name}: carries {}{}", rate(greatest), with_p99(greatest));
    if let Some(beyond) = capacity.first_beyond() {
        text += &format!(", not {} ({})", rate(beyond), why_not(beyond));
    }
    if let (Some(knee), Some(least)) = (capacity.knee, capacity.runs.first()) {
        text += &format!(
            "; knee at {}{}: up to there p99 is at most twice that of {}",
            rate(knee),
            with_p99(knee),
            rate(least)
        );
    }
    text
}

fn rate(run: &Run) -> String {
    format!("{}/s", count(run.cell.rate_per_second.unwrap_or_default()))
}

fn with_p99(run: &Run) -> String {
    run.latency_ns.p99.map(|ns| format!(" (p99 {})", time(ns))).unwrap_or_default()
}

fn why_not(run: &Run) -> String {
    if run.invalid.is_some() {
        return "INVALID, see the warning".to_owned();
    }
    format!("{:.1} % lost", run.lost_percent())
}

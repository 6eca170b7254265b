//! What stands below the table: what was found, the test bed, notes and warnings.

use super::figures::{at_half, mpps, percent};
use super::parts::{beds, cpus_words, listed, sharing_notes};
use super::record::{BackToBack, Cell, DataplaneRecord, State};
use super::words::{cell_words, goal, method, verdict};
use crate::record::Warning;
use crate::render::units::{count, printable, time};
use crate::render::{Ink, hanging};

/// The verdict, lines of RFC 2544, drops, failures, and what signs in the table mean.
pub(super) fn found(record: &DataplaneRecord) -> Vec<String> {
    let mut lines = vec![verdict(record)];
    lines.extend(record.cells.iter().flat_map(rfc2544_lines));
    lines.extend(record.cells.iter().filter_map(drops_line));
    let failed = |cell: &Cell| Some(format!("{} failed: {}", cell_words(cell), cell.failure.as_ref()?));
    lines.extend(record.cells.iter().filter_map(failed));
    lines.extend(legend(record));
    lines
}

fn rfc2544_lines(cell: &Cell) -> Vec<String> {
    let mut facts = Vec::new();
    if !cell.frame_loss.is_empty() {
        let losses = cell.frame_loss.iter();
        let losses: Vec<String> =
            losses.map(|at| format!("{} at {}", percent(at.loss_ratio), mpps(Some(at.rate_fps)))).collect();
        facts.push(format!("frame loss rate {} Mpps", losses.join(", ")));
    }
    facts.extend(cell.back_to_back.as_ref().map(back_to_back_words));
    facts.extend(cell.reset_ns.map(|ns| format!("after a reset nothing came for {}", time(ns as f64))));
    facts.into_iter().map(|fact| format!("{}: {fact}", cell_words(cell))).collect()
}

/// Bursts in words.
pub(super) fn back_to_back_words(bursts: &BackToBack) -> String {
    let buffer = bursts.buffer_ns.map(|ns| format!("; frames can wait for {} in the device", time(ns)));
    format!(
        "back-to-back bursts of {:.0} frames ({} .. {} in {} repetitions, standard deviation {:.0}){}",
        bursts.mean_frames,
        count(bursts.least_frames),
        count(bursts.most_frames),
        bursts.repetitions,
        bursts.deviation_frames,
        buffer.unwrap_or_default()
    )
}

fn drops_line(cell: &Cell) -> Option<String> {
    let drops: Vec<String> = cell.drops.iter().map(|(cause, frames)| format!("{cause} {}", count(*frames))).collect();
    (!drops.is_empty()).then(|| format!("{} dropped frames: {}", cell_words(cell), drops.join(", ")))
}

/// What stands in the table in place of a figure, and what the columns are.
fn legend(record: &DataplaneRecord) -> Vec<String> {
    let Some(last) = record.goals.last() else {
        return Vec::new();
    };
    let has = |state| record.cells.iter().flat_map(|cell| &cell.throughput).any(|found| found.state == state);
    let mut lines = vec![format!(
        "Gb/s: bits of {} in frames without FCS; L1 Gb/s: with FCS, preamble and gap, 24 bytes a frame more",
        last.name
    )];
    if record.cells.iter().any(|cell| at_half(cell).is_some()) {
        lines.push(format!(
            "us: from when a frame was due to when the sink had it, one way, at 50 % of {}; -: too few frames support it",
            last.name
        ));
    }
    let signs = [
        (State::AtLeast, ">=: it keeps to the goal at the highest rate that was allowed"),
        (State::GeneratorLimited, "*: the generator was too slow; the device carries at least so much"),
        (State::NotConverged, "a .. b: trials or time were used up; what it carries is between these"),
        (State::Lossy, "lossy: it does not keep to the goal at the least rate"),
    ];
    lines.extend(signs.into_iter().filter(|(state, _)| has(*state)).map(|(_, words)| words.to_owned()));
    lines
}

/// How it was searched, by what, where.
pub(super) fn circumstances(record: &DataplaneRecord, width: usize) -> Vec<String> {
    let mut lines = hanging("search   ", method(record.method), width);
    for wanted in &record.goals {
        lines.extend(hanging("goal     ", &printable(&format!("{}: {}", wanted.name, goal(wanted))), width));
    }
    let beds = beds(record);
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for bed in &beds {
        let words = cpus_words(bed.parts);
        match told.iter_mut().find(|(known, _)| *known == words) {
            Some((_, devices)) => devices.extend(&bed.devices),
            None => told.push((words, bed.devices.clone())),
        }
    }
    for (words, mut devices) in told.iter().cloned() {
        devices.dedup();
        let whose = if told.len() > 1 { format!("{}: ", listed(&devices)) } else { String::new() };
        lines.extend(hanging("parts    ", &printable(&format!("{whose}{words}")), width));
    }
    lines
}

/// Notes on shared CPUs, then warnings.
pub(super) fn doubts(record: &DataplaneRecord, width: usize, ink: Ink) -> Vec<String> {
    let mut lines = Vec::new();
    for note in sharing_notes(record) {
        lines.extend(hanging("note     ", &printable(&note), width));
    }
    for Warning { code, text, advice } in &record.warnings {
        let mut block = hanging("WARNING  ", &printable(&format!("{code}: {text}")), width);
        block[0] = block[0].replacen("WARNING", &ink.alarm("WARNING"), 1);
        lines.extend(block);
        lines.extend(hanging("    try  ", &printable(advice), width));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

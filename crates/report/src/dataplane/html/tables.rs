//! The page's tables: figures of every cell, latencies, losses, bursts, drops, goals, settings, facts.

use std::ptr;

use serde::Serialize;

use super::palette::engine;
use crate::compare::reading_text;
use crate::dataplane::figures::{
    at_half, by_size, frame_bits, last_fps, percent, three_digits, throughput, totals, wire_bits,
};
use crate::dataplane::record::{Cell, DataplaneRecord, LatencyAt};
use crate::dataplane::table_notes::back_to_back_words;
use crate::dataplane::words::{bounds_words, carried_on_page, cell_words, goal, is_wire, method, traffic};
use crate::html::words::{micro, micro_number};
use crate::record::Reading;
use crate::render::units::count;

/// Names of cells in links: every cell's row in the table of figures has one, as in `A-l2-xdp-64`.
pub(super) struct Anchors<'a> {
    names: Vec<(&'a Cell, String)>,
}

impl<'a> Anchors<'a> {
    /// Names begin with the record's letter; those that agree are numbered.
    pub(super) fn of(letter: &str, record: &'a DataplaneRecord) -> Self {
        let mut names: Vec<(&Cell, String)> = Vec::with_capacity(record.cells.len());
        for cell in &record.cells {
            let wanted = format!("{letter}-{}", in_link(&format!("{}-{}", cell.device, cell.sizes)));
            let numbered = (2..).map(|number| format!("{wanted}-{number}"));
            let is_taken = |name: &String| names.iter().any(|(_, taken)| taken == name);
            let free = std::iter::once(wanted.clone()).chain(numbered).find(|name| !is_taken(name));
            names.push((cell, free.unwrap_or(wanted)));
        }
        Self { names }
    }

    /// The name of a cell of this record.
    pub(super) fn id(&self, cell: &Cell) -> &str {
        self.names.iter().find(|(known, _)| ptr::eq(*known, cell)).map_or("", |(_, name)| name)
    }
}

/// Letters, digits and single hyphens.
fn in_link(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => name.push(c),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.trim_matches('-').to_owned()
}

/// One figure, and what more there is to say of it.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    text: String,
    tip: String,
}

fn plain(text: impl Into<String>) -> Figure {
    Figure { text: text.into(), tip: String::new() }
}

/// The rows of one size.
#[derive(Debug, Serialize)]
pub(super) struct SizeRows {
    label: String,
    rows: Vec<CellRow>,
}

/// A cell's figures.
#[derive(Debug, Serialize)]
pub(super) struct CellRow {
    id: String,
    device: String,
    family: &'static str,
    figures: Vec<Figure>,
}

/// Titles after the device.
pub(super) fn columns(record: &DataplaneRecord) -> Vec<String> {
    let goals = record.goals.iter().map(|goal| format!("{} Mpps", goal.name));
    let fixed =
        ["forwarded Mpps", "Gb/s", "L1 Gb/s", "p50", "p99", "p99.9", "lost", "doubled", "reordered", "corrupted"];
    goals.chain(fixed.map(str::to_owned)).collect()
}

pub(super) fn figure_rows(record: &DataplaneRecord, anchors: &Anchors) -> Vec<SizeRows> {
    let row = |cell: &&Cell| CellRow {
        id: anchors.id(cell).to_owned(),
        device: cell.device.clone(),
        family: engine(&cell.device),
        figures: figures(record, cell),
    };
    let sizes = by_size(record);
    sizes.iter().map(|size| SizeRows { label: size.label(), rows: size.cells.iter().map(row).collect() }).collect()
}

fn figures(record: &DataplaneRecord, cell: &Cell) -> Vec<Figure> {
    let dash = || "–".to_owned();
    let rate = |name: &str| match (throughput(cell, name), &cell.failure) {
        (Some(found), _) => {
            Figure { text: carried_on_page(found), tip: format!("{}, {}", cell_words(cell), bounds_words(found)) }
        }
        (None, Some(why)) => Figure { text: "failed".to_owned(), tip: format!("{} failed: {why}", cell_words(cell)) },
        (None, None) => plain(dash()),
    };
    let mut figures: Vec<Figure> = record.goals.iter().map(|goal| rate(&goal.name)).collect();
    let last = record.goals.last().and_then(|goal| throughput(cell, &goal.name));
    let forwarded = last.and_then(|found| found.conditional_fps).map(|fps| three_digits(fps / 1e6));
    figures.push(plain(forwarded.unwrap_or_else(dash)));
    let gigabits = |bits: fn(f64, f64) -> f64| {
        let bits = last_fps(record, cell).map(|fps| three_digits(bits(fps, cell.mean_bytes) / 1e9));
        plain(bits.unwrap_or_else(dash))
    };
    figures.extend([gigabits(frame_bits), gigabits(wire_bits)]);
    let half = |of: fn(&LatencyAt) -> Option<f64>| plain(micro_number(at_half(cell).and_then(of)));
    figures.extend([half(|at| at.p50_ns), half(|at| at.p99_ns), half(|at| at.p999_ns)]);
    let totals = totals(cell);
    let counts = [totals.lost, totals.duplicated, totals.reordered, totals.corrupted];
    figures.extend(counts.map(|frames| plain(if cell.trials.is_empty() { dash() } else { count(frames) })));
    figures
}

/// A row of texts with its heading.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    family: &'static str,
    values: Vec<String>,
}

/// After the cell.
pub(super) const LATENCY_COLUMNS: [&str; 10] =
    ["load", "Mpps", "frames", "lost", "p50", "p99", "p99.9", "max", "PDV p99.9", "IPDV p99"];

pub(super) fn latency_rows(record: &DataplaneRecord) -> Vec<Row> {
    let row = |cell: &Cell, at: &LatencyAt| {
        let mut values =
            vec![percent(at.share), three_digits(at.rate_fps / 1e6), count(at.frames), count(at.lost_frames)];
        let times = [at.p50_ns, at.p99_ns, at.p999_ns, at.max_ns, at.pdv_p999_ns, at.ipdv_p99_ns];
        values.extend(times.map(micro_number));
        Row { name: cell_words(cell), family: engine(&cell.device), values }
    };
    by_size(record)
        .iter()
        .flat_map(|size| &size.cells)
        .flat_map(|cell| cell.latency.iter().map(|at| row(cell, at)))
        .collect()
}

/// Loss at each rate of RFC 2544 section 26.3.
pub(super) fn loss_rows(record: &DataplaneRecord) -> Vec<Row> {
    let cells = record.cells.iter().flat_map(|cell| cell.frame_loss.iter().map(move |at| (cell, at)));
    let values = cells.map(|(cell, at)| Row {
        name: cell_words(cell),
        family: engine(&cell.device),
        values: vec![three_digits(at.rate_fps / 1e6), percent(at.loss_ratio)],
    });
    values.collect()
}

/// Frames that devices dropped, by cause.
pub(super) fn drop_rows(record: &DataplaneRecord) -> Vec<Row> {
    let drops =
        record.cells.iter().flat_map(|cell| cell.drops.iter().map(move |(cause, frames)| (cell, cause, frames)));
    let rows = drops.map(|(cell, cause, frames)| Row {
        name: cell_words(cell),
        family: engine(&cell.device),
        values: vec![cause.clone(), count(*frames)],
    });
    rows.collect()
}

/// What else RFC 2544 and RFC 9004 ask for, and failures.
pub(super) fn other_lines(record: &DataplaneRecord) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for cell in &record.cells {
        let bursts = cell.back_to_back.as_ref().map(|bursts| back_to_back_words(bursts).replace("..", "to"));
        let reset = cell.reset_ns.map(|ns| format!("after a reset nothing came for {}", micro(ns as f64)));
        let failure = cell.failure.as_ref().map(|why| format!("failed: {why}"));
        lines.extend([bursts, reset, failure].into_iter().flatten().map(|line| (cell_words(cell), line)));
    }
    lines
}

/// A setting of the host.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    id: String,
    value: String,
    muted: bool,
}

pub(super) fn settings(record: &DataplaneRecord) -> Vec<Setting> {
    let setting = |(id, reading): (&String, &Reading)| Setting {
        id: id.clone(),
        value: reading_text(Some(reading)),
        muted: !matches!(reading, Reading::Value { .. }),
    };
    record.environment.iter().map(setting).collect()
}

pub(super) fn configuration(record: &DataplaneRecord) -> Vec<(String, String)> {
    let fixed = [
        ("Command", record.command.join(" ")),
        ("Started", record.started_at.clone()),
        ("Nearwire", record.nearwire_version.clone()),
        ("Topology", record.topology.clone()),
        ("Links", record.cable.clone()),
        ("Traffic", traffic(record)),
        ("Search", method(record.method).to_owned()),
    ];
    let mut rows: Vec<(String, String)> = fixed.map(|(name, value)| (name.to_owned(), value)).to_vec();
    rows.extend(
        record.goals.iter().map(|wanted| (format!("Goal {}", wanted.name), goal(wanted).replace(" us", " µs"))),
    );
    rows
}

/// A name with its value, and what to make of it.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    name: &'static str,
    value: String,
    note: String,
}

pub(super) fn facts(record: &DataplaneRecord) -> Vec<Fact> {
    let fact = |name, value: String, note: String| Fact { name, value, note };
    let trials = || record.cells.iter().flat_map(|cell| &cell.trials);
    let sum = |of: fn(&crate::dataplane::record::Trial) -> u64| trials().map(of).fold(0, u64::saturating_add);
    let traffic_ns = sum(|trial| trial.duration_ns);
    let mut facts = vec![
        fact("Topology", record.topology.clone(), format!("over {}", record.cable)),
        fact("Traffic", traffic(record), "numbered frames, each of which the sink checks".to_owned()),
        fact("Trials", count(trials().count() as u64), format!("{} of traffic", micro(traffic_ns as f64))),
        fact(
            "Frames sent",
            count(sum(|trial| trial.sent_frames)),
            format!("{} came back", count(sum(|trial| trial.received_frames))),
        ),
        fact(
            "Corrupted",
            count(sum(|trial| trial.corrupted_frames)),
            "frames that were not as they were sent".to_owned(),
        ),
    ];
    let of_devices = record.cells.iter().filter(|cell| !is_wire(&cell.device));
    let medians = of_devices.filter_map(|cell| Some((cell, at_half(cell)?.p50_ns?)));
    if let Some((cell, p50_ns)) = medians.min_by(|a, b| a.1.total_cmp(&b.1)) {
        facts.push(fact(
            "Least latency",
            micro(p50_ns),
            format!("median of {} at half of its throughput", cell_words(cell)),
        ));
    }
    facts
}

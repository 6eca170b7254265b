//! The table for terminals: cells grouped by size, nearest to the wire first.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table};

use super::load_lines::load_lines;
use super::style::{Ink, by_size};
use super::table_notes::{machine_lines, notes, verdict_lines};
use super::units::{count, gigabits, printable, quantile, quantile_us, us, variation, wrapped};
use crate::record::{Latency, Record, Run};

/// How the table may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// Characters in a line; columns that matter less are left out when they do not fit.
    pub width: usize,
    /// Whether the terminal takes ANSI colours.
    pub colour: bool,
    /// Whether quantiles come with their 95 % intervals.
    pub intervals: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { width: 120, colour: false, intervals: false }
    }
}

/// One column: its title and what it shows of a run.
struct Column {
    title: &'static str,
    left: bool,
    show: fn(&Run) -> String,
}

impl Column {
    /// What it shows; of a quantile the interval too, where that is wanted and the samples bound it.
    fn text(&self, run: &Run, intervals: bool) -> String {
        let text = (self.show)(run);
        let percent = self.title.strip_prefix('p').filter(|_| intervals).and_then(|percent| percent.parse().ok());
        let line = percent.and_then(|percent| quantile(run, percent));
        match line.and_then(|line| Some((line.value_ns?, line.low_ns?, line.high_ns))) {
            Some((_, low_ns, high_ns)) => format!("{text} ({}..{})", us(Some(low_ns)), us(high_ns)),
            None => text,
        }
    }
}

const COLUMNS: [Column; 24] = [
    Column { title: "path", left: true, show: |run| printable(&run.cell.path) },
    Column { title: "tx", left: true, show: |run| optional(run.cell.tx.as_deref()) },
    Column { title: "rx", left: true, show: |run| optional(run.cell.rx.as_deref()) },
    Column { title: "ip", left: true, show: |run| ip(run.cell.ip_version) },
    Column { title: "variation", left: true, show: |run| variation(&run.cell) },
    Column { title: "rate/s", left: false, show: |run| run.cell.rate_per_second.map(count).unwrap_or_default() },
    Column { title: "answered/s", left: false, show: |run| whole(run.metric("answered-rate")) },
    Column { title: "sent/s", left: false, show: |run| whole(run.metric("sent-rate")) },
    Column { title: "received/s", left: false, show: |run| whole(run.metric("received-rate")) },
    Column { title: "Gb/s", left: false, show: |run| gigabits(run).unwrap_or_else(|| "-".to_owned()) },
    Column { title: "samples", left: false, show: |run| count(run.samples) },
    Column { title: "lost", left: false, show: |run| count(run.lost) },
    Column { title: "min", left: false, show: |run| us(run.latency_ns.min) },
    Column { title: "p50", left: false, show: |run| quantile_us(run, 50.0) },
    Column { title: "p90", left: false, show: |run| quantile_us(run, 90.0) },
    Column { title: "p99", left: false, show: |run| quantile_us(run, 99.0) },
    Column { title: "p99.9", left: false, show: |run| quantile_us(run, 99.9) },
    Column { title: "p99.99", left: false, show: |run| quantile_us(run, 99.99) },
    Column { title: "max", left: false, show: |run| us(run.latency_ns.max) },
    Column { title: "slow/s", left: false, show: |run| whole(run.slow_events_per_second) },
    Column { title: "CPU us/msg", left: false, show: |run| us(run.cpu_initiator_ns_per_message) },
    Column { title: "CPU resp.", left: false, show: |run| us(run.cpu_responder_ns_per_message) },
    Column { title: "late p99", left: false, show: |run| us(run.metric("lateness-p99")) },
    Column {
        title: "",
        left: true,
        show: |run| if run.invalid.is_some() { "INVALID".to_owned() } else { String::new() },
    },
];

/// Columns to do without on a narrow terminal, the first first.
const EXPENDABLE: [&str; 8] = ["CPU resp.", "min", "CPU us/msg", "p90", "samples", "slow/s", "p99.99", "max"];

/// The record as a table with the machine's facts, notes and warnings below.
#[must_use]
pub fn render_table(record: &Record, options: TableOptions) -> String {
    let ink = Ink { colour: options.colour };
    let mut lines = vec![ink.bold(&title(record)), String::new()];
    if record.runs.is_empty() {
        lines.push("No path was measured.".to_owned());
    } else {
        lines.extend(grid(record, options, ink));
        lines.push(String::new());
        let said = load_lines(record).into_iter().chain(verdict_lines(record));
        lines.extend(said.flat_map(|line| folded(&line, options.width)));
    }
    lines.push(String::new());
    lines.extend(machine_lines(record, options.width));
    lines.extend(notes(record, options.width, ink));
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

/// A line in lines of at most `width` characters; those that go on are indented.
pub(crate) fn folded(line: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "  ";
    let mut lines = wrapped(line, width.saturating_sub(INDENT.len()).max(30));
    lines.iter_mut().skip(1).for_each(|rest| rest.insert_str(0, INDENT));
    lines
}

fn title(record: &Record) -> String {
    let experiment = &record.experiment;
    let interrupted = if record.interrupted { ", interrupted" } else { "" };
    let arrivals = experiment.arrivals.as_ref().map(|arrivals| format!(", {} arrivals,", printable(arrivals)));
    let unit = if experiment.latency == Latency::None { "" } else { ", us" };
    format!(
        "{}{unit} - {}{} over a {} cable, {} rounds{interrupted}",
        experiment.latency.words(),
        printable(&experiment.workload),
        arrivals.unwrap_or_default(),
        printable(&experiment.cable),
        experiment.rounds
    )
}

/// The aligned lines: header, then each size with its runs. One table for all sizes keeps columns in line.
fn grid(record: &Record, options: TableOptions, ink: Ink) -> Vec<String> {
    let TableOptions { width, intervals, .. } = options;
    let groups = by_size(record);
    let (mut shown, mut left_out): (Vec<&Column>, Vec<&str>) = (useful(record), Vec::new());
    let mut grid = aligned(&shown, &groups, intervals);
    for title in EXPENDABLE {
        if grid.iter().all(|line| line.chars().count() <= width) {
            break;
        }
        shown.retain(|column| column.title != title);
        left_out.push(title);
        grid = aligned(&shown, &groups, intervals);
    }
    let mut rows = grid.into_iter();
    let mut lines: Vec<String> = rows.next().map(|header| ink.dim(&header)).into_iter().collect();
    for (size_bytes, runs) in &groups {
        lines.push(ink.bold(&format!("{size_bytes} B")));
        lines.extend(rows.by_ref().take(runs.len()));
    }
    if !left_out.is_empty() {
        lines.push(ink.dim(&format!("(left out for width: {})", left_out.join(", "))));
    }
    lines
}

/// All columns but those that would be empty or the same for every run.
fn useful(record: &Record) -> Vec<&'static Column> {
    let any = |test: fn(&Run) -> bool| record.runs.iter().any(test);
    let has_rates_only = record.experiment.latency == Latency::None;
    COLUMNS
        .iter()
        .filter(|column| match column.title {
            "tx" => any(|run| run.cell.tx.is_some()),
            "rx" => any(|run| run.cell.rx.is_some()),
            "ip" => any(|run| run.cell.ip_version == Some(6)),
            "variation" => any(|run| !run.cell.variation.is_empty()),
            "rate/s" | "answered/s" | "late p99" => any(|run| run.cell.rate_per_second.is_some()),
            "" => any(|run| run.invalid.is_some()),
            "sent/s" | "received/s" | "Gb/s" => has_rates_only,
            "CPU resp." => any(|run| run.cpu_responder_ns_per_message.is_some()),
            "min" | "p50" | "p90" | "p99" | "p99.9" | "p99.99" | "max" | "slow/s" => !has_rates_only,
            "CPU us/msg" => any(|run| run.cpu_initiator_ns_per_message.is_some()),
            _ => true,
        })
        .collect()
}

fn aligned(columns: &[&Column], groups: &BTreeMap<u32, Vec<&Run>>, intervals: bool) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.title));
    for run in groups.values().flatten() {
        table.add_row(columns.iter().map(|column| column.text(run, intervals)));
    }
    for (index, column) in columns.iter().enumerate() {
        let alignment = if column.left { CellAlignment::Left } else { CellAlignment::Right };
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(alignment);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn optional(value: Option<&str>) -> String {
    value.map(printable).unwrap_or_default()
}

fn ip(version: Option<u8>) -> String {
    version.map(|version| format!("v{version}")).unwrap_or_default()
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

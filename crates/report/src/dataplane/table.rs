//! The table for terminals: sizes, in each the devices in the order of the experiment.

use comfy_table::{CellAlignment, Table};

use super::figures::{
    Size, at_half, by_size, frame_bits, last_fps, three_digits, throughput, tidied, totals, wire_bits,
};
use super::record::{Cell, DataplaneRecord, LatencyAt};
use super::table_notes;
use super::words::{carried, traffic};
use crate::render::units::{count, printable, us};
use crate::render::{Ink, TableOptions, folded};

/// Longest name of a device, characters.
const LONGEST_NAME: usize = 32;
/// Columns to do without on a narrow terminal, the first first.
const EXPENDABLE: [&str; 8] = ["L1 Gb/s", "p99.9 us", "reordered", "doubled", "corrupted", "lost", "p99 us", "p50 us"];

/// A quantile of latency, nanoseconds.
type LatencyOf = fn(&LatencyAt) -> Option<f64>;
/// Frames of all trials of a cell.
type CountOf = fn(&Cell) -> u64;

/// One column: its title and what it shows of a cell.
struct Column<'a> {
    title: String,
    show: Box<dyn Fn(&Cell) -> String + 'a>,
}

impl<'a> Column<'a> {
    fn new(title: impl Into<String>, show: impl Fn(&Cell) -> String + 'a) -> Self {
        Self { title: title.into(), show: Box::new(show) }
    }
}

/// The record as a table: figures of every device at every size, then what the test bed was, and what to doubt.
///
/// [`TableOptions::intervals`] has no meaning here: bounds are shown where they are apart.
#[must_use]
pub fn render_dataplane_table(record: &DataplaneRecord, options: TableOptions) -> String {
    let record = &tidied(record);
    let ink = Ink { colour: options.colour };
    let mut lines = folded(&title(record), options.width);
    lines.iter_mut().for_each(|line| *line = ink.bold(line));
    lines.push(String::new());
    if record.cells.is_empty() {
        lines.push("No device was measured.".to_owned());
    } else {
        lines.extend(grid(record, options.width, ink));
        lines.push(String::new());
        lines.extend(table_notes::found(record).iter().flat_map(|line| folded(&printable(line), options.width)));
    }
    lines.push(String::new());
    lines.extend(table_notes::circumstances(record, options.width));
    lines.extend(table_notes::doubts(record, options.width, ink));
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

fn title(record: &DataplaneRecord) -> String {
    let interrupted = if record.interrupted { ", interrupted" } else { "" };
    printable(&format!(
        "{}, {}, over {} - frames a second that each device carries{interrupted}",
        record.topology,
        traffic(record),
        record.cable
    ))
}

/// The aligned lines: header, then each size with its devices. One table for all sizes keeps columns in line.
fn grid(record: &DataplaneRecord, width: usize, ink: Ink) -> Vec<String> {
    let sizes = by_size(record);
    let (mut shown, mut left_out) = (columns(record), Vec::new());
    let mut grid = aligned(&shown, &sizes);
    for title in EXPENDABLE {
        if grid.iter().all(|line| line.chars().count() <= width) {
            break;
        }
        let before = shown.len();
        shown.retain(|column| column.title != title);
        if shown.len() < before {
            left_out.push(title);
            grid = aligned(&shown, &sizes);
        }
    }
    let mut rows = grid.into_iter();
    let mut lines: Vec<String> = rows.next().map(|header| ink.dim(&header)).into_iter().collect();
    for size in &sizes {
        lines.push(ink.bold(&printable(&size.label())));
        lines.extend(rows.by_ref().take(size.cells.len()));
    }
    if !left_out.is_empty() {
        lines.push(ink.dim(&format!("(left out for width: {})", left_out.join(", "))));
    }
    lines
}

/// Device, each goal, bits, latency, counts; no column that would be empty.
fn columns(record: &DataplaneRecord) -> Vec<Column<'_>> {
    let mut columns = vec![Column::new("device", |cell: &Cell| clipped(&cell.device))];
    for goal in &record.goals {
        columns.push(Column::new(format!("{} Mpps", clipped(&goal.name)), move |cell: &Cell| {
            let failed = if cell.failure.is_some() { "failed" } else { "-" };
            throughput(cell, &goal.name).map_or_else(|| failed.to_owned(), carried)
        }));
    }
    let gigabits = move |cell: &Cell, bits: fn(f64, f64) -> f64| {
        let bits = last_fps(record, cell).map(|rate_fps| bits(rate_fps, cell.mean_bytes));
        bits.map_or_else(|| "-".to_owned(), |bits| three_digits(bits / 1e9))
    };
    columns.push(Column::new("Gb/s", move |cell: &Cell| gigabits(cell, frame_bits)));
    columns.push(Column::new("L1 Gb/s", move |cell: &Cell| gigabits(cell, wire_bits)));
    let quantiles: [(&str, LatencyOf); 3] =
        [("p50 us", |at| at.p50_ns), ("p99 us", |at| at.p99_ns), ("p99.9 us", |at| at.p999_ns)];
    if record.cells.iter().any(|cell| at_half(cell).is_some()) {
        columns
            .extend(quantiles.map(|(title, of)| Column::new(title, move |cell: &Cell| us(at_half(cell).and_then(of)))));
    }
    let counts: [(&str, CountOf); 4] = [
        ("lost", |cell| totals(cell).lost),
        ("doubled", |cell| totals(cell).duplicated),
        ("reordered", |cell| totals(cell).reordered),
        ("corrupted", |cell| totals(cell).corrupted),
    ];
    for (title, of) in counts {
        if record.cells.iter().any(|cell| of(cell) > 0) {
            let show = move |cell: &Cell| if cell.trials.is_empty() { "-".to_owned() } else { count(of(cell)) };
            columns.push(Column::new(title, show));
        }
    }
    columns
}

fn clipped(name: &str) -> String {
    let name = printable(name);
    if name.chars().count() <= LONGEST_NAME {
        return name;
    }
    name.chars().take(LONGEST_NAME - 3).chain("...".chars()).collect()
}

fn aligned(columns: &[Column], sizes: &[Size]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.title.as_str()));
    for cell in sizes.iter().flat_map(|size| &size.cells) {
        table.add_row(columns.iter().map(|column| (column.show)(cell)));
    }
    for index in 0..columns.len() {
        let alignment = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(alignment);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

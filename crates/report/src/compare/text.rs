//! A comparison as a terminal table.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table};

use super::{CellComparison, Comparison, Figure, Verdict};
use crate::render::units::{cell_name, printable, us, wrapped};

/// Characters in a line of a note.
const WIDTH: usize = 110;

/// The comparison as text: verdicts first, then what to keep in mind.
#[must_use]
pub fn render_comparison(comparison: &Comparison) -> String {
    let mut out = String::from("B against A, half RTT, us\n\n");
    if comparison.cells.is_empty() {
        out.push_str("The records have no cell in common.\n");
    } else {
        out.push_str(&table(comparison));
        out.push('\n');
    }
    let _ = write!(out, "\n{}\n", conclusion(comparison));
    for (name, cells) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !cells.is_empty() {
            let names: Vec<String> =
                cells.iter().map(|cell| format!("{} {} B", cell_name(cell), cell.size_bytes)).collect();
            let _ = write!(out, "\nOnly {name} has: {}\n", names.join(", "));
        }
    }
    if !comparison.settings.is_empty() {
        out.push_str("\nSettings that differ:\n");
        for setting in &comparison.settings {
            let _ = writeln!(
                out,
                "  {} {}: {} -> {}",
                setting.end,
                printable(&setting.id),
                printable(&setting.a),
                printable(&setting.b)
            );
        }
    }
    out.push('\n');
    for note in &comparison.notes {
        let text = format!("NOTE {}: {}", printable(&note.code), printable(&note.text));
        let advice = printable(&note.advice);
        for (index, line) in wrapped(&text, WIDTH).iter().enumerate() {
            let _ = writeln!(out, "{}{line}", if index == 0 { "" } else { "     " });
        }
        for line in wrapped(&advice, WIDTH) {
            let _ = writeln!(out, "     {line}");
        }
    }
    out
}

fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let header = ["path", "size", "figure", "A", "B", "B/A", "interval", "noise", "verdict"];
    table.set_header(header);
    for cell in &comparison.cells {
        for (name, figure) in [("p50", &cell.p50), ("p99", &cell.p99)] {
            table.add_row(row(cell, name, figure.as_ref()));
        }
    }
    for column in 3..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn row(cell: &CellComparison, name: &str, figure: Option<&Figure>) -> Vec<String> {
    let mut row = vec![cell_name(&cell.cell), cell.cell.size_bytes.to_string(), name.to_owned()];
    match figure {
        None => {
            row.extend(["-", "-", "-", "-", "-", "too few samples a round"].map(str::to_owned));
        }
        Some(figure) => row.extend([
            us(Some(figure.a_ns)),
            us(Some(figure.b_ns)),
            format!("{:.3}", figure.ratio),
            format!("{:.3}..{:.3}", figure.low, figure.high),
            format!("{:.1} %", figure.noise_floor_percent),
            figure.verdict.words().to_owned(),
        ]),
    }
    row
}

fn conclusion(comparison: &Comparison) -> String {
    let count = |wanted| comparison.figures().filter(|figure| figure.verdict == wanted).count();
    format!(
        "{} faster, {} slower, {} no difference (a verdict needs more than {} % and more than the noise floor, \
         with a {} % interval that excludes 1)",
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::NoDifference),
        comparison.options.threshold_percent,
        comparison.options.confidence * 100.0
    )
}

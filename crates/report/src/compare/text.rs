//! A comparison as a terminal table.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table};

use super::notes::MACHINE_DIFFERS;
use super::{CellComparison, Comparison, Figure, Quantity, Verdict};
use crate::record::Cell;
use crate::render::units::{cell_name, printable, us, wrapped};

/// Characters in a line of a note.
const WIDTH: usize = 110;

/// The comparison as text: verdicts first, then what to keep in mind.
#[must_use]
pub fn render_comparison(comparison: &Comparison) -> String {
    let mut out = String::from("B against A, half RTT and CPU time in us, loss in % of the messages\n\n");
    if comparison.cells.is_empty() {
        out.push_str("The records have no cell in common.\n");
    } else {
        out.push_str(&table(comparison));
        out.push('\n');
    }
    let _ = writeln!(out);
    for line in conclusion(comparison).iter().flat_map(|paragraph| wrapped(paragraph, WIDTH)) {
        let _ = writeln!(out, "{line}");
    }
    for (title, cells) in cell_lists(comparison) {
        if !cells.is_empty() {
            let _ = write!(out, "\n{title}: {}\n", cell_names(cells));
        }
    }
    if !comparison.settings.is_empty() {
        out.push_str("\nSettings that differ:\n");
        for setting in &comparison.settings {
            let (id, a, b) = (printable(&setting.id), printable(&setting.a), printable(&setting.b));
            let _ = writeln!(out, "  {} {id}: {a} -> {b}", setting.end);
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

/// Cells that are not compared, with why.
pub(crate) fn cell_lists(comparison: &Comparison) -> [(&'static str, &[Cell]); 5] {
    [
        ("Missing in B", &comparison.only_a),
        ("Only B has", &comparison.only_b),
        ("Answered in A only", &comparison.answered_only_in_a),
        ("Answered in B only", &comparison.answered_only_in_b),
        ("Never answered in A or B", &comparison.never_answered),
    ]
}

fn cell_names(cells: &[Cell]) -> String {
    let names: Vec<String> = cells.iter().map(|cell| format!("{} {} B", cell_name(cell), cell.size_bytes)).collect();
    names.join(", ")
}

/// Greatest difference that is printed as a number.
const MOST_PERCENT: f64 = 1000.0;
/// The same of a ratio.
const MOST_RATIO: f64 = 100.0;

/// What is compared of each cell, as tables show it.
pub(crate) const COLUMNS: [&str; 10] =
    ["path", "size", "figure", "A", "B", "B/A", "interval", "noise", "visible", "verdict"];

/// One row of a table of verdicts.
pub(crate) struct Line<'a> {
    pub(crate) cell: &'a Cell,
    /// `None` where a side does not support the figure.
    pub(crate) figure: Option<&'a Figure>,
    /// One text for each of [`COLUMNS`].
    pub(crate) texts: Vec<String>,
}

/// The rows of a comparison, in the order of its cells.
pub(crate) fn lines(comparison: &Comparison) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for cell in &comparison.cells {
        let line = |figure, texts| Line { cell: &cell.cell, figure, texts };
        let is_one_way = cell.figure(Quantity::MessageTime).is_some();
        for quantity in [Quantity::P50, Quantity::P99].into_iter().filter(|_| !is_one_way) {
            lines.push(match cell.figure(quantity) {
                Some(figure) => line(Some(figure), row(cell, figure)),
                None => line(None, unsupported_row(cell, quantity)),
            });
        }
        let telling = cell.figures.iter().filter(|figure| is_shown_where_it_tells(figure));
        lines.extend(telling.map(|figure| line(Some(figure), row(cell, figure))));
    }
    lines
}

fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(COLUMNS);
    for line in lines(comparison) {
        table.add_row(line.texts);
    }
    for column in 3..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Beside p50 and p99, which every cell has: p99.9, lost messages where there are any, and whatever is not "no
/// difference".
fn is_shown_where_it_tells(figure: &Figure) -> bool {
    match figure.quantity {
        Quantity::P50 | Quantity::P99 => false,
        Quantity::P999 | Quantity::MessageTime => true,
        Quantity::Loss => figure.a > 0.0 || figure.b > 0.0 || figure.verdict != Verdict::NoDifference,
        Quantity::CpuInitiator | Quantity::CpuResponder => figure.verdict != Verdict::NoDifference,
    }
}

fn unsupported_row(cell: &CellComparison, quantity: Quantity) -> Vec<String> {
    let mut row = vec![cell_name(&cell.cell), cell.cell.size_bytes.to_string(), quantity.name().to_owned()];
    row.extend(["-", "-", "-", "-", "-", "-", "too few samples a round, or rounds"].map(str::to_owned));
    row
}

fn row(cell: &CellComparison, figure: &Figure) -> Vec<String> {
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent_text);
    let is_loss = figure.quantity == Quantity::Loss;
    let value = |value: f64| match value {
        value if value.is_infinite() => "lost".to_owned(),
        value if is_loss => percent_text(value),
        value => us(Some(value)),
    };
    let change = |value: f64| match value {
        value if is_loss => format!("{value:+.3}"),
        value if value > MOST_RATIO => format!("over {MOST_RATIO:.0}"),
        value => format!("{value:.3}"),
    };
    let interval = figure.interval.map(|(low, high)| format!("{}..{}", change(low), change(high)));
    vec![
        cell_name(&cell.cell),
        cell.cell.size_bytes.to_string(),
        figure.quantity.name().to_owned(),
        value(figure.a),
        value(figure.b),
        if is_loss || figure.is_lost() { "-".to_owned() } else { change(figure.change) },
        interval.unwrap_or_else(|| "-".to_owned()),
        percent(figure.noise_floor_percent),
        percent(figure.smallest_visible_percent),
        verdict_text(figure),
    ]
}

/// A figure's verdict with what limits it: `cannot tell (below 4.1 %)`.
pub(crate) fn verdict_text(figure: &Figure) -> String {
    let words = figure.words();
    match (figure.verdict, figure.smallest_visible_percent) {
        (Verdict::CannotTell, _) if figure.is_lost() => "cannot tell (lost; see loss)".to_owned(),
        (Verdict::CannotTell, Some(visible)) if visible.is_infinite() => format!("{words} (of any size)"),
        (Verdict::CannotTell, Some(visible)) => format!("{words} (below {})", percent_text(visible)),
        _ if figure.is_only_alone() => format!("{words} (alone)"),
        (Verdict::Better | Verdict::Worse, None) => format!("{words} (no interval)"),
        _ => words.to_owned(),
    }
}

/// Percent with the digits that it needs: `3.1 %`, `0.012 %`.
fn percent_text(value: f64) -> String {
    match value {
        value if value.is_infinite() => "any".to_owned(),
        // An interval of few samples has no end worth a number.
        value if value > MOST_PERCENT => format!("over {MOST_PERCENT:.0} %"),
        0.0 => "0 %".to_owned(),
        value if value < 0.01 => format!("{value:.4} %"),
        value if value < 0.1 => format!("{value:.3} %"),
        value if value < 1.0 => format!("{value:.2} %"),
        value => format!("{value:.1} %"),
    }
}

/// How many verdicts of each kind, how sure they are, and, last, what the exit code stands for.
pub(crate) fn conclusion(comparison: &Comparison) -> Vec<String> {
    let options = &comparison.options;
    let confidence = format!("{} %", rounded(options.confidence * 100.0));
    let tested = comparison.figures().filter(|figure| figure.p_value.is_some()).count();
    let mut lines = vec![verdict_counts(comparison)];
    let hidden = comparison
        .figures()
        .filter(|figure| !matches!(figure.quantity, Quantity::P50 | Quantity::P99) && !is_shown_where_it_tells(figure));
    let hidden = hidden.count();
    if hidden > 0 {
        lines.push(format!("Not shown: {hidden} figures of loss and CPU time without a difference."));
    }
    lines.push(format!(
        "Each verdict holds for its figure alone with {confidence}: a difference is more than {} %, more than the noise \
         floor, and its interval excludes 1; \"no difference\" is an interval within {} %. visible: the smallest \
         difference that could have been told.",
        options.threshold_percent, options.threshold_percent
    ));
    lines.push(false_alarms(comparison, tested));
    lines.push(gate(comparison));
    lines
}

/// How often the verdicts are wrong where nothing differs.
fn false_alarms(comparison: &Comparison, tested: usize) -> String {
    let options = &comparison.options;
    let mut text = format!(
        "False alarms: where nothing differs, about {:.1} of {tested} figures differ by chance (\"alone\"), and in {} % of \
         comparisons at most one or more of them count (Holm's correction for {tested} figures).",
        tested as f64 * options.wrong(),
        rounded(options.wrong() * 100.0)
    );
    if comparison.figures().any(|figure| figure.quantity.is_cpu() && figure.interval.is_none()) {
        let _ = write!(
            text,
            " CPU times of whole runs have no interval and are not in these rates: they count where they differ by more \
             than {} %.",
            options.cpu_threshold_percent
        );
    }
    text
}

fn verdict_counts(comparison: &Comparison) -> String {
    let count = |wanted: Verdict, is_wanted: fn(Quantity) -> bool| {
        let figures = comparison.figures().filter(|figure| figure.verdict == wanted && is_wanted(figure.quantity));
        figures.count()
    };
    let all: fn(Quantity) -> bool = |_| true;
    let mut text = format!(
        "{} faster, {} slower, {} no difference, {} cannot tell",
        count(Verdict::Better, Quantity::is_latency),
        count(Verdict::Worse, Quantity::is_latency),
        count(Verdict::NoDifference, all),
        count(Verdict::CannotTell, all),
    );
    let is_loss: fn(Quantity) -> bool = |quantity| quantity == Quantity::Loss;
    for (wanted, is_wanted, words) in [
        (Verdict::Worse, is_loss, "with more loss"),
        (Verdict::Better, is_loss, "with less loss"),
        (Verdict::Worse, Quantity::is_cpu as fn(Quantity) -> bool, "with more CPU time"),
        (Verdict::Better, Quantity::is_cpu, "with less CPU time"),
    ] {
        match count(wanted, is_wanted) {
            0 => {}
            number => {
                let _ = write!(text, ", {number} {words}");
            }
        }
    }
    text
}

/// What the exit code stands for.
fn gate(comparison: &Comparison) -> String {
    let confirmed = comparison.figures().filter(|figure| figure.is_confirmed).count();
    let mut reasons = Vec::new();
    for (number, words) in [
        (confirmed, "figures that differ"),
        (comparison.only_a.len(), "cells missing in B"),
        (comparison.answered_only_in_a.len(), "cells answered in A only"),
        (comparison.answered_only_in_b.len(), "cells answered in B only"),
    ] {
        if number > 0 {
            reasons.push(format!("{words}: {number}"));
        }
    }
    let result = match (reasons.is_empty(), comparison.has_undecided()) {
        (false, _) => format!("DIFFERENT ({})", reasons.join("; ")),
        (true, true) => "no difference is shown, and not everything could be told".to_owned(),
        (true, false) => "no difference".to_owned(),
    };
    let machine_differs = comparison.notes.iter().any(|note| note.code == MACHINE_DIFFERS);
    let machine = if machine_differs { "; the machine differs too (NOTE machine-differs)" } else { "" };
    format!("Result: {result}{machine}")
}

/// A percent figure without the noise of binary fractions.
fn rounded(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

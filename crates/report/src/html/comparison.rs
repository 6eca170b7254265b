//! Two records against each other: what `nearwire compare` says, as a table of verdicts with intervals.

use serde::Serialize;

use super::anchors::Anchors;
use super::intervals::{IntervalRow, linked_intervals};
use super::palette::family;
use crate::compare::{self, CompareOptions, Figure, Line, Quantity, SettingDifference, Verdict, compare};
use crate::record::{Cell, Latency, Record, Warning};
use crate::render::units::cell_name;

/// What the page says of B against A.
#[derive(Debug, Default, Serialize)]
pub(super) struct Comparison {
    /// Why the records are not compared; empty when they are.
    refusal: String,
    /// What the exit code of `nearwire compare` stands for.
    result: String,
    /// How many verdicts of each kind, and how sure they are.
    conclusion: Vec<String>,
    /// What a latency is in both.
    latency: &'static str,
    /// Changes of the medians with their intervals.
    chart: Option<String>,
    cells: Vec<CellVerdicts>,
    lists: Vec<(&'static str, Vec<Name>)>,
    settings: Vec<Setting>,
    notes: Vec<Warning>,
}

/// A cell with a link to its row in the table of figures.
#[derive(Debug, Serialize)]
struct Name {
    name: String,
    id: String,
}

/// All verdicts of a cell.
#[derive(Debug, Serialize)]
struct CellVerdicts {
    name: Name,
    family: &'static str,
    rows: Vec<Row>,
}

/// One figure of both records.
#[derive(Debug, Serialize)]
struct Row {
    figure: String,
    /// A, B, B/A, interval, noise, visible.
    values: Vec<String>,
    mark: &'static str,
    class: &'static str,
    verdict: String,
}

#[derive(Debug, Serialize)]
struct Setting {
    end: &'static str,
    id: String,
    a: String,
    b: String,
}

/// The comparison of exactly two records; `None` for other numbers.
pub(super) fn comparison(records: &[Record], anchors: &[Anchors]) -> Option<Comparison> {
    let ([a, b], [in_a, in_b]) = (records, anchors) else {
        return None;
    };
    let (latency_a, latency_b) = (a.experiment.latency, b.experiment.latency);
    if latency_a != latency_b {
        let refusal = format!(
            "The records are not compared: a latency is {} in A and {} in B.",
            latency_a.words(),
            latency_b.words()
        );
        return Some(Comparison { refusal, ..Comparison::default() });
    }
    let name = |cell: &Cell| Name {
        name: format!("{} {} B", cell_name(cell), cell.size_bytes),
        id: in_a.id_of(cell).or_else(|| in_b.id_of(cell)).unwrap_or_default().to_owned(),
    };
    let found = compare(a, b, CompareOptions::default());
    let mut conclusion = compare::conclusion(&found);
    let result = conclusion.pop().unwrap_or_default();
    let lists = compare::cell_lists(&found).into_iter().filter(|(_, cells)| !cells.is_empty());
    Some(Comparison {
        refusal: String::new(),
        result,
        conclusion,
        latency: latency_a.words(),
        chart: chart(&found, &name),
        cells: cells(&found, latency_a, &name),
        lists: lists.map(|(title, cells)| (title, cells.iter().map(&name).collect())).collect(),
        settings: found.settings.iter().map(setting).collect(),
        notes: found.notes,
    })
}

fn setting(found: &SettingDifference) -> Setting {
    Setting { end: found.end, id: found.id.clone(), a: found.a.clone(), b: found.b.clone() }
}

/// Figures that a side does not support are said of latencies only, which every cell of such a workload has.
fn cells(found: &compare::Comparison, latency: Latency, name: &impl Fn(&Cell) -> Name) -> Vec<CellVerdicts> {
    let lines = compare::lines(found);
    let is_told = |line: &&Line| line.figure.is_some() || latency != Latency::None;
    let mut cells: Vec<(&Cell, CellVerdicts)> = Vec::new();
    for line in lines.iter().filter(is_told) {
        let row = row(line);
        match cells.last_mut() {
            Some((cell, verdicts)) if *cell == line.cell => verdicts.rows.push(row),
            _ => {
                let family = family(&line.cell.path);
                cells.push((line.cell, CellVerdicts { name: name(line.cell), family, rows: vec![row] }));
            }
        }
    }
    cells.into_iter().map(|(_, verdicts)| verdicts).collect()
}

fn row(line: &Line) -> Row {
    let (class, mark) = line.figure.map_or(("unsupported", "–"), look);
    let texts = &line.texts;
    let dashed = |text: &String| if text == "-" { "–".to_owned() } else { text.replace("..", " to ") };
    Row {
        // The terminal's own texts, so that both say the same.
        figure: texts[2].clone(),
        values: texts[3..compare::COLUMNS.len() - 1].iter().map(dashed).collect(),
        mark,
        class,
        verdict: texts.last().cloned().unwrap_or_default(),
    }
}

/// Class of the colour and a sign, so that a verdict is not told by colour alone.
fn look(figure: &Figure) -> (&'static str, &'static str) {
    match (figure.verdict, figure.is_only_alone()) {
        (Verdict::Better, false) => ("better", "▼"),
        (Verdict::Worse, false) => ("worse", "▲"),
        (Verdict::Better, true) => ("alone", "▽"),
        (Verdict::Worse, true) => ("alone", "△"),
        (Verdict::NoDifference, _) => ("same", "="),
        (Verdict::CannotTell, _) => ("unknown", "?"),
    }
}

/// Changes of the medians, percent; `None` where none has an interval.
fn chart(found: &compare::Comparison, name: &impl Fn(&Cell) -> Name) -> Option<String> {
    let mut rows = Vec::new();
    let mut links = Vec::new();
    for cell in &found.cells {
        let p50 = cell.figure(Quantity::P50).filter(|figure| figure.change.is_finite() && !figure.is_lost());
        let Some((figure, (low, high))) = p50.and_then(|figure| Some((figure, figure.interval?))) else {
            continue;
        };
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let name = name(&cell.cell);
        rows.push(IntervalRow {
            tip: format!(
                "{}: p50 {:+.1} %, interval {:+.1} to {:+.1} %, {}",
                name.name,
                percent(figure.change),
                percent(low),
                percent(high),
                compare::verdict_text(figure)
            ),
            label: name.name,
            value: percent(figure.change),
            low: percent(low),
            high: percent(high),
            class: family(&cell.cell.path),
            is_sure: figure.is_confirmed,
        });
        links.push(name.id);
    }
    let caption = "change of p50 from A to B, percent; left is faster · filled: counts as a difference, hollow: does not · \
                   bars are the intervals";
    let least_reach = found.options.threshold_percent * 2.0;
    (!rows.is_empty())
        .then(|| linked_intervals(&rows, &links, "change of the median of each cell from A to B", caption, least_reach))
}

//! What to doubt, and what the program chose: each thing is said once, for all cells that it is about.

use serde::Serialize;

use super::anchors::Anchors;
use crate::record::{Record, Run, Warning};
use crate::render::names;
use crate::render::units::cell_name;

/// A kind of warning, with what was seen on which cells.
#[derive(Debug, Serialize)]
pub(super) struct Doubt {
    code: String,
    advice: String,
    seen: Vec<Seen>,
}

/// What was seen, and of what.
#[derive(Debug, Serialize)]
struct Seen {
    whose: Vec<Whose>,
    text: String,
}

/// The experiment or a cell.
#[derive(Debug, PartialEq, Serialize)]
struct Whose {
    name: String,
    /// Of the cell's row in the table of figures; empty for the experiment.
    id: String,
}

/// Warnings of the record, then those of its cells; a code and its advice are said once for all of them.
pub(super) fn doubts(record: &Record, anchors: &Anchors) -> Vec<Doubt> {
    let experiment = || Whose { name: "the experiment".to_owned(), id: String::new() };
    let of_record = record.warnings.iter().map(|warning| (experiment(), warning));
    let of_runs =
        record.runs.iter().flat_map(|run| run.warnings.iter().map(move |warning| (whose(run, anchors), warning)));
    let mut doubts: Vec<Doubt> = Vec::new();
    for (whose, warning) in of_record.chain(of_runs) {
        let Warning { code, text, advice } = warning.clone();
        let same = |known: &&mut Doubt| known.code == code && known.advice == advice;
        let Some(known) = doubts.iter_mut().find(same) else {
            doubts.push(Doubt { code, advice, seen: vec![Seen { whose: vec![whose], text }] });
            continue;
        };
        match known.seen.iter_mut().find(|seen| seen.text == text) {
            Some(seen) => seen.whose.push(whose),
            None => known.seen.push(Seen { whose: vec![whose], text }),
        }
    }
    doubts
}

fn whose(run: &Run, anchors: &Anchors) -> Whose {
    Whose { name: format!("{} {} B", cell_name(&run.cell), run.cell.size_bytes), id: anchors.id(run).to_owned() }
}

/// Notes with the cells they are about.
pub(super) fn notes(record: &Record) -> Vec<(String, String)> {
    let mut notes: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in &record.runs {
        for note in &run.notes {
            match notes.iter_mut().find(|(text, _)| text == note) {
                Some((_, runs)) => runs.push(run),
                None => notes.push((note, vec![run])),
            }
        }
    }
    notes.into_iter().map(|(text, runs)| (names(record, &runs), text.to_owned())).collect()
}

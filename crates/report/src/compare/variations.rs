//! Values of settings against each other, within one experiment: its rounds took turns.

use super::{CellComparison, CompareOptions, correction};
use crate::record::{Cell, Record, Run};

/// A cell under some values of settings against the same cell under others.
#[derive(Debug, Clone, PartialEq)]
pub struct VariationComparison {
    /// The cell under the values that were named first.
    pub first: Cell,
    /// The other cell, and its figures against those of the first.
    pub other: CellComparison,
}

/// Every cell whose settings were varied against the first of its variations. Nothing for an experiment that varied
/// none.
#[must_use]
pub fn compare_variations(record: &Record, options: CompareOptions) -> Vec<VariationComparison> {
    let mut firsts: Vec<&Run> = Vec::new();
    let mut comparisons = Vec::new();
    for run in record.runs.iter().filter(|run| !run.cell.variation.is_empty()) {
        let Some(first) = firsts.iter().find(|first| are_alike(&first.cell, &run.cell)) else {
            firsts.push(run);
            continue;
        };
        let other = CellComparison::new(first, run, options);
        comparisons.push(VariationComparison { first: first.cell.clone(), other });
    }
    correction::confirm_all(comparisons.iter_mut().map(|comparison| &mut comparison.other), options.wrong());
    comparisons
}

/// Whether two cells differ in the values of settings alone.
fn are_alike(one: &Cell, other: &Cell) -> bool {
    let plain = |cell: &Cell| Cell { variation: Default::default(), ..cell.clone() };
    plain(one) == plain(other)
}

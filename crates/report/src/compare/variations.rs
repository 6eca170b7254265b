//! Values of settings against each other, within one experiment: its rounds took turns.

use super::bootstrap::{self, Side};
use super::{CellComparison, CompareOptions};
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
    for (index, run) in record.runs.iter().enumerate().filter(|(_, run)| !run.cell.variation.is_empty()) {
        let Some(first) = firsts.iter().find(|first| are_alike(&first.cell, &run.cell)) else {
            firsts.push(run);
            continue;
        };
        let seed = options.seed.wrapping_add((index as u64) << 32);
        let figure = |a: Side, b: Side, salt| bootstrap::figure(&a, &b, options, seed ^ salt);
        let p50 = figure(Side::p50(first), Side::p50(run), 0);
        let p99 = figure(Side::p99(first), Side::p99(run), 1);
        let other = CellComparison { cell: run.cell.clone(), p50, p99 };
        comparisons.push(VariationComparison { first: first.cell.clone(), other });
    }
    comparisons
}

/// Whether two cells differ in the values of settings alone.
fn are_alike(one: &Cell, other: &Cell) -> bool {
    let plain = |cell: &Cell| Cell { variation: Default::default(), ..cell.clone() };
    plain(one) == plain(other)
}

//! Many figures at once: of twenty that do not differ one shows a difference "with 95 %" by chance.
//!
//! How much neighbouring rounds resemble each other is hardly known from the rounds of one cell, and the figure for which it
//! came out too small is the one that stands out. All cells together tell it better: for the gate, a cell's rounds
//! resemble each other at least as much as those of all cells do.
//!
//! Holm's correction (Scandinavian Journal of Statistics 6, 1979): the figure with the least probability must pass a level
//! divided by the number of figures, the next by one less, and so on to the first that does not. Where nothing
//! differs, all of them are kept out with the stated confidence, however the figures depend on each other.

use super::drift::Drift;
use super::estimate::Estimate;
use super::{CellComparison, Figure};

/// Marks the differences of all cells that count with all figures taken together.
pub(super) fn confirm_all<'a>(cells: impl Iterator<Item = &'a mut CellComparison>, wrong: f64) {
    let cells: Vec<&mut CellComparison> = cells.collect();
    let mut drift = Drift::default();
    for cell in &cells {
        drift.add(&cell.drift);
    }
    confirm(cells.into_iter().flat_map(|cell| &mut cell.figures), drift.correlation(), wrong);
}

/// Figures without probability keep their mark.
fn confirm<'a>(figures: impl Iterator<Item = &'a mut Figure>, least_correlation: f64, wrong: f64) {
    let p_value = |figure: &Figure| match figure.estimate {
        Some(estimate) => {
            let correlation = estimate.correlation.max(least_correlation);
            Some(Estimate { correlation, ..estimate }.p_value())
        }
        None => figure.p_value,
    };
    let mut tested: Vec<(f64, &mut Figure)> =
        figures.filter_map(|figure| p_value(figure).map(|p_value| (p_value, figure))).collect();
    tested.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = tested.len();
    let mut still = true;
    for (place, (p_value, figure)) in tested.into_iter().enumerate() {
        still &= p_value <= wrong / (count - place) as f64;
        figure.is_confirmed = still && figure.verdict.is_difference();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Quantity, Verdict};

    fn confirmed(p_values: &[f64]) -> Vec<bool> {
        let figure = |&p_value: &f64| Figure {
            p_value: Some(p_value),
            verdict: Verdict::Worse,
            ..Figure::lost(Quantity::P50, 1.0, 2.0)
        };
        let mut figures: Vec<Figure> = p_values.iter().map(figure).collect();
        confirm(figures.iter_mut(), 0.0, 0.05);
        figures.iter().map(|figure| figure.is_confirmed).collect()
    }

    #[test]
    fn each_step_passes_a_larger_level_until_one_does_not() {
        assert_eq!(confirmed(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
        assert_eq!(confirmed(&[0.04]), [true]);
        assert_eq!(confirmed(&[0.04, 0.04]), [false, false]);
        assert_eq!(confirmed(&[0.02, 0.045]), [true, true]);
    }
}

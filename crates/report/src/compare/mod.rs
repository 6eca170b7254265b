//! Two records against each other, cell by cell, for people and as a gate for scripts.
//!
//! The two sides are separate runs, so everything that changed on the machine between them is in the result;
//! the comparison says so, and defends against it. Whole rounds are what varies (`rounds.rs`); rounds that resemble their
//! neighbours count for less. The noise floor is what the same statistic gives for each side against itself. A difference
//! smaller than the stated threshold is not called one, and "no difference" is said only where one of the threshold or
//! more is ruled out; else the verdict is "cannot tell", with the smallest difference that could have been told.
//!
//! Interval and verdict of a figure are its own: they hold with the stated confidence for that figure alone, and no
//! other cell changes them. The gate asks something else, whether anything differs at all, and so it counts how many
//! figures were looked at (`correction.rs`).

mod correction;
mod drift;
mod estimate;
mod figure;
mod loss;
mod notes;
mod processor;
mod random;
mod rounds;
mod settings;
mod tail;
mod text;
mod variations;

use std::collections::BTreeMap;

use drift::Drift;
use random::SplitMix64;
use rounds::Rounds;

use crate::record::{Cell, Record, Run, Warning};

pub use figure::{Figure, Quantity, Verdict};
pub use settings::SettingDifference;
pub(crate) use settings::reading_text;
pub use text::render_comparison;
pub(crate) use text::{COLUMNS, Line, cell_lists, conclusion, lines, verdict_text};
pub use variations::{VariationComparison, compare_variations};

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Confidence of each figure's interval, and of the gate's answer; between 0 and 1.
    pub confidence: f64,
    /// Least difference of a latency or CPU time worth a verdict, percent.
    pub threshold_percent: f64,
    /// The same for CPU times of records that have them for the whole run only, and so without interval.
    pub cpu_threshold_percent: f64,
    /// Difference of lost messages that "no difference" must rule out, percent of the messages sent.
    pub loss_threshold_percent: f64,
    /// Bootstrap resamples for each figure.
    pub resamples: u32,
    /// Seed of the resampling: the same records and seed give the same verdicts.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            threshold_percent: 3.0,
            cpu_threshold_percent: 10.0,
            loss_threshold_percent: 0.1,
            resamples: 2000,
            seed: 1,
        }
    }
}

impl CompareOptions {
    /// How often an interval may be wrong.
    pub(crate) fn wrong(&self) -> f64 {
        1.0 - self.confidence.clamp(0.5, 0.9999)
    }
}

/// One cell that both records have.
#[derive(Debug, Clone, PartialEq)]
pub struct CellComparison {
    /// Which cell.
    pub cell: Cell,
    /// What both sides support, in the order of [`Quantity`].
    pub figures: Vec<Figure>,
    /// How neighbouring rounds of both sides go together.
    drift: Drift,
}

impl CellComparison {
    /// The figure of a quantity; `None` when either side does not support it.
    #[must_use]
    pub fn figure(&self, quantity: Quantity) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.quantity == quantity)
    }

    fn new(a: &Run, b: &Run, options: CompareOptions) -> Self {
        let of_rounds = |quantity| {
            let (of_a, of_b) = (Rounds::of(a, quantity)?, Rounds::of(b, quantity)?);
            let random = SplitMix64::of_figure(options.seed, [&a.cell, &b.cell], quantity);
            rounds::figure(quantity, &of_a, &of_b, options, random)
        };
        let drift = rounds::drift_of_medians(a, b);
        let p50 = of_rounds(Quantity::P50);
        let visible_percent = p50.and_then(|figure| figure.smallest_visible_percent);
        let cpu =
            |quantity| of_rounds(quantity).or_else(|| processor::figure(quantity, a, b, visible_percent, options));
        let figures = [
            p50,
            of_rounds(Quantity::P99),
            tail::figure(a, b, drift.correlation(), options),
            loss::figure(a, b, options),
            of_rounds(Quantity::MessageTime),
            cpu(Quantity::CpuInitiator),
            cpu(Quantity::CpuResponder),
        ];
        Self { cell: b.cell.clone(), figures: figures.into_iter().flatten().collect(), drift }
    }
}

/// Two records against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// How it was done.
    pub options: CompareOptions,
    /// Cells that both have, in order of path and size.
    pub cells: Vec<CellComparison>,
    /// Cells that only A has: B lost them, which counts as a difference.
    pub only_a: Vec<Cell>,
    /// Cells that only B has.
    pub only_b: Vec<Cell>,
    /// Cells in which only A received anything, which counts as a difference.
    pub answered_only_in_a: Vec<Cell>,
    /// Cells in which only B received anything, which counts as a difference.
    pub answered_only_in_b: Vec<Cell>,
    /// Cells in which neither side received anything.
    pub never_answered: Vec<Cell>,
    /// Settings that differ.
    pub settings: Vec<SettingDifference>,
    /// What to keep in mind; never empty, as two records are never interleaved.
    pub notes: Vec<Warning>,
}

impl Comparison {
    /// True when anything differs with all figures taken together, or when a cell is missing in B or is answered on one
    /// side only: what a script's exit code stands for.
    #[must_use]
    pub fn has_difference(&self) -> bool {
        let cells = [&self.only_a, &self.answered_only_in_a, &self.answered_only_in_b];
        self.figures().any(|figure| figure.is_confirmed) || cells.iter().any(|cells| !cells.is_empty())
    }

    /// True when some figure cannot be told, when a cell has no median on one side, or when there is no cell to compare.
    #[must_use]
    pub fn has_undecided(&self) -> bool {
        let has_no_median = |cell: &CellComparison| {
            [Quantity::P50, Quantity::MessageTime].iter().all(|quantity| cell.figure(*quantity).is_none())
        };
        self.cells.is_empty()
            || self.cells.iter().any(has_no_median)
            || self.figures().any(|figure| figure.verdict == Verdict::CannotTell)
            || self.figures().any(|figure| figure.p_value.is_some() && figure.is_only_alone())
    }

    /// All figures of all cells.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.cells.iter().flat_map(|cell| &cell.figures)
    }
}

/// Compares `b` against `a`.
#[must_use]
pub fn compare(a: &Record, b: &Record, options: CompareOptions) -> Comparison {
    let runs_a: BTreeMap<&Cell, &Run> = a.runs.iter().map(|run| (&run.cell, run)).collect();
    let runs_b: BTreeMap<&Cell, &Run> = b.runs.iter().map(|run| (&run.cell, run)).collect();
    let only = |these: &BTreeMap<&Cell, &Run>, those: &BTreeMap<&Cell, &Run>| {
        let missing = these.keys().filter(|cell| !those.contains_key(*cell));
        missing.map(|&cell| cell.clone()).collect::<Vec<_>>()
    };
    let both: Vec<(&Run, &Run)> =
        runs_a.iter().filter_map(|(cell, &run_a)| Some((run_a, *runs_b.get(cell)?))).collect();
    let answered = |in_a: bool, in_b: bool| {
        let wanted = both.iter().filter(|(a, b)| (a.samples > 0, b.samples > 0) == (in_a, in_b));
        wanted.map(|(a, _)| a.cell.clone()).collect::<Vec<_>>()
    };
    let mut cells: Vec<CellComparison> = both.iter().map(|(a, b)| CellComparison::new(a, b, options)).collect();
    correction::confirm_all(cells.iter_mut(), options.wrong());
    let mut comparison = Comparison {
        options,
        cells,
        only_a: only(&runs_a, &runs_b),
        only_b: only(&runs_b, &runs_a),
        answered_only_in_a: answered(true, false),
        answered_only_in_b: answered(false, true),
        never_answered: answered(false, false),
        settings: settings::that_differ(a, b),
        notes: Vec::new(),
    };
    comparison.notes = notes::notes(a, b, &comparison);
    comparison
}

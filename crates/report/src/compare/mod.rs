//! Two records against each other, cell by cell: faster, slower or no difference.
//!
//! The two sides are separate runs, so everything that changed on the machine between them is in the result;
//! the comparison says so, and defends against it in three ways. The interval comes from a bootstrap that
//! resamples whole rounds and then blocks within them, so that samples of one round do not count as
//! independent. The noise floor is what the same statistic gives for each side against itself (odd rounds
//! against even ones). And a difference smaller than the stated threshold is not called one.

mod bootstrap;
mod text;
mod variations;

use std::collections::{BTreeMap, BTreeSet};

use bootstrap::Side;

use crate::record::{Cell, Reading, Record, Run, Warning};

pub use text::render_comparison;
pub use variations::{VariationComparison, compare_variations};

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Confidence of each figure's interval, between 0 and 1.
    pub confidence: f64,
    /// Least difference worth a verdict, percent.
    pub threshold_percent: f64,
    /// Bootstrap resamples for each figure.
    pub resamples: u32,
    /// Seed of the resampling: the same records and seed give the same verdicts.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { confidence: 0.95, threshold_percent: 3.0, resamples: 2000, seed: 1 }
    }
}

/// B against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B takes less time.
    Faster,
    /// B takes more time.
    Slower,
    /// Neither can be claimed.
    NoDifference,
}

impl Verdict {
    /// As tables have it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "FASTER",
            Verdict::Slower => "SLOWER",
            Verdict::NoDifference => "no difference",
        }
    }
}

/// One quantile of one cell, B against A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Median over A's blocks, half round trip.
    pub a_ns: f64,
    /// Median over B's blocks, half round trip.
    pub b_ns: f64,
    /// `b_ns / a_ns`.
    pub ratio: f64,
    /// Lower end of the ratio's interval.
    pub low: f64,
    /// Upper end of the ratio's interval.
    pub high: f64,
    /// The larger difference of either side against itself, percent.
    pub noise_floor_percent: f64,
    /// What may be claimed.
    pub verdict: Verdict,
}

/// One cell that both records have.
#[derive(Debug, Clone, PartialEq)]
pub struct CellComparison {
    /// Which cell.
    pub cell: Cell,
    /// The median; `None` when either side does not support it.
    pub p50: Option<Figure>,
    /// The 99 % quantile; `None` when either side does not support it.
    pub p99: Option<Figure>,
}

/// One setting that differs between the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// `initiator` or `responder`.
    pub end: &'static str,
    /// Setting id.
    pub id: String,
    /// A's reading in words.
    pub a: String,
    /// B's reading in words.
    pub b: String,
}

/// Two records against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// How it was done.
    pub options: CompareOptions,
    /// Cells that both have, in order of path and size.
    pub cells: Vec<CellComparison>,
    /// Cells that only A has.
    pub only_a: Vec<Cell>,
    /// Cells that only B has.
    pub only_b: Vec<Cell>,
    /// Settings that differ.
    pub settings: Vec<SettingDifference>,
    /// What to keep in mind; never empty, as two records are never interleaved.
    pub notes: Vec<Warning>,
}

impl Comparison {
    /// True when any figure is faster or slower: what a script's exit code stands for.
    #[must_use]
    pub fn has_difference(&self) -> bool {
        self.figures().any(|figure| figure.verdict != Verdict::NoDifference)
    }

    /// All figures of all cells.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.cells.iter().flat_map(|cell| cell.p50.iter().chain(&cell.p99))
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
    let cells: Vec<CellComparison> = runs_a
        .iter()
        .enumerate()
        .filter_map(|(index, (&cell, &run_a))| {
            let run_b = *runs_b.get(cell)?;
            // Each cell has its own stream of random numbers, so that one cell's verdict does not hang on
            // which others were measured beside it.
            let seed = options.seed.wrapping_add((index as u64) << 32);
            let figure = |a: Side, b: Side, salt| bootstrap::figure(&a, &b, options, seed ^ salt);
            Some(CellComparison {
                cell: cell.clone(),
                p50: figure(Side::p50(run_a), Side::p50(run_b), 0),
                p99: figure(Side::p99(run_a), Side::p99(run_b), 1),
            })
        })
        .collect();
    let mut comparison = Comparison {
        options,
        cells,
        only_a: only(&runs_a, &runs_b),
        only_b: only(&runs_b, &runs_a),
        settings: settings_that_differ(a, b),
        notes: Vec::new(),
    };
    comparison.notes = notes(a, b, &comparison);
    comparison
}

fn settings_that_differ(a: &Record, b: &Record) -> Vec<SettingDifference> {
    let ends = [
        ("initiator", &a.environment.initiator, &b.environment.initiator),
        ("responder", &a.environment.responder, &b.environment.responder),
    ];
    let mut differences = Vec::new();
    for (end, of_a, of_b) in ends {
        let ids: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        for id in ids {
            let (in_a, in_b) = (of_a.get(id), of_b.get(id));
            if in_a != in_b {
                let (a, b) = (reading_text(in_a), reading_text(in_b));
                differences.push(SettingDifference { end, id: id.clone(), a, b });
            }
        }
    }
    differences
}

/// A reading in words.
pub(crate) fn reading_text(reading: Option<&Reading>) -> String {
    match reading {
        None => "not recorded".to_owned(),
        Some(Reading::Value { value }) if value.is_empty() => "(empty)".to_owned(),
        Some(Reading::Value { value }) => value.clone(),
        Some(Reading::Unsupported) => "unsupported".to_owned(),
        Some(Reading::NeedsRoot) => "needs root".to_owned(),
        Some(Reading::Unknown { why }) => format!("unknown ({why})"),
    }
}

fn notes(a: &Record, b: &Record, comparison: &Comparison) -> Vec<Warning> {
    let note =
        |code: &str, text: String, advice: &str| Warning { code: code.to_owned(), text, advice: advice.to_owned() };
    let mut notes = vec![note(
        "not-interleaved",
        format!(
            "A ({}) and B ({}) are separate runs: whatever else changed in between is in every figure",
            a.started_at, b.started_at
        ),
        "confirm a verdict that matters by measuring A and B again in the opposite order, or as \
            cells of one experiment",
    )];
    let figures = comparison.figures().count();
    let by_chance = figures as f64 * (1.0 - comparison.options.confidence);
    if by_chance >= 1.0 {
        notes.push(note(
            "many-figures",
            format!(
                "{figures} figures are compared at {} % confidence: about {by_chance:.0} \
                intervals miss one by chance alone",
                comparison.options.confidence * 100.0
            ),
            "trust a verdict that holds for several sizes of a path more than a single one, or raise the confidence",
        ));
    }
    let fewest = a.runs.iter().chain(&b.runs).map(|run| run.rounds.len()).min().unwrap_or(0);
    if fewest < bootstrap::FEW_ROUNDS {
        notes.push(note(
            "few-rounds",
            format!(
                "a cell has only {fewest} rounds: how much rounds differ is hardly known, and \
                intervals are wide or missing"
            ),
            "measure with --rounds 10 or more",
        ));
    }
    let (ea, eb) = (&a.experiment, &b.experiment);
    for (what, in_a, in_b) in [
        ("workload", &ea.workload, &eb.workload),
        ("cable", &ea.cable, &eb.cable),
        ("cable detail", &ea.cable_detail, &eb.cable_detail),
        ("CPUs", &cpus(ea), &cpus(eb)),
        ("fault", &ea.fault.clone().unwrap_or_default(), &eb.fault.clone().unwrap_or_default()),
        ("clock", &a.clock.source, &b.clock.source),
        ("nearwire version", &a.nearwire_version, &b.nearwire_version),
    ] {
        if in_a != in_b {
            let text = format!("the {what} differs: A has `{in_a}`, B has `{in_b}`");
            notes.push(note("differs", text, "a verdict is about everything that differs, this too"));
        }
    }
    notes
}

fn cpus(experiment: &crate::record::Experiment) -> String {
    let name = |cpu: Option<u32>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    format!("{},{}", name(experiment.cpu_initiator), name(experiment.cpu_responder))
}

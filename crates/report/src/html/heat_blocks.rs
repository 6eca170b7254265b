//! Where the blocks of a record lie in time, and how far each is from what is usual for its cell.

use std::collections::BTreeMap;

use crate::record::{Block, Record, Round, Run};
use crate::statistics::trend::median;

/// Ratios at which the next level begins; each is about twice as far as the one before on a log scale.
pub(super) const EDGES: [f64; 5] = [1.03, 1.1, 1.25, 1.6, 2.5];
/// Pieces of all rows together, at most.
const MOST_PIECES: usize = 4000;
/// Where a cell is measured for a lesser share of the time, its rounds are too narrow to be drawn at their own times.
const LEAST_SHARE: f64 = 0.25;

/// Which figure of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    P50,
    P99,
}

impl Figure {
    fn of_block(self, block: &Block) -> Option<f64> {
        match self {
            Figure::P50 => Some(block.p50_ns),
            Figure::P99 => block.p99_ns,
        }
    }

    fn of_round(self, round: &Round) -> Option<f64> {
        match self {
            Figure::P50 => round.p50_ns,
            Figure::P99 => round.p99_ns,
        }
    }

    /// What the run itself says. The p99 of a run is not that of its usual block, as rare messages are in few blocks.
    fn of_run(self, run: &Run) -> Option<f64> {
        match self {
            Figure::P50 => run.latency_ns.p50,
            Figure::P99 => None,
        }
    }
}

/// A stretch of time with what its blocks took, against what is usual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub(super) from_ns: f64,
    pub(super) to_ns: f64,
    pub(super) ratio: f64,
}

impl Piece {
    /// From -5, much faster than usual, to 5, much slower.
    pub(super) fn level(&self) -> i32 {
        let distance = self.ratio.ln().abs();
        let steps = EDGES.iter().filter(|edge| distance >= edge.ln()).count() as i32;
        if self.ratio < 1.0 { -steps } else { steps }
    }
}

/// One cell's blocks.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) run: &'a Run,
    pub(super) usual_ns: f64,
    pub(super) pieces: Vec<Piece>,
}

/// The blocks of all cells.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    pub(super) rows: Vec<Row<'a>>,
    /// When the last round ended, since the experiment's start.
    pub(super) end_ns: f64,
    /// Each round is drawn as wide as the turn in which all cells were measured once.
    pub(super) is_by_turns: bool,
    /// How many blocks a piece stands for.
    pub(super) blocks_of_piece: usize,
}

impl<'a> Blocks<'a> {
    /// Cells without such figures have no row.
    pub(super) fn of(record: &Record, runs: &[&'a Run], figure: Figure) -> Self {
        let rounds = || record.runs.iter().flat_map(|run| &run.rounds);
        let end_ns = rounds().map(round_end_ns).fold(0.0, f64::max);
        let measured_ns: f64 = rounds().map(|round| round.duration_ns as f64).sum();
        let is_by_turns = measured_ns < end_ns * record.runs.len() as f64 * LEAST_SHARE;
        let turns = if is_by_turns { turns(record, end_ns) } else { BTreeMap::new() };
        let mut rows: Vec<Row> = runs.iter().filter_map(|run| row(run, figure, &turns)).collect();
        let pieces: usize = rows.iter().map(|row| row.pieces.len()).sum();
        let blocks_of_piece = pieces.div_ceil(MOST_PIECES).max(1);
        for row in &mut rows {
            row.pieces = row.pieces.chunks(blocks_of_piece).filter_map(together).collect();
        }
        Self { rows, end_ns, is_by_turns, blocks_of_piece }
    }
}

fn round_end_ns(round: &Round) -> f64 {
    round.started_ns as f64 + round.duration_ns as f64
}

/// When each turn began and ended, by the number of its round.
fn turns(record: &Record, end_ns: f64) -> BTreeMap<u32, (f64, f64)> {
    let mut starts: BTreeMap<u32, f64> = BTreeMap::new();
    for round in record.runs.iter().flat_map(|run| &run.rounds) {
        let start_ns = starts.entry(round.index).or_insert(f64::INFINITY);
        *start_ns = start_ns.min(round.started_ns as f64);
    }
    let mut turns = BTreeMap::new();
    let mut next_ns = end_ns;
    for (&index, &start_ns) in starts.iter().rev() {
        turns.insert(index, (start_ns.min(next_ns), next_ns));
        next_ns = next_ns.min(start_ns);
    }
    turns
}

/// Blocks of a round have the same number of samples each, so they are spread evenly over it.
fn row<'a>(run: &'a Run, figure: Figure, turns: &BTreeMap<u32, (f64, f64)>) -> Option<Row<'a>> {
    let mut timed: Vec<(f64, f64, f64)> = Vec::new();
    for round in &run.rounds {
        let own_ns = (round.started_ns as f64, round_end_ns(round));
        let (from_ns, to_ns) = turns.get(&round.index).copied().unwrap_or(own_ns);
        let mut values: Vec<Option<f64>> = round.blocks.iter().map(|block| figure.of_block(block)).collect();
        if values.iter().all(Option::is_none) {
            values = vec![figure.of_round(round)];
        }
        let width_ns = (to_ns - from_ns) / values.len() as f64;
        for (index, value_ns) in values.into_iter().enumerate() {
            let Some(value_ns) = value_ns.filter(|ns| ns.is_finite() && *ns > 0.0) else { continue };
            let start_ns = from_ns + index as f64 * width_ns;
            timed.push((start_ns, start_ns + width_ns, value_ns));
        }
    }
    let values: Vec<f64> = timed.iter().map(|(.., value_ns)| *value_ns).collect();
    let usual_ns = figure.of_run(run).or_else(|| median(&values)).filter(|ns| ns.is_finite() && *ns > 0.0)?;
    let pieces: Vec<Piece> = timed
        .into_iter()
        .map(|(from_ns, to_ns, value_ns)| Piece { from_ns, to_ns, ratio: value_ns / usual_ns })
        .filter(|piece| piece.ratio.is_normal())
        .collect();
    (!pieces.is_empty()).then_some(Row { run, usual_ns, pieces })
}

/// One piece for several, with their median.
fn together(pieces: &[Piece]) -> Option<Piece> {
    let ratios: Vec<f64> = pieces.iter().map(|piece| piece.ratio).collect();
    Some(Piece { from_ns: pieces.first()?.from_ns, to_ns: pieces.last()?.to_ns, ratio: median(&ratios)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_as_far_apart_below_as_above() {
        let level = |ratio| Piece { from_ns: 0.0, to_ns: 1.0, ratio }.level();
        assert_eq!([1.0, 1.02, 1.04, 1.2, 1.3, 2.0, 9.0].map(level), [0, 0, 1, 2, 3, 4, 5]);
        assert_eq!([1.0 / 1.04, 0.5, 0.1].map(level), [-1, -4, -5]);
    }

    #[test]
    fn several_pieces_become_one_with_their_median() {
        let piece = |at: f64, ratio| Piece { from_ns: at, to_ns: at + 1.0, ratio };
        let found = together(&[piece(0.0, 1.0), piece(1.0, 9.0), piece(2.0, 1.1)]).unwrap();
        assert_eq!(found, Piece { from_ns: 0.0, to_ns: 3.0, ratio: 1.1 });
    }
}

//! What a path carries: the runs of a load at several rates, put side by side.

use std::collections::BTreeMap;

use crate::record::{Cell, Record, Run};

/// Of so many messages one may be lost where a rate is carried.
const LOST_ONE_OF: u64 = 1000;
/// Up to the knee, p99 is at most this many times what it is at the least rate.
const KNEE: f64 = 2.0;
/// A knee is between rates.
const RATES_FOR_KNEE: usize = 3;

/// One combination of path, size and modes at its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity<'a> {
    /// The combination, without a rate.
    pub cell: Cell,
    /// Its runs by rising rate.
    pub runs: Vec<&'a Run>,
    /// How many of them, from the least rate on, were carried: what was offered left in time, and at most one message of a thousand was
    /// lost.
    pub carried: usize,
    /// The run of the greatest rate that was carried and whose p99 is at most twice that of the least rate; `None` where too few rates were
    /// measured or p99 is not supported.
    pub knee: Option<&'a Run>,
}

impl Capacity<'_> {
    /// The run of the greatest rate that was carried.
    #[must_use]
    pub fn greatest(&self) -> Option<&Run> {
        self.carried.checked_sub(1).map(|index| self.runs[index])
    }

    /// The run of the least rate that was not carried.
    #[must_use]
    pub fn first_beyond(&self) -> Option<&Run> {
        self.runs.get(self.carried).copied()
    }
}

/// The capacities of a record's cells, in the order of the cells; empty for workloads without a rate.
#[must_use]
pub fn capacities(record: &Record) -> Vec<Capacity<'_>> {
    let mut by_cell: BTreeMap<Cell, Vec<&Run>> = BTreeMap::new();
    for run in record.runs.iter().filter(|run| run.cell.rate_per_second.is_some()) {
        by_cell.entry(Cell { rate_per_second: None, ..run.cell.clone() }).or_default().push(run);
    }
    by_cell.into_iter().map(|(cell, runs)| capacity(cell, runs)).collect()
}

fn capacity(cell: Cell, mut runs: Vec<&Run>) -> Capacity<'_> {
    runs.sort_by_key(|run| run.cell.rate_per_second);
    let carried = runs.iter().take_while(|run| is_carried(run)).count();
    let knee = knee(&runs[..carried]).filter(|_| runs.len() >= RATES_FOR_KNEE);
    Capacity { cell, runs, carried, knee }
}

fn is_carried(run: &Run) -> bool {
    run.invalid.is_none() && run.samples > 0 && run.lost.saturating_mul(LOST_ONE_OF) <= run.sent()
}

/// Of runs by rising rate.
fn knee<'a>(runs: &[&'a Run]) -> Option<&'a Run> {
    let least_ns = runs.first()?.latency_ns.p99?;
    runs.iter().take_while(|run| run.latency_ns.p99.is_some_and(|ns| ns <= least_ns * KNEE)).last().copied()
}

//! One cell's round trips over all its rounds.

use super::doubts;
use super::modes;
use super::moments::Moments;
use super::quantiles::{Ranked, table};
use super::rank::{LEAST_SUPPORT, quantile_rank, support};
use super::spread::wider;
use super::store::{BlockSize, Every, Folded, Spreads};
use super::trend;
use crate::record::{Block, Headline, Latency, Quantile, Warning};

/// Round trips that take this much longer than the median one are slow events.
const SLOW_NS: f64 = 10_000.0;
/// Most blocks a round is cut into.
const MOST_BLOCKS: usize = 10;
/// Fewest samples in a block: the least that support a median.
const LEAST_BLOCK: usize = 20;
/// Rounds below which blocks stand in for rounds when looking for a drift.
const ROUNDS_FOR_TREND: usize = 5;

/// Collects the round trips of one cell, and how many messages were lost.
///
/// Keeps every sample, in order, up to a limit; beyond it everything goes into a histogram with three
/// significant digits and memory stays constant.
#[derive(Debug, Clone)]
pub struct Distribution {
    latency: Latency,
    exact_limit: usize,
    store: Store,
    lost: u64,
    moments: Moments,
    round_medians_ns: Vec<f64>,
    block_medians_ns: Vec<f64>,
}

#[derive(Debug, Clone)]
enum Store {
    Every(Every),
    Folded(Box<Folded>),
}

/// What one round says by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundFigures {
    /// Median half round trip; `None` when unsupported or among the lost messages.
    pub p50_ns: Option<f64>,
    /// 99 % half round trip; `None` when unsupported or among the lost messages.
    pub p99_ns: Option<f64>,
    /// Up to ten consecutive blocks of equal size (the last takes the remainder), at least 20 samples each.
    pub blocks: Vec<Block>,
}

/// What a cell's samples say, in the record's terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Round trips counted.
    pub samples: u64,
    /// Headline quantiles of half round trips; lost messages rank above all others.
    pub latency_ns: Headline,
    /// All quantiles of half round trips with intervals.
    pub quantiles: Vec<Quantile>,
    /// Mean of half round trips; like the standard deviation, of messages that came back.
    pub mean_ns: Option<f64>,
    /// Standard deviation of half round trips.
    pub standard_deviation_ns: Option<f64>,
    /// Round trips at least 10 us longer than the median one, per second of measured time.
    pub slow_events_per_second: Option<f64>,
    /// True when the quantiles come from a histogram with three significant digits.
    pub from_histogram: bool,
}

impl Distribution {
    /// An empty distribution of half round trips that keeps up to `exact_limit` samples (four bytes each) before it folds them.
    #[must_use]
    pub fn new(exact_limit: usize) -> Self {
        Self::of(Latency::HalfRtt, exact_limit)
    }

    /// The same of another latency.
    #[must_use]
    pub fn of(latency: Latency, exact_limit: usize) -> Self {
        Self {
            latency,
            exact_limit,
            store: Store::Every(Every::default()),
            lost: 0,
            moments: Moments::default(),
            round_medians_ns: Vec::new(),
            block_medians_ns: Vec::new(),
        }
    }

    /// Round trips collected.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.store {
            Store::Every(every) => every.rtt_ns.len() as u64,
            Store::Folded(folded) => folded.samples(),
        }
    }

    /// True when nothing was collected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Messages that did not come back.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a round's round trips, in the order in which they were measured, and how many more messages were lost.
    ///
    /// Where in the round they were lost is not known: each block has an equal share of them.
    pub fn record_round(&mut self, rtt_ns: &[u32], lost: u64) -> RoundFigures {
        self.lost += lost;
        for &sample in rtt_ns {
            self.moments.add(f64::from(sample) / self.latency.parts_of_rtt());
        }
        let sizes = block_sizes(rtt_ns.len(), lost);
        let figures = figures_of_round(rtt_ns, lost, &sizes, self.latency.parts_of_rtt());
        self.round_medians_ns.extend(figures.p50_ns);
        self.block_medians_ns.extend(figures.blocks.iter().map(|block| block.p50_ns));
        match &mut self.store {
            Store::Every(every) if every.rtt_ns.len() + rtt_ns.len() <= self.exact_limit => {
                every.rtt_ns.extend_from_slice(rtt_ns);
                every.rounds.push(sizes);
            }
            Store::Every(every) => {
                let mut folded = every.fold(rtt_ns, lost);
                folded.add_round(rtt_ns, &sizes);
                self.store = Store::Folded(Box::new(folded));
            }
            Store::Folded(folded) => folded.add_round(rtt_ns, &sizes),
        }
        figures
    }

    /// The cell's figures; `measured_ns` is the time spent measuring over all rounds, warm-up excluded.
    #[must_use]
    pub fn summary(&self, measured_ns: u64) -> Summary {
        let parts = self.latency.parts_of_rtt();
        let (quantiles, slow) = match &self.store {
            Store::Every(every) => {
                let (sorted_ns, spreads) = every.sorted();
                let sorted = sorted_ns.as_slice();
                (quantiles(&sorted, self.lost, &spreads, parts), slow_among(sorted))
            }
            Store::Folded(folded) => (quantiles(&**folded, self.lost, folded.spreads(), parts), slow_in(folded)),
        };
        Summary {
            samples: self.len(),
            latency_ns: headline(&quantiles),
            quantiles,
            mean_ns: self.moments.mean(),
            standard_deviation_ns: self.moments.standard_deviation(),
            slow_events_per_second: slow
                .filter(|_| measured_ns > 0)
                .map(|events| events as f64 * 1e9 / measured_ns as f64),
            from_histogram: matches!(self.store, Store::Folded(_)),
        }
    }

    /// What to doubt about the samples themselves: drift, two states, too few.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let rounds = &self.round_medians_ns;
        let series = if rounds.len() >= ROUNDS_FOR_TREND { rounds } else { &self.block_medians_ns };
        let two_levels = modes::between(rounds);
        // Under load there are those that waited and those that did not, which nothing is wrong with.
        let two_peaks = || modes::within(&self.counts()).filter(|_| self.latency == Latency::HalfRtt);
        if let Some(found) = trend::drift(series) {
            warnings.push(doubts::drifted(found));
        }
        if let Some(found) = two_levels {
            warnings.push(doubts::two_levels(found, rounds.len()));
        } else if let Some(found) = two_peaks() {
            warnings.push(doubts::two_peaks(found));
        }
        warnings.extend(doubts::too_few(self.len() + self.lost));
        warnings
    }

    /// Latencies, ascending, with how often each was seen.
    fn counts(&self) -> Vec<(f64, u64)> {
        let parts = self.latency.parts_of_rtt();
        match &self.store {
            Store::Every(every) => {
                let mut sorted_ns = every.rtt_ns.clone();
                sorted_ns.sort_unstable();
                let runs = sorted_ns.chunk_by(|a, b| a == b);
                runs.map(|run| (f64::from(run[0]) / parts, run.len() as u64)).collect()
            }
            Store::Folded(folded) => folded.buckets_ns().map(|(rtt_ns, count)| (rtt_ns / parts, count)).collect(),
        }
    }
}

fn quantiles(source: &impl Ranked, lost: u64, spreads: &Spreads, parts_of_rtt: f64) -> Vec<Quantile> {
    table(source, lost, parts_of_rtt, |index| wider(&spreads.blocks[index], &spreads.rounds[index]))
}

/// The consecutive blocks of a round; they add up to its samples and to its lost messages.
fn block_sizes(samples: usize, lost: u64) -> Vec<BlockSize> {
    if samples == 0 && lost == 0 {
        return Vec::new();
    }
    let count = (samples / LEAST_BLOCK).clamp(1, MOST_BLOCKS);
    let lost_before = |block: usize| (u128::from(lost) * block as u128 / count as u128) as u64;
    let size = |block| BlockSize { samples: samples / count, lost: lost_before(block + 1) - lost_before(block) };
    let mut blocks: Vec<BlockSize> = (0..count).map(size).collect();
    blocks[count - 1].samples += samples % count;
    blocks
}

fn figures_of_round(rtt_ns: &[u32], lost: u64, block_sizes: &[BlockSize], parts_of_rtt: f64) -> RoundFigures {
    let mut scratch = rtt_ns.to_vec();
    let p50_ns = quantile(&mut scratch, lost, 50.0, parts_of_rtt);
    let p99_ns = quantile(&mut scratch, lost, 99.0, parts_of_rtt);
    let mut blocks = Vec::with_capacity(block_sizes.len());
    let mut rest = rtt_ns;
    for size in block_sizes {
        let (block, after) = rest.split_at(size.samples);
        rest = after;
        let mut scratch = block.to_vec();
        if let Some(p50_ns) = quantile(&mut scratch, size.lost, 50.0, parts_of_rtt) {
            let p99_ns = quantile(&mut scratch, size.lost, 99.0, parts_of_rtt);
            blocks.push(Block { samples: size.samples as u64, p50_ns, p99_ns });
        }
    }
    RoundFigures { p50_ns, p99_ns, blocks }
}

/// One supported quantile, `lost` more of which rank above them; reorders `rtt_ns`.
fn quantile(rtt_ns: &mut [u32], lost: u64, percent: f64, parts_of_rtt: f64) -> Option<f64> {
    let sent = rtt_ns.len() as u64 + lost;
    if support(sent, percent) < LEAST_SUPPORT {
        return None;
    }
    let index = quantile_rank(sent, percent) as usize - 1;
    if index >= rtt_ns.len() {
        return None;
    }
    let (_, &mut value, _) = rtt_ns.select_nth_unstable(index);
    Some(f64::from(value) / parts_of_rtt)
}

fn headline(quantiles: &[Quantile]) -> Headline {
    let at = |percent| Quantile::at(quantiles, percent)?.value_ns;
    Headline {
        min: at(0.0),
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p99_9: at(99.9),
        p99_99: at(99.99),
        p99_999: at(99.999),
        max: at(100.0),
    }
}

fn slow_among(sorted_ns: &[u32]) -> Option<u64> {
    let rank = quantile_rank(sorted_ns.len() as u64, 50.0).checked_sub(1)?;
    let limit_ns = f64::from(sorted_ns[rank as usize]) + SLOW_NS;
    let first = sorted_ns.partition_point(|&rtt_ns| f64::from(rtt_ns) < limit_ns);
    Some((sorted_ns.len() - first) as u64)
}

fn slow_in(folded: &Folded) -> Option<u64> {
    let rank = quantile_rank(folded.samples(), 50.0);
    let median_ns = *folded.values_at_ns(&[rank]).first()?;
    let slow = folded.buckets_ns().filter(|&(rtt_ns, _)| rtt_ns >= median_ns + SLOW_NS);
    Some(slow.map(|(_, count)| count).sum())
}

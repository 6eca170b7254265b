//! Where the round trips are kept: every one of them, or a histogram once there are too many.

use hdrhistogram::Histogram;

use super::quantiles::{PERCENTS, Ranked};
use super::rank::quantile_rank;
use super::spread::Dispersion;

/// Longest round trip the histogram tells apart; a longer one counts as this long.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of the histogram: values are kept to 0.1 %.
const DIGITS: u8 = 3;

/// One block of a round: so many round trips, and its share of the round's lost messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockSize {
    pub(super) samples: usize,
    pub(super) lost: u64,
}

/// Round trips in arrival order, cut into rounds of blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Every {
    pub(super) rtt_ns: Vec<u32>,
    /// The blocks of each round; they add up to the samples and to the lost messages.
    pub(super) rounds: Vec<Vec<BlockSize>>,
}

/// Constant memory for any number of round trips.
#[derive(Debug, Clone)]
pub(super) struct Folded {
    histogram: Histogram<u64>,
    least_ns: u32,
    greatest_ns: u32,
    /// Where the percents were when the samples were folded; see [`Spreads`].
    spreads: Spreads,
}

/// The dispersion at each percent of [`PERCENTS`], counted against fixed thresholds.
#[derive(Debug, Clone)]
pub(super) struct Spreads {
    thresholds_ns: Vec<u32>,
    pub(super) blocks: Vec<Dispersion>,
    pub(super) rounds: Vec<Dispersion>,
}

impl Spreads {
    /// Thresholds at the quantiles of `sorted_ns` and of `lost` messages above them.
    pub(super) fn at_quantiles_of(sorted_ns: &[u32], lost: u64) -> Self {
        let sent = sorted_ns.len() as u64 + lost;
        let at = |&percent: &f64| {
            let rank = quantile_rank(sent, percent);
            rank.checked_sub(1).map_or(0, |index| sorted_ns.get(index as usize).copied().unwrap_or(u32::MAX))
        };
        Self {
            thresholds_ns: PERCENTS.iter().map(at).collect(),
            blocks: vec![Dispersion::default(); PERCENTS.len()],
            rounds: vec![Dispersion::default(); PERCENTS.len()],
        }
    }

    /// Counts one round, cut into these blocks. A lost message is beyond every threshold.
    pub(super) fn add_round(&mut self, rtt_ns: &[u32], blocks: &[BlockSize]) {
        let mut of_round = vec![0u64; PERCENTS.len()];
        let mut sent = 0;
        let mut rest = rtt_ns;
        for size in blocks {
            let (block, after) = rest.split_at(size.samples.min(rest.len()));
            rest = after;
            let sent_in_block = block.len() as u64 + size.lost;
            sent += sent_in_block;
            for (index, &count) in self.beyond(block).iter().enumerate() {
                self.blocks[index].add(sent_in_block, count + size.lost);
                of_round[index] += count + size.lost;
            }
        }
        for (index, &count) in of_round.iter().enumerate() {
            self.rounds[index].add(sent, count);
        }
    }

    /// How many samples of a block exceed each threshold.
    fn beyond(&self, block_ns: &[u32]) -> Vec<u64> {
        // steps[i] = samples that exceed exactly the first i thresholds; thresholds ascend.
        let mut steps = vec![0u64; self.thresholds_ns.len() + 1];
        for &sample in block_ns {
            steps[self.thresholds_ns.partition_point(|&threshold| threshold < sample)] += 1;
        }
        let mut beyond = vec![0u64; self.thresholds_ns.len()];
        let mut above = 0;
        for index in (0..beyond.len()).rev() {
            above += steps[index + 1];
            beyond[index] = above;
        }
        beyond
    }
}

impl Every {
    /// The samples in ascending order, and the dispersion at their quantiles.
    pub(super) fn sorted(&self) -> (Vec<u32>, Spreads) {
        let mut sorted_ns = self.rtt_ns.clone();
        sorted_ns.sort_unstable();
        let mut spreads = Spreads::at_quantiles_of(&sorted_ns, self.lost());
        let mut rest = self.rtt_ns.as_slice();
        for blocks in &self.rounds {
            let (round, after) = rest.split_at(blocks.iter().map(|block| block.samples).sum());
            rest = after;
            spreads.add_round(round, blocks);
        }
        (sorted_ns, spreads)
    }

    fn lost(&self) -> u64 {
        self.rounds.iter().flatten().map(|block| block.lost).sum()
    }

    /// A histogram of the samples. When there are none yet, the next round sets the thresholds of the dispersion
    /// (it is not counted: the caller adds it).
    pub(super) fn fold(&self, next_ns: &[u32], next_lost: u64) -> Folded {
        let (sorted_ns, mut spreads) = self.sorted();
        if sorted_ns.is_empty() {
            let mut next_ns = next_ns.to_vec();
            next_ns.sort_unstable();
            spreads = Spreads::at_quantiles_of(&next_ns, self.lost() + next_lost);
            for blocks in &self.rounds {
                spreads.add_round(&[], blocks);
            }
        }
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("bounds and digits are constants that hdrhistogram accepts");
        let mut folded = Folded { histogram, least_ns: u32::MAX, greatest_ns: 0, spreads };
        for &rtt_ns in &sorted_ns {
            folded.count(rtt_ns);
        }
        folded
    }
}

impl Folded {
    pub(super) fn add_round(&mut self, rtt_ns: &[u32], blocks: &[BlockSize]) {
        for &sample in rtt_ns {
            self.count(sample);
        }
        self.spreads.add_round(rtt_ns, blocks);
    }

    fn count(&mut self, rtt_ns: u32) {
        self.histogram.saturating_record(u64::from(rtt_ns));
        self.least_ns = self.least_ns.min(rtt_ns);
        self.greatest_ns = self.greatest_ns.max(rtt_ns);
    }

    pub(super) fn spreads(&self) -> &Spreads {
        &self.spreads
    }

    /// Each kept value with its count, ascending; the value is the middle of its bucket.
    pub(super) fn buckets_ns(&self) -> impl Iterator<Item = (f64, u64)> {
        self.histogram.iter_recorded().map(|step| {
            let low = self.histogram.lowest_equivalent(step.value_iterated_to());
            let high = self.histogram.highest_equivalent(step.value_iterated_to());
            ((low + high) as f64 / 2.0, step.count_since_last_iteration())
        })
    }
}

impl Ranked for Folded {
    fn samples(&self) -> u64 {
        self.histogram.len()
    }

    fn values_at_ns(&self, ranks: &[u64]) -> Vec<f64> {
        let mut values = Vec::with_capacity(ranks.len());
        let mut seen = 0;
        let mut buckets = self.buckets_ns();
        let mut bucket_ns = 0.0;
        for &rank in ranks {
            while seen < rank {
                let Some((value_ns, count)) = buckets.next() else {
                    break;
                };
                bucket_ns = value_ns;
                seen += count;
            }
            let exact = match rank {
                1 => f64::from(self.least_ns),
                _ if rank == self.samples() => f64::from(self.greatest_ns),
                _ => bucket_ns,
            };
            values.push(exact.clamp(f64::from(self.least_ns), f64::from(self.greatest_ns)));
        }
        values
    }
}

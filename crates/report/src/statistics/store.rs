//! Where the round trips are kept: every one of them, or a histogram once there are too many.

use hdrhistogram::Histogram;

use super::quantiles::{PERCENTS, Ranked};
use super::rank::quantile_rank;
use super::spread::Dispersion;

/// Longest round trip the histogram tells apart; a longer one counts as this long.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of the histogram: values are kept to 0.1 %.
const DIGITS: u8 = 3;

/// Round trips in arrival order, cut into rounds of blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Every {
    pub(super) rtt_ns: Vec<u32>,
    /// Block sizes of each round; they add up to the samples.
    pub(super) rounds: Vec<Vec<usize>>,
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
    /// Thresholds at the quantiles of `sorted_ns`.
    pub(super) fn at_quantiles_of(sorted_ns: &[u32]) -> Self {
        let samples = sorted_ns.len() as u64;
        let at = |&percent: &f64| {
            let rank = quantile_rank(samples, percent);
            rank.checked_sub(1).map_or(0, |index| sorted_ns[index as usize])
        };
        Self {
            thresholds_ns: PERCENTS.iter().map(at).collect(),
            blocks: vec![Dispersion::default(); PERCENTS.len()],
            rounds: vec![Dispersion::default(); PERCENTS.len()],
        }
    }

    /// Counts one round, cut into blocks of the given sizes.
    pub(super) fn add_round(&mut self, rtt_ns: &[u32], block_sizes: &[usize]) {
        let mut of_round = vec![0u64; PERCENTS.len()];
        let mut rest = rtt_ns;
        for &size in block_sizes {
            let (block, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            let beyond = self.beyond(block);
            for (index, &count) in beyond.iter().enumerate() {
                self.blocks[index].add(block.len() as u64, count);
                of_round[index] += count;
            }
        }
        for (index, &count) in of_round.iter().enumerate() {
            self.rounds[index].add(rtt_ns.len() as u64, count);
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
        let mut spreads = Spreads::at_quantiles_of(&sorted_ns);
        let mut rest = self.rtt_ns.as_slice();
        for sizes in &self.rounds {
            let (round, after) = rest.split_at(sizes.iter().sum());
            rest = after;
            spreads.add_round(round, sizes);
        }
        (sorted_ns, spreads)
    }

    /// A histogram of the samples. When there are none yet, `next_ns` sets the thresholds of the dispersion
    /// (it is not counted: the caller adds it as the next round).
    pub(super) fn fold(&self, next_ns: &[u32]) -> Folded {
        let (sorted_ns, mut spreads) = self.sorted();
        if sorted_ns.is_empty() {
            let mut next_ns = next_ns.to_vec();
            next_ns.sort_unstable();
            spreads = Spreads::at_quantiles_of(&next_ns);
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
    pub(super) fn add_round(&mut self, rtt_ns: &[u32], block_sizes: &[usize]) {
        for &sample in rtt_ns {
            self.count(sample);
        }
        self.spreads.add_round(rtt_ns, block_sizes);
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

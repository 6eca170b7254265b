//! In which order values are measured.
//!
//! Each setting is measured in blocks of four runs, found-wanted-wanted-found or the reverse: what grows or falls steadily while a block lasts
//! adds nothing to the difference of its two values. Settings take turns block by block in a random order, so
//! that an hour that was louder than others is spread over all of them.

use nearwire_bench::order::Order;

/// The value of a setting in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As the host has it.
    Found,
    /// As the profile wants it.
    Wanted,
}

use Level::{Found, Wanted};

/// Found first and last.
const FOUND_OUTSIDE: [Level; 4] = [Found, Wanted, Wanted, Found];
/// Wanted first and last.
const WANTED_OUTSIDE: [Level; 4] = [Wanted, Found, Found, Wanted];

/// One block of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The setting, by its place among those that are measured.
    pub setting: usize,
    /// Its four runs.
    pub levels: [Level; 4],
}

impl Block {
    /// The runs that are compared with each other: found, wanted; by their places in the block. The two of a pair follow
    /// each other, so that little time is between them.
    #[must_use]
    pub fn pairs(&self) -> [(usize, usize); 2] {
        match self.levels[0] {
            Found => [(0, 1), (3, 2)],
            Wanted => [(1, 0), (2, 3)],
        }
    }
}

/// All blocks in the order in which they are measured: `rounds` rounds, in each of which every setting has one. Of the
/// blocks of a setting half begin with the value found, or one more.
#[must_use]
pub fn blocks(settings: usize, rounds: usize, seed: u64) -> Vec<Block> {
    let mut order = Order::new(seed);
    let halves: Vec<Vec<usize>> = (0..settings).map(|_| order.shuffled(rounds)).collect();
    let round = |round: usize| {
        let block = |setting: usize| {
            let is_even = halves[setting][round].is_multiple_of(2);
            Block { setting, levels: if is_even { FOUND_OUTSIDE } else { WANTED_OUTSIDE } }
        };
        order.shuffled(settings).into_iter().map(block).collect::<Vec<_>>()
    };
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_block_in_each_round_and_both_orders_equally_often() {
        let blocks = blocks(5, 8, 3);
        for round in blocks.chunks(5) {
            let mut settings: Vec<_> = round.iter().map(|block| block.setting).collect();
            settings.sort_unstable();
            assert_eq!(settings, [0, 1, 2, 3, 4]);
        }
        for setting in 0..5 {
            let of_setting = blocks.iter().filter(|block| block.setting == setting);
            assert_eq!(of_setting.filter(|block| block.levels[0] == Found).count(), 4);
        }
    }

    #[test]
    fn same_seed_gives_the_same_order_and_another_seed_another() {
        assert_eq!(blocks(5, 8, 3), blocks(5, 8, 3));
        assert_ne!(blocks(5, 8, 3), blocks(5, 8, 4));
    }

    #[test]
    fn pairs_are_neighbours_of_one_value_found_and_one_wanted() {
        for block in blocks(2, 6, 1) {
            for (found, wanted) in block.pairs() {
                assert_eq!((block.levels[found], block.levels[wanted]), (Found, Wanted));
                assert_eq!(found.abs_diff(wanted), 1);
            }
        }
    }
}

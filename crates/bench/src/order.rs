//! The random order of cells in a round, the same for the same seed on every machine.

/// splitmix64 (Steele, Lea, Flood 2014): enough to shuffle a few dozen cells, and stable for ever.
#[derive(Debug, Clone)]
pub struct Order {
    state: u64,
}

impl Order {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Order {
        Order { state: seed }
    }

    /// The next number of the sequence, all bits random.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The numbers `0..cells` in a fresh random order (Fisher-Yates).
    pub fn shuffled(&mut self, cells: usize) -> Vec<usize> {
        let mut order = (0..cells).collect::<Vec<_>>();
        for last in (1..cells).rev() {
            let other = (self.number() % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_rounds() {
        let rounds = |seed| {
            let mut order = Order::new(seed);
            [order.shuffled(15), order.shuffled(15)]
        };
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        let [first, second] = rounds(7);
        assert_ne!(first, second);
    }

    #[test]
    fn every_cell_has_its_place_in_every_round() {
        let mut round = Order::new(1).shuffled(40);
        round.sort_unstable();
        assert_eq!(round, (0..40).collect::<Vec<_>>());
    }
}

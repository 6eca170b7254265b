//! Who has a filter: the shares of a port, and which of them gets a frame.
//!
//! A word of the maps says it, as wide as the program loads at once:
//!
//! ```text
//!   bits  0 to 23   numbers of shares, three bits each, the first lowest
//!   bits 24 to 26   how many there are, less one
//!   bits 27 to 31   0 (in the word of a port: what kind it is, see `ports`)
//! ```
//!
//! Of several shares that have the same flow filter, source address and port choose one: a flow stays with its share for as long
//! as the same shares have the filter. A frame filter's frame has no source that is looked at: it is the first share's.

/// Ports that can share the queues of one, with itself.
pub const SHARES_MOST: u32 = 1 << SHARE_BITS;
/// Bits of a share's number.
pub(crate) const SHARE_BITS: u32 = 3;
pub(super) const SHARE_MASK: u32 = SHARES_MOST - 1;
/// Where the count stands.
pub(super) const COUNT_AT: u32 = 24;
pub(super) const COUNT_MASK: u32 = SHARE_MASK << COUNT_AT;
/// Bits that a word of shares has.
pub(super) const SHARES_BITS: u32 = 27;

// The hash: bits 24 to 31 of the product, which depend on all bits of the lower half of the seed.
pub(super) const HASH_FACTOR: i32 = 0x61c8_8647;
pub(super) const HASH_AT: u32 = 24;
pub(super) const HASH_BITS: u32 = 8;

/// The shares that have a filter, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares(u32);

impl Shares {
    pub(super) fn one(share: u32) -> Shares {
        Shares(share & SHARE_MASK)
    }

    fn made_of(mut shares: impl Iterator<Item = u32>) -> Option<Shares> {
        let first = shares.next().map(Shares::one);
        first.map(|first| shares.fold(first, Shares::with))
    }

    pub(super) fn word(self) -> u32 {
        self.0
    }

    pub(super) fn count(self) -> u32 {
        1 + (self.0 >> COUNT_AT & SHARE_MASK)
    }

    fn at(self, place: u32) -> u32 {
        self.0 >> (SHARE_BITS * place) & SHARE_MASK
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count()).map(move |place| self.at(place))
    }

    pub(super) fn has(self, share: u32) -> bool {
        self.iter().any(|other| other == share)
    }

    /// The same with a share that is not among them.
    pub(super) fn with(self, share: u32) -> Shares {
        Shares((self.0 | (share & SHARE_MASK) << (SHARE_BITS * self.count())) + (1 << COUNT_AT))
    }

    /// The others; `None` where there are none.
    pub(super) fn without(self, share: u32) -> Option<Shares> {
        Shares::made_of(self.iter().filter(|other| *other != share))
    }

    /// The same with `to` in the place of `from`, or without `from` where `to` is among them.
    pub(super) fn moved(self, from: u32, to: u32) -> Shares {
        if self.has(to) {
            return if from == to { self } else { self.without(from).unwrap_or(self) };
        }
        Shares::made_of(self.iter().map(|share| if share == from { to } else { share })).unwrap_or(self)
    }

    pub(super) fn first(self) -> u32 {
        self.at(0)
    }

    /// The share of a packet from the source that made this seed ([`super::headers::Packet::seed`]).
    pub(super) fn pick(self, seed: u64) -> u32 {
        let hash = seed.wrapping_mul(i64::from(HASH_FACTOR).cast_unsigned()) >> HASH_AT & ((1 << HASH_BITS) - 1);
        self.at((hash as u32 * self.count()) >> HASH_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(numbers: &[u32]) -> Shares {
        Shares::made_of(numbers.iter().copied()).unwrap()
    }

    fn numbers(shares: Shares) -> Vec<u32> {
        shares.iter().collect()
    }

    #[test]
    fn all_shares_added_are_kept_in_their_order_within_the_word() {
        let all = [7, 0, 3, 1, 2, 6, 5, 4];
        assert_eq!((numbers(shares(&all)), shares(&all).count()), (all.to_vec(), 8));
        assert!(shares(&all).word() >> SHARES_BITS == 0);
        assert_eq!(numbers(shares(&all).without(3).unwrap()), [7, 0, 1, 2, 6, 5, 4]);
        assert_eq!(shares(&[3]).without(3), None);
    }

    #[test]
    fn share_moved_leaves_the_places_of_the_others() {
        assert_eq!(numbers(shares(&[1, 2, 3]).moved(2, 5)), [1, 5, 3]);
        assert_eq!(numbers(shares(&[1, 2, 3]).moved(2, 3)), [1, 3], "3 has it already");
        assert_eq!(numbers(shares(&[2]).moved(2, 0)), [0]);
        assert_eq!(numbers(shares(&[2]).moved(2, 2)), [2]);
    }

    #[test]
    fn flows_of_many_sources_spread_roughly_evenly() {
        for count in 2..=8_u32 {
            let all: Vec<u32> = (0..count).collect();
            for (what, step) in [("ports", 0x100_u64), ("addresses", 0x100_0000), ("both", 0x100_0100)] {
                let mut flows = vec![0; count as usize];
                for source in 0..256_u64 {
                    flows[shares(&all).pick(0x0200_000a + source * step) as usize] += 1;
                }
                let fair = 256 / count;
                assert!(flows.iter().all(|flows| (fair / 2..=fair * 2).contains(flows)), "{what}: {flows:?}");
            }
        }
    }
}

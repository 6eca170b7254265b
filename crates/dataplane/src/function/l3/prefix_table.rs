//! Longest prefix match.
//!
//! A trie of nodes with 256 slots, one for each value of one byte of the address. A slot has the value of the longest prefix so far or leads
//! to a node. A node may lie several bytes below the one that leads to it; bytes in between that no prefix tells apart are compared at once.
//! So an IPv4 look-up visits at most four nodes, an IPv6 one as many as prefixes branch, whatever their number. There are at most two nodes
//! of 1 KiB for each prefix.
//!
//! The table does not change: a new one is built in its place.

/// An address as a number.
pub(super) trait Address: Copy + Ord {
    /// Bytes of an address.
    const BYTES: u8;

    /// One byte of it; 0 is the first on the wire.
    fn byte(self, at: u8) -> u8;

    /// How many bytes at the start are the same.
    fn common_bytes(self, other: Self) -> u8;
}

impl Address for u32 {
    const BYTES: u8 = 4;

    #[inline]
    fn byte(self, at: u8) -> u8 {
        (self >> (24 - 8 * u32::from(at))) as u8
    }

    #[inline]
    fn common_bytes(self, other: u32) -> u8 {
        ((self ^ other).leading_zeros() / 8) as u8
    }
}

impl Address for u128 {
    const BYTES: u8 = 16;

    #[inline]
    fn byte(self, at: u8) -> u8 {
        (self >> (120 - 8 * u32::from(at))) as u8
    }

    #[inline]
    fn common_bytes(self, other: u128) -> u8 {
        ((self ^ other).leading_zeros() / 8) as u8
    }
}

/// A prefix with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<A> {
    pub(super) address: A,
    pub(super) bits: u8,
    /// Less than 2^31.
    pub(super) value: u32,
}

/// Marks a slot that leads to a node; the rest is the node's number.
const NODE: u32 = 1 << 31;
const SLOTS: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Head<A> {
    /// The bytes above the node, in front of `depth`.
    prefix: A,
    /// The value for an address with other bytes there.
    otherwise: u32,
    /// Which byte of the address the slots are for.
    depth: u8,
}

/// The table.
#[derive(Debug, Clone)]
pub(super) struct PrefixTable<A> {
    heads: Vec<Head<A>>,
    slots: Vec<[u32; SLOTS]>,
}

impl<A: Address> PrefixTable<A> {
    /// A table of `entries`. Of entries with the same prefix the last counts; `otherwise` is the value of an address without any.
    pub(super) fn new(mut entries: Vec<Entry<A>>, otherwise: u32) -> PrefixTable<A> {
        let mut table = PrefixTable { heads: Vec::new(), slots: Vec::new() };
        let default = entries.iter().rfind(|entry| entry.bits == 0).map_or(otherwise, |entry| entry.value);
        entries.retain(|entry| entry.bits > 0);
        // Stable: equal ones keep their order.
        entries.sort_by_key(|entry| entry.address);
        table.add(&entries, default);
        table
    }

    /// Adds the node for `entries`, which are in order of their addresses, and the nodes below it. Returns its number.
    fn add(&mut self, entries: &[Entry<A>], otherwise: u32) -> u32 {
        let number = self.heads.len();
        let depth = depth_of(entries);
        // Without entries, no byte is compared.
        if let Some(prefix) = entries.first().map(|entry| entry.address) {
            self.heads.push(Head { prefix, otherwise, depth });
        }
        self.slots.push([otherwise; SLOTS]);
        let is_within = |entry: &&Entry<A>| entry.bits <= 8 * (depth + 1);
        let mut within: Vec<&Entry<A>> = entries.iter().filter(is_within).collect();
        within.sort_by_key(|entry| entry.bits);
        for entry in within {
            let first = usize::from(entry.address.byte(depth));
            let count = 1 << (8 * (depth + 1) - entry.bits);
            self.slots[number][first..first + count].fill(entry.value);
        }
        let below: Vec<Entry<A>> = entries.iter().filter(|entry| !is_within(entry)).copied().collect();
        for group in below.chunk_by(|a, b| a.address.byte(depth) == b.address.byte(depth)) {
            let slot = usize::from(group[0].address.byte(depth));
            let node = self.add(group, self.slots[number][slot]);
            self.slots[number][slot] = NODE | node;
        }
        number as u32
    }

    /// The value of the longest prefix that `address` begins with.
    #[inline]
    pub(super) fn value(&self, address: A) -> u32 {
        let mut node = 0;
        loop {
            let Some(head) = self.heads.get(node) else {
                // A table without prefixes: all slots of its node are the same.
                return self.slots[0][0];
            };
            if address.common_bytes(head.prefix) < head.depth {
                return head.otherwise;
            }
            let slot = self.slots[node][usize::from(address.byte(head.depth))];
            if slot & NODE == 0 {
                return slot;
            }
            node = (slot & !NODE) as usize;
        }
    }
}

/// The first byte in which not all of `entries` are the same or one of them ends.
fn depth_of<A: Address>(entries: &[Entry<A>]) -> u8 {
    let [Some(first), Some(last)] = [entries.first(), entries.last()] else { return 0 };
    let ends = entries.iter().map(|entry| (entry.bits - 1) / 8).min().unwrap_or(0);
    first.address.common_bytes(last.address).min(ends).min(A::BYTES - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONE: u32 = u32::MAX >> 1;

    fn mask(bits: u8) -> u128 {
        !u128::MAX.unbounded_shr(u32::from(bits))
    }

    /// The longest of all prefixes, the last of equal ones.
    fn linear(entries: &[Entry<u128>], address: u128) -> u32 {
        let matching = entries.iter().filter(|entry| (entry.address ^ address) & mask(entry.bits) == 0);
        matching.max_by_key(|entry| entry.bits).map_or(NONE, |entry| entry.value)
    }

    /// Addresses that often share bytes.
    fn any_address() -> impl Strategy<Value = u128> {
        proptest::collection::vec(prop_oneof![4 => Just(0_u8), 2 => 0..4_u8, 1 => any::<u8>()], 16)
            .prop_map(|bytes| u128::from_be_bytes(bytes.try_into().expect("sixteen")))
    }

    fn any_entries(bits_most: u8) -> impl Strategy<Value = Vec<Entry<u128>>> {
        let entries = proptest::collection::vec((any_address(), 0..=bits_most), 0..60);
        entries.prop_map(|entries| {
            let numbered = (0..).zip(entries);
            numbered.map(|(value, (address, bits))| Entry { address: address & mask(bits), bits, value }).collect()
        })
    }

    proptest! {
        #[test]
        fn any_v6_prefixes_match_as_a_linear_search(
            entries in any_entries(128), others in proptest::collection::vec(any_address(), 20),
        ) {
            let table = PrefixTable::new(entries.clone(), NONE);
            prop_assert!(table.heads.len() <= 2 * entries.len());
            let edges = entries.iter().flat_map(|e| [e.address, e.address | !mask(e.bits), e.address.wrapping_sub(1)]);
            for address in edges.chain(others) {
                prop_assert_eq!(table.value(address), linear(&entries, address), "{:032x}", address);
            }
        }

        #[test]
        fn any_v4_prefixes_match_as_a_linear_search(
            entries in any_entries(32), others in proptest::collection::vec(any_address(), 20),
        ) {
            let short = |entry: &Entry<u128>| Entry { address: (entry.address >> 96) as u32, bits: entry.bits, value: entry.value };
            let table = PrefixTable::new(entries.iter().map(short).collect(), NONE);
            let edges = entries.iter().flat_map(|e| [e.address, e.address | !mask(e.bits), e.address.wrapping_sub(1)]);
            for address in edges.chain(others) {
                prop_assert_eq!(table.value((address >> 96) as u32), linear(&entries, address));
            }
        }
    }

    #[test]
    fn ten_thousand_prefixes_take_no_more_than_four_nodes_a_look_up() {
        let entry = |number: u32| Entry { address: number.wrapping_mul(0x9e37_79b9) & !0xff, bits: 24, value: number };
        let entries: Vec<Entry<u32>> = (0..10_000).map(entry).collect();
        let table = PrefixTable::new(entries.clone(), NONE);
        assert!(
            entries
                .iter()
                .all(|entry| table.heads.iter().all(|head| head.depth <= 2) && table.value(entry.address) != NONE)
        );
    }
}

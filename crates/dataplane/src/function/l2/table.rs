//! Which station is at which port: a hash table of fixed size, in sets of eight places.
//!
//! A look-up and a change touch one set each, whatever the number of stations, and nothing is allocated.

const PLACES: usize = 8;
/// Places for each address: of 8192 random addresses in sets that are filled to a quarter, two or so find their set full.
const PLACES_PER_ADDRESS: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;
/// 2^64 divided by the golden ratio: spreads keys over the upper bits of the product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const EMPTY: u64 = 0;

/// A station of a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    #[inline]
    pub(super) const fn new(address: [u8; 6], vlan_id: u16) -> Key {
        let [a, b, c, d, e, f] = address;
        // The upper bit tells a key from an empty place.
        let [high, low] = (vlan_id | 0x8000).to_be_bytes();
        Key(u64::from_be_bytes([high, low, a, b, c, d, e, f]))
    }
}

/// A station came by another port than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) from_port: usize,
    /// How often it has moved since a second began, this time included. A second begins with a move that none was a second before.
    pub(super) within_second: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    heard_ns: u64,
    moves_since_ns: u64,
    moves: u32,
    port: u32,
}

#[derive(Debug, Clone, Default)]
#[repr(align(64))]
struct Set {
    keys: [u64; PLACES],
    entries: [Entry; PLACES],
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    sets: Box<[Set]>,
    /// A product's bits to the right of those that number the set.
    shift: u32,
}

impl Table {
    pub(super) fn new(addresses_most: usize) -> Table {
        // At least two sets, so that the shift is less than 64.
        let sets = (addresses_most.saturating_mul(PLACES_PER_ADDRESS) / PLACES).max(2).next_power_of_two();
        Table { sets: vec![Set::default(); sets].into_boxed_slice(), shift: u64::BITS - sets.trailing_zeros() }
    }

    #[inline]
    const fn set_of(&self, key: Key) -> usize {
        (key.0.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// Where the station was heard within `ageing_ns`.
    #[inline]
    pub(super) fn port_of(&self, key: Key, now_ns: u64, ageing_ns: u64) -> Option<usize> {
        let set = &self.sets[self.set_of(key)];
        let at = set.keys.iter().position(|found| *found == key.0)?;
        let entry = &set.entries[at];
        (now_ns.saturating_sub(entry.heard_ns) <= ageing_ns).then_some(entry.port as usize)
    }

    /// Notes that the station was heard at `port`.
    #[inline]
    pub(super) fn learn(&mut self, key: Key, port: usize, now_ns: u64, ageing_ns: u64) -> Option<Moved> {
        let number = self.set_of(key);
        let set = &mut self.sets[number];
        let Some(at) = set.keys.iter().position(|found| *found == key.0) else {
            set.add(key, Entry { heard_ns: now_ns, port: port as u32, ..Entry::default() });
            return None;
        };
        let entry = &mut set.entries[at];
        let is_aged = now_ns.saturating_sub(entry.heard_ns) > ageing_ns;
        entry.heard_ns = now_ns;
        if entry.port == port as u32 {
            return None;
        }
        let from_port = std::mem::replace(&mut entry.port, port as u32) as usize;
        if is_aged {
            entry.moves = 0;
            return None;
        }
        if entry.moves == 0 || now_ns.saturating_sub(entry.moves_since_ns) >= SECOND_NS {
            (entry.moves, entry.moves_since_ns) = (0, now_ns);
        }
        entry.moves = entry.moves.saturating_add(1);
        Some(Moved { from_port, within_second: entry.moves })
    }
}

impl Set {
    /// Takes an empty place, or that of the station that was not heard for longest (IEEE 802.1D-2004 section 7.9: an entry may be removed
    /// to make room). So what has aged goes first.
    fn add(&mut self, key: Key, entry: Entry) {
        let empty = self.keys.iter().position(|found| *found == EMPTY);
        let oldest = || (0..PLACES).min_by_key(|at| self.entries[*at].heard_ns);
        let at = empty.or_else(oldest).unwrap_or(0);
        self.keys[at] = key.0;
        self.entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_set_forgets_what_was_not_heard_for_longest() {
        let mut table = Table::new(1);
        let address = |number: u8| [2, 0, 0, 0, 0, number];
        let keys: Vec<Key> = (0..=255).map(|number| Key::new(address(number), 0)).collect();
        let (set, rest): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(|key| table.set_of(*key) == 0);
        assert!(set.len() > PLACES && !rest.is_empty());
        for (now_ns, key) in set.iter().enumerate() {
            table.learn(*key, 1, now_ns as u64, 1000);
        }
        let known = |key: &Key| table.port_of(*key, 300, 1000) == Some(1);
        let (forgotten, kept) = set.split_at(set.len() - PLACES);
        assert!(kept.iter().all(known) && !forgotten.iter().any(known));
    }

    #[test]
    fn table_filled_to_its_size_has_forgotten_almost_none() {
        let mut table = Table::new(8192);
        let key = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            Key::new([2, 0, a, b, c, d], 0)
        };
        for number in 0..8192 {
            table.learn(key(number), 0, 0, 1);
        }
        let known = (0..8192).filter(|number| table.port_of(key(*number), 0, 1).is_some()).count();
        assert!(known >= 8180, "{known}");
    }
}

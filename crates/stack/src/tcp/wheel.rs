//! Deadlines of connections in a hierarchical timer wheel: setting, moving and removing one costs the same however many there are.
//!
//! ```text
//!  level 0   64 slots of 16.4 us        1 ms ahead
//!  level 1   64 slots of  1.05 ms       67 ms
//!  ...
//!  level 5   64 slots of 18.8 min       20 hours; what is due later waits in its last slot
//! ```
//! A slot is a list through the connections themselves, by number, so nothing is allocated but one node for each connection. A word for
//! each level says which slots are not empty. When the time of a slot of a higher level comes, its connections are sorted into lower ones.

/// 2^14 ns: a deadline is met at most so late.
const TICK_BITS: u32 = 14;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
const NONE: u32 = u32::MAX;
/// Ticks that the wheel looks ahead: never into the slot of the highest level that the present is in.
const AHEAD_MOST: u64 = (SLOTS as u64 - 1) * (1 << (SLOT_BITS * (LEVELS as u32 - 1))) - 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    due_tick: u64,
    previous: u32,
    next: u32,
    /// `level * SLOTS + slot`, or [`NONE`].
    place: u32,
}

const FREE: Node = Node { due_tick: 0, previous: NONE, next: NONE, place: NONE };

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Wheel {
    /// All before this tick is done.
    now_tick: u64,
    /// Nothing is due before, and no slot of a higher level begins.
    idle_until_ns: u64,
    heads: Box<[u32]>,
    occupied: [u64; LEVELS],
    nodes: Vec<Node>,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel {
            now_tick: 0,
            idle_until_ns: u64::MAX,
            heads: vec![NONE; LEVELS * SLOTS].into_boxed_slice(),
            occupied: [0; LEVELS],
            nodes: Vec::new(),
        }
    }

    /// The deadline that stands for a connection, ns.
    pub(crate) fn due_ns(&self, index: u32) -> Option<u64> {
        let node = self.nodes.get(index as usize).filter(|node| node.place != NONE)?;
        Some(node.due_tick << TICK_BITS)
    }

    /// Sets the deadline of a connection, rounded up to a tick.
    pub(crate) fn set(&mut self, index: u32, deadline_ns: u64) {
        self.remove(index);
        if self.nodes.len() <= index as usize {
            self.nodes.resize(index as usize + 1, FREE);
        }
        let due_tick = (deadline_ns >> TICK_BITS) + u64::from(deadline_ns & ((1 << TICK_BITS) - 1) != 0);
        self.nodes[index as usize].due_tick = due_tick;
        self.place(index);
    }

    /// Whether [`Self::expired`] may have something to take out: one comparison, where [`Self::next_ns`] looks at all levels.
    #[inline]
    pub(crate) const fn may_have_expired(&self, now_ns: u64) -> bool {
        now_ns >= self.idle_until_ns
    }

    fn place(&mut self, index: u32) {
        let due_tick = self.nodes[index as usize].due_tick.clamp(self.now_tick, self.now_tick + AHEAD_MOST);
        // The highest digit in which it differs from now.
        let differing = (due_tick ^ self.now_tick).checked_ilog2().unwrap_or(0) / SLOT_BITS;
        let level = (differing as usize).min(LEVELS - 1);
        let shift = SLOT_BITS * level as u32;
        self.idle_until_ns = self.idle_until_ns.min(due_tick >> shift << shift << TICK_BITS);
        let slot = (due_tick >> shift) as usize % SLOTS;
        let place = level * SLOTS + slot;
        let head = std::mem::replace(&mut self.heads[place], index);
        let node = &mut self.nodes[index as usize];
        (node.place, node.next, node.previous) = (place as u32, head, NONE);
        if let Some(second) = self.nodes.get_mut(head as usize) {
            second.previous = index;
        }
        self.occupied[level] |= 1 << slot;
    }

    /// No deadline.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize).filter(|node| node.place != NONE) else { return };
        let Node { previous, next, place, .. } = *node;
        node.place = NONE;
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.previous = previous;
        }
        match self.nodes.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => {
                self.heads[place as usize] = next;
                if next == NONE {
                    self.occupied[place as usize / SLOTS] &= !(1 << (place as usize % SLOTS));
                }
            }
        }
    }

    /// When [`Self::expired`] is to be called next, ns; `None`: nothing is due. It may be earlier than the first deadline, when that is far.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.next_place().map(|(_, tick)| tick << TICK_BITS)
    }

    /// The place that comes next, and its tick. Of several with one tick that of the highest level: its connections may be due as early.
    #[inline]
    fn next_place(&self) -> Option<(usize, u64)> {
        let mut first: Option<(usize, u64)> = None;
        for level in 0..LEVELS {
            if let Some((slot, tick)) = self.next_of(level)
                && first.is_none_or(|(_, earliest)| tick <= earliest)
            {
                first = Some((level * SLOTS + slot, tick));
            }
        }
        first
    }

    /// The first slot of a level that is not empty, and the tick at which it begins.
    fn next_of(&self, level: usize) -> Option<(usize, u64)> {
        let occupied = self.occupied[level];
        if occupied == 0 {
            return None;
        }
        let shift = SLOT_BITS * level as u32;
        let position = self.now_tick >> shift;
        let current = (position as usize % SLOTS) as u32;
        // Slots behind the current one are those of the next turn.
        let ahead = occupied.rotate_right(current).trailing_zeros();
        let slot = (current + ahead) as usize % SLOTS;
        let tick = (position + u64::from(ahead)) << shift;
        Some((slot, tick.max(self.now_tick)))
    }

    /// Takes out a connection whose deadline has passed; each call one, until there is none.
    pub(crate) fn expired(&mut self, now_ns: u64) -> Option<u32> {
        let now_tick = now_ns >> TICK_BITS;
        loop {
            let Some((place, tick)) = self.next_place().filter(|(_, tick)| *tick <= now_tick) else {
                self.now_tick = self.now_tick.max(now_tick);
                self.idle_until_ns = self.next_ns().unwrap_or(u64::MAX);
                return None;
            };
            self.now_tick = self.now_tick.max(tick);
            let index = self.heads[place];
            self.remove(index);
            if self.nodes.get(index as usize)?.due_tick <= now_tick {
                return Some(index);
            }
            // It was in a slot of a higher level, or due beyond what the wheel looks ahead.
            self.place(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn deadline_is_met_within_a_tick_and_never_early() {
        let mut wheel = Wheel::new();
        let deadlines = [1, 16_384, 50_000, 2_000_000, 40_000_000, 5_000_000_000, 7_200_000_000_000, 1 << 60];
        for (index, deadline_ns) in deadlines.into_iter().enumerate() {
            wheel.set(index as u32, deadline_ns);
        }
        let mut order = Vec::new();
        while let Some(next_ns) = wheel.next_ns() {
            while let Some(index) = wheel.expired(next_ns) {
                let late_ns = next_ns - deadlines[index as usize];
                assert!(late_ns <= 1 << TICK_BITS, "{index} is late by {late_ns} ns");
                order.push(index);
            }
        }
        order[..2].sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7], "the first two are in one tick");
    }

    proptest! {
        #[test]
        fn deadlines_set_moved_and_removed_expire_as_in_a_sorted_list(
            steps in proptest::collection::vec((0..20_u32, 0..40_u32, 0..4_u8), 1..200),
        ) {
            let (mut wheel, mut model, mut now_ns) = (Wheel::new(), BTreeSet::<(u64, u32)>::new(), 0_u64);
            for (index, shift, what) in steps {
                let known = model.iter().copied().find(|(_, other)| *other == index);
                if let Some(known) = known {
                    model.remove(&known);
                }
                match what {
                    0 => wheel.remove(index),
                    1 => {
                        if let Some(known) = known {
                            model.insert(known);
                        }
                        now_ns += (1 << shift) + u64::from(index) * 1000;
                        let mut expired = BTreeSet::new();
                        let is_due = model.first().is_some_and(|(due_ns, _)| due_ns + (1 << TICK_BITS) <= now_ns);
                        prop_assert!(wheel.may_have_expired(now_ns) || !is_due);
                        while let Some(index) = wheel.expired(now_ns) {
                            prop_assert!(expired.insert(index));
                        }
                        // A deadline within the tick that is not over may come either way.
                        let due: Vec<_> = model.iter().copied().filter(|(due_ns, _)| *due_ns <= now_ns).collect();
                        for (due_ns, index) in due {
                            let is_over = due_ns + (1 << TICK_BITS) <= now_ns;
                            prop_assert!(expired.contains(&index) || !is_over, "{} at {}", due_ns, now_ns);
                            if expired.remove(&index) {
                                model.remove(&(due_ns, index));
                            }
                        }
                        prop_assert!(expired.is_empty(), "none is early");
                    }
                    _ => {
                        let due_ns = now_ns + (1 << shift) + u64::from(index);
                        wheel.set(index, due_ns);
                        model.insert((due_ns, index));
                    }
                }
                prop_assert_eq!(wheel.next_ns().is_some(), !model.is_empty());
                prop_assert!(wheel.next_ns().is_none_or(|next_ns| wheel.may_have_expired(next_ns)));
                if let (Some(next_ns), Some((due_ns, _))) = (wheel.next_ns(), model.first()) {
                    prop_assert!(next_ns <= due_ns + (1 << TICK_BITS));
                }
            }
        }
    }
}

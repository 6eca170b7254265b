//! Registrations by number, and the lists they are in.

use std::ops::{Index, IndexMut};

use super::{Interest, SetId, Target};

/// No registration.
pub(super) const NONE: u32 = u32::MAX;
/// In place of a neighbour: not in the list at all.
const UNLINKED: u32 = u32::MAX - 1;

/// The lists that a registration can be in, each at most once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chain {
    /// All of a set.
    Member,
    /// Those of a set that may have something to deliver.
    Ready,
    /// Those that watch the same target.
    Watch,
}

/// Ends of a list; the links are in the registrations.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    chain: Chain,
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(super) const fn new(chain: Chain) -> Self {
        Self { chain, first: NONE, last: NONE, len: 0 }
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn last(&self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    const UNLINKED: Self = Self { previous: UNLINKED, next: UNLINKED };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) set: SetId,
    pub(super) target: Target,
    pub(super) interest: Interest,
}

#[derive(Debug)]
struct Slot {
    record: Record,
    links: [Links; 3],
}

/// All registrations of all sets.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Registrations {
    /// In no list yet.
    pub(super) fn insert(&mut self, record: Record) -> u32 {
        let slot = Slot { record, links: [Links::UNLINKED; 3] };
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            return at;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    /// It must be in no list any more.
    pub(super) fn remove(&mut self, at: u32) {
        debug_assert!(self.slots[at as usize].links.iter().all(|links| links.next == UNLINKED));
        self.free.push(at);
    }

    pub(super) fn is_linked(&self, chain: Chain, at: u32) -> bool {
        self.links(chain, at).next != UNLINKED
    }

    pub(super) fn after(&self, chain: Chain, at: u32) -> Option<u32> {
        let next = self.links(chain, at).next;
        (next < UNLINKED).then_some(next)
    }

    pub(super) fn before(&self, chain: Chain, at: u32) -> Option<u32> {
        let previous = self.links(chain, at).previous;
        (previous < UNLINKED).then_some(previous)
    }

    pub(super) fn push_back(&mut self, list: &mut List, at: u32) {
        *self.links_mut(list.chain, at) = Links { previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = at,
            last => self.links_mut(list.chain, last).next = at,
        }
        list.last = at;
        list.len += 1;
    }

    pub(super) fn push_front(&mut self, list: &mut List, at: u32) {
        *self.links_mut(list.chain, at) = Links { previous: NONE, next: list.first };
        match list.first {
            NONE => list.last = at,
            first => self.links_mut(list.chain, first).previous = at,
        }
        list.first = at;
        list.len += 1;
    }

    /// Takes it out of a list, if it is in one of that kind.
    pub(super) fn unlink(&mut self, list: &mut List, at: u32) {
        if !self.is_linked(list.chain, at) {
            return;
        }
        let Links { previous, next } = *self.links(list.chain, at);
        match previous {
            NONE => list.first = next,
            previous => self.links_mut(list.chain, previous).next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.links_mut(list.chain, next).previous = previous,
        }
        *self.links_mut(list.chain, at) = Links::UNLINKED;
        list.len -= 1;
    }

    fn links(&self, chain: Chain, at: u32) -> &Links {
        &self.slots[at as usize].links[chain as usize]
    }

    fn links_mut(&mut self, chain: Chain, at: u32) -> &mut Links {
        &mut self.slots[at as usize].links[chain as usize]
    }
}

impl Index<u32> for Registrations {
    type Output = Record;

    fn index(&self, at: u32) -> &Record {
        &self.slots[at as usize].record
    }
}

impl IndexMut<u32> for Registrations {
    fn index_mut(&mut self, at: u32) -> &mut Record {
        &mut self.slots[at as usize].record
    }
}

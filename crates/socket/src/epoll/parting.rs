//! Sets that go from one table to another: a process has several, one an engine.
//!
//! One table gives out the numbers of all sets; the others are made by [`EpollSets::following`] and sparse at the same
//! numbers. What goes is whole: sets with all their registrations, which are all that their sockets have.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::registrations::Record;
use super::{Chain, EpollSets, Set, SetId, SocketId};

/// Sets and their registrations between two tables.
#[derive(Debug)]
#[must_use = "dropped, the sets are lost, and nobody gives out their numbers again"]
pub struct Parted {
    /// Those of one socket in the order in which they are told.
    records: Vec<Record>,
    sets: Vec<PartedSet>,
}

#[derive(Debug)]
struct PartedSet {
    id: SetId,
    /// Places in `records`, in the order of the set.
    members: Vec<u32>,
    ready: Vec<u32>,
}

impl EpollSets {
    /// A table that gives out no numbers: its sets come from another one by [`EpollSets::join`].
    #[must_use]
    pub fn following() -> EpollSets {
        EpollSets { follows: true, ..EpollSets::default() }
    }

    /// Takes sets out of this table, each named once, with all their registrations, for [`EpollSets::join`] of another one.
    ///
    /// No set may be inside another one, all registrations of the sets must be of `sockets`, and all registrations of
    /// `sockets` in `sets`; others are lost.
    ///
    /// The table that gives out numbers keeps those of the sets until they come back, or [`EpollSets::release`].
    pub fn part(&mut self, sets: &[SetId], sockets: &[SocketId]) -> Parted {
        let mut records = Vec::new();
        let mut places = HashMap::new();
        for socket in sockets {
            let first = self.watchers.get(socket.index()).and_then(|watchers| watchers.first());
            let after = |at: &u32| self.registrations.after(Chain::Watch, *at);
            for at in std::iter::successors(first, after) {
                debug_assert!(sets.contains(&self.registrations[at].set), "{socket:?} is in a set that stays");
                places.insert(at, records.len() as u32);
                records.push(self.registrations[at]);
            }
        }
        let parted = sets.iter().map(|set| self.part_set(*set, &places)).collect();
        for socket in sockets {
            self.remove_socket(*socket);
        }
        Parted { records, sets: parted }
    }

    fn part_set(&mut self, id: SetId, places: &HashMap<u32, u32>) -> PartedSet {
        let of_chain = |first: Option<u32>, chain: Chain| -> Vec<u32> {
            let after = |at: &u32| self.registrations.after(chain, *at);
            std::iter::successors(first, after).filter_map(|at| places.get(&at).copied()).collect()
        };
        let set = &self.sets[id.index()];
        debug_assert!(!set.is_away && set.watchers.len() == 0, "{id:?} is away, or in another set");
        let members = of_chain(set.members.first(), Chain::Member);
        debug_assert_eq!(members.len(), set.members.len() as usize, "{id:?} has what stays");
        let ready = of_chain(set.ready.first(), Chain::Ready);
        let parted = PartedSet { id, members, ready };
        self.empty(id);
        self.sets[id.index()].is_away = true;
        parted
    }

    /// Takes in sets of another table, with the ids they have. No socket is asked for its state, and nothing is reported.
    pub fn join(&mut self, parted: Parted) {
        let Parted { records, sets } = parted;
        for set in &sets {
            let index = set.id.index();
            debug_assert!(
                self.follows || self.sets.get(index).is_some_and(|set| set.is_away),
                "{:?} of others",
                set.id
            );
            if index >= self.sets.len() {
                self.sets.resize_with(index + 1, || Set { is_away: true, ..Set::EMPTY });
            }
            self.sets[index] = Set::EMPTY;
        }
        let insert = |record: Record| {
            let at = self.registrations.insert(record);
            let (watchers, registrations) = self.watchers_of(record.target);
            registrations.push_back(watchers, at);
            at
        };
        let numbers: Vec<u32> = records.into_iter().map(insert).collect();
        for PartedSet { id, members, ready, .. } in sets {
            let set = &mut self.sets[id.index()];
            for at in members {
                self.registrations.push_back(&mut set.members, numbers[at as usize]);
            }
            for at in ready {
                self.registrations.push_back(&mut set.ready, numbers[at as usize]);
            }
        }
    }

    /// A set that parted from this table was closed in another one ([`EpollSets::close`]): its number is free again.
    pub fn release(&mut self, set: SetId) {
        let Some(place) = self.sets.get_mut(set.index()).filter(|place| place.is_away && !self.follows) else {
            debug_assert!(false, "{set:?} is here, or another table gave it out");
            return;
        };
        place.is_away = false;
        self.free.push(set);
    }
}

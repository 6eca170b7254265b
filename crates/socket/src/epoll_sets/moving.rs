//! Sets that go to another engine. See [`crate::engines`].

use super::{Half, Operation, Registered, Sets, plain};
use crate::engines::Component;
use crate::epoll::{Parted, SetId};
use crate::id::SocketId;

/// Sets on their way.
#[derive(Debug)]
pub(crate) struct MovedSets {
    epoll: Parted,
    halves: Vec<(SetId, Half)>,
    fds: Vec<(i32, SetId)>,
    waiting: Vec<(SocketId, Vec<Registered>)>,
    since_fork: Vec<((SetId, i32), (SocketId, Operation))>,
    claimed_without_sets: Vec<SocketId>,
    has_closed_shared: bool,
}

impl Sets {
    /// A thread waits for the set that an fd names: it stays in this engine.
    pub(crate) fn settle(&mut self, fd: i32) {
        if let Some(half) = self.find(fd).and_then(|set| self.halves.get_mut(set.index())) {
            half.is_settled = true;
        }
    }

    /// A call waits for sets. Whether there are others in one of them, or it is in others.
    pub(crate) fn used(&mut self, sets: &[SetId]) -> bool {
        for set in sets {
            if let Some(half) = self.halves.get_mut(set.index()) {
                half.is_used = true;
            }
        }
        sets.iter().any(|set| self.epoll.is_nested(*set))
    }

    /// Whether a call has waited for a set.
    pub(crate) fn is_used(&self, set: SetId) -> bool {
        self.halves.get(set.index()).is_some_and(|half| half.is_used)
    }

    /// A set may move once more.
    pub(crate) fn begin_again(&mut self, set: SetId) {
        if let Some(half) = self.halves.get_mut(set.index()) {
            half.is_settled = false;
        }
    }

    /// No set has an fd.
    pub(crate) fn is_empty(&self) -> bool {
        self.fds.is_empty()
    }

    /// All that have an fd.
    pub(crate) fn all(&self) -> Vec<SetId> {
        let mut sets: Vec<SetId> = self.fds.values().copied().collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    /// The fds of some.
    pub(crate) fn fds_of(&self, sets: &[SetId]) -> Vec<i32> {
        self.fds.iter().filter(|(_, set)| sets.contains(set)).map(|(fd, _)| *fd).collect()
    }

    /// Sets that a socket is in, here or in the kernel.
    pub(crate) fn sets_of(&self, id: SocketId) -> impl Iterator<Item = SetId> {
        let kernels = self.waiting.get(&id).into_iter().flatten().map(|registered| registered.set);
        self.epoll.registrations_of(id).map(|registration| registration.set).chain(kernels)
    }

    /// Whether another engine can have a set: nobody has waited for it yet, or does in the kernel alone, no other set has to do with
    /// it, and no other process has it.
    pub(crate) fn may_move(&self, set: SetId) -> bool {
        let Some(half) = self.halves.get(set.index()) else { return false };
        let is_waited_for = self.fds.iter().any(|(fd, of)| *of == set && plain::is_waited_for(*fd));
        !half.is_shared && !half.is_called && !is_waited_for && !half.is_settled && !self.epoll.is_nested(set)
    }

    pub(crate) fn part(&mut self, component: &Component) -> MovedSets {
        let fds = self.fds.extract_if(|_, set| component.sets.contains(set)).collect();
        let half_of = |set: &SetId| Some((*set, std::mem::take(self.halves.get_mut(set.index())?)));
        let halves = component.sets.iter().filter_map(half_of).collect();
        let waiting = component.sockets.iter().filter_map(|id| Some((*id, self.waiting.remove(id)?))).collect();
        let since_fork = self.since_fork.extract_if(|(set, _), _| component.sets.contains(set)).collect();
        let is_moved = |id: &mut SocketId| component.sockets.contains(id);
        let claimed_without_sets = self.claimed_without_sets.extract_if(.., is_moved).collect();
        let epoll = self.epoll.part(&component.sets, &component.sockets);
        let has_closed_shared = self.has_closed_shared;
        MovedSets { epoll, halves, fds, waiting, since_fork, claimed_without_sets, has_closed_shared }
    }

    pub(crate) fn join(&mut self, moved: MovedSets) {
        let MovedSets { epoll, halves, fds, waiting, since_fork, claimed_without_sets, has_closed_shared } = moved;
        self.since_fork.extend(since_fork);
        self.claimed_without_sets.extend(claimed_without_sets);
        self.has_closed_shared |= has_closed_shared;
        self.epoll.join(epoll);
        for (set, half) in halves {
            if self.halves.len() <= set.index() {
                self.halves.resize_with(set.index() + 1, Half::default);
            }
            // What was found of it was found elsewhere.
            self.halves[set.index()] = Half { concerns: None, raised: self.raised, is_settled: true, ..half };
        }
        self.fds.extend(fds);
        self.waiting.extend(waiting);
    }

    /// Sets that were closed elsewhere can be opened again here.
    pub(crate) fn take_freed(&mut self, other: &mut Sets) {
        for set in std::mem::take(&mut other.freed) {
            self.epoll.release(set);
        }
    }
}

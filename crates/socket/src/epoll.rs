//! The program's epoll sets as far as accelerated sockets are in them.
//!
//! A set keeps its real kernel descriptor, in which only kernel descriptors are registered. What is
//! registered here are accelerated sockets, and sets inside sets, so that readiness of an accelerated
//! socket reaches the outer set too. Nothing here makes a system call: [`EpollSets::raise`] says that
//! something happened, [`EpollSets::collect`] asks a closure for a socket's state.
//!
//! The behaviour is that of the kernel, down to the order of events: one list of ready registrations
//! a set, to whose end a registration goes when something it asked for happens, or when it was
//! delivered and is level-triggered. Registrations of one socket are notified newest first; those with
//! `EPOLLEXCLUSIVE` come after all others, oldest first. `tests/epoll_kernel.rs` holds it against the
//! running kernel.
//!
//! Cost: [`EpollSets::raise`] is proportional to the sets the socket is in, [`EpollSets::collect`] to the
//! ready registrations it looks at. Neither allocates. Controlling calls walk the registrations of one
//! socket. No cost depends on how many sockets a set has.
//!
//! # Exclusive registrations
//!
//! The kernel marks an exclusive registration ready and goes on to the next one, until it has woken a thread that slept in
//! `epoll_wait`. Threads that sleep here are woken by the sockets that they wait for, so no set has one: every set is ready, as in the
//! kernel where nobody sleeps, and the first to ask gets the event.
//!
//! # Several tables
//!
//! A process with several engines has a table for each. Sets go from one to another with all their registrations
//! ([`EpollSets::part`], [`EpollSets::join`]) and keep their numbers, which the first table gives out.
//!
//! # What the caller must do
//!
//! A set inside a set is registered with the kernel *and* here: the kernel checks loops and depth.
//! Either side may report it, so one call can find it twice: [`Delivery`] names the registration to merge
//! them, and [`EpollSets::disarm`] takes over a one-shot delivery that the kernel made.
//!
//! The ready list is fair among accelerated sockets only. Where both sides of a set are always ready and
//! the program asks for few events a call, the caller must let the sides take turns.
//!
//! Source: `fs/eventpoll.c`, epoll(7), epoll_ctl(2).

mod delivery;
mod error;
mod events;
mod parting;
mod registrations;
#[cfg(test)]
mod tests;

pub use delivery::Delivery;
pub use error::EpollError;
pub use events::Events;
pub use parting::Parted;

use crate::SocketId;
use registrations::{Chain, List, NONE, Record, Registrations};

/// One of the program's epoll sets. Valid until [`EpollSets::close`]; its number is used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetId(u32);

impl SetId {
    /// Its place in a table of sets.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a registration watches.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Target {
    /// An accelerated socket.
    Socket(SocketId),
    /// Another set.
    Set(SetId),
}

/// What `struct epoll_event` says, and of which descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interest {
    /// The fd that the program used. With the target it is the key of a registration: one
    /// socket can be in one set under several fds.
    pub fd: i32,
    /// Events and flags as the program gave them.
    pub events: Events,
    /// What the program gets back with each event.
    pub data: u64,
}

/// One registration as it stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Registration {
    /// The set it is in.
    pub set: SetId,
    /// What it watches.
    pub target: Target,
    /// The descriptor, the data and the events. `EPOLLERR` and `EPOLLHUP` are always among the events of
    /// an armed registration; of a disarmed one only the flags are left.
    pub interest: Interest,
}

impl Registration {
    /// Whether it can deliver: a one-shot registration cannot, once it has, until it is modified.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.interest.events.is_armed()
    }
}

#[derive(Debug)]
struct Set {
    members: List,
    ready: List,
    /// Registrations in other sets that watch this one.
    watchers: List,
    /// Another table has it, or none: it parted from here, or never was here.
    is_away: bool,
}

impl Set {
    const EMPTY: Self = Self {
        members: List::new(Chain::Member),
        ready: List::new(Chain::Ready),
        watchers: List::new(Chain::Watch),
        is_away: false,
    };
}

/// All epoll sets of a process, or those that one of several engines serves.
#[derive(Debug, Default)]
pub struct EpollSets {
    sets: Vec<Set>,
    free: Vec<SetId>,
    registrations: Registrations,
    /// Per socket, the registrations that watch it, in the order they are told.
    watchers: Vec<List>,
    /// Another table gives out the numbers.
    follows: bool,
}

impl EpollSets {
    /// A new set, as of `epoll_create1`. Not of a table that [follows](EpollSets::following) another: open the set there
    /// and move it.
    pub fn open(&mut self) -> SetId {
        debug_assert!(!self.follows, "another table gives out the numbers");
        self.free.pop().unwrap_or_else(|| {
            self.sets.push(Set::EMPTY);
            SetId(self.sets.len() as u32 - 1)
        })
    }

    /// The last descriptor of the set is closed: its registrations end, and it leaves the sets it was in.
    ///
    /// Its number is free. Where another table gives out the numbers, it is returned, for [`EpollSets::release`] there.
    pub fn close(&mut self, set: SetId) -> Option<SetId> {
        debug_assert!(!self.sets[set.index()].is_away, "{set:?} is in another table");
        self.empty(set);
        if self.follows {
            self.sets[set.index()].is_away = true;
            return Some(set);
        }
        self.free.push(set);
        None
    }

    /// Ends all registrations in a set and of it.
    fn empty(&mut self, set: SetId) {
        while let Some(at) = self.sets[set.index()].members.first() {
            self.discard(at);
        }
        while let Some(at) = self.sets[set.index()].watchers.first() {
            self.discard(at);
        }
        self.sets[set.index()] = Set::EMPTY;
    }

    /// `EPOLL_CTL_ADD` of a socket whose state is `state` now: what is asked for and true is ready at once.
    ///
    /// # Errors
    ///
    /// [`EpollError::Exists`] and [`EpollError::ExclusiveWith`].
    pub fn add(&mut self, set: SetId, socket: SocketId, interest: Interest, state: Events) -> Result<(), EpollError> {
        self.insert(set, Target::Socket(socket), interest, |_| state)
    }

    /// `EPOLL_CTL_ADD` of the set `inner`. The kernel must have accepted it before: loops are refused there.
    ///
    /// # Errors
    ///
    /// [`EpollError::Exists`]; [`EpollError::ExclusiveSet`], the kernel has no exclusive wake-ups of sets.
    pub fn add_set(
        &mut self,
        outer: SetId,
        inner: SetId,
        interest: Interest,
        state: impl FnMut(SocketId) -> Events,
    ) -> Result<(), EpollError> {
        self.insert(outer, Target::Set(inner), interest, state)
    }

    fn insert(
        &mut self,
        set: SetId,
        target: Target,
        mut interest: Interest,
        mut state: impl FnMut(SocketId) -> Events,
    ) -> Result<(), EpollError> {
        let exclusive = interest.events.contains(Events::EXCLUSIVE);
        if exclusive {
            if let Target::Set(_) = target {
                return Err(EpollError::ExclusiveSet { fd: interest.fd });
            }
            let others = interest.events - Events::WITH_EXCLUSIVE;
            if !others.is_empty() {
                return Err(EpollError::ExclusiveWith { fd: interest.fd, others });
            }
        }
        if self.find(set, interest.fd, target).is_some() {
            return Err(EpollError::Exists { fd: interest.fd });
        }
        interest.events |= Events::ALWAYS;
        let at = self.registrations.insert(Record { set, target, interest });
        let (watchers, registrations) = self.watchers_of(target);
        if exclusive {
            registrations.push_back(watchers, at);
        } else {
            registrations.push_front(watchers, at);
        }
        self.registrations.push_back(&mut self.sets[set.index()].members, at);
        self.check(at, &mut state);
        Ok(())
    }

    /// `EPOLL_CTL_MOD`: new events and data; arms again what was one-shot, and looks at the state at once.
    ///
    /// # Errors
    ///
    /// [`EpollError::Missing`], and [`EpollError::ModifiedExclusive`] where either the registration or the
    /// new events have `EPOLLEXCLUSIVE`.
    pub fn modify(
        &mut self,
        set: SetId,
        target: Target,
        mut interest: Interest,
        mut state: impl FnMut(SocketId) -> Events,
    ) -> Result<(), EpollError> {
        let fd = interest.fd;
        if interest.events.contains(Events::EXCLUSIVE) {
            return Err(EpollError::ModifiedExclusive { fd });
        }
        let at = self.find(set, fd, target).ok_or(EpollError::Missing { fd })?;
        let record = &mut self.registrations[at];
        if record.interest.events.contains(Events::EXCLUSIVE) {
            return Err(EpollError::ModifiedExclusive { fd });
        }
        interest.events |= Events::ALWAYS;
        record.interest = interest;
        self.check(at, &mut state);
        Ok(())
    }

    /// `EPOLL_CTL_DEL`.
    ///
    /// # Errors
    ///
    /// [`EpollError::Missing`].
    pub fn remove(&mut self, set: SetId, fd: i32, target: Target) -> Result<(), EpollError> {
        let at = self.find(set, fd, target).ok_or(EpollError::Missing { fd })?;
        self.discard(at);
        Ok(())
    }

    /// The last descriptor of the socket is closed, or it becomes the kernel's: it leaves all sets.
    pub fn remove_socket(&mut self, socket: SocketId) {
        while let Some(at) = self.watchers.get(socket.index()).and_then(|watchers| watchers.first()) {
            self.discard(at);
        }
    }

    /// The registrations of a socket, the order in which they are notified of an event reversed: registered
    /// again in this order, those that are not exclusive are told in the order of before.
    ///
    /// To hand the socket to the kernel, add each to the kernel's set, but those that are not armed: the kernel arms
    /// what is added for `EPOLLERR` and `EPOLLHUP`.
    pub fn registrations_of(&self, socket: SocketId) -> impl Iterator<Item = Registration> {
        let last = self.watchers.get(socket.index()).and_then(|watchers| watchers.last());
        let before = move |&at: &u32| self.registrations.before(Chain::Watch, at);
        std::iter::successors(last, before).map(|at| self.registration(at))
    }

    /// The registration of a target under an fd.
    #[must_use]
    pub fn registration_of(&self, set: SetId, fd: i32, target: Target) -> Option<Registration> {
        self.find(set, fd, target).map(|at| self.registration(at))
    }

    /// Whether a registration is edge-triggered and nothing that it asked for has happened since it reported all there was: what is true
    /// of its target now is not to be reported. A one-shot registration has reported nothing as long as it is armed.
    #[must_use]
    pub fn has_told(&self, registration: &Registration) -> bool {
        let Registration { set, target, interest } = *registration;
        let (asked, at) = (interest.events, self.find(set, interest.fd, target));
        let is_ready = |at| self.registrations.is_linked(Chain::Ready, at);
        asked.contains(Events::ET) && !asked.contains(Events::ONESHOT) && at.is_some_and(|at| !is_ready(at))
    }

    /// Disarms a one-shot registration whose event was delivered by somebody else; what is not one-shot
    /// or not there stays as it is.
    pub fn disarm(&mut self, set: SetId, fd: i32, target: Target) {
        if let Some(at) = self.find(set, fd, target) {
            self.registrations[at].interest.events.disarm_one_shot();
        }
    }

    /// Whether nothing is registered here: the kernel alone can answer for this set.
    #[must_use]
    pub fn is_empty(&self, set: SetId) -> bool {
        self.len(set) == 0
    }

    /// How many are registered here.
    #[must_use]
    pub fn len(&self, set: SetId) -> usize {
        self.sets[set.index()].members.len() as usize
    }

    /// Whether another set is in this one, or this in another.
    #[must_use]
    pub fn is_nested(&self, set: SetId) -> bool {
        let set = &self.sets[set.index()];
        let after = |at: &u32| self.registrations.after(Chain::Member, *at);
        let mut members = std::iter::successors(set.members.first(), after);
        set.watchers.len() > 0 || members.any(|at| matches!(self.registrations[at].target, Target::Set(_)))
    }

    fn registration(&self, at: u32) -> Registration {
        let Record { set, target, interest } = self.registrations[at];
        Registration { set, target, interest }
    }

    /// Walks the registrations of one target: a socket is in few sets.
    fn find(&self, set: SetId, fd: i32, target: Target) -> Option<u32> {
        let first = match target {
            Target::Socket(socket) => self.watchers.get(socket.index()).and_then(|watchers| watchers.first()),
            Target::Set(inner) => self.sets[inner.index()].watchers.first(),
        };
        let after = |&at: &u32| self.registrations.after(Chain::Watch, at);
        std::iter::successors(first, after).find(|&at| {
            let record = &self.registrations[at];
            record.set == set && record.interest.fd == fd
        })
    }

    fn watchers_of(&mut self, target: Target) -> (&mut List, &mut Registrations) {
        let watchers = match target {
            Target::Socket(socket) => {
                let index = socket.index();
                if index >= self.watchers.len() {
                    self.watchers.resize(index + 1, List::new(Chain::Watch));
                }
                &mut self.watchers[index]
            }
            Target::Set(inner) => &mut self.sets[inner.index()].watchers,
        };
        (watchers, &mut self.registrations)
    }

    fn discard(&mut self, at: u32) {
        let Record { set, target, .. } = self.registrations[at];
        let (watchers, registrations) = self.watchers_of(target);
        registrations.unlink(watchers, at);
        let set = &mut self.sets[set.index()];
        self.registrations.unlink(&mut set.members, at);
        self.registrations.unlink(&mut set.ready, at);
        self.registrations.remove(at);
    }
}

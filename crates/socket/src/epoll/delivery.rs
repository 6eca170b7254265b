//! From something that happened at a socket to an event in the program's hands.

use super::{Chain, EpollSets, Events, NONE, SetId, SocketId, Target};

/// Sets inside sets that news travels through. The kernel refuses deeper ones (`EP_MAX_NESTS` is 4); the
/// limit ends a loop that only a caller's mistake could make.
const NESTED_MOST: u32 = 8;

/// One event for the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// What is true of the target now, of what was asked for.
    pub events: Events,
    /// What the program gave at registration.
    pub data: u64,
    /// The descriptor it registered.
    pub fd: i32,
    /// What is behind the descriptor.
    pub target: Target,
}

impl EpollSets {
    /// Something happened at a socket: a datagram arrived ([`Events::ARRIVED`]), there is room again
    /// ([`Events::SENDABLE`]), an error ([`Events::ERR`]).
    ///
    /// Registrations that asked for none of it are left alone. No events at all tells every armed
    /// registration, as the kernel does at shutdown. Whether `happened` is still true is asked at delivery.
    ///
    /// Whether a registration became ready by it.
    #[inline]
    pub fn raise(&mut self, socket: SocketId, happened: Events) -> bool {
        match self.watchers.get(socket.index()).and_then(|watchers| watchers.first()) {
            Some(first) => self.tell(first, happened, 0),
            None => false,
        }
    }

    /// Delivers up to `most` events of a set, as `epoll_wait` would without waiting; how many there were.
    ///
    /// `state` says what is true of a socket now; it is asked once for each ready registration that is
    /// looked at. What was delivered and is level-triggered goes to the end of the list, so that sockets
    /// take turns.
    pub fn collect(
        &mut self,
        set: SetId,
        most: usize,
        mut state: impl FnMut(SocketId) -> Events,
        mut deliver: impl FnMut(Delivery),
    ) -> usize {
        let mut delivered = 0;
        // What comes back to the list during this call is not looked at again.
        for _ in 0..self.sets[set.index()].ready.len() {
            if delivered == most {
                break;
            }
            let Some(at) = self.sets[set.index()].ready.first() else { break };
            self.registrations.unlink(&mut self.sets[set.index()].ready, at);
            let events = self.ask(at, &mut state, 0);
            if events.is_empty() {
                continue;
            }
            let record = &mut self.registrations[at];
            deliver(Delivery { events, data: record.interest.data, fd: record.interest.fd, target: record.target });
            delivered += 1;
            let asked = &mut record.interest.events;
            if !asked.disarm_one_shot() && !asked.contains(Events::ET) {
                self.registrations.push_back(&mut self.sets[set.index()].ready, at);
            }
        }
        delivered
    }

    /// Whether [`EpollSets::collect`] would deliver something: what poll(2) says of the set's descriptor.
    /// Registrations with nothing to deliver leave the ready list.
    pub fn is_ready(&mut self, set: SetId, mut state: impl FnMut(SocketId) -> Events) -> bool {
        self.has_any(set, &mut state, 0)
    }

    /// After registration: what is true already is ready (`ep_insert`, `ep_modify`).
    pub(super) fn check(&mut self, at: u32, state: &mut impl FnMut(SocketId) -> Events) {
        if !self.ask(at, state, 0).is_empty() && !self.registrations.is_linked(Chain::Ready, at) {
            self.make_ready(at, 0);
        }
    }

    /// Tells the registrations of one target, from `at` on (`__wake_up_common`).
    fn tell(&mut self, at: u32, happened: Events, depth: u32) -> bool {
        let mut at = at;
        let mut any = false;
        while at != NONE {
            let next = self.registrations.after(Chain::Watch, at).unwrap_or(NONE);
            let asked = self.registrations[at].interest.events;
            if asked.is_armed() && (happened.is_empty() || asked.intersects(happened)) {
                any |= !self.registrations.is_linked(Chain::Ready, at);
                self.make_ready(at, depth);
            }
            at = next;
        }
        any
    }

    /// Puts a registration in its set's ready list and tells the sets that this one is in (`ep_poll_callback`).
    fn make_ready(&mut self, at: u32, depth: u32) {
        let set = self.registrations[at].set;
        if !self.registrations.is_linked(Chain::Ready, at) {
            self.registrations.push_back(&mut self.sets[set.index()].ready, at);
        }
        if depth < NESTED_MOST
            && let Some(outer) = self.sets[set.index()].watchers.first()
        {
            self.tell(outer, Events::IN, depth + 1);
        }
    }

    /// What is true now of what a registration asked for (`ep_item_poll`).
    fn ask(&mut self, at: u32, state: &mut impl FnMut(SocketId) -> Events, depth: u32) -> Events {
        let record = self.registrations[at];
        let now = match record.target {
            Target::Socket(socket) => state(socket),
            Target::Set(inner) if self.has_any(inner, state, depth + 1) => Events::IN | Events::RDNORM,
            Target::Set(_) => Events::empty(),
        };
        now & record.interest.events
    }

    fn has_any(&mut self, set: SetId, state: &mut impl FnMut(SocketId) -> Events, depth: u32) -> bool {
        if depth > NESTED_MOST {
            return false;
        }
        while let Some(at) = self.sets[set.index()].ready.first() {
            if !self.ask(at, state, depth).is_empty() {
                return true;
            }
            self.registrations.unlink(&mut self.sets[set.index()].ready, at);
        }
        false
    }
}

//! Taking in what ports have, and looking at what the watch says.

use nearwire_frames::RevokedFlow;
use nearwire_stack::Take;
use nearwire_sys::own_stack;

use crate::engine::{Engine, FRAMES_AT_ONCE, Looked, Seen};
use crate::engines::Wish;
use crate::epoll::Events;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::Reason;
use crate::socket::{Service, Socket};
use crate::sockets::{EngineState, Sockets};

impl<H: Host> Sockets<H> {
    /// Takes in what the ports have, and looks at the watch when that is due.
    pub fn take_in(&mut self) {
        self.follow_children();
        if self.drive_streams() {
            return;
        }
        self.take_in_frames();
        self.look_if_due();
    }

    /// Takes in what the ports have.
    pub(crate) fn take_in_frames(&mut self) {
        let now = self.time();
        for _ in 0..FRAMES_AT_ONCE {
            // One by one, so that sets report sockets in the order of arrival.
            if !self.engine().is_some_and(|engine| engine.poll(now, |_, _| Take::Queue)) {
                return;
            }
            self.raise_readable();
        }
    }

    /// The same to the last frame, so that what came before a change is distinguished from what comes after.
    pub(crate) fn take_in_all_frames(&mut self) {
        let now = self.time();
        let Some(engine) = self.engine() else { return };
        if engine.take_in_all(now) > 0 {
            self.raise_readable();
        }
    }

    /// For calls that ask what there is, an error among it.
    #[inline]
    pub(crate) fn look_if_due(&mut self) {
        let now = self.time();
        let is_due =
            |engine: &mut Engine<H>| engine.is_look_due(now) || engine.is_overflowing() || engine.has_new_errors();
        if self.engine().is_some_and(is_due) {
            self.look();
        }
    }

    /// Looks at the watch and follows what it says: what comes of it may go deep, and this is part of every call.
    pub fn look(&mut self) {
        own_stack::run(|| self.look_here());
    }

    fn look_here(&mut self) {
        let mut looked = self.look_at_shadows();
        if self.is_overflow_next() {
            looked = looked | self.follow_overflow();
        }
        let holder_told = std::mem::take(&mut looked.holder_told);
        if looked != Looked::default() {
            self.follow(looked);
        }
        self.have_others_look(holder_told);
        if self.engine().is_some_and(Engine::take_capture_wanted) {
            self.wish_for_only_first();
        }
        // The last frames of a port, or those from before the news.
        self.raise_readable();
        self.follow_streams();
        self.release_those_that_wait();
        self.follow_sharing(false);
        self.tell_counters();
        let now = self.time();
        if let EngineState::Open(engine) = &self.engine {
            self.sleepers.rest(now.ticks, || engine.receive_sockets());
        }
    }

    /// Looks at the watch, and remembers what it says of shadows.
    pub(crate) fn look_at_shadows(&mut self) -> Looked {
        let mut seen = [(0_u32, Seen::default()); 64];
        let mut count = 0;
        let now = self.time();
        let Some(engine) = self.engine() else { return Looked::default() };
        let mut overflow = Vec::new();
        let looked = engine.look(now, |token, what| match seen.get_mut(count) {
            Some(slot) => {
                *slot = (token, what);
                count += 1;
            }
            // Rare, and not on the path of a datagram.
            None => overflow.push((token, what)),
        });
        for (token, what) in seen[..count].iter().copied().chain(overflow) {
            if !self.stream_has_slipped(token) {
                self.shadow_has(SocketId::new(token), what, true);
            }
        }
        looked
    }

    /// Reports what shadows have, except those in `told`: the watch reports one once more that it watches anew, or that got back what
    /// waited here. All else is left to the next look.
    pub(crate) fn tell_of_shadows(&mut self, told: &[SocketId]) {
        let mut seen = Vec::new();
        let Some(engine) = self.engine() else { return };
        engine.look_at_shadows_alone(|token, what| seen.push((SocketId::new(token), what)));
        for (id, what) in seen {
            self.shadow_has(id, what, !told.contains(&id));
        }
    }

    /// Of these, those whose shadows have something that was told.
    pub(crate) fn told_of_shadows(&mut self, sockets: &[SocketId]) -> Vec<SocketId> {
        let has_something = |id: &SocketId| {
            self.get(*id).is_some_and(|socket| socket.is_answered_here() && socket.shadow.is_readable())
        };
        let told = sockets.iter().copied().filter(has_something).collect();
        self.tell_of_shadows(&[]);
        told
    }

    /// The watch reported a shadow. `is_news`: sets are notified of data.
    fn shadow_has(&mut self, id: SocketId, what: Seen, is_news: bool) {
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if let Service::Accelerated(accelerated) = &socket.service {
            let nothing_waits = engine.stack_ref().udp_waiting(accelerated.endpoint) == 0;
            if what.data && nothing_waits && !engine.is_overflowing() {
                socket.shadow.comes_first(1);
            }
            socket.shadow.has_data |= what.data;
            socket.shadow.has_error |= what.error;
            socket.shadow.news = socket.shadow.news.wrapping_add(1);
        } else if socket.leftover.is_none() {
            return;
        }
        if what.data && is_news {
            self.sets.raise(id, Events::ARRIVED);
        }
        if what.error {
            self.sets.raise(id, Events::ERR);
        }
        self.sleepers.wake_for(id);
    }

    #[cold]
    fn follow(&mut self, looked: Looked) {
        if looked.links_changed || looked.ports_failed {
            self.wish_for_only_first();
            self.release_all_streams();
        }
        if looked.flows_revoked {
            self.give_up_revoked();
        }
        for id in self.ids() {
            if looked.links_changed || looked.addresses_changed {
                self.attach_again(id);
                if self.is_of_others_under_former_agent(id) {
                    self.leave_to_kernel_with_others(id);
                }
            }
            if self.get(id).is_some_and(Socket::is_accelerated)
                && let Err(reason) = self.follow_addresses(id)
            {
                self.hand_over(id, reason);
            }
            if looked.links_changed {
                // A port that came back has the flows again.
                self.expect_others_at(id);
            }
            if looked.ports_failed && self.may_be_of_others(id) {
                // Another process that reads it from now on asks an agent that knows nothing of this one.
                self.give_waiting_back(id, false);
            }
        }
        self.tell_engine();
    }

    /// All engines have one connection to the agent: what it said may be for another one, whose thread computes.
    fn have_others_look(&mut self, holder_told: bool) {
        self.siblings.others_are_to_look |= holder_told && (self.is_branch() || self.siblings.branches > 0);
        if self.siblings.others_are_to_look && self.siblings.wish == Wish::Nothing {
            self.siblings.others_are_to_look = false;
            self.siblings.wish = Wish::AllLook;
        }
    }

    /// Gives sockets to the kernel whose flows another program has a right to as well.
    pub(crate) fn give_up_revoked(&mut self) {
        // A child that took a socket has put it into the kernel's sets.
        self.follow_claims();
        for RevokedFlow { socket, is_socket_shared } in self.engine().map(Engine::take_revoked).unwrap_or_default() {
            let is_revoked = |id: &SocketId| self.get(*id).is_some_and(|known| known.inode() == Some(socket.inode));
            match self.ids().find(is_revoked) {
                // What waits is the other process's as well.
                Some(id) if is_socket_shared => self.give_back(id, Reason::SharedSocket, false),
                Some(id) => self.hand_over(id, Reason::SharedPort),
                None => {}
            }
        }
        self.take_those_alone();
    }

    /// Tells epoll sets and sleeping threads of endpoints that datagrams were queued at.
    pub(crate) fn raise_readable(&mut self) {
        while let Some(endpoint) = self.engine().and_then(|engine| engine.stack().take_readable()) {
            if let Some(id) = self.table.owner(endpoint) {
                self.sets.raise(id, Events::ARRIVED);
                self.sleepers.wake_for(id);
            }
        }
    }
}

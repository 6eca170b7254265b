//! What the program asks of its epoll sets.

use super::{ASK_KERNEL_AFTER_TICKS, AskKernel, Asked, Collected, Concerns, Control, Operation};
use crate::epoll::{Delivery, Interest, SetId, Target};
use crate::host::Host;
use crate::id::SocketId;
use crate::socket::Socket;
use crate::sockets::Sockets;
use crate::status::Counter;

impl<H: Host> Sockets<H> {
    /// epoll_create(2) returned an fd.
    pub fn epoll_opened(&mut self, fd: i32) {
        self.sets.opened(fd);
    }

    /// Decides who does what epoll_ctl(2) asks for, and does it where it is ours.
    pub fn epoll_control(&mut self, set: i32, operation: Operation, interest: Interest) -> Control {
        let Some(set) = self.sets.find(set) else { return Control::Kernel };
        // A child that has read from a socket has put it into the kernel's sets, and the kernel takes it out.
        self.follow_children();
        self.claim_registered();
        self.claim_fd(interest.fd);
        if operation != Operation::Delete {
            self.settle_if_bound(interest.fd);
        }
        let Some(id) = self.find(interest.fd) else { return Control::Kernel };
        // A client registers too, and sends then.
        let awaits = self.get(id).is_some_and(Socket::awaits_first_use);
        if operation == Operation::Add && self.sets.is_used(set) && !awaits {
            self.use_socket(id);
        }
        if !self.get(id).is_some_and(Socket::is_answered_here) && !self.streams.is_carried(id) {
            let Some(done) = self.sets.control_disarmed(id, set, operation, interest) else { return Control::Kernel };
            self.service_changed();
            return done.map_or_else(Control::Failed, |()| Control::Done);
        }
        let state = self.readiness_of(id);
        let target = Target::Socket(id);
        let done = match operation {
            Operation::Add => self.sets.epoll.add(set, id, interest, state),
            Operation::Modify => self.sets.epoll.modify(set, target, interest, |_| state),
            Operation::Delete => self.sets.epoll.remove(set, interest.fd, target),
        };
        self.generation += 1;
        self.sleepers.wake_for(id);
        self.sets.call_plain_waiters();
        if done.is_ok() && self.sets.halves[set.index()].is_shared {
            self.sets.done_since_fork(set, id, operation, interest.fd);
        }
        match done {
            Ok(()) => Control::Done,
            Err(error) => Control::Failed(error.errno()),
        }
    }

    /// The kernel did what epoll_ctl(2) asked for.
    pub fn epoll_noted(&mut self, set: i32, operation: Operation, interest: Interest) {
        let Some(set) = self.sets.find(set) else { return };
        let inner = self.sets.find(interest.fd);
        if let Some(inner) = inner {
            self.note_nested(set, inner, operation, interest);
        }
        let id = self.find(interest.fd);
        self.sets.note(set, operation, id, interest);
        // Sockets may have come into the set: itself, or within the other set.
        if id.is_some() || inner.is_some() {
            self.service_changed();
            self.sets.call_plain_waiters();
        }
    }

    /// A plain wait for the set that an fd names is over, and was called.
    pub fn plain_waiters_left(&mut self, fd: i32) {
        if let Some(set) = self.sets.find(fd) {
            self.sets.plain_waiters_left(set);
        }
    }

    fn note_nested(&mut self, outer: SetId, inner: SetId, operation: Operation, interest: Interest) {
        let (sets, mut state) = self.sets_and_state();
        // The kernel accepted it, so it is neither there twice nor missing.
        let _ = match operation {
            Operation::Add => sets.epoll.add_set(outer, inner, interest, &mut state),
            Operation::Modify => sets.epoll.modify(outer, Target::Set(inner), interest, &mut state),
            Operation::Delete => sets.epoll.remove(outer, interest.fd, Target::Set(inner)),
        };
    }

    /// Whether epoll_wait(2) on an fd concerns accelerated sockets now, or may while it waits.
    pub fn epoll_concerns(&mut self, fd: i32) -> Concerns {
        self.claim_registered();
        self.follow_shared_sockets();
        let Some(set) = self.sets.find(fd) else { return Concerns::No };
        match self.sets.halves[set.index()].concerns {
            Some((generation, concerns)) if generation == self.generation => concerns,
            _ => self.find_concerns(set),
        }
    }

    /// While the kernel serves a socket, it alone waits for it; threads that wait are woken when that changes.
    #[cold]
    fn find_concerns(&mut self, set: SetId) -> Concerns {
        self.use_servers_in(set);
        let concerns = if self.sets.epoll.is_empty(set) { Concerns::No } else { Concerns::Now };
        self.sets.halves[set.index()].concerns = Some((self.generation, concerns));
        concerns
    }

    /// A wait for a set begins: those in it whose first use this is are servers.
    fn use_servers_in(&mut self, set: SetId) {
        let awaits = |id: &SocketId| self.get(*id).is_some_and(Socket::awaits_first_use);
        for id in self.sets.kernels_read_in(set).filter(awaits).collect::<Vec<_>>() {
            self.settle(id, None);
            if self.sets.is_used(set) {
                self.use_socket(id);
            }
        }
    }

    /// Takes in what there is and delivers up to `most` events.
    ///
    /// The kernel's half is asked where the call would else find nothing, and first where it was not asked for long or ours
    /// has had its turn: both halves come to their right, whatever room the program gives.
    pub fn epoll_collect(
        &mut self,
        fd: i32,
        most: usize,
        asked: Asked,
        deliver: impl FnMut(Delivery),
    ) -> Option<Collected> {
        let set = self.sets.find(fd)?;
        if asked != Asked::JustNow {
            self.take_in();
        }
        let now_ticks = self.time().ticks;
        let (sets, state) = self.sets_and_state();
        let half = &mut sets.halves[set.index()];
        let is_our_turn = std::mem::take(&mut half.is_our_turn);
        if (half.kernel_members == 0 && !half.is_shared) || asked == Asked::JustNow {
            let count = sets.epoll.collect(set, most, state, deliver);
            return Some(Collected { count, ask_kernel: AskKernel::No });
        }
        let is_due = now_ticks.wrapping_sub(half.asked_kernel_ticks) > ASK_KERNEL_AFTER_TICKS;
        let is_old_news = half.raised == sets.raised;
        half.raised = sets.raised;
        if std::mem::take(&mut half.is_kernels_turn) || (is_due && !is_our_turn) {
            half.asked_kernel_ticks = now_ticks;
            // Until ours is collected in what room is left.
            half.is_our_turn = true;
            return Some(Collected { count: 0, ask_kernel: AskKernel::First });
        }
        let count = sets.epoll.collect(set, most, state, deliver);
        let half = &mut sets.halves[set.index()];
        half.is_kernels_turn = count == most && is_old_news;
        let asks = count < most && (asked == Asked::NotYet && (count == 0 || is_old_news || is_due));
        if asks {
            half.asked_kernel_ticks = now_ticks;
        }
        if count > 0 {
            self.page.count(Counter::CallsServed, 1);
        }
        Some(Collected { count, ask_kernel: if asks { AskKernel::Too } else { AskKernel::No } })
    }

    /// Whether poll(2) on an epoll descriptor would find events of accelerated sockets.
    pub fn epoll_is_ready(&mut self, fd: i32) -> Option<bool> {
        let set = self.sets.find(fd)?;
        let (sets, state) = self.sets_and_state();
        Some(sets.epoll.is_ready(set, state))
    }
}

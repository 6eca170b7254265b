//! The calls that send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nearwire_stack::{Family, Message};

use super::{AfterSend, DATAGRAM_BYTES_MOST, Send, Sender};
use crate::engine::{Engine, EngineKicked, LookAroundSend, Sent};
use crate::epoll::Events;
use crate::host::Host;
use crate::id::SocketId;
use crate::reason::{Handed, HandedCall, Reason};
use crate::send_run::{Held, SendRun};
use crate::socket::{Service, Socket};
use crate::sockets::Sockets;
use crate::status::{Counter, SocketCounter};

impl<H: Host> Sockets<H> {
    /// A send with MSG_MORE is about to be made by the kernel.
    pub fn corked(&mut self, fd: i32) {
        if let Some(socket) = self.find(fd).and_then(|id| self.get_mut(id)) {
            socket.shadow.is_corked = true;
        }
    }

    /// The socket's family, and that of where a datagram without a destination of its own (`to`) goes. `None`: it goes nowhere.
    #[must_use]
    pub fn families_of_send(&self, fd: i32, to: Option<SocketAddr>) -> Option<(Family, Family)> {
        let socket = self.get(self.find(fd)?)?;
        let is_v4 = to.or(socket.ends.remote)?.ip().to_canonical().is_ipv4();
        Some((socket.family, if is_v4 { Family::V4 } else { Family::V6 }))
    }

    /// Sends a datagram. `more`: others follow at once, and [`Sockets::flush`] after them.
    #[inline]
    pub fn send(&mut self, fd: i32, message: &Message<'_>, more: bool) -> Send {
        let Some(id) = self.find(fd) else { return Send::Kernel };
        let holds = self.leaving.holds_another() && !more;
        let now = if holds { self.time_of_frames() } else { self.time() };
        let Some((socket, engine)) = self.with_engine(id) else { return self.send_undecided(id, message, more) };
        let Service::Accelerated(accelerated) = &socket.service else { return self.send_undecided(id, message, more) };
        if holds && !socket.shadow.has_error && !socket.shadow.is_corked {
            // Without a look at clock or watch: the first of those that are held had one, and the last will.
            return match engine.send(now, accelerated.endpoint, message) {
                Sent::Queued => {
                    self.leaving.run.hold_another();
                    self.sent_now(id, message, true)
                }
                other => self.send_again(id, message, more, other),
            };
        }
        // The kernel would tell an error instead of sending.
        let has_error = socket.shadow.hears_errors && engine.has_new_errors();
        let look = if has_error { LookAroundSend::Before } else { engine.look_around_send(now) };
        if look == LookAroundSend::Before {
            if has_error {
                self.look_for_errors(id);
            } else {
                self.look();
            }
            if self.forget_if_closed(id) {
                return Send::Kernel;
            }
            return self.send_now(id, message, more);
        }
        if socket.shadow.has_error || socket.shadow.is_corked {
            return self.send_now(id, message, more);
        }
        let endpoint = accelerated.endpoint;
        match engine.send(now, endpoint, message) {
            Sent::Queued => {
                socket.slot.count_sent(message.payload.len());
                if !more && self.leaving.kicks(now.ticks) {
                    self.kick();
                    self.leaving.run.kick_took(now.ticks, || self.host.ticks());
                }
                if look == LookAroundSend::After && !more {
                    self.look_after_send();
                }
                self.page.count(Counter::CallsServed, 1);
                self.raise_sendable(id);
                Send::Done
            }
            other => self.send_again(id, message, more, other),
        }
    }

    /// After a look: the socket may have an error, which the kernel reports, or be the kernel's by now.
    fn send_now(&mut self, id: SocketId, message: &Message<'_>, more: bool) -> Send {
        let now = self.time();
        let Some((socket, engine)) = self.with_engine(id) else { return Send::Kernel };
        if let Some(sent) = socket.send_aside(message) {
            self.flush();
            if sent == Send::Kernel {
                self.handed_at(id, HandedCall::ShadowReady);
            }
            return sent;
        }
        let Service::Accelerated(accelerated) = &socket.service else { return Send::Kernel };
        let sent = engine.send(now, accelerated.endpoint, message);
        if sent == Sent::Queued {
            return self.sent_now(id, message, more);
        }
        self.send_again(id, message, more, sent)
    }

    fn sent_now(&mut self, id: SocketId, message: &Message<'_>, more: bool) -> Send {
        if let Some(socket) = self.get_mut(id) {
            socket.slot.count_sent(message.payload.len());
        }
        if !more {
            self.kick();
        }
        self.page.count(Counter::CallsServed, 1);
        self.raise_sendable(id);
        Send::Done
    }

    /// The port was full, or the stack could not: once more after a kick, else the kernel.
    #[cold]
    fn send_again(&mut self, id: SocketId, message: &Message<'_>, more: bool, first: Sent) -> Send {
        // What was queued before goes first.
        self.flush();
        let now = self.time();
        let Some((socket, engine)) = self.with_engine(id) else { return Send::Kernel };
        let Service::Accelerated(accelerated) = &socket.service else { return Send::Kernel };
        if first == Sent::Full && engine.send(now, accelerated.endpoint, message) == Sent::Queued {
            return self.sent_now(id, message, more);
        }
        socket.slot.count(SocketCounter::SentByShadow);
        socket.slot.count(SocketCounter::CallsHanded);
        self.page.count_handed(match first {
            Sent::Kernel(reason) => Handed::ByStack(reason),
            Sent::Queued | Sent::Full => Handed::ByLibrary(HandedCall::NotReady),
        });
        Send::Kernel
    }

    #[cold]
    fn send_undecided(&mut self, id: SocketId, message: &Message<'_>, more: bool) -> Send {
        if self.claims_to_send {
            self.claim(id, Reason::ReadByChild);
        }
        self.look_at_lent(id);
        match self.get(id).map(|socket| &socket.service) {
            Some(Service::Open) => {}
            Some(Service::Accelerated(_)) => return self.send_now(id, message, more),
            Some(Service::Kernel(_)) if self.is_refused(id) => return Send::Refused,
            Some(Service::Kernel(_)) => {
                self.let_calls_pass(id);
                return Send::Kernel;
            }
            None => return Send::Kernel,
        }
        let Some(socket) = self.get_mut(id) else { return Send::Kernel };
        if let Some(sent) = socket.send_aside(message) {
            return sent;
        }
        if socket.awaits_first_use() {
            self.is_clients(id);
        }
        let Some(socket) = self.get_mut(id) else { return Send::Kernel };
        if socket.is_young() {
            self.send_young(id, message.to);
            return Send::Kernel;
        }
        // A send that the kernel would refuse decides nothing.
        let Some(remote) = message.to.or(socket.ends.remote).filter(|to| to.port() != 0) else { return Send::Kernel };
        if matches!(socket.family, nearwire_stack::Family::V4) && remote.is_ipv6() {
            return Send::Kernel;
        }
        // A connected socket may send elsewhere, and receives from its peer alone. What a server sends to says nothing.
        let remote = socket.ends.peer().or(Some(remote).filter(|_| !socket.ends.is_server()));
        self.use_socket(id);
        self.settle(id, remote);
        if self.is_refused(id) {
            return Send::Refused;
        }
        self.send_now(id, message, more)
    }

    /// A frame has left, so there is room again (`sock_def_write_space`): edge-triggered registrations report it.
    #[inline]
    fn raise_sendable(&mut self, id: SocketId) {
        if self.sets.raise(id, Events::SENDABLE) {
            self.sleepers.wake_for(id);
        }
    }

    /// The original call has sent a datagram of the socket: there is room again as well.
    pub fn sent_by_kernel(&mut self, fd: i32) {
        if let Some(id) = self.find(fd) {
            self.raise_sendable(id);
        }
    }

    /// Has the kernel send what is queued, now or when nobody is kept out ([`AfterSend`]).
    #[inline]
    pub fn kick(&mut self) {
        if !self.leaving.is_shared {
            return self.flush();
        }
        self.leaving.kick = self.engine().and_then(Engine::flush_but_one);
        self.leaving.run.kicked();
    }

    /// What comes by the kernel is looked for while the datagram is on its way.
    #[inline]
    fn look_after_send(&mut self) {
        if self.leaving.is_shared {
            self.leaving.looks = true;
        } else {
            self.look();
        }
    }

    /// Who makes the sends that follow.
    #[inline]
    pub fn set_sender(&mut self, sender: Sender) {
        let tx_queue = match sender {
            Sender::Alone if !self.leaving.is_shared => return,
            Sender::Alone => 0,
            // The queue stays the thread's, so that nothing is overtaken.
            Sender::OneOf(thread) | Sender::AloneForNow(thread) => self.leaving.tx_queue_of(thread),
        };
        self.leaving.is_shared = match sender {
            Sender::Alone => false,
            Sender::OneOf(_) => true,
            // Where nothing is held, a kick that keeps nobody out costs the same.
            Sender::AloneForNow(_) => !self.leaving.run.is_on(),
        };
        if let Some(engine) = self.engine() {
            engine.set_tx_queue(tx_queue);
        }
    }

    /// What the sends since the last question left to be done.
    #[inline]
    pub fn take_after_send(&mut self) -> Option<AfterSend<H>> {
        let unwatched = self.leaving.run.take_unwatched();
        if !self.leaving.is_shared && unwatched.is_none() {
            return None;
        }
        let (kick, looks) = (self.leaving.kick.take(), std::mem::take(&mut self.leaving.looks));
        Some(AfterSend { kick, looks, unwatched })
    }

    /// Takes note of what came of a kick.
    #[cold]
    pub fn kicked(&mut self, done: EngineKicked<H::Port>) {
        if let Some(engine) = self.engine() {
            engine.kicked(done);
        }
    }

    /// Has the kernel send what was queued with `more`, or is held.
    #[inline]
    pub fn flush(&mut self) {
        // Before the kick: one of many frames takes as long as the timer thread's pause, which would see them held twice.
        self.leaving.run.kicked();
        if let Some(engine) = self.engine() {
            engine.flush();
        }
    }

    /// The program makes a call that is no send: what is held of those before goes first.
    #[inline]
    pub fn end_send_run(&mut self) {
        if self.leaving.run.end() {
            self.flush();
        }
    }

    /// How long datagrams may be held.
    #[must_use]
    pub const fn send_coalescing(&self) -> Duration {
        self.config.send_coalescing
    }

    /// What is held back of this engine's, if its time is watched.
    #[must_use]
    pub fn watched(&self) -> Option<Arc<Held>> {
        Some(self.leaving.run.held()).filter(|held| held.is_watched()).cloned()
    }

    /// Nobody can see to what is held: every datagram leaves at once from now on.
    pub fn stop_coalescing(&mut self) {
        self.flush();
        self.leaving.run = SendRun::new(false);
    }
}

impl Socket {
    /// What stands in the way of a send past the kernel: an error to be reported first, or a datagram that the kernel gathers.
    fn send_aside(&mut self, message: &Message<'_>) -> Option<Send> {
        if self.shadow.is_corked {
            // This send ends it, unless it is refused for its length.
            self.shadow.is_corked = message.payload.len() > DATAGRAM_BYTES_MOST;
            return Some(Send::Kernel);
        }
        if !self.shadow.has_error {
            return None;
        }
        let error = std::mem::take(&mut self.shadow.pending_error);
        if error != 0 {
            return Some(Send::Failed(error));
        }
        // Told already, it is seen no more: a program that only sends would go by the kernel for ever.
        self.shadow.look();
        self.shadow.has_error.then_some(Send::Kernel)
    }
}

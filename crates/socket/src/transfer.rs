//! Sending and receiving: one attempt each, which never waits. Who may wait calls again (`wait.rs`).

use std::time::Duration;

use nearwire_stack::{Datagram, EndpointId, Message, Take};

use crate::engine::{Engine, FRAMES_AT_ONCE, Looked, Seen, Sent};
use crate::id::SocketId;
use crate::readiness::look_at;
use crate::reason::Reason;
use crate::shadow::Ancillary;
use crate::sockets::Sockets;
use crate::udp_socket::{Service, UdpSocket};

/// A send longer than this is refused before the kernel looks at what it gathers (`udp_sendmsg`).
const DATAGRAM_BYTES_MOST: usize = 65_535;

/// Datagrams that one after the other are found at once before the watch is looked at: else what comes by the kernel would
/// never be seen by a program that is kept busy.
const RECEIVES_PER_LOOK: u32 = 64;

/// A datagram on its way to the program, with what the socket's options want told of it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The datagram.
    pub datagram: &'a Datagram<'a>,
    /// What is told beside it.
    pub ancillary: &'a Ancillary,
    /// The socket is an IPv6 one: IPv4 addresses are told in their mapped form.
    pub is_v6: bool,
    /// The port it was sent to (`IP_RECVORIGDSTADDR`).
    pub local_port: u16,
    /// Of a group datagram: this host's address on its interface, where packet information is wanted (`ipi_spec_dst`).
    pub own_address: Option<std::net::Ipv4Addr>,
}

/// What became of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive<R> {
    /// A datagram was delivered; what the reader made of it.
    Done(R),
    /// The original call has to be made: the socket is the kernel's.
    Kernel,
    /// The shadow may have something: the original call with MSG_DONTWAIT, then [`Sockets::shadow_answered`].
    Shadow,
    /// The call fails with this error.
    Failed(i32),
    /// Nothing is there.
    Empty {
        /// O_NONBLOCK is set.
        is_nonblocking: bool,
        /// SO_RCVTIMEO.
        timeout: Option<Duration>,
    },
}

/// What became of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Send {
    /// Sent, or queued until [`Sockets::flush`].
    Done,
    /// The original call has to be made on the shadow.
    Kernel,
    /// The call fails with this error.
    Failed(i32),
}

impl Sockets {
    /// Receives a datagram, if there is one: an error of the shadow first, as in the kernel, then what waits, then what the
    /// shadow has, then what comes by a port, which is read where it lies. `stays`: MSG_PEEK.
    ///
    /// Datagrams that the kernel delivers (from this host, in fragments) and those that come by a port are each in order;
    /// there is none among the two.
    #[inline]
    pub fn receive<R>(&mut self, number: i32, stays: bool, mut read: impl FnMut(Delivery<'_>) -> R) -> Receive<R> {
        let Some(id) = self.find(number) else { return Receive::Kernel };
        let Some((socket, engine)) = self.with_engine(id) else { return self.receive_undecided(id) };
        let Some(endpoint) = socket.endpoint() else { return self.receive_undecided(id) };
        if socket.shadow_has_error && socket.is_accelerated() {
            return socket.shadow_or_pending();
        }
        if engine.stack_ref().udp_waiting(endpoint) > 0 {
            if engine.is_look_due() {
                return self.receive_later(id, endpoint, false, stays, read);
            }
            return match read_waiting(socket, engine, endpoint, stays, read) {
                Some(result) => Receive::Done(result),
                None => Receive::Kernel,
            };
        }
        if !socket.is_accelerated() {
            self.drop_leftover(id);
            return Receive::Kernel;
        }
        if socket.shadow_has_data {
            return Receive::Shadow;
        }
        let mut found = None;
        let mut for_others = 0;
        while found.is_none() && for_others < FRAMES_AT_ONCE {
            let is_frame = engine.poll(|to, datagram| {
                if to != endpoint || stays || found.is_some() {
                    return Take::Queue;
                }
                found = Some(deliver(socket, datagram, &mut read));
                Take::Consumed
            });
            if !is_frame {
                break;
            }
            for_others += 1;
        }
        let took = for_others > 0;
        if let Some(result) = found {
            socket.counters.received += 1;
            socket.received_unlooked += 1;
            let is_unlooked = socket.received_unlooked >= RECEIVES_PER_LOOK;
            if for_others > 1 || is_unlooked {
                self.after_many(id, is_unlooked);
            }
            return Receive::Done(result);
        }
        self.receive_later(id, endpoint, took, stays, read)
    }

    /// A receive took frames of others in, or it was one of many that all found a frame at once.
    #[cold]
    fn after_many(&mut self, id: SocketId, is_unlooked: bool) {
        self.raise_readable();
        if is_unlooked {
            if let Some(socket) = self.get_mut(id) {
                socket.received_unlooked = 0;
            }
            self.look_if_due();
        }
    }

    /// Nothing for this socket was in the ports: others may have become readable, and the shadow may have something.
    fn receive_later<R>(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        took: bool,
        stays: bool,
        read: impl FnMut(Delivery<'_>) -> R,
    ) -> Receive<R> {
        if took {
            self.raise_readable();
        }
        self.look_if_due();
        let Some((socket, engine)) = self.with_engine(id) else { return Receive::Kernel };
        if socket.shadow_has_error && socket.is_accelerated() {
            return socket.shadow_or_pending();
        }
        if engine.stack_ref().udp_waiting(endpoint) > 0
            && let Some(result) = read_waiting(socket, engine, endpoint, stays, read)
        {
            return Receive::Done(result);
        }
        if socket.shadow_has_data || socket.shadow_has_error {
            return socket.shadow_or_pending();
        }
        if !socket.is_accelerated() {
            return Receive::Kernel;
        }
        let timeout = socket.kept.and_then(|kept| kept.receive_timeout);
        Receive::Empty { is_nonblocking: socket.is_nonblocking, timeout }
    }

    /// The first use of a socket that the kernel gave its port.
    #[cold]
    fn receive_undecided<R>(&mut self, id: SocketId) -> Receive<R> {
        let Some(socket) = self.get(id) else { return Receive::Kernel };
        if matches!(socket.service, Service::Open) && socket.local.is_some_and(|local| local.port() != 0) {
            self.settle(id, None);
            if self.get(id).is_some_and(UdpSocket::is_accelerated) {
                return Receive::Shadow;
            }
        }
        Receive::Kernel
    }

    fn drop_leftover(&mut self, id: SocketId) {
        let Some((socket, engine)) = self.with_engine(id) else { return };
        if let Some(endpoint) = socket.leftover.take() {
            engine.stack().udp_close(endpoint);
            self.sets.handed_over(id);
        }
    }

    /// A call ended with an error that it could not tell, as recvmmsg(2) after the first datagram: the next call does.
    pub fn set_pending_error(&mut self, number: i32, error: i32) {
        if let Some(socket) = self.find(number).and_then(|id| self.get_mut(id))
            && socket.is_accelerated()
        {
            (socket.pending_error, socket.shadow_has_error) = (error, true);
        }
    }

    /// Takes that error: what SO_ERROR does. `None`: the kernel knows.
    pub fn take_pending_error(&mut self, number: i32) -> Option<i32> {
        let socket = self.find(number).and_then(|id| self.get_mut(id))?;
        Some(std::mem::take(&mut socket.pending_error)).filter(|error| *error != 0)
    }

    /// A send with MSG_MORE is about to be made by the kernel.
    pub fn corked(&mut self, number: i32) {
        if let Some(socket) = self.find(number).and_then(|id| self.get_mut(id)) {
            socket.is_corked = true;
        }
    }

    /// Whether datagrams that were taken before a socket became the kernel's wait to be read.
    #[must_use]
    pub fn has_leftover(&self, number: i32) -> bool {
        self.find(number).and_then(|id| self.get(id)).is_some_and(|socket| socket.leftover.is_some())
    }

    /// The shadow was asked after [`Receive::Shadow`]; `is_empty`: it answered EAGAIN.
    pub fn shadow_answered(&mut self, number: i32, is_empty: bool) {
        let Some(socket) = self.find(number).and_then(|id| self.get_mut(id)) else { return };
        if is_empty {
            (socket.shadow_has_data, socket.shadow_has_error) = (false, false);
        } else {
            socket.counters.received_by_kernel += 1;
        }
    }

    /// Sends a datagram. `more`: others follow at once, and [`Sockets::flush`] after them.
    #[inline]
    pub fn send(&mut self, number: i32, message: &Message<'_>, more: bool) -> Send {
        let Some(id) = self.find(number) else { return Send::Kernel };
        let Some((socket, engine)) = self.with_engine(id) else { return self.send_undecided(id, message, more) };
        let Service::Accelerated(accelerated) = &socket.service else { return self.send_undecided(id, message, more) };
        if engine.is_look_due() {
            self.look();
            return self.send_now(id, message, more);
        }
        if socket.shadow_has_error || socket.is_corked {
            return self.send_now(id, message, more);
        }
        let endpoint = accelerated.endpoint;
        match engine.send(endpoint, message) {
            Sent::Queued => {
                socket.counters.sent += 1;
                if !more {
                    engine.flush();
                }
                Send::Done
            }
            other => self.send_again(id, message, more, other),
        }
    }

    /// After a look: the socket may have an error, which the kernel tells, or be the kernel's by now.
    fn send_now(&mut self, id: SocketId, message: &Message<'_>, more: bool) -> Send {
        let Some((socket, engine)) = self.with_engine(id) else { return Send::Kernel };
        if let Some(sent) = socket.send_aside(message) {
            engine.flush();
            return sent;
        }
        let Service::Accelerated(accelerated) = &socket.service else { return Send::Kernel };
        let sent = engine.send(accelerated.endpoint, message);
        if sent == Sent::Queued {
            socket.counters.sent += 1;
            if !more {
                engine.flush();
            }
            return Send::Done;
        }
        self.send_again(id, message, more, sent)
    }

    /// The port was full, or the stack could not: once more after a kick, else the kernel.
    #[cold]
    fn send_again(&mut self, id: SocketId, message: &Message<'_>, more: bool, first: Sent) -> Send {
        let Some((socket, engine)) = self.with_engine(id) else { return Send::Kernel };
        let Service::Accelerated(accelerated) = &socket.service else { return Send::Kernel };
        if first == Sent::Full {
            engine.flush();
            if engine.send(accelerated.endpoint, message) == Sent::Queued {
                socket.counters.sent += 1;
                if !more {
                    engine.flush();
                }
                return Send::Done;
            }
        }
        socket.counters.sent_by_kernel += 1;
        // What was queued before goes first.
        engine.flush();
        Send::Kernel
    }

    #[cold]
    fn send_undecided(&mut self, id: SocketId, message: &Message<'_>, more: bool) -> Send {
        let Some(socket) = self.get_mut(id) else { return Send::Kernel };
        if !matches!(socket.service, Service::Open) {
            return Send::Kernel;
        }
        if let Some(sent) = socket.send_aside(message) {
            return sent;
        }
        // A send that the kernel would refuse decides nothing.
        let Some(remote) = message.to.or(socket.remote).filter(|to| to.port() != 0) else { return Send::Kernel };
        if matches!(socket.family, nearwire_stack::Family::V4) && remote.is_ipv6() {
            return Send::Kernel;
        }
        self.settle(id, Some(remote));
        self.send_now(id, message, more)
    }

    /// Has the kernel send what was queued with `more`.
    #[inline]
    pub fn flush(&mut self) {
        if let Some(engine) = self.engine() {
            engine.flush();
        }
    }

    /// Bytes of the datagram that the next receive would deliver; `None`: ask the kernel (FIONREAD).
    pub fn next_datagram_bytes(&mut self, number: i32) -> Option<usize> {
        let id = self.find(number)?;
        self.take_in();
        let (socket, engine) = self.with_engine(id)?;
        let endpoint = socket.endpoint()?;
        engine.stack_ref().udp_peek(endpoint, |datagram| datagram.payload.len())
    }

    /// Takes in what the ports have, and looks at the watch when that is due.
    pub fn take_in(&mut self) {
        self.take_in_frames();
        self.look_if_due();
    }

    /// Takes in what the ports have.
    pub(crate) fn take_in_frames(&mut self) {
        let Some(engine) = self.engine() else { return };
        if engine.poll_all() > 0 {
            self.raise_readable();
        }
    }

    #[inline]
    pub(crate) fn look_if_due(&mut self) {
        if self.engine().is_some_and(|engine| engine.is_look_due()) {
            self.look();
        }
    }

    /// Looks at the watch and follows what it says.
    pub fn look(&mut self) {
        let mut seen = [(0_u32, Seen::default()); 64];
        let mut count = 0;
        let Some(engine) = self.engine() else { return };
        let mut overflow = Vec::new();
        let looked = engine.look(|token, what| match seen.get_mut(count) {
            Some(slot) => {
                *slot = (token, what);
                count += 1;
            }
            // Rare, and not on the path of a datagram.
            None => overflow.push((token, what)),
        });
        for (token, what) in seen[..count].iter().copied().chain(overflow) {
            self.shadow_has(SocketId::new(token), what);
        }
        if looked != Looked::default() {
            self.follow(looked);
        }
        self.follow_sharing(false);
    }

    fn shadow_has(&mut self, id: SocketId, what: Seen) {
        let Some(socket) = self.get_mut(id) else { return };
        if !socket.is_accelerated() {
            return;
        }
        socket.shadow_has_data |= what.data;
        socket.shadow_has_error |= what.error;
        self.sets.raise(id, what.data, what.error);
        self.wake_sleepers();
    }

    #[cold]
    fn follow(&mut self, looked: Looked) {
        if !looked.addresses_changed && !looked.ports_failed {
            return;
        }
        for index in 0..self.socket_count() {
            let id = SocketId::new(index as u32);
            if self.get(id).is_some_and(UdpSocket::is_accelerated)
                && let Err(reason) = self.follow_addresses(id)
            {
                self.hand_over(id, reason);
            }
        }
    }

    /// Tells epoll sets and sleeping threads of endpoints that datagrams were queued at.
    pub(crate) fn raise_readable(&mut self) {
        let mut any = false;
        while let Some(endpoint) = self.engine().and_then(|engine| engine.stack().take_readable()) {
            if let Some(id) = self.owner(endpoint) {
                self.sets.raise(id, true, false);
                any = true;
            }
        }
        if any {
            self.wake_sleepers();
        }
    }

    /// A thread is about to sleep on the watch; it looks once more before it does.
    pub fn begin_sleep(&mut self) {
        self.sleepers += 1;
        self.follow_sharing(true);
    }

    /// It is back for good.
    pub fn end_sleep(&mut self) {
        self.sleepers = self.sleepers.saturating_sub(1);
    }

    /// A thread that sleeps may wait for what this one has found.
    pub(crate) fn wake_sleepers(&mut self) {
        if self.sleepers > 0
            && let Some(engine) = self.engine()
        {
            engine.watch().wake();
        }
    }

    /// What the program can be told of a socket: accelerated or not, and why.
    #[must_use]
    pub fn reason(&self, number: i32) -> Option<Reason> {
        match &self.get(self.find(number)?)?.service {
            Service::Open => Some(Reason::NotBound),
            Service::Kernel(reason) => Some(*reason),
            Service::Accelerated(_) => None,
        }
    }
}

impl UdpSocket {
    /// There may be an error: one that is kept here, or one that the shadow has.
    #[cold]
    fn shadow_or_pending<R>(&mut self) -> Receive<R> {
        match std::mem::take(&mut self.pending_error) {
            0 => Receive::Shadow,
            error => Receive::Failed(error),
        }
    }

    /// What stands in the way of a send past the kernel: an error to be told first, or a datagram that the kernel gathers.
    fn send_aside(&mut self, message: &Message<'_>) -> Option<Send> {
        if self.is_corked {
            // This send ends it, unless it is refused for its length.
            self.is_corked = message.payload.len() > DATAGRAM_BYTES_MOST;
            return Some(Send::Kernel);
        }
        if !self.shadow_has_error {
            return None;
        }
        let error = std::mem::take(&mut self.pending_error);
        if error != 0 {
            return Some(Send::Failed(error));
        }
        // Told already, it is seen no more: a program that only sends would go by the kernel for ever.
        (self.shadow_has_data, self.shadow_has_error) = look_at(self.shadow);
        self.shadow_has_error.then_some(Send::Kernel)
    }
}

#[inline]
fn deliver<R>(socket: &UdpSocket, datagram: &Datagram<'_>, read: &mut impl FnMut(Delivery<'_>) -> R) -> R {
    const NONE: Ancillary = Ancillary::NONE;
    let ancillary = socket.kept.as_ref().map_or(&NONE, |kept| &kept.ancillary);
    let is_v6 = matches!(socket.family, nearwire_stack::Family::V6);
    let local_port = socket.local.map_or(0, |local| local.port());
    let is_group = datagram.destination.is_multicast();
    let own_address = if is_group && ancillary.packet_info { socket.own_address_on(datagram.ifindex) } else { None };
    read(Delivery { datagram, ancillary, is_v6, local_port, own_address })
}

fn read_waiting<R>(
    socket: &mut UdpSocket,
    engine: &mut Engine,
    endpoint: EndpointId,
    stays: bool,
    mut read: impl FnMut(Delivery<'_>) -> R,
) -> Option<R> {
    let stack = engine.stack();
    if stays {
        return stack.udp_peek(endpoint, |datagram| deliver(socket, datagram, &mut read));
    }
    let result = stack.udp_read(endpoint, |datagram| deliver(socket, datagram, &mut read));
    socket.counters.received += u64::from(result.is_some());
    result
}

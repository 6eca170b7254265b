//! Receiving, one attempt that never waits: a call that may wait tries again (`wait.rs`).

mod leftover;
mod looking;
mod sleep;

use std::time::Duration;

use nearwire_frames::ports::xdp::TimesWanted;
use nearwire_stack::{Datagram, EndpointId, Take};
use nearwire_sys::own_stack;

use crate::engine::{Engine, FRAMES_AT_ONCE};
use crate::epoll::Events;
use crate::host::Host;
use crate::id::SocketId;
use crate::kept::Ancillary;
use crate::now::Now;
use crate::reason::{HandedCall, Reason};
use crate::socket::{Order, Service, ShadowSaid, Socket};
use crate::sockets::Sockets;
use crate::status::{Counter, SocketCounter};

pub use sleep::SleepDescriptors;

/// Datagrams that one after the other are found at once before the watch is looked at: else what comes by the kernel would
/// never be seen by a program that is kept busy.
const RECEIVES_PER_LOOK: u32 = 64;

/// From the program's decision about an error message to the socket's error: 4 to 20 us, in which a driver gives a batch of frames to the
/// kernel. A message for another socket holds a receive up for so long, as often as the engine allows it.
const ERROR_COMES_IN_TICKS: u64 = 20_000;

/// A datagram on its way to the program, with what the socket's options want reported with it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The datagram.
    pub datagram: &'a Datagram<'a>,
    /// What is told beside it.
    pub ancillary: &'a Ancillary,
    /// The socket is an IPv6 one: IPv4 addresses are told in their mapped form.
    pub is_v6: bool,
    /// The port it was sent to, where that is wanted (`IP_RECVORIGDSTADDR`).
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
    /// It fails: `strict` is set, and the socket cannot be accelerated.
    Refused,
    /// The shadow may have something: the original call with MSG_DONTWAIT, then [`Sockets::shadow_answered`] with this.
    Shadow(News),
    /// The kernel serves the socket as yet: the original call with MSG_DONTWAIT, and if there is nothing the call waits
    /// for the shadow and for us. A datagram is told by [`Sockets::received_undecided`].
    Undecided {
        /// O_NONBLOCK is set.
        is_nonblocking: bool,
        /// SO_RCVTIMEO.
        timeout: Option<Duration>,
    },
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

/// What was known of a shadow before it was asked: other threads may learn more meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News(u32);

impl<H: Host> Sockets<H> {
    /// Receives a datagram, if there is one: an error of the shadow first, as in the kernel, then what waits, then what the
    /// shadow has, then what comes by a port, which is read where it lies. `stays`: MSG_PEEK.
    ///
    /// Datagrams that the kernel delivers (from this host, in fragments) and those that come by a port are each in order;
    /// there is none among the two. Those that a port had no room for are in order with those that it had room for.
    #[inline]
    pub fn receive<R>(&mut self, fd: i32, stays: bool, read: impl FnMut(Delivery<'_>) -> R) -> Receive<R> {
        match self.find(fd) {
            Some(id) => self.receive_at(id, stays, read),
            None => Receive::Kernel,
        }
    }

    /// The same of a socket that the call [holds](Sockets::hold).
    #[inline]
    pub fn receive_at<R>(&mut self, id: SocketId, stays: bool, read: impl FnMut(Delivery<'_>) -> R) -> Receive<R> {
        self.receive_once::<false, R>(id, stays, read)
    }

    /// `HAS_LOOKED`: whatever errors may have come, the watch was looked at for them.
    #[inline]
    fn receive_once<const HAS_LOOKED: bool, R>(
        &mut self,
        id: SocketId,
        stays: bool,
        mut read: impl FnMut(Delivery<'_>) -> R,
    ) -> Receive<R> {
        self.follow_children();
        let now = self.time_of_frames();
        let Some((socket, engine)) = self.with_engine(id) else { return self.receive_undecided(id) };
        let Some(endpoint) = socket.endpoint() else { return self.receive_undecided(id) };
        if !HAS_LOOKED && socket.shadow.hears_errors && engine.has_new_errors() {
            return self.look_and_receive(id, stays, read);
        }
        if socket.shadow.has_error && socket.is_accelerated() {
            return socket.shadow_or_pending();
        }
        if socket.shadow.order == Order::PortsLast {
            return self.receive_behind(id, endpoint, stays, read);
        }
        if engine.stack_ref().udp_waiting(endpoint) > 0 && !socket.shadow.is_first() {
            return self.receive_waiting(id, endpoint, stays, read);
        }
        if !socket.is_accelerated() {
            socket.shadow.end_first();
            self.leftover_was_read(id);
            return self.receive_undecided(id);
        }
        // While it overflows, what is in the ports is older.
        if socket.shadow.has_data && !engine.is_overflowing() {
            return self.look_and_ask_shadow(id, endpoint, stays, read);
        }
        let mut found = None;
        let mut len_bytes = 0;
        let mut for_others = 0;
        while found.is_none() && for_others < FRAMES_AT_ONCE {
            let is_frame = engine.poll(now, |to, datagram| {
                if to != endpoint || stays || found.is_some() {
                    return Take::Queue;
                }
                len_bytes = datagram.payload.len();
                found = Some(deliver(now, socket, datagram, &mut read));
                Take::Consumed
            });
            if !is_frame {
                break;
            }
            for_others += 1;
        }
        let took = for_others > 0;
        if let Some(result) = found {
            socket.slot.count_received(len_bytes);
            crate::wait::count_message();
            socket.udp.received_unlooked += 1;
            let is_unlooked = socket.udp.received_unlooked >= RECEIVES_PER_LOOK;
            self.page.count(Counter::CallsServed, 1);
            if for_others > 1 || is_unlooked {
                self.after_many(id, is_unlooked);
            }
            // Read at once, it has arrived nevertheless: an edge-triggered registration tells what else is true.
            self.sets.raise(id, Events::ARRIVED);
            return Receive::Done(result);
        }
        self.receive_later(id, endpoint, took, stays, read)
    }

    /// Something waits in the socket's queue.
    #[inline]
    fn receive_waiting<R>(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        stays: bool,
        read: impl FnMut(Delivery<'_>) -> R,
    ) -> Receive<R> {
        let now = self.time();
        let Some((socket, engine)) = self.with_engine(id) else { return Receive::Kernel };
        if !socket.is_accelerated()
            && let Some(error) = socket.shadow.take_error()
        {
            return Receive::Failed(error);
        }
        if engine.is_look_due(now) {
            return self.receive_later(id, endpoint, false, stays, read);
        }
        let is_leftover = !socket.is_accelerated();
        match read_waiting(now, socket, engine, endpoint, stays, read) {
            Some(result) => {
                self.page.count(Counter::CallsServed, 1);
                if is_leftover {
                    self.leftover_was_read(id);
                }
                Receive::Done(result)
            }
            None => Receive::Kernel,
        }
    }

    /// A receive took frames of others in, or it was one of many that all found a frame at once.
    #[cold]
    fn after_many(&mut self, id: SocketId, is_unlooked: bool) {
        self.raise_readable();
        if is_unlooked {
            if let Some(socket) = self.get_mut(id) {
                socket.udp.received_unlooked = 0;
            }
            self.look_if_due();
        }
    }

    /// A program that finds something at the shadow each time still learns of interfaces that came up.
    #[cold]
    fn look_and_ask_shadow<R>(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        stays: bool,
        read: impl FnMut(Delivery<'_>) -> R,
    ) -> Receive<R> {
        let now = self.time();
        self.use_socket(id);
        if self.engine().is_some_and(|engine| engine.is_look_due(now)) {
            self.look();
            if self.forget_if_closed(id) {
                return Receive::Kernel;
            }
        }
        match self.with_engine(id) {
            Some((socket, engine)) if socket.is_accelerated() && !engine.is_overflowing() => socket.ask_shadow(),
            _ => self.receive_later(id, endpoint, false, stays, read),
        }
    }

    /// An error of what the socket sent may have come, and goes before what was received, as in the kernel (`__skb_recv_udp`).
    #[cold]
    fn look_and_receive<R>(&mut self, id: SocketId, stays: bool, read: impl FnMut(Delivery<'_>) -> R) -> Receive<R> {
        self.look_for_errors(id);
        if self.forget_if_closed(id) {
            return Receive::Kernel;
        }
        self.receive_once::<true, R>(id, stays, read)
    }

    /// Looks at the watch until the socket has an error, or the message that was counted was not for it: the kernel has that a little
    /// later than the program counts it, and a datagram behind it may be in the ring by then.
    #[cold]
    pub(crate) fn look_for_errors(&mut self, id: SocketId) {
        let began_ticks = self.host.ticks();
        if let Some(engine) = self.engine() {
            engine.awaits_error(began_ticks);
        }
        loop {
            self.look();
            let is_known = self.get(id).is_none_or(|socket| socket.shadow.has_error || !socket.is_accelerated());
            if is_known {
                return self.engine().map_or((), Engine::error_came);
            }
            if self.host.ticks().wrapping_sub(began_ticks) > ERROR_COMES_IN_TICKS {
                return;
            }
        }
    }

    /// The shadow has more than there was room for: what was read made some.
    #[cold]
    fn receive_behind<R>(
        &mut self,
        id: SocketId,
        endpoint: EndpointId,
        stays: bool,
        read: impl FnMut(Delivery<'_>) -> R,
    ) -> Receive<R> {
        self.take_over(id);
        self.receive_later(id, endpoint, true, stays, read)
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
        // For new errors the receive has looked.
        let now = self.time();
        if self.engine().is_some_and(|engine| engine.is_look_due(now) || engine.is_overflowing()) {
            self.look();
            if self.forget_if_closed(id) {
                return Receive::Kernel;
            }
        }
        let Some((socket, engine)) = self.with_engine(id) else { return Receive::Kernel };
        if socket.shadow.has_error && socket.is_accelerated() {
            return socket.shadow_or_pending();
        }
        let is_leftover = !socket.is_accelerated();
        if engine.stack_ref().udp_waiting(endpoint) > 0
            && let Some(result) = read_waiting(now, socket, engine, endpoint, stays, read)
        {
            self.page.count(Counter::CallsServed, 1);
            if is_leftover {
                self.leftover_was_read(id);
            }
            return Receive::Done(result);
        }
        if socket.shadow.has_error || (socket.shadow.has_data && !engine.is_overflowing()) {
            return socket.shadow_or_pending();
        }
        if !socket.is_accelerated() {
            return self.receive_undecided(id);
        }
        let is_nonblocking = socket.file.is_nonblocking;
        if is_nonblocking {
            socket.slot.count(SocketCounter::WouldBlock);
        }
        Receive::Empty { is_nonblocking, timeout: self.receive_timeout(id) }
    }

    /// The first use of a socket that the kernel gave its port.
    #[cold]
    #[inline(never)]
    fn receive_undecided<R>(&mut self, id: SocketId) -> Receive<R> {
        // To open a flow goes deep, by the agent above all.
        own_stack::run(|| self.receive_undecided_here(id))
    }

    fn receive_undecided_here<R>(&mut self, id: SocketId) -> Receive<R> {
        self.follow_shared_sockets();
        self.claim(id, Reason::ReadByChild);
        self.look_at_lent(id);
        self.use_socket(id);
        if let Some(fd) = self.shadow_fd(id) {
            self.settle_if_bound(fd);
        }
        let Some(socket) = self.get(id) else { return Receive::Kernel };
        if socket.is_accelerated() {
            return socket.ask_shadow();
        }
        if self.is_refused(id) {
            return Receive::Refused;
        }
        if !matches!(socket.service, Service::Open) {
            self.let_calls_pass(id);
            return Receive::Kernel;
        }
        // It may be served by us while the call waits.
        let is_nonblocking = socket.file.is_nonblocking;
        Receive::Undecided { is_nonblocking, timeout: if is_nonblocking { None } else { self.receive_timeout(id) } }
    }

    /// A receive after [`Receive::Undecided`] found a datagram.
    pub fn received_undecided(&mut self, fd: i32) {
        if let Some(id) = self.find(fd) {
            self.count_by_kernel(id);
        }
    }

    /// How long a receive may wait; zero: not at all.
    fn receive_timeout(&self, id: SocketId) -> Option<Duration> {
        let socket = self.get(id)?;
        match socket.kept() {
            _ if socket.shadow.never_waits => Some(Duration::ZERO),
            Some(kept) => kept.receive_timeout,
            None if socket.has_options || socket.is_inherited => crate::kept::receive_timeout(socket.shadow.fd),
            None => None,
        }
    }

    /// SO_RCVTIMEO was set; `never_waits`: to a negative time (`sock_set_timeout` of `net/core/sock.c`).
    pub fn receive_timeout_set(&mut self, fd: i32, never_waits: bool) {
        if let Some(socket) = self.find(fd).and_then(|id| self.get_mut(id)) {
            socket.shadow.never_waits = never_waits;
        }
    }

    /// When the datagram that was read last arrived (SIOCGSTAMP, SIOCGSTAMPNS), nanoseconds since 1970. `None`: the
    /// kernel knows, or will say that there was none. From now on datagrams carry the time of their arrival; `now_ns` is that of
    /// one that came before.
    pub fn last_stamp_ns(&mut self, fd: i32, now_ns: u64) -> Option<u64> {
        let id = self.find(fd)?;
        self.wish_for_first(id);
        let (socket, engine) = self.with_engine(id)?;
        socket.udp.asks_stamps = true;
        engine.want_times(TimesWanted::Kernel);
        let stamp_ns = socket.udp.stamp_ns.as_mut()?;
        if *stamp_ns == 0 {
            *stamp_ns = now_ns;
        }
        Some(*stamp_ns)
    }

    pub(crate) fn is_refused(&self, id: SocketId) -> bool {
        self.get(id).is_some_and(|socket| self.refusal_of(socket).is_some())
    }

    /// A call ended with an error that it could not tell, as recvmmsg(2) after the first datagram: the next call does.
    pub fn set_pending_error(&mut self, fd: i32, error: i32) {
        if let Some(socket) = self.find(fd).and_then(|id| self.get_mut(id))
            && socket.is_accelerated()
        {
            (socket.shadow.pending_error, socket.shadow.has_error) = (error, true);
        }
    }

    /// The program asks for IP_MTU or IPV6_MTU, which the kernel answers by the route of the shadow's last send.
    pub fn about_to_ask_mtu(&mut self, fd: i32) {
        let socket = self.find(fd).and_then(|id| self.get(id));
        if let Some(socket) = socket.filter(|socket| socket.is_accelerated() && socket.ends.is_connected) {
            crate::kept::look_route_up(socket.shadow.fd);
        }
    }

    /// Takes that error: what SO_ERROR does. `None`: the kernel knows.
    pub fn take_pending_error(&mut self, fd: i32) -> Option<i32> {
        if self.is_carried(fd) {
            return self.take_stream_error(fd);
        }
        let socket = self.find(fd).and_then(|id| self.get_mut(id))?;
        Some(std::mem::take(&mut socket.shadow.pending_error)).filter(|error| *error != 0)
    }

    /// The shadow was asked after [`Receive::Shadow`].
    pub fn shadow_answered(&mut self, fd: i32, before: News, said: ShadowSaid) {
        if let Some(id) = self.find(fd) {
            self.shadow_answered_at(id, before, said);
        }
    }

    /// The same of a socket that the call [holds](Sockets::hold).
    pub fn shadow_answered_at(&mut self, id: SocketId, before: News, said: ShadowSaid) {
        let Some(socket) = self.get_mut(id) else { return };
        let is_empty = said == ShadowSaid::Nothing;
        socket.shadow.was_read(said);
        if is_empty && before != News(socket.shadow.news) {
            // What came meanwhile was seen by another thread, and nobody reports it again.
        } else if is_empty {
            // A report in the error queue is nothing to receive, and stays an error for who polls.
            socket.shadow.has_report |= socket.shadow.has_error;
            (socket.shadow.has_data, socket.shadow.has_error) = (false, false);
        } else {
            socket.slot.count(SocketCounter::ReceivedByShadow);
            socket.udp.stamp_ns = None;
            self.learn_drops(id);
            self.handed_at(id, HandedCall::ShadowReady);
        }
    }

    /// Bytes of the datagram that the next receive would deliver; `None`: ask the kernel (FIONREAD).
    pub fn next_datagram_bytes(&mut self, fd: i32) -> Option<usize> {
        self.claim_fd(fd);
        let id = self.find(fd)?;
        self.take_in();
        let (socket, engine) = self.with_engine(id)?;
        if socket.shadow.is_first() {
            socket.shadow.look();
        }
        let endpoint = socket.endpoint().filter(|_| !socket.shadow.is_first())?;
        engine.stack_ref().udp_peek(endpoint, |datagram| datagram.payload.len())
    }

    /// Whether the next receive would deliver a datagram that a port took.
    pub fn has_datagram(&mut self, id: SocketId) -> bool {
        self.take_in_frames();
        let Some((socket, engine)) = self.with_engine(id) else { return false };
        let endpoint = socket.endpoint();
        endpoint.is_some_and(|endpoint| engine.stack_ref().udp_waiting(endpoint) > 0)
    }

    /// What the program can be told about a socket: accelerated or not, and why.
    #[must_use]
    pub fn reason(&self, fd: i32) -> Option<Reason> {
        let socket = self.get(self.find(fd)?)?;
        match &socket.service {
            Service::Open => Some(socket.why_open()),
            Service::Kernel(why) => Some(why.reason),
            Service::Accelerated(_) if !socket.is_used => Some(Reason::NotUsed),
            Service::Accelerated(_) => self.why_not_served(socket),
        }
    }
}

impl Socket {
    fn ask_shadow<R>(&self) -> Receive<R> {
        Receive::Shadow(News(self.shadow.news))
    }

    /// There may be an error: one that is kept here, or one that the shadow has.
    #[cold]
    fn shadow_or_pending<R>(&mut self) -> Receive<R> {
        match std::mem::take(&mut self.shadow.pending_error) {
            0 => self.ask_shadow(),
            error => Receive::Failed(error),
        }
    }
}

#[inline]
fn deliver<R>(now: Now, socket: &mut Socket, datagram: &Datagram<'_>, read: &mut impl FnMut(Delivery<'_>) -> R) -> R {
    let stamped;
    let datagram = if datagram.received_ns == 0 && socket.ancillary().must_tell_time() {
        // It came before anybody asked: the time of the call, as the kernel says then (`__sock_recv_timestamp`).
        stamped = Datagram { received_ns: now.clocks.time_of_day_ns, ..*datagram };
        &stamped
    } else {
        datagram
    };
    socket.udp.stamp_ns = Some(datagram.received_ns);
    let socket = &*socket;
    let ancillary = socket.ancillary();
    let is_v6 = matches!(socket.family, nearwire_stack::Family::V6);
    let local_port = if ancillary.original_destination { socket.ends.local.map_or(0, |local| local.port()) } else { 0 };
    let is_group = datagram.destination.is_multicast();
    let own_address = if is_group && ancillary.packet_info { socket.own_address_on(datagram.ifindex) } else { None };
    read(Delivery { datagram, ancillary, is_v6, local_port, own_address })
}

/// The same, of a datagram that the program then has.
#[inline]
fn deliver_counted<R>(
    now: Now,
    socket: &mut Socket,
    datagram: &Datagram<'_>,
    read: &mut impl FnMut(Delivery<'_>) -> R,
) -> R {
    if datagram.is_by_kernel {
        socket.slot.count(SocketCounter::ReceivedByShadow);
    } else {
        socket.slot.count_received(datagram.payload.len());
    }
    crate::wait::count_message();
    deliver(now, socket, datagram, read)
}

fn read_waiting<R, H: Host>(
    now: Now,
    socket: &mut Socket,
    engine: &mut Engine<H>,
    endpoint: EndpointId,
    stays: bool,
    mut read: impl FnMut(Delivery<'_>) -> R,
) -> Option<R> {
    let stack = engine.stack();
    if stays {
        return stack.udp_peek(endpoint, |datagram| deliver(now, socket, datagram, &mut read));
    }
    stack.udp_read(endpoint, |datagram| deliver_counted(now, socket, datagram, &mut read))
}

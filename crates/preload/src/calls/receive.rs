//! recv(2) and its kin.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use libc::{c_int, iovec, msghdr, pollfd, sockaddr, socklen_t, ssize_t};
use nearwire_socket::reason::HandedCall;
use nearwire_socket::{Delivery, Receive, ShadowSaid, SocketId, Sockets, WaitsFor};
use nearwire_sys::own_stack;
use rustix::io::Errno;

use crate::c_types::address;
use crate::c_types::control::{ReceiveControl, TimeForm};
use crate::c_types::message::{Incoming, read_incoming};
use crate::c_types::segments::{Of, Segments};
use crate::calls::table;
use crate::errno::{errno, fail};
use crate::signals::deferral;
use crate::state::{self, Subject, handed};
use crate::turn::{REFUSED, Turn, Turns, Wait};
use crate::{cancellation, engines};

const FLAGS_OF_KERNEL: c_int = table::together(table::RECEIVE_FLAGS_OF_KERNEL);

/// Where the program wants a datagram and its control data.
#[derive(Clone, Copy)]
pub enum Into {
    /// recv, recvfrom, read, readv: segments, and an address or null.
    Segments {
        /// Where the bytes go.
        array: *const iovec,
        /// How many.
        count: usize,
        /// Where the source goes, or null.
        name: *mut sockaddr,
        /// Its length.
        name_length: *mut socklen_t,
    },
    /// recvmsg.
    Message(*mut msghdr),
}

/// The same, read once before the call waits, as the kernel reads it.
enum Room<'a> {
    Plain { segments: Segments<'a>, name: *mut sockaddr, name_length: *mut socklen_t },
    Message(Incoming<'a>),
}

impl Room<'_> {
    /// An error is the kernel's to tell, before anything else. In the caller's frame, as what is returned would be copied.
    #[inline(always)]
    unsafe fn read(into: Into) -> Result<Self, Errno> {
        // SAFETY: the caller's: the pointers of a call that the program makes.
        unsafe {
            Ok(match into {
                Into::Segments { array, count, name, name_length } => {
                    let segments = Segments::to_receive(array, count, Of::Vector)?;
                    Room::Plain { segments, name, name_length }
                }
                Into::Message(message) => Room::Message(read_incoming(message)?),
            })
        }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The call's return value.
    Ended(ssize_t),
    /// The call is to be left, and to begin anew: a handler with SA_RESTART runs in between, or the thread is cancelled.
    Restart,
}

use Attempt::{Ended, Restart};

/// Receives a datagram: a whole call of the program. `None`: the original call is to be made. `original` makes it on an fd,
/// with more flags.
///
/// # Safety
/// The pointers are those of a call that the program makes.
#[inline]
pub unsafe fn receive(
    fd: c_int,
    into: Into,
    flags: c_int,
    original: impl Fn(c_int, c_int) -> ssize_t,
) -> Option<ssize_t> {
    let mut left = None;
    loop {
        cancellation::point();
        // SAFETY: the caller's.
        match deferral::inside(|| unsafe { attempt(fd, into, flags, (false, &mut left), &original) })? {
            Ended(result) => return Some(result),
            Restart => {}
        }
    }
}

/// The same as part of a call, which is left when the attempt says so. `is_more`: the call has a datagram already, so what
/// comes while it waits is first for calls that wait for longer (`__skb_wait_for_more_packets` queues them). In between, a
/// thread that spins would take all from those that sleep. `left`: of SO_RCVTIMEO, where the call began before.
///
/// # Safety
/// As for [`receive`].
#[inline]
pub unsafe fn attempt(
    fd: c_int,
    into: Into,
    flags: c_int,
    (is_more, left): (bool, &mut Option<Duration>),
    original: &impl Fn(c_int, c_int) -> ssize_t,
) -> Option<Attempt> {
    if !state::is_in_use() {
        return None;
    }
    if flags & FLAGS_OF_KERNEL != 0 {
        let is_error_queue = flags & libc::MSG_ERRQUEUE != 0;
        return handed(fd, if is_error_queue { HandedCall::ErrorQueue } else { HandedCall::UnsupportedFlag });
    }
    // SAFETY: the caller's.
    let Ok(room) = (unsafe { Room::read(into) }) else { return handed(fd, HandedCall::BadArgument) };
    engines::about_to_wait(fd);
    let stays = flags & libc::MSG_PEEK != 0;
    let mut waiting: Option<Waiting> = None;
    loop {
        let held = waiting.as_ref().map(|waiting| waiting.id);
        let subject = held.map_or(Subject::Fd(fd), Subject::Socket);
        let attempt = state::with_subject(subject, |sockets| {
            let Some(id) = held.or_else(|| sockets.find(fd)) else { return Receive::Kernel };
            if is_more && waiting.as_mut().is_some_and(|waiting| waiting.leaves_it(sockets)) {
                return Receive::Empty { is_nonblocking: false, timeout: None };
            }
            // SAFETY: the caller's.
            let attempt = sockets.receive_at(id, stays, |delivery| unsafe { deliver(&delivery, &room, flags) });
            if let (Receive::Done(_), Some(waiting)) = (&attempt, &mut waiting) {
                // The call ends: to enter once more for that takes 10 ns of the datagram's way to the program.
                waiting.let_go(sockets);
            }
            attempt
        });
        match attempt? {
            Receive::Done(Ok(length)) => return Some(Ended(length)),
            Receive::Done(Err(error)) => return Some(Ended(fail(error.raw_os_error()))),
            Receive::Kernel => {
                // One that began to wait here has so much time left; the kernel's own call would begin anew.
                let timeout = match &waiting {
                    Some(waiting) => waiting.turns.rest(),
                    None => Some((*left)?),
                };
                if let Some(ended) = wait_for_shadow(&mut waiting, fd, timeout, original)? {
                    *left = waiting.and_then(|waiting| waiting.turns.rest());
                    return Some(ended);
                }
            }
            Receive::Refused => return Some(Ended(fail(REFUSED))),
            Receive::Failed(error) => return Some(Ended(fail(error))),
            Receive::Shadow(news) => {
                let number = waiting.as_ref().map_or(fd, Waiting::number);
                let answer = ask_shadow(|| original(number, libc::MSG_DONTWAIT));
                let said = match answer {
                    None => ShadowSaid::Nothing,
                    Some(length) if stays && length >= 0 => ShadowSaid::Peeked,
                    Some(_) => ShadowSaid::Read,
                };
                state::with_subject(subject, |sockets| match held {
                    Some(id) => sockets.shadow_answered_at(id, news, said),
                    None => sockets.shadow_answered(fd, news, said),
                })?;
                if let Some(length) = answer {
                    return Some(Ended(length));
                }
            }
            Receive::Undecided { is_nonblocking, timeout } => {
                let ended = if is_nonblocking || flags & libc::MSG_DONTWAIT != 0 {
                    Some(Ended(original(fd, 0)))
                } else {
                    let ended = wait_for_shadow(&mut waiting, fd, left.or(timeout), original)?;
                    *left = waiting.as_ref().and_then(|waiting| waiting.turns.rest());
                    ended
                };
                if let Some(ended) = ended {
                    if matches!(ended, Ended(0..)) && !stays {
                        state::with_fd(fd, |sockets| sockets.received_undecided(fd));
                    }
                    return Some(ended);
                }
            }
            Receive::Empty { is_nonblocking, timeout } => {
                if is_nonblocking || flags & libc::MSG_DONTWAIT != 0 {
                    return Some(Ended(fail(libc::EAGAIN)));
                }
                if waiting.as_ref().is_some_and(|waiting| waiting.left_since.is_some()) {
                    std::thread::yield_now();
                    continue;
                }
                let timeout = left.or(timeout);
                if let Some(ended) = Waiting::turn(&mut waiting, fd, timeout, true, &mut Vec::new())? {
                    *left = waiting.and_then(|waiting| waiting.turns.rest());
                    return Some(ended);
                }
            }
        }
    }
}

/// The kernel has the socket, now or perhaps soon: its answer, or a turn of waiting for one. The fd may be closed by now,
/// and a wait in the kernel's own call could not be left for a handler that came just before it.
#[cold]
fn wait_for_shadow(
    waiting: &mut Option<Waiting>,
    fd: c_int,
    timeout: Option<Duration>,
    original: &impl Fn(c_int, c_int) -> ssize_t,
) -> Option<Option<Attempt>> {
    let number = waiting.as_ref().map_or(fd, Waiting::number);
    if waiting.as_mut().is_none_or(Waiting::takes_news)
        && let Some(length) = ask_shadow(|| original(number, libc::MSG_DONTWAIT))
    {
        return Some(Some(Ended(length)));
    }
    let mut shadow = vec![pollfd { fd: number, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 }];
    let ended = Waiting::turn(waiting, fd, timeout, false, &mut shadow)?;
    let told = shadow.first().map_or(0, |shadow| shadow.revents);
    let is_shut = told & libc::POLLRDHUP != 0;
    waiting.as_mut().into_iter().for_each(|waiting| waiting.has_news |= told != 0);
    if ended.is_none() && is_shut {
        // Shut down for reading: a call that does not wait says EAGAIN, and one that would wait ends at once, with 0.
        return Some(Some(Ended(original(number, 0))));
    }
    Some(ended)
}

/// The original call, which does not wait; `None`: nothing is there.
fn ask_shadow(original: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    let before = errno();
    let length = original();
    if length < 0 && errno() == libc::EAGAIN {
        fail(before);
        return None;
    }
    Some(length)
}

/// A receive that waits holds its socket, as a system call holds the open file: whatever becomes of the fd, it waits
/// for this one.
struct Waiting {
    id: SocketId,
    is_held: bool,
    turns: Turns<'static>,
    spins: bool,
    ticket: u32,
    /// A datagram is there, and was left to a call that waits for longer.
    left_since: Option<Instant>,
    /// The shadow may have something that it did not have when it was last asked.
    has_news: bool,
}

/// A call that should have come for its datagram by now is not coming: its thread has been stopped, or runs a handler.
const LEFT_MOST: Duration = Duration::from_micros(500);

impl Waiting {
    /// Waits a turn, beginning if it has not yet. `None`: the call is the kernel's after all; `Some(Some(result))`: the attempt
    /// ends.
    #[inline]
    fn turn(
        slot: &mut Option<Waiting>,
        fd: c_int,
        timeout: Option<Duration>,
        spins: bool,
        also: &mut Vec<pollfd>,
    ) -> Option<Option<Attempt>> {
        if slot.as_ref().is_none_or(|waiting| waiting.spins != spins) {
            // Served otherwise since it began, the call goes on to wait and has no more time for that.
            let timeout = slot.as_ref().map_or(timeout, |waiting| waiting.turns.rest());
            *slot = Some(Waiting::begin(fd, timeout, spins)?);
        }
        let waiting = slot.as_mut()?;
        Some(match waiting.turns.turn(also) {
            Turn::Again => None,
            Turn::Lend => {
                let (id, at) = (waiting.id, Subject::Socket(waiting.id));
                own_stack::run(|| state::with_subject(at, |sockets| sockets.lend_socket(id)));
                None
            }
            Turn::Restarted => Some(Restart),
            Turn::TimedOut => Some(Ended(fail(libc::EAGAIN))),
            Turn::Interrupted => Some(Ended(fail(libc::EINTR))),
        })
    }

    /// A receive with SO_RCVTIMEO does not restart after a signal (`sock_intr_errno`).
    #[cold]
    fn begin(fd: c_int, timeout: Option<Duration>, spins: bool) -> Option<Waiting> {
        let (id, ticket) = state::with_fd(fd, |sockets| {
            let id = sockets.find(fd)?;
            Some((id, sockets.hold(id)))
        })??;
        let (never_restarts, waits_for) = (timeout.is_some(), WaitsFor::Socket(id));
        let subject = Subject::Socket(id);
        let turns = Turns::new(Wait { timeout, mask: None, never_restarts, spins, waits_for, subject });
        Some(Waiting { id, is_held: true, turns, spins, ticket, left_since: None, has_news: false })
    }

    /// Whether the shadow is to be asked: a sleep reported it, or the time is over.
    fn takes_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news) || self.turns.is_over()
    }

    /// Whether there is a datagram that another call waits for longer for.
    fn leaves_it(&mut self, sockets: &mut Sockets) -> bool {
        let is_late = self.left_since.is_some_and(|since| since.elapsed() > LEFT_MOST);
        let leaves = !is_late && sockets.is_behind(self.id, self.ticket) && sockets.has_datagram(self.id);
        self.left_since = if leaves { self.left_since.or_else(|| Some(Instant::now())) } else { None };
        leaves
    }

    #[inline]
    fn let_go(&mut self, sockets: &mut Sockets) {
        self.is_held = false;
        sockets.release(self.id, self.ticket);
    }

    fn number(&self) -> c_int {
        state::with_subject(Subject::Socket(self.id), |sockets| sockets.shadow_fd(self.id)).flatten().unwrap_or(-1)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_held {
            state::with_subject(Subject::Socket(self.id), |sockets| self.let_go(sockets));
        }
    }
}

/// Writes a datagram to where the program wants it; the call's return value. Pointers that point nowhere are found now, as
/// by the kernel, and cost the datagram, as there.
#[inline]
unsafe fn deliver(delivery: &Delivery<'_>, room: &Room<'_>, flags: c_int) -> Result<ssize_t, Errno> {
    let payload = delivery.datagram.payload;
    // SAFETY: the caller's.
    let copied = unsafe {
        match room {
            Room::Plain { segments, name, name_length } => deliver_plain(delivery, segments, *name, *name_length),
            Room::Message(incoming) => deliver_message(delivery, incoming),
        }
    };
    copied.map(|copied| if flags & libc::MSG_TRUNC != 0 { payload.len() } else { copied } as ssize_t)
}

#[inline]
unsafe fn deliver_plain(
    delivery: &Delivery<'_>,
    segments: &Segments<'_>,
    name: *mut sockaddr,
    name_length: *mut socklen_t,
) -> Result<usize, Errno> {
    // SAFETY: the caller's.
    unsafe {
        let copied = segments.scatter(delivery.datagram.payload, 0)?;
        if !name.is_null() {
            address::write(&source_of(delivery), name, name_length)?;
        }
        Ok(copied)
    }
}

unsafe fn deliver_message(delivery: &Delivery<'_>, incoming: &Incoming<'_>) -> Result<usize, Errno> {
    // SAFETY: the caller's.
    unsafe {
        let mut incoming = incoming.clone();
        let copied = incoming.segments.scatter(delivery.datagram.payload, 0)?;
        control_of(delivery).write(&mut incoming.control);
        let is_cut = copied < delivery.datagram.payload.len();
        incoming.finish(Some(&source_of(delivery)), if is_cut { libc::MSG_TRUNC } else { 0 })?;
        Ok(copied)
    }
}

fn source_of(delivery: &Delivery<'_>) -> std::net::SocketAddr {
    let source = delivery.datagram.source;
    if delivery.is_v6 { address::mapped(source) } else { source }
}

/// What is told beside the datagram: of an IPv4 one to an IPv6 socket, what either family's options ask for
/// (`udpv6_recvmsg`).
fn control_of(delivery: &Delivery<'_>) -> ReceiveControl {
    let (datagram, asked) = (delivery.datagram, delivery.ancillary);
    let mut control = ReceiveControl::default();
    if *asked == nearwire_socket::Ancillary::NONE {
        return control;
    }
    if asked.timestamp_ns {
        control.time_ns = Some((TimeForm::Nanoseconds, datagram.received_ns));
    } else if asked.timestamp_us {
        control.time_ns = Some((TimeForm::Microseconds, datagram.received_ns));
    }
    let host_ns = if asked.tells_host_time() { datagram.received_ns } else { 0 };
    let device_ns = if asked.tells_device_time() { datagram.device_ns } else { 0 };
    control.timestamping_ns = Some((host_ns, device_ns)).filter(|times| *times != (0, 0));
    control.overflow_frames = Some(datagram.dropped_before).filter(|dropped| asked.drops && *dropped > 0);
    match datagram.destination {
        IpAddr::V4(to) => {
            if asked.packet_info_v6 {
                control.ipv6 = Some((datagram.ifindex, to.to_ipv6_mapped()));
            }
            if asked.packet_info {
                let own = delivery.own_address.unwrap_or(to);
                control.ipv4 = Some((datagram.ifindex, own, to));
            }
            control.ttl = asked.ttl.then_some(datagram.ttl);
            control.tos = asked.tos.then_some(datagram.tos);
            let local = (to, delivery.local_port).into();
            control.original_destination = asked.original_destination.then_some(local);
        }
        IpAddr::V6(to) => {
            control.ipv6 = asked.packet_info_v6.then_some((datagram.ifindex, to));
            control.hop_limit = asked.hop_limit.then_some(datagram.ttl);
            control.traffic_class = asked.traffic_class.then_some(datagram.tos);
        }
    }
    control
}

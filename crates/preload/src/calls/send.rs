//! send(2) and its kin.

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nearwire_socket::reason::HandedCall;
use nearwire_socket::{Message, Send};
use nearwire_sys::own_stack;

use crate::c_types::address::{self, Name};
use crate::c_types::control::{self, SendControl};
use crate::c_types::message::read_outgoing;
use crate::c_types::segments::{Of, Segments};
use crate::calls::table;
use crate::errno::fail;
use crate::signals::deferral;
use crate::state::{self, Subject, handed};
use crate::turn::REFUSED;
use crate::{cancellation, engines, marks};

const KNOWN_FLAGS: c_int = table::together(table::SEND_FLAGS);

/// With MSG_MORE the kernel gathers a datagram, and has what follows until that is whole.
#[inline]
fn is_corking(fd: c_int, flags: c_int) -> bool {
    let is_corking = flags & libc::MSG_MORE != 0;
    if is_corking {
        state::with_fd(fd, |sockets| sockets.corked(fd));
    }
    is_corking
}

/// The longest datagram that a port carries, with jumbo frames; a longer one is the kernel's, which fragments it.
const GATHERED_BYTES_MOST: usize = 9216;
/// One of a usual frame: gathered on the caller's stack.
const GATHERED_BYTES_HERE: usize = 1500;

/// Sends the bytes of segments to an address, or to the far end of the connection. `None`: the original call is to be
/// made. `more`: others follow at once, and a flush.
///
/// # Safety
/// The pointers are those of a call that the program makes.
#[inline]
pub unsafe fn send(
    fd: c_int,
    (array, count): (*const iovec, usize),
    flags: c_int,
    (name, name_length): (*const sockaddr, socklen_t),
    more: bool,
) -> Option<ssize_t> {
    cancellation::point();
    deferral::inside(|| {
        if is_corking(fd, flags) || !state::is_in_use() {
            return None;
        }
        if flags & !KNOWN_FLAGS != 0 {
            return handed(fd, HandedCall::UnsupportedFlag);
        }
        // SAFETY: the caller's.
        unsafe {
            let segments = Segments::new(array, count, Of::Vector).ok()?;
            send_segments(fd, &segments, address::read(name, name_length), &SendControl::default(), more)
        }
    })
}

/// sendmsg(2), the same way.
///
/// # Safety
/// `message` is that of a call that the program makes.
#[inline]
pub unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int, more: bool) -> Option<ssize_t> {
    cancellation::point();
    // SAFETY: the caller's.
    deferral::inside(|| unsafe { send_message_inside(fd, message, flags, more) })
}

unsafe fn send_message_inside(fd: c_int, message: *const msghdr, flags: c_int, more: bool) -> Option<ssize_t> {
    if is_corking(fd, flags) || !state::is_in_use() {
        return None;
    }
    if flags & !KNOWN_FLAGS != 0 {
        return handed(fd, HandedCall::UnsupportedFlag);
    }
    // SAFETY: the caller's.
    let outgoing = unsafe { read_outgoing(message) }.ok()?;
    let Some(asked) = control::parse(outgoing.control) else {
        return handed(fd, HandedCall::UnsupportedControlMessage);
    };
    send_segments(fd, &outgoing.segments, outgoing.name, &asked, more)
}

/// Takes note of what came of an original call, and gives it on: a datagram that the kernel sent makes room like any other.
#[cold]
pub fn by_kernel(fd: c_int, sent: ssize_t) -> ssize_t {
    if sent >= 0 && marks::is_socket(fd) && state::is_in_use() {
        deferral::inside(|| state::with_fd(fd, |sockets| sockets.sent_by_kernel(fd)));
    }
    sent
}

#[inline]
fn send_segments(fd: c_int, segments: &Segments<'_>, name: Name, asked: &SendControl, more: bool) -> Option<ssize_t> {
    let to = match name {
        Name::None => None,
        Name::Ip(address) => Some(address),
        Name::Kernel => return handed(fd, HandedCall::BadArgument),
    };
    let mut slices = segments.slices();
    let first = slices.next().unwrap_or_default();
    if first.len() == segments.total_bytes() {
        return send_payload(fd, &Message { to, ..Message::new(first) }, asked, more);
    }
    if segments.total_bytes() > GATHERED_BYTES_MOST {
        return None;
    }
    if segments.total_bytes() <= GATHERED_BYTES_HERE {
        send_gathered::<GATHERED_BYTES_HERE>(fd, segments, to, asked, more)
    } else {
        own_stack::run(|| send_gathered::<GATHERED_BYTES_MOST>(fd, segments, to, asked, more))
    }
}

#[inline(never)]
fn send_gathered<const ROOM: usize>(
    fd: c_int,
    segments: &Segments<'_>,
    to: Option<SocketAddr>,
    asked: &SendControl,
    more: bool,
) -> Option<ssize_t> {
    let mut gathered = [MaybeUninit::<u8>::uninit(); ROOM];
    let length = segments.gather(&mut gathered);
    // SAFETY: `gather` wrote that many bytes.
    let payload = unsafe { gathered[..length].assume_init_ref() };
    send_payload(fd, &Message { to, ..Message::new(payload) }, asked, more)
}

#[inline]
fn send_payload(fd: c_int, message: &Message<'_>, asked: &SendControl, more: bool) -> Option<ssize_t> {
    engines::about_to_send(fd);
    let sent = if *asked == SendControl::default() {
        state::send_with(Subject::Fd(fd), |sockets| sockets.send(fd, message, more))
    } else {
        let message = with_control(*message, asked);
        state::send_with(Subject::Fd(fd), |sockets| sockets.send(fd, &message, more))
    };
    match sent? {
        Send::Done => Some(message.payload.len() as ssize_t),
        Send::Failed(error) => Some(fail(error)),
        Send::Kernel => None,
        Send::Refused => Some(fail(REFUSED)),
    }
}

fn with_control<'p>(message: Message<'p>, asked: &SendControl) -> Message<'p> {
    let v4 = asked.ipv4.map(|(ifindex, source)| (ifindex, std::net::IpAddr::from(source)));
    let v6 = asked.ipv6.map(|(ifindex, source)| (ifindex, std::net::IpAddr::from(source)));
    let info = v4.or(v6);
    Message {
        source: info.map(|(_, source)| source).filter(|source| !source.is_unspecified()),
        ifindex: info.map(|(ifindex, _)| ifindex).filter(|ifindex| *ifindex != 0),
        ttl: asked.ttl.or(asked.hop_limit),
        tos: asked.tos.or(asked.traffic_class),
        ..message
    }
}

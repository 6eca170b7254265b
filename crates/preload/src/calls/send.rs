//! send(2) and its kin.

use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};

use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nearwire_socket::reason::HandedCall;
use nearwire_socket::{Family, Message, Send};
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
        state::send_with(Subject::Fd(fd), |sockets| {
            let families = sockets.families_of_send(fd, message.to);
            match families.and_then(|families| with_control(*message, asked, families)) {
                Some(message) => sockets.send(fd, &message, more),
                None => {
                    sockets.handed(fd, HandedCall::UnsupportedControlMessage);
                    Send::Kernel
                }
            }
        })
    };
    match sent? {
        Send::Done => Some(message.payload.len() as ssize_t),
        Send::Failed(error) => Some(fail(error)),
        Send::Kernel => None,
        Send::Refused => Some(fail(REFUSED)),
    }
}

/// What the control messages ask for, of those that the kernel heeds for a socket and a destination of these families. To an IPv4 address
/// these are those of IPv4, and from an IPv6 socket also IPV6_PKTINFO with a mapped address (`ip_cmsg_send`). `None`: the kernel is to say.
fn with_control<'p>(
    message: Message<'p>,
    asked: &SendControl,
    (socket, destination): (Family, Family),
) -> Option<Message<'p>> {
    let of_v6 = asked.ipv6.filter(|_| socket == Family::V6);
    let info = match (destination, asked.ipv4, of_v6) {
        (Family::V6, _, of_v6) => of_v6.map(|(ifindex, source)| (ifindex, IpAddr::from(source))),
        (Family::V4, Some(_), Some(_)) => return None,
        (Family::V4, None, Some((ifindex, source))) => Some((ifindex, source.to_ipv4_mapped()?.into())),
        (Family::V4, of_v4, None) => of_v4.map(|(ifindex, source)| (ifindex, source.into())),
    };
    let (ttl, tos) = match destination {
        Family::V4 => (asked.ttl, asked.tos),
        Family::V6 => (asked.hop_limit, asked.traffic_class),
    };
    let source = info.map(|(_, source)| source).filter(|source| !source.is_unspecified());
    let ifindex = info.map(|(ifindex, _)| ifindex).filter(|ifindex| *ifindex != 0);
    Some(Message { source, ifindex, ttl, tos, ..message })
}

//! recv(2) and its kin.

use std::net::IpAddr;
use std::time::Duration;

use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nearwire_socket::{Delivery, Receive};
use rustix::io::Errno;

use crate::c_types::address;
use crate::c_types::control::{ReceiveControl, TimeForm};
use crate::c_types::message::{Incoming, read_incoming};
use crate::c_types::segments::{Of, Segments};
use crate::state;
use crate::turn::{Turn, Turns, errno, fail};

/// `MSG_CMSG_COMPAT`, which recvmsg(2) refuses.
const MSG_CMSG_COMPAT: c_int = c_int::MIN;

/// Flags with which the kernel answers, at once. Of all others only MSG_PEEK, MSG_TRUNC and MSG_DONTWAIT mean something to
/// a datagram socket; also those that no one has defined are let pass.
const FLAGS_OF_KERNEL: c_int = libc::MSG_ERRQUEUE | MSG_CMSG_COMPAT;

/// Where a datagram and what is told of it go, as the program said.
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
    /// An error is the kernel's to tell, before anything else.
    #[inline]
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

/// Receives a datagram. `None`: the original call is to be made. `original` makes it with more flags.
///
/// # Safety
/// The pointers are those of a call that the program makes.
pub unsafe fn receive(fd: c_int, into: Into, flags: c_int, original: impl Fn(c_int) -> ssize_t) -> Option<ssize_t> {
    if flags & FLAGS_OF_KERNEL != 0 || !state::is_in_use() {
        return None;
    }
    // SAFETY: the caller's.
    let room = unsafe { Room::read(into) }.ok()?;
    let stays = flags & libc::MSG_PEEK != 0;
    let mut turns: Option<Turns> = None;
    loop {
        let attempt = state::with(|sockets| {
            // SAFETY: the caller's.
            sockets.receive(fd, stays, |delivery| unsafe { deliver(&delivery, &room, flags) })
        });
        match attempt? {
            Receive::Done(Ok(length)) => return Some(length),
            Receive::Done(Err(error)) => return Some(fail(error.raw_os_error())),
            Receive::Kernel => return None,
            Receive::Failed(error) => return Some(fail(error)),
            Receive::Shadow => {
                let before = errno();
                let length = original(libc::MSG_DONTWAIT);
                let is_empty = length < 0 && errno() == libc::EAGAIN;
                if is_empty {
                    fail(before);
                }
                state::with(|sockets| sockets.shadow_answered(fd, is_empty))?;
                if !is_empty {
                    return Some(length);
                }
            }
            Receive::Empty { is_nonblocking, timeout } => {
                if is_nonblocking || flags & libc::MSG_DONTWAIT != 0 {
                    return Some(fail(libc::EAGAIN));
                }
                match turns.get_or_insert_with(|| waits(timeout)).turn(&mut Vec::new()) {
                    Turn::Again => {}
                    Turn::TimedOut => return Some(fail(libc::EAGAIN)),
                    Turn::Interrupted => return Some(fail(libc::EINTR)),
                }
            }
        }
    }
}

/// A receive with SO_RCVTIMEO does not restart after a signal (`sock_intr_errno`).
#[cold]
fn waits(timeout: Option<Duration>) -> Turns {
    Turns::new(timeout, timeout.is_some())
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
    if asked.timestamping & libc::SOF_TIMESTAMPING_SOFTWARE != 0 {
        control.timestamping_ns = Some((datagram.received_ns, 0));
    }
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

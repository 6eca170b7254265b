//! recv(2) and its kin.

use std::time::Duration;

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nearwire_socket::{Delivery, Receive};

use crate::c_types::{address, ancillary, segments};
use crate::state;
use crate::turn::{Turn, Turns, errno, fail};

/// Flags that this library knows; with any other the kernel is asked. MSG_WAITALL means nothing to datagrams.
const KNOWN_FLAGS: c_int = libc::MSG_PEEK
    | libc::MSG_TRUNC
    | libc::MSG_DONTWAIT
    | libc::MSG_WAITALL
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC;

/// Where a datagram and what is told of it go, as the program said.
#[derive(Clone, Copy)]
pub struct Into {
    /// `msg_iov`.
    pub segments: *const iovec,
    /// `msg_iovlen`.
    pub segment_count: usize,
    /// `msg_name`, or null.
    pub name: *mut sockaddr,
    /// How much room there is, and where its length is told; null where it is in the message.
    pub name_length: *mut socklen_t,
    /// The message of recvmsg, or null.
    pub message: *mut msghdr,
}

/// Receives a datagram.
///
/// `original` makes the original call with more flags.
///
/// # Safety
/// The pointers are those of a recvmsg(2) call that the program makes.
pub unsafe fn receive(fd: c_int, into: Into, flags: c_int, original: impl Fn(c_int) -> ssize_t) -> Option<ssize_t> {
    if flags & !KNOWN_FLAGS != 0 || !state::is_in_use() {
        return None;
    }
    // SAFETY: the caller's.
    if !unsafe { is_plausible(&into) } {
        return None;
    }
    let stays = flags & libc::MSG_PEEK != 0;
    let mut turns: Option<Turns> = None;
    loop {
        // SAFETY: the pointers are plausible, and the caller vouches for the rest.
        let attempt =
            state::with(|sockets| sockets.receive(fd, stays, |delivery| unsafe { deliver(&delivery, &into, flags) }));
        match attempt? {
            Receive::Done(length) => return Some(length),
            Receive::Kernel => return None,
            Receive::Shadow => {
                let length = original(libc::MSG_DONTWAIT);
                let is_empty = length < 0 && errno() == libc::EAGAIN;
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

/// Whether the kernel would not refuse the pointers at first sight.
unsafe fn is_plausible(into: &Into) -> bool {
    // SAFETY: the caller's.
    unsafe { segments::are_plausible(into.segments, into.segment_count) }
}

/// Writes a datagram to where the program wants it; the call's return value.
unsafe fn deliver(delivery: &Delivery<'_>, into: &Into, flags: c_int) -> ssize_t {
    let payload = delivery.datagram.payload;
    // SAFETY: the caller's pointers.
    let copied = unsafe { segments::scatter(payload, into.segments, into.segment_count) };
    let is_cut = copied < payload.len();
    // SAFETY: as above.
    unsafe { tell(delivery, into, is_cut) };
    if flags & libc::MSG_TRUNC != 0 { payload.len() as ssize_t } else { copied as ssize_t }
}

unsafe fn tell(delivery: &Delivery<'_>, into: &Into, is_cut: bool) {
    let source = address::as_family(delivery.datagram.source, delivery.is_v6);
    if into.message.is_null() {
        if !into.name.is_null() {
            // SAFETY: the caller's pointers.
            unsafe { address::write(source, into.name, into.name_length) };
        }
        return;
    }
    // SAFETY: the caller's message.
    let message = unsafe { &mut *into.message };
    if !message.msg_name.is_null() {
        // SAFETY: name and length belong together.
        unsafe { address::write(source, message.msg_name.cast(), &raw mut message.msg_namelen) };
    } else {
        message.msg_namelen = 0;
    }
    message.msg_flags = if is_cut { libc::MSG_TRUNC } else { 0 };
    // SAFETY: msg_control and its length belong together.
    unsafe { ancillary::write(delivery, message) };
}

/// A single buffer as a segment.
pub fn segment(buffer: *mut c_void, length: usize) -> iovec {
    iovec { iov_base: buffer, iov_len: length }
}

//! send(2) and its kin.

use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use nearwire_socket::Message;
use nearwire_socket::Send;

use crate::c_types::{address, ancillary, segments};
use crate::state;

/// Flags that change nothing here: a datagram never waits for room, there is no SIGPIPE, and MSG_CONFIRM speaks of neighbours,
/// which are confirmed anyway. With any other the kernel is asked.
const KNOWN_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

/// The longest datagram that a port carries, with jumbo frames.
const GATHER_BYTES: usize = 9216;

/// What to send, as the program said.
#[derive(Clone, Copy)]
pub struct From {
    /// `msg_iov`.
    pub segments: *const iovec,
    /// `msg_iovlen`.
    pub segment_count: usize,
    /// `msg_name`, or null.
    pub name: *const sockaddr,
    /// `msg_namelen`.
    pub name_length: socklen_t,
    /// The message of sendmsg, or null.
    pub message: *const msghdr,
}

/// Sends a datagram. `more`: others follow at once.
///
/// # Safety
/// The pointers are those of a sendmsg(2) call that the program makes.
pub unsafe fn send(fd: c_int, from: From, flags: c_int, more: bool) -> Option<ssize_t> {
    if flags & !KNOWN_FLAGS != 0 || !state::is_in_use() {
        return None;
    }
    // SAFETY: the caller's pointers.
    unsafe {
        if !segments::are_plausible(from.segments, from.segment_count) {
            return None;
        }
        if from.segment_count == 1 {
            let only = *from.segments;
            let payload: &[u8] =
                if only.iov_len == 0 { &[] } else { std::slice::from_raw_parts(only.iov_base.cast(), only.iov_len) };
            return send_payload(fd, &from, payload, more);
        }
        let mut gathered = [0_u8; GATHER_BYTES];
        let length = segments::gather(&mut gathered, from.segments, from.segment_count)?;
        send_payload(fd, &from, &gathered[..length], more)
    }
}

unsafe fn send_payload(fd: c_int, from: &From, payload: &[u8], more: bool) -> Option<ssize_t> {
    let mut message = Message::new(payload);
    if !from.name.is_null() {
        // SAFETY: the caller's pointers. What is no address of a known family gets the kernel's answer.
        message.to = Some(unsafe { address::read(from.name, from.name_length) }?);
    }
    // SAFETY: the caller's message.
    if !from.message.is_null() && !unsafe { ancillary::read(from.message, &mut message) } {
        return None;
    }
    match state::with(|sockets| sockets.send(fd, &message, more))? {
        Send::Done => Some(payload.len() as ssize_t),
        Send::Kernel => None,
    }
}

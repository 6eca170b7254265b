//! Sockets used as files where the C library or the kernel reads them itself, past the symbols of this library.

use libc::{c_int, c_uint, size_t, ssize_t};
use nearwire_socket::Reason;

use super::receive::{self, Into};
use crate::c_types::segments::single;
use crate::errno::fail;
use crate::{marks, real, state};

/// The longest datagram.
const DATAGRAM_BYTES_MOST: usize = 65_535;

/// After fdopen(3): the C library reads a stream by system calls that nobody sees, so the kernel serves the socket.
pub fn opened_as_file(fd: c_int) {
    if marks::is_socket(fd) {
        state::with_fd(fd, |sockets| sockets.only_kernel(fd, Reason::UnseenSystemCalls));
    }
}

/// splice(2) out of a socket. The kernel serves it from now on; datagrams that were taken before go into the pipe from
/// here, one by one as the kernel would move them, and then the original call finds what came to it.
pub fn splice_from(from: c_int, to: c_int, length: size_t, flags: c_uint) -> Option<ssize_t> {
    if length == 0 {
        return None;
    }
    state::with_fd(from, |sockets| sockets.only_kernel(from, Reason::UnseenSystemCalls));
    if !state::with_fd(from, |sockets| sockets.has_leftover(from))? {
        return None;
    }
    let room = pipe_room_bytes(to)?;
    if room == 0 && flags & libc::SPLICE_F_NONBLOCK != 0 {
        return Some(fail(libc::EAGAIN));
    }
    let mut bytes = vec![0_u8; length.min(room.max(1)).min(DATAGRAM_BYTES_MOST)];
    let only = single(bytes.as_mut_ptr().cast(), bytes.len());
    let into = Into::Segments {
        array: only.as_ptr(),
        count: 1,
        name: std::ptr::null_mut(),
        name_length: std::ptr::null_mut(),
    };
    // SAFETY: the segment is the vector; where nothing is left the call is the kernel's, by what is returned here.
    let taken = unsafe { receive::receive(from, into, libc::MSG_DONTWAIT, |_, _| fail(libc::EAGAIN)) }?;
    let Ok(count) = usize::try_from(taken) else { return Some(taken) };
    // SAFETY: so many bytes of the vector were written.
    Some(if count == 0 { 0 } else { unsafe { real::write(to, bytes.as_ptr().cast(), count) } })
}

/// Bytes that a pipe has room for; `None`: it is no pipe, and the kernel says so.
fn pipe_room_bytes(pipe: c_int) -> Option<usize> {
    let mut waiting: c_int = 0;
    // SAFETY: both ask about an fd; the second writes an int.
    let size = unsafe {
        let size = real::fcntl(pipe, libc::F_GETPIPE_SZ, 0);
        if size < 0 || real::ioctl(pipe, libc::FIONREAD, (&raw mut waiting) as libc::c_ulong) < 0 {
            return None;
        }
        size
    };
    usize::try_from(size - waiting).ok()
}

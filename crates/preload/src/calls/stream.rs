//! Sockets used as files where the C library or the kernel reads them itself, past the symbols of this library.

use libc::{c_int, c_uint, size_t, ssize_t};
use nearwire_socket::Reason;
use nearwire_sys::descriptor::Descriptor;

use super::receive::{self, Into};
use super::{adoption, direct, tcp};
use crate::c_types::segments::single;
use crate::errno::fail;
use crate::probe::is_readable;
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

/// sendfile(2) of more than this is the kernel's, which sends from where the file is and has the device cut it.
const FILE_BYTES_MOST: usize = 64 << 10;

/// sendfile(2) to a connection: a whole call of the program. A short piece of a file is copied. `original` makes the call.
///
/// # Safety
/// `offset` is null or points to the place in the file.
pub unsafe fn send_file(
    (out, from): (c_int, c_int),
    offset: *mut i64,
    count: size_t,
    original: impl Fn() -> ssize_t,
) -> ssize_t {
    let by_kernel = || {
        adoption::release(out);
        direct::sends(out, 0, &original).unwrap_or_else(|| {
            adoption::leave(out);
            original()
        })
    };
    if !tcp::is_carried(out) || count == 0 || !(offset.is_null() || is_readable(offset, size_of::<i64>())) {
        return by_kernel();
    }
    // SAFETY: the caller's; a plain question about an fd else.
    let place =
        unsafe { if offset.is_null() { libc::lseek64(from, 0, libc::SEEK_CUR) } else { offset.read_unaligned() } };
    let Some(bytes) = short_piece(from, place, count) else { return by_kernel() };
    let only = single(bytes.as_ptr().cast_mut().cast(), bytes.len());
    // SAFETY: the segment is the vector.
    let sent =
        unsafe { tcp::send(out, (only.as_ptr(), 1), 0, || real::send(out, bytes.as_ptr().cast(), bytes.len(), 0)) };
    if sent > 0 {
        // SAFETY: the caller's; a plain call on an fd else.
        unsafe {
            match offset.is_null() {
                true => _ = libc::lseek64(from, place + sent as i64, libc::SEEK_SET),
                false => offset.write_unaligned(place + sent as i64),
            }
        }
    }
    sent
}

/// What is at a place of a regular file, up to so many bytes and to its end. `None`: nothing is, it is much, or it is none.
fn short_piece(file: c_int, place: i64, count: size_t) -> Option<Vec<u8>> {
    let file = Descriptor::new(file)?;
    let status = rustix::fs::fstat(file).ok()?;
    if !rustix::fs::FileType::from_raw_mode(status.st_mode).is_file() {
        return None;
    }
    let rest = usize::try_from(status.st_size.checked_sub(place)?).ok()?.min(count);
    let mut bytes = vec![0; Some(rest).filter(|rest| (1..=FILE_BYTES_MOST).contains(rest))?];
    let found = rustix::io::pread(file, &mut bytes[..], u64::try_from(place).ok()?).ok()?;
    bytes.truncate(found);
    Some(bytes).filter(|bytes| !bytes.is_empty())
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

//! What is called where the C library has no function of a name.
#![allow(
    clippy::missing_safety_doc,
    reason = "as for the C function of each name; called through its own pointer only"
)]

use libc::{
    c_int, c_uint, c_ulong, c_void, epoll_event, iovec, nfds_t, off64_t, pollfd, sigset_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

/// A C function's way to say that it failed.
pub(super) trait Failure {
    /// Sets errno to ENOSYS.
    fn not_implemented() -> Self;
}

macro_rules! minus_one {
    ($($number:ty)*) => {
        $(impl Failure for $number {
            fn not_implemented() -> $number {
                // SAFETY: errno is this thread's own.
                unsafe { *libc::__errno_location() = libc::ENOSYS };
                -1
            }
        })*
    };
}
minus_one! { i32 i64 isize }

impl Failure for () {
    fn not_implemented() {
        i32::not_implemented();
    }
}

impl Failure for *mut libc::FILE {
    fn not_implemented() -> *mut libc::FILE {
        i32::not_implemented();
        std::ptr::null_mut()
    }
}

pub(super) unsafe extern "C" fn preadv64v2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's; on 64-bit machines it is the same function.
    unsafe { super::preadv2(fd, segments, count, offset, flags) }
}

pub(super) unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    segments: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's; on 64-bit machines it is the same function.
    unsafe { super::pwritev2(fd, segments, count, offset, flags) }
}

pub(super) unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the caller's; on 64-bit machines it is the same function.
    unsafe { super::fcntl(fd, command, argument) }
}

pub(super) unsafe extern "C" fn sendfile64(out: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's; on 64-bit machines it is the same function.
    unsafe { super::sendfile(out, from, offset, count) }
}

/// A checked function ends the program, as in the C library, where the buffer is smaller than the length.
fn check(length: size_t, room: size_t) {
    if length > room {
        std::process::abort();
    }
}

pub(super) unsafe extern "C" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    check(length, room);
    // SAFETY: the caller's.
    unsafe { super::read(fd, buffer, length) }
}

pub(super) unsafe extern "C" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(length, room);
    // SAFETY: the caller's.
    unsafe { super::recv(fd, buffer, length, flags) }
}

pub(super) unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    check(length, room);
    // SAFETY: the caller's.
    unsafe { super::recvfrom(fd, buffer, length, flags, address, address_length) }
}

pub(super) unsafe extern "C" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int {
    check(count as usize, room / size_of::<pollfd>());
    // SAFETY: the caller's.
    unsafe { super::poll(fds, count, timeout_ms) }
}

pub(super) unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    check(count as usize, room / size_of::<pollfd>());
    // SAFETY: the caller's.
    unsafe { super::ppoll(fds, count, timeout, mask) }
}

pub(super) unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    /// Bytes of the kernel's signal mask.
    const MASK_BYTES: c_ulong = 8;
    let [epoll, room] = [epoll as c_ulong, room as c_ulong];
    let (events, timeout, mask) = (events as c_ulong, timeout as c_ulong, mask as c_ulong);
    // SAFETY: the caller's.
    unsafe { super::syscall(libc::SYS_epoll_pwait2, epoll, events, room, timeout, mask, MASK_BYTES) as c_int }
}

pub(super) unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let [first, last] = [first, last].map(c_ulong::from);
    // SAFETY: the caller's.
    unsafe { super::syscall(libc::SYS_close_range, first, last, flags as c_ulong, 0, 0, 0) as c_int }
}

/// Closes nothing where the kernel has no `close_range` (before 5.9): a C library without `closefrom` has no program
/// that calls it.
pub(super) unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller's.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

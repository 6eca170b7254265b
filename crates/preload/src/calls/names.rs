//! Calls that open, copy and close fds, and calls that give sockets addresses.

use libc::{c_int, c_uint, sockaddr, socklen_t};
use nearwire_socket::Family;
use nearwire_sys::descriptor::Descriptor;

use crate::c_types::address::{self, Name};
use crate::calls::adoption;
use crate::errno::{errno, fail};
use crate::signals::deferral;
use crate::turn::REFUSED;
use crate::{internal_fd, io_uring, marks, own_process, real, start, state, wiring};

fn can_follow(fd: c_int) -> bool {
    !state::is_off() && marks::can_follow(fd)
}

/// After socket(2).
pub fn opened(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let family = match domain {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return,
    };
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    if kind & !flags == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP) {
        return stream_opened(fd, false);
    }
    let is_udp = kind & !flags == libc::SOCK_DGRAM && matches!(protocol, 0 | libc::IPPROTO_UDP);
    if !is_udp || !can_follow(fd) {
        return;
    }
    forget_if_known(fd);
    io_uring::look_for();
    wiring::connect();
    let opened = state::with(|sockets| {
        if io_uring::is_used() {
            sockets.io_uring_used();
        }
        let id = sockets.opened(fd, family, kind & libc::SOCK_NONBLOCK != 0)?;
        // The one that had its place before may have been of another engine.
        marks::move_socket(id, state::FIRST);
        let process = own_process::own_pid();
        // A child of vfork has its parent's memory and a table of descriptors of its own.
        if sockets.lacks_sleep_descriptors(process) && !own_process::is_borrowed() {
            sockets.reserve_sleep_descriptors(process);
        }
        Some(id)
    });
    if opened.flatten().is_some() {
        marks::follow_socket(fd);
        state::set_in_use();
    }
}

fn stream_opened(fd: c_int, is_server: bool) {
    if start::adopts_connections() {
        forget_if_known(fd);
        wiring::connect();
        adoption::opened(fd, is_server);
    }
}

/// After accept(2): a listener of TCP that the library followed gives sockets that it follows.
pub fn accepted(listener: c_int, fd: c_int) {
    if fd >= 0 && marks::gives_streams(listener) {
        let before = errno();
        deferral::inside_deep(|| stream_opened(fd, true));
        fail(before);
    }
}

/// An fd that was closed by a system call that the library did not see, and now names something else.
fn forget_if_known(fd: c_int) {
    if marks::is_noted(fd) {
        closing(fd);
    }
}

/// After epoll_create(2).
pub fn epoll_opened(fd: c_int) {
    forget_if_known(fd);
    wiring::connect();
    if can_follow(fd) && state::with(|sockets| sockets.epoll_opened(fd)).is_some() {
        marks::follow_epoll(fd);
    }
}

/// Before an fd is closed, by any call.
pub fn closing(fd: c_int) {
    adoption::closing(fd);
    if marks::is_followed(fd) && !own_process::is_borrowed() {
        state::with_fd(fd, |sockets| sockets.closing(fd));
        marks::unfollow(fd);
    }
}

/// Before `new` becomes a copy of `old`, unless the kernel refuses that.
pub fn replacing(old: c_int, new: c_int, flags: c_int) {
    if old != new {
        // Refused, the kernel keeps them.
        adoption::leave(old);
        adoption::leave(new);
    }
    let is_open = || Descriptor::new(old).is_some_and(|old| rustix::io::fcntl_getfd(old).is_ok());
    if old != new && marks::is_socket(new) && flags & !libc::O_CLOEXEC == 0 && is_open() {
        state::with_fd(new, |sockets| sockets.replacing(new));
    }
}

/// After `new` became a copy of `old`.
pub fn copied(old: c_int, new: c_int) {
    internal_fd::note_fd(new);
    if new >= 0 && old != new {
        adoption::closing(new);
    }
    if new < 0 || old == new || !(marks::is_followed(old) || marks::is_followed(new)) || own_process::is_borrowed() {
        return;
    }
    let is_followed = marks::is_followed(old) && can_follow(new);
    if marks::is_followed(new) {
        // It may have been of another engine.
        state::with_fd(new, |sockets| sockets.closing(new));
        marks::unfollow(new);
    }
    if is_followed {
        state::with_fd(old, |sockets| {
            sockets.duplicated(old, new);
            marks::follow_copy(old, new);
        });
    }
}

/// close(2) of an fd of the library's own: for the library itself, whose values close what they own by the C
/// function; to the program it is not open.
pub fn close_internal(fd: c_int) -> c_int {
    if !state::is_inside() {
        return fail(libc::EBADF) as c_int;
    }
    internal_fd::release(fd);
    // SAFETY: the owner gives it up.
    unsafe { real::close(fd) }
}

/// Before close_range(2) and closefrom(3): which of these fds are followed.
pub fn closing_range(first: c_uint, last: c_uint) {
    let last = last.min(u16::MAX.into());
    for fd in first..=last {
        closing(fd.cast_signed());
    }
}

/// close_range(2) in pieces, around the library's own descriptors.
///
/// # Safety
/// As for the C function.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if first > last || flags & !(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) != 0 {
        // SAFETY: the caller's.
        return unsafe { real::close_range(first, last, flags) };
    }
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        closing_range(first, last);
    }
    for (from, to) in internal_fd::gaps(first, last) {
        // SAFETY: the caller's.
        let closed = unsafe { real::close_range(from, to, flags) };
        if closed != 0 {
            return closed;
        }
    }
    0
}

const CLOSE_RANGE_UNSHARE: c_int = 2;
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// After bind(2) succeeded: what the program is told. With `strict` a socket that should be accelerated and is not fails;
/// to the kernel it is bound, and all that is done with it fails the same way.
///
/// # Safety
/// The address is the one that was bound to.
pub unsafe fn bound(fd: c_int, name: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's.
    if let Name::Ip(wanted) = unsafe { address::read(name, length) } {
        let refusal = state::with_fd(fd, |sockets| {
            sockets.bound(fd, wanted);
            sockets.refusal(fd)
        });
        if refusal.flatten().is_some() {
            return fail(REFUSED) as c_int;
        }
    }
    0
}

/// After connect(2), whatever came of it: also a refused one may have disconnected. What the program is told, as of
/// [`bound`].
pub fn connected(fd: c_int, result: c_int) -> c_int {
    // The program looks at the error of its call.
    let before = errno();
    let refusal = state::with_fd(fd, |sockets| {
        sockets.connected(fd);
        sockets.refusal(fd)
    });
    if result == 0 && refusal.flatten().is_some() {
        return fail(REFUSED) as c_int;
    }
    fail(before);
    result
}

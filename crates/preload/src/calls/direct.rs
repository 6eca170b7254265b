//! Calls that the kernel gets at once ([`nearwire_socket::direct`]). They are outside the library: handlers run in them and threads are
//! cancelled in them as in any call of the kernel's.
//!
//! Before one of some calls the library has something to do, and a handler that is due meanwhile runs when that is done. The kernel's part of the
//! call must not begin to wait then, as if nothing had come: a program whose handler only sets a flag would not look at it.

use libc::{c_int, c_short, ssize_t};
use nearwire_socket::direct::{self, Entry, Inside};
use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::own_stack;
use rustix::net::sockopt::{Timeout, socket_timeout};

use super::adoption;
use crate::errno::fail;
use crate::signals::{Handlers, deferral, handlers_so_far};
use crate::{marks, real, state};

/// Makes a receive, where the kernel gets it at once.
#[inline(always)]
pub fn receives(fd: c_int, flags: c_int, original: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    passes(fd, flags, libc::POLLIN, original)
}

/// The same of a call that waits for an event.
#[inline(always)]
pub fn passes(fd: c_int, flags: c_int, event: c_short, original: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    let inside = match enter::<true>(fd, |handlers| end_call(handlers, fd, flags, event)) {
        Entered::Library => return None,
        Entered::Interrupted => return Some(fail(libc::EINTR)),
        Entered::Kernel(inside) => inside,
    };
    let received = original();
    direct::leave_received(inside, u64::from(received >= 0));
    Some(received)
}

/// The same of recvmmsg(2).
#[inline]
pub fn receives_several(fd: c_int, flags: c_int, original: impl FnOnce() -> c_int) -> Option<c_int> {
    let inside = match enter::<true>(fd, |handlers| end_call(handlers, fd, flags, libc::POLLIN)) {
        Entered::Library => return None,
        Entered::Interrupted => return Some(fail(libc::EINTR) as c_int),
        Entered::Kernel(inside) => inside,
    };
    let received = original();
    direct::leave_received(inside, u64::try_from(received).unwrap_or(0));
    Some(received)
}

/// The same of a send. With MSG_MORE the library has to know that the kernel gathers a datagram.
#[inline(always)]
pub fn sends(fd: c_int, flags: c_int, original: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    let is_stream = marks::is_stream(fd);
    if flags & libc::MSG_MORE != 0 && !is_stream {
        return None;
    }
    let ends = |handlers| end_call(handlers, fd, flags, libc::POLLOUT);
    // One on a connection may sleep.
    let inside = match if is_stream { enter::<true>(fd, ends) } else { enter::<false>(fd, |_| false) } {
        Entered::Library => return None,
        Entered::Interrupted => return Some(fail(libc::EINTR)),
        Entered::Kernel(inside) => inside,
    };
    let sent = original();
    direct::leave(inside);
    Some(sent)
}

/// A wait for more than this goes by the library.
const WAITED_FOR_MOST: usize = 8;

/// What became of a wait for several fds.
pub enum Wait {
    /// The kernel made it.
    Done(c_int),
    /// The library has sockets among them.
    Library,
    /// A handler ran before it began. It finds what is there, and does not wait for more.
    Interrupted,
}

/// Makes a wait for several fds, where the kernel gets the calls on all sockets among them at once that the library follows.
#[inline]
pub fn waits(fds: impl Iterator<Item = c_int>, original: impl FnOnce() -> c_int) -> Wait {
    let mut calls = [None; WAITED_FOR_MOST];
    let (mut count, mut are_all, mut is_interrupted) = (0, true, false);
    for fd in fds.filter(|fd| marks::is_followed_or_stream(*fd)) {
        let has_room = count < WAITED_FOR_MOST;
        are_all = has_room && !marks::is_epoll(fd);
        match if are_all { enter::<true>(fd, |_| true) } else { Entered::Library } {
            Entered::Library => are_all = false,
            Entered::Interrupted => is_interrupted = true,
            Entered::Kernel(inside) => calls[count] = Some(inside),
        }
        if !are_all || is_interrupted {
            break;
        }
        count += 1;
    }
    let result = match is_interrupted {
        true => Wait::Interrupted,
        false if are_all && count > 0 => Wait::Done(original()),
        false => Wait::Library,
    };
    calls.into_iter().flatten().for_each(direct::leave);
    result
}

/// Whose a call is.
enum Entered {
    Library,
    Kernel(Inside),
    /// A handler ran, and the call ends.
    Interrupted,
}

/// `ends`: whether handlers that ran meanwhile end the call.
#[inline(always)]
fn enter<const MAY_SLEEP: bool>(fd: c_int, ends: impl FnOnce(Handlers) -> bool) -> Entered {
    match direct::enter::<MAY_SLEEP>(fd) {
        Entry::Library => Entered::Library,
        Entry::Kernel(inside) => Entered::Kernel(inside),
        Entry::Ask => {
            let handlers = ask(fd);
            if handlers != Handlers::default() && ends(handlers) {
                return Entered::Interrupted;
            }
            match direct::enter::<MAY_SLEEP>(fd) {
                Entry::Kernel(inside) => Entered::Kernel(inside),
                _ => Entered::Library,
            }
        }
    }
}

#[cold]
fn ask(fd: c_int) -> Handlers {
    let before = handlers_so_far();
    if marks::is_stream(fd) {
        adoption::consider(fd);
    } else {
        deferral::inside(|| own_stack::run(|| state::with_fd(fd, |sockets| sockets.ask_about_lent(fd))));
    }
    before.since()
}

/// Whether handlers that ran before a call began to wait for an event end it. Where the socket has a timeout no call restarts (`sock_intr_errno`).
#[cold]
pub fn end_call(handlers: Handlers, fd: c_int, flags: c_int, event: c_short) -> bool {
    let end = handlers.interrupting > 0 || (handlers.restarting > 0 && has_timeout(fd, event));
    end && would_wait(fd, flags, event)
}

fn has_timeout(fd: c_int, event: c_short) -> bool {
    let which = if event == libc::POLLIN { Timeout::Recv } else { Timeout::Send };
    let timeout = |socket| socket_timeout(socket, which).ok().flatten();
    Descriptor::new(fd).and_then(timeout).is_some()
}

/// Whether a call on a socket waits for an event if the kernel gets it now.
#[cold]
fn would_wait(fd: c_int, flags: c_int, events: c_short) -> bool {
    // SAFETY: it reads no memory.
    let is_nonblocking = || unsafe { real::fcntl(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK != 0 };
    flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking() && polled(fd, events) == Some(0)
}

/// What the kernel's poll(2) says of a socket now; `None`: it failed.
pub(super) fn polled(fd: c_int, events: c_short) -> Option<c_short> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: it reads no memory but the entry, which is live.
    let found = unsafe { real::poll(&raw mut entry, 1, 0) };
    (found >= 0).then_some(entry.revents)
}

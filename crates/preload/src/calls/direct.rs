//! Calls that the kernel gets at once ([`nearwire_socket::direct`]). They are outside the library: handlers run in them and threads are
//! cancelled in them as in any call of the kernel's.

use libc::{c_int, ssize_t};
use nearwire_socket::direct::{self, Entry, Inside};
use nearwire_sys::own_stack;

use super::adoption;
use crate::signals::deferral;
use crate::{marks, state};

/// Makes a receive, where the kernel gets it at once.
#[inline(always)]
pub fn receives(fd: c_int, original: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    let inside = enter::<true>(fd)?;
    let received = original();
    direct::leave_received(inside, u64::from(received >= 0));
    Some(received)
}

/// The same of recvmmsg(2).
#[inline]
pub fn receives_several(fd: c_int, original: impl FnOnce() -> c_int) -> Option<c_int> {
    let inside = enter::<true>(fd)?;
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
    // One on a connection may sleep.
    let inside = if is_stream { enter::<true>(fd)? } else { enter::<false>(fd)? };
    let sent = original();
    direct::leave(inside);
    Some(sent)
}

/// A wait for more than this goes by the library.
const WAITED_FOR_MOST: usize = 8;

/// Makes a wait for several fds, where the kernel gets the calls on all sockets among them at once that the library follows.
#[inline]
pub fn waits(fds: impl Iterator<Item = c_int>, original: impl FnOnce() -> c_int) -> Option<c_int> {
    let mut calls = [None; WAITED_FOR_MOST];
    let (mut count, mut are_all) = (0, true);
    for fd in fds.filter(|fd| marks::is_followed_or_stream(*fd)) {
        let has_room = count < WAITED_FOR_MOST;
        let entered = if has_room && !marks::is_epoll(fd) { enter::<true>(fd) } else { None };
        are_all = entered.is_some();
        if !are_all {
            break;
        }
        calls[count] = entered;
        count += 1;
    }
    let result = (are_all && count > 0).then(original);
    calls.into_iter().flatten().for_each(direct::leave);
    result
}

#[inline(always)]
fn enter<const MAY_SLEEP: bool>(fd: c_int) -> Option<Inside> {
    match direct::enter::<MAY_SLEEP>(fd) {
        Entry::Library => None,
        Entry::Kernel(inside) => Some(inside),
        Entry::Ask => {
            ask(fd);
            if let Entry::Kernel(inside) = direct::enter::<MAY_SLEEP>(fd) { Some(inside) } else { None }
        }
    }
}

#[cold]
fn ask(fd: c_int) {
    if marks::is_stream(fd) {
        return adoption::consider(fd);
    }
    deferral::inside(|| own_stack::run(|| state::with_fd(fd, |sockets| sockets.ask_about_lent(fd))));
}

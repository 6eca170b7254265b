//! poll(2) and select(2).

use std::time::Duration;

use libc::{c_int, c_ulong, fd_set, nfds_t, pollfd};
use nearwire_socket::poll::PollSplit;
use nearwire_socket::poll::select::{FdSets, WORD_BITS};

use crate::turn::{Turn, Turns, fail, to_timespec};
use crate::{real, state};

/// How often the kernel's descriptors are asked while the call spins: each turn in so many.
const TURNS_PER_ASKING: u32 = 128;

/// poll(2). `None`: there is nothing in it that the library follows.
///
/// # Safety
/// `fds` points to `count` entries.
pub unsafe fn poll(fds: *mut pollfd, count: nfds_t, timeout: Option<Duration>) -> Option<c_int> {
    let count = usize::try_from(count).ok()?;
    if !state::is_in_use() || fds.is_null() || count == 0 {
        return None;
    }
    // SAFETY: the caller's.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    if !fds.iter().any(|entry| state::is_followed(entry.fd)) {
        return None;
    }
    poll_slice(fds, timeout)
}

fn poll_slice(fds: &mut [pollfd], timeout: Option<Duration>) -> Option<c_int> {
    let mut split = PollSplit::default();
    let has_ours = state::with(|sockets| {
        split.fill(fds, |fd| if state::is_socket(fd) { sockets.accelerated(fd) } else { None });
        split.has_ours() || fds.iter().any(|entry| state::is_epoll(entry.fd) && sockets.is_epoll_of_ours(entry.fd))
    })?;
    if !has_ours {
        return None;
    }
    let mut turns: Option<Turns> = None;
    let mut looks = 0_u32;
    let mut hand_overs = state::with(|sockets| sockets.hand_overs())?;
    loop {
        if looks.is_multiple_of(TURNS_PER_ASKING) && !split.kernel().is_empty() {
            ask_kernel(split.kernel());
        }
        looks = looks.wrapping_add(1);
        let ready = state::with(|sockets| {
            sockets.take_in();
            if std::mem::replace(&mut hand_overs, sockets.hand_overs()) != hand_overs {
                // One that was given to the kernel meanwhile is waited for there.
                split.fill(fds, |fd| if state::is_socket(fd) { sockets.accelerated(fd) } else { None });
                ask_kernel(split.kernel());
            }
            let mut ready = split.merge(fds, |id| sockets.readiness_of(id));
            ready += mark_sets(fds, |fd| sockets.epoll_is_ready(fd) == Some(true));
            ready
        })?;
        if ready > 0 {
            return Some(ready as c_int);
        }
        match turns.get_or_insert_with(|| Turns::new(timeout, true)).turn(split.kernel()) {
            Turn::Again => {}
            Turn::TimedOut => return Some(0),
            Turn::Interrupted => return Some(fail(libc::EINTR) as c_int),
        }
    }
}

/// Epoll descriptors that the kernel finds nothing in, and the library does. How many.
fn mark_sets(fds: &mut [pollfd], mut is_ready: impl FnMut(c_int) -> bool) -> usize {
    let mut marked = 0;
    for entry in fds.iter_mut().filter(|entry| entry.fd >= 0 && state::is_epoll(entry.fd)) {
        const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;
        let wanted = entry.events & READABLE;
        if entry.revents & wanted == 0 && wanted != 0 && is_ready(entry.fd) {
            marked += usize::from(entry.revents == 0);
            entry.revents |= wanted;
        }
    }
    marked
}

fn ask_kernel(fds: &mut [pollfd]) {
    let now = to_timespec(Duration::ZERO);
    // SAFETY: a live array and timeout; the answer is in the array.
    unsafe { real::ppoll(fds.as_mut_ptr(), fds.len() as nfds_t, &raw const now, std::ptr::null()) };
}

/// select(2).
///
/// # Safety
/// The sets are null or hold `count` bits.
pub unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: Option<Duration>,
) -> Option<c_int> {
    if !state::is_in_use() {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let words = count.div_ceil(WORD_BITS);
    // SAFETY: the caller's; a program may have sets longer than `fd_set`, of which select(2) reads `count` bits.
    let words_of = |set: *mut fd_set| unsafe {
        (!set.is_null()).then(|| std::slice::from_raw_parts_mut(set.cast::<c_ulong>(), words))
    };
    let mut sets = FdSets { read: words_of(read), write: words_of(write), except: words_of(except) };
    let mut list = Vec::new();
    sets.poll_list(count, &mut list);
    if !list.iter().any(|entry| state::is_followed(entry.fd)) {
        return None;
    }
    let found = poll_slice(&mut list, timeout)?;
    if found < 0 {
        return Some(found);
    }
    match sets.answer(count, &list) {
        Ok(bits) => Some(bits as c_int),
        Err(errno) => Some(fail(errno.raw_os_error()) as c_int),
    }
}

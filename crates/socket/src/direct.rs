//! Calls that go to the kernel without a look at the library's state: sends and receives on sockets that it serves.
//!
//! To ask who serves a socket took two programs that wake each other on one CPU a quarter of their messages, as a thread that slept finds
//! its caches cold. So each fd has a word that says how many calls may go to the kernel at once. It is [`FOR_GOOD`] where the kernel keeps
//! the socket. A socket that is only lent to the kernel is asked about again after some calls, and does not come back while such a call
//! is inside: a thread that sleeps in the kernel's own call would not hear of frames that come to a port.
//!
//! ```text
//! bits 63-48  how often the word was cleared        47-32  datagrams that calls received since the last question
//!      31-16  calls inside                          15-0   one more than the calls that may go on, or 0
//! ```

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Numbers that have a word.
const FDS: usize = 1 << 16;
/// The kernel keeps the socket, whatever comes.
const FOR_GOOD: u64 = 0xffff;
const LEFT: u64 = 0xffff;
const INSIDE: u64 = 1 << 16;
const INSIDE_ALL: u64 = 0xffff << 16;
const RECEIVED: u64 = 1 << 32;
const RECEIVED_ALL: u64 = 0xffff << 32;
const CLEARED: u64 = 1 << 48;
const CLEARED_ALL: u64 = 0xffff << 48;

/// Zero pages until they are written.
static WORDS: [AtomicU64; FDS] = [const { AtomicU64::new(0) }; FDS];
/// The highest fd whose word was ever written.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

#[inline(always)]
fn word_of(fd: i32) -> Option<&'static AtomicU64> {
    WORDS.get(usize::try_from(fd).ok()?)
}

/// A call that goes to the kernel at once. To be given to [`leave`] when it is over; one that never is keeps its socket with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Inside {
    fd: i32,
    /// `None`: it is not counted.
    cleared: Option<u64>,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// To the library.
    Library,
    /// To the kernel at once.
    Kernel(Inside),
    /// The socket is lent to the kernel, and whether it stays so is to be asked first ([`Sockets::ask_about_lent`](crate::Sockets)).
    Ask,
}

/// Where a call on an fd goes. A send need not be waited for, so it does not count as inside (`MAY_SLEEP`): the socket may come back
/// meanwhile, and what the kernel has of it is waited for then.
#[inline(always)]
pub fn enter<const MAY_SLEEP: bool>(fd: i32) -> Entry {
    match word_of(fd) {
        Some(word) if word.load(Relaxed) & LEFT != 0 => enter_by::<MAY_SLEEP>(word, fd),
        _ => Entry::Library,
    }
}

#[inline(never)]
fn enter_by<const MAY_SLEEP: bool>(word: &AtomicU64, fd: i32) -> Entry {
    let mut now = word.load(Relaxed);
    loop {
        match now & LEFT {
            0 => return Entry::Library,
            1 => return Entry::Ask,
            FOR_GOOD => return Entry::Kernel(Inside { fd, cleared: None }),
            _ if now & INSIDE_ALL == INSIDE_ALL => return Entry::Library,
            _ => {}
        }
        let inside = if MAY_SLEEP { INSIDE } else { 0 };
        match word.compare_exchange_weak(now, now + inside - 1, SeqCst, Relaxed) {
            Ok(_) => return Entry::Kernel(Inside { fd, cleared: MAY_SLEEP.then_some(now & CLEARED_ALL) }),
            Err(other) => now = other,
        }
    }
}

/// The call is over.
#[inline(always)]
pub fn leave(inside: Inside) {
    leave_received(inside, 0);
}

/// The same of a receive that has so many datagrams.
#[inline(always)]
pub fn leave_received(inside: Inside, datagrams: u64) {
    if let (Some(cleared), Some(word)) = (inside.cleared, word_of(inside.fd)) {
        leave_by(word, cleared, datagrams);
    }
}

#[inline(never)]
fn leave_by(word: &AtomicU64, cleared: u64, datagrams: u64) {
    let ended = |now: u64| {
        // Another socket may have the fd by now.
        let is_same = now & CLEARED_ALL == cleared && now & INSIDE_ALL != 0;
        let received = ((now & RECEIVED_ALL) / RECEIVED + datagrams).min(RECEIVED_ALL / RECEIVED);
        is_same.then_some((now & !RECEIVED_ALL).wrapping_sub(INSIDE) | (received * RECEIVED))
    };
    let _ = word.fetch_update(SeqCst, Relaxed, ended);
}

/// How many datagrams calls on an fd have received since this was last asked.
pub(crate) fn take_received(fd: i32) -> u64 {
    let before = word_of(fd).map_or(0, |word| word.fetch_and(!RECEIVED_ALL, SeqCst));
    (before & RECEIVED_ALL) / RECEIVED
}

/// Whether calls on an fd may go to the kernel at once, or are to ask.
#[must_use]
pub fn may_pass(fd: i32) -> bool {
    word_of(fd).is_some_and(|word| word.load(Relaxed) & LEFT != 0)
}

/// So many calls on an fd may go to the kernel, and the next one asks.
pub(crate) fn allow(fd: i32, calls: u16) {
    set_left(fd, (u64::from(calls) + 1).min(FOR_GOOD - 1));
}

/// Whether the kernel keeps a socket, whatever comes.
#[must_use]
pub fn is_for_good(fd: i32) -> bool {
    word_of(fd).is_some_and(|word| word.load(Relaxed) & LEFT == FOR_GOOD)
}

/// All calls on an fd may.
pub(crate) fn allow_for_good(fd: i32) {
    if word_of(fd).is_some_and(|word| word.load(Relaxed) & LEFT != FOR_GOOD) {
        set_left(fd, FOR_GOOD);
    }
}

fn set_left(fd: i32, left: u64) {
    if let Some(word) = word_of(fd) {
        HIGHEST.fetch_max(fd, Relaxed);
        let _ = word.fetch_update(SeqCst, Relaxed, |now| Some(now & !LEFT | left));
    }
}

/// No call on an fd may from now on. `false`: one is inside, and all is as before.
pub(crate) fn end(fd: i32) -> bool {
    let Some(word) = word_of(fd) else { return true };
    let none_inside = |now: u64| (now & INSIDE_ALL == 0).then_some(now & !LEFT);
    word.fetch_update(SeqCst, SeqCst, none_inside).is_ok()
}

/// An fd is closed, or names something else.
pub(crate) fn clear(fd: i32) {
    if let Some(word) = word_of(fd).filter(|word| word.load(Relaxed) & !CLEARED_ALL != 0) {
        let _ = word.fetch_update(SeqCst, Relaxed, |now| Some((now & CLEARED_ALL).wrapping_add(CLEARED)));
    }
}

/// The process is the child of a fork: the threads whose calls are inside are its parent's.
pub(crate) fn clear_all() {
    (0..=HIGHEST.load(Relaxed)).for_each(clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(fd: i32) -> Inside {
        match enter::<true>(fd) {
            Entry::Kernel(inside) => inside,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn allowed_calls_are_counted_and_the_next_asks() {
        let fd = 50_001;
        assert_eq!(enter::<true>(fd), Entry::Library);
        allow(fd, 2);
        (0..2).for_each(|_| leave(inside(fd)));
        assert_eq!(enter::<true>(fd), Entry::Ask);
        assert!(end(fd));
        assert_eq!(enter::<true>(fd), Entry::Library);
    }

    #[test]
    fn call_inside_keeps_the_socket_with_the_kernel_until_it_leaves() {
        let fd = 50_002;
        allow(fd, 5);
        let call = inside(fd);
        assert!(!end(fd));
        leave(call);
        assert!(end(fd));
        assert_eq!(enter::<true>(fd), Entry::Library);
    }

    #[test]
    fn datagrams_that_calls_received_are_told_once() {
        let fd = 50_005;
        allow(fd, 5);
        for datagrams in [1, 0, 8] {
            leave_received(inside(fd), datagrams);
        }
        leave(inside(fd));
        assert_eq!((take_received(fd), take_received(fd)), (9, 0));
        clear(fd);
    }

    #[test]
    fn call_on_a_closed_fd_left_counts_for_no_other_socket() {
        let fd = 50_003;
        allow(fd, 5);
        let before = inside(fd);
        clear(fd);
        allow(fd, 5);
        let other = inside(fd);
        leave(before);
        assert!(!end(fd), "the other's call is inside");
        leave(other);
        assert!(end(fd));
        clear(fd);
    }

    #[test]
    fn calls_of_a_socket_that_the_kernel_keeps_are_not_counted() {
        let fd = 50_004;
        allow_for_good(fd);
        let call = inside(fd);
        assert_eq!(call.cleared, None);
        leave(call);
        assert_eq!(inside(fd).cleared, None);
        clear(fd);
        assert_eq!(enter::<true>(fd), Entry::Library);
    }

    #[test]
    fn fds_beyond_the_table_have_no_word() {
        allow_for_good(-1);
        allow_for_good(1 << 16);
        assert_eq!((enter::<true>(-1), enter::<true>(1 << 16)), (Entry::Library, Entry::Library));
        assert!(end(-1));
    }
}

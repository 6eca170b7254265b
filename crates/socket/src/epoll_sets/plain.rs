//! Threads that wait for an epoll set by the kernel alone, because no socket of ours was in it when they began.
//!
//! When one comes in, they have to wait for it too. So they are counted here, without the gate: a program without UDP
//! sockets pays two atomic additions for a wait. Who registers a socket puts an eventfd that is always readable into the
//! kernel's set, under data that nobody can guess ([`call_data`]); each waiter gets it, takes it out of what the program
//! sees and begins again with the library; the last one removes it ([`crate::Sockets::plain_waiters_left`]).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Numbers that are counted; the library follows no others.
const NUMBERS: usize = 1 << 16;

/// Of each fd: waiters, and above [`COUNT_BITS`] how often it was closed, wrapping. A call that was left by a jump is counted
/// until its thread waits again; the next set with that fd must not have its event.
static WAITERS: [AtomicU32; NUMBERS] = [const { AtomicU32::new(0) }; NUMBERS];
const COUNT_BITS: u32 = 16;
const COUNT: u32 = (1 << COUNT_BITS) - 1;
/// 0: no set was ever called.
static CALL_DATA: AtomicU64 = AtomicU64::new(0);

fn waiters(fd: i32) -> Option<&'static AtomicU32> {
    WAITERS.get(usize::try_from(fd).ok()?)
}

/// One plain wait; look once more for sockets after it began.
#[derive(Debug)]
pub struct PlainWait {
    fd: i32,
    closed: u32,
}

impl PlainWait {
    /// A thread is about to wait for the set that an fd names.
    #[must_use]
    pub fn begin(fd: i32) -> PlainWait {
        let before = waiters(fd).map_or(0, |waiters| waiters.fetch_add(1, SeqCst));
        PlainWait { fd, closed: before >> COUNT_BITS }
    }

    /// How often the fd had been closed when this began.
    #[must_use]
    pub const fn closed(&self) -> u32 {
        self.closed
    }

    /// One that began when the fd had been closed so often, and whose call was left by a jump: drop it.
    #[must_use]
    pub const fn left(fd: i32, closed: u32) -> PlainWait {
        PlainWait { fd, closed }
    }
}

impl Drop for PlainWait {
    fn drop(&mut self) {
        let less = |waiters: u32| (waiters >> COUNT_BITS == self.closed && waiters & COUNT != 0).then(|| waiters - 1);
        if let Some(waiters) = waiters(self.fd) {
            // Nothing is to be done if the fd was closed meanwhile.
            let _ = waiters.fetch_update(SeqCst, SeqCst, less);
        }
    }
}

/// The fd is closed: a thread that waits, waits for a set that does not have this fd any more.
pub(super) fn closing(fd: i32) {
    if let Some(waiters) = waiters(fd) {
        let none = |waiters: u32| Some((waiters | COUNT).wrapping_add(1));
        let _ = waiters.fetch_update(SeqCst, SeqCst, none);
    }
}

/// Whether a thread waits plainly by that fd.
pub(super) fn is_waited_for(fd: i32) -> bool {
    waiters(fd).is_some_and(|waiters| waiters.load(SeqCst) & COUNT != 0)
}

/// What the event has that calls waiters; `None`: no set was ever called.
#[inline]
#[must_use]
pub fn call_data() -> Option<u64> {
    Some(CALL_DATA.load(Relaxed)).filter(|data| *data != 0)
}

/// The same, chosen if it was not yet.
pub(super) fn choose_call_data() -> u64 {
    let mut random = [0; 8];
    // Without random numbers an address is hard enough to guess.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let data = u64::from_ne_bytes(random) ^ (&raw const CALL_DATA as u64) | 1;
    CALL_DATA.compare_exchange(0, data, SeqCst, SeqCst).map_or_else(|chosen| chosen, |_| data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_closed_with_a_wait_left_by_a_jump_the_next_set_is_waited_for_by_nobody() {
        const NUMBER: i32 = 40_000;
        let left = PlainWait::begin(NUMBER);
        let closed = left.closed();
        std::mem::forget(left);
        assert!(is_waited_for(NUMBER));
        closing(NUMBER);
        assert!(!is_waited_for(NUMBER));
        let next = PlainWait::begin(NUMBER);
        drop(PlainWait::left(NUMBER, closed));
        assert!(is_waited_for(NUMBER));
        drop(next);
        assert!(!is_waited_for(NUMBER));
    }
}

//! Threads that wait for an epoll set by the kernel alone, because no socket of ours was in it when they began.
//!
//! When one comes in, they have to wait for it too. So they are counted here, without the gate: a program without UDP
//! sockets pays two atomic additions for a wait. Who registers a socket puts an eventfd that is always readable into the
//! kernel's set, under data that nobody can guess ([`call_data`]); each waiter gets it, takes it out of what the program
//! sees and begins again with the library; the last one removes it ([`crate::Sockets::plain_waiters_left`]).

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Numbers that are counted; the library follows no others.
const NUMBERS: usize = 1 << 16;

static WAITERS: [AtomicU16; NUMBERS] = [const { AtomicU16::new(0) }; NUMBERS];
/// 0: no set was ever called.
static CALL_DATA: AtomicU64 = AtomicU64::new(0);

fn waiters(number: i32) -> Option<&'static AtomicU16> {
    WAITERS.get(usize::try_from(number).ok()?)
}

/// One plain wait; look once more for sockets after it began.
#[derive(Debug)]
pub struct PlainWait {
    number: i32,
}

impl PlainWait {
    /// A thread is about to wait for the set that a number names.
    #[must_use]
    pub fn begin(number: i32) -> PlainWait {
        if let Some(waiters) = waiters(number) {
            waiters.fetch_add(1, SeqCst);
        }
        PlainWait { number }
    }

    /// One that began and whose call was left by a jump: drop it.
    #[must_use]
    pub const fn left(number: i32) -> PlainWait {
        PlainWait { number }
    }
}

impl Drop for PlainWait {
    fn drop(&mut self) {
        if let Some(waiters) = waiters(self.number) {
            waiters.fetch_sub(1, SeqCst);
        }
    }
}

/// Whether a thread waits plainly by that number.
pub(super) fn is_waited_for(number: i32) -> bool {
    waiters(number).is_some_and(|waiters| waiters.load(SeqCst) > 0)
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

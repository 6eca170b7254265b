//! Sleeps that a signal ends, whose handler waits for the end of the call ([`super::deferral`]).

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use libc::c_ulong;

use crate::real;
use crate::thread::{self, ThreadState};

/// While it lives a signal that waits for the end of the call ends the sleep.
pub struct SignalsEndSleep;

impl SignalsEndSleep {
    /// `wake`: the eventfd that the thread sleeps on; `None`: it sleeps on nothing that could wake it.
    pub fn on(wake: Option<RawFd>) -> SignalsEndSleep {
        thread::current().sleeps_on.store(wake.map_or(0, |wake| wake.cast_unsigned() + 1), Relaxed);
        // The handler runs in this thread, so the compiler alone could move the look at what came before.
        compiler_fence(SeqCst);
        SignalsEndSleep
    }
}

impl Drop for SignalsEndSleep {
    fn drop(&mut self) {
        thread::current().sleeps_on.store(0, Relaxed);
        compiler_fence(SeqCst);
    }
}

/// In a signal handler: the sleep that the thread is about to begin, if any, ends at once. Async-signal-safe.
pub fn end_sleep_of(thread: &ThreadState) {
    let Some(wake) = thread.sleeps_on.load(Relaxed).checked_sub(1) else { return };
    let one = 1_u64.to_ne_bytes();
    // SAFETY: the array is live and so long. Nothing is to be done where it fails: the descriptor is readable then.
    unsafe { real::syscall(libc::SYS_write, c_ulong::from(wake), one.as_ptr() as c_ulong, 8, 0, 0, 0) };
}

//! What the C library knows of the cancellation of the calling thread; [`crate::cancellation`] says when it is told.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use libc::c_int;

use crate::real;
use crate::thread::{CANCEL_ASKED, CANCEL_KNOWN, ThreadState};

/// Of pthread.h.
pub const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// What was asked for is the C library's to do from now on.
pub fn tell_c_library(thread: &ThreadState) {
    if thread.attention.load(Relaxed) & CANCEL_ASKED != 0 {
        thread.attention.fetch_or(CANCEL_KNOWN, Relaxed);
        thread.attention.fetch_and(!CANCEL_ASKED, SeqCst);
        // SAFETY: of the calling thread.
        unsafe { real::pthread_cancel(libc::pthread_self()) };
    }
}

/// pthread_setcancelstate(3) of the calling thread, which gives the former one.
pub fn set_state(state: c_int) -> c_int {
    let mut before: c_int = 0;
    // SAFETY: `before` is a variable, and the state one of the two that there are.
    unsafe { real::pthread_setcancelstate(state, &raw mut before) };
    before
}

/// A cancelled thread is about to fork, which is no cancellation point: what the library does on the way has some.
#[cold]
pub fn disable_for_fork(thread: &ThreadState) {
    let before = set_state(PTHREAD_CANCEL_DISABLE);
    thread.cancel_state.store(before.cast_unsigned() + 1, Relaxed);
}

/// The fork is over, in the parent or in the child.
pub fn put_back_after_fork(thread: &ThreadState) {
    let before = thread.cancel_state.swap(0, Relaxed);
    if before != 0 {
        set_state((before - 1).cast_signed());
    }
}

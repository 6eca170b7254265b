//! pthread_cancel(3) of a thread that is in a call of this library.
//!
//! The C library cancels a thread at a cancellation point: within a system call that waits. A thread that spins makes none,
//! and one that would be cancelled within our calls leaves a gate closed. So the C library hears of a cancellation only when
//! its thread is in no call of ours; until then it stands in the thread's own state, which a call that waits looks at.
//!
//! ```text
//! who cancels: attention |= CANCEL_ASKED     the thread: in_call = 1
//!              membarrier                                compiler fence
//!              in_call == 0? the C library               attention? leave the call, have the C library cancel this thread
//!              else: wake the thread                     ...
//!                                                        in_call = 0
//!                                                        attention? have the C library cancel this thread
//! ```
//!
//! Either the one finds the thread in no call or the thread finds CANCEL_ASKED, by the argument of [`crate::gate`]; where
//! both do, the C library is asked twice to cancel the thread, which has the effect of once. A thread that has cancellation disabled goes on, and looks again at
//! the next cancellation point. A thread of the type PTHREAD_CANCEL_ASYNCHRONOUS is cancelled when the call is over.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use libc::{c_int, pthread_t};

use crate::gate::barrier_in_every_thread;
use crate::signals::deferral;
use crate::thread::{self, CANCEL_ASKED, CANCEL_KNOWN, ThreadState};
use crate::{cancel_state, real, state};

/// A function that is a cancellation point begins: does not come back where the thread is cancelled.
#[inline(always)]
pub fn point() {
    let thread = thread::current();
    if thread.attention.load(Relaxed) & (CANCEL_ASKED | CANCEL_KNOWN) != 0 && thread.in_call.load(Relaxed) == 0 {
        act(thread);
    }
}

#[cold]
#[inline(never)]
fn act(thread: &ThreadState) {
    cancel_state::tell_c_library(thread);
    // SAFETY: the thread is in no call of ours, so nothing of ours is on its stack but frames without values to drop.
    unsafe { real::pthread_testcancel() };
}

/// pthread_cancel(3).
///
/// # Safety
/// As for the C function: the thread was not joined yet.
pub unsafe fn cancel(target: pthread_t) -> c_int {
    // SAFETY: the caller's.
    let thread = unsafe { thread::of(target) };
    thread.attention.fetch_or(CANCEL_ASKED, SeqCst);
    barrier_in_every_thread();
    if thread.in_call.load(SeqCst) == 0 {
        // SAFETY: the caller's.
        return unsafe { real::pthread_cancel(target) };
    }
    deferral::inside_deep(|| state::with_each(nearwire_socket::Sockets::wake_sleepers));
    0
}

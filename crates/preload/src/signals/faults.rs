//! Handlers that interrupted a call of the library and could not wait for its end: of what an instruction of the call caused, as where it
//! reads a pointer of the program's that points nowhere.
//!
//! A handler may return, having mended the cause, or end the process. It may also leave by `siglongjmp`, and with itself the call:
//! then the thread would count as within a call for ever, its signals would wait, and a gate that the call had closed would
//! stay so for all threads. Nothing reports a jump. But the next call of the thread that is not the handler's finds that the
//! handler is still said to run, and that it stands higher on the stack itself, or on another one. What the call was at cannot be known,
//! so engines that it was inside of are given up, as after a panic; the kernel serves their sockets from then on.

use std::sync::atomic::Ordering::Relaxed;

use nearwire_sys::own_stack;

use crate::state;
use crate::thread::{FAULTED, ThreadState};

/// How deep a handler goes on a stack that is no alternate one. Calls further away than that are not its own.
const REACH_BYTES: usize = 8 << 20;

/// Runs a handler that interrupted a call.
#[cold]
#[inline(never)]
pub(super) fn run(thread: &ThreadState, handler: impl FnOnce()) {
    let here = 0_u8;
    let outer = thread.fault_at.swap((&raw const here) as usize, Relaxed);
    thread.attention.fetch_or(FAULTED, Relaxed);
    handler();
    thread.fault_at.store(outer, Relaxed);
    if outer == 0 {
        thread.attention.fetch_and(!FAULTED, Relaxed);
    }
}

/// A call begins while a handler is said to run. Whether that has jumped away, in which case the thread is in no call any more.
#[cold]
#[inline(never)]
pub(super) fn was_left(thread: &ThreadState) -> bool {
    let here = 0_u8;
    let (here, fault_at) = ((&raw const here) as usize, thread.fault_at.load(Relaxed));
    let lowest = lowest_below(fault_at);
    if (lowest..fault_at).contains(&here) {
        return false;
    }
    thread.fault_at.store(0, Relaxed);
    thread.attention.fetch_and(!FAULTED, Relaxed);
    thread.in_call.store(0, Relaxed);
    own_stack::left();
    state::left_by_a_jump();
    true
}

/// The end of the stack on which something is.
fn lowest_below(at: usize) -> usize {
    // SAFETY: an all-zero value is one of the type; asks only.
    let alternate = unsafe {
        let mut alternate: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut alternate);
        alternate
    };
    let lowest = alternate.ss_sp as usize;
    let is_on_alternate = (lowest..lowest + alternate.ss_size).contains(&at);
    if is_on_alternate { lowest } else { at.saturating_sub(REACH_BYTES) }
}

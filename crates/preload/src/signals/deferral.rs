//! A program's signal handler never runs within a call of this library.
//!
//! A thread that waits is within one nearly always, and what a handler does there would meet a state that is half changed,
//! or a gate that its own thread has closed; one that leaves by `siglongjmp` would leave it closed for ever. So a signal that
//! comes within a call is sent to the thread once more, blocked, and the wait ends as the kernel's would: with EINTR, or to
//! begin anew where the handler was installed with SA_RESTART. When the call is over the signal is unblocked, and the kernel
//! delivers it to the program's handler: with the information, the mask, the stack and the flags that it was to have.
//!
//! ```text
//! in_call = 1; work; in_call = 0; if attention != 0 { unblock what waits: here handlers run }
//! ```
//!
//! Two stores and two loads of one cache line a call. A signal that comes behind the second store runs its handler at once,
//! one that comes before is seen by the load behind it.
//!
//! What an instruction causes (SIGSEGV and its like, from the kernel) cannot wait: its handler runs at once, and where it
//! interrupted the library, calls that it makes are the kernel's ([`super::faults`]). A signal that cannot be queued again,
//! as the user has as many waiting as RLIMIT_SIGPENDING allows, runs its handler at once too.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use libc::{
    SIG_BLOCK, SIG_DFL, SIG_UNBLOCK, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, c_int, c_ulong, c_void,
    sigaction as Action, sighandler_t, siginfo_t, timespec, ucontext_t,
};

use nearwire_sys::own_stack;

use crate::errno::{errno, fail};
use crate::thread::{
    self, CANCEL_ASKED, CANCEL_KNOWN, FAULTED, HANDLERS_UNDER_CALL_MASK, INTERRUPTS, NO_CALL_MASK, RESTARTS,
    ThreadState,
};
use crate::{cancel_state, real};

use super::mask::{change_mask, set_mask};
use super::{faults, order, sleep};

/// Runs one call of the library: handlers and cancellation wait for its end. Calls within calls end with the outermost.
#[inline(always)]
pub fn inside<R>(work: impl FnOnce() -> R) -> R {
    let thread = thread::current();
    let outer = thread.in_call.load(Relaxed);
    thread.in_call.store(1, Relaxed);
    compiler_fence(SeqCst);
    let attention = thread.attention.load(Relaxed) & (CANCEL_KNOWN | CANCEL_ASKED | FAULTED);
    if attention != 0 && (outer == 0 || attention & FAULTED != 0) {
        return inside_with_attention(thread, outer, work);
    }
    let result = work();
    leave(thread, outer);
    result
}

#[cold]
#[inline(never)]
fn inside_with_attention<R>(thread: &ThreadState, outer: u32, work: impl FnOnce() -> R) -> R {
    let mut outer = outer;
    if thread.attention.load(Relaxed) & FAULTED != 0 && faults::was_left(thread) {
        outer = 0;
        thread.in_call.store(1, Relaxed);
        compiler_fence(SeqCst);
    }
    if outer == 0 && thread.attention.load(Relaxed) & (CANCEL_KNOWN | CANCEL_ASKED) != 0 {
        return inside_of_cancelled(thread, work);
    }
    let result = work();
    leave(thread, outer);
    result
}

/// One call of a thread that the C library would cancel in any function of its own that waits or opens a file.
#[cold]
fn inside_of_cancelled<R>(thread: &ThreadState, work: impl FnOnce() -> R) -> R {
    let before = cancel_state::set_state(cancel_state::PTHREAD_CANCEL_DISABLE);
    let result = work();
    // In no call: one of the type PTHREAD_CANCEL_ASYNCHRONOUS ends here, and what it cleans up may make calls.
    step_out(thread, 0);
    cancel_state::set_state(before);
    leave(thread, 0);
    result
}

/// The same for a call that opens, moves or asks much, on a stack of the library's own: the thread's may be small.
pub fn inside_deep<R>(work: impl FnOnce() -> R) -> R {
    inside(|| own_stack::run(work))
}

/// Handlers run at once from here on, unless the call was within another.
#[inline(always)]
pub fn step_out(thread: &ThreadState, outer: u32) {
    compiler_fence(SeqCst);
    thread.in_call.store(outer, Relaxed);
    compiler_fence(SeqCst);
}

/// The end of a call.
#[inline(always)]
pub fn leave(thread: &ThreadState, outer: u32) {
    step_out(thread, outer);
    if outer == 0 && thread.attention.load(Relaxed) & !(CANCEL_KNOWN | FAULTED) != 0 {
        attend(thread);
    }
}

/// The same in two halves, for a call of the C library's that calls us before and after. Ended by [`end`].
pub fn begin() {
    let thread = thread::current();
    thread.in_call.store(1, Relaxed);
    compiler_fence(SeqCst);
    if thread.attention.load(Relaxed) & (CANCEL_KNOWN | CANCEL_ASKED) != 0 {
        cancel_state::disable_for_fork(thread);
    }
}

/// See [`begin`].
pub fn end() {
    let thread = thread::current();
    step_out(thread, 0);
    cancel_state::put_back_after_fork(thread);
    leave(thread, 0);
}

/// In the child of a fork: signals that wait are the parent's. A thread that was cancelled is so there too.
pub fn after_fork_in_child() {
    let thread = thread::current();
    thread.attention.fetch_and(CANCEL_KNOWN | CANCEL_ASKED, Relaxed);
    thread.in_call.store(0, Relaxed);
    cancel_state::put_back_after_fork(thread);
    thread.has_call_mask.store(NO_CALL_MASK, Relaxed);
    thread.fault_at.store(0, Relaxed);
    unblock(thread.deferred.swap(0, Relaxed));
}

/// Lets handlers run, with the calling thread in no call.
#[cold]
#[inline(never)]
fn attend(thread: &ThreadState) {
    // What the program sees of its call is set already, and handlers may set it.
    let before = errno();
    while thread.attention.load(Relaxed) & !(CANCEL_KNOWN | FAULTED) != 0 {
        thread.attention.fetch_and(!(RESTARTS | INTERRUPTS), Relaxed);
        let signals = thread.deferred.swap(0, Relaxed);
        let call_mask = thread.has_call_mask.swap(NO_CALL_MASK, Relaxed);
        if call_mask == HANDLERS_UNDER_CALL_MASK {
            deliver_under(thread.call_mask.load(Relaxed));
        }
        let blocked_before = if call_mask == NO_CALL_MASK { 0 } else { thread.mask_before.load(Relaxed) };
        unblock(signals & !blocked_before);
        // Last: a thread of the type PTHREAD_CANCEL_ASYNCHRONOUS ends here, and would take signals to the process with it.
        cancel_state::tell_c_library(thread);
    }
    fail(before);
}

/// Handlers of what waits run under the mask that the call had, and the present one comes back with the end of the first: as
/// ppoll(2) does it.
fn deliver_under(mask: u64) {
    let now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: no descriptors, a live timeout and mask.
    unsafe {
        real::syscall(
            libc::SYS_ppoll,
            0,
            0,
            (&raw const now) as c_ulong,
            (&raw const mask) as c_ulong,
            size_of::<u64>() as c_ulong,
            0,
        );
    }
}

fn unblock(signals: u64) {
    if signals != 0 {
        change_mask(SIG_UNBLOCK, signals);
    }
}

/// A signal's bit in a mask of the kernel's.
const fn bit(signal: c_int) -> u64 {
    1 << ((signal - 1) & 63)
}

/// How a handler was installed, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Installed {
    /// With SA_RESTART.
    pub restarts: bool,
    /// With SA_RESETHAND: the kernel has taken the action back by now.
    pub resets: bool,
    /// The function of ours that the kernel calls.
    pub trampoline: sighandler_t,
}

/// A signal came. `true`: it comes again at the end of the call that it interrupted. Async-signal-safe.
///
/// # Safety
/// `info` and `context` are what the kernel called a handler of SA_SIGINFO with.
#[inline]
pub unsafe fn defer(signal: c_int, info: *mut siginfo_t, context: *mut c_void, installed: Installed) -> bool {
    let thread = thread::current();
    // SAFETY: the caller's.
    thread.in_call.load(Relaxed) != 0 && unsafe { defer_in_call(thread, signal, info, context, installed) }
}

#[cold]
unsafe fn defer_in_call(
    thread: &ThreadState,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    installed: Installed,
) -> bool {
    // SAFETY: the caller's.
    let is_of_instruction =
        matches!(signal, SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP | SIGSYS) && unsafe { (*info).si_code } > 0;
    if is_of_instruction {
        return false;
    }
    let before = errno();
    // With SA_NODEFER it is not blocked yet.
    let mask = change_mask(SIG_BLOCK, bit(signal));
    // SAFETY: the caller's.
    let queued = unsafe { send_again(thread, signal, info) };
    if queued {
        if installed.resets {
            install_again(signal, installed.trampoline);
        }
        // SAFETY: the mask that the kernel puts in force when this handler returns.
        unsafe {
            let mask = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>();
            mask.write_unaligned(mask.read_unaligned() | bit(signal));
        }
        thread.deferred.fetch_or(bit(signal), Relaxed);
        thread.attention.fetch_or(if installed.restarts { RESTARTS } else { INTERRUPTS }, Relaxed);
        sleep::end_sleep_of(thread);
    } else {
        set_mask(mask);
    }
    fail(before);
    queued
}

/// Sends a signal that was delivered to its thread once more. `false`: the user has too many waiting.
unsafe fn send_again(thread: &ThreadState, signal: c_int, info: *mut siginfo_t) -> bool {
    // Those that only a mask lets through may be taken by sigwaitinfo(2), which is not to find tokens.
    let may_keep = order::is_queued(signal) && thread.has_call_mask.load(Relaxed) == NO_CALL_MASK;
    // SAFETY: the caller's; a copy of the kernel's own information or a token, for the calling thread, which may say anything
    // of itself.
    unsafe {
        let is_kept = may_keep && !order::is_token(info) && order::keep(thread, signal, info);
        let token = is_kept.then(|| order::token(signal));
        let told = token.as_ref().map_or(info.cast_const(), std::ptr::from_ref);
        let (process, number) = (libc::getpid() as c_ulong, libc::gettid() as c_ulong);
        let queued =
            real::syscall(libc::SYS_rt_tgsigqueueinfo, process, number, signal as c_ulong, told as c_ulong, 0, 0) == 0;
        if is_kept && !queued {
            order::forget_last(thread, signal);
        }
        queued
    }
}

/// The kernel took an action of SA_RESETHAND back when it delivered the signal, which is yet to reach its handler.
fn install_again(signal: c_int, trampoline: sighandler_t) {
    // SAFETY: `action` is a variable, and an all-zero one is a value of the type; the handler is the one of before.
    unsafe {
        let mut action: Action = std::mem::zeroed();
        if real::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == SIG_DFL {
            action.sa_sigaction = trampoline;
            real::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

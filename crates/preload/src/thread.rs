//! What the library keeps of each thread: whether it is in a call of ours, and what waits for the end of that call.
//!
//! It is two cache lines, of which most calls use the first, at a fixed distance from the thread pointer (the initial-exec
//! model of thread-local storage): the library is there when the program starts, so its storage is part of each thread's static
//! block. So it is reached in two instructions, without a call that could allocate in a signal handler, and that of another
//! thread is found by its `pthread_t`. Rust's own thread-local storage in a shared library is neither.

use std::arch::{asm, global_asm};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// See the module. All zero in a new thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadState {
    /// 1 while the thread is in a call of ours: handlers and cancellation wait for its end.
    pub in_call: AtomicU32,
    /// What waits for that end: the constants of this module, together.
    pub attention: AtomicU32,
    /// Signals that wait, which the thread therefore blocks. Bit = number - 1.
    pub deferred: AtomicU64,
    /// The mask of ppoll(2) and its kin that the present call has put in force, if `has_call_mask`.
    pub call_mask: AtomicU64,
    /// The mask that was in force before.
    pub mask_before: AtomicU64,
    /// Whether the two above mean something: the constants of this module.
    pub has_call_mask: AtomicU32,
    /// Handlers that ran in this thread, of those installed with SA_RESTART. Wraps.
    pub restarting: AtomicU32,
    /// The same of those installed without.
    pub interrupting: AtomicU32,
    /// One more than the epoll set that the thread waits for by the kernel alone, or 0.
    pub plain_set: AtomicU32,
    /// How often the set's fd had been closed when that call began.
    pub plain_closed: AtomicU32,
    /// Where on its stack that call is.
    pub plain_at: AtomicUsize,
    /// One more than the state of cancellation (pthread_setcancelstate) that a fork has to put back, or 0.
    pub cancel_state: AtomicU32,
    /// Queued signals of this thread whose information is kept ([`crate::signals::order`]).
    pub kept: AtomicU32,
    /// One more than the eventfd that ends the sleep which the thread is about to begin, or 0: what a signal writes to.
    pub sleeps_on: AtomicU32,
    /// Where on its stack a handler runs that interrupted a call of ours and could not wait, or 0.
    pub fault_at: AtomicUsize,
}

/// A handler that was installed with SA_RESTART waits.
pub const RESTARTS: u32 = 1;
/// A handler that was installed without waits.
pub const INTERRUPTS: u32 = 2;
/// Another thread has cancelled this one, and the C library may not know it yet.
pub const CANCEL_ASKED: u32 = 4;
/// The C library knows that this thread is cancelled.
pub const CANCEL_KNOWN: u32 = 8;

/// No mask of a call is in force.
pub const NO_CALL_MASK: u32 = 0;
/// The call ends with EINTR: handlers that wait run under its mask.
pub const HANDLERS_UNDER_CALL_MASK: u32 = 1;
/// The call ends otherwise: signals that only its mask let through stay pending.
pub const CALL_MASK_IS_OVER: u32 = 2;
/// `fault_at` is not 0: a call that begins now is the handler's, or the handler has jumped away.
pub const FAULTED: u32 = 16;

/// `struct ThreadState` has this size.
const STATE_BYTES: usize = 128;
const _: () = assert!(size_of::<ThreadState>() == STATE_BYTES && align_of::<ThreadState>() == 64);

global_asm!(
    ".pushsection .tbss.nearwire_thread_state, \"awT\", @nobits",
    ".p2align 6",
    ".globl nearwire_thread_state",
    ".hidden nearwire_thread_state",
    ".type nearwire_thread_state, @object",
    ".size nearwire_thread_state, {size}",
    "nearwire_thread_state:",
    ".zero {size}",
    ".popsection",
    size = const STATE_BYTES,
);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn address() -> usize {
    let address: usize;
    // SAFETY: the linker puts the symbol's distance from the thread pointer where the first instruction reads, and the ABI
    // has the thread pointer's own value at %fs:0.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + nearwire_thread_state@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    address
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn address() -> usize {
    let address: usize;
    // SAFETY: the linker puts the symbol's distance from the thread pointer where the second instruction reads, and the ABI
    // has the thread pointer in that register.
    unsafe {
        asm!(
            "adrp {0}, :gottprel:nearwire_thread_state",
            "ldr {0}, [{0}, :gottprel_lo12:nearwire_thread_state]",
            "mrs {1}, tpidr_el0",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    address
}

/// That of the calling thread.
#[inline(always)]
pub fn current() -> &'static ThreadState {
    // SAFETY: a live, aligned block of this size that consists of atomic variables; it lives as long as the thread, which
    // is longer than any call that it makes, and no caller keeps it.
    unsafe { &*(address() as *const ThreadState) }
}

/// That of another thread.
///
/// # Safety
/// The thread has not ended, or was not joined yet.
pub unsafe fn of<'a>(thread: libc::pthread_t) -> &'a ThreadState {
    // SAFETY: asks who calls.
    let own = unsafe { libc::pthread_self() } as usize;
    let address = (thread as usize).wrapping_add(address().wrapping_sub(own));
    // SAFETY: a `pthread_t` is the address of the C library's block of the thread, at the same distance in each; the
    // caller says that it is there.
    unsafe { &*(address as *const ThreadState) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn state_of_another_thread_is_found_by_its_pthread() {
        let thread = std::thread::spawn(|| {
            while current().attention.load(Relaxed) != CANCEL_ASKED {
                std::thread::yield_now();
            }
            std::ptr::from_ref(current()) as usize
        });
        // SAFETY: it is joined below.
        let state = unsafe { of(thread.as_pthread_t()) };
        let found = std::ptr::from_ref(state) as usize;
        state.attention.store(CANCEL_ASKED, Relaxed);
        assert_eq!(thread.join().unwrap(), found);
        assert_ne!(std::ptr::from_ref(current()) as usize, found);
    }
}

//! The older functions that install handlers, made of [`sigaction`](super::sigaction()) with the flags glibc gives
//! each.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{
    EINVAL, SA_NODEFER, SA_RESETHAND, SA_RESTART, SIG_BLOCK, SIG_ERR, SIG_UNBLOCK, c_int, sigaction as Action,
    sighandler_t, sigset_t,
};

/// Linux ignores it; glibc sets it for [`sysv_signal`], and `sigaction` shows it.
const SA_INTERRUPT: c_int = 0x2000_0000;
/// A disposition of [`sigset`]: blocked.
const SIG_HOLD: sighandler_t = 2;

/// Signals for which `siginterrupt(signal, 1)` was called: `signal` then leaves SA_RESTART out. Bit = number - 1.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn fails(errno: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

fn bit(signal: c_int) -> u64 {
    if (1..=64).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

fn only(signal: c_int) -> sigset_t {
    // SAFETY: the set is a local variable; a number that is no signal leaves it empty.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        set
    }
}

/// Installs and gives the former handler.
///
/// # Safety
/// The handler is a function or a disposition.
unsafe fn install(signal: c_int, handler: sighandler_t, flags: c_int, mask: sigset_t) -> sighandler_t {
    if handler == SIG_ERR {
        fails(EINVAL);
        return SIG_ERR;
    }
    // SAFETY: an all-zero action is a value of the type; both are local variables; the caller vouches for the handler.
    unsafe {
        let mut new = std::mem::zeroed::<Action>();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        new.sa_mask = mask;
        let mut old = std::mem::zeroed::<Action>();
        if super::sigaction(signal, &raw const new, &raw mut old) == 0 { old.sa_sigaction } else { SIG_ERR }
    }
}

/// `signal(3)`, the one of BSD (also `bsd_signal`, `ssignal`): the handler stays, calls restart.
///
/// # Safety
/// As for the C function: the handler is a function or a disposition.
pub unsafe fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let restarts = INTERRUPTING.load(Ordering::Relaxed) & bit(signal) == 0;
    // SAFETY: the caller's.
    unsafe { install(signal, handler, if restarts { SA_RESTART } else { 0 }, only(signal)) }
}

/// `sysv_signal(3)`: the handler runs once, calls are interrupted.
///
/// # Safety
/// As for the C function: the handler is a function or a disposition.
pub unsafe fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's.
    unsafe { install(signal, handler, SA_RESETHAND | SA_NODEFER | SA_INTERRUPT, only(0)) }
}

/// `siginterrupt(3)`: whether the signal's handler, and later ones of `signal`, interrupt calls.
///
/// # Safety
/// As for the C function.
pub unsafe fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int {
    // SAFETY: an all-zero action is a value of the type; it is a local variable.
    unsafe {
        let mut action = std::mem::zeroed::<Action>();
        if super::sigaction(signal, ptr::null(), &raw mut action) < 0 {
            return -1;
        }
        if interrupt == 0 {
            INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed);
            action.sa_flags |= SA_RESTART;
        } else {
            INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed);
            action.sa_flags &= !SA_RESTART;
        }
        super::sigaction(signal, &raw const action, ptr::null_mut())
    }
}

/// `sigset(3)` of System V: installs and unblocks, or blocks.
///
/// # Safety
/// As for the C function: the handler is a function or a disposition.
pub unsafe fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let set = only(signal);
    // SAFETY: all are local variables; the caller vouches for the handler.
    unsafe {
        let mut before = std::mem::zeroed::<sigset_t>();
        let former = if handler == SIG_HOLD {
            let mut old = std::mem::zeroed::<Action>();
            if libc::sigprocmask(SIG_BLOCK, &raw const set, &raw mut before) < 0
                || super::sigaction(signal, ptr::null(), &raw mut old) < 0
            {
                return SIG_ERR;
            }
            old.sa_sigaction
        } else {
            let former = install(signal, handler, 0, only(0));
            if former == SIG_ERR || libc::sigprocmask(SIG_UNBLOCK, &raw const set, &raw mut before) < 0 {
                return SIG_ERR;
            }
            former
        };
        if libc::sigismember(&raw const before, signal) == 1 { SIG_HOLD } else { former }
    }
}

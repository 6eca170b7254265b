//! Handlers of the program's, with a function of ours around them.
//!
//! A system call that waits is interrupted by a handler: it ends with EINTR, or goes on where the handler was installed
//! with SA_RESTART and the call restarts. A loop in user space sees nothing of a handler, and must not be interrupted by
//! one that makes calls itself. So what the kernel calls is a function of ours, which has the handler wait while its thread
//! is in a call of the library ([`deferral`]) and else calls it. Flags and mask go to the kernel as the program gave them
//! (SA_RESETHAND, SA_NODEFER, SA_ONSTACK ... are the kernel's work), but for SA_SIGINFO, which is always set, as a signal that
//! waits is sent again with its information; `sigaction` shows the program its own handler and flags.
//!
//! # How the handler finds the program's
//!
//! The table has two words per signal and there are two functions of ours, one per word. A new handler goes into
//! the word that the kernel's present action does not use, and then the action into the kernel: so what is delivered
//! under the old flags and mask runs the old handler, what is delivered under the new ones the new. A word holds
//! address and flags together, so they are never mixed. (Only who changes an action twice while a delivery on another
//! CPU is between the kernel and its first instruction can have the newest handler run under the oldest mask.)
//!
//! # What is not wrapped
//!
//! * Handlers from before this library was loaded, and those installed by a raw `rt_sigaction` or by the C library for
//!   itself (thread cancellation, `setuid` in all threads, timers with SIGEV_THREAD: none interrupts a program's call).
//! * Handlers that a child of `vfork` installs: it shares this table with its parent, so it leaves it alone.
//! * A signal whose action is SIG_DFL or SIG_IGN: it interrupts no call. A stop and continue (which ends some system
//!   calls with EINTR) is not seen either.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

use libc::{
    SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIG_DFL, SIG_IGN, c_int, c_void, sigaction as Action, sighandler_t, siginfo_t,
};
use rustix::thread::sched_yield;

use crate::{real, thread};

pub mod deferral;
mod faults;
pub mod mask;
pub mod older;
pub mod order;
pub mod sleep;
#[cfg(test)]
mod tests;

use deferral::Installed;

/// Signals are 1 to 64.
const SIGNALS: usize = 65;

/// The program's handlers: address and, in bits that no address has, how it was installed. 0: none yet.
static HANDLERS: [[AtomicUsize; 2]; SIGNALS] = [const { [const { AtomicUsize::new(0) }; 2] }; SIGNALS];

/// The program's action lacks SA_RESTART.
const INTERRUPTS: usize = 1 << 63;
/// The program's action lacks SA_SIGINFO.
const PLAIN: usize = 1 << 62;
/// The program's action has SA_RESETHAND.
const RESETS: usize = 1 << 61;
/// The rest is the address.
const FLAGS: usize = INTERRUPTS | PLAIN | RESETS;

/// What the program set last, in the form of [`HANDLERS`]; 0 where that was no handler. An action that the kernel took back
/// keeps its flags, and SA_SIGINFO among them may be ours.
static LAST: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Handlers that ran in a thread since it began. Compare two for a change; the counts wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handlers {
    /// Installed with SA_RESTART: a call that restarts goes on.
    pub restarting: u32,
    /// Installed without: the call ends with EINTR.
    pub interrupting: u32,
}

/// The handlers that ran in the calling thread so far. A handler is counted before it runs, so one that leaves by
/// `siglongjmp` is too.
#[inline]
#[must_use]
pub fn handlers_so_far() -> Handlers {
    let thread = thread::current();
    Handlers { restarting: thread.restarting.load(Relaxed), interrupting: thread.interrupting.load(Relaxed) }
}

impl Handlers {
    /// Those of the calling thread that ran since these.
    #[inline]
    #[must_use]
    pub fn since(self) -> Handlers {
        let now = handlers_so_far();
        Handlers {
            restarting: now.restarting.wrapping_sub(self.restarting),
            interrupting: now.interrupting.wrapping_sub(self.interrupting),
        }
    }
}

/// A handler as the kernel calls it.
type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// What the kernel calls. Async-signal-safe: no lock, no allocation, errno untouched.
///
/// # Safety
/// Called by the kernel for a signal whose action this module set.
unsafe extern "C-unwind" fn on_signal<const WORD: usize>(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let word = HANDLERS[signal as usize % SIGNALS][WORD].load(Acquire);
    let restarts = word & INTERRUPTS == 0;
    let installed = Installed { restarts, resets: word & RESETS != 0, trampoline: trampolines()[WORD] };
    // SAFETY: the kernel's arguments of an action with SA_SIGINFO, which each of ours has.
    if unsafe { deferral::defer(signal, info, context, installed) } {
        return;
    }
    let thread = thread::current();
    if order::is_queued(signal) && thread.kept.load(Relaxed) != 0 {
        // SAFETY: as above.
        unsafe { order::bring_first(thread, signal, info) };
    }
    let count = if restarts { &thread.restarting } else { &thread.interrupting };
    count.fetch_add(1, Relaxed);
    let handler = || {
        // SAFETY: the word was stored before the kernel had the action, so it is the address of the program's handler,
        // which takes one or three of these arguments; in the C ABI a function may be given more than it looks at.
        unsafe { std::mem::transmute::<usize, Handler>(word & !FLAGS)(signal, info, context) }
    };
    if thread.in_call.load(Relaxed) == 0 { handler() } else { faults::run(thread, handler) }
}

fn trampolines() -> [sighandler_t; 2] {
    [on_signal::<0> as Handler as sighandler_t, on_signal::<1> as Handler as sighandler_t]
}

/// Which word an action of the kernel's uses; None: it is not one of ours.
fn word_of(kernel: &Action) -> Option<usize> {
    trampolines().iter().position(|address| *address == kernel.sa_sigaction)
}

/// The action as the program set it, of one that the kernel has. `last`: what it had set last.
fn programs_own(signal: usize, kernel: &Action, last: usize) -> Action {
    let mut own = *kernel;
    let set = match word_of(kernel) {
        Some(word) => {
            let set = HANDLERS[signal][word].load(Acquire);
            own.sa_sigaction = set & !FLAGS;
            set
        }
        None if kernel.sa_sigaction == SIG_DFL => last,
        None => 0,
    };
    if set & PLAIN != 0 {
        own.sa_flags &= !SA_SIGINFO;
    }
    own
}

/// `sigaction(2)`, with the program's handler wrapped. Async-signal-safe.
///
/// # Safety
/// As for the C function: pointers are null or point to a `struct sigaction`, and the handler is a function.
pub unsafe fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let Some(number) = usize::try_from(signal).ok().filter(|number| (1..SIGNALS).contains(number)) else {
        // SAFETY: the caller's.
        return unsafe { real::sigaction(signal, new, old) };
    };
    // SAFETY: the caller's; an all-zero action is a value of the type.
    let (new, mut kernel) = unsafe { (new.as_ref().copied(), std::mem::zeroed::<Action>()) };
    let set = Changing::begin();
    let last = LAST[number].load(Relaxed);
    let result = match new {
        // SAFETY: `kernel` is a local variable.
        None => unsafe { real::sigaction(signal, ptr::null(), &raw mut kernel) },
        // SAFETY: the caller's, for the handler.
        Some(new) => unsafe { change(number, &new, &mut kernel) },
    };
    if result == 0 && !old.is_null() {
        // The words of before: the change used the other one.
        let own = programs_own(number, &kernel, last);
        // SAFETY: the caller's.
        unsafe { old.write(own) };
    }
    drop(set);
    result
}

/// Sets a new action; `kernel` becomes the kernel's former one.
///
/// # Safety
/// The handler is a function.
unsafe fn change(signal: usize, new: &Action, kernel: &mut Action) -> c_int {
    let number = signal as c_int;
    let handler = new.sa_sigaction;
    let wraps =
        handler != SIG_DFL && handler != SIG_IGN && handler & FLAGS == 0 && word_of(new).is_none() && owns_the_table();
    if !wraps {
        // SAFETY: the caller's; `kernel` is a variable.
        let result = unsafe { real::sigaction(number, new, kernel) };
        if result == 0 && owns_the_table() && word_of(new).is_none() {
            LAST[signal].store(0, Relaxed);
        }
        return result;
    }
    // Looked for before a handler needs it: that is not async-signal-safe.
    real::address::syscall();
    // SAFETY: `kernel` is a variable.
    let result = unsafe { real::sigaction(number, ptr::null(), kernel) };
    if result != 0 {
        return result;
    }
    let word = word_of(kernel).map_or(0, |word| 1 - word);
    let flag = |is_so: bool, flag| if is_so { flag } else { 0 };
    let set = handler
        | flag(new.sa_flags & SA_RESTART == 0, INTERRUPTS)
        | flag(new.sa_flags & SA_SIGINFO == 0, PLAIN)
        | flag(new.sa_flags & SA_RESETHAND != 0, RESETS);
    HANDLERS[signal][word].store(set, Release);
    LAST[signal].store(set, Relaxed);
    let mut wrapped = *new;
    wrapped.sa_sigaction = trampolines()[word];
    wrapped.sa_flags |= SA_SIGINFO;
    // SAFETY: the caller's; `wrapped` and `kernel` are variables. On failure the kernel's action uses the other word.
    unsafe { real::sigaction(number, &raw const wrapped, kernel) }
}

/// Whether a signal has a handler that is not wrapped, for which a system call may have ended with EINTR. Calls of epoll end so after a
/// stop and continue too (signal(7)), where none of the program's does.
#[cold]
pub fn has_unwrapped_handlers() -> bool {
    (1..SIGNALS as c_int).any(|signal| {
        // SAFETY: an all-zero action is a value of the type, and a variable. Signals of the C library's own are refused.
        let (result, kernel) = unsafe {
            let mut kernel = std::mem::zeroed::<Action>();
            (real::sigaction(signal, ptr::null(), &raw mut kernel), kernel)
        };
        let is_handler = kernel.sa_sigaction != SIG_DFL && kernel.sa_sigaction != SIG_IGN;
        result == 0 && is_handler && word_of(&kernel).is_none()
    })
}

/// The process whose handlers the table holds.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// False in a child of `vfork`, which shares this memory with its parent. A child of `fork` has a table of its own and
/// says so by [`reset_after_fork`]; where it could not (a raw `clone`), handlers go uncounted while its parent lives.
fn owns_the_table() -> bool {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let owner = OWNER.load(Relaxed);
    let parent = || rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let owns = owner == me || owner == 0 || owner != parent();
    if owns {
        OWNER.store(me, Relaxed);
    }
    owns
}

/// In the child of a fork: the table is now this process's own, and nobody else is changing it.
pub fn reset_after_fork() {
    OWNER.store(rustix::process::getpid().as_raw_nonzero().get(), Relaxed);
    CHANGING.store(false, Release);
    order::forget_all(thread::current());
}

/// One thread at a time changes actions, with all signals blocked so that no handler of its own waits for it.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// Then the holder is gone (a raw fork in the middle), and two that change at once are the lesser evil.
const PATIENCE_YIELDS: u32 = 1000;

struct Changing {
    before: u64,
}

impl Changing {
    fn begin() -> Changing {
        let before = mask::set_mask(u64::MAX);
        for _ in 0..PATIENCE_YIELDS {
            if !CHANGING.swap(true, Acquire) {
                break;
            }
            sched_yield();
        }
        Changing { before }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.store(false, Release);
        mask::set_mask(self.before);
    }
}

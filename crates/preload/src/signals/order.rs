//! Queued signals (SIGRTMIN and above) keep their order.
//!
//! The kernel queues each of them, and those that are sent to one thread reach its handler in the order in which they were
//! sent (sigqueue(3), POSIX.1). One that is sent to its thread once more, as [`super::deferral`] does it, stands behind what
//! came in between. So what is known of it is kept here, and what is sent again is a token that tells nothing. Each one that
//! is delivered while any is kept, a token or not, brings the one that was kept first.
//!
//! ```text
//! the kernel's queue    kept    delivered
//! 2 3 token             1       2: kept behind 1, and the handler is told 1
//! 3 token               2       3: the same, the handler is told 2
//! token                 3       the token: the handler is told 3
//! ```
//!
//! Async-signal-safe: a place belongs to the thread whose key is in it, and nobody else reads it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::{SI_QUEUE, c_int, c_void, siginfo_t, sigval};

use crate::gate::thread_identity;
use crate::thread::ThreadState;

/// The first signal that the kernel queues (`SIGRTMIN` of `asm-generic/signal.h`; the C library keeps the first two for itself).
const QUEUED_FIRST: c_int = 32;
/// Signals of all threads that are kept at once. One thread keeps one, and seldom a second; where all are in use the order of
/// a signal that comes then is lost.
const PLACES: usize = 64;
/// `key`: nobody's.
const FREE: u64 = 0;
/// `key`: being filled. No thread's identity is so low.
const FILLED: u64 = 1;

struct Place {
    /// Thread and signal, as [`key`] puts them together.
    key: AtomicU64,
    /// Lower numbers were kept before.
    number: AtomicU64,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: `info` is written by who changed `key` from FREE, and read by the thread that the key names.
unsafe impl Sync for Place {}

static KEPT: [Place; PLACES] = [const {
    Place { key: AtomicU64::new(FREE), number: AtomicU64::new(0), info: UnsafeCell::new(MaybeUninit::uninit()) }
}; PLACES];
static NEXT: AtomicU64 = AtomicU64::new(0);

fn key(signal: c_int) -> u64 {
    (thread_identity() as u64) << 8 | u64::from(signal.unsigned_abs() & 0xff)
}

/// Whether the kernel queues it.
pub const fn is_queued(signal: c_int) -> bool {
    signal >= QUEUED_FIRST
}

/// What a token is known by: an address of the library's, from this process.
fn token_value() -> *mut c_void {
    (&raw const KEPT).cast_mut().cast()
}

/// What `struct siginfo` of linux/signal.h has of a queued signal.
#[repr(C)]
struct Queued {
    signal: c_int,
    error: c_int,
    code: c_int,
    pad: c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    value: sigval,
}

/// A token, to be sent to this thread.
pub fn token(signal: c_int) -> siginfo_t {
    // SAFETY: both only say who calls.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let queued =
        Queued { signal, error: 0, code: SI_QUEUE, pad: 0, process, user, value: sigval { sival_ptr: token_value() } };
    // SAFETY: an all-zero `siginfo_t` is one, and longer than `Queued`, which lies at its beginning.
    unsafe {
        let mut info: siginfo_t = std::mem::zeroed();
        (&raw mut info).cast::<Queued>().write(queued);
        info
    }
}

/// Whether it is a token.
///
/// # Safety
/// `info` is what a handler was told.
pub unsafe fn is_token(info: *const siginfo_t) -> bool {
    // SAFETY: the caller's; what is not of SI_QUEUE is not looked at further.
    unsafe {
        (*info).si_code == SI_QUEUE
            && (*info).si_value().sival_ptr == token_value()
            && (*info).si_pid() == libc::getpid()
    }
}

/// Keeps what is known of a signal of the calling thread, behind those that are kept. `false`: there is no place.
///
/// # Safety
/// `info` is what a handler was told.
pub unsafe fn keep(thread: &ThreadState, signal: c_int, info: *const siginfo_t) -> bool {
    if thread.kept.load(Relaxed) == 0 {
        // Of a thread that ended with some, whose identity this one has.
        forget(|key| key >> 8 == thread_identity() as u64);
    }
    let Some(place) = KEPT.iter().find(|place| place.key.compare_exchange(FREE, FILLED, Acquire, Relaxed).is_ok())
    else {
        return false;
    };
    // SAFETY: the place is this thread's; the caller's.
    unsafe { (*place.info.get()).write(info.read()) };
    place.number.store(NEXT.fetch_add(1, Relaxed), Relaxed);
    place.key.store(key(signal), Release);
    thread.kept.fetch_add(1, Relaxed);
    true
}

/// Takes back what was kept last.
pub fn forget_last(thread: &ThreadState, signal: c_int) {
    let last = of_this_thread(signal).max_by_key(|place| place.number.load(Relaxed));
    last.into_iter().for_each(|place| release(thread, place));
}

/// A signal is delivered: its handler is given the one that was kept first.
///
/// # Safety
/// `info` is what the kernel called a handler with.
#[cold]
pub unsafe fn bring_first(thread: &ThreadState, signal: c_int, info: *mut siginfo_t) {
    // SAFETY: the caller's; a place that has this thread's key is filled.
    unsafe {
        let is_any = of_this_thread(signal).next().is_some();
        if !is_any || (!is_token(info) && !keep(thread, signal, info)) {
            return;
        }
        if let Some(first) = of_this_thread(signal).min_by_key(|place| place.number.load(Relaxed)) {
            info.write((*first.info.get()).assume_init_read());
            release(thread, first);
        }
    }
}

/// In the child of a fork, which has none of its parent's.
pub fn forget_all(thread: &ThreadState) {
    forget(|_| true);
    thread.kept.store(0, Relaxed);
}

fn of_this_thread(signal: c_int) -> impl Iterator<Item = &'static Place> {
    let key = key(signal);
    KEPT.iter().filter(move |place| place.key.load(Relaxed) == key)
}

fn release(thread: &ThreadState, place: &Place) {
    place.key.store(FREE, Release);
    thread.kept.fetch_sub(1, Relaxed);
}

fn forget(is_to_go: impl Fn(u64) -> bool) {
    let gone = KEPT.iter().filter(|place| !matches!(place.key.load(Relaxed), FREE | FILLED));
    gone.filter(|place| is_to_go(place.key.load(Relaxed))).for_each(|place| place.key.store(FREE, Release));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::current;

    /// Of a signal with a value.
    fn told(value: usize) -> siginfo_t {
        let mut info = token(40);
        // SAFETY: `token` wrote one there.
        unsafe { (*(&raw mut info).cast::<Queued>()).value = sigval { sival_ptr: value as *mut c_void } };
        info
    }

    fn value_of(info: &siginfo_t) -> usize {
        // SAFETY: of SI_QUEUE.
        unsafe { info.si_value() }.sival_ptr as usize
    }

    #[test]
    fn signals_that_come_before_the_token_are_told_behind_the_one_kept() {
        let thread = current();
        // SAFETY: all are whole.
        unsafe {
            assert!(keep(thread, 40, &told(1)));
            let mut order = Vec::new();
            for mut delivered in [told(2), told(3), token(40)] {
                bring_first(thread, 40, &raw mut delivered);
                order.push(value_of(&delivered));
            }
            assert_eq!(order, [1, 2, 3]);
            assert_eq!(thread.kept.load(Relaxed), 0);
            assert!(is_token(&token(40)) && !is_token(&told(1)));
        }
    }

    #[test]
    fn another_signal_and_another_thread_are_told_their_own() {
        let thread = current();
        // SAFETY: all are whole.
        unsafe {
            assert!(keep(thread, 41, &told(1)));
            let mut other = told(7);
            bring_first(thread, 42, &raw mut other);
            assert_eq!(value_of(&other), 7);
            let theirs = std::thread::spawn(|| {
                let mut delivered = told(8);
                bring_first(current(), 41, &raw mut delivered);
                value_of(&delivered)
            });
            assert_eq!(theirs.join().unwrap(), 8);
            forget_last(thread, 41);
        }
        assert_eq!(thread.kept.load(Relaxed), 0);
    }
}

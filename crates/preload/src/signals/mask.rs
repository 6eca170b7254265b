//! The calling thread's signal mask, as a word.

use std::sync::atomic::Ordering::Relaxed;

use libc::{SIG_SETMASK, c_int, sigset_t};

use crate::thread;

/// A mask of the C library's: that of the kernel is its first word.
#[must_use]
pub fn from_bits(bits: u64) -> sigset_t {
    // SAFETY: an all-zero set is one, and it is longer than the word.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write_unaligned(bits);
        set
    }
}

/// The kernel's part of a mask.
#[must_use]
pub fn to_bits(set: &sigset_t) -> u64 {
    // SAFETY: it is longer than the word.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read_unaligned() }
}

/// Sets the calling thread's mask, and gives the former one.
pub fn set_mask(bits: u64) -> u64 {
    change_mask(SIG_SETMASK, bits)
}

/// As pthread_sigmask(3).
pub fn change_mask(how: c_int, bits: u64) -> u64 {
    let (new, mut old) = (from_bits(bits), from_bits(0));
    // SAFETY: both are live sets.
    unsafe { libc::pthread_sigmask(how, &raw const new, &raw mut old) };
    to_bits(&old)
}

/// While it lives, all signals are blocked in the calling thread.
pub struct HeldSignals {
    before: u64,
}

impl HeldSignals {
    /// Blocks all signals.
    pub fn hold() -> HeldSignals {
        HeldSignals { before: set_mask(u64::MAX) }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // A signal that came meanwhile waits for the end of the call.
        set_mask(self.before | thread::current().deferred.load(Relaxed));
    }
}

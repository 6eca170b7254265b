//! Which thread this is, in one instruction.

/// A number that no other living thread has: not 0, and a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn thread_identity() -> usize {
    let identity: usize;
    // SAFETY: the System V ABI for x86-64 (thread-local storage, variant II) has the thread pointer's own value at
    // %fs:0.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) identity, options(pure, readonly, nostack, preserves_flags));
    }
    identity
}

/// A number that no other living thread has: not 0, and a multiple of 16.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn thread_identity() -> usize {
    let identity: usize;
    // SAFETY: reads a register that every process may read; the ABI has the thread pointer there.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) identity, options(pure, nomem, nostack, preserves_flags));
    }
    identity
}

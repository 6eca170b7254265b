//! C structures of socket calls <-> Rust types, with the kernel's rules.
//!
//! * [`address`]: `struct sockaddr`;
//! * [`segments`]: `struct iovec` arrays;
//! * [`message`]: `struct msghdr`;
//! * [`control`]: control messages.
//!
//! # Pointers that point nowhere
//!
//! The kernel answers EFAULT where a pointer is bad; we would be killed by SIGSEGV. [`is_plausible`] finds those that
//! occur (null with a length, a small integer, an address of the kernel) at the cost of two comparisons, and everything
//! here asks it before it follows a pointer. A pointer of the right form into unmapped memory is not found: asking
//! the kernel first (`process_vm_readv` on this process) costs a system call of some 300 ns, more than the whole call
//! does here, and another thread can unmap the page in between anyway. Such a program gets SIGSEGV, as it does from
//! functions that glibc or the vDSO serve in user space (`clock_gettime`).
//!
//! What to do with EFAULT found here: a call whose arguments the kernel refuses before it sends or waits is passed to it,
//! and it reports in its own order. A receive buffer is found bad by the kernel when it copies the first byte; so it is
//! here ([`segments::Segments::to_receive`]), and the datagram is lost, as there.

pub mod address;
pub mod control;
pub mod message;
pub mod segments;
#[cfg(test)]
mod tests;

/// Below this nothing can be mapped (`vm.mmap_min_addr` is 64 KiB everywhere).
const LOWEST: usize = 64 << 10;
/// User addresses end here, on x86-64 with four levels of page tables. Memory mapped above on purpose (five levels) is
/// left to the kernel.
#[cfg(target_arch = "x86_64")]
const END: usize = 1 << 47;
/// User addresses end here with 48 bits. Tagged pointers are left to the kernel.
#[cfg(target_arch = "aarch64")]
const END: usize = 1 << 48;

/// False: following this pointer would fault, for certain. Nothing is read through a pointer of length 0.
#[inline]
#[must_use]
pub fn is_plausible<T>(pointer: *const T, length_bytes: usize) -> bool {
    length_bytes == 0 || (pointer.addr() >= LOWEST && is_of_user(pointer, length_bytes))
}

/// False: the kernel refuses the address before it looks (`access_ok`).
#[inline]
fn is_of_user<T>(pointer: *const T, length_bytes: usize) -> bool {
    let address = pointer.addr();
    length_bytes == 0 || (address < END && length_bytes <= END - address)
}

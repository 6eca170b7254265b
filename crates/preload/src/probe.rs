//! Pointers into memory that cannot be read, in the calls that wait: the kernel says EFAULT where we would be killed.
//!
//! Asking the kernel takes a system call, so each thread remembers the page that it asked about last: the arrays of a waiting
//! call are nearly always in the same one.

use std::cell::Cell;

use libc::{c_void, iovec};

use crate::c_types::is_plausible;
use crate::turn::{errno, fail};

/// The smallest page there is.
const PAGE_BYTES: usize = 4096;

thread_local! {
    static KNOWN_PAGE: Cell<usize> = const { Cell::new(0) };
}

/// Whether memory can be read; what lies between its first and its last page is taken to be as they are.
#[inline]
#[must_use]
pub fn is_readable<T>(pointer: *const T, length_bytes: usize) -> bool {
    if length_bytes == 0 {
        return true;
    }
    if !is_plausible(pointer, length_bytes) {
        return false;
    }
    let (first, last) = (pointer.addr() / PAGE_BYTES, (pointer.addr() + length_bytes - 1) / PAGE_BYTES);
    is_page_readable(first) && (last == first || is_page_readable(last))
}

#[inline]
fn is_page_readable(page: usize) -> bool {
    KNOWN_PAGE.with(|known| known.get() == page) || asks_kernel(page)
}

#[cold]
fn asks_kernel(page: usize) -> bool {
    let before = errno();
    let mut byte = 0_u8;
    let local = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = iovec { iov_base: (page * PAGE_BYTES) as *mut c_void, iov_len: 1 };
    // SAFETY: the local segment is a variable of one byte; the kernel checks the other one.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    // Anything but EFAULT: this kernel does not answer such questions (a filter of system calls).
    let is_readable = read == 1 || errno() != libc::EFAULT;
    fail(before);
    if is_readable {
        KNOWN_PAGE.with(|known| known.set(page));
    }
    is_readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_access_asked_is_not_readable() {
        // SAFETY: a new mapping, of nothing.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert!(!is_readable(page, 1));
        assert!(!is_readable(page, 8192));
        assert!(is_readable(page, 0));
        let here = [0_u8; 8];
        assert!(is_readable(here.as_ptr(), 8) && is_readable(here.as_ptr(), 8));
        assert!(!is_readable(std::ptr::null::<u8>(), 1));
    }
}

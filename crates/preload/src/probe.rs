//! What only the kernel knows. Above all pointers into memory that cannot be read, in the calls that wait: the kernel says EFAULT where we
//! would be killed.
//!
//! Asking the kernel takes a system call, so each thread remembers some pages that it asked about last: the arrays of a waiting
//! call are nearly always the same, and may begin in one page and end in another.

use std::cell::Cell;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use libc::{c_void, iovec};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::{AddressFamily, SocketType};

use crate::c_types::is_plausible;
use crate::errno::{errno, fail};
use crate::internal_fd;

/// The smallest page there is.
const PAGE_BYTES: usize = 4096;

/// Pages that are remembered: both ends of the three arrays that select(2) takes.
const KNOWN_PAGES: usize = 6;

thread_local! {
    static KNOWN: Known = const { Known { pages: [const { Cell::new(0) }; KNOWN_PAGES], next: Cell::new(0) } };
}

/// Pages that were readable, and the place of the one to be forgotten next.
struct Known {
    pages: [Cell<usize>; KNOWN_PAGES],
    next: Cell<usize>,
}

impl Known {
    #[inline]
    fn has(&self, page: usize) -> bool {
        self.pages.iter().any(|known| known.get() == page)
    }

    fn add(&self, page: usize) {
        let at = self.next.get();
        self.pages[at].set(page);
        self.next.set((at + 1) % KNOWN_PAGES);
    }
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
    KNOWN.with(|known| known.has(page)) || asks_kernel(page)
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
        KNOWN.with(|known| known.add(page));
    }
    is_readable
}

/// Whether sockets of this kernel take RWF_NOWAIT, which those before Linux 6.5 refuse. Asked once.
pub fn sockets_take_nowait() -> bool {
    static TAKE: OnceLock<bool> = OnceLock::new();
    *TAKE.get_or_init(|| {
        let before = errno();
        let refuses = |socket: OwnedFd| {
            let mut byte = [0; 1];
            let read = preadv2(&socket, &mut [IoSliceMut::new(&mut byte)], u64::MAX, ReadWriteFlags::NOWAIT);
            internal_fd::close(socket);
            read == Err(Errno::OPNOTSUPP)
        };
        let take = !rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).is_ok_and(refuses);
        fail(before);
        take
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_several_pages_asked_again_and_again_are_remembered() {
        let arrays = [const { [0_u8; 3 * PAGE_BYTES] }; 3];
        for _ in 0..10 {
            assert!(arrays.iter().all(|array| is_readable(array.as_ptr(), array.len())));
            let ends = arrays.iter().flat_map(|array| {
                let first = array.as_ptr().addr();
                [first, first + array.len() - 1]
            });
            assert!(ends.into_iter().all(|end| KNOWN.with(|known| known.has(end / PAGE_BYTES))));
        }
    }

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

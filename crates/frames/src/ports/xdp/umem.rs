//! UMEM: the packet memory that a socket and the kernel share, cut into buffers of one size.
//!
//! Invariant: a buffer is lent to one side at a time. Ours are those taken from the RX or completion ring and those never
//! handed over; the socket halves ([`super::receive`], [`super::send`]) keep account.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;
const CACHE_LINE_BYTES: usize = 64;
/// Cache lines asked for at once: a core has ten to sixteen buffers for lines under way, and others need some.
const PREFETCH_LINES: usize = 8;

/// A mapping of packet memory.
#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    len_bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: the mapping belongs to no thread; access to its bytes is unsafe and justified at each use.
unsafe impl Send for Umem {}
// SAFETY: as for `Send`: shared references give out addresses only.
unsafe impl Sync for Umem {}

impl Umem {
    /// Maps and touches `len_bytes`, in huge pages if wanted and possible.
    pub(super) fn map(len_bytes: usize, huge_pages: bool) -> io::Result<Umem> {
        if huge_pages && let Ok(umem) = Umem::map_hugetlb(len_bytes) {
            return Ok(umem);
        }
        Umem::map_ordinary(len_bytes, huge_pages)
    }

    fn map_hugetlb(len_bytes: usize) -> io::Result<Umem> {
        let mapping_bytes = len_bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapping = map(mapping_bytes, MapFlags::HUGETLB | MapFlags::POPULATE)?;
        not_for_children(mapping, mapping_bytes);
        Ok(Umem { base: mapping, len_bytes, mapping, mapping_bytes })
    }

    /// An area that starts at a huge page's boundary, so that the kernel can give one.
    fn map_ordinary(len_bytes: usize, huge_pages: bool) -> io::Result<Umem> {
        let area_bytes = len_bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapping_bytes = area_bytes + HUGE_PAGE_BYTES;
        let mapping = map(mapping_bytes, MapFlags::NORESERVE)?;
        not_for_children(mapping, mapping_bytes);
        let to_boundary = mapping.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping is one huge page longer than the area, so an area from the next boundary lies within.
        let base = unsafe { mapping.add(to_boundary) };
        if huge_pages {
            // SAFETY: the area is ours, and the advice changes nothing that can be seen but speed. A kernel without
            // transparent huge pages refuses, and ordinary pages it is.
            let _ = unsafe { madvise(base.as_ptr().cast(), area_bytes, Advice::LinuxHugepage) };
        }
        // SAFETY: the range is mapped, writable and ours alone. Touched now, so that no page fault comes later.
        unsafe { base.write_bytes(0, len_bytes) };
        Ok(Umem { base, len_bytes, mapping, mapping_bytes })
    }

    pub(super) fn base_address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Where `len_bytes` bytes at `address` lie, if they lie within the memory.
    #[inline]
    fn span(&self, address: u64, len_bytes: u32) -> Option<NonNull<[u8]>> {
        let (start, len_bytes) = (usize::try_from(address).ok()?, len_bytes as usize);
        if start > self.len_bytes || len_bytes > self.len_bytes - start {
            return None;
        }
        // SAFETY: `start` is within the mapping, as just checked.
        Some(NonNull::slice_from_raw_parts(unsafe { self.base.add(start) }, len_bytes))
    }

    /// Asks the CPU to fetch the first cache lines of `len_bytes` bytes at `address`, as far as it can fetch them at once;
    /// nothing when they are not within the memory.
    #[inline]
    pub(super) fn prefetch(&self, address: u64, len_bytes: u32) {
        #[cfg(target_arch = "x86_64")]
        if let Some(span) = self.span(address, len_bytes) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = span.as_ptr().cast::<i8>().cast_const();
            for offset_bytes in (0..len_bytes as usize).step_by(CACHE_LINE_BYTES).take(PREFETCH_LINES) {
                // SAFETY: a prefetch reads and changes nothing a program can see, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset_bytes)) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (address, len_bytes);
    }

    /// Reads bytes of a buffer; `None` when they are not within the memory.
    ///
    /// # Safety
    /// The buffer is ours (not in the fill, TX or, untaken, in any ring) for as long as the slice lives, and nothing
    /// writes it meanwhile.
    #[inline]
    pub(super) unsafe fn bytes(&self, address: u64, len_bytes: u32) -> Option<&[u8]> {
        // SAFETY: the span is within the mapping and was written before (zeroes at first); the caller vouches for the
        // absence of writers.
        self.span(address, len_bytes).map(|span| unsafe { span.as_ref() })
    }

    /// Writes bytes of a buffer; `None` when they are not within the memory.
    ///
    /// # Safety
    /// The buffer is ours for as long as the slice lives, and there is no other slice of it.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "buffers are lent one by one, as the safety section says")]
    pub(super) unsafe fn bytes_mut(&self, address: u64, len_bytes: u32) -> Option<&mut [u8]> {
        // SAFETY: as in `bytes`, and the caller vouches that the slice is the only one.
        self.span(address, len_bytes).map(|mut span| unsafe { span.as_mut() })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and slices of it borrow `self`. Should the kernel still use the memory for a
        // socket, it holds the pages itself. A failure leaves the mapping, which harms nobody.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

fn map(len_bytes: usize, extra: MapFlags) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address the kernel chooses touches no memory that exists.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len_bytes, protection, MapFlags::PRIVATE | extra) }?;
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))
}

/// Leaves a mapping out of children that fork(2) makes: pinned pages would be copied at the fork, and a ring's mapping keeps
/// its socket open.
pub(super) fn not_for_children(start: NonNull<u8>, len_bytes: usize) {
    // SAFETY: the caller's own mapping, and nothing changes in this process. Refused, a fork is slow.
    let _ = unsafe { madvise(start.as_ptr().cast(), len_bytes, Advice::LinuxDontFork) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_mapped_is_zero_and_writable_to_its_end() {
        let umem = Umem::map(3 * 4096, false).unwrap();
        // SAFETY: no socket has this memory, and the slices do not overlap in time.
        unsafe {
            assert!(umem.bytes(0, 3 * 4096).unwrap().iter().all(|&byte| byte == 0));
            umem.bytes_mut(3 * 4096 - 1, 1).unwrap()[0] = 7;
            assert_eq!(umem.bytes(3 * 4096 - 1, 1).unwrap(), [7]);
        }
    }

    #[test]
    fn span_beyond_the_memory_is_refused() {
        let umem = Umem::map(4096, false).unwrap();
        assert!(umem.span(4096, 1).is_none());
        assert!(umem.span(4095, 2).is_none());
        assert!(umem.span(u64::MAX, 1).is_none());
        assert!(umem.span(0, 4096).is_some());
    }

    #[test]
    fn huge_pages_wanted_memory_is_mapped_whatever_there_is() {
        let umem = Umem::map(512 * 1024, true).unwrap();
        assert_eq!(umem.len_bytes(), 512 * 1024);
    }
}

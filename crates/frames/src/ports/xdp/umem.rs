//! UMEM: the packet memory that sockets and the kernel share, cut into buffers of one size, and behind it the control area
//! ([`super::control`]) that all who use the memory share.
//!
//! The memory is a file without a name (memfd_create(2)), so that other processes can map it too. Its length is sealed: nobody who has the
//! fd can make a touch of it SIGBUS.
//!
//! Invariant: a buffer is lent to one side at a time. Ours are those taken from the RX ring or marked done, and those never
//! handed over; the socket halves ([`super::receive`], [`super::send`]) keep account.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nearwire_sys::descriptor::place;
use nearwire_sys::shared_words::set_length;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::control::{Control, Layout};

const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;
const PAGE_BYTES: usize = 4096;
const CACHE_LINE_BYTES: usize = 64;
/// Cache lines asked for at once: a core has ten to sixteen buffers for lines under way, and others need some.
const PREFETCH_LINES: usize = 8;
const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
/// What keeps a file as long as it is.
const LENGTH_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapping of packet memory and its control area.
#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    /// Of the packets; the control area is behind them.
    len_bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    control: Control,
    /// For other processes; not kept where none is to map it.
    memory: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to no thread; access to its bytes is unsafe and justified at each use.
unsafe impl Send for Umem {}
// SAFETY: as for `Send`: shared references give out addresses only, and the control area is atomics.
unsafe impl Sync for Umem {}

impl Umem {
    /// Makes, maps and touches memory for the buffers and the control area of `layout`, in huge pages if wanted and possible. `keeps_fd`: it
    /// can be handed to other processes.
    pub(super) fn create(layout: Layout, huge_pages: bool, keeps_fd: bool) -> io::Result<Umem> {
        let page_bytes = if huge_pages { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let file_bytes = layout.file_bytes().next_multiple_of(page_bytes);
        let reserved = huge_pages.then(|| Umem::create_with(layout, file_bytes, MemfdFlags::HUGETLB, false));
        let mut umem = match reserved {
            Some(Ok(umem)) => umem,
            Some(Err(_)) | None => Umem::create_with(layout, file_bytes, MemfdFlags::empty(), huge_pages)?,
        };
        umem.memory = umem.memory.take().filter(|_| keeps_fd).map(place);
        Ok(umem)
    }

    fn create_with(layout: Layout, file_bytes: usize, pages: MemfdFlags, wants_huge: bool) -> io::Result<Umem> {
        let memory = super::spare::take(pages, file_bytes)?;
        set_length(&memory, file_bytes)?;
        fcntl_add_seals(&memory, LENGTH_SEALS)?;
        let is_reserved = pages.contains(MemfdFlags::HUGETLB);
        let map = if is_reserved { Umem::map_reserved } else { Umem::map };
        let umem = map(memory, layout, file_bytes)?;
        if wants_huge {
            collapse(umem.base, file_bytes);
        }
        umem.touch(layout.file_bytes());
        Ok(umem)
    }

    /// Maps memory that another process made.
    ///
    /// # Errors
    /// `EINVAL` where the file is too short for the layout, or its length is not sealed; else as mmap(2).
    pub(super) fn open(memory: OwnedFd, layout: Layout) -> io::Result<Umem> {
        // Sealed first: the length that is read after that stays.
        let is_sealed = fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK);
        let file_bytes = usize::try_from(fstat(&memory)?.st_size).unwrap_or(0);
        if !is_sealed || file_bytes < layout.file_bytes() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut umem = Umem::map(memory, layout, file_bytes)?;
        // The mapping is enough.
        umem.memory = None;
        Ok(umem)
    }

    /// From a huge page's boundary on, so that the kernel can give one.
    fn map(memory: OwnedFd, layout: Layout, file_bytes: usize) -> io::Result<Umem> {
        let mapping_bytes = file_bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: a new anonymous mapping at an address the kernel chooses touches no memory that exists.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), mapping_bytes, ProtFlags::empty(), flags)
        }?;
        let mapping = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        let to_boundary = mapping.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping is one huge page longer than the file, so the file from the next boundary on lies within.
        let base = unsafe { mapping.add(to_boundary) };
        // Refused, the kernel may have taken the pages away before, and another thread may have something there: it is left as it is.
        // SAFETY: the pages at this address were mapped above, and nothing uses them.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(base.as_ptr().cast(), file_bytes, READ_WRITE, flags, &memory, 0)?;
        }
        Ok(Umem::of(memory, layout, base, (mapping, mapping_bytes)))
    }

    /// Of a file of huge pages, which the kernel maps at a boundary by itself. Most often it has none, and the place of a mapping that was
    /// refused must not be given back (see [`Umem::map`]).
    fn map_reserved(memory: OwnedFd, layout: Layout, file_bytes: usize) -> io::Result<Umem> {
        // SAFETY: a new mapping at an address the kernel chooses touches no memory that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), file_bytes, READ_WRITE, MapFlags::SHARED, &memory, 0) }?;
        let base = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Umem::of(memory, layout, base, (base, file_bytes)))
    }

    /// `base`: where the file is mapped, within the mapping that is given with its length.
    fn of(memory: OwnedFd, layout: Layout, base: NonNull<u8>, (mapping, mapping_bytes): (NonNull<u8>, usize)) -> Umem {
        // SAFETY: the control area lies within the file, as the caller checked or as long as it made it, and the mapping lives as long as
        // the value that the control area is part of.
        let control = unsafe { Control::new(base.add(layout.packet_bytes()), layout) };
        not_for_children(mapping, mapping_bytes);
        Umem { base, len_bytes: layout.packet_bytes(), mapping, mapping_bytes, control, memory: Some(memory) }
    }

    /// Has the kernel map all pages now, so that no page fault comes later. All are zero: at once, or by writing that before Linux 5.14.
    fn touch(&self, len_bytes: usize) {
        // SAFETY: the range is our mapping, whose content stays.
        let touched = unsafe { madvise(self.base.as_ptr().cast(), len_bytes, Advice::LinuxPopulateWrite) };
        if touched.is_err() {
            // SAFETY: the range is mapped, writable and ours alone: nobody else has the file yet.
            unsafe { self.base.write_bytes(0, len_bytes) };
        }
    }

    /// The file, where it was kept.
    pub(super) fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn control(&self) -> &Control {
        &self.control
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

/// Has the kernel put huge pages into a file in memory, whatever its settings for those are (Linux 6.1). It does so where a page is there
/// already: with one of each 12 MiB take 1 to 2 ms, with all of them 30 to 50, as much as touching them one by one.
fn collapse(start: NonNull<u8>, len_bytes: usize) {
    /// `MADV_COLLAPSE`, `include/uapi/asm-generic/mman-common.h`.
    const MADV_COLLAPSE: libc::c_int = 25;
    for offset_bytes in (0..len_bytes).step_by(HUGE_PAGE_BYTES) {
        // SAFETY: the range is mapped, writable and the caller's alone.
        unsafe { start.add(offset_bytes).write(0) };
    }
    // SAFETY: the range is our mapping, whose content stays. Refused, ordinary pages it is.
    let _ = unsafe { libc::madvise(start.as_ptr().cast(), len_bytes, MADV_COLLAPSE) };
}

/// Leaves a mapping out of children that fork(2) makes: pinned pages would be copied at the fork, and a ring's mapping keeps
/// its socket open.
pub(super) fn not_for_children(start: NonNull<u8>, len_bytes: usize) {
    // SAFETY: the caller's own mapping, and nothing changes in this process. Refused, a fork is slow.
    let _ = unsafe { madvise(start.as_ptr().cast(), len_bytes, Advice::LinuxDontFork) };
}

#[cfg(test)]
mod tests {
    use rustix::fs::{ftruncate, memfd_create};

    use super::*;

    fn layout(buffers: u32) -> Layout {
        Layout { frame_size_bytes: 2048, receive_buffers: buffers, send_buffers: 0, senders: 1 }
    }

    /// Huge pages are refused most often, and what is undone then must be this thread's own.
    #[test]
    fn memory_made_by_several_threads_at_once_is_each_ones_own() {
        std::thread::scope(|scope| {
            for number in 1..=3_u8 {
                scope.spawn(move || {
                    for _ in 0..150 {
                        let umem = Umem::create(layout(1024), true, false).unwrap();
                        // SAFETY: the whole buffer is this thread's.
                        unsafe { umem.bytes_mut(0, 2048).unwrap().fill(number) };
                        std::thread::yield_now();
                        // SAFETY: nobody writes it.
                        assert!(unsafe { umem.bytes(0, 2048) }.unwrap().iter().all(|byte| *byte == number));
                    }
                });
            }
        });
    }

    #[test]
    fn memory_mapped_is_zero_and_writable_to_its_end() {
        let umem = Umem::create(layout(6), false, false).unwrap();
        // SAFETY: no socket has this memory, and the slices do not overlap in time.
        unsafe {
            assert!(umem.bytes(0, 3 * 4096).unwrap().iter().all(|&byte| byte == 0));
            umem.bytes_mut(3 * 4096 - 1, 1).unwrap()[0] = 7;
            assert_eq!(umem.bytes(3 * 4096 - 1, 1).unwrap(), [7]);
        }
    }

    #[test]
    fn span_beyond_the_memory_is_refused() {
        let umem = Umem::create(layout(2), false, false).unwrap();
        assert!(umem.span(4096, 1).is_none());
        assert!(umem.span(4095, 2).is_none());
        assert!(umem.span(u64::MAX, 1).is_none());
        assert!(umem.span(0, 4096).is_some());
    }

    #[test]
    fn huge_pages_wanted_memory_is_mapped_whatever_there_is() {
        let umem = Umem::create(layout(256), true, false).unwrap();
        assert_eq!(umem.len_bytes(), 512 * 1024);
        assert!(umem.memory().is_none());
    }

    #[test]
    fn memory_opened_by_its_fd_is_the_same_and_a_file_that_does_not_fit_is_refused() {
        let umem = Umem::create(layout(4), false, true).unwrap();
        let fd = || umem.memory().unwrap().try_clone_to_owned().unwrap();
        let other = Umem::open(fd(), layout(4)).unwrap();
        // SAFETY: no socket has this memory, and the slices do not overlap in time.
        unsafe {
            umem.bytes_mut(5000, 1).unwrap()[0] = 7;
            assert_eq!(other.bytes(5000, 1).unwrap(), [7]);
        }
        umem.control().hold(3 * 2048, 8);
        assert!(other.control().held_by(8).eq([3 * 2048]) && !other.control().is_free(3 * 2048));
        assert!(ftruncate(umem.memory().unwrap(), 4096).is_err(), "the length is sealed");
        assert!(Umem::open(fd(), layout(1000)).is_err());
        let unsealed = memfd_create(c"test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, 1 << 20).unwrap();
        assert!(Umem::open(unsealed, layout(4)).is_err());
    }
}

//! The four rings of an AF_XDP socket, mapped: index logic of [`crate::ports::ring`] plus descriptors.
//!
//! ```text
//!   fill (u64, ours -> kernel)        empty buffers to receive into
//!   rx   (xdp_desc, kernel -> ours)   received frames
//!   tx   (xdp_desc, ours -> kernel)   frames to send
//!   completion (u64, kernel -> ours)  buffers that were sent
//! ```
//!
//! Source: `Documentation/networking/af_xdp.rst`, `include/uapi/linux/if_xdp.h`.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

use super::shared_ring::SharedRing;
use crate::ports::ring::{ConsumerIndex, ProducerIndex};

/// The mapping of one ring.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: an address range that belongs to no thread; it is used to unmap it, by whoever is last.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`: nothing is read or written by a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and the ring that points into it goes with it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}

/// An index or flags word within a mapping.
#[derive(Debug)]
struct Word(NonNull<AtomicU32>);

impl Deref for Word {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        // SAFETY: points at an aligned u32 within the mapping that the ring holding this word owns; the kernel changes
        // it, as the atomic type allows.
        unsafe { self.0.as_ref() }
    }
}

/// What the parts of a ring are to be made of.
pub(super) struct RingSpec<'a> {
    pub socket: BorrowedFd<'a>,
    /// `XDP_PGOFF_*` or `XDP_UMEM_PGOFF_*`.
    pub page_offset: u64,
    pub offsets: XdpRingOffset,
    pub slots: u32,
}

impl<'a> RingSpec<'a> {
    pub(super) fn of(socket: &'a impl AsFd, page_offset: u64, offsets: XdpRingOffset, slots: u32) -> RingSpec<'a> {
        RingSpec { socket: socket.as_fd(), page_offset, offsets, slots }
    }
}

/// One mapping of a ring, which several rings of this process can look at.
#[derive(Debug)]
struct Parts<T> {
    producer: Word,
    consumer: Word,
    flags: Word,
    descriptors: NonNull<T>,
    slots: u32,
    mapping: Arc<Mapping>,
}

impl<T> Parts<T> {
    fn map(spec: &RingSpec<'_>) -> io::Result<Parts<T>> {
        let len_bytes = spec.offsets.desc as usize + spec.slots as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address the kernel chooses; the kernel checks the length against the ring.
        let start = unsafe { mmap(std::ptr::null_mut(), len_bytes, protection, flags, spec.socket, spec.page_offset) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        let mapping = Arc::new(Mapping { start, len_bytes });
        super::umem::not_for_children(start, len_bytes);
        let flags_at = spec.offsets.flags.ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "this kernel's rings have no flags (before Linux 5.4)")
        })?;
        Ok(Parts {
            producer: word(start, spec.offsets.producer),
            consumer: word(start, spec.offsets.consumer),
            flags: word(start, flags_at),
            // SAFETY: the kernel's offset of the descriptors is within the mapping, which is as long as they need.
            descriptors: unsafe { start.add(spec.offsets.desc as usize) }.cast(),
            slots: spec.slots,
            mapping,
        })
    }

    fn again(&self) -> Parts<T> {
        Parts {
            producer: Word(self.producer.0),
            consumer: Word(self.consumer.0),
            flags: Word(self.flags.0),
            descriptors: self.descriptors,
            slots: self.slots,
            mapping: Arc::clone(&self.mapping),
        }
    }

    /// The kernel wants a system call to go on.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

fn word(start: NonNull<u8>, offset_bytes: u64) -> Word {
    // SAFETY: the kernel's offsets of index words lie before the descriptors, within the mapping, and are aligned.
    Word(unsafe { start.add(offset_bytes as usize) }.cast())
}

/// The fill or completion ring of a queue, for all that use it.
#[derive(Debug)]
pub(super) struct AddressRing(Parts<u64>);

// SAFETY: the mapping belongs to no thread, and is used by atomics only, but through `AddressRing::alone`, whose result has its own rule.
unsafe impl Send for AddressRing {}
// SAFETY: as for `Send`.
unsafe impl Sync for AddressRing {}

impl AddressRing {
    pub(super) fn map(spec: &RingSpec<'_>) -> io::Result<AddressRing> {
        Parts::map(spec).map(AddressRing)
    }

    #[inline]
    pub(super) fn shared(&self) -> SharedRing<'_> {
        // SAFETY: so many slots are mapped, aligned, for as long as `self` lives; whoever shares the ring uses them as atomics.
        let slots = unsafe {
            std::slice::from_raw_parts(self.0.descriptors.cast::<AtomicU64>().as_ptr(), self.0.slots as usize)
        };
        SharedRing { producer: &self.0.producer, consumer: &self.0.consumer, slots }
    }

    /// The fill ring, for a caller that has it alone.
    pub(super) fn alone(&self) -> ProducerRing<u64> {
        ProducerRing::of(self.0.again())
    }

    /// The kernel wants a system call to go on.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}

/// A ring we fill: fill or TX.
#[derive(Debug)]
pub(super) struct ProducerRing<T> {
    index: ProducerIndex<Word>,
    parts: Parts<T>,
}

// SAFETY: the mapping belongs to no thread, and all access goes through `&mut self`.
unsafe impl<T: Send> Send for ProducerRing<T> {}

impl<T: Copy> ProducerRing<T> {
    pub(super) fn map(spec: &RingSpec<'_>) -> io::Result<ProducerRing<T>> {
        Ok(ProducerRing::of(Parts::map(spec)?))
    }

    fn of(parts: Parts<T>) -> ProducerRing<T> {
        let Parts { producer, consumer, .. } = parts.again();
        ProducerRing { index: ProducerIndex::new(producer, consumer, parts.slots), parts }
    }

    /// The same ring for somebody else in this process, as it is now. Kernels before 6.4 map no rings of a socket that is bound
    /// (`xsk_mmap`, net/xdp/xsk.c). One of the two may be used at a time; the other one [resumes](ProducerRing::resume) then.
    pub(super) fn another(&self) -> ProducerRing<T> {
        ProducerRing::of(self.parts.again())
    }

    /// Writes a descriptor; the kernel sees it after [`ProducerRing::submit`]. `false`: the ring is full.
    #[inline]
    pub(super) fn push(&mut self, descriptor: T) -> bool {
        let Some(slot) = self.index.reserve() else { return false };
        // SAFETY: `slot` is below the number of slots, all of which are mapped, and the kernel does not read it before
        // it is submitted.
        unsafe { self.parts.descriptors.add(slot as usize).write_volatile(descriptor) };
        true
    }

    /// Goes on from the producer index that whoever had the ring before left; which that is.
    #[inline]
    pub(super) fn resume(&mut self) -> u32 {
        self.index.resume()
    }

    /// The producer index with what is not submitted.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.index.position()
    }

    /// Takes the last push back, before it is submitted.
    #[inline]
    pub(super) fn cancel(&mut self) {
        self.index.cancel();
    }

    /// What lies in the slot of the `count`th push since the ring was made, which wraps as the ring's indices do.
    #[inline]
    pub(super) fn pushed(&self, count: u32) -> T {
        let slot = self.index.slot_of(count);
        // SAFETY: `slot` is below the number of slots, all of which are mapped; any bytes are a descriptor.
        unsafe { self.parts.descriptors.add(slot as usize).read_volatile() }
    }

    #[inline]
    pub(super) fn submit(&mut self) {
        self.index.submit();
    }

    /// Descriptors that the kernel has not taken yet.
    #[inline]
    pub(super) fn unconsumed(&mut self) -> u32 {
        self.index.unconsumed()
    }

    /// The kernel wants a system call to go on, right after a submit. The driver sets the flag and then looks at the ring once more; we fill the ring and then look at
    /// the flag. Without the fence our look may pass our own store, and both find nothing: the frame waits for the next kick.
    #[inline]
    pub(super) fn needs_wakeup_after_submit(&self) -> bool {
        fence(Ordering::SeqCst);
        self.parts.needs_wakeup()
    }

    /// Whether the kernel has taken all descriptors before this producer index.
    #[inline]
    pub(super) fn has_consumed(&self, position: u32) -> bool {
        has_passed(self.consumed(), position)
    }

    /// Descriptors that the kernel has taken since the ring was made, wrapping.
    #[inline]
    pub(super) fn consumed(&self) -> u32 {
        self.index.consumed()
    }

    /// What has been pushed until now, for a caller that waits until the kernel has taken it.
    pub(super) fn pushed_now(&self) -> Pushed {
        let Parts { consumer, mapping, .. } = self.parts.again();
        Pushed { end: self.position(), consumer, _mapping: mapping }
    }
}

/// The descriptors of a ring up to a producer index.
#[derive(Debug)]
pub(super) struct Pushed {
    end: u32,
    consumer: Word,
    _mapping: Arc<Mapping>,
}

// SAFETY: the mapping belongs to no thread, and only its consumer index is read, as an atomic.
unsafe impl Send for Pushed {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pushed {}

impl Pushed {
    /// Whether the kernel has taken them.
    pub(super) fn are_taken(&self) -> bool {
        has_passed(self.consumer.load(Ordering::Acquire), self.end)
    }
}

/// Whether an index that wraps has come to a position.
#[inline]
fn has_passed(index: u32, position: u32) -> bool {
    index.wrapping_sub(position).cast_signed() >= 0
}

/// A ring the kernel fills: RX or completion.
#[derive(Debug)]
pub(super) struct ConsumerRing<T> {
    index: ConsumerIndex<Word>,
    parts: Parts<T>,
}

// SAFETY: as for `ProducerRing`.
unsafe impl<T: Send> Send for ConsumerRing<T> {}

impl<T: Copy> ConsumerRing<T> {
    pub(super) fn map(spec: &RingSpec<'_>) -> io::Result<ConsumerRing<T>> {
        Ok(ConsumerRing::of(Parts::map(spec)?))
    }

    fn of(parts: Parts<T>) -> ConsumerRing<T> {
        let Parts { producer, consumer, .. } = parts.again();
        ConsumerRing { index: ConsumerIndex::new(producer, consumer, parts.slots), parts }
    }

    /// As [`ProducerRing::another`].
    pub(super) fn another(&self) -> ConsumerRing<T> {
        ConsumerRing::of(self.parts.again())
    }

    /// Goes on from the consumer index that whoever had the ring before left.
    #[inline]
    pub(super) fn resume(&mut self) {
        self.index.resume();
    }

    /// True when there is one to take.
    #[inline]
    pub(super) fn has_next(&mut self) -> bool {
        self.index.has_next()
    }

    /// Takes the next descriptor; its slot is the kernel's again after [`ConsumerRing::release`].
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let slot = self.index.take()?;
        // SAFETY: `slot` is below the number of slots, all of which are mapped; the kernel filled it before it moved the
        // producer index, and does not reuse it before the release.
        Some(unsafe { self.parts.descriptors.add(slot as usize).read_volatile() })
    }

    /// Descriptors in the ring and not taken yet. Looks at the shared index.
    pub(super) fn waiting(&self) -> u32 {
        self.index.waiting()
    }

    /// Descriptors seen in the ring and not taken yet.
    #[inline]
    pub(super) fn known(&self) -> u32 {
        self.index.known()
    }

    #[inline]
    pub(super) fn release(&mut self) {
        self.index.release();
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::xdp::XdpDesc;
    use std::mem::offset_of;

    #[test]
    fn descriptor_has_the_kernels_layout() {
        assert_eq!(size_of::<XdpDesc>(), size_of::<libc::xdp_desc>());
        assert_eq!(offset_of!(XdpDesc, len), offset_of!(libc::xdp_desc, len));
        assert_eq!(offset_of!(XdpDesc, options), offset_of!(libc::xdp_desc, options));
    }
}

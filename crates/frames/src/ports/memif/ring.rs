//! A ring in shared memory: a header of two cache lines, and a descriptor for each slot.
//!
//! ```text
//!              sender's index                    receiver's index
//! c2s  head:  next slot to be sent        tail:  next slot to be received
//! s2c  tail:  next slot to be sent        head:  next slot to be received + slots (buffers that the client gave)
//! ```
//!
//! Indices run freely over all of `u16` and wrap; a slot is an index masked. The receiver's index of an s2c ring counts the buffers that the
//! client has given, which are as many as the ring has slots: one more for each that it has received. So both directions are one thing,
//! whose receiver's index is ahead by a constant ([`RingView::ahead`]).
//!
//! All of it can be written by the peer at any time: everything is read once, by an atomic load, and judged after that.
//!
//! Source: DPDK `drivers/net/memif/memif.h` (`memif_ring_t`, `memif_desc_t`), `rte_eth_memif.c` (`eth_memif_rx`, `eth_memif_tx`).

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use super::error::MemifError;
use super::message::Direction;
use super::region::Regions;

/// What every ring begins with.
pub(super) const COOKIE: u32 = 0x3e3_1f20;
/// The receiver polls: it wants no interrupts.
pub(super) const FLAG_MASK_INTERRUPTS: u16 = 1;
/// The packet goes on in the next slot.
pub(super) const DESCRIPTOR_NEXT: u16 = 1;
/// As many slots as DPDK and VPP have at most, log2.
pub(super) const SIZE_LOG2_MOST: u8 = 14;

/// The beginning of a ring; slots follow.
#[repr(C, align(64))]
pub(super) struct RingHeader {
    pub cookie: AtomicU32,
    pub flags: AtomicU16,
    pub head: AtomicU16,
    pub rest_of_line: [u8; 56],
    pub tail: AtomicU16,
    pub rest_of_second_line: [u8; 62],
}

/// What a slot holds: a buffer, and how much of it is used.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub flags: u16,
    pub region: u16,
    pub length_bytes: u32,
    pub offset_bytes: u32,
    pub metadata: u32,
}

/// A slot as it is read and written: flags, region and length are one word, offset and metadata the other.
#[repr(C)]
struct Slot {
    use_of_buffer: AtomicU64,
    place: AtomicU64,
}

impl Descriptor {
    fn of_words(use_of_buffer: u64, place: u64) -> Descriptor {
        let [f0, f1, r0, r1, l0, l1, l2, l3] = use_of_buffer.to_ne_bytes();
        let [o0, o1, o2, o3, m0, m1, m2, m3] = place.to_ne_bytes();
        Descriptor {
            flags: u16::from_ne_bytes([f0, f1]),
            region: u16::from_ne_bytes([r0, r1]),
            length_bytes: u32::from_ne_bytes([l0, l1, l2, l3]),
            offset_bytes: u32::from_ne_bytes([o0, o1, o2, o3]),
            metadata: u32::from_ne_bytes([m0, m1, m2, m3]),
        }
    }

    fn use_of_buffer(self) -> u64 {
        let ([f0, f1], [r0, r1]) = (self.flags.to_ne_bytes(), self.region.to_ne_bytes());
        let [l0, l1, l2, l3] = self.length_bytes.to_ne_bytes();
        u64::from_ne_bytes([f0, f1, r0, r1, l0, l1, l2, l3])
    }

    fn place(self) -> u64 {
        let ([o0, o1, o2, o3], [m0, m1, m2, m3]) = (self.offset_bytes.to_ne_bytes(), self.metadata.to_ne_bytes());
        u64::from_ne_bytes([o0, o1, o2, o3, m0, m1, m2, m3])
    }

    /// Its bytes in slot `slot` are not there.
    #[cold]
    pub(super) fn is_wrong(self, slot: u16) -> MemifError {
        let Descriptor { region, offset_bytes, length_bytes, .. } = self;
        MemifError::Descriptor { slot, region, offset_bytes, length_bytes }
    }
}

/// Bytes of a ring of so many slots.
pub(super) const fn ring_bytes(size_log2: u8) -> u32 {
    (size_of::<RingHeader>() + (size_of::<Descriptor>() << size_log2)) as u32
}

/// One ring of a connection, whose memory it keeps mapped.
#[derive(Debug, Clone)]
pub(super) struct RingView {
    base: NonNull<u8>,
    mask: u16,
    direction: Direction,
    pub regions: Arc<Regions>,
}

// SAFETY: `base` is in memory that `regions` keeps mapped, and all access to it is atomic.
unsafe impl Send for RingView {}

impl RingView {
    /// The ring of 2^`size_log2` slots that lies there.
    ///
    /// # Errors
    /// The size or the place is impossible.
    pub(super) fn new(
        regions: &Arc<Regions>,
        (region, offset_bytes): (u16, u32),
        size_log2: u8,
        direction: Direction,
    ) -> Result<RingView, MemifError> {
        let direction_words = direction.in_words();
        if !(1..=SIZE_LOG2_MOST).contains(&size_log2) {
            return Err(MemifError::RingSize { direction: direction_words, size_log2 });
        }
        let is_aligned = offset_bytes.is_multiple_of(size_of::<Descriptor>() as u32);
        let base = regions.span(region, offset_bytes, ring_bytes(size_log2)).filter(|_| is_aligned);
        let base = base.ok_or(MemifError::RingPlace { direction: direction_words, region, offset_bytes })?;
        Ok(RingView { base, mask: (1 << size_log2) - 1, direction, regions: regions.clone() })
    }

    /// Fails unless the ring begins as every ring does.
    ///
    /// # Errors
    /// What is there instead.
    pub(super) fn check_cookie(&self) -> Result<(), MemifError> {
        match self.cookie().load(Ordering::Acquire) {
            COOKIE => Ok(()),
            found => Err(MemifError::Cookie { direction: self.direction.in_words(), found }),
        }
    }

    /// Makes it a ring without frames, in new memory.
    pub(super) fn begin(&self) {
        self.sender_index().store(0, Ordering::Relaxed);
        self.receiver_index().store(0, Ordering::Relaxed);
        self.cookie().store(COOKIE, Ordering::Release);
    }

    /// Slots.
    #[inline]
    pub(super) fn size_slots(&self) -> u16 {
        self.mask + 1
    }

    /// By how much the receiver's index is ahead of the next slot that it receives.
    #[inline]
    pub(super) fn ahead(&self) -> u16 {
        if self.direction == Direction::ClientToServer { 0 } else { self.size_slots() }
    }

    /// The slot of an index.
    #[inline]
    pub(super) fn slot_of(&self, index: u16) -> u16 {
        index & self.mask
    }

    #[inline]
    pub(super) fn sender_index(&self) -> &AtomicU16 {
        if self.direction == Direction::ClientToServer { self.head() } else { self.tail() }
    }

    #[inline]
    pub(super) fn receiver_index(&self) -> &AtomicU16 {
        if self.direction == Direction::ClientToServer { self.tail() } else { self.head() }
    }

    /// As the receiver: interrupts are not wanted.
    pub(super) fn mask_interrupts(&self) {
        self.flags().store(FLAG_MASK_INTERRUPTS, Ordering::Release);
    }

    /// As the sender, after it moved its index: whether the receiver wants an interrupt.
    #[inline]
    pub(super) fn wants_interrupt(&self) -> bool {
        // The index is seen by a receiver that is about to sleep, or its flags are seen here.
        fence(Ordering::SeqCst);
        self.flags().load(Ordering::Relaxed) & FLAG_MASK_INTERRUPTS == 0
    }

    /// A copy of what is in the slot of `index`.
    #[inline]
    pub(super) fn read(&self, index: u16) -> Descriptor {
        let slot = self.slot(index);
        Descriptor::of_words(slot.use_of_buffer.load(Ordering::Relaxed), slot.place.load(Ordering::Relaxed))
    }

    /// Writes flags, region and length to the slot of `index`; its buffer stays where it is.
    #[inline]
    pub(super) fn write_use(&self, index: u16, flags: u16, region: u16, length_bytes: u32) {
        let descriptor = Descriptor { flags, region, length_bytes, offset_bytes: 0, metadata: 0 };
        self.slot(index).use_of_buffer.store(descriptor.use_of_buffer(), Ordering::Relaxed);
    }

    /// Writes all of the slot of `index`.
    pub(super) fn write(&self, index: u16, descriptor: Descriptor) {
        let slot = self.slot(index);
        slot.use_of_buffer.store(descriptor.use_of_buffer(), Ordering::Relaxed);
        slot.place.store(descriptor.place(), Ordering::Relaxed);
    }

    #[inline]
    fn slot(&self, index: u16) -> &Slot {
        let at_bytes = size_of::<RingHeader>() + usize::from(self.slot_of(index)) * size_of::<Slot>();
        // SAFETY: the masked slot lies within the `ring_bytes` that `new` checked, which stay mapped as long as `regions`; the ring is at a
        // multiple of 16. A slot is two atomics, so that nothing the peer writes is a data race or an invalid value.
        unsafe { self.base.add(at_bytes).cast::<Slot>().as_ref() }
    }

    #[inline]
    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: as for `half_word`; 0 is a multiple of 4.
        unsafe { self.base.add(offset_of!(RingHeader, cookie)).cast().as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU16 {
        self.half_word::<{ offset_of!(RingHeader, flags) }>()
    }

    #[inline]
    fn head(&self) -> &AtomicU16 {
        self.half_word::<{ offset_of!(RingHeader, head) }>()
    }

    #[inline]
    fn tail(&self) -> &AtomicU16 {
        self.half_word::<{ offset_of!(RingHeader, tail) }>()
    }

    #[inline]
    fn half_word<const AT_BYTES: usize>(&self) -> &AtomicU16 {
        // SAFETY: the place is an even one within the header, which lies within what `new` checked and stays mapped as long as `regions`.
        unsafe { self.base.add(AT_BYTES).cast().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ports::memif::region::Region;

    #[test]
    fn layout_is_that_of_memif_h() {
        assert_eq!(
            (size_of::<RingHeader>(), offset_of!(RingHeader, cookie), offset_of!(RingHeader, flags)),
            (128, 0, 4)
        );
        assert_eq!((offset_of!(RingHeader, head), offset_of!(RingHeader, tail)), (6, 64));
        assert_eq!((size_of::<Descriptor>(), size_of::<Slot>(), offset_of!(Slot, place)), (16, 16, 8));
        assert_eq!((offset_of!(Descriptor, flags), offset_of!(Descriptor, region)), (0, 2));
        assert_eq!((offset_of!(Descriptor, length_bytes), offset_of!(Descriptor, offset_bytes)), (4, 8));
        assert_eq!(offset_of!(Descriptor, metadata), 12);
        assert_eq!((ring_bytes(10), COOKIE), (128 + 16 * 1024, 0x3e3_1f20));
    }

    proptest! {
        #[test]
        fn descriptor_written_is_read_and_lies_as_the_structure_does(
            (flags, region) in any::<(u16, u16)>(),
            (length_bytes, offset_bytes, metadata) in any::<(u32, u32, u32)>(),
            index in any::<u16>(),
        ) {
            let mut regions = Regions::default();
            regions.add(0, Region::create(4096).unwrap().0).unwrap();
            let ring = RingView::new(&Arc::new(regions), (0, 16), 3, Direction::ClientToServer).unwrap();
            let written = Descriptor { flags, region, length_bytes, offset_bytes, metadata };
            ring.write(index, written);
            prop_assert_eq!(ring.read(index), written);
            let at = 16 + 128 + 16 * (u32::from(index) % 8);
            // SAFETY: the slot is within the region, at a multiple of 16, and any bytes are a descriptor.
            let lies = unsafe { ring.regions.span(0, at, 16).unwrap().cast::<Descriptor>().read() };
            prop_assert_eq!(lies, written);
            ring.write_use(index, 1, region, 64);
            prop_assert_eq!(ring.read(index), Descriptor { flags: 1, length_bytes: 64, ..written });
        }
    }

    #[test]
    fn ring_that_is_not_within_its_region_is_refused() {
        let mut regions = Regions::default();
        regions.add(0, Region::create(ring_bytes(4) as usize).unwrap().0).unwrap();
        let regions = Arc::new(regions);
        let new = |place, size_log2| RingView::new(&regions, place, size_log2, Direction::ServerToClient);
        new((0, 0), 4).unwrap();
        for place in [(0, 16), (0, 8), (0, u32::MAX), (1, 0)] {
            assert!(matches!(new(place, 4), Err(MemifError::RingPlace { .. })), "{place:?}");
        }
        assert!(matches!(new((0, 0), 5), Err(MemifError::RingPlace { .. })));
        for size_log2 in [0, 15, 16, 32, 255] {
            assert!(matches!(new((0, 0), size_log2), Err(MemifError::RingSize { .. })), "{size_log2}");
        }
        assert!(matches!(new((0, 0), 4).unwrap().check_cookie(), Err(MemifError::Cookie { found: 0, .. })));
    }
}

//! The receiving half: descriptors that the peer filled are read once, checked, and given back in batches.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::error::MemifError;
use super::layout::Buffers;
use super::ring::{DESCRIPTOR_NEXT, Descriptor, RingView};

/// Frames after which the peer is told that their slots are free, if there is no pause before. A ring of few slots has smaller batches.
const BATCH_FRAMES_MOST: u16 = 32;
/// Buffers ahead of the one in use that the CPU is asked to fetch.
const PREFETCH_SLOTS: u16 = 4;

/// The receiver's side of a ring.
///
/// Invariant: slots from `next` to `filled_seen` are filled and not received yet, at most as many as there are; those from `returned` to
/// `next` were received, and the peer does not know that yet.
#[derive(Debug)]
pub(super) struct Receiving {
    ring: RingView,
    /// A client's own; a server asks the descriptors.
    buffers: Option<Buffers>,
    next: u16,
    filled_seen: u16,
    returned: u16,
    /// What the peer was told last, in this side's index.
    told: u16,
    batch_slots: u16,
    /// A packet of several buffers, in one piece. As long as the longest frame.
    assembled: Box<[u8]>,
    /// Frames are lent as copies.
    copies: bool,
}

impl Receiving {
    /// Goes on where the ring is. Frames of up to `most_bytes` are received.
    ///
    /// # Errors
    /// Its indices are further apart than it has slots.
    pub(super) fn new(
        ring: RingView,
        buffers: Option<Buffers>,
        most_bytes: usize,
        copies: bool,
    ) -> Result<Receiving, MemifError> {
        // A client's ring is new, and it has given no buffers yet.
        let next = if buffers.is_some() { 0 } else { ring.receiver_index().load(Ordering::Acquire) };
        let mut receiving = Receiving {
            next,
            filled_seen: next,
            returned: next,
            told: next.wrapping_add(ring.ahead()).wrapping_sub(1),
            batch_slots: (ring.size_slots() / 8).clamp(1, BATCH_FRAMES_MOST),
            assembled: vec![0; most_bytes].into(),
            buffers,
            copies,
            ring,
        };
        receiving.look()?;
        receiving.give_back();
        Ok(receiving)
    }

    /// Looks at the peer's index.
    fn look(&mut self) -> Result<(), MemifError> {
        let found = self.ring.sender_index().load(Ordering::Acquire);
        // It moves forward, and not into slots that the peer does not have.
        let filled = found.wrapping_sub(self.returned);
        if filled > self.ring.size_slots() || filled < self.filled_seen.wrapping_sub(self.returned) {
            let (last, size_slots) = (self.filled_seen, self.ring.size_slots());
            return Err(MemifError::RingJump { found, last, size_slots });
        }
        self.filled_seen = found;
        Ok(())
    }

    /// Where a descriptor's bytes are.
    #[inline]
    fn bytes(&self, slot: u16, descriptor: Descriptor) -> Result<NonNull<u8>, MemifError> {
        let length_bytes = descriptor.length_bytes;
        let span = match self.buffers {
            Some(buffers) => buffers.span(&self.ring.regions, slot, length_bytes),
            None => self.ring.regions.span(descriptor.region, descriptor.offset_bytes, length_bytes),
        };
        span.ok_or_else(|| descriptor.is_wrong(slot))
    }

    /// Lends the next frame.
    #[inline]
    pub(super) fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, MemifError> {
        if self.next == self.filled_seen {
            self.look()?;
            if self.next == self.filled_seen {
                self.give_back();
                return Ok(None);
            }
        }
        let slot = self.ring.slot_of(self.next);
        let descriptor = self.ring.read(self.next);
        let start = self.bytes(slot, descriptor)?;
        self.prefetch();
        let (result, slots) = if descriptor.flags & DESCRIPTOR_NEXT != 0 || self.copies {
            let (len_bytes, slots) = self.assemble()?;
            (read(&self.assembled[..len_bytes]), slots)
        } else if !(1..=self.assembled.len()).contains(&(descriptor.length_bytes as usize)) {
            return Err(MemifError::FrameLength { slot, most_bytes: self.assembled.len() });
        } else {
            // SAFETY: `bytes` checked that so many bytes from `start` on are within a region, which is mapped and initialized. This side
            // holds the slot until `give_back`, and makes no other reference to shared memory meanwhile. A peer that breaks the
            // protocol can write there still, as a device can to any port's packet memory: every value of a byte is valid, and who
            // does not trust the peer so far has copies (`MemifConfig::copies_frames`).
            let frame = unsafe { std::slice::from_raw_parts(start.as_ptr(), descriptor.length_bytes as usize) };
            (read(frame), 1)
        };
        self.next = self.next.wrapping_add(slots);
        if self.next.wrapping_sub(self.returned) >= self.batch_slots {
            self.give_back();
        }
        Ok(Some(result))
    }

    /// Copies the packet that begins at `next` into one piece; its length, and how many slots it has.
    fn assemble(&mut self) -> Result<(usize, u16), MemifError> {
        let first = self.ring.slot_of(self.next);
        let (mut len_bytes, mut slots) = (0, 0);
        loop {
            if self.filled_seen.wrapping_sub(self.next) == slots {
                self.look()?;
                if self.filled_seen.wrapping_sub(self.next) == slots {
                    // A peer publishes whole packets.
                    return Err(MemifError::ChainCut { slot: first, slots });
                }
            }
            let index = self.next.wrapping_add(slots);
            let (slot, descriptor) = (self.ring.slot_of(index), self.ring.read(index));
            let start = self.bytes(slot, descriptor)?;
            let (most_bytes, end_bytes) = (self.assembled.len(), len_bytes + descriptor.length_bytes as usize);
            let room = self.assembled.get_mut(len_bytes..end_bytes);
            let room = room.ok_or(MemifError::FrameLength { slot: first, most_bytes })?;
            // SAFETY: `bytes` checked that so many bytes from `start` on are within a region, which is mapped; `room` is as long, and
            // is this process's own memory. Whatever the peer writes meanwhile, each byte that is copied has a value.
            unsafe { start.copy_to_nonoverlapping(NonNull::from(&mut *room).cast(), room.len()) };
            len_bytes += room.len();
            slots += 1;
            if descriptor.flags & DESCRIPTOR_NEXT == 0 {
                return if len_bytes > 0 {
                    Ok((len_bytes, slots))
                } else {
                    Err(MemifError::FrameLength { slot: first, most_bytes })
                };
            }
        }
    }

    /// Tells the peer which slots are free. A client's get their buffers again, whole.
    #[inline]
    pub(super) fn give_back(&mut self) {
        let told = self.next.wrapping_add(self.ring.ahead());
        if self.told == told {
            return;
        }
        self.told = told;
        if let Some(buffers) = self.buffers {
            while self.returned != self.next {
                self.ring.write_use(self.returned, 0, 0, buffers.buffer_bytes);
                self.returned = self.returned.wrapping_add(1);
            }
        }
        self.returned = self.next;
        self.ring.receiver_index().store(told, Ordering::Release);
    }

    /// Asks the CPU for the beginning of a buffer that comes soon.
    #[inline]
    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        if self.filled_seen.wrapping_sub(self.next) > PREFETCH_SLOTS {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let index = self.next.wrapping_add(PREFETCH_SLOTS);
            if let Ok(start) = self.bytes(self.ring.slot_of(index), self.ring.read(index)) {
                // SAFETY: a prefetch reads and changes nothing a program can see, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(start.as_ptr().cast()) };
            }
        }
    }
}

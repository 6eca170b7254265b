//! The sending half: frames are written to buffers, and become the peer's when the index is moved ([`Sending::publish`]).

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::error::MemifError;
use super::layout::Buffers;
use super::ring::{DESCRIPTOR_NEXT, RingView};

/// The sender's side of a ring.
///
/// Invariant: slots from `taken_seen` (received by the peer, as last seen) to `next` are in use, at most as many as there are; those from
/// `published` on are not the peer's yet. All are this side's own numbers; what the peer writes is checked against them.
#[derive(Debug)]
pub(super) struct Sending {
    ring: RingView,
    /// A client's own; a server asks the descriptors.
    buffers: Option<Buffers>,
    kick: Option<OwnedFd>,
    next: u16,
    published: u16,
    taken_seen: u16,
}

/// Where a frame is made.
pub(super) enum Room {
    /// In a buffer that holds it.
    Buffer(NonNull<u8>),
    /// Elsewhere: it takes several buffers.
    Several,
    /// Nowhere now.
    None,
}

/// A buffer to be filled.
#[derive(Clone, Copy)]
struct Buffer {
    region: u16,
    start: NonNull<u8>,
    capacity_bytes: usize,
}

impl Sending {
    /// Goes on where the ring is.
    ///
    /// # Errors
    /// Its indices are further apart than it has slots.
    pub(super) fn new(ring: RingView, buffers: Option<Buffers>, kick: Option<OwnedFd>) -> Result<Sending, MemifError> {
        let next = ring.sender_index().load(Ordering::Acquire);
        let mut sending = Sending { next, published: next, taken_seen: next, ring, buffers, kick };
        let found = sending.ring.receiver_index().load(Ordering::Acquire);
        sending.taken_seen = found.wrapping_sub(sending.ring.ahead());
        if sending.in_use() > sending.ring.size_slots() {
            return Err(MemifError::RingJump { found, last: next, size_slots: sending.ring.size_slots() });
        }
        Ok(sending)
    }

    #[inline]
    fn in_use(&self) -> u16 {
        self.next.wrapping_sub(self.taken_seen)
    }

    /// Looks at the peer's index.
    fn look(&mut self) -> Result<(), MemifError> {
        let found = self.ring.receiver_index().load(Ordering::Acquire);
        let taken = found.wrapping_sub(self.ring.ahead());
        // It moves forward, and not beyond what was published. (A client gives its first buffers in steps: its index counts up from 0
        // to the number of slots, as if it received what was sent before.)
        if taken.wrapping_sub(self.taken_seen) > self.published.wrapping_sub(self.taken_seen) {
            let last = self.taken_seen.wrapping_add(self.ring.ahead());
            return Err(MemifError::RingJump { found, last, size_slots: self.ring.size_slots() });
        }
        self.taken_seen = taken;
        Ok(())
    }

    /// `true`: there are so many free slots.
    #[inline]
    fn has_room(&mut self, slots: u16) -> Result<bool, MemifError> {
        if self.ring.size_slots() - self.in_use() < slots {
            self.look()?;
            return Ok(self.ring.size_slots() - self.in_use() >= slots);
        }
        Ok(true)
    }

    /// The buffer in the slot of `index`.
    #[inline]
    fn buffer(&self, index: u16) -> Result<Buffer, MemifError> {
        if let Some(buffers) = self.buffers {
            let slot = self.ring.slot_of(index);
            let start = buffers.span(&self.ring.regions, slot, buffers.buffer_bytes);
            let start = start.ok_or_else(|| self.ring.read(index).is_wrong(slot))?;
            return Ok(Buffer { region: 0, start, capacity_bytes: buffers.buffer_bytes as usize });
        }
        let descriptor = self.ring.read(index);
        let span = self.ring.regions.span(descriptor.region, descriptor.offset_bytes, descriptor.length_bytes);
        match span.filter(|_| descriptor.length_bytes > 0) {
            Some(start) => {
                Ok(Buffer { region: descriptor.region, start, capacity_bytes: descriptor.length_bytes as usize })
            }
            None => Err(descriptor.is_wrong(self.ring.slot_of(index))),
        }
    }

    /// The room for a frame in the next slot. It is the peer's after [`Sending::end`] and [`Sending::publish`].
    #[inline]
    pub(super) fn begin(&mut self, len_bytes: usize) -> Result<Room, MemifError> {
        if !self.has_room(1)? {
            return Ok(Room::None);
        }
        let buffer = self.buffer(self.next)?;
        if buffer.capacity_bytes < len_bytes {
            return Ok(Room::Several);
        }
        self.ring.write_use(self.next, 0, buffer.region, len_bytes as u32);
        Ok(Room::Buffer(buffer.start))
    }

    /// The frame that was begun is complete.
    #[inline]
    pub(super) fn end(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Queues a frame in several buffers. `false`: no room now. `None`: the whole ring does not hold it.
    pub(super) fn queue_chain(&mut self, frame: &[u8]) -> Result<Option<bool>, MemifError> {
        let (mut index, mut left, mut slots) = (self.next, frame, 0);
        while !left.is_empty() {
            if slots == self.ring.size_slots() {
                return Ok(None);
            }
            slots += 1;
            if !self.has_room(slots)? {
                return Ok(Some(false));
            }
            let buffer = self.buffer(index)?;
            let (piece, rest) = left.split_at(buffer.capacity_bytes.min(left.len()));
            // SAFETY: `buffer` checked that so many bytes from `start` on are within a region, which is mapped; the slot is this side's
            // until it is published, and no reference to shared memory is live.
            unsafe { buffer.start.copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len()) };
            let flags = if rest.is_empty() { 0 } else { DESCRIPTOR_NEXT };
            self.ring.write_use(index, flags, buffer.region, piece.len() as u32);
            (index, left) = (index.wrapping_add(1), rest);
        }
        self.next = index;
        Ok(Some(true))
    }

    /// Gives the peer what was queued. `true`: it wanted an interrupt, and got one.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        if self.next == self.published {
            return false;
        }
        self.published = self.next;
        self.ring.sender_index().store(self.next, Ordering::Release);
        self.ring.wants_interrupt() && self.interrupt()
    }

    #[cold]
    fn interrupt(&self) -> bool {
        // One that is full already is as good.
        self.kick.as_ref().is_some_and(|kick| rustix::io::write(kick, &1_u64.to_ne_bytes()).is_ok())
    }

    /// Slots of the ring.
    pub(super) fn size_slots(&self) -> u16 {
        self.ring.size_slots()
    }
}

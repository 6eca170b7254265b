//! How a client lays out its region: both rings, then the buffers of one, then those of the other.
//!
//! ```text
//! | ring c2s | ring s2c | buffers of c2s, one a slot | buffers of s2c, one a slot |
//! ```
//!
//! Each part begins at a cache line. From one buffer to the next there is a line more than a buffer holds: at distances of 2048 bytes the
//! beginnings of all buffers would be in the same few sets of a cache, and displace each other.

use std::ptr::NonNull;

use super::message::{AddRing, Direction};
use super::region::Regions;
use super::ring::{Descriptor, RingView, ring_bytes};

const LINE_BYTES: u32 = 64;

/// The client's region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub size_log2: u8,
    buffer_bytes: u32,
}

/// The buffers of a ring, in region 0. These are the client's own numbers: what the peer writes to descriptors does not change them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffers {
    first_bytes: u32,
    stride_bytes: u32,
    pub buffer_bytes: u32,
}

impl Buffers {
    /// Where `len_bytes` of a slot's buffer are; `None`: it is not as long.
    #[inline]
    pub(super) fn span(self, regions: &Regions, slot: u16, len_bytes: u32) -> Option<NonNull<u8>> {
        if len_bytes > self.buffer_bytes {
            return None;
        }
        regions.span(0, self.offset_bytes(slot), len_bytes)
    }

    #[inline]
    fn offset_bytes(self, slot: u16) -> u32 {
        self.first_bytes + u32::from(slot) * self.stride_bytes
    }
}

impl Layout {
    /// Of rings of 2^`size_log2` slots (at most 14), with buffers of `buffer_bytes` (at most 65535): at most 2.2 GB.
    pub(super) fn new(size_log2: u8, buffer_bytes: u32) -> Layout {
        Layout { size_log2: size_log2.min(super::ring::SIZE_LOG2_MOST), buffer_bytes: buffer_bytes.min(65_535) }
    }

    const fn ring_bytes(self) -> u32 {
        ring_bytes(self.size_log2).next_multiple_of(LINE_BYTES)
    }

    const fn stride_bytes(self) -> u32 {
        self.buffer_bytes.next_multiple_of(LINE_BYTES) + LINE_BYTES
    }

    /// Where a ring is.
    pub(super) const fn ring_offset_bytes(self, direction: Direction) -> u32 {
        match direction {
            Direction::ClientToServer => 0,
            Direction::ServerToClient => self.ring_bytes(),
        }
    }

    /// The buffers of a ring.
    pub(super) const fn buffers(self, direction: Direction) -> Buffers {
        let first_bytes = 2 * self.ring_bytes();
        let of_one_ring_bytes = self.stride_bytes() << self.size_log2;
        let before_bytes = match direction {
            Direction::ClientToServer => 0,
            Direction::ServerToClient => of_one_ring_bytes,
        };
        Buffers {
            first_bytes: first_bytes + before_bytes,
            stride_bytes: self.stride_bytes(),
            buffer_bytes: self.buffer_bytes,
        }
    }

    /// Length of the region.
    pub(super) const fn region_bytes(self) -> usize {
        (2 * self.ring_bytes() + 2 * (self.stride_bytes() << self.size_log2)) as usize
    }

    /// What the server is told of a ring.
    pub(super) const fn add_ring(self, direction: Direction) -> AddRing {
        let offset_bytes = self.ring_offset_bytes(direction);
        AddRing { direction, number: 0, region: 0, offset_bytes, size_log2: self.size_log2, private_header_bytes: 0 }
    }

    /// Writes the header of a ring, and a buffer to each slot.
    pub(super) fn fill(self, ring: &RingView, direction: Direction) {
        let buffers = self.buffers(direction);
        for slot in 0..ring.size_slots() {
            let (length_bytes, offset_bytes) = (self.buffer_bytes, buffers.offset_bytes(slot));
            ring.write(slot, Descriptor { flags: 0, region: 0, length_bytes, offset_bytes, metadata: 0 });
        }
        ring.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_region_do_not_overlap_and_end_with_it() {
        for (size_log2, buffer_bytes) in [(1, 1), (1, 2048), (10, 2048), (14, 65_535), (3, 100)] {
            let layout = Layout::new(size_log2, buffer_bytes);
            let ring_end = |direction| layout.ring_offset_bytes(direction) + ring_bytes(size_log2);
            let (there, back) = (Direction::ClientToServer, Direction::ServerToClient);
            let ends = [there, back].map(|direction| {
                let buffers = layout.buffers(direction);
                (buffers.first_bytes, buffers.offset_bytes((1 << size_log2) - 1) + buffer_bytes)
            });
            assert!(ring_end(there) <= layout.ring_offset_bytes(back) && ring_end(back) <= ends[0].0);
            assert!(ends[0].1 <= ends[1].0 && ends[1].1 as usize <= layout.region_bytes());
            let places = [layout.ring_offset_bytes(back), ends[0].0, ends[1].0];
            assert!(places.iter().all(|place| place.is_multiple_of(LINE_BYTES)));
        }
    }
}

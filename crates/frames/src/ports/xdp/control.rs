//! The control area behind the packet memory of a queue: who holds what, for all who map the memory.
//!
//! ```text
//!   line 0      fill lock       whose the fill ring is just now; what is being given back
//!   line 1      send lock       whose the completion ring is just now
//!   line 2      mark            what the program marks records with
//!   line 3 ...  one a sender    descriptors written to its TX ring
//!   then        one a buffer    who holds it
//! ```
//!
//! A word of a lock is 0, or the number of the share that holds it plus one. A receive buffer's word is 0 while the buffer is in the fill
//! ring, with the kernel or unread in an RX ring; else the number of the share that has taken it plus one. A send buffer's word is 1 from
//! the push to the TX ring until the completion ring has told of it.
//!
//! A process may be killed between any two instructions. What it stored before that is there, in the order of the program, so a record that is
//! stored before the step it speaks of is enough to finish or undo the step ([`super::queue`], [`super::seats`]).
//!
//! Others may store anything here: every index is checked, and every value only says which buffer goes where.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

const LINE_BYTES: usize = 64;
const FILL_LOCK_AT: usize = 0;
const BATCH_AT: usize = 8;
const SEND_LOCK_AT: usize = LINE_BYTES;
const MARK_AT: usize = 2 * LINE_BYTES;
const SENDERS_AT: usize = 3 * LINE_BYTES;

/// What a queue's memory is divided into. Receive buffers come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub frame_size_bytes: u32,
    pub receive_buffers: u32,
    pub send_buffers: u32,
    /// Who may send from it, at least one.
    pub senders: u32,
}

impl Layout {
    fn buffers(self) -> usize {
        self.receive_buffers as usize + self.send_buffers as usize
    }

    /// Bytes of the buffers, whole pages.
    pub(super) fn packet_bytes(self) -> usize {
        (self.buffers() * self.frame_size_bytes as usize).next_multiple_of(4096)
    }

    fn holders_at(self) -> usize {
        SENDERS_AT + self.senders as usize * LINE_BYTES
    }

    /// Bytes of buffers and control area.
    pub(super) fn file_bytes(self) -> usize {
        self.packet_bytes() + (self.holders_at() + self.buffers() * size_of::<AtomicU16>()).next_multiple_of(4096)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Control {
    start: NonNull<u8>,
    layout: Layout,
}

impl Control {
    /// # Safety
    /// `start` is page-aligned and has the bytes of the layout's control area behind it, mapped and only touched by atomics, for as long as the
    /// value is used.
    pub(super) unsafe fn new(start: NonNull<u8>, layout: Layout) -> Control {
        Control { start, layout }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    fn word32(&self, at_bytes: usize) -> &AtomicU32 {
        // SAFETY: callers give offsets of the layout, aligned to four bytes; the rest is `new`'s contract.
        unsafe { self.start.add(at_bytes).cast().as_ref() }
    }

    fn word64(&self, at_bytes: usize) -> &AtomicU64 {
        // SAFETY: as in `word32`, aligned to eight bytes.
        unsafe { self.start.add(at_bytes).cast().as_ref() }
    }

    /// Whose the fill ring is.
    pub(super) fn fill_lock(&self) -> &AtomicU32 {
        self.word32(FILL_LOCK_AT)
    }

    /// What the holder of the fill lock is giving back: the ring's producer index in the upper half, the number of buffers in the lower; 0: nothing.
    pub(super) fn batch(&self) -> &AtomicU64 {
        self.word64(BATCH_AT)
    }

    /// Whose the completion ring is.
    pub(super) fn send_lock(&self) -> &AtomicU32 {
        self.word32(SEND_LOCK_AT)
    }

    /// What the program marks records with; 0: it writes none.
    pub(super) fn mark(&self) -> &AtomicU64 {
        self.word64(MARK_AT)
    }

    /// The producer index of a sender's TX ring, with what it has not submitted yet.
    pub(super) fn pushed(&self, sender: u32) -> &AtomicU32 {
        self.word32(SENDERS_AT + sender.min(self.layout.senders - 1) as usize * LINE_BYTES)
    }

    #[inline]
    fn holder_word(&self, buffer: usize) -> Option<&AtomicU16> {
        if buffer >= self.layout.buffers() {
            return None;
        }
        let at_bytes = self.layout.holders_at() + buffer * size_of::<AtomicU16>();
        // SAFETY: within the layout, as just checked, and aligned; the rest is `new`'s contract.
        Some(unsafe { self.start.add(at_bytes).cast().as_ref() })
    }

    #[inline]
    fn index_of(&self, address: u64) -> usize {
        (address >> self.layout.frame_size_bytes.trailing_zeros()) as usize
    }

    /// The word of a buffer, by its number.
    pub(super) fn holder(&self, buffer: usize) -> u16 {
        self.holder_word(buffer).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(super) fn set_holder(&self, buffer: usize, holder: u16) {
        self.holder_word(buffer).unwrap().store(holder, Ordering::Relaxed);
    }

    /// The word of the buffer at an address; 0 for an address outside.
    #[inline]
    pub(super) fn holder_at(&self, address: u64) -> u16 {
        self.holder(self.index_of(address))
    }

    #[inline]
    pub(super) fn set_holder_at(&self, address: u64, holder: u16) {
        if let Some(word) = self.holder_word(self.index_of(address)) {
            word.store(holder, Ordering::Relaxed);
        }
    }

    /// Addresses of the receive buffers that a share has taken.
    pub(super) fn held_by(&self, share: u32) -> impl Iterator<Item = u64> + '_ {
        let held = move |buffer: &usize| u32::from(self.holder(*buffer)) == share + 1;
        let address = |buffer| buffer as u64 * u64::from(self.layout.frame_size_bytes);
        (0..self.layout.receive_buffers as usize).filter(held).map(address)
    }
}

//! The control area behind the packet memory of a queue: who holds what, for all who map the memory.
//!
//! ```text
//!   line 0      mark            what the program marks records with
//!   line 1      turn            whose turn it is to kick ([`super::turn`])
//!   line 2 ...  one a sender    descriptors written to its TX ring
//!   then        one a buffer    who holds it (`holder`)
//! ```
//!
//! A receive buffer has no holder while it is in the fill ring, with the kernel or unread in an RX ring; else the share that has taken it
//! holds it. Share 0 holds a send buffer, whichever share sends, from the push to the TX ring until the completion ring reports it.
//!
//! A process may be killed between any two instructions. What it stored before that is there, in the order of the program, so a record that is
//! stored before the step it speaks of is enough to finish or undo the step ([`super::shared_ring`], [`super::seats`]).
//!
//! Others may store anything here: every index is checked, and every value only says which buffer goes where.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::holder::HolderWord;

const LINE_BYTES: usize = 64;
const MARK_AT: usize = 0;
const TURN_AT: usize = LINE_BYTES;
const SENDERS_AT: usize = 2 * LINE_BYTES;

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
        self.packet_bytes() + (self.holders_at() + self.buffers() * size_of::<AtomicU32>()).next_multiple_of(4096)
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

    /// What the program marks records with; 0: it writes none.
    pub(super) fn mark(&self) -> &AtomicU64 {
        self.word64(MARK_AT)
    }

    /// Whose turn it is to kick; 0: nobody's.
    pub(super) fn turn(&self) -> &AtomicU32 {
        self.word32(TURN_AT)
    }

    /// The producer index of a sender's TX ring, with what it has not submitted yet.
    pub(super) fn pushed(&self, sender: u32) -> &AtomicU32 {
        self.word32(SENDERS_AT + sender.min(self.layout.senders - 1) as usize * LINE_BYTES)
    }

    /// The word of the buffer at an address; `None` for an address outside.
    #[inline]
    pub(super) fn holder(&self, address: u64) -> Option<HolderWord<'_>> {
        let buffer = (address >> self.layout.frame_size_bytes.trailing_zeros()) as usize;
        // Within the layout, as is checked here, and aligned.
        let at_bytes = self.layout.holders_at() + buffer * size_of::<AtomicU32>();
        (buffer < self.layout.buffers()).then(|| HolderWord::new(self.word32(at_bytes)))
    }

    /// A share has taken a buffer.
    #[inline]
    pub(super) fn hold(&self, address: u64, share: u32) {
        self.holder(address).into_iter().for_each(|word| word.hold(share));
    }

    /// Nobody has a buffer that the caller had alone.
    pub(super) fn free(&self, address: u64) {
        self.holder(address).into_iter().for_each(|word| word.free(word.read()));
    }

    /// Whether nobody has a buffer; of an address outside, nobody.
    #[inline]
    pub(super) fn is_free(&self, address: u64) -> bool {
        self.holder(address).is_none_or(|word| word.read().by_nobody())
    }

    /// Addresses of the receive buffers that a share has taken.
    pub(super) fn held_by(&self, share: u32) -> impl Iterator<Item = u64> + '_ {
        let address = |buffer| u64::from(buffer) * u64::from(self.layout.frame_size_bytes);
        let held = move |address: &u64| self.holder(*address).is_some_and(|word| word.read().by(share));
        (0..self.layout.receive_buffers).map(address).filter(held)
    }
}

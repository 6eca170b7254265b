//! Giving receive buffers back to a queue.
//!
//! The kernel has one fill ring a queue. A port without shares has it alone. Where there are shares, each keeps what it has read and gives
//! it back some at a time, as an exchange for each buffer is the dearest part of that. The words of what it keeps say whose they are, so those of
//! a share that died are found.
//!
//! Invariant: each buffer is in the ring once or with one receiver, and both have room for all of them, so nothing is lost and
//! nothing grows. What idle shares keep is at most a quarter of the buffers.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{OwnFill, Queue};
use super::shared_ring::address_of;

/// Buffers given back at a time, where there are enough for all shares.
const GIVE_BACK_FRAMES: usize = 16;
/// Slots of the fill ring that are looked at for a buffer that was not expected.
const LOOK_AHEAD_SLOTS: u32 = 8;

/// How a receiver gives buffers back.
#[derive(Debug)]
pub(super) enum Fill {
    /// It is the only one.
    Own(OwnFill),
    /// There are others.
    Shared(SharedFill),
}

impl Fill {
    pub(super) fn queue(&self) -> &Arc<Queue> {
        match self {
            Fill::Own(fill) => fill.queue(),
            Fill::Shared(fill) => &fill.queue,
        }
    }
}

/// One receiver's part in a shared ring.
#[derive(Debug)]
pub(super) struct SharedFill {
    queue: Arc<Queue>,
    share: u32,
    /// Buffers to be given back; made for as many as there are.
    kept: Vec<u64>,
    /// How many are given back at a time.
    at_a_time: usize,
    /// The slot of the fill ring whose buffer the next frame most likely takes.
    next: u32,
}

impl SharedFill {
    /// The part of one of `shares` shares.
    pub(super) fn new(queue: Arc<Queue>, share: u32, shares: u32) -> SharedFill {
        let (frames, shares) = (queue.control().layout().receive_buffers as usize, shares.max(1) as usize);
        let at_a_time = (frames / (4 * shares)).clamp(1, GIVE_BACK_FRAMES);
        SharedFill { queue, share, kept: Vec::with_capacity(frames), at_a_time, next: 0 }
    }

    /// The ring for itself, with what was kept.
    pub(super) fn into_own(mut self) -> OwnFill {
        self.give_back_all();
        OwnFill::new(&self.queue)
    }

    /// How many are kept.
    pub(super) fn kept_frames(&self) -> u32 {
        self.kept.len() as u32
    }

    /// A buffer came out of the RX ring, which does not know it yet.
    #[inline]
    pub(super) fn mark_taken(&self, buffer: u64) {
        self.queue.control().hold(buffer, self.share);
    }

    /// Keeps a buffer that has been read.
    #[inline]
    pub(super) fn keep(&mut self, buffer: u64) {
        debug_assert!(self.kept.len() < self.kept.capacity(), "there is room for every buffer");
        self.kept.push(buffer);
    }

    /// The buffer that the frame behind that of `buffer` most likely takes: the kernel takes them in the order of the ring.
    #[inline]
    pub(super) fn expected_after(&mut self, buffer: u64) -> u64 {
        let ring = self.queue.fill_ring();
        let is_at = |at: &u32| address_of(ring.slot_at(*at)) == buffer;
        let from = self.next;
        let at = (0..LOOK_AHEAD_SLOTS).map(|count| from.wrapping_add(count)).find(is_at);
        // Elsewhere: the kernel has taken all up to about its own index.
        let at = at.unwrap_or_else(|| ring.consumer.load(Ordering::Relaxed).wrapping_sub(1));
        self.next = at.wrapping_add(1);
        address_of(ring.slot_at(self.next))
    }

    /// Gives back what is kept, if it is enough. How many.
    #[inline]
    pub(super) fn give_back(&mut self) -> u32 {
        if self.kept.len() >= self.at_a_time { self.give_back_all() } else { 0 }
    }

    #[inline]
    fn give_back_all(&mut self) -> u32 {
        self.queue.fill(&self.kept);
        let frames = self.kept.len() as u32;
        self.kept.clear();
        frames
    }

    /// What the program marks records with, for receivers that do not read them.
    #[inline]
    pub(super) fn mark(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.queue.control().mark().load(Ordering::Relaxed))
    }

    pub(super) fn set_mark(&self, mark: NonZeroU64) {
        self.queue.control().mark().store(mark.get(), Ordering::Relaxed);
    }
}

impl Drop for SharedFill {
    /// What the port itself keeps goes back to its shares. What a share keeps is marked, and is taken back with what its RX ring has, which may
    /// still show the same buffers.
    fn drop(&mut self) {
        if self.share == 0 && !self.kept.is_empty() {
            self.give_back_all();
        }
    }
}

//! Giving receive buffers back to a queue that several ports receive from.
//!
//! The kernel has one fill ring a queue. Where there is one port its receiver holds that ring's lock ([`super::queue`]). Where there are
//! shares, each keeps what it has read and gives it back some at a time. If the lock is taken, buffers stay with the share, which tries
//! again with its next frame or its next look. Their words in the control area say whose they are, so that those of a share which
//! died are found.
//!
//! Invariant: each buffer is in the ring once or with one receiver, and both have room for all of them, so nothing is lost and
//! nothing grows. What idle shares keep is at most a quarter of the buffers, and half of them where they found the lock taken.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{FillGuard, OwnFill, Queue};

/// Buffers given back at a time, where there are enough for all shares.
const GIVE_BACK_FRAMES: usize = 16;
/// How often a share that keeps too many yields to whoever has the lock, which takes tens of nanoseconds to be done once it runs.
const YIELDS_MOST: u32 = 16;

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
    /// With how many the lock is yielded for.
    too_many: usize,
}

impl SharedFill {
    /// The part of one of `shares` shares.
    pub(super) fn new(queue: Arc<Queue>, share: u32, shares: u32) -> SharedFill {
        let (frames, shares) = (queue.control().layout().receive_buffers as usize, shares.max(1) as usize);
        let at_a_time = (frames / (4 * shares)).clamp(1, GIVE_BACK_FRAMES);
        let too_many = (frames / (2 * shares)).max(at_a_time);
        SharedFill { queue, share, kept: Vec::with_capacity(frames), at_a_time, too_many }
    }

    /// The ring for itself, with what was kept; as it was, while somebody else has the lock.
    pub(super) fn into_own(mut self) -> Result<OwnFill, SharedFill> {
        match FillGuard::keep(&self.queue, self.share) {
            Some(mut own) => {
                let control = self.queue.control();
                for buffer in self.kept.drain(..) {
                    control.set_holder_at(buffer, 0);
                    own.ring().push(buffer);
                }
                own.ring().submit();
                Ok(own)
            }
            None => Err(self),
        }
    }

    /// How many are kept.
    pub(super) fn kept_frames(&self) -> u32 {
        self.kept.len() as u32
    }

    /// A buffer came out of the RX ring, which does not know it yet.
    #[inline]
    pub(super) fn mark_taken(&self, buffer: u64) {
        // Shares are fewer than the word has values.
        self.queue.control().set_holder_at(buffer, self.share as u16 + 1);
    }

    /// Keeps a buffer that has been read.
    #[inline]
    pub(super) fn keep(&mut self, buffer: u64) {
        debug_assert!(self.kept.len() < self.kept.capacity(), "there is room for every buffer");
        self.kept.push(buffer);
    }

    /// Gives back what is kept, if it is enough and nobody else has the ring. How many.
    #[inline]
    pub(super) fn give_back(&mut self) -> u32 {
        if self.kept.len() >= self.at_a_time { self.try_give_back() } else { 0 }
    }

    /// The same when no frame came, and with more patience where the others may need the buffers: who keeps them may sleep next.
    #[inline]
    pub(super) fn give_back_when_empty(&mut self) -> u32 {
        let frames = self.give_back();
        if self.kept.len() >= self.too_many { frames + self.insist() } else { frames }
    }

    #[cold]
    fn insist(&mut self) -> u32 {
        for _ in 0..YIELDS_MOST {
            std::thread::yield_now();
            let frames = self.try_give_back();
            if frames > 0 {
                return frames;
            }
        }
        0
    }

    #[inline]
    fn try_give_back(&mut self) -> u32 {
        let SharedFill { queue, share, kept, .. } = self;
        let Some(mut fill) = queue.fill(*share) else { return 0 };
        fill.give_back(kept);
        let frames = kept.len() as u32;
        kept.clear();
        frames
    }

    #[cfg(test)]
    pub(super) fn while_taken(&self, work: impl FnOnce()) -> bool {
        let taken = self.queue.fill(self.share);
        if taken.is_some() {
            work();
        }
        taken.is_some()
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
    /// What the port itself keeps goes back to its shares, where nobody has the ring just now. What a share keeps is marked, and is taken
    /// back with what its RX ring has, which may still show the same buffers.
    fn drop(&mut self) {
        if self.share == 0 && !self.kept.is_empty() {
            self.try_give_back();
        }
    }
}

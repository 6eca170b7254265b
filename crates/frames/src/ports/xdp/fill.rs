//! Giving receive buffers back to a queue that several ports receive from.
//!
//! The kernel has one fill ring a queue. Where there is one port its receiver has that ring. Where there are shares, each keeps what
//! it has read and gives it back some at a time, behind a lock that nobody waits for: a signal handler may receive by one
//! share in the middle of another's turn, in the same thread. Who finds the lock taken keeps its buffers and tries again with
//! its next frame or its next look.
//!
//! Invariant: each buffer is in the ring once or with one receiver, and both have room for all of them, so nothing is lost and
//! nothing grows. What idle shares keep is at most a quarter of the buffers, and half of them where they found the lock taken.

use std::cell::UnsafeCell;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::rings::{FlagsWord, ProducerRing};

/// Buffers given back at a time, where there are enough for all shares.
const GIVE_BACK_FRAMES: usize = 16;
/// How often a share that keeps too many yields to whoever has the lock, which takes tens of nanoseconds to be done once it runs.
const YIELDS_MOST: u32 = 16;

/// How a receiver gives buffers back.
#[derive(Debug)]
pub(super) enum Fill {
    /// It is the only one.
    Own(ProducerRing<u64>),
    /// There are others.
    Shared(SharedFill),
}

/// The ring that several give back to.
#[derive(Debug)]
pub(super) struct SharedRing {
    is_taken: AtomicBool,
    ring: UnsafeCell<ProducerRing<u64>>,
    /// Of the ring: the kernel's word, for those that have not taken it.
    flags: FlagsWord,
    /// What the program marks records with; 0: it writes none.
    mark: AtomicU64,
}

// SAFETY: the cell is used by whoever set `is_taken` alone, until it is cleared, and the ring can be used by any thread (`Send`).
unsafe impl Sync for SharedRing {}

impl SharedRing {
    fn new(ring: ProducerRing<u64>) -> SharedRing {
        let (is_taken, flags) = (AtomicBool::new(false), ring.flags());
        SharedRing { is_taken, flags, ring: UnsafeCell::new(ring), mark: AtomicU64::new(0) }
    }

    /// Gives `work` the ring, unless somebody has it.
    #[inline]
    fn try_with(&self, work: impl FnOnce(&mut ProducerRing<u64>)) -> bool {
        // Looked at first: an exchange takes the cache line even where it fails.
        if self.is_taken.load(Ordering::Relaxed) || self.is_taken.swap(true, Ordering::Acquire) {
            return false;
        }
        // SAFETY: `is_taken` was clear and is set by this call, so nobody else has the ring until it is cleared below. A panic in
        // `work` leaves it set: then nobody has it any more.
        work(unsafe { &mut *self.ring.get() });
        self.is_taken.store(false, Ordering::Release);
        true
    }
}

/// One receiver's part in a shared ring.
#[derive(Debug)]
pub(super) struct SharedFill {
    ring: Arc<SharedRing>,
    /// Buffers to be given back; made for as many as there are.
    kept: Vec<u64>,
    /// How many are given back at a time.
    at_a_time: usize,
    /// With how many the lock is yielded for.
    too_many: usize,
}

impl SharedFill {
    /// Makes a ring of `frames` buffers one that so many can share.
    pub(super) fn new(ring: ProducerRing<u64>, frames: usize, shares_most: u32) -> SharedFill {
        let shares = shares_most as usize;
        let at_a_time = (frames / (4 * shares)).clamp(1, GIVE_BACK_FRAMES);
        let too_many = (frames / (2 * shares)).max(at_a_time);
        let ring = Arc::new(SharedRing::new(ring));
        SharedFill { ring, kept: Vec::with_capacity(frames), at_a_time, too_many }
    }

    /// Another receiver's part.
    pub(super) fn another(&self) -> SharedFill {
        let kept = Vec::with_capacity(self.kept.capacity());
        SharedFill { ring: Arc::clone(&self.ring), kept, at_a_time: self.at_a_time, too_many: self.too_many }
    }

    /// The ring with what was kept; itself, while somebody else has a part.
    pub(super) fn into_own(mut self) -> Result<ProducerRing<u64>, SharedFill> {
        let kept = std::mem::take(&mut self.kept);
        let (ring, at_a_time, too_many) = (Arc::clone(&self.ring), self.at_a_time, self.too_many);
        drop(self);
        match Arc::try_unwrap(ring) {
            Ok(ring) => {
                let mut ring = ring.ring.into_inner();
                push_all(&mut ring, &kept);
                Ok(ring)
            }
            Err(ring) => Err(SharedFill { ring, kept, at_a_time, too_many }),
        }
    }

    /// Keeps what another receiver of the same queue kept.
    pub(super) fn keep_all_of(&mut self, other: &mut SharedFill) {
        self.kept.append(&mut other.kept);
    }

    /// How many are kept.
    pub(super) fn kept_frames(&self) -> u32 {
        self.kept.len() as u32
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
        let SharedFill { ring, kept, .. } = self;
        if !ring.try_with(|ring| push_all(ring, kept)) {
            return 0;
        }
        let frames = kept.len() as u32;
        kept.clear();
        frames
    }

    #[cfg(test)]
    pub(super) fn while_taken(&self, work: impl FnOnce()) -> bool {
        self.ring.try_with(|_| work())
    }

    /// The driver ran out of buffers and waits to be told that there are some.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags.needs_wakeup()
    }

    /// What the program marks records with, for receivers that do not read them.
    #[inline]
    pub(super) fn mark(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.ring.mark.load(Ordering::Relaxed))
    }

    pub(super) fn set_mark(&self, mark: NonZeroU64) {
        self.ring.mark.store(mark.get(), Ordering::Relaxed);
    }
}

fn push_all(ring: &mut ProducerRing<u64>, buffers: &[u64]) {
    for buffer in buffers {
        let pushed = ring.push(*buffer);
        debug_assert!(pushed, "the fill ring has a slot for every buffer");
    }
    ring.submit();
}

impl Drop for SharedFill {
    /// What is kept goes back, where nobody has the ring just now.
    fn drop(&mut self) {
        if !self.kept.is_empty() {
            self.try_give_back();
        }
    }
}

//! What all sockets of a queue have in common: the memory, the fill ring and the completion ring.
//!
//! The kernel has one fill ring and one completion ring for all sockets of a queue (`xp_assign_dev` in `net/xdp/xsk_buff_pool.c` gives a queue one
//! pool), and one producer or consumer at a time. So each has a lock, in memory that all users map, of whatever process. The word holds the
//! number of the share. Nobody waits for it on the hot path: a signal handler may receive by one share in the middle of another's turn, in
//! the same thread. If the lock is taken, buffers stay with the caller, who tries again later. Uncontended it is one exchange for a batch.
//!
//! **A holder may die.** Whoever is told takes the lock away from its number and goes on from the ring's own indices:
//!
//! * Fill ring: descriptors are written behind the producer index, then `batch` says how many, then the buffers' words are cleared, then the producer
//!   index moves. With a `batch` the rest is done for the dead holder; without one its buffers are still marked as its own.
//! * Completion ring: entries are read and their buffers' words cleared, then the consumer index moves. A dead holder's entries are
//!   read again. Words of send buffers are looked at under the lock only, so nobody has sent from such a buffer meanwhile.
//!
//! A port without shares holds the fill lock all the time ([`OwnFill`]), and gives back without an exchange and without marks.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use rustix::net::xdp::{XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets};

use super::control::Control;
use super::rings::{ConsumerRing, FlagsWord, ProducerRing, RingSpec};
use super::umem::Umem;

/// How long a lock is waited for where a share is taken back: whoever has it is done in microseconds, once it runs.
const PATIENCE: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    fill: UnsafeCell<ProducerRing<u64>>,
    completion: UnsafeCell<ConsumerRing<u64>>,
    /// Of the fill ring: the kernel's word, for those that have not the lock.
    flags: FlagsWord,
    memory: Arc<Umem>,
}

// SAFETY: each cell is used by whoever has its lock alone, and the rings can be used by any thread (`Send`). The lock's word is in memory that
// other processes write too: one that breaks the rule has two users of one index, which loses buffers, while the ring's accesses stay within the
// mapping whatever the indices are.
unsafe impl Sync for Queue {}

/// Slots of a queue's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueSlots {
    pub fill: u32,
    pub completion: u32,
}

impl Queue {
    /// Maps the rings of the queue that `socket` is bound to, or will be.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: &XdpMmapOffsets,
        slots: QueueSlots,
        memory: Arc<Umem>,
    ) -> io::Result<Queue> {
        let spec = |page_offset, offsets, slots| RingSpec::of(socket, page_offset, offsets, slots);
        let fill = ProducerRing::map(&spec(XDP_UMEM_PGOFF_FILL_RING, offsets.fr, slots.fill))?;
        let completion = ConsumerRing::map(&spec(XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, slots.completion))?;
        let flags = fill.flags();
        Ok(Queue { fill: UnsafeCell::new(fill), completion: UnsafeCell::new(completion), flags, memory })
    }

    pub(super) fn memory(&self) -> &Arc<Umem> {
        &self.memory
    }

    pub(super) fn control(&self) -> &Control {
        self.memory.control()
    }

    /// The driver ran out of buffers and waits to be told that there are some.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.flags.needs_wakeup()
    }

    /// The fill ring, unless somebody has it.
    #[inline]
    pub(super) fn fill(&self, share: u32) -> Option<FillGuard<'_>> {
        take(self.control().fill_lock(), share).then(|| FillGuard(self))
    }

    /// The completion ring, unless somebody has it.
    #[inline]
    pub(super) fn completions(&self, share: u32) -> Option<SendGuard<'_>> {
        take(self.control().send_lock(), share).then(|| SendGuard(self))
    }

    /// The fill ring, also from a share that is over. `None`: somebody else keeps it.
    pub(super) fn fill_from(&self, dead: u32, share: u32) -> Option<FillGuard<'_>> {
        let was_dead = take_from(self.control().fill_lock(), dead, share)?;
        let mut guard = FillGuard(self);
        if was_dead {
            guard.finish_batch();
        }
        Some(guard)
    }

    /// The completion ring, also from a share that is over.
    pub(super) fn completions_from(&self, dead: u32, share: u32) -> Option<SendGuard<'_>> {
        take_from(self.control().send_lock(), dead, share).map(|_| SendGuard(self))
    }
}

#[inline]
fn take(lock: &AtomicU32, share: u32) -> bool {
    // Looked at first: an exchange takes the cache line even where it fails.
    lock.load(Ordering::Relaxed) == 0
        && lock.compare_exchange(0, share + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Whether it was the dead share's; `None`: it is not to be had.
fn take_from(lock: &AtomicU32, dead: u32, share: u32) -> Option<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        for (holder, was_dead) in [(0, false), (dead + 1, true)] {
            if lock.compare_exchange(holder, share + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(was_dead);
            }
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Holds the fill lock.
#[derive(Debug)]
pub(super) struct FillGuard<'q>(&'q Queue);

impl FillGuard<'_> {
    fn ring(&mut self) -> &mut ProducerRing<u64> {
        // SAFETY: this value has the lock, and the reference borrows it.
        unsafe { &mut *self.0.fill.get() }
    }

    /// Puts buffers into the ring and clears their words.
    #[inline]
    pub(super) fn give_back(&mut self, buffers: &[u64]) {
        let control = self.0.control();
        let ring = self.ring();
        let base = ring.resume();
        for buffer in buffers {
            let pushed = ring.push(*buffer);
            debug_assert!(pushed, "the fill ring has a slot for every buffer");
        }
        // The compiler keeps the order of these steps; a CPU keeps it for whoever looks after the process has ended.
        compiler_fence(Ordering::SeqCst);
        control.batch().store(u64::from(base) << 32 | buffers.len() as u64, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        buffers.iter().for_each(|buffer| control.set_holder_at(*buffer, 0));
        compiler_fence(Ordering::SeqCst);
        ring.submit();
        compiler_fence(Ordering::SeqCst);
        control.batch().store(0, Ordering::Release);
    }

    /// Does what is left of a dead holder's [`FillGuard::give_back`].
    fn finish_batch(&mut self) {
        let control = self.0.control();
        let batch = control.batch().swap(0, Ordering::AcqRel);
        let (base, frames) = ((batch >> 32) as u32, batch as u32);
        if frames == 0 || frames > control.layout().receive_buffers {
            return;
        }
        let ring = self.ring();
        if ring.resume() != base {
            // The producer index has moved: the words were cleared before.
            return;
        }
        for count in 0..frames {
            control.set_holder_at(ring.pushed(base.wrapping_add(count)), 0);
        }
        ring.advance(frames);
        ring.submit();
    }

    /// Keeps the lock.
    pub(super) fn keep(queue: &Arc<Queue>, share: u32) -> Option<OwnFill> {
        take(queue.control().fill_lock(), share).then(|| {
            let mut own = OwnFill(Arc::clone(queue));
            own.ring().resume();
            own
        })
    }
}

impl Drop for FillGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.control().fill_lock().store(0, Ordering::Release);
    }
}

/// Holds the fill lock for as long as a port has no shares.
#[derive(Debug)]
pub(super) struct OwnFill(Arc<Queue>);

impl OwnFill {
    #[inline]
    pub(super) fn ring(&mut self) -> &mut ProducerRing<u64> {
        // SAFETY: this value has the lock, and the reference borrows it.
        unsafe { &mut *self.0.fill.get() }
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.0
    }
}

impl Drop for OwnFill {
    fn drop(&mut self) {
        self.ring().submit();
        self.0.control().fill_lock().store(0, Ordering::Release);
    }
}

/// Holds the completion ring's lock.
#[derive(Debug)]
pub(super) struct SendGuard<'q>(&'q Queue);

impl SendGuard<'_> {
    /// Clears the words of the buffers that were sent.
    #[inline]
    pub(super) fn drain(&mut self) {
        let control = self.0.control();
        // SAFETY: this value has the lock, and the reference borrows it.
        let ring = unsafe { &mut *self.0.completion.get() };
        ring.resume();
        let Some(address) = ring.pop() else { return };
        control.set_holder_at(address, 0);
        while let Some(address) = ring.pop() {
            control.set_holder_at(address, 0);
        }
        compiler_fence(Ordering::SeqCst);
        ring.release();
    }

    /// Whether the kernel has told of all buffers of an area.
    #[inline]
    pub(super) fn is_done(&self, address: u64, buffers: u32) -> bool {
        let control = self.0.control();
        let frame_size_bytes = u64::from(control.layout().frame_size_bytes);
        (0..u64::from(buffers)).all(|at| control.holder_at(address + at * frame_size_bytes) == 0)
    }
}

impl Drop for SendGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.control().send_lock().store(0, Ordering::Release);
    }
}

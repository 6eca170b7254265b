//! The fill ring and the completion ring of a queue, used by several at once: shares in threads and processes that the scheduler stops, and
//! that may be killed, between any two instructions. No share waits for another: one that finds a step of another half done completes it.
//!
//! **Fill ring.** The kernel masks what is below a buffer's size off an address (`xp_aligned_extract_addr` in `net/xdp/xsk_buff_pool.c`), so a slot
//! has room for the *lap*: how often the ring's index has gone round, modulo [`LAPS`].
//!
//! ```text
//!   consumer index -->| laps of now: the kernel's |<-- producer index -->| laps of now: pushed |  laps of before: free |
//! ```
//!
//! 1. A pusher puts its buffer into the first slot with the lap before, by one exchange. Its word still says that the pusher holds it.
//! 2. Anybody sets free the words of buffers behind the producer index whose slots have the lap of now, and then moves the index past them.
//!
//! So a buffer behind the producer index that a dead share had pushed is passed by the next who pushes, and one whose word still names that share
//! when all that was pushed is passed was never pushed. A word is set free only while the index has not passed its slot, or not at all
//! ([`super::holder`]).
//!
//! **Completion ring.** Anybody sets free the words of the buffers in it, and then moves the consumer index past them. Who wants to send from a
//! buffer again looks at its word, and then [empties](SharedRing::empty) the ring: no other can be about to set the word free for the old send then,
//! as the consumer index has passed that entry.
//!
//! Others may store anything here: indices are masked, and addresses only say whose word is meant.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::control::Control;

/// Laps that a slot can distinguish: buffers have at least so many bytes.
const LAPS: u64 = 2048;

/// A ring of addresses. See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedRing<'r> {
    pub producer: &'r AtomicU32,
    pub consumer: &'r AtomicU32,
    /// A power of two.
    pub slots: &'r [AtomicU64],
}

/// The buffer that a slot names.
#[inline]
pub(super) fn address_of(slot: u64) -> u64 {
    slot & !(LAPS - 1)
}

#[inline]
fn lap_of(slot: u64) -> u64 {
    slot & (LAPS - 1)
}

impl<'r> SharedRing<'r> {
    #[inline]
    fn slot(&self, at: u32) -> &'r AtomicU64 {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }

    /// What the slot at an index says, whatever lap it is of.
    #[inline]
    pub(super) fn slot_at(&self, at: u32) -> u64 {
        self.slot(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn lap(&self, at: u32) -> u64 {
        u64::from(at >> self.slots.len().trailing_zeros()) % LAPS
    }

    #[inline]
    fn lap_before(&self, at: u32) -> u64 {
        self.lap(at).wrapping_sub(1) % LAPS
    }

    /// Writes the laps into a fill ring that one used alone up to here, and still does.
    pub(super) fn begin_sharing(&self) {
        let (consumed, produced) = (self.consumer.load(Ordering::Acquire), self.producer.load(Ordering::Relaxed));
        let live = produced.wrapping_sub(consumed);
        for count in 0..self.slots.len() as u32 {
            let at = consumed.wrapping_add(count);
            let lap = if count < live { self.lap(at) } else { self.lap_before(at) };
            // The kernel may read it just now: the address stays what it was.
            self.slot(at).store(address_of(self.slot_at(at)) | lap, Ordering::Relaxed);
        }
    }

    /// Gives buffers to the kernel, which the caller holds.
    #[inline]
    pub(super) fn fill(&self, buffers: &[u64], control: &Control) {
        let mut at = self.producer.load(Ordering::Acquire);
        for buffer in buffers {
            at = self.push(*buffer, at);
        }
        self.pass(control);
    }

    /// The index to go on from. There is a free slot: the ring has more of them than there are buffers.
    #[inline]
    fn push(&self, buffer: u64, from: u32) -> u32 {
        let mut at = from;
        loop {
            step();
            let found = self.slot(at).load(Ordering::Acquire);
            if lap_of(found) == self.lap(at) {
                at = at.wrapping_add(1);
            } else if lap_of(found) != self.lap_before(at) {
                // Others went round while this one stood still.
                at = self.producer.load(Ordering::Acquire);
            } else {
                step();
                let pushed = address_of(buffer) | self.lap(at);
                if self.slot(at).compare_exchange(found, pushed, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return at.wrapping_add(1);
                }
            }
        }
    }

    /// Has the kernel see all that was pushed, by whoever.
    #[inline]
    fn pass(&self, control: &Control) {
        'moved: loop {
            let at = self.producer.load(Ordering::Acquire);
            let mut next = at;
            while next.wrapping_sub(at) < self.slots.len() as u32 {
                step();
                let found = self.slot(next).load(Ordering::Acquire);
                if lap_of(found) != self.lap(next) {
                    break;
                }
                // What the word says is of the pusher: nobody else can have had the buffer since.
                if !free_unless_moved(control, address_of(found), self.producer, at) {
                    continue 'moved;
                }
                next = next.wrapping_add(1);
            }
            if next == at {
                return;
            }
            step();
            let _ = self.producer.compare_exchange(at, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Takes all entries out of a completion ring.
    #[inline]
    pub(super) fn empty(&self, control: &Control) {
        loop {
            let at = self.consumer.load(Ordering::Acquire);
            let entries = self.producer.load(Ordering::Acquire).wrapping_sub(at);
            if entries == 0 || entries > self.slots.len() as u32 {
                return;
            }
            let mut addresses = (0..entries).map(|count| self.slot_at(at.wrapping_add(count)));
            if addresses.all(|address| free_unless_moved(control, address, self.consumer, at)) {
                step();
                let end = at.wrapping_add(entries);
                let _ = self.consumer.compare_exchange(at, end, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

/// Sets a buffer's word free as it was while the index still stood at `at`; `false`: the index has moved, and nothing was set free.
#[inline]
fn free_unless_moved(control: &Control, address: u64, index: &AtomicU32, at: u32) -> bool {
    let held = control.holder(address).map(|word| (word, word.read()));
    step();
    if index.load(Ordering::Acquire) != at {
        return false;
    }
    step();
    held.into_iter().for_each(|(word, held)| word.free(held));
    true
}

/// Between two steps anything may happen: tests let other threads go on here, or let this one die.
#[inline]
fn step() {
    #[cfg(test)]
    tests::step();
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ports::xdp::control::Layout;
    use crate::ports::xdp::umem::Umem;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    struct Stopped;

    thread_local! {
        /// Steps until this thread dies; 0: never.
        static LEFT: Cell<u32> = const { Cell::new(0) };
        /// What decides whether others go on between two steps; 0: nothing does.
        static CHANCE: Cell<u64> = const { Cell::new(0) };
    }

    pub(in super::super) fn step() {
        let left = LEFT.get();
        if left == 1 {
            LEFT.set(0);
            resume_unwind(Box::new(Stopped));
        }
        LEFT.set(left.saturating_sub(1));
        if CHANCE.get() != 0 && random().is_multiple_of(8) {
            std::thread::yield_now();
        }
    }

    pub(in super::super) fn stop_after(steps: u32) {
        LEFT.set(steps);
    }

    pub(in super::super) fn stop_never() {
        LEFT.set(0);
    }

    /// Whether the thread comes to the end of it.
    fn survives(work: impl FnOnce()) -> bool {
        let end = catch_unwind(AssertUnwindSafe(work));
        stop_never();
        match end {
            Ok(()) => true,
            Err(stopped) if stopped.is::<Stopped>() => false,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn random() -> u64 {
        let mut random = CHANCE.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        CHANCE.set(random);
        random
    }

    const BYTES: u64 = 2048;
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The two rings of a queue, in memory, from near the end of the indices on.
    struct Queue {
        memory: Umem,
        indices: [AtomicU32; 2],
        slots: Box<[AtomicU64]>,
    }

    fn queue(receive_buffers: u32, send_buffers: u32) -> Queue {
        let layout = Layout { frame_size_bytes: BYTES as u32, receive_buffers, send_buffers, senders: 1 };
        let memory = Umem::create(layout, false, false).unwrap();
        let slots = (2 * (receive_buffers + send_buffers)).next_power_of_two();
        let indices = [(); 2].map(|()| AtomicU32::new(0_u32.wrapping_sub(1000)));
        Queue { memory, indices, slots: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    impl Queue {
        fn ring(&self) -> SharedRing<'_> {
            SharedRing { producer: &self.indices[0], consumer: &self.indices[1], slots: &self.slots }
        }

        /// As the kernel takes a buffer out of the fill ring.
        fn consume(&self) -> Option<u64> {
            let at = self.indices[1].load(Ordering::Acquire);
            (at != self.indices[0].load(Ordering::Acquire)).then(|| {
                let address = address_of(self.ring().slot_at(at));
                self.indices[1].store(at.wrapping_add(1), Ordering::Release);
                address
            })
        }

        /// As it puts one into the completion ring.
        fn complete(&self, address: u64) {
            let at = self.indices[0].load(Ordering::Acquire);
            self.ring().slot(at).store(address, Ordering::Relaxed);
            self.indices[0].store(at.wrapping_add(1), Ordering::Release);
        }
    }

    /// Shares take frames from their RX rings and give the buffers back; each dies now and then at any step, and what it had is taken back as
    /// a seat does it. No buffer is in two places, and none is lost.
    #[test]
    fn fill_ring_of_shares_that_die_at_any_step_has_every_buffer_once() {
        const BUFFERS: u32 = 24;
        const SHARES: usize = 3;
        let queue = queue(BUFFERS, 0);
        let (ring, control) = (queue.ring(), queue.memory.control());
        ring.begin_sharing();
        let all: Vec<u64> = (0..BUFFERS).map(|buffer| u64::from(buffer) * BYTES).collect();
        ring.fill(&all, control);
        let rx: [Mutex<VecDeque<u64>>; SHARES] = [const { Mutex::new(VecDeque::new()) }; SHARES];
        let over = AtomicBool::new(false);
        let share = |number: usize| {
            let control = queue.memory.control();
            CHANCE.set(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 32);
            let (mut deaths, mut kept) = (0, Vec::new());
            while !over.load(Ordering::Relaxed) {
                stop_after(if random().is_multiple_of(4) { random() as u32 % 60 } else { 0 });
                let is_alive = survives(|| {
                    for _ in 0..random() % 6 {
                        let popped = rx[number].lock().unwrap().pop_front();
                        kept.extend(popped.inspect(|address| control.hold(*address, number as u32)));
                    }
                    ring.fill(&kept, control);
                    kept.clear();
                });
                if !is_alive {
                    deaths += 1;
                    kept.clear();
                    for unread in rx[number].lock().unwrap().drain(..) {
                        control.hold(unread, number as u32);
                    }
                    ring.fill(&[], control);
                    let own: Vec<u64> = control.held_by(number as u32).collect();
                    ring.fill(&own, control);
                }
            }
            ring.fill(&kept, control);
            deaths
        };
        std::thread::scope(|scope| {
            let share = &share;
            let shares: Vec<_> = (0..SHARES).map(|number| scope.spawn(move || share(number))).collect();
            CHANCE.set(1);
            let (mut frames, until) = (0_u32, Instant::now() + PATIENCE);
            while frames < 10_000 && Instant::now() < until {
                let Some(address) = queue.consume() else { continue };
                // A buffer that the kernel gets is nobody's, and in no RX ring.
                assert!(control.is_free(address), "{address:#x}");
                let mut rings: Vec<_> = rx.iter().map(|rx| rx.lock().unwrap()).collect();
                assert!(rings.iter().all(|ring| !ring.contains(&address)), "{address:#x}");
                rings[random() as usize % SHARES].push_back(address);
                frames += 1;
            }
            over.store(true, Ordering::Relaxed);
            let deaths: Vec<u32> = shares.into_iter().map(|share| share.join().unwrap()).collect();
            assert!(frames == 10_000 && deaths.iter().all(|deaths| *deaths > 5), "{frames} frames, {deaths:?}");
        });
        let unread = rx.iter().flat_map(|rx| std::mem::take(&mut *rx.lock().unwrap()));
        let mut found: Vec<u64> = unread.chain(std::iter::from_fn(|| queue.consume())).collect();
        found.sort_unstable();
        assert_eq!(found, all);
    }

    /// Senders use a buffer again as soon as it is reported. None is used while the kernel has it, and each comes back.
    #[test]
    fn completion_ring_emptied_by_several_that_die_frees_no_buffer_on_its_way() {
        const SENDERS: u64 = 3;
        const EACH: u64 = 4;
        let queue = queue(0, (SENDERS * EACH) as u32);
        let (ring, control) = (queue.ring(), queue.memory.control());
        let (sent, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let sender = |number: u64| {
            let control = queue.memory.control();
            CHANCE.set(0x9e37_79b9_7f4a_7c15 ^ (number + 1) << 32);
            let own = || (number * EACH..(number + 1) * EACH).map(|buffer| buffer * BYTES);
            let mut sends = 0_u64;
            while !over.load(Ordering::Relaxed) {
                stop_after(if random().is_multiple_of(4) { random() as u32 % 20 } else { 0 });
                survives(|| {
                    ring.empty(control);
                    let free: Vec<u64> = own().filter(|address| control.is_free(*address)).collect();
                    ring.empty(control);
                    for address in free {
                        let mut sent = sent.lock().unwrap();
                        assert!(!sent.contains(&address), "{address:#x} is on its way");
                        control.hold(address, 0);
                        sent.push(address);
                        sends += 1;
                    }
                });
            }
            sends
        };
        std::thread::scope(|scope| {
            let sender = &sender;
            let senders: Vec<_> = (0..SENDERS).map(|number| scope.spawn(move || sender(number))).collect();
            CHANCE.set(1);
            let (mut frames, until) = (0_u32, Instant::now() + PATIENCE);
            while frames < 30_000 && Instant::now() < until {
                let mut sent = sent.lock().unwrap();
                if !sent.is_empty() {
                    let at = random() as usize % sent.len();
                    queue.complete(sent.swap_remove(at));
                    frames += 1;
                }
            }
            over.store(true, Ordering::Relaxed);
            for sender in senders {
                let sends = sender.join().unwrap();
                assert!(sends > 20, "{sends} sends");
            }
        });
        sent.lock().unwrap().drain(..).for_each(|address| queue.complete(address));
        ring.empty(control);
        assert!((0..SENDERS * EACH).all(|buffer| control.is_free(buffer * BYTES)));
    }
}

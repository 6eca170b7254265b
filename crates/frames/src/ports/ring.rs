//! Index logic of a ring with one producer and one consumer, as AF_XDP has it, over any home of the two indices.
//!
//! ```text
//!   consumer index -->|<-- filled, the consumer's -->|<-- free, the producer's -->| (+ size)
//!                     ^                              ^
//!          moved by the consumer           moved by the producer
//! ```
//!
//! Both indices run freely over all of `u32` and wrap; a slot is an index masked. Each side keeps the other's index as
//! it last saw it and looks again only when that is not enough: the other side's cache line is fetched once a batch, not
//! once a frame.
//!
//! Invariant: `producer - consumer <= size`, always, in wrapping arithmetic. A slot is written before the producer
//! index that covers it is stored (release) and read after that index was loaded (acquire), and the same the other way
//! round for reuse. Source: `Documentation/networking/af_xdp.rst`, `net/xdp/xsk_queue.h`.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// The producer's side of a ring's indices. `A` leads to an index: a reference, an `Arc`, a mapped word.
#[derive(Debug)]
pub struct ProducerIndex<A> {
    producer: A,
    consumer: A,
    size_slots: u32,
    /// Next slot to hand out; ahead of the shared index by what is reserved and not submitted.
    next: u32,
    /// The shared consumer index as last seen.
    consumer_seen: u32,
}

impl<A: Deref<Target = AtomicU32>> ProducerIndex<A> {
    /// Takes the producer's side of a ring in the state its indices are in.
    ///
    /// # Panics
    /// `size_slots` is not a power of two.
    pub fn new(producer: A, consumer: A, size_slots: u32) -> ProducerIndex<A> {
        assert!(size_slots.is_power_of_two(), "ring sizes are powers of two");
        let next = producer.load(Ordering::Relaxed);
        let consumer_seen = consumer.load(Ordering::Acquire);
        ProducerIndex { producer, consumer, size_slots, next, consumer_seen }
    }

    /// A free slot to fill, if there is one. It becomes the consumer's with [`ProducerIndex::submit`].
    #[inline]
    pub fn reserve(&mut self) -> Option<u32> {
        if self.next.wrapping_sub(self.consumer_seen) == self.size_slots {
            self.consumer_seen = self.consumer.load(Ordering::Acquire);
            if self.next.wrapping_sub(self.consumer_seen) == self.size_slots {
                return None;
            }
        }
        let slot = self.next & (self.size_slots - 1);
        self.next = self.next.wrapping_add(1);
        Some(slot)
    }

    /// Goes on from the shared index, which another producer may have moved; where that is. Room is not looked for: there must be a slot
    /// for everything that can be in the ring.
    #[inline]
    pub fn resume(&mut self) -> u32 {
        self.next = self.producer.load(Ordering::Relaxed);
        self.consumer_seen = self.next;
        self.next
    }

    /// The index of the next reservation.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.next
    }

    /// Takes the last reservation back, before it is submitted.
    #[inline]
    pub fn cancel(&mut self) {
        debug_assert_ne!(self.next, self.producer.load(Ordering::Relaxed), "a slot is reserved and not submitted");
        self.next = self.next.wrapping_sub(1);
    }

    /// The slot of the `count`th reservation, when the ring began at 0.
    #[inline]
    pub fn slot_of(&self, count: u32) -> u32 {
        count & (self.size_slots - 1)
    }

    /// Hands everything reserved, and filled since, to the consumer.
    #[inline]
    pub fn submit(&mut self) {
        self.producer.store(self.next, Ordering::Release);
    }

    /// Slots submitted that the consumer has not taken yet. Looks at the shared index.
    #[inline]
    pub fn unconsumed(&mut self) -> u32 {
        self.consumer_seen = self.consumer.load(Ordering::Acquire);
        self.producer.load(Ordering::Relaxed).wrapping_sub(self.consumer_seen)
    }

    /// Slots that the consumer has taken, when the ring began at 0, wrapping. Looks at the shared index.
    #[inline]
    #[must_use]
    pub fn consumed(&self) -> u32 {
        self.consumer.load(Ordering::Acquire)
    }
}

/// The consumer's side of a ring's indices.
#[derive(Debug)]
pub struct ConsumerIndex<A> {
    producer: A,
    consumer: A,
    size_slots: u32,
    /// Next slot to take; ahead of the shared index by what is taken and not released.
    next: u32,
    /// The shared producer index as last seen.
    producer_seen: u32,
}

impl<A: Deref<Target = AtomicU32>> ConsumerIndex<A> {
    /// Takes the consumer's side of a ring in the state its indices are in.
    ///
    /// # Panics
    /// `size_slots` is not a power of two.
    pub fn new(producer: A, consumer: A, size_slots: u32) -> ConsumerIndex<A> {
        assert!(size_slots.is_power_of_two(), "ring sizes are powers of two");
        let next = consumer.load(Ordering::Relaxed);
        let producer_seen = producer.load(Ordering::Acquire);
        ConsumerIndex { producer, consumer, size_slots, next, producer_seen }
    }

    /// Goes on from the shared index, which another consumer may have moved.
    #[inline]
    pub fn resume(&mut self) {
        self.next = self.consumer.load(Ordering::Relaxed);
        self.producer_seen = self.next;
    }

    /// True when there is a filled slot to take.
    #[inline]
    pub fn has_next(&mut self) -> bool {
        if self.next == self.producer_seen {
            self.producer_seen = self.producer.load(Ordering::Acquire);
        }
        self.next != self.producer_seen
    }

    /// The next filled slot, if there is one. It becomes the producer's again with [`ConsumerIndex::release`].
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        if !self.has_next() {
            return None;
        }
        let slot = self.next & (self.size_slots - 1);
        self.next = self.next.wrapping_add(1);
        Some(slot)
    }

    /// Slots known to be filled and not taken yet. Does not look at the shared index.
    #[inline]
    pub fn known(&self) -> u32 {
        self.producer_seen.wrapping_sub(self.next)
    }

    /// Slots filled and not taken yet. Looks at the shared index.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.producer.load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// Gives everything taken back to the producer.
    #[inline]
    pub fn release(&mut self) {
        self.consumer.store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A ring with the slots' content, whose indices start anywhere.
    struct Ring {
        producer: ProducerIndex<Arc<AtomicU32>>,
        consumer: ConsumerIndex<Arc<AtomicU32>>,
        slots: Vec<u32>,
    }

    fn ring(size_slots: u32, start: u32) -> Ring {
        let indices = [Arc::new(AtomicU32::new(start)), Arc::new(AtomicU32::new(start))];
        Ring {
            producer: ProducerIndex::new(indices[0].clone(), indices[1].clone(), size_slots),
            consumer: ConsumerIndex::new(indices[0].clone(), indices[1].clone(), size_slots),
            slots: vec![0; size_slots as usize],
        }
    }

    #[test]
    fn full_ring_reserved_gives_nothing_until_released() {
        let mut ring = ring(4, u32::MAX - 1);
        for _ in 0..4 {
            assert!(ring.producer.reserve().is_some());
        }
        assert_eq!(ring.producer.reserve(), None);
        assert_eq!(ring.consumer.take(), None, "nothing is submitted yet");
        ring.producer.submit();
        assert_eq!(ring.producer.unconsumed(), 4);
        assert!(ring.consumer.take().is_some());
        assert_eq!(ring.producer.reserve(), None, "taken is not released");
        ring.consumer.release();
        assert_eq!(ring.producer.unconsumed(), 3);
        assert!(ring.producer.reserve().is_some());
    }

    #[test]
    fn full_ring_of_largest_size_is_told_from_empty() {
        let mut ring = ring(1, u32::MAX);
        assert_eq!(ring.producer.reserve(), Some(0));
        ring.producer.submit();
        assert_eq!(ring.producer.reserve(), None);
        assert_eq!(ring.consumer.take(), Some(0));
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Reserve,
        Submit,
        Take,
        Release,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![Just(Step::Reserve), Just(Step::Submit), Just(Step::Take), Just(Step::Release)];
        proptest::collection::vec(step, 0..400)
    }

    proptest! {
        /// Whatever the steps, the consumer sees what the producer wrote, in order, once, and nothing unsubmitted.
        #[test]
        fn any_steps_taken_values_come_out_in_order(steps in steps(), size_log2 in 0u32..6, back in 0u32..64) {
            let mut ring = ring(1 << size_log2, u32::MAX - back);
            let (mut written, mut submitted, mut read, mut released) = (0u32, 0u32, 0u32, 0u32);
            for step in steps {
                match step {
                    Step::Reserve => match ring.producer.reserve() {
                        Some(slot) => {
                            ring.slots[slot as usize] = written;
                            written += 1;
                        }
                        None => prop_assert_eq!(written - released, 1 << size_log2),
                    },
                    Step::Submit => {
                        ring.producer.submit();
                        submitted = written;
                    }
                    Step::Take => match ring.consumer.take() {
                        Some(slot) => {
                            prop_assert_eq!(ring.slots[slot as usize], read);
                            prop_assert!(read < submitted);
                            read += 1;
                        }
                        None => prop_assert_eq!(read, submitted),
                    },
                    Step::Release => {
                        ring.consumer.release();
                        released = read;
                    }
                }
                prop_assert!(written - released <= 1 << size_log2);
            }
        }
    }
}

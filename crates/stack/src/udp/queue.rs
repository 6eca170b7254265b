//! Datagrams that wait for their reader.
//!
//! One pool of slots for all endpoints; an endpoint's queue is a chain through it. Free slots are reused last in, first out,
//! so that a small backlog stays in a small, warm part of the memory. The pool grows by slabs when more datagrams wait than
//! ever before; SO_RCVBUF limits each endpoint.

use std::net::{IpAddr, SocketAddr};

use super::{Datagram, Endpoint};

const NONE: u32 = u32::MAX;

/// What a queued datagram is charged on top of its payload, as the kernel charges the memory around it: `struct sk_buff`
/// (256 bytes) and `struct skb_shared_info` (320 bytes) (`include/linux/skbuff.h`, `SKB_TRUESIZE`), and the headers in
/// front of the payload.
pub const OVERHEAD_BYTES: u32 = 640;

/// Slots of a slab, a power of two: 2 MiB at 2048 bytes each.
const SLAB_SLOTS: usize = 1024;

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool {
    slabs: Vec<Slab>,
    /// Slots that were used once, of all slabs together.
    used_slots: usize,
    slots_most: usize,
    slot_bytes: usize,
    free: u32,
    /// Slots that hold a datagram.
    held_slots: usize,
    /// What an endpoint may have beyond its SO_RCVBUF, as long as few slots hold something.
    allowance_bytes: u64,
    /// Payloads that are longer than a slot, by slot: few, as only those have them that came by the kernel, or by an interface whose
    /// MTU grew.
    long: Vec<(u32, Box<[u8]>)>,
}

/// Memory of a number of slots.
#[derive(Debug)]
struct Slab {
    /// Of the slots that were used once; there is room for all.
    bytes: Vec<u8>,
    /// Those that were used once; there is room for all.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    next: u32,
    len_bytes: u32,
    meta: Meta,
}

/// A datagram without its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    source: SocketAddr,
    pub(crate) destination: IpAddr,
    ifindex: u32,
    ttl: u8,
    tos: u8,
    received_ns: u64,
    device_ns: u64,
    pub(crate) dropped_before: u32,
    pub(crate) is_by_kernel: bool,
}

/// An endpoint's chain.
#[derive(Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
    len_datagrams: u32,
    charged_bytes: u64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { first: NONE, last: NONE, len_datagrams: 0, charged_bytes: 0 }
    }
}

impl Queue {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len_datagrams == 0
    }

    pub(crate) const fn len_datagrams(&self) -> u32 {
        self.len_datagrams
    }

    pub(crate) const fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }
}

/// Why a datagram was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// SO_RCVBUF is used up.
    Full,
    /// The pool is empty.
    Memory,
}

/// The kernel counts memory in steps of cache lines.
fn charge(payload_bytes: usize) -> u64 {
    payload_bytes.next_multiple_of(64) as u64 + u64::from(OVERHEAD_BYTES)
}

impl Pool {
    pub(crate) fn new(slots: u32, slot_bytes: usize) -> Pool {
        Pool {
            slabs: if slots > 0 { vec![Slab::new(slot_bytes)] } else { Vec::new() },
            used_slots: 0,
            slots_most: slots as usize,
            slot_bytes,
            free: NONE,
            held_slots: 0,
            allowance_bytes: 0,
            long: Vec::new(),
        }
    }

    /// Lets an endpoint have so much beyond its SO_RCVBUF, as long as no more than a quarter of all slots hold something.
    pub(crate) fn allow(&mut self, allowance_bytes: u64) {
        self.allowance_bytes = allowance_bytes;
    }

    /// Whether one more datagram may wait in a queue.
    #[inline]
    pub(crate) fn may_take(&self, queue: &Queue, limit_bytes: u32) -> bool {
        let beyond_bytes = queue.charged_bytes.saturating_sub(limit_bytes.into());
        beyond_bytes == 0 || (beyond_bytes <= self.allowance_bytes && self.held_slots < self.slots_most / 4)
    }

    #[inline]
    fn slot(&self, at: u32) -> Option<&Slot> {
        let at = at as usize;
        self.slabs.get(at / SLAB_SLOTS)?.slots.get(at % SLAB_SLOTS)
    }

    #[inline]
    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot> {
        let at = at as usize;
        self.slabs.get_mut(at / SLAB_SLOTS)?.slots.get_mut(at % SLAB_SLOTS)
    }

    /// A free slot, the one used last.
    #[inline]
    fn take_slot(&mut self, slot: Slot) -> Option<u32> {
        let at = self.free;
        if let Some(place) = self.slot_mut(at) {
            let next = std::mem::replace(place, slot).next;
            self.free = next;
            return Some(at);
        }
        let at = self.used_slots;
        if at == self.slots_most {
            return None;
        }
        if at / SLAB_SLOTS == self.slabs.len() {
            self.slabs.push(Slab::new(self.slot_bytes));
        }
        let slab = &mut self.slabs[at / SLAB_SLOTS];
        slab.slots.push(slot);
        slab.bytes.resize(slab.slots.len() * self.slot_bytes, 0);
        self.used_slots += 1;
        Some(at as u32)
    }

    /// Appends a copy, for which memory is allocated if it is longer than a slot. One datagram more than the limit is taken, as by the
    /// kernel, so that a small buffer holds at least one (`net/ipv4/udp.c`, `__udp_enqueue_schedule_skb`).
    #[inline]
    pub(crate) fn push(
        &mut self,
        queue: &mut Queue,
        limit_bytes: u32,
        datagram: &Datagram<'_>,
    ) -> Result<(), QueueError> {
        if !self.may_take(queue, limit_bytes) {
            return Err(QueueError::Full);
        }
        let payload = datagram.payload;
        let slot = Slot { next: NONE, len_bytes: payload.len() as u32, meta: Meta::of(datagram) };
        let at = self.take_slot(slot).ok_or(QueueError::Memory)?;
        if payload.len() <= self.slot_bytes {
            let start = at as usize % SLAB_SLOTS * self.slot_bytes;
            self.slabs[at as usize / SLAB_SLOTS].bytes[start..start + payload.len()].copy_from_slice(payload);
        } else {
            self.keep_long(at, payload);
        }
        match self.slot_mut(queue.last) {
            Some(last) if !queue.is_empty() => last.next = at,
            _ => queue.first = at,
        }
        queue.last = at;
        queue.len_datagrams += 1;
        queue.charged_bytes += charge(payload.len());
        self.held_slots += 1;
        Ok(())
    }

    #[cold]
    fn keep_long(&mut self, at: u32, payload: &[u8]) {
        self.long.push((at, payload.into()));
    }

    /// Lends the first datagram; it stays.
    #[inline]
    pub(crate) fn front(&self, queue: &Queue) -> Option<Datagram<'_>> {
        if queue.is_empty() {
            return None;
        }
        let slab = &self.slabs[queue.first as usize / SLAB_SLOTS];
        let at = queue.first as usize % SLAB_SLOTS;
        let slot = &slab.slots[at];
        if slot.len_bytes as usize > self.slot_bytes {
            let payload = self.long.iter().find(|(of, _)| *of == queue.first).map(|(_, payload)| &payload[..]);
            return Some(slot.meta.lend(payload.unwrap_or_default()));
        }
        let start = at * self.slot_bytes;
        Some(slot.meta.lend(&slab.bytes[start..start + slot.len_bytes as usize]))
    }

    /// Drops the first datagram.
    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Queue) {
        if queue.is_empty() {
            return;
        }
        let at = queue.first;
        let (free, slot_bytes) = (self.free, self.slot_bytes);
        let Some(slot) = self.slot_mut(at) else { return };
        let is_long = slot.len_bytes as usize > slot_bytes;
        queue.first = slot.next;
        queue.len_datagrams -= 1;
        queue.charged_bytes -= charge(slot.len_bytes as usize);
        slot.next = free;
        self.free = at;
        self.held_slots -= 1;
        if is_long {
            self.long.retain(|(of, _)| *of != at);
        }
    }

    /// Moves the first datagram behind all others.
    pub(crate) fn put_last(&mut self, queue: &mut Queue) {
        let at = queue.first;
        let Some(slot) = self.slot_mut(at).filter(|_| queue.len_datagrams > 1) else { return };
        queue.first = std::mem::replace(&mut slot.next, NONE);
        if let Some(last) = self.slot_mut(queue.last) {
            last.next = at;
        }
        queue.last = at;
    }

    /// Drops all that an endpoint has.
    pub(crate) fn clear(&mut self, endpoint: &mut Endpoint) {
        while !endpoint.queue.is_empty() {
            self.pop(&mut endpoint.queue);
        }
    }

    /// Slots that hold nothing, counted one by one: more than there are, if the chain of free ones has a loop.
    pub(crate) fn free_slots(&self) -> usize {
        let next = |at: &u32| self.slot(*at).map(|slot| slot.next).filter(|next| *next != NONE);
        let free = std::iter::successors(Some(self.free).filter(|at| *at != NONE), next);
        self.slots_most - self.used_slots + free.take(self.slots_most + 1).count()
    }
}

impl Slab {
    fn new(slot_bytes: usize) -> Slab {
        // Not zeroed, so that memory of slots that are not used is not touched, wherever it is from.
        Slab { bytes: Vec::with_capacity(SLAB_SLOTS * slot_bytes), slots: Vec::with_capacity(SLAB_SLOTS) }
    }
}

impl Meta {
    #[inline]
    pub(crate) fn of(datagram: &Datagram<'_>) -> Meta {
        let Datagram {
            source,
            destination,
            ifindex,
            ttl,
            tos,
            received_ns,
            device_ns,
            dropped_before,
            is_by_kernel,
            ..
        } = *datagram;
        Meta { source, destination, ifindex, ttl, tos, received_ns, device_ns, dropped_before, is_by_kernel }
    }

    /// The datagram with its payload again.
    #[inline]
    pub(crate) const fn lend(self, payload: &[u8]) -> Datagram<'_> {
        let Meta { source, destination, ifindex, ttl, tos, received_ns, device_ns, dropped_before, is_by_kernel } =
            self;
        Datagram {
            payload,
            source,
            destination,
            ifindex,
            ttl,
            tos,
            received_ns,
            device_ns,
            dropped_before,
            is_by_kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn datagram(payload: &[u8]) -> Datagram<'_> {
        Datagram {
            payload,
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            ifindex: 3,
            ttl: 4,
            tos: 5,
            received_ns: 6,
            device_ns: 8,
            dropped_before: 7,
            is_by_kernel: false,
        }
    }

    #[test]
    fn small_buffer_pushed_takes_one_and_then_no_more() {
        let (mut pool, mut queue) = (Pool::new(8, 64), Queue::default());
        assert_eq!(pool.push(&mut queue, 1, &datagram(b"first")), Ok(()));
        assert_eq!(pool.push(&mut queue, 1, &datagram(b"second")), Err(QueueError::Full));
        assert_eq!(pool.front(&queue), Some(datagram(b"first")));
    }

    #[test]
    fn datagram_pushed_when_no_slot_is_left_is_refused() {
        let (mut pool, mut queue) = (Pool::new(1, 4), Queue::default());
        assert_eq!(pool.push(&mut queue, 1000, &datagram(b"1234")), Ok(()));
        assert_eq!(pool.push(&mut queue, 1000, &datagram(b"12345")), Err(QueueError::Memory));
        assert_eq!(pool.push(&mut queue, 1000, &datagram(b"")), Err(QueueError::Memory));
    }

    #[test]
    fn queue_beyond_its_buffer_goes_on_within_the_allowance_while_most_slots_are_free() {
        let mut pool = Pool::new(8, 64);
        pool.allow(charge(1) - 1);
        let (mut queue, mut other) = (Queue::default(), Queue::default());
        let push = |pool: &mut Pool, queue: &mut Queue| pool.push(queue, 1, &datagram(b"x"));
        assert_eq!(push(&mut pool, &mut queue), Ok(()));
        assert_eq!(push(&mut pool, &mut queue), Ok(()), "beyond the buffer, within the allowance");
        assert_eq!(push(&mut pool, &mut queue), Err(QueueError::Full), "beyond both");
        assert_eq!(push(&mut pool, &mut other), Ok(()));
        assert_eq!(push(&mut pool, &mut other), Err(QueueError::Full), "a quarter of the slots hold something");
        pool.pop(&mut queue);
        pool.pop(&mut queue);
        assert_eq!(push(&mut pool, &mut other), Ok(()));
    }

    #[test]
    fn datagrams_longer_than_a_slot_pushed_keep_their_place_and_are_charged() {
        let (mut pool, mut queue) = (Pool::new(3, 4), Queue::default());
        let payloads = [&b"1234567890"[..], b"12", b"abcdefgh"];
        for payload in payloads {
            assert_eq!(pool.push(&mut queue, 10_000, &datagram(payload)), Ok(()));
        }
        assert_eq!(queue.charged_bytes(), 3 * charge(1));
        assert_eq!(pool.push(&mut queue, 10_000, &datagram(payloads[0])), Err(QueueError::Memory));
        for payload in payloads {
            assert_eq!(pool.front(&queue), Some(datagram(payload)));
            pool.pop(&mut queue);
        }
        assert_eq!((pool.front(&queue), queue.charged_bytes(), pool.long.len()), (None, 0, 0));
    }

    #[test]
    fn more_than_a_slab_pushed_is_kept_in_order() {
        let (mut pool, mut queue) = (Pool::new(3000, 8), Queue::default());
        for round in 0..2 {
            for number in 0..2500_u32 {
                assert_eq!(pool.push(&mut queue, u32::MAX, &datagram(&number.to_ne_bytes())), Ok(()), "{round}");
            }
            for number in 0..2500_u32 {
                assert_eq!(pool.front(&queue).map(|first| first.payload.to_vec()), Some(number.to_ne_bytes().to_vec()));
                pool.pop(&mut queue);
            }
            assert_eq!((pool.free_slots(), pool.slabs.len()), (3000, 3));
        }
    }

    proptest! {
        #[test]
        fn queues_pushed_popped_and_turned_are_as_the_models(steps: Vec<(bool, u8, u8)>) {
            let mut pool = Pool::new(5, 8);
            let mut queues = [Queue::default(), Queue::default()];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (which, what, byte) in steps {
                let (queue, model_queue) = (&mut queues[usize::from(which)], &mut model[usize::from(which)]);
                if what % 4 == 3 {
                    pool.put_last(queue);
                    let first = model_queue.pop_front();
                    model_queue.extend(first);
                } else if what % 2 == 0 {
                    let payload = vec![byte; usize::from(byte % 10)];
                    let pushed = pool.push(queue, 2000, &datagram(&payload));
                    if pushed.is_ok() {
                        model_queue.push_back(payload);
                    }
                } else {
                    pool.pop(queue);
                    model_queue.pop_front();
                }
                for (queue, model) in queues.iter().zip(&model) {
                    prop_assert_eq!(pool.front(queue).map(|datagram| datagram.payload.to_vec()), model.front().cloned());
                    prop_assert_eq!(queue.len_datagrams() as usize, model.len());
                    let charged: u64 = model.iter().map(|payload| charge(payload.len())).sum();
                    prop_assert_eq!(queue.charged_bytes(), charged);
                }
                prop_assert_eq!(pool.free_slots() + model[0].len() + model[1].len(), 5);
            }
        }
    }
}

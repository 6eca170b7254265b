//! Two ends without a kernel: what one sends the other receives, in one process, from one thread or two.
//!
//! Each direction is a ring of buffers that are made once. Invariant: a buffer belongs to the sender between reserve
//! and submit and to the receiver between take and release, as [`super::ring`] has it, so no two references to one meet.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::resident::ResidentFrames;
use super::ring::{ConsumerIndex, ProducerIndex};
use crate::PortError;
use crate::port::{Port, PortStatistics, PreparedFrame};

/// Longest frame an end carries: the largest a device of MTU 9000 does, tags included.
pub const FRAME_MOST_BYTES: usize = 9022;

/// Makes the two ends. Each direction holds `capacity_frames`, rounded up to a power of two.
#[must_use]
pub fn memory_pair(capacity_frames: usize) -> (MemoryPort, MemoryPort) {
    let [there, back] = [Direction::new(capacity_frames), Direction::new(capacity_frames)].map(Arc::new);
    (MemoryPort::new(there.clone(), back.clone()), MemoryPort::new(back, there))
}

struct Direction {
    /// As long as the frame in it. Memory is allocated when a buffer is first used, and when a frame is longer than all before.
    buffers: Box<[UnsafeCell<Vec<u8>>]>,
    producer: PaddedIndex,
    consumer: PaddedIndex,
    closed: AtomicBool,
}

/// An index on a cache line of its own: the two sides would otherwise take it from each other at every frame.
#[repr(align(128))]
struct PaddedIndex(AtomicU32);

// SAFETY: a buffer is touched only by the holder of its slot: the one sender between reserve and submit, the one
// receiver between take and release (`ring`'s invariant; there is one of each, as `memory_pair` makes them and they are
// not `Clone`). The other members are atomics.
unsafe impl Sync for Direction {}

impl Direction {
    fn new(capacity_frames: usize) -> Direction {
        let buffers = capacity_frames.max(1).next_power_of_two();
        Direction {
            buffers: std::iter::repeat_with(UnsafeCell::default).take(buffers).collect(),
            producer: PaddedIndex(AtomicU32::new(0)),
            consumer: PaddedIndex(AtomicU32::new(0)),
            closed: AtomicBool::new(false),
        }
    }
}

/// Leads to one index of a direction and keeps the direction alive.
struct IndexOf(Arc<Direction>, fn(&Direction) -> &AtomicU32);

impl Deref for IndexOf {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        (self.1)(&self.0)
    }
}

fn producer_of(direction: &Arc<Direction>) -> IndexOf {
    IndexOf(direction.clone(), |direction| &direction.producer.0)
}

fn consumer_of(direction: &Arc<Direction>) -> IndexOf {
    IndexOf(direction.clone(), |direction| &direction.consumer.0)
}

/// What errors call it.
fn interface() -> String {
    "an in-memory port".to_owned()
}

/// One end of an in-memory pair.
pub struct MemoryPort {
    outgoing: Arc<Direction>,
    sender: ProducerIndex<IndexOf>,
    incoming: Arc<Direction>,
    receiver: ConsumerIndex<IndexOf>,
    prepared: ResidentFrames,
    statistics: PortStatistics,
}

impl MemoryPort {
    fn new(outgoing: Arc<Direction>, incoming: Arc<Direction>) -> MemoryPort {
        let size = |direction: &Direction| direction.buffers.len() as u32;
        MemoryPort {
            sender: ProducerIndex::new(producer_of(&outgoing), consumer_of(&outgoing), size(&outgoing)),
            receiver: ConsumerIndex::new(producer_of(&incoming), consumer_of(&incoming), size(&incoming)),
            outgoing,
            incoming,
            prepared: ResidentFrames::default(),
            statistics: PortStatistics::default(),
        }
    }

    fn length_error(&self, found_bytes: usize) -> PortError {
        PortError::FrameLength { interface: interface(), found_bytes, least_bytes: 1, most_bytes: FRAME_MOST_BYTES }
    }
}

impl Drop for MemoryPort {
    fn drop(&mut self) {
        for direction in [&self.outgoing, &self.incoming] {
            direction.closed.store(true, Ordering::Release);
        }
    }
}

impl std::fmt::Debug for MemoryPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Port for MemoryPort {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let closed = self.incoming.closed.load(Ordering::Acquire);
        let Some(slot) = self.receiver.take() else {
            // What was sent before the other end went is received first: `closed` was read before the ring.
            return if closed { Err(PortError::PeerGone) } else { Ok(None) };
        };
        let buffer = &self.incoming.buffers[slot as usize];
        // SAFETY: the slot is taken and not released, so the sender does not touch the buffer (`Direction`).
        let frame = unsafe { &*buffer.get() };
        let result = read(frame);
        self.receiver.release();
        self.statistics.received_frames += 1;
        Ok(Some(result))
    }

    #[inline]
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.queue_with(frame.len(), |buffer| buffer.copy_from_slice(frame))
    }

    #[inline]
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        if len_bytes == 0 || len_bytes > FRAME_MOST_BYTES {
            return Err(self.length_error(len_bytes));
        }
        if self.outgoing.closed.load(Ordering::Acquire) {
            return Err(PortError::PeerGone);
        }
        let Some(slot) = self.sender.reserve() else {
            self.statistics.send_refused_frames += 1;
            return Ok(false);
        };
        let buffer = &self.outgoing.buffers[slot as usize];
        // SAFETY: the slot is reserved and not submitted, so the receiver does not touch the buffer (`Direction`).
        let bytes = unsafe { &mut *buffer.get() };
        bytes.resize(len_bytes, 0);
        write(bytes);
        self.statistics.sent_frames += 1;
        Ok(true)
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        self.sender.submit();
        Ok(())
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        if frame.is_empty() || frame.len() > FRAME_MOST_BYTES {
            return Err(self.length_error(frame.len()));
        }
        self.prepared.add(frame, interface)
    }

    #[inline]
    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let resident = self.prepared.take(frame, patch, interface)?;
        let queued = self.queue(&resident);
        self.prepared.put_back(frame, resident);
        self.flush()?;
        queued
    }

    fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    fn describe(&self) -> String {
        format!("in-memory port, {} frames a direction", self.outgoing.buffers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(port: &mut MemoryPort) -> Option<Vec<u8>> {
        port.receive(<[u8]>::to_vec).unwrap()
    }

    #[test]
    fn frame_queued_is_received_after_flush_only() {
        let (mut a, mut b) = memory_pair(4);
        assert!(a.queue(b"frame").unwrap());
        assert_eq!(received(&mut b), None);
        a.flush().unwrap();
        assert_eq!(received(&mut b).as_deref(), Some(b"frame".as_slice()));
        assert_eq!((a.statistics().sent_frames, b.statistics().received_frames), (1, 1));
    }

    #[test]
    fn frame_made_in_the_ports_buffer_is_received() {
        let (mut a, mut b) = memory_pair(4);
        assert!(a.queue_with(3, |buffer| buffer.copy_from_slice(b"abc")).unwrap());
        a.flush().unwrap();
        assert_eq!(received(&mut b).as_deref(), Some(b"abc".as_slice()));
        assert!(matches!(a.queue_with(0, |_| ()), Err(PortError::FrameLength { .. })));
    }

    #[test]
    fn full_ring_queued_refuses_until_received() {
        let (mut a, mut b) = memory_pair(2);
        assert!(a.send(b"1").unwrap() && a.send(b"2").unwrap());
        assert!(!a.send(b"3").unwrap());
        assert!(received(&mut b).is_some());
        assert!(a.send(b"3").unwrap());
    }

    #[test]
    fn frame_of_impossible_length_queued_is_refused() {
        let (mut a, _b) = memory_pair(2);
        assert!(matches!(a.queue(&[]), Err(PortError::FrameLength { found_bytes: 0, .. })));
        assert!(matches!(a.queue(&[0; FRAME_MOST_BYTES + 1]), Err(PortError::FrameLength { .. })));
    }

    #[test]
    fn other_end_dropped_frames_arrive_then_error() {
        let (mut a, mut b) = memory_pair(2);
        a.send(b"last").unwrap();
        drop(a);
        assert_eq!(received(&mut b).as_deref(), Some(b"last".as_slice()));
        assert!(matches!(b.receive(|_| ()), Err(PortError::PeerGone)));
        assert!(matches!(b.queue(b"x"), Err(PortError::PeerGone)));
    }

    #[test]
    fn prepared_frame_patched_keeps_the_patch() {
        let (mut a, mut b) = memory_pair(4);
        let frame = a.prepare(b"n=0").unwrap();
        assert!(a.send_prepared(frame, |bytes| bytes[2] += 1).unwrap());
        assert!(a.send_prepared(frame, |bytes| bytes[2] += 1).unwrap());
        assert_eq!(received(&mut b).as_deref(), Some(b"n=1".as_slice()));
        assert_eq!(received(&mut b).as_deref(), Some(b"n=2".as_slice()));
    }

    #[test]
    fn two_threads_exchange_frames_all_arrive_in_order() {
        const FRAMES: u32 = if cfg!(miri) { 200 } else { 100_000 };
        let (mut a, mut b) = memory_pair(8);
        let echo = std::thread::spawn(move || {
            for wanted in 0..FRAMES {
                let got = loop {
                    match received(&mut b) {
                        Some(frame) => break frame,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(got, wanted.to_ne_bytes().repeat(1 + wanted as usize % 5));
            }
            b
        });
        for n in 0..FRAMES {
            while !a.send(&n.to_ne_bytes().repeat(1 + n as usize % 5)).unwrap() {
                std::thread::yield_now();
            }
        }
        assert_eq!(echo.join().unwrap().statistics().received_frames, u64::from(FRAMES));
    }
}

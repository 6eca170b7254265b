//! The sending half of an AF_XDP socket.
//!
//! Invariant: each send buffer is on the free list, begun, or out: in the TX ring, with the kernel or in the completion ring. Each
//! resident frame has a flag that says which. TX and completion ring have a slot for every buffer.
//!
//! All senders of a queue share one completion ring. The one that drains it marks the buffers free in the control area
//! ([`super::shared_ring`]). Each sender checks the words of its own oldest buffers, for several frames at a time: they complete nearly in the
//! order of their kicks.
//!
//! A completion alone does not say that a buffer is free. From 6.6 on, and until "xsk: Fix immature cq descriptor production" (6.17), Linux writes
//! addresses into the completion ring in the order in which the sockets of a queue began to send them, and a frame that is sent publishes the
//! next address, whosever it is: with two senders that may be a frame which the kernel has not read yet. So a buffer is free when it is reported
//! *and* the kernel has taken its descriptors from the TX ring, which it says when it has read the frame. Senders of such kernels also take
//! turns ([`super::turn`]).
//!
//! Where frames may be longer than a buffer, several that follow on each other are one to this module (an *area*): a frame is written
//! into it in one piece and described buffer by buffer. The kernel reports each buffer; the area is free when it has reported all.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Weak};

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::kick::{KICKS_MOST, Kick, Took, kick, wake};
use super::queue::Queue;
use super::rings::ProducerRing;
use super::umem::Umem;

/// Buffers that are out before the completion ring is looked at.
const REAP_FRAMES: usize = 8;
/// Buffers behind the oldest that may have been sent before it.
const OUT_OF_ORDER_MOST: usize = 8;

/// The part of the memory that sending has: send buffers, then resident frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendMemory {
    pub frame_size_bytes: u32,
    /// Where it begins.
    pub start: u64,
    pub tx_frames: u32,
    pub prepared_frames: u32,
    /// Buffers of an area.
    pub buffers: u32,
    /// Which sender of the memory has it.
    pub sender: u32,
}

impl SendMemory {
    fn area_bytes(&self) -> u64 {
        u64::from(self.frame_size_bytes) * u64::from(self.buffers)
    }

    /// Slots of a TX ring with room for every buffer, so that a push never fails.
    pub(super) fn ring_slots(&self) -> u32 {
        ((self.tx_frames + self.prepared_frames) * self.buffers).max(1).next_power_of_two()
    }

    fn address(&self, area: u32) -> u64 {
        self.start + u64::from(area) * self.area_bytes()
    }

    /// Whether the kernel has reported all buffers of an area.
    #[inline]
    fn is_done(&self, area_address: u64, queue: &Queue) -> bool {
        let buffer = |at: u32| area_address + u64::from(at) * u64::from(self.frame_size_bytes);
        (0..self.buffers).all(|at| queue.control().is_free(buffer(at)))
    }
}

/// What became of an attempt to send a resident frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreparedSend {
    Sent,
    InFlight,
    Unknown,
}

/// A buffer on its way.
#[derive(Debug, Clone, Copy)]
struct Out {
    address: u64,
    /// The producer index of the TX ring behind its descriptors.
    end: u32,
}

#[derive(Debug)]
pub(super) struct Sender {
    // Rings before memory and socket: what points into a thing goes before the thing.
    tx: ProducerRing<XdpDesc>,
    queue: Arc<Queue>,
    memory: SendMemory,
    socket: Arc<OwnedFd>,
    /// Buffers to send from, as a stack: the last one freed is the one still in the cache.
    free: Vec<u64>,
    /// Those on their way, the oldest first.
    out: VecDeque<Out>,
    /// The buffer of a send that has begun, and the most it was begun for.
    begun: Option<(u64, u32)>,
    /// One a resident frame made so far: where the TX ring was when it was sent, if that has not completed.
    in_flight: Vec<Option<u32>>,
    first_prepared_address: u64,
    /// Copy mode sends within the kick and wants it always.
    copies: bool,
    /// There may be frames that the kernel has not taken.
    pending: bool,
    /// A kick was made since the completion ring was looked at.
    unreaped: bool,
    /// A send found every buffer on its way, or its own: the device has not said yet that they are sent.
    awaits_completion: bool,
    /// A kick runs the driver's rounds.
    polls: bool,
    pub(super) sent_frames: u64,
    pub(super) refused_frames: u64,
    pub(super) kicks: u64,
}

impl Sender {
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn queue_of_socket(&self) -> &Arc<Queue> {
        &self.queue
    }

    #[inline]
    fn umem(&self) -> &Umem {
        self.queue.memory()
    }

    /// Sends by `tx`. Buffers that are on their way since another had the memory come back as they complete.
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        memory: SendMemory,
        tx: ProducerRing<XdpDesc>,
        queue: Arc<Queue>,
        copies: bool,
    ) -> Sender {
        let frames = memory.tx_frames as usize;
        let (mut free, mut out) = (Vec::with_capacity(frames), VecDeque::with_capacity(frames));
        queue.drain_completions();
        let end = tx.position();
        let has_taken_all = tx.has_consumed(end);
        for area in (0..memory.tx_frames).rev() {
            let address = memory.address(area);
            if has_taken_all && memory.is_done(address, &queue) {
                free.push(address);
            } else {
                out.push_back(Out { address, end });
            }
        }
        queue.drain_completions();
        Sender {
            tx,
            queue,
            free,
            out,
            begun: None,
            in_flight: Vec::with_capacity(memory.prepared_frames as usize),
            first_prepared_address: memory.address(memory.tx_frames),
            memory,
            socket,
            copies,
            // The kernel could not take them when the memory was another's: the interface was down.
            pending: !has_taken_all,
            unreaped: false,
            awaits_completion: false,
            polls: false,
            sent_frames: 0,
            refused_frames: 0,
            kicks: 0,
        }
    }

    /// From now on a kick runs the driver's rounds too, or no more.
    pub(super) fn set_polls(&mut self, polls: bool) {
        self.polls = polls;
    }

    #[cfg(test)]
    pub(super) fn free_frames(&self) -> usize {
        self.free.len()
    }

    pub(super) fn prepared_slots(&self) -> u32 {
        self.memory.prepared_frames
    }

    pub(super) fn prepared_frames(&self) -> u32 {
        self.in_flight.len() as u32
    }

    /// Queues a copy of `frame`, which must not be longer than a buffer; as [`Self::queue_with`].
    #[inline]
    pub(super) fn queue(&mut self, frame: &[u8]) -> bool {
        let copied: Result<bool, std::convert::Infallible> = self.queue_with(frame.len(), |buffer| {
            buffer.copy_from_slice(frame);
            Ok(())
        });
        matches!(copied, Ok(true))
    }

    /// Has `write` make a frame in a free buffer and puts it in the TX ring, unseen by the kernel until the flush.
    /// `len_bytes` must not be more than a buffer has. `false`: no buffer is free. Where `write` fails nothing is sent.
    #[inline]
    pub(super) fn queue_with<E>(
        &mut self,
        len_bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(address) = self.free_buffer() else {
            self.refused_frames += 1;
            return Ok(false);
        };
        let len_bytes = len_bytes as u32;
        // SAFETY: the buffer came off the free list, so it is in no ring and nobody else has it.
        if let Some(buffer) = unsafe { self.umem().bytes_mut(address, len_bytes) }
            && let Err(error) = write(buffer)
        {
            self.free.push(address);
            return Err(error);
        }
        self.push(address, len_bytes);
        Ok(true)
    }

    #[inline]
    fn free_buffer(&mut self) -> Option<u64> {
        // Those that another thread's kick sent are taken back here: nobody flushes for it.
        if self.free.is_empty() || self.unreaped && self.out.len() >= REAP_FRAMES {
            self.reap();
        }
        let address = self.free.pop();
        self.awaits_completion |= address.is_none();
        address
    }

    #[inline]
    fn push(&mut self, addr: u64, len: u32) {
        if self.memory.buffers == 1 {
            self.push_buffer(addr, len, XdpDescOptions::empty());
        } else {
            self.push_area(addr, len);
        }
        if addr < self.first_prepared_address {
            self.out.push_back(Out { address: addr, end: self.tx.position() });
        }
        self.pending = true;
        self.sent_frames += 1;
    }

    #[inline]
    fn push_buffer(&mut self, addr: u64, len: u32, options: XdpDescOptions) {
        let pushed = self.tx.push(XdpDesc { addr, len, options });
        debug_assert!(pushed, "the TX ring has a slot for every buffer");
        let control = self.queue.control();
        // In this order, so that of a sender that dies it is known which buffers the kernel was never shown.
        control.pushed(self.memory.sender).store(self.tx.position(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        control.hold(addr, 0);
    }

    /// The same of a frame that may be longer than a buffer.
    #[inline(never)]
    fn push_area(&mut self, addr: u64, len: u32) {
        let buffer_bytes = self.memory.frame_size_bytes;
        let buffers = len.div_ceil(buffer_bytes).max(1);
        let (mut addr, mut rest) = (addr, len);
        for _ in 1..buffers {
            self.push_buffer(addr, buffer_bytes, XdpDescOptions::XDP_PKT_CONTD);
            (addr, rest) = (addr + u64::from(buffer_bytes), rest - buffer_bytes);
        }
        self.push_buffer(addr, rest, XdpDescOptions::empty());
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Takes a buffer off the free list for the caller to fill. `None`: none is free.
    pub(super) fn begin(&mut self, len_bytes: u32) -> Option<&mut [u8]> {
        let address = self.free_buffer()?;
        self.begun = Some((address, len_bytes));
        self.begun_bytes(len_bytes)
    }

    /// The first `len_bytes` of the begun buffer; `None` when nothing has begun or it was begun for less.
    pub(super) fn begun_bytes(&mut self, len_bytes: u32) -> Option<&mut [u8]> {
        let (address, most_bytes) = self.begun?;
        if len_bytes > most_bytes {
            return None;
        }
        // SAFETY: the buffer is neither on the free list nor in a ring while it is begun, and the slice borrows `self`.
        unsafe { self.umem().bytes_mut(address, len_bytes) }
    }

    /// Puts the begun buffer in the TX ring, unseen by the kernel until the flush.
    pub(super) fn end(&mut self, len_bytes: u32) {
        if let Some((address, _)) = self.begun.take() {
            self.push(address, len_bytes);
        }
    }

    /// Gives the begun buffer back.
    pub(super) fn abort(&mut self) -> bool {
        let begun = self.begun.take();
        self.free.extend(begun.map(|(address, _)| address));
        begun.is_some()
    }

    /// Fills a buffer and a descriptor as a send does, takes both back, and kicks the kernel, which finds nothing.
    pub(super) fn warm(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(address) = self.free_buffer() else { return Ok(()) };
        let len_bytes = frame.len() as u32;
        // SAFETY: the buffer came off the free list, so it is in no ring and nobody else has it.
        if let Some(buffer) = unsafe { self.umem().bytes_mut(address, len_bytes) } {
            buffer.copy_from_slice(frame);
        }
        let len = len_bytes.min(self.memory.frame_size_bytes);
        if self.tx.push(XdpDesc { addr: address, len, options: XdpDescOptions::empty() }) {
            self.tx.cancel();
        }
        self.free.push(address);
        if self.pending {
            // The kick would send what waits for the flush.
            return Ok(());
        }
        kick(&self.socket, Some(&self.queue)).map(|_| ())
    }

    /// Puts another frame into a resident slot. `None`: no such slot, or its last send is under way.
    pub(super) fn replace_prepared(&mut self, slot: u32, frame: &[u8]) -> Option<()> {
        self.in_flight.get(slot as usize)?;
        self.reap_prepared(slot);
        if self.in_flight[slot as usize].is_some() {
            return None;
        }
        // SAFETY: the resident frame is not in flight, so it is in no ring; slots are this sender's alone.
        let buffer = unsafe { self.umem().bytes_mut(self.prepared_address(slot), frame.len() as u32) }?;
        buffer.copy_from_slice(frame);
        Some(())
    }

    /// Puts a frame into the next resident slot and returns it; `None` when all are taken.
    pub(super) fn prepare(&mut self, frame: &[u8]) -> Option<u32> {
        let slot = self.prepared_frames();
        if slot == self.memory.prepared_frames {
            return None;
        }
        // SAFETY: the slot was never handed out, so its buffer is in no ring and nobody else has it.
        let buffer = unsafe { self.umem().bytes_mut(self.prepared_address(slot), frame.len() as u32) }?;
        buffer.copy_from_slice(frame);
        self.in_flight.push(None);
        Some(slot)
    }

    #[inline]
    fn prepared_address(&self, slot: u32) -> u64 {
        self.first_prepared_address + u64::from(slot) * self.memory.area_bytes()
    }

    /// Patches a resident frame and puts it in the TX ring, unless its previous send is still under way.
    #[inline]
    pub(super) fn queue_prepared(&mut self, slot: u32, len_bytes: u32, patch: impl FnOnce(&mut [u8])) -> PreparedSend {
        let Some(&in_flight) = self.in_flight.get(slot as usize) else { return PreparedSend::Unknown };
        if in_flight.is_some() {
            self.reap_prepared(slot);
            if self.in_flight[slot as usize].is_some() {
                self.refused_frames += 1;
                self.awaits_completion = true;
                return PreparedSend::InFlight;
            }
        }
        let address = self.prepared_address(slot);
        // SAFETY: the resident frame is not in flight, so it is in no ring; slots are this sender's alone.
        let Some(frame) = (unsafe { self.umem().bytes_mut(address, len_bytes) }) else {
            return PreparedSend::Unknown;
        };
        patch(frame);
        self.push(address, len_bytes);
        self.in_flight[slot as usize] = Some(self.tx.position());
        PreparedSend::Sent
    }

    /// Shows the kernel what is queued, kicks it if it needs that, and takes back what has been sent.
    ///
    /// Taking back comes last, when the frame is on its way, and for several frames at a time.
    #[inline]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.pending {
            self.tx.submit();
            if self.copies {
                self.kick_copy()?;
            } else if self.tx.needs_wakeup_after_submit() {
                self.kick_once()?;
                self.pending = self.tx.unconsumed() > 0;
            } else {
                // Seen by the driver without a kick. Should it fall asleep before, the next flush finds it so.
                self.pending = self.tx.unconsumed() > 0;
            }
        } else if self.awaits_completion {
            self.hurry_completions()?;
        }
        if self.out.len() >= REAP_FRAMES || self.free.is_empty() {
            self.reap();
        }
        Ok(())
    }

    /// A device may report frames that are sent only by an interrupt that it puts off, or in the driver's next round: asks for that
    /// round, where a system call can.
    #[cold]
    fn hurry_completions(&mut self) -> io::Result<()> {
        self.awaits_completion = false;
        if self.polls || !self.copies && self.tx.needs_wakeup_after_submit() {
            self.kick_once()?;
        }
        Ok(())
    }

    /// Shows the kernel what is queued; the socket to be kicked, where that is needed.
    #[inline]
    pub(super) fn submit(&mut self) -> Option<Kick> {
        if !self.pending {
            return None;
        }
        self.tx.submit();
        if !self.copies {
            self.reap();
            if !self.tx.needs_wakeup_after_submit() {
                self.pending = self.tx.unconsumed() > 0;
                return None;
            }
        }
        self.pending = false;
        self.unreaped = true;
        self.kicks += 1;
        let pushed = (self.polls && !self.copies).then(|| self.tx.pushed_now());
        Some(Kick::new(&self.socket, &self.queue, pushed))
    }

    pub(super) fn has_socket(&self, socket: &Weak<OwnedFd>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.socket), socket.as_ptr())
    }

    /// The device dropped frames that were sent.
    pub(super) fn refused(&mut self, frames: u64) {
        self.refused_frames += frames;
        self.sent_frames = self.sent_frames.saturating_sub(frames);
    }

    /// A kick left frames in the ring: the next goes on.
    pub(super) fn unfinished(&mut self) {
        self.pending = true;
    }

    /// Kicks until the kernel took every frame: it sends 32 a kick and says `EAGAIN` when there are more.
    #[inline]
    fn kick_copy(&mut self) -> io::Result<()> {
        for _ in 0..KICKS_MOST {
            if self.kick_once()? {
                self.pending = false;
                return Ok(());
            }
            // Buffers that completed make room for the kernel, which reserves a completion slot for each frame.
            self.reap();
            if self.tx.unconsumed() == 0 {
                self.pending = false;
                return Ok(());
            }
        }
        Ok(())
    }

    /// As [`kick`], counted. `true`: the kernel has nothing left to take.
    #[inline]
    fn kick_once(&mut self) -> io::Result<bool> {
        self.kicks += 1;
        let took = kick(&self.socket, Some(&self.queue))?;
        if took == Took::PartAndDroppedOne {
            self.refused(1);
        }
        if self.polls && !self.copies && self.tx.unconsumed() > 0 {
            wake(&self.socket, Some(&self.queue));
        }
        Ok(took == Took::All)
    }

    /// Takes back buffers that were sent.
    fn reap(&mut self) {
        let Sender { tx, queue, memory, free, out, unreaped, .. } = self;
        *unreaped = false;
        queue.drain_completions();
        let is_done = |sent: &Out| tx.has_consumed(sent.end) && memory.is_done(sent.address, queue);
        let free_before = free.len();
        while let Some(oldest) = out.front() {
            if !is_done(oldest) {
                let looked_at = if free.is_empty() { out.len() } else { out.len().min(OUT_OF_ORDER_MOST) };
                let Some(at) = (1..looked_at).find(|at| is_done(&out[*at])) else { break };
                out.swap(0, at);
            }
            // Never more than there were at first, so the list does not grow.
            free.extend(out.pop_front().map(|sent| sent.address));
        }
        if free.len() > free_before {
            // Before any of them is used.
            queue.drain_completions();
        }
    }

    /// The same, for a resident frame.
    fn reap_prepared(&mut self, slot: u32) {
        let address = self.prepared_address(slot);
        self.queue.drain_completions();
        let is_done = |end: &u32| self.tx.has_consumed(*end) && self.memory.is_done(address, &self.queue);
        let in_flight = self.in_flight[slot as usize].filter(|end| !is_done(end));
        self.in_flight[slot as usize] = in_flight;
        self.queue.drain_completions();
    }
}

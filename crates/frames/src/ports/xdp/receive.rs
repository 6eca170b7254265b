//! The receiving half of an AF_XDP socket.
//!
//! Invariant: each receive buffer is in the fill ring, with the kernel, in the RX ring, or taken: with the
//! closure or caller that reads it, or kept by one of several that share the fill ring ([`super::fill`]). The fill ring has a
//! slot for every buffer, so giving one back cannot fail.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::net::sockopt::xdp_statistics;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{RecvFlags, recv};

use super::RECEIVE_HEADROOM_BYTES;
use super::assembly::Assembly;
use super::fill::{Fill, SharedFill};
use super::queue::Queue;
use super::rings::ConsumerRing;
use super::shared_ring::address_of;
use super::umem::Umem;
use crate::steering::Credit;
use crate::xdp::stamps::{RECORD_BYTES, Record};

/// Frames read before the kernel gets their buffers back, within one batch.
const GIVE_BACK_FRAMES: u32 = 16;

/// A received frame that is ours until it is given back.
#[derive(Debug)]
pub(super) struct Taken {
    /// Of its buffer; of a frame that was put together, which says that it goes on, its place in the assembly.
    descriptor: XdpDesc,
    /// What stood in front of it.
    record: Record,
}

impl Taken {
    /// What the program wrote of the frame; nothing, where it writes nothing.
    #[inline]
    pub(super) fn record(&self) -> Record {
        self.record
    }

    #[inline]
    fn lies_in_one_buffer(&self) -> bool {
        self.descriptor.options.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    // Rings before memory and socket: what points into a thing goes before the thing.
    rx: ConsumerRing<XdpDesc>,
    fill: Fill,
    umem: Arc<Umem>,
    socket: Arc<OwnedFd>,
    frame_size_bytes: u32,
    /// Frames read that the kernel does not know of yet.
    kept_frames: u32,
    /// Frames read since the socket was opened, by whoever has read of the queue, wrapping.
    taken: u32,
    /// Where the next frame will most likely begin, and what is asked for of it.
    ///
    /// The kernel takes buffers in the order of the fill ring, so it is the buffer of the push that has as many before it as frames came
    /// (where others share the ring: the buffer behind that of the frame before), with the headroom of the frame before. Asking for that
    /// line together with the descriptor's saves one of three transfers between two CPUs that follow on each other: the fastest round trips
    /// over veth take 0.44 instead of 0.51 us each way. A wrong guess costs a line.
    expected_address: u64,
    expected_bytes: u32,
    /// The program writes a record with this mark in front of each frame.
    mark: Option<NonZeroU64>,
    /// What the socket counted before it was this receiver's.
    dropped_before: u64,
    /// Tells the program how many buffers there is room for.
    credit: Option<Credit>,
    /// Frames that lay in several buffers, where there may be such.
    assembly: Option<Box<Assembly>>,
}

impl Receiver {
    pub(super) fn new(socket: Arc<OwnedFd>, rx: ConsumerRing<XdpDesc>, fill: Fill) -> Receiver {
        let umem = Arc::clone(fill.queue().memory());
        let frame_size_bytes = umem.control().layout().frame_size_bytes;
        Receiver {
            rx,
            fill,
            umem,
            socket,
            frame_size_bytes,
            kept_frames: 0,
            taken: 0,
            expected_address: 0,
            expected_bytes: 0,
            mark: None,
            dropped_before: 0,
            credit: None,
            assembly: None,
        }
    }

    /// The same with room to put frames of several buffers together.
    pub(super) fn with_assembly(mut self, frame_most_bytes: usize) -> Receiver {
        self.assembly = Some(Box::new(Assembly::with_capacity(frame_most_bytes)));
        self
    }

    /// The same, of a socket that others received by before.
    pub(super) fn with_dropped_before(mut self) -> Receiver {
        self.dropped_before = self.dropped_frames();
        self
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        self.fill.queue()
    }

    /// Bytes of the longest frame that can be put together; `None`: none is.
    pub(super) fn assembly_bytes(&self) -> Option<usize> {
        self.assembly.as_ref().map(|assembly| assembly.capacity_bytes())
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn credit(&self) -> Option<&Credit> {
        self.credit.as_ref()
    }

    pub(super) fn set_credit(&mut self, credit: Option<Credit>) {
        self.credit = credit;
    }

    /// The kernel gets what comes for this receiver.
    #[inline]
    pub(super) fn is_overflowing(&self) -> bool {
        self.credit.as_ref().is_some_and(Credit::is_overflowing)
    }

    pub(super) fn has_frames(&self) -> bool {
        self.rx.waiting() > 0
    }

    /// See [`super::XdpPort::begin_settling`].
    pub(super) fn begin_settling(&mut self) -> u64 {
        self.credit.as_mut().map_or(0, Credit::begin_settling)
    }

    /// See [`super::XdpPort::settle_overflow`].
    pub(super) fn settle_overflow(&mut self) {
        self.settle_by(Credit::settle);
    }

    /// See [`super::XdpPort::force_room`].
    pub(super) fn force_room(&mut self) {
        self.settle_by(Credit::force);
    }

    /// See [`super::XdpPort::end_force`].
    pub(super) fn end_force(&mut self) -> bool {
        self.settle_by(Credit::end_force).unwrap_or(false)
    }

    /// See [`super::XdpPort::is_full_again`].
    pub(super) fn is_full_again(&self) -> bool {
        self.credit.as_ref().is_some_and(Credit::is_full_again)
    }

    /// See [`super::XdpPort::find_lost`].
    pub(super) fn find_lost(&mut self) {
        let outstanding_frames = self.outstanding_frames();
        if let Some(credit) = &mut self.credit {
            credit.find_lost(outstanding_frames);
        }
    }

    /// Buffers that came and were not given back.
    fn outstanding_frames(&self) -> u32 {
        let kept_frames = match &self.fill {
            Fill::Own(_) => self.kept_frames,
            Fill::Shared(fill) => fill.kept_frames(),
        };
        kept_frames + self.rx.waiting()
    }

    fn settle_by<R>(&mut self, settle: impl FnOnce(&mut Credit, u32) -> R) -> Option<R> {
        let outstanding_frames = self.outstanding_frames();
        let credit = self.credit.as_mut().filter(|credit| credit.is_overflowing())?;
        Some(settle(credit, outstanding_frames))
    }

    /// So many buffers are in the fill ring again.
    #[inline]
    fn returned(&mut self, frames: u32) {
        if let Some(credit) = &mut self.credit {
            credit.give_back(frames);
        }
    }

    pub(super) fn mark(&self) -> Option<NonZeroU64> {
        self.mark
    }

    /// From now on records with this mark are looked for.
    pub(super) fn set_mark(&mut self, mark: NonZeroU64) {
        self.mark = Some(mark);
        if let Fill::Shared(fill) = &self.fill {
            fill.set_mark(mark);
        }
    }

    /// From now on records with the mark of the queue's program are looked for. `false`: it writes none.
    pub(super) fn read_records(&mut self) -> bool {
        if let Fill::Shared(fill) = &self.fill {
            self.mark = fill.mark().or(self.mark);
        }
        self.mark.is_some()
    }

    /// The same receiver with a fill ring that others can share: up to so many.
    pub(super) fn sharing(mut self, shares: u32) -> Receiver {
        let Fill::Own(fill) = self.fill else { return self };
        self.rx.release();
        if let Some(credit) = &mut self.credit {
            credit.give_back(self.kept_frames);
        }
        let fill = SharedFill::new(fill.into_shared(), 0, shares);
        if let Some(mark) = self.mark {
            fill.set_mark(mark);
        }
        Receiver { fill: Fill::Shared(fill), kept_frames: 0, expected_bytes: 0, ..self }
    }

    /// The same with the fill ring for itself, when nobody shares it any more.
    pub(super) fn owning(mut self) -> Receiver {
        let Fill::Shared(fill) = self.fill else { return self };
        let kept_frames = fill.kept_frames();
        let mut fill = fill.into_own();
        self.rx.release();
        if let Some(credit) = &mut self.credit {
            credit.give_back(kept_frames);
        }
        // Frames of all shares that came by now: exact while none is on its way.
        let taken = fill.ring().consumed().wrapping_sub(self.rx.waiting());
        Receiver { fill: Fill::Own(fill), kept_frames: 0, taken, ..self }
    }

    /// In the kernel's words the address of a frame includes headroom; buffers start at multiples of their size.
    #[inline]
    fn buffer_of(&self, descriptor: &XdpDesc) -> u64 {
        descriptor.addr & !(u64::from(self.frame_size_bytes) - 1)
    }

    /// Lends the next frame to `read`, and gives its buffer back.
    ///
    /// The kernel learns of it at the end of the batch that was in the ring, or after [`GIVE_BACK_FRAMES`]: each store to
    /// a shared index takes the cache line from the CPU that delivers.
    #[inline]
    pub(super) fn receive<R>(&mut self, read: impl FnOnce(&[u8], Record) -> R) -> Option<R> {
        let taken = self.take()?;
        let result = read(self.bytes(&taken), taken.record);
        self.give_back(taken);
        Some(result)
    }

    /// Takes the next frame, to be given back.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Taken> {
        if !self.rx.has_next() {
            return None;
        }
        self.umem.prefetch(self.expected_address, self.expected_bytes);
        let Some(mark) = self.mark else {
            let descriptor = self.pop()?;
            return self.whole(Taken { descriptor, record: Record::default() });
        };
        // The record lies on the cache line before the frame's first.
        self.umem.prefetch(self.expected_address.saturating_sub(RECORD_BYTES as u64), RECORD_BYTES as u32);
        let descriptor = self.pop()?;
        let record = self.take_record(&descriptor, mark);
        self.whole(Taken { descriptor, record })
    }

    /// Takes a buffer out of the ring, which the control area says before the ring does.
    #[inline]
    fn pop(&mut self) -> Option<XdpDesc> {
        let descriptor = self.rx.pop()?;
        if let Fill::Shared(fill) = &self.fill {
            fill.mark_taken(self.buffer_of(&descriptor));
        }
        Some(descriptor)
    }

    /// The frame that a first buffer has been taken of.
    #[inline]
    fn whole(&mut self, first: Taken) -> Option<Taken> {
        if first.lies_in_one_buffer() { Some(first) } else { self.assemble(first) }
    }

    /// Puts a frame of several buffers together and gives the buffers back. The kernel shows all of them at once (`xsk_flush` in
    /// `net/xdp/xsk.c`); should it not, nobody gets the frame.
    #[cold]
    #[inline(never)]
    fn assemble(&mut self, first: Taken) -> Option<Taken> {
        let Taken { descriptor: mut piece, record } = first;
        let mut assembly = self.assembly.take().unwrap_or_default();
        let (place, mut buffers) = (assembly.begin(), 0);
        let is_whole = loop {
            let goes_on = piece.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            let taken =
                Taken { descriptor: XdpDesc { options: XdpDescOptions::empty(), ..piece }, record: Record::default() };
            assembly.append(place, self.bytes(&taken));
            self.give_back(taken);
            buffers += 1;
            if !goes_on {
                break true;
            }
            let Some(next) = self.pop() else { break false };
            piece = next;
        };
        let len = assembly.frame(place).len() as u32;
        self.count_as_the_program(len, buffers);
        let options = XdpDescOptions::XDP_PKT_CONTD;
        let whole = Taken { descriptor: XdpDesc { addr: place as u64, len, options }, record };
        self.assembly = Some(assembly);
        if is_whole {
            return Some(whole);
        }
        self.give_back(whole);
        None
    }

    /// The program counts full buffers; a device that fills them less full took more.
    fn count_as_the_program(&mut self, frame_bytes: u32, buffers: u32) {
        let counted = frame_bytes.div_ceil(self.frame_size_bytes - RECEIVE_HEADROOM_BYTES as u32);
        if let Some(credit) = &mut self.credit {
            credit.give_back(counted.saturating_sub(buffers));
            credit.take_over(buffers.saturating_sub(counted));
        }
    }

    /// What the program wrote in front of a frame that has just been taken.
    #[inline]
    fn take_record(&mut self, descriptor: &XdpDesc, mark: NonZeroU64) -> Record {
        let headroom_bytes = descriptor.addr & (u64::from(self.frame_size_bytes) - 1);
        if headroom_bytes < RECORD_BYTES as u64 {
            return Record::default();
        }
        // SAFETY: the bytes are of a buffer that has come out of the RX ring and is not given back, as the frame's are, which
        // nobody has a slice of yet, or any more; this slice ends here.
        let bytes = unsafe { self.umem.bytes_mut(descriptor.addr - RECORD_BYTES as u64, RECORD_BYTES as u32) };
        bytes.and_then(|bytes| bytes.first_chunk_mut()).map_or_else(Record::default, |bytes| Record::take(bytes, mark))
    }

    /// The bytes of a frame that [`Receiver::take`] of this receiver gave.
    #[inline]
    pub(super) fn bytes(&self, taken: &Taken) -> &[u8] {
        if !taken.lies_in_one_buffer() {
            return self.assembly.as_ref().map_or(&[], |assembly| assembly.frame(taken.descriptor.addr as usize));
        }
        // SAFETY: the buffer came out of the RX ring and goes back with the value of `taken`, which is not `Clone` and
        // which the slice's user borrows or keeps: nothing writes it meanwhile.
        let frame = unsafe { self.umem.bytes(taken.descriptor.addr, taken.descriptor.len) };
        // The kernel describes buffers we gave it; a span outside the memory would be its defect, seen as no bytes.
        frame.unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub(super) fn give_back(&mut self, taken: Taken) {
        if !taken.lies_in_one_buffer() {
            if let Some(assembly) = &mut self.assembly {
                assembly.give_back(taken.descriptor.addr as usize);
            }
            return;
        }
        let descriptor = taken.descriptor;
        let buffer = self.buffer_of(&descriptor);
        let Fill::Own(fill) = &mut self.fill else { return self.give_back_shared(buffer, &descriptor) };
        let fill = fill.ring();
        fill.push(buffer);
        self.taken = self.taken.wrapping_add(1);
        self.expected_address = address_of(fill.pushed(self.taken)) + (descriptor.addr - buffer);
        self.expected_bytes = descriptor.len;
        self.kept_frames += 1;
        if self.rx.known() == 0 || self.kept_frames == GIVE_BACK_FRAMES {
            self.rx.release();
            fill.submit();
            let frames = std::mem::take(&mut self.kept_frames);
            self.returned(frames);
        }
    }

    /// The same where others give back to the ring too.
    #[inline(never)]
    fn give_back_shared(&mut self, buffer: u64, descriptor: &XdpDesc) {
        let Fill::Shared(fill) = &mut self.fill else { return };
        fill.keep(buffer);
        self.expected_address = fill.expected_after(buffer) + (descriptor.addr - buffer);
        self.expected_bytes = descriptor.len;
        self.kept_frames += 1;
        if self.mark.is_none()
            && let Some(mark) = fill.mark()
        {
            // Nobody reads this record, and in the buffer it must not be found in front of another's frame.
            let _ = self.take_record(descriptor, mark);
        }
        if self.rx.known() == 0 || self.kept_frames == GIVE_BACK_FRAMES {
            self.rx.release();
            self.kept_frames = 0;
            if let Fill::Shared(fill) = &mut self.fill {
                let frames = fill.give_back();
                self.returned(frames);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_sharing(&self) -> bool {
        matches!(self.fill, Fill::Shared(_))
    }

    /// The driver ran out of buffers and waits to be told that there are some (zero-copy drivers only).
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // Behind the buffers that were given back, as the flag behind a submit is.
        fence(Ordering::SeqCst);
        self.fill.queue().needs_wakeup()
    }

    /// Tells the driver, and learns whether the interface is still there: `ENXIO` when gone, `ENETDOWN` when down.
    pub(super) fn wake(&self) -> io::Result<()> {
        let nothing: &mut [u8] = &mut [];
        match recv(&*self.socket, nothing, RecvFlags::DONTWAIT) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Frames the kernel dropped for this socket: no buffer, or RX ring full.
    pub(super) fn dropped_frames(&self) -> u64 {
        // `rx_fill_ring_empty_descs` counts looks at an empty fill ring, and each is in `rx_dropped` too.
        let dropped =
            xdp_statistics(&*self.socket).map_or(0, |kernel| kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0));
        dropped.saturating_sub(self.dropped_before)
    }
}

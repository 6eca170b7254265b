//! The receive ring of a packet socket (`TPACKET_V2`).
//!
//! Invariant: a slot is ours from the moment its status says `TP_STATUS_USER` (acquire) until we store
//! `TP_STATUS_KERNEL` (release), and slots are taken in order.
//!
//! Which frames: the kernel hands frames to packet sockets by the EtherType behind the outermost VLAN tag, so a socket
//! bound to an EtherType would miss frames with two tags. The socket takes all frames instead, through a filter:
//!
//! ```text
//!   type at 12: wanted? --yes--> keep         (the outer tag is already out of the frame)
//!         | no
//!   a tag? --no--> drop
//!         | yes
//!   type at 16: wanted? --yes--> keep, else drop
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{PacketConfig, socket};
use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::ports::xdp::Steer;
use crate::raw::{LentFrame, Stamp, TimeSource};

const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;
const TPACKET_V2: i32 = 1;
const SOF_TIMESTAMPING_RAW_HARDWARE: i32 = 1 << 6;
const TP_STATUS_TS_RAW_HARDWARE: u32 = 1 << 31;
/// A status that is neither the kernel's slot nor a frame for us: the slot is lent.
const LENT: u32 = libc::TP_STATUS_COPY;
/// `sll_pkttype` of the address behind the header (aligned to 16 bytes), and what it says of frames the host sends.
const PACKET_TYPE_AT: usize = 32 + 10;
const TAG_BYTES: usize = 4;
/// Destination and source address, before the tag.
const ADDRESSES_BYTES: usize = 12;
/// Room before each frame in which a tag fits, on top of the header's own.
const RESERVED_BYTES: i32 = 16;
/// Header of a slot, address of the sender, reserve and alignment, generously.
const SLOT_OVERHEAD_BYTES: usize = 128;
/// Memory the kernel allocates in one piece; slots do not cross blocks.
const BLOCK_BYTES: usize = 64 * 1024;

/// A slot that is lent, and where in it the frame is.
#[derive(Debug, Clone, Copy)]
struct LentSlot {
    slot: usize,
    offset_bytes: usize,
    len_bytes: usize,
    stamp: Stamp,
    outgoing: bool,
}

/// A packet socket and its mapped ring.
#[derive(Debug)]
pub(super) struct PacketRing {
    start: NonNull<u8>,
    len_bytes: usize,
    slot_bytes: usize,
    slots: usize,
    next: usize,
    /// The slot that is lent between two calls.
    lent: Option<LentSlot>,
    socket: OwnedFd,
}

// SAFETY: the mapping belongs to no thread, and all access to it goes through `&mut self`.
unsafe impl Send for PacketRing {}

impl PacketRing {
    pub(super) fn open(facts: &InterfaceFacts, config: &PacketConfig) -> Result<PacketRing, PortError> {
        let slot_bytes = (facts.frame_most_bytes() + TAG_BYTES + SLOT_OVERHEAD_BYTES).next_power_of_two();
        open_ring(facts.ifindex, config, slot_bytes.max(2048)).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOMEM) => PortError::Kernel {
                tried: "allocate an AF_PACKET receive ring; free memory or take fewer slots",
                interface: facts.name.clone(),
                source,
            },
            _ => PortError::refused("open an AF_PACKET receive ring", &facts.name, source),
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Frames dropped for want of a slot since the last call.
    pub(super) fn take_dropped_frames(&self) -> u64 {
        socket::take_statistics(&self.socket).map_or(0, |statistics| u64::from(statistics.tp_drops))
    }

    /// Keeps the next frame's slot until [`PacketRing::give_back`]; `false`: there is no frame. The ring goes on behind it;
    /// should it come round, it stops there.
    pub(super) fn lend(&mut self) -> bool {
        let Some((header, status)) = self.next_slot() else { return false };
        // SAFETY: the kernel gave us the slot (acquired in `next_slot`), which starts with a header of this type.
        let fields = unsafe { header.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: the slot is ours until its status says so to the kernel, in `give_back`; this slice of it ends here.
        let slot = unsafe { std::slice::from_raw_parts_mut(header.as_ptr(), self.slot_bytes) };
        let outgoing = slot.get(PACKET_TYPE_AT) == Some(&libc::PACKET_OUTGOING);
        let start = slot.as_ptr().addr();
        let frame = frame_in(slot, &fields, status);
        let source = if status & TP_STATUS_TS_RAW_HARDWARE == 0 { TimeSource::Kernel } else { TimeSource::Hardware };
        let time_ns = u64::from(fields.tp_sec) * 1_000_000_000 + u64::from(fields.tp_nsec);
        self.lent = Some(LentSlot {
            slot: self.next,
            // An empty slice may be anywhere; it is then as good at the start of the slot.
            offset_bytes: frame.as_ptr().addr().checked_sub(start).filter(|_| !frame.is_empty()).unwrap_or(0),
            len_bytes: frame.len(),
            stamp: Stamp { time_ns, source },
            outgoing,
        });
        // SAFETY: the status is the first word of the slot, aligned and mapped; the slices of it are gone.
        unsafe { header.cast::<AtomicU32>().as_ref() }.store(LENT, Ordering::Relaxed);
        self.advance();
        true
    }

    /// The lent frame.
    pub(super) fn lent(&self) -> Option<LentFrame<'_>> {
        let LentSlot { slot, offset_bytes, len_bytes, stamp, outgoing } = self.lent?;
        // SAFETY: `slot` was `next` once, so it is below the number of slots, and `lend` found the frame within it. The
        // slot is ours until `give_back`, which takes `&mut self`, and nothing else writes it meanwhile.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.start.add(slot * self.slot_bytes + offset_bytes).as_ptr(), len_bytes)
        };
        Some(LentFrame { bytes, queue: 0, stamp: Some(stamp), outgoing })
    }

    pub(super) fn has_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Gives the lent slot back to the kernel; `false` when none is lent.
    pub(super) fn give_back(&mut self) -> bool {
        let Some(LentSlot { slot, .. }) = self.lent.take() else { return false };
        // SAFETY: `slot` was `next` once, so it is below the number of slots, all of which are mapped; the status is its
        // first word.
        let status = unsafe { self.start.add(slot * self.slot_bytes).cast::<AtomicU32>().as_ref() };
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        true
    }

    /// The next slot and its status, when there is a frame in it.
    #[inline]
    fn next_slot(&self) -> Option<(NonNull<u8>, u32)> {
        // SAFETY: `next` is below the number of slots, all of which are mapped, and slots are aligned to 2048.
        let header = unsafe { self.start.add(self.next * self.slot_bytes) };
        // SAFETY: the status is the first word of the slot; the kernel changes it, as the atomic type allows.
        let status = unsafe { header.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
        (status & libc::TP_STATUS_USER != 0).then_some((header, status))
    }

    #[inline]
    fn advance(&mut self) {
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }

    /// Lends the next frame to `read`, and gives its slot back.
    #[inline]
    pub(super) fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (header, found) = self.next_slot()?;
        // SAFETY: the kernel gave us the slot (acquired in `next_slot`), which starts with a header of this type.
        let header_fields = unsafe { header.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: the slot is ours until the status is stored below, and there is no other slice of it.
        let slot = unsafe { std::slice::from_raw_parts_mut(header.as_ptr(), self.slot_bytes) };
        let result = read(frame_in(slot, &header_fields, found));
        // SAFETY: the status is the first word of the slot; the slices of it are gone.
        unsafe { header.cast::<AtomicU32>().as_ref() }.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.advance();
        Some(result)
    }
}

/// The frame in a slot, its outer tag put back where the kernel noted one.
#[inline]
fn frame_in<'a>(slot: &'a mut [u8], header: &libc::tpacket2_hdr, status: u32) -> &'a [u8] {
    let (start, len_bytes) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
    let end = (start + len_bytes).min(slot.len());
    if status & libc::TP_STATUS_VLAN_VALID == 0 || len_bytes < ADDRESSES_BYTES || start < TAG_BYTES {
        return slot.get(start..end).unwrap_or_default();
    }
    let has_tpid = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if has_tpid { header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    // The addresses move four bytes forward, into the reserve, and the tag goes into the gap.
    let tagged = start - TAG_BYTES;
    slot.copy_within(start..start + ADDRESSES_BYTES, tagged);
    let tag = &mut slot[tagged + ADDRESSES_BYTES..start + ADDRESSES_BYTES];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
    &slot[tagged..end]
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}

fn open_ring(ifindex: u32, config: &PacketConfig, slot_bytes: usize) -> io::Result<PacketRing> {
    let slots = config.ring_slots as usize;
    let socket = socket::open_silent()?;
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RESERVE, &RESERVED_BYTES)?;
    // Our own sends are no frames of the wire. Linux 4.20; older kernels show them, and the filter's user sorts out.
    let _ = socket::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &i32::from(!config.outgoing));
    // The device's time where it was told to take one; the kernel's otherwise.
    let _ = socket::set(&socket, libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &SOF_TIMESTAMPING_RAW_HARDWARE);
    let block_bytes = BLOCK_BYTES.max(slot_bytes).min(slots * slot_bytes);
    let len_bytes = slots * slot_bytes;
    let request = libc::tpacket_req {
        tp_block_size: block_bytes as u32,
        tp_block_nr: (len_bytes / block_bytes) as u32,
        tp_frame_size: slot_bytes as u32,
        tp_frame_nr: slots as u32,
    };
    socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    if let Steer::EtherType(ether_type) = config.steer {
        socket::set_filter(&socket, &filter(ether_type))?;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping at an address the kernel chooses; the kernel checks the length against the ring.
    let start = unsafe { mmap(std::ptr::null_mut(), len_bytes, protection, flags, &socket, 0) }?;
    let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
    let ring = PacketRing { start, len_bytes, slot_bytes, slots, next: 0, lent: None, socket };
    // Last: frames come from here on, and only those the filter lets through.
    socket::bind(&ring.socket, ifindex, ETH_P_ALL)?;
    Ok(ring)
}

/// The filter of the module's drawing, in classic BPF.
fn filter(ether_type: u16) -> [libc::sock_filter; 8] {
    const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let wanted = u32::from(ether_type);
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD_HALF, 12, 0, 0), // 0: the EtherType, behind the tag taken out; a shorter frame is dropped
        step(JUMP_EQUAL, wanted, 5, 0), // 1: it is the wanted one: keep
        step(JUMP_EQUAL, 0x8100, 1, 0), // 2: an 802.1Q tag: look behind it
        step(JUMP_EQUAL, 0x88a8, 0, 2), // 3: an 802.1ad tag: look behind it; any other type: drop
        step(LOAD_HALF, 16, 0, 0), // 4: the EtherType behind the tag
        step(JUMP_EQUAL, wanted, 1, 0), // 5: it is the wanted one: keep
        step(RETURN, 0, 0, 0),     // 6: drop
        step(RETURN, u32::MAX, 0, 0), // 7: keep, all of it
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn header(status: u32, tci: u16, tpid: u16) -> (libc::tpacket2_hdr, u32) {
        // SAFETY: integers only, for which zero is a value.
        let mut header: libc::tpacket2_hdr = unsafe { std::mem::zeroed() };
        (header.tp_mac, header.tp_snaplen) = (80, 60);
        (header.tp_vlan_tci, header.tp_vlan_tpid) = (tci, tpid);
        (header, status)
    }

    fn slot() -> Vec<u8> {
        (0..=255).collect()
    }

    #[test]
    fn header_has_the_layout_the_ring_reads() {
        assert_eq!(size_of::<libc::tpacket2_hdr>(), 32);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_status), 0);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_snaplen), 8);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_mac), 12);
        assert_eq!(offset_of!(libc::tpacket2_hdr, tp_vlan_tci), 24);
    }

    #[test]
    fn untagged_frame_found_is_lent_as_it_lies() {
        let (header, status) = header(libc::TP_STATUS_USER, 0, 0);
        assert_eq!(frame_in(&mut slot(), &header, status), &slot()[80..140]);
    }

    #[test]
    fn stripped_tag_found_is_put_back_behind_the_addresses() {
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let (header, status) = header(status, 0x6007, 0x88a8);
        let mut slot = slot();
        let original = slot.clone();
        let frame = frame_in(&mut slot, &header, status);
        assert_eq!(frame.len(), 64);
        assert_eq!(frame[..12], original[80..92]);
        assert_eq!(frame[12..16], [0x88, 0xa8, 0x60, 0x07]);
        assert_eq!(frame[16..], original[92..140]);
    }

    #[test]
    fn header_beyond_the_slot_found_lends_what_is_there() {
        let (mut header, status) = header(libc::TP_STATUS_USER, 0, 0);
        header.tp_snaplen = 1000;
        assert_eq!(frame_in(&mut slot(), &header, status).len(), 176);
        header.tp_mac = 300;
        assert_eq!(frame_in(&mut slot(), &header, status), b"");
    }
}

//! AF_PACKET: frames through a packet socket, for hosts without AF_XDP.
//!
//! Two sockets: one receives into a mapped ring (`TPACKET_V2`), one sends with `send` past the queueing discipline. One
//! socket for both made each other's cache lines move, as with AF_XDP; a mapped TX ring was slower than `send` (0.90
//! against 0.67 us half RTT).
//!
//! ```text
//!   slot:  kernel's --frame arrived--> ours (TP_STATUS_USER) --read in place--> kernel's
//! ```
//!
//! The kernel's stack gets a copy of every frame that this port receives. On the way here it takes the outer VLAN tag
//! out of the frame and notes it in the slot's header; the tag is put back before the frame is lent, so that frames look
//! as on the wire.
//!
//! Source: packet(7), `Documentation/networking/packet_mmap.rst`, `include/uapi/linux/if_packet.h`.

mod raw;
mod ring;
mod socket;

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};

use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::port::{Port, PortStatistics, PreparedFrame};
use crate::ports::limits::FrameLimits;
use crate::ports::xdp::Steer;
use crate::steering::FilterSet;

use ring::PacketRing;

/// Empty looks between two questions whether the interface is still there, as in [`crate::ports::xdp`].
const EMPTY_LOOKS_PER_CHECK: u32 = 1 << 17;

/// How an AF_PACKET port is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketConfig {
    /// The interface, in the network namespace of the thread that opens the port.
    pub interface: String,
    /// Send on another interface (the middle of a forward workload).
    pub tx_interface: Option<String>,
    /// Which frames to take; the kernel gets a copy of each. Behind VLAN tags too, as AF_XDP ports do.
    pub steer: Steer,
    /// Show frames that the host sends, too.
    pub outgoing: bool,
    /// Slots of the receive ring, a power of two. A small ring stays in the cache.
    pub ring_slots: u32,
    /// Frames that [`Port::queue`] holds until the flush.
    pub tx_frames: u32,
    /// Resident frames that [`Port::prepare`] may make.
    pub prepared_frames: u32,
}

impl PacketConfig {
    /// Measured defaults.
    #[must_use]
    pub fn new(interface: &str, steer: Steer) -> PacketConfig {
        PacketConfig {
            interface: interface.to_owned(),
            tx_interface: None,
            steer,
            outgoing: false,
            ring_slots: 256,
            tx_frames: 64,
            prepared_frames: 16,
        }
    }
}

/// An open AF_PACKET port.
#[derive(Debug)]
pub struct PacketPort {
    ring: PacketRing,
    sending: OwnedFd,
    /// Frames queued for the flush: buffers made once, and how much of each is used.
    queued: Vec<Buffer>,
    queued_frames: usize,
    /// Where a send is made up that has begun, and the most it was begun for.
    staging: Buffer,
    begun_bytes: Option<usize>,
    /// The filters, for a port opened with [`Steer::Filters`].
    filters: Option<FilterSet>,
    prepared: Vec<Buffer>,
    prepared_most: u32,
    empty_looks: u32,
    statistics: PortStatistics,
    /// Read from the kernel: reading resets its count.
    dropped_frames: std::cell::Cell<u64>,
    limits: FrameLimits,
    interface: String,
    sending_interface: String,
}

/// A frame kept for sending.
#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    len_bytes: usize,
}

impl Buffer {
    fn new(size_bytes: usize) -> Buffer {
        Buffer { bytes: vec![0; size_bytes].into_boxed_slice(), len_bytes: 0 }
    }

    #[inline]
    fn set(&mut self, frame: &[u8]) {
        self.set_with(frame.len(), |bytes| bytes.copy_from_slice(frame));
    }

    #[inline]
    fn set_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> &[u8] {
        self.len_bytes = len_bytes;
        let frame = &mut self.bytes[..len_bytes];
        write(frame);
        frame
    }
}

impl PacketPort {
    /// Opens the port in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Missing interface, interface down, capability, settings out of range, memory.
    pub fn open(config: &PacketConfig) -> Result<PacketPort, PortError> {
        let receiving = InterfaceFacts::read(&config.interface)?;
        let sending = match &config.tx_interface {
            Some(name) => InterfaceFacts::read(name)?,
            None => receiving.clone(),
        };
        check(config, [&receiving, &sending])?;
        let limits = FrameLimits::new(&sending, usize::MAX, "");
        let ring = PacketRing::open(&receiving, config)?;
        let buffers = config.tx_frames as usize;
        Ok(PacketPort {
            ring,
            sending: socket::open_sending(&sending)?,
            queued: std::iter::repeat_with(|| Buffer::new(limits.most_bytes())).take(buffers).collect(),
            queued_frames: 0,
            staging: Buffer::new(limits.most_bytes()),
            begun_bytes: None,
            filters: (config.steer == Steer::Filters).then(FilterSet::new),
            prepared: Vec::with_capacity(config.prepared_frames as usize),
            prepared_most: config.prepared_frames,
            empty_looks: 0,
            statistics: PortStatistics::default(),
            dropped_frames: std::cell::Cell::new(0),
            limits,
            interface: receiving.name,
            sending_interface: sending.name,
        })
    }

    /// Now and then, when nothing arrives, finds out whether the interface is still there.
    #[inline]
    fn empty(&mut self) -> Result<(), PortError> {
        self.empty_looks = self.empty_looks.wrapping_add(1);
        if !self.empty_looks.is_multiple_of(EMPTY_LOOKS_PER_CHECK) {
            return Ok(());
        }
        match sockopt::socket_error(self.ring.socket()) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(errno)) | Err(errno) => Err(gone(&self.interface, errno.into())),
        }
    }
}

fn check(config: &PacketConfig, interfaces: [&InterfaceFacts; 2]) -> Result<(), PortError> {
    if let Some(down) = interfaces.into_iter().find(|facts| !facts.up) {
        return Err(PortError::InterfaceDown { interface: down.name.clone() });
    }
    let slots_fit = config.ring_slots.is_power_of_two() && (4..=1 << 16).contains(&config.ring_slots);
    let checks = [
        ("ring_slots", config.ring_slots, slots_fit, "a power of two from 4 to 65536"),
        ("tx_frames", config.tx_frames, (1..=65536).contains(&config.tx_frames), "1 to 65536"),
    ];
    match checks.into_iter().find(|check| !check.2) {
        Some((setting, found, _, wanted)) => {
            let interface = config.interface.clone();
            Err(PortError::Config { interface, setting, found: u64::from(found), wanted })
        }
        None => Ok(()),
    }
}

/// `true`: sent. `false`: no room now.
#[inline]
fn send_one(
    socket: &OwnedFd,
    frame: &[u8],
    interface: &str,
    statistics: &mut PortStatistics,
) -> Result<bool, PortError> {
    statistics.kicks += 1;
    match send(socket, frame, SendFlags::DONTWAIT) {
        Ok(_) => {
            statistics.sent_frames += 1;
            Ok(true)
        }
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY) => {
            statistics.send_refused_frames += 1;
            Ok(false)
        }
        Err(errno) => Err(gone(interface, errno.into())),
    }
}

#[cold]
fn gone(interface: &str, source: io::Error) -> PortError {
    let interface = interface.to_owned();
    match source.raw_os_error() {
        Some(libc::ENXIO | libc::ENETDOWN | libc::ENODEV) => PortError::InterfaceGone { interface, source },
        _ => PortError::Kernel { tried: "use an AF_PACKET socket", interface, source },
    }
}

impl Port for PacketPort {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let mut read = Some(read);
        let filters = &self.filters;
        let mut read_matching = |frame: &[u8]| match filters {
            Some(filters) if !filters.takes(frame) => None,
            _ => read.take().map(|read| read(frame)),
        };
        // Frames of others are passed over, at most a ring of them in one call.
        for _ in 0..self.ring.slots() {
            match self.ring.receive(&mut read_matching) {
                Some(Some(result)) => {
                    self.statistics.received_frames += 1;
                    return Ok(Some(result));
                }
                Some(None) => {}
                None => break,
            }
        }
        self.empty()?;
        Ok(None)
    }

    #[inline]
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.queue_with(frame.len(), |buffer| buffer.copy_from_slice(frame))
    }

    #[inline]
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.limits.check_length(len_bytes)?;
        let Some(buffer) = self.queued.get_mut(self.queued_frames) else {
            self.statistics.send_refused_frames += 1;
            return Ok(false);
        };
        self.limits.check(buffer.set_with(len_bytes, write))?;
        self.queued_frames += 1;
        Ok(true)
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        let mut sent = 0;
        while sent < self.queued_frames {
            let buffer = &self.queued[sent];
            let frame = &buffer.bytes[..buffer.len_bytes];
            if !send_one(&self.sending, frame, &self.sending_interface, &mut self.statistics)? {
                break;
            }
            sent += 1;
        }
        // What had no room stays for the next flush, in order.
        self.queued[..self.queued_frames].rotate_left(sent);
        self.queued_frames -= sent;
        Ok(())
    }

    /// Without the copy to a buffer, unless frames wait there that must go first.
    #[inline]
    fn send(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.limits.check(frame)?;
        if self.queued_frames > 0 {
            self.flush()?;
            if self.queued_frames > 0 {
                return self.queue(frame);
            }
        }
        send_one(&self.sending, frame, &self.sending_interface, &mut self.statistics)
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.limits.check(frame)?;
        let slot = self.prepared.len() as u32;
        if slot == self.prepared_most {
            let interface = self.sending_interface.clone();
            return Err(PortError::NoPreparedSlot { interface, slots: self.prepared_most });
        }
        let mut buffer = Buffer::new(frame.len());
        buffer.set(frame);
        self.prepared.push(buffer);
        Ok(PreparedFrame { slot, len_bytes: frame.len() as u32 })
    }

    #[inline]
    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        if self.queued_frames > 0 {
            self.flush()?;
        }
        let slots = self.prepared.len() as u32;
        let Some(resident) = self.prepared.get_mut(frame.slot as usize) else {
            let interface = self.sending_interface.clone();
            return Err(PortError::UnknownPreparedFrame { interface, slot: frame.slot, slots });
        };
        patch(&mut resident.bytes);
        send_one(&self.sending, &resident.bytes, &self.sending_interface, &mut self.statistics)
    }

    fn statistics(&self) -> PortStatistics {
        self.dropped_frames.set(self.dropped_frames.get() + self.ring.take_dropped_frames());
        PortStatistics { receive_dropped_frames: self.dropped_frames.get(), ..self.statistics }
    }

    fn describe(&self) -> String {
        let to = if self.sending_interface == self.interface {
            String::new()
        } else {
            format!(", sending on {}", self.sending_interface)
        };
        format!("AF_PACKET on {}{to}, ring of {} slots", self.interface, self.ring.slots())
    }
}

//! Opening one AF_XDP socket: memory, rings, bind. Gives a receiving half, a sending half, or both over one memory.
//!
//! Memory of a socket that does both: receive buffers, then send buffers, then resident frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearwire_sys::descriptor::{Request, obtain};
use rustix::net::bind;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpMmapOffsets, XdpOptionsFlags, XdpRingOffset,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::process::{Resource, getrlimit};

use super::config::{XdpConfig, XdpMode};
use super::fill::Fill;
use super::receive::Receiver;
use super::rings::{ConsumerRing, ProducerRing, RingSpec};
use super::send::{SendMemory, Sender};
use super::umem::Umem;
use super::zero_copy;
use crate::PortError;
use crate::interface::InterfaceFacts;
use crate::ports::limits;

/// A closed socket gives its queue back from a kernel worker, some milliseconds later (`xp_release_deferred`): a queue
/// that is busy for longer belongs to somebody.
const QUEUE_RELEASE: Duration = Duration::from_millis(500);
const QUEUE_RELEASE_POLL: Duration = Duration::from_millis(1);
/// Buffers that the kernel takes of a frame: a socket buffer has its beginning and 17 parts more (`MAX_SKB_FRAGS`), of which
/// `xsk_build_skb` (`net/xdp/xsk.c`) leaves one. Enough for the largest MTU, of 65535, in buffers of 4096 bytes.
const SEND_BUFFERS_MOST: u32 = 17;

/// What one socket is to be.
pub(super) struct SocketSpec<'a> {
    pub facts: &'a InterfaceFacts,
    pub queue: u32,
    pub mode: XdpMode,
    pub frame_size_bytes: u32,
    /// 0: the socket does not receive.
    pub fill_frames: u32,
    pub rx_ring_slots: u32,
    /// 0: the socket does not send.
    pub tx_frames: u32,
    pub prepared_frames: u32,
    pub huge_pages: bool,
    /// Frames may lie in several buffers.
    pub multi_buffer: bool,
}

/// An opened socket's halves.
pub(super) struct Halves {
    pub receiver: Option<Receiver>,
    pub sender: Option<Sender>,
    pub zero_copy: bool,
    /// The kernel lets frames lie in several buffers.
    pub multi_buffer: bool,
}

impl SocketSpec<'_> {
    /// Opens and binds the socket. Frames lie in one buffer each where the kernel has no more (before Linux 6.6), or the driver in
    /// zero-copy mode.
    pub(super) fn open(&self) -> Result<Halves, PortError> {
        match self.try_open() {
            Err(error) if self.multi_buffer && may_be_for_multi_buffer(&error) => {
                SocketSpec { multi_buffer: false, ..*self }.try_open()
            }
            opened => opened,
        }
    }

    fn try_open(&self) -> Result<Halves, PortError> {
        let socket =
            obtain(&Request::XdpSocket).map_err(|refusal| self.refused("open an AF_XDP socket", refusal.source))?;
        let buffers = self.fill_frames + self.send_buffers();
        let len_bytes = buffers as usize * self.frame_size_bytes as usize;
        let umem = Umem::map(len_bytes.next_multiple_of(4096), self.huge_pages)
            .map_err(|source| self.refused("map packet memory", source))?;
        self.register(&socket, &umem)?;
        self.size_rings(&socket).map_err(|errno| self.refused("set AF_XDP ring sizes", errno))?;
        let offsets = xdp_mmap_offsets(&socket).map_err(|errno| self.refused("read AF_XDP ring offsets", errno))?;
        let socket = Arc::new(socket);
        let umem = Arc::new(umem);
        let receiver = self.receiver(&socket, &umem, &offsets)?;
        let sender = self.sender(&socket, &umem, &offsets)?;
        self.bind(&socket)?;
        let zero_copy =
            xdp_options(&*socket).is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        Ok(Halves { receiver, sender, zero_copy, multi_buffer: self.multi_buffer })
    }

    /// Buffers that a frame to be sent may take.
    fn area_buffers(&self) -> u32 {
        if self.multi_buffer { area_buffers(self.facts, self.frame_size_bytes) } else { 1 }
    }

    /// All that sending has.
    fn send_buffers(&self) -> u32 {
        (self.tx_frames + self.prepared_frames) * self.area_buffers()
    }

    fn refused(&self, tried: &'static str, source: impl Into<io::Error>) -> PortError {
        PortError::refused(tried, &self.facts.name, source)
    }

    fn register(&self, socket: &OwnedFd, umem: &Umem) -> Result<(), PortError> {
        let registration = XdpUmemReg {
            addr: umem.base_address(),
            len: umem.len_bytes() as u64,
            chunk_size: self.frame_size_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(socket, registration).map_err(|errno| match errno {
            rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM => PortError::MemoryLimit {
                interface: self.facts.name.clone(),
                wanted_bytes: registration.len,
                limit_bytes: getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
                source: errno.into(),
            },
            other => self.refused("register packet memory", other),
        })
    }

    /// More slots than buffers: in a full ring, we would write the very slot that the kernel has just read, on the cache
    /// line that it reads next.
    fn fill_ring_slots(&self) -> u32 {
        (self.fill_frames * 2).max(1).next_power_of_two()
    }

    /// Room for every frame that can be under way, so that a push to these rings never fails.
    fn tx_ring_slots(&self) -> u32 {
        self.send_buffers().max(1).next_power_of_two()
    }

    /// The kernel wants a fill and a completion ring on every socket that has its own memory.
    fn size_rings(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        set_xdp_umem_fill_ring_size(socket, self.fill_ring_slots())?;
        set_xdp_umem_completion_ring_size(socket, self.tx_ring_slots())?;
        if self.fill_frames > 0 {
            set_xdp_rx_ring_size(socket, self.rx_ring_slots)?;
        }
        if self.tx_frames > 0 {
            set_xdp_tx_ring_size(socket, self.tx_ring_slots())?;
        }
        Ok(())
    }

    fn receiver(
        &self,
        socket: &Arc<OwnedFd>,
        umem: &Arc<Umem>,
        offsets: &XdpMmapOffsets,
    ) -> Result<Option<Receiver>, PortError> {
        if self.fill_frames == 0 {
            return Ok(None);
        }
        let mapped = |errno: io::Error| self.refused("map the AF_XDP receive rings", errno);
        let fill = spec(socket, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, self.fill_ring_slots());
        let rx = spec(socket, XDP_PGOFF_RX_RING, offsets.rx, self.rx_ring_slots);
        let mut fill = ProducerRing::map(&fill).map_err(mapped)?;
        let rx = ConsumerRing::map(&rx).map_err(mapped)?;
        for frame in 0..self.fill_frames {
            let pushed = fill.push(u64::from(frame) * u64::from(self.frame_size_bytes));
            debug_assert!(pushed, "the fill ring has a slot for every buffer");
        }
        fill.submit();
        let receiver = Receiver::new(socket.clone(), umem.clone(), rx, Fill::Own(fill), self.frame_size_bytes);
        let frame_most_bytes = self.facts.frame_most_bytes().next_multiple_of(self.frame_size_bytes as usize);
        Ok(Some(if self.multi_buffer { receiver.with_assembly(frame_most_bytes) } else { receiver }))
    }

    fn sender(
        &self,
        socket: &Arc<OwnedFd>,
        umem: &Arc<Umem>,
        offsets: &XdpMmapOffsets,
    ) -> Result<Option<Sender>, PortError> {
        if self.tx_frames == 0 {
            return Ok(None);
        }
        let mapped = |errno: io::Error| self.refused("map the AF_XDP send rings", errno);
        let tx = spec(socket, XDP_PGOFF_TX_RING, offsets.tx, self.tx_ring_slots());
        let completion = spec(socket, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, self.tx_ring_slots());
        let tx = ProducerRing::map(&tx).map_err(mapped)?;
        let completion = ConsumerRing::map(&completion).map_err(mapped)?;
        let memory = SendMemory {
            umem: umem.clone(),
            frame_size_bytes: self.frame_size_bytes,
            start: u64::from(self.fill_frames) * u64::from(self.frame_size_bytes),
            tx_frames: self.tx_frames,
            prepared_frames: self.prepared_frames,
            buffers: self.area_buffers(),
        };
        let copies = self.mode != XdpMode::ZeroCopy;
        Ok(Some(Sender::new(socket.clone(), self.queue, memory, tx, completion, copies)))
    }

    fn bind(&self, socket: &OwnedFd) -> Result<(), PortError> {
        let copy = match self.mode {
            XdpMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
            XdpMode::NativeCopy | XdpMode::Generic => SocketAddrXdpFlags::XDP_COPY,
        };
        let several = if self.multi_buffer { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
        let flags = copy | several | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, self.facts.ifindex, self.queue);
        let until = Instant::now() + QUEUE_RELEASE;
        loop {
            match bind(socket, &address) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::BUSY) if Instant::now() < until => std::thread::sleep(QUEUE_RELEASE_POLL),
                Err(errno) => return Err(self.bind_refused(errno.into())),
            }
        }
    }

    fn bind_refused(&self, source: io::Error) -> PortError {
        let (interface, queue, mode) = (self.facts.name.clone(), self.queue, self.mode.name());
        match source.raw_os_error() {
            Some(libc::EBUSY) => PortError::QueueBusy { interface, queue, mode },
            Some(libc::EOPNOTSUPP) => {
                if self.mode == XdpMode::ZeroCopy && !self.multi_buffer {
                    zero_copy::remember(self.facts, false);
                }
                let instead = if self.mode == XdpMode::ZeroCopy { "copy mode" } else { "frame/packet" };
                let driver = self.facts.driver.clone();
                PortError::ModeUnsupported { interface, queue, mode, driver, instead, source }
            }
            _ => self.refused("bind an AF_XDP socket", source),
        }
    }
}

/// Buffers that a frame to be sent on an interface may take.
pub(super) fn area_buffers(facts: &InterfaceFacts, buffer_bytes: u32) -> u32 {
    (facts.frame_most_bytes() as u32).div_ceil(buffer_bytes).clamp(1, SEND_BUFFERS_MOST)
}

/// Kernels that do not know the flag refuse it with `EINVAL`, drivers whose zero-copy mode has no such frames with `EOPNOTSUPP`.
fn may_be_for_multi_buffer(error: &PortError) -> bool {
    match error {
        PortError::ModeUnsupported { .. } => true,
        PortError::Kernel { source, .. } => source.raw_os_error() == Some(libc::EINVAL),
        _ => false,
    }
}

/// Another socket that receives from a queue which one is bound to.
pub(super) struct OpenAnother<'a> {
    pub config: &'a XdpConfig,
    pub ifindex: u32,
    pub queue: u32,
}

impl OpenAnother<'_> {
    /// Opens and binds it, over the memory of `first`, with an RX ring and nothing else of its own. What the first was bound with
    /// holds for it too: the kernel takes no flags.
    pub(super) fn open(&self, first: BorrowedFd<'_>) -> Result<(Arc<OwnedFd>, ConsumerRing<XdpDesc>), PortError> {
        let refused = |tried, source: io::Error| PortError::refused(tried, &self.config.interface, source);
        let slots = self.config.share_ring_slots;
        let socket = obtain(&Request::XdpSocket).map_err(|refusal| refused("open an AF_XDP socket", refusal.source))?;
        set_xdp_rx_ring_size(&socket, slots).map_err(|errno| refused("set AF_XDP ring sizes", errno.into()))?;
        let offsets = xdp_mmap_offsets(&socket).map_err(|errno| refused("read AF_XDP ring offsets", errno.into()))?;
        let rx = ConsumerRing::map(&spec(&socket, XDP_PGOFF_RX_RING, offsets.rx, slots))
            .map_err(|source| refused("map the AF_XDP receive rings", source))?;
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, self.ifindex, self.queue);
        bind(&socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first })
            .map_err(|errno| refused("bind an AF_XDP socket that shares a queue", errno.into()))?;
        Ok((Arc::new(socket), rx))
    }

    /// What it was asked of has its fill ring for itself.
    pub(super) fn not_sharing(&self) -> PortError {
        limits::is_no_share("share a queue", &self.config.interface)
    }
}

fn spec(socket: &OwnedFd, page_offset: u64, offsets: XdpRingOffset, slots: u32) -> RingSpec<'_> {
    RingSpec { socket: socket.as_fd(), page_offset, offsets, slots }
}

//! Opening one AF_XDP socket: memory, rings, bind. Gives a receiving half, a sending half, or both over one memory ([`super::division`]).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearwire_sys::descriptor::{Request, obtain};
use rustix::net::bind;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XdpDesc,
    XdpMmapOffsets, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::process::{Resource, getrlimit};

use super::config::{XdpConfig, XdpMode};
use super::division::Division;
use super::fill::Fill;
use super::queue::{OwnFill, Queue};
use super::receive::Receiver;
use super::rings::{ConsumerRing, ProducerRing, RingSpec};
use super::send::Sender;
use super::umem::Umem;
use super::zero_copy;
use crate::PortError;
use crate::interface::InterfaceFacts;

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
    /// Of these, what the kernel gets when the socket is opened.
    pub first_used_frames: u32,
    pub rx_ring_slots: u32,
    /// 0: the socket does not send.
    pub tx_frames: u32,
    pub prepared_frames: u32,
    /// Shares that send on the queue, and what each of them sends with.
    pub share_areas: u32,
    pub share_tx_frames: u32,
    pub huge_pages: bool,
    /// Other processes may map the memory.
    pub keeps_memory_fd: bool,
    /// Frames may lie in several buffers.
    pub multi_buffer: bool,
    /// Bytes of the longest frame that comes so.
    pub longest_frame_bytes: usize,
}

/// An opened socket's halves.
pub(super) struct Halves {
    pub receiver: Option<Receiver>,
    pub sender: Option<Sender>,
    pub division: Division,
    pub zero_copy: bool,
    /// The kernel lets frames lie in several buffers.
    pub multi_buffer: bool,
}

impl<'f> SocketSpec<'f> {
    /// One on the first queue that is opened to find something out: it receives, and that is all.
    pub(super) fn of_trial(
        facts: &'f InterfaceFacts,
        mode: XdpMode,
        fill_frames: u32,
        rx_ring_slots: u32,
    ) -> SocketSpec<'f> {
        SocketSpec {
            facts,
            queue: 0,
            mode,
            frame_size_bytes: 2048,
            fill_frames,
            first_used_frames: fill_frames,
            rx_ring_slots,
            tx_frames: 0,
            prepared_frames: 0,
            share_areas: 0,
            share_tx_frames: 0,
            huge_pages: false,
            keeps_memory_fd: false,
            multi_buffer: false,
            longest_frame_bytes: facts.frame_most_bytes(),
        }
    }

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
        let division = self.division();
        let umem = Umem::create(division.layout(), self.huge_pages, self.keeps_memory_fd)
            .map_err(|source| self.refused("map packet memory", source))?;
        self.register(&socket, &umem)?;
        self.size_rings(&socket, &division).map_err(|errno| self.refused("set AF_XDP ring sizes", errno))?;
        let offsets = xdp_mmap_offsets(&socket).map_err(|errno| self.refused("read AF_XDP ring offsets", errno))?;
        let socket = Arc::new(socket);
        let queue = Queue::map(&socket, &offsets, division.slots(), Arc::new(umem));
        let queue = Arc::new(queue.map_err(|source| self.refused("map the AF_XDP rings of a queue", source))?);
        let receiver = self.receiver(&socket, &queue, &offsets)?;
        let sender = self.sender(&socket, &queue, &offsets)?;
        self.bind(&socket)?;
        let zero_copy =
            xdp_options(&*socket).is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        Ok(Halves { receiver, sender, division, zero_copy, multi_buffer: self.multi_buffer })
    }

    fn division(&self) -> Division {
        Division {
            frame_size_bytes: self.frame_size_bytes,
            fill_frames: self.fill_frames,
            tx_frames: self.tx_frames,
            prepared_frames: self.prepared_frames,
            area_buffers: if self.multi_buffer { area_buffers(self.facts, self.frame_size_bytes) } else { 1 },
            share_areas: self.share_areas,
            share_tx_frames: self.share_tx_frames,
        }
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

    /// The kernel wants a fill and a completion ring on every socket that has its own memory.
    fn size_rings(&self, socket: &OwnedFd, division: &Division) -> rustix::io::Result<()> {
        let slots = division.slots();
        set_xdp_umem_fill_ring_size(socket, slots.fill)?;
        set_xdp_umem_completion_ring_size(socket, slots.completion)?;
        if self.fill_frames > 0 {
            set_xdp_rx_ring_size(socket, self.rx_ring_slots)?;
        }
        if self.tx_frames > 0 {
            set_xdp_tx_ring_size(socket, division.own_memory().ring_slots())?;
        }
        Ok(())
    }

    fn receiver(
        &self,
        socket: &Arc<OwnedFd>,
        queue: &Arc<Queue>,
        offsets: &XdpMmapOffsets,
    ) -> Result<Option<Receiver>, PortError> {
        if self.fill_frames == 0 {
            return Ok(None);
        }
        let rx = map_rx(socket, offsets, self.rx_ring_slots)
            .map_err(|errno| self.refused("map the AF_XDP receive rings", errno))?;
        let mut fill = OwnFill::new(queue);
        for frame in 0..self.first_used_frames {
            let pushed = fill.ring().push(u64::from(frame) * u64::from(self.frame_size_bytes));
            debug_assert!(pushed, "the fill ring has a slot for every buffer");
        }
        fill.ring().submit();
        let receiver = Receiver::new(socket.clone(), rx, Fill::Own(fill));
        let frame_most_bytes = self.longest_frame_bytes.next_multiple_of(self.frame_size_bytes as usize);
        Ok(Some(if self.multi_buffer { receiver.with_assembly(frame_most_bytes) } else { receiver }))
    }

    fn sender(
        &self,
        socket: &Arc<OwnedFd>,
        queue: &Arc<Queue>,
        offsets: &XdpMmapOffsets,
    ) -> Result<Option<Sender>, PortError> {
        if self.tx_frames == 0 {
            return Ok(None);
        }
        let memory = self.division().own_memory();
        let tx = map_tx(socket, offsets, memory.ring_slots())
            .map_err(|errno| self.refused("map the AF_XDP send rings", errno))?;
        let copies = self.mode != XdpMode::ZeroCopy;
        Ok(Some(Sender::new(socket.clone(), memory, tx, Arc::clone(queue), copies)))
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

pub(super) fn map_rx(socket: &OwnedFd, offsets: &XdpMmapOffsets, slots: u32) -> io::Result<ConsumerRing<XdpDesc>> {
    ConsumerRing::map(&RingSpec::of(socket, XDP_PGOFF_RX_RING, offsets.rx, slots))
}

pub(super) fn map_tx(socket: &OwnedFd, offsets: &XdpMmapOffsets, slots: u32) -> io::Result<ProducerRing<XdpDesc>> {
    ProducerRing::map(&RingSpec::of(socket, XDP_PGOFF_TX_RING, offsets.tx, slots))
}

/// Another socket on a queue which one is bound to.
pub(super) struct OpenAnother<'a> {
    pub config: &'a XdpConfig,
    pub ifindex: u32,
    pub queue: u32,
    /// Of its TX ring; `None`: it does not send.
    pub tx_slots: Option<u32>,
}

impl OpenAnother<'_> {
    /// Opens and binds it, over the memory of `first`, with an RX ring of its own. What the first was bound with holds for it too: the
    /// kernel takes no flags. The rings are mapped before it is bound, which all kernels do.
    pub(super) fn open(&self, first: BorrowedFd<'_>) -> Result<ShareSocket, PortError> {
        let refused = |tried, source: io::Error| PortError::refused(tried, &self.config.interface, source);
        let socket = obtain(&Request::XdpSocket).map_err(|refusal| refused("open an AF_XDP socket", refusal.source))?;
        set_xdp_rx_ring_size(&socket, self.config.share_ring_slots)
            .and_then(|()| self.tx_slots.map_or(Ok(()), |slots| set_xdp_tx_ring_size(&socket, slots)))
            .map_err(|errno| refused("set AF_XDP ring sizes", errno.into()))?;
        let mapped = ShareSocket::map(socket, self.config.share_ring_slots, self.tx_slots)
            .map_err(|source| refused("map the AF_XDP rings of a share", source))?;
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, self.ifindex, self.queue);
        bind(&mapped.socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first })
            .map_err(|errno| refused("bind an AF_XDP socket that shares a queue", errno.into()))?;
        Ok(mapped)
    }
}

/// One socket of a share, with its rings.
#[derive(Debug)]
pub(super) struct ShareSocket {
    // Rings before sockets: what points into a thing goes before the thing.
    pub rx: ConsumerRing<XdpDesc>,
    /// `None`: it does not send.
    pub tx: Option<ProducerRing<XdpDesc>>,
    pub socket: Arc<OwnedFd>,
}

impl ShareSocket {
    /// Maps the rings of a socket, with so many slots. One that is bound needs Linux 6.4.
    pub(super) fn map(
        socket: impl Into<Arc<OwnedFd>>,
        rx_slots: u32,
        tx_slots: Option<u32>,
    ) -> io::Result<ShareSocket> {
        let socket = socket.into();
        let offsets = xdp_mmap_offsets(&*socket)?;
        let rx = map_rx(&socket, &offsets, rx_slots)?;
        let tx = tx_slots.map(|slots| map_tx(&socket, &offsets, slots)).transpose()?;
        Ok(ShareSocket { rx, tx, socket })
    }

    /// The same for the share that has it, in this process.
    pub(super) fn another(&self) -> ShareSocket {
        let tx = self.tx.as_ref().map(ProducerRing::another);
        ShareSocket { rx: self.rx.another(), tx, socket: Arc::clone(&self.socket) }
    }
}

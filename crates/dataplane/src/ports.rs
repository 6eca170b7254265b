//! Ports of generators, sinks and forwarders.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::memif::{MemifConfig, MemifPort, MemifRole, MemifSocket};
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{Candidate, Side, Steer, XdpConfig, XdpMode, XdpPort, candidates};
use nearwire_frames::steering::{Filter, FlowFilter, Transport};
use nearwire_frames::{PortError, RawPort};

use crate::traffic::DESTINATION_PORT;

/// Buffers of a receive ring: a port that is read late, since its thread was stopped, loses nothing for as long as these last. More are
/// slower, as they leave the cache.
const RING_FRAMES: u32 = 1024;
/// Frames that may be on their way out.
const SEND_FRAMES: u32 = 256;

/// Which frames a port takes from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All, as a forwarder does, and what is alone in its namespace.
    All,
    /// Datagrams to [`DESTINATION_PORT`]: the kernel goes on to answer ARP and all else.
    TestTraffic,
    /// None: a generator's.
    None,
}

impl Taken {
    const fn steer(self) -> Steer {
        match self {
            Taken::All => Steer::All,
            Taken::TestTraffic | Taken::None => Steer::Filters,
        }
    }

    fn add_filters(self, port: &mut impl RawPort) -> Result<(), PortError> {
        if self != Taken::TestTraffic {
            return Ok(());
        }
        let filter = |address| FlowFilter { transport: Transport::Udp, address, port: DESTINATION_PORT };
        port.add_filter(Filter::Flow(filter(Ipv4Addr::UNSPECIFIED.into())))?;
        port.add_filter(Filter::Flow(filter(Ipv6Addr::UNSPECIFIED.into())))
    }
}

/// Opens an AF_XDP port on an interface of the calling thread's namespace, in the likely fastest way that works.
///
/// # Errors
/// None works: why the first did not.
pub fn open_xdp(interface: &str, side: Side, taken: Taken) -> Result<XdpPort, PortError> {
    let mut refused = None;
    let ways = candidates(&InterfaceFacts::read(interface)?, side, taken.steer());
    // In the driver, veth delivers a frame on the queue that it was sent on; a kernel or another program at the other end sends on any.
    let hears_all = |way: &Candidate| !(way.config.separate_tx_socket && way.config.mode == XdpMode::NativeCopy);
    for Candidate { config, .. } in ways.into_iter().filter(hears_all) {
        let config = XdpConfig {
            fill_frames: config.fill_frames.max(RING_FRAMES),
            rx_ring_slots: config.rx_ring_slots.max(RING_FRAMES),
            tx_frames: SEND_FRAMES,
            ..config
        };
        let opened = XdpPort::open(&config).and_then(|mut port| taken.add_filters(&mut port).map(|()| port));
        match opened {
            Ok(port) => return Ok(port),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(PortError::InterfaceDown { interface: interface.to_owned() }))
}

/// Opens an AF_PACKET port; the kernel gets a copy of each frame.
///
/// # Errors
/// As [`PacketPort::open`].
pub fn open_packet(interface: &str, taken: Taken) -> Result<PacketPort, PortError> {
    let config = PacketConfig::new(interface, taken.steer());
    let mut port = PacketPort::open(&PacketConfig { ring_slots: RING_FRAMES, tx_frames: SEND_FRAMES, ..config })?;
    taken.add_filters(&mut port)?;
    Ok(port)
}

/// Opens one end of a memif connection (VPP, DPDK) at a socket in the file system; waits 10 s for the other end.
///
/// # Errors
/// As [`MemifPort::open`].
pub fn open_memif(socket: &Path, role: MemifRole) -> Result<MemifPort, PortError> {
    let ring_size_log2 = RING_FRAMES.ilog2() as u8;
    MemifPort::open(&MemifConfig { ring_size_log2, ..MemifConfig::new(MemifSocket::from(socket), role) })
}

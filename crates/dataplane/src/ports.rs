//! Ports of generators, sinks and forwarders.

use nearwire_frames::PortError;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::{Candidate, Side, Steer, XdpConfig, XdpPort, candidates};

/// Buffers of a receive ring: a port that is read late, since its thread was stopped, loses nothing for as long as these last. More are
/// slower, as they leave the cache.
const RING_FRAMES: u32 = 1024;
/// Frames that may be on their way out.
const SEND_FRAMES: u32 = 256;

/// Opens an AF_XDP port for all frames of an interface of the calling thread's namespace, in the likely fastest way that works.
///
/// # Errors
/// None works: why the first did not.
pub fn open_xdp(interface: &str, side: Side) -> Result<XdpPort, PortError> {
    let mut refused = None;
    for Candidate { config, .. } in candidates(&InterfaceFacts::read(interface)?, side, Steer::All) {
        let config = XdpConfig {
            fill_frames: config.fill_frames.max(RING_FRAMES),
            rx_ring_slots: config.rx_ring_slots.max(RING_FRAMES),
            tx_frames: SEND_FRAMES,
            ..config
        };
        match XdpPort::open(&config) {
            Ok(port) => return Ok(port),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(PortError::InterfaceDown { interface: interface.to_owned() }))
}

/// Opens an AF_PACKET port for all frames of an interface.
///
/// # Errors
/// As [`PacketPort::open`].
pub fn open_packet(interface: &str) -> Result<PacketPort, PortError> {
    let config = PacketConfig::new(interface, Steer::All);
    PacketPort::open(&PacketConfig { ring_slots: RING_FRAMES, tx_frames: SEND_FRAMES, ..config })
}

//! `frame/packet`: AF_PACKET with a mapped receive ring and qdisc-bypass sends.

use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_wire::ethernet::EtherType;

use super::frame::{FrameEnd, FrameEndpoint, receive_and_send_interfaces};
use super::{EndAddress, LocalEnd, Path, PathError, Setup};

/// An open AF_PACKET port.
pub struct PacketPath {
    end: FrameEnd,
    port: PacketPort,
}

impl Path for PacketPath {
    type Endpoint = FrameEndpoint<PacketPort>;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<PacketPath, PathError> {
        let (receive, send) = receive_and_send_interfaces(setup, local)?;
        let mut config = PacketConfig::new(&receive.name, Steer::EtherType(EtherType::MEASURING.0));
        config.tx_interface = send.map(|interface| interface.name.clone());
        Ok(PacketPath { end: FrameEnd::new(setup, local)?, port: PacketPort::open(&config)? })
    }

    fn address(&self) -> EndAddress {
        self.end.address()
    }

    fn connect(self, peer: &EndAddress) -> Result<Self::Endpoint, PathError> {
        self.end.connect(self.port, peer)
    }
}

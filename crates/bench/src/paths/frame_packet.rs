//! `frame/packet`: AF_PACKET with a mapped receive ring and qdisc-bypass sends.

use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_wire::ethernet::EtherType;

use super::frame::{OpenPort, receive_and_send_interfaces};
use super::{LocalEnd, PathError, Setup};

impl OpenPort for PacketPort {
    fn open_port(setup: &Setup, local: &LocalEnd) -> Result<PacketPort, PathError> {
        let (receive, send) = receive_and_send_interfaces(setup, local)?;
        let mut config = PacketConfig::new(&receive.name, Steer::EtherType(EtherType::MEASURING.0));
        config.tx_interface = send.map(|interface| interface.name.clone());
        Ok(PacketPort::open(&config)?)
    }
}

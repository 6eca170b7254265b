//! Datagrams that a program took from its share and that the kernel is to have, for other processes to read.
//!
//! A datagram is sent once more, from the address it came from, by a raw socket whose packets to an address of this host
//! pass the loopback device (raw(7), IPPROTO_RAW; the packet keeps the route of its sending, so nobody asks whether
//! that source may come from there). The kernel queues it at the shadow. A program that has the capability of raw sockets does it, the agent
//! does it for one that has none ([`Request::GiveBack`](crate::message::Request::GiveBack)).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use nearwire_sys::descriptor::place;
use nearwire_wire::checksum::Sum;
use nearwire_wire::ipv4::{HEADER_BYTES_MIN, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Header};
use nearwire_wire::udp::{self, UdpHeader, checksum_field};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with};

/// A datagram as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// To whom, an address of this host.
    pub destination: SocketAddr,
    /// IPv4's time to live or IPv6's hop limit.
    pub ttl: u8,
    /// IPv4's type of service or IPv6's traffic class.
    pub tos: u8,
    /// What was sent.
    pub payload: &'a [u8],
}

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBack {
    /// The kernel has it.
    Done,
    /// The kernel refuses it, or it is for several.
    Refused,
    /// This process has no capability of raw sockets.
    NotAllowed,
}

/// Raw sockets, opened when needed.
#[derive(Debug, Default)]
pub struct Sender {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    packet: Vec<u8>,
}

impl Sender {
    /// Sends it to the address that it was for, on this host.
    pub fn send(&mut self, datagram: &Received<'_>) -> GivenBack {
        let Some(destination) = self.write(datagram) else { return GivenBack::Refused };
        let packet = std::mem::take(&mut self.packet);
        let sent = self.send_packet(&packet, destination);
        self.packet = packet;
        sent
    }

    /// Opens the raw socket that sends to an address, in the calling thread's network namespace, unless it is open.
    pub fn open_for(&mut self, destination: IpAddr) {
        if self.raw(destination).is_none() {
            let family = if destination.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let opened = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(RAW));
            *self.raw(destination) = opened.ok().map(place);
        }
    }

    /// Whether a datagram to an address can be sent by a socket that is open.
    #[must_use]
    pub fn is_open_for(&self, destination: IpAddr) -> bool {
        if destination.is_ipv4() { self.v4.is_some() } else { self.v6.is_some() }
    }

    fn raw(&mut self, destination: IpAddr) -> &mut Option<OwnedFd> {
        if destination.is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }

    /// Sends an IP packet to the address of this host that it was for.
    pub fn send_packet(&mut self, packet: &[u8], destination: IpAddr) -> GivenBack {
        self.open_for(destination);
        let Some(raw) = self.raw(destination) else { return GivenBack::NotAllowed };
        match sendto(raw, packet, SendFlags::DONTWAIT, &SocketAddr::new(destination, 0)) {
            Ok(_) => GivenBack::Done,
            Err(_) => GivenBack::Refused,
        }
    }

    /// The packet as it came, as far as a program can tell. Gives the destination.
    fn write(&mut self, datagram: &Received<'_>) -> Option<IpAddr> {
        let Received { payload, source, destination, ttl, tos } = *datagram;
        let (source_port, destination_port, destination) = (source.port(), destination.port(), destination.ip());
        let udp_bytes = u16::try_from(udp::HEADER_BYTES + payload.len()).ok()?;
        self.packet.clear();
        let pseudo = match (source.ip(), destination) {
            (IpAddr::V4(source), IpAddr::V4(to)) if !to.is_multicast() && !to.is_broadcast() => {
                self.packet.resize(HEADER_BYTES_MIN + usize::from(udp_bytes), 0);
                let header = Ipv4Header {
                    tos,
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl,
                    protocol: udp::PROTOCOL,
                    source,
                    destination: to,
                };
                header.write(&mut self.packet).ok()?;
                Sum::default().pseudo_v4(source, to, udp::PROTOCOL, udp_bytes)
            }
            (IpAddr::V6(source), IpAddr::V6(to)) if !to.is_multicast() && !to.is_unicast_link_local() => {
                self.packet.resize(ipv6::HEADER_BYTES + usize::from(udp_bytes), 0);
                let header = Ipv6Header {
                    traffic_class: tos,
                    flow_label: 0,
                    next_header: udp::PROTOCOL,
                    hop_limit: ttl,
                    source,
                    destination: to,
                };
                header.write(&mut self.packet).ok()?;
                Sum::default().pseudo_v6(source, to, udp::PROTOCOL, udp_bytes)
            }
            _ => return None,
        };
        let at = self.packet.len() - usize::from(udp_bytes);
        let body = self.packet.get_mut(at..)?;
        UdpHeader { source_port, destination_port, checksum: [0; 2] }.write(body).ok()?.copy_from_slice(payload);
        let checksum = checksum_field(pseudo.bytes(body));
        UdpHeader { source_port, destination_port, checksum }.write(body).ok()?;
        Some(destination)
    }
}

// include/uapi/linux/in.h: IPPROTO_RAW.
const RAW: Protocol = Protocol::from_raw(match std::num::NonZeroU32::new(255) {
    Some(number) => number,
    None => std::num::NonZeroU32::MIN,
});

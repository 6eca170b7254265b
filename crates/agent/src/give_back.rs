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
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::ipv4::{HEADER_BYTES_MIN, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Header};
use nearwire_wire::tcp;
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
        let (source_port, destination_port) = (source.port(), destination.port());
        let ip = Ip { source: source.ip(), destination: destination.ip(), ttl, tos, protocol: udp::PROTOCOL };
        let pseudo = ip.write(&mut self.packet, udp::HEADER_BYTES + payload.len())?;
        let at = self.packet.len() - udp::HEADER_BYTES - payload.len();
        let body = self.packet.get_mut(at..)?;
        UdpHeader { source_port, destination_port, checksum: [0; 2] }.write(body).ok()?.copy_from_slice(payload);
        let checksum = checksum_field(pseudo.bytes(body));
        UdpHeader { source_port, destination_port, checksum }.write(body).ok()?;
        Some(ip.destination)
    }

    /// Sends a TCP segment to the address of this host that it was for; `segment`: header, options and payload, as they came. Its checksum is
    /// computed anew, as a virtual device may have left it out.
    pub fn send_segment(&mut self, ip: Ip, segment: &[u8]) -> GivenBack {
        let mut packet = std::mem::take(&mut self.packet);
        let sent = match write_segment(&mut packet, ip, segment) {
            Some(()) => self.send_packet(&packet, ip.destination),
            None => GivenBack::Refused,
        };
        self.packet = packet;
        sent
    }
}

/// The segment in a frame that a stack has found to be right, for [`Sender::send_segment`]. `None`: it is none of IPv4 or IPv6.
#[must_use]
pub fn segment_of(frame: &[u8]) -> Option<(Ip, &[u8])> {
    let (header, packet) = EthernetHeader::parse(frame).ok()?;
    let protocol = tcp::PROTOCOL;
    match header.ethertype {
        EtherType::IPV4 => {
            let packet = Ipv4Header::parse(packet).ok()?;
            let header = packet.header;
            let (source, destination): (IpAddr, IpAddr) = (header.source.into(), header.destination.into());
            Some((Ip { source, destination, ttl: header.ttl, tos: header.tos, protocol }, packet.payload))
        }
        EtherType::IPV6 => {
            let (header, payload) = Ipv6Header::parse(packet).ok()?;
            let (source, destination): (IpAddr, IpAddr) = (header.source.into(), header.destination.into());
            Some((Ip { source, destination, ttl: header.hop_limit, tos: header.traffic_class, protocol }, payload))
        }
        _ => None,
    }
}

/// A packet with a segment whose checksum is right.
pub(crate) fn write_segment(packet: &mut Vec<u8>, ip: Ip, segment: &[u8]) -> Option<()> {
    const CHECKSUM: std::ops::Range<usize> = tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2;
    let pseudo = ip.write(packet, segment.len())?;
    let at = packet.len() - segment.len();
    let body = packet.get_mut(at..)?;
    body.copy_from_slice(segment);
    body.get_mut(CHECKSUM)?.fill(0);
    let checksum = pseudo.bytes(body).checksum();
    body.get_mut(CHECKSUM)?.copy_from_slice(&checksum);
    Some(())
}

/// What is written of an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// IPv4's time to live or IPv6's hop limit.
    pub ttl: u8,
    /// IPv4's type of service or IPv6's traffic class.
    pub tos: u8,
    /// Of what follows.
    pub protocol: u8,
}

impl Ip {
    /// Begins a packet with room for a body; gives the sum of the pseudo header. `None`: the addresses are of two families, or of several hosts.
    fn write(self, packet: &mut Vec<u8>, body_bytes: usize) -> Option<Sum> {
        let Ip { ttl, tos, protocol, .. } = self;
        let body = u16::try_from(body_bytes).ok()?;
        packet.clear();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination))
                if !destination.is_multicast() && !destination.is_broadcast() =>
            {
                packet.resize(HEADER_BYTES_MIN + body_bytes, 0);
                let header = Ipv4Header {
                    tos,
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl,
                    protocol,
                    source,
                    destination,
                };
                header.write(packet).ok()?;
                Some(Sum::default().pseudo_v4(source, destination, protocol, body))
            }
            (IpAddr::V6(source), IpAddr::V6(destination))
                if !destination.is_multicast() && !destination.is_unicast_link_local() =>
            {
                packet.resize(ipv6::HEADER_BYTES + body_bytes, 0);
                let header = Ipv6Header {
                    traffic_class: tos,
                    flow_label: 0,
                    next_header: protocol,
                    hop_limit: ttl,
                    source,
                    destination,
                };
                header.write(packet).ok()?;
                Some(Sum::default().pseudo_v6(source, destination, protocol, body))
            }
            _ => None,
        }
    }
}

// include/uapi/linux/in.h: IPPROTO_RAW.
const RAW: Protocol = Protocol::from_raw(match std::num::NonZeroU32::new(255) {
    Some(number) => number,
    None => std::num::NonZeroU32::MIN,
});

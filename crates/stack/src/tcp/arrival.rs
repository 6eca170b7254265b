//! From a frame to a connection: four-tuple, checksum, and the segment that it takes in.

use nearwire_wire::checksum::{ChecksumState, Sum};
use nearwire_wire::ipv4::{Ipv4Header, Ipv4Packet};
use nearwire_wire::ipv6::Ipv6Header;
use nearwire_wire::tcp::{PROTOCOL, TcpSegment};

use super::segment::Segment;
use super::{Tcp, ports};
use crate::Stack;
use crate::address::Address;
use crate::reasons::{Dropped, NotOurs};
use crate::receive::{Arrival, ReceiveChecksum, Verdict};

/// CE in the type of service (RFC 3168 section 5).
const MARKED: u8 = 3;

/// What IP says of a segment.
#[derive(Clone, Copy, Debug)]
struct Packet<'f> {
    source: Address,
    destination: Address,
    ifindex: u32,
    tos: u8,
    payload: &'f [u8],
    /// Of addresses, protocol and length.
    pseudo: Sum,
}

impl Stack {
    /// A packet that is no UDP: a segment of a connection here, or the kernel's. It is parsed again: what UDP has parsed of every packet
    /// stays in registers, 2 ns of 18.
    #[inline(never)]
    pub(crate) fn not_udp_v4(&mut self, arrival: &Arrival<'_>, ifindex: u32, packet: &[u8]) -> Verdict {
        let packet = Ipv4Header::parse(packet).ok().filter(|packet| packet.header.protocol == PROTOCOL);
        let Some(Ipv4Packet { header, payload, .. }) = packet else { return Verdict::NotOurs(NotOurs::Protocol) };
        let pseudo = Sum::default().pseudo_v4(header.source, header.destination, PROTOCOL, payload.len() as u16);
        let (source, destination) = (Address::v4(header.source), Address::v4(header.destination));
        self.segment_came(arrival, Packet { source, destination, ifindex, tos: header.tos, payload, pseudo })
    }

    /// As [`Self::not_udp_v4`].
    #[inline(never)]
    pub(crate) fn not_udp_v6(&mut self, arrival: &Arrival<'_>, ifindex: u32, packet: &[u8]) -> Verdict {
        let packet = Ipv6Header::parse(packet).ok().filter(|(header, _)| header.next_header == PROTOCOL);
        let Some((header, payload)) = packet else { return Verdict::NotOurs(NotOurs::Protocol) };
        let pseudo = Sum::default().pseudo_v6(header.source, header.destination, PROTOCOL, payload.len() as u16);
        let (source, destination) = (Address::v6(header.source), Address::v6(header.destination));
        self.segment_came(arrival, Packet { source, destination, ifindex, tos: header.traffic_class, payload, pseudo })
    }

    fn segment_came(&mut self, arrival: &Arrival<'_>, packet: Packet<'_>) -> Verdict {
        let Ok(wire) = TcpSegment::parse(packet.payload) else { return Verdict::NotOurs(NotOurs::Protocol) };
        let family = packet.destination.family();
        let Some(index) = self.tcp.connection_of(&packet, &wire) else {
            let is_good = has_good_checksum(arrival.checksum, &wire, packet.pseudo);
            return Verdict::NotOurs(if is_good { NotOurs::NoConnection } else { NotOurs::Protocol });
        };
        self.statistics.ip_mut(family).in_delivers += 1;
        if !has_good_checksum(arrival.checksum, &wire, packet.pseudo) {
            self.tcp.counters.in_errors += 1;
            return Verdict::Dropped(Dropped::TcpInCsumErrors);
        }
        self.tcp.counters.in_segments += 1;
        let segment = Segment::new(&wire, packet.tos & MARKED == MARKED);
        let now_ns = self.tcp.now_ns;
        let Some(connection) = self.tcp.connections.at_mut(index) else {
            return Verdict::NotOurs(NotOurs::NoConnection);
        };
        let id = super::ConnectionId { index, version: connection.version };
        let arrived = connection.arrive(&segment, now_ns);
        if arrived.is_ending {
            return Verdict::Ending { connection: id };
        }
        let has_room = arrived.has_room && connection.is_write_blocked && connection.readiness().writable;
        if has_room {
            connection.is_write_blocked = false;
        }
        if arrived.is_news || has_room {
            self.tcp.announce(index);
        }
        self.tcp.touched(index);
        Verdict::Segment { connection: id }
    }
}

impl Tcp {
    /// The connection of a segment, by its four-tuple.
    #[inline]
    fn connection_of(&self, packet: &Packet<'_>, wire: &TcpSegment<'_>) -> Option<u32> {
        let header = &wire.header;
        let tuple = (packet.destination, packet.source, ports(header.destination_port, header.source_port));
        let index = *self.demux.get(&tuple)?;
        let scope = self.connections.at(index)?.scope;
        scope.is_none_or(|scope| scope == packet.ifindex).then_some(index)
    }
}

fn has_good_checksum(known: ReceiveChecksum, wire: &TcpSegment<'_>, pseudo: Sum) -> bool {
    match known {
        ReceiveChecksum::Verified => true,
        // First, as it does not look at the bytes, of which a segment that its sender left uncut has up to 64 KiB.
        ReceiveChecksum::VerifyOrPartial | ReceiveChecksum::VerifyOrJoined if wire.has_partial_checksum(pseudo) => true,
        _ => wire.checksum_state(pseudo) == ChecksumState::Valid,
    }
}

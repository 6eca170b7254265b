//! The headers of a flow, filled once; per datagram only lengths, identification, time to live, type of service and
//! checksums are written.
//!
//! The checksums of the fixed parts are summed when the template is made, so a datagram pays for its payload and five
//! words.

use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{EtherType, EthernetHeader};
use nearwire_wire::udp::UdpHeader;
use nearwire_wire::{ipv4, ipv6, udp};

use crate::address::Address;
use crate::tables::NextHop;

/// Ethernet with two tags, IPv6, UDP.
pub(crate) const HEADERS_BYTES_MAX: usize = 22 + ipv6::HEADER_BYTES + udp::HEADER_BYTES;

/// The headers of datagrams from one place to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    bytes: [u8; HEADERS_BYTES_MAX],
    ip_offset: u8,
    transport_offset: u8,
    is_v4: bool,
    /// Source and destination of the IPv4 header.
    ip_addresses: Sum,
    /// Addresses, protocol and ports.
    transport: Sum,
}

/// Addresses and ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FourTuple {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// What differs from datagram to datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerDatagram {
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    /// IPv4 only.
    pub(crate) identification: u16,
    /// IPv4 only.
    pub(crate) dont_fragment: bool,
    pub(crate) checksum: SendChecksum,
}

/// Where the UDP checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendChecksum {
    /// The stack.
    Complete,
    /// The port: the field holds the sum of the pseudo header.
    Partial,
    /// Nobody: IPv4 without checksum.
    None,
}

impl Template {
    pub(crate) fn new(tuple: FourTuple, hop: &NextHop) -> Template {
        let is_v4 = tuple.destination.is_v4();
        let ethertype = if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let ethernet =
            EthernetHeader { destination: hop.destination_mac, source: hop.source_mac, tags: hop.tags, ethertype };
        let ip_offset = ethernet.len_bytes();
        let transport_offset = ip_offset + if is_v4 { ipv4::HEADER_BYTES_MIN } else { ipv6::HEADER_BYTES };
        let mut template = Template {
            bytes: [0; HEADERS_BYTES_MAX],
            ip_offset: ip_offset as u8,
            transport_offset: transport_offset as u8,
            is_v4,
            ip_addresses: Sum::default(),
            transport: Sum::default(),
        };
        // The room is that of the largest headers and the EtherType is no tag's: writing cannot fail.
        let _ = ethernet.write(&mut template.bytes);
        let packet = &mut template.bytes[ip_offset..transport_offset];
        let (source, destination) = (tuple.source, tuple.destination);
        let pseudo = if is_v4 {
            let (source, destination) = (source.to_v4(), destination.to_v4());
            packet[12..16].copy_from_slice(&source.octets());
            packet[16..20].copy_from_slice(&destination.octets());
            template.ip_addresses = Sum::default().bytes(&packet[12..20]);
            Sum::default().pseudo_v4(source, destination, udp::PROTOCOL, 0)
        } else {
            let (source, destination) = (source.to_v6(), destination.to_v6());
            packet[8..24].copy_from_slice(&source.octets());
            packet[24..40].copy_from_slice(&destination.octets());
            Sum::default().pseudo_v6(source, destination, udp::PROTOCOL, 0)
        };
        let ports =
            UdpHeader { source_port: tuple.source_port, destination_port: tuple.destination_port, checksum: [0; 2] };
        let _ = ports.write(&mut template.bytes[transport_offset..transport_offset + udp::HEADER_BYTES]);
        template.transport = pseudo.word(tuple.source_port).word(tuple.destination_port);
        template
    }

    /// IP header and what follows, of a datagram with this payload, bytes.
    #[inline]
    pub(crate) const fn packet_bytes(&self, payload_bytes: usize) -> usize {
        (self.transport_offset - self.ip_offset) as usize + udp::HEADER_BYTES + payload_bytes
    }

    #[inline]
    pub(crate) const fn frame_bytes(&self, payload_bytes: usize) -> usize {
        self.ip_offset as usize + self.packet_bytes(payload_bytes)
    }

    /// Where the UDP header starts, bytes from the start of the frame.
    #[inline]
    pub(crate) const fn transport_offset(&self) -> usize {
        self.transport_offset as usize
    }

    /// Writes headers and payload to `frame`, which has exactly [`Self::frame_bytes`]; `false`: it has not.
    #[inline]
    pub(crate) fn write(&self, frame: &mut [u8], payload: &[u8], per: PerDatagram) -> bool {
        if frame.len() != self.frame_bytes(payload.len()) {
            return false;
        }
        let (ip, transport) = (usize::from(self.ip_offset), usize::from(self.transport_offset));
        let headers_bytes = transport + udp::HEADER_BYTES;
        match frame.first_chunk_mut::<HEADERS_BYTES_MAX>() {
            // A copy of fixed length takes a few moves; what is too much of it, the payload overwrites.
            Some(start) => *start = self.bytes,
            None => frame[..headers_bytes].copy_from_slice(&self.bytes[..headers_bytes]),
        }
        let (headers, rest) = frame.split_at_mut(headers_bytes);
        rest.copy_from_slice(payload);
        let packet_bytes = self.packet_bytes(payload.len()) as u16;
        // Arrays, so that every store below is at a fixed place and needs no check.
        let header = &mut headers[ip..];
        if self.is_v4 {
            if let Some(header) = header.first_chunk_mut() {
                finish_v4(header, self.ip_addresses, udp::PROTOCOL, packet_bytes, per);
            }
        } else if let Some(header) = header.first_chunk_mut() {
            finish_v6(header, udp::PROTOCOL, packet_bytes, per);
        }
        let length = (udp::HEADER_BYTES + payload.len()) as u16;
        let field = self.checksum_field(per.checksum, length, payload);
        let header = &mut headers[transport..];
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[udp::CHECKSUM_OFFSET..].copy_from_slice(&field);
        true
    }

    #[inline]
    fn checksum_field(&self, checksum: SendChecksum, length: u16, payload: &[u8]) -> [u8; 2] {
        match checksum {
            // The length is summed twice: in the pseudo header and in the header.
            SendChecksum::Complete => udp::checksum_field(self.transport.word(length).word(length).bytes(payload)),
            SendChecksum::Partial => self.pseudo_header(length).folded(),
            SendChecksum::None => [0; 2],
        }
    }

    /// The sum of the pseudo header alone, without the ports.
    fn pseudo_header(&self, length: u16) -> Sum {
        let (ip, transport) = (usize::from(self.ip_offset), usize::from(self.transport_offset));
        let addresses = if self.is_v4 { ip + 12..transport } else { ip + 8..transport };
        Sum::default().bytes(&self.bytes[addresses]).word(u16::from(udp::PROTOCOL)).word(length)
    }
}

/// What differs from packet to packet in an IPv4 header, whose addresses, of the sum `addresses`, are written.
#[inline(always)]
pub(crate) fn finish_v4(
    header: &mut [u8; ipv4::HEADER_BYTES_MIN],
    addresses: Sum,
    protocol: u8,
    total_length: u16,
    per: PerDatagram,
) {
    let first = 0x4500 | u16::from(per.tos);
    let fragment = if per.dont_fragment { ipv4::DONT_FRAGMENT } else { 0 };
    let hops = u16::from(per.ttl) << 8 | u16::from(protocol);
    let words = [first, total_length, per.identification, fragment, hops];
    let sum = words.into_iter().fold(addresses, Sum::word);
    let (places, _) = header.as_chunks_mut::<2>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    //= RFC 791 3.1 MUST: the header checksum is that of the header as it is sent
    header[10..12].copy_from_slice(&sum.checksum());
}

/// What differs from packet to packet in an IPv6 header.
#[inline(always)]
pub(crate) fn finish_v6(header: &mut [u8; ipv6::HEADER_BYTES], protocol: u8, packet_bytes: u16, per: PerDatagram) {
    // Version, traffic class, flow label 0.
    header[..4].copy_from_slice(&(6 << 28 | u32::from(per.tos) << 20).to_be_bytes());
    header[4..6].copy_from_slice(&(packet_bytes - ipv6::HEADER_BYTES as u16).to_be_bytes());
    header[6] = protocol;
    header[7] = per.ttl;
}

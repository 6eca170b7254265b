//! The packet formats: whatever parses does so for etherparse with the same meaning, and is written back to the same bytes.

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, LinkExtSlice, SlicedPacket, TcpHeaderSlice, UdpHeaderSlice};
use nearwire_wire::checksum::{ChecksumState, Sum};
use nearwire_wire::ethernet::{EtherType, EthernetError, EthernetHeader};
use nearwire_wire::ipv4::{self, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Header};
use nearwire_wire::measuring::{self, Kind, MEASURING_BYTES_MIN, MeasuringHeader};
use nearwire_wire::tcp::options::Options;
use nearwire_wire::tcp::{self, TcpSegment};
use nearwire_wire::udp::{self, UdpDatagram};

/// The first byte names the format, the rest is in it.
pub fn check(input: &[u8]) {
    let Some((format, bytes)) = input.split_first() else { return };
    match format % 8 {
        0 => ethernet(bytes),
        1 => ipv4(bytes),
        2 => ipv4(&with_header_checksum(bytes)),
        3 => ipv6(bytes),
        4 => udp(bytes),
        5 => measuring(bytes),
        6 => checksum(bytes),
        _ => layers(bytes),
    }
}

/// A frame from its first byte to its last: each layer in what the one below carries.
fn layers(frame: &[u8]) {
    ethernet(frame);
    measuring(frame);
    let Ok((header, packet)) = EthernetHeader::parse(frame) else { return };
    if header.ethertype == EtherType::IPV4 {
        let packet = with_header_checksum(packet);
        ipv4(&packet);
        let Ok(packet) = Ipv4Header::parse(&packet) else { return };
        udp(packet.payload);
    } else {
        ipv6(packet);
        let Ok((_, payload)) = Ipv6Header::parse(packet) else { return };
        udp(payload);
    }
}

/// The same with the checksum that its IPv4 header should have, so that changes reach what lies behind it.
fn with_header_checksum(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet.len() >= ipv4::HEADER_BYTES_MIN {
        let header_bytes = (usize::from(packet[0] & 0xf) * 4).clamp(ipv4::HEADER_BYTES_MIN, packet.len());
        packet[10..12].fill(0);
        let checksum = Sum::default().bytes(&packet[..header_bytes]).checksum();
        packet[10..12].copy_from_slice(&checksum);
    }
    packet
}

/// Ethernet with tags.
pub fn ethernet(frame: &[u8]) {
    let (header, payload) = match EthernetHeader::parse(frame) {
        Ok(parsed) => parsed,
        Err(EthernetError::TooShort { found_bytes, wanted_bytes }) => {
            assert!(found_bytes == frame.len() && wanted_bytes > found_bytes);
            return;
        }
        Err(_) => return,
    };
    assert_eq!(header.len_bytes() + payload.len(), frame.len());
    let mut again = frame.to_vec();
    again[..header.len_bytes()].fill(0);
    header.write(&mut again).expect("was parsed");
    assert_eq!(again, frame);
    // etherparse refuses frames whose packet is malformed; of the others it reads the same tags, and further ones behind
    // MACsec and the EtherType 0x9100, which was used before there was a standard.
    if matches!(header.ethertype.0, 0x9100 | 0x88e5) {
        return;
    }
    let Ok(other) = SlicedPacket::from_ethernet(frame) else { return };
    let others = other.link_exts.iter().filter_map(|ext| match ext {
        LinkExtSlice::Vlan(vlan) => {
            let priority = vlan.priority_code_point().value();
            Some((priority, vlan.drop_eligible_indicator(), vlan.vlan_identifier().value()))
        }
        _ => None,
    });
    let ours = header.tags.iter().map(|tag| (tag.priority(), tag.is_drop_eligible(), tag.vlan_id()));
    assert!(others.eq(ours));
}

/// IPv4. What has no options is written back to the same bytes.
pub fn ipv4(bytes: &[u8]) {
    let Ok(packet) = Ipv4Header::parse(bytes) else { return };
    let header = packet.header;
    let other = Ipv4HeaderSlice::from_slice(bytes).expect("etherparse takes it too");
    assert_eq!(other.source_addr(), header.source);
    assert_eq!(other.destination_addr(), header.destination);
    assert_eq!((other.ttl(), other.protocol().0), (header.ttl, header.protocol));
    assert_eq!(other.identification(), header.identification);
    assert_eq!((other.dont_fragment(), other.more_fragments()), (header.dont_fragment, header.more_fragments));
    assert_eq!(other.fragments_offset().value(), header.fragment_offset);
    assert_eq!(other.dcp().value() << 2 | other.ecn().value(), header.tos);
    assert_eq!(other.options(), packet.options);
    assert_eq!(usize::from(other.payload_len().expect("checked")), packet.payload.len());
    let _ = ipv4::has_source_route(packet.options);
    // The reserved bit of the fragment word has no meaning: neither keeps it.
    if bytes[6] & 0x80 != 0 {
        return;
    }
    let checksum = other.to_header().calc_header_checksum();
    // Zero has two forms in one's complement.
    assert!(other.header_checksum() == checksum || other.header_checksum() ^ checksum == 0xffff);
    if packet.options.is_empty() {
        let mut again = bytes[..ipv4::HEADER_BYTES_MIN + packet.payload.len()].to_vec();
        header.write(&mut again).expect("fits");
        assert_eq!(again[..10], bytes[..10]);
        assert_eq!(again[12..], bytes[12..again.len()]);
    }
}

/// IPv6.
pub fn ipv6(bytes: &[u8]) {
    let Ok((header, payload)) = Ipv6Header::parse(bytes) else { return };
    let other = Ipv6HeaderSlice::from_slice(bytes).expect("etherparse takes it too");
    assert_eq!((other.source_addr(), other.destination_addr()), (header.source, header.destination));
    assert_eq!((other.traffic_class(), other.flow_label().value()), (header.traffic_class, header.flow_label));
    assert_eq!((other.next_header().0, other.hop_limit()), (header.next_header, header.hop_limit));
    assert_eq!(usize::from(other.payload_length()), payload.len());
    let mut again = vec![0; ipv6::HEADER_BYTES + payload.len()];
    header.write(&mut again).expect("fits").copy_from_slice(payload);
    assert_eq!(again, bytes[..again.len()]);
}

/// UDP.
pub fn udp(bytes: &[u8]) {
    let Ok(datagram) = UdpDatagram::parse(bytes) else { return };
    let other = UdpHeaderSlice::from_slice(bytes).expect("etherparse takes it too");
    let header = datagram.header;
    assert_eq!((other.source_port(), other.destination_port()), (header.source_port, header.destination_port));
    assert_eq!((other.length(), other.checksum().to_be_bytes()), (datagram.length_bytes(), header.checksum));
    let mut again = datagram.bytes.to_vec();
    again[..udp::HEADER_BYTES].fill(0);
    header.write(&mut again).expect("fits");
    assert_eq!(again, datagram.bytes);

    // With the checksum it should have it is valid, and with one bit changed wrong.
    let pseudo = Sum::default().word(u16::from(udp::PROTOCOL)).word(datagram.length_bytes());
    again[6..8].fill(0);
    let field = udp::checksum_field(pseudo.bytes(&again));
    again[6..8].copy_from_slice(&field);
    let state = |bytes: &[u8]| UdpDatagram::parse(bytes).map(|datagram| datagram.checksum_state(pseudo));
    assert_eq!(state(&again), Ok(ChecksumState::Valid));
    again[1] ^= 1;
    assert_ne!(state(&again), Ok(ChecksumState::Valid));
}

/// TCP: what is parsed is written back to the same bytes, and etherparse reads the same of it; options that are written are parsed back.
pub fn tcp(bytes: &[u8]) {
    let Ok(segment) = TcpSegment::parse(bytes) else { return };
    let other = TcpHeaderSlice::from_slice(bytes).expect("etherparse takes it too");
    let header = segment.header;
    assert_eq!((other.source_port(), other.destination_port()), (header.source_port, header.destination_port));
    assert_eq!((other.sequence_number(), other.acknowledgment_number()), (header.sequence, header.acknowledgement));
    let flags =
        [other.fin(), other.syn(), other.rst(), other.psh(), other.ack(), other.urg(), other.ece(), other.cwr()];
    let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
    assert_eq!(bits, header.flags.bits());
    assert_eq!((other.window_size(), other.urgent_pointer()), (header.window, header.urgent));
    assert_eq!((other.options(), other.checksum().to_be_bytes()), (segment.options(), header.checksum));
    let mut again = vec![0; bytes.len()];
    header.write(segment.options(), &mut again).expect("fits").copy_from_slice(segment.payload());
    // But for the reserved bits beside the length.
    again[12] |= bytes[12] & 0xf;
    assert_eq!(again, bytes);

    let options = tcp::options::parse(segment.options());
    let mut written = [0; tcp::options::OPTIONS_BYTES_MAX];
    let count = options.write(&mut written);
    let parsed = tcp::options::parse(&written[..count]);
    assert!(options.blocks.as_slice().starts_with(parsed.blocks.as_slice()));
    assert_eq!(Options { blocks: parsed.blocks, ..options }, parsed);
}

/// Nearwire's own frame: what is parsed and verified is written back to the same bytes; in any case nothing panics, and a
/// frame refused is left alone.
pub fn measuring(bytes: &[u8]) {
    let mut changed = bytes.to_vec();
    let Ok(parsed) = measuring::parse(bytes) else {
        assert!(measuring::turn_around(&mut changed).is_err());
        assert!(measuring::set_sequence(&mut changed, 1).is_err());
        assert_eq!(changed, bytes);
        return;
    };
    if parsed.verify(bytes.len()).is_ok() && bytes.len() >= MEASURING_BYTES_MIN {
        let mut again = vec![0; bytes.len()];
        measuring::write(&mut again, &parsed.header).expect("was long enough");
        assert_eq!(again, bytes);
    }
    measuring::turn_around(&mut changed).expect("was parsed");
    let reply = MeasuringHeader {
        destination: parsed.header.source,
        source: parsed.header.destination,
        kind: Kind::Reply,
        ..parsed.header
    };
    assert_eq!(measuring::parse(&changed).map(|frame| frame.header), Ok(reply));
}

/// The checksum, against its definition word by word; the first byte says where the bytes are cut in two.
pub fn checksum(bytes: &[u8]) {
    let cut = bytes.first().map_or(0, |first| usize::from(*first) & !1).min(bytes.len() & !1);
    let sum = Sum::default().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
    assert_eq!(sum.checksum(), checksum_by_words(bytes));
}

/// RFC 1071's definition.
#[must_use]
pub fn checksum_by_words(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

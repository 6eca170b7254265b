//! What of a frame's headers filters look at.
//!
//! Sources: IEEE 802.1Q, RFC 791 section 3.1, RFC 8200 section 3.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::filter::{ExactFlow, FlowFilter, FrameFilter, Transport, VlanMatch};
use crate::xdp::programs::TAG_ETHER_TYPES;

const ETHER_TYPE_AT: usize = 12;
const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const TAGS_MOST: usize = 2;
const VLAN_ID: u16 = 0x0fff;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// More fragments, and the offset of this one.
const FRAGMENT: u16 = 0x3fff;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The Ethernet header as the most exact filter for it, and what is behind. `None`: cut within header or tags.
pub(super) fn frame(bytes: &[u8]) -> Option<(FrameFilter, &[u8])> {
    let mac = bytes.get(..6)?.try_into().ok()?;
    let mut ether_type = be16(bytes, ETHER_TYPE_AT)?;
    let mut vlan = VlanMatch::Untagged;
    let mut tags = 0;
    while tags < TAGS_MOST && TAG_ETHER_TYPES.contains(&ether_type) {
        let tag_at = ETHERNET_BYTES + tags * TAG_BYTES;
        let id = be16(bytes, tag_at)? & VLAN_ID;
        ether_type = be16(bytes, tag_at + 2)?;
        if tags == 0 {
            vlan = VlanMatch::Id(id);
        }
        tags += 1;
    }
    let filter = FrameFilter { mac: Some(mac), ether_type: Some(ether_type), vlan: Some(vlan) };
    Some((filter, &bytes[ETHERNET_BYTES + tags * TAG_BYTES..]))
}

/// What of a packet counts.
pub(super) struct Packet {
    /// Its destination as the most exact flow filter for it.
    pub flow: FlowFilter,
    /// With its source.
    pub exact: ExactFlow,
    /// Source address, word by word, and source port, added up as the CPU loads them.
    pub seed: u64,
}

/// `None`: not whole, not UDP or TCP, a fragment, or behind IPv6 extension headers.
pub(super) fn packet(ether_type: u16, packet: &[u8]) -> Option<Packet> {
    match ether_type {
        IPV4 => packet_v4(packet),
        IPV6 => packet_v6(packet),
        _ => None,
    }
}

fn packet_v4(packet: &[u8]) -> Option<Packet> {
    let header: &[u8; IPV4_BYTES] = packet.get(..IPV4_BYTES)?.try_into().ok()?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    if header[0] >> 4 != 4 || header_bytes < IPV4_BYTES || be16(header, 6)? & FRAGMENT != 0 {
        return None;
    }
    let transport = Transport::from_number(header[9])?;
    let segment = packet.get(header_bytes..usize::from(be16(header, 2)?))?;
    let address = |at| Ipv4Addr::from(be32(header, at));
    ports(transport, address(12).into(), address(16).into(), &header[12..16], segment)
}

fn be32(header: &[u8; IPV4_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn packet_v6(packet: &[u8]) -> Option<Packet> {
    let header: &[u8; IPV6_BYTES] = packet.get(..IPV6_BYTES)?.try_into().ok()?;
    let transport = Transport::from_number(header[6]).filter(|_| header[0] >> 4 == 6)?;
    let segment = packet.get(IPV6_BYTES..IPV6_BYTES + usize::from(be16(header, 4)?))?;
    let source: &[u8; 16] = header[8..].first_chunk()?;
    let destination: &[u8; 16] = header[24..].first_chunk()?;
    ports(transport, Ipv6Addr::from(*source).into(), Ipv6Addr::from(*destination).into(), source, segment)
}

fn ports(transport: Transport, remote: IpAddr, local: IpAddr, source: &[u8], segment: &[u8]) -> Option<Packet> {
    let local_port = be16(segment, 2).filter(|_| segment.len() >= transport.header_least_bytes())?;
    let words = source.as_chunks().0.iter().map(|word| u64::from(u32::from_ne_bytes(*word)));
    let seed = words.sum::<u64>() + u64::from(u16::from_ne_bytes(*segment.first_chunk()?));
    let remote_port = be16(segment, 0)?;
    let flow = FlowFilter { transport, address: local, port: local_port };
    Some(Packet { flow, exact: ExactFlow { transport, local, local_port, remote, remote_port }, seed })
}

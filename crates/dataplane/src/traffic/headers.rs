//! Headers of test traffic.

use std::net::IpAddr;

use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{
    EtherType, EthernetError, EthernetHeader, FRAME_BYTES_MIN, TAG_BYTES, TagKind, UNTAGGED_HEADER_BYTES, VlanTag,
    VlanTags,
};
use nearwire_wire::ipv4::{self, Ipv4Error, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Error, Ipv6Header};
use nearwire_wire::udp::{self, UdpDatagram, UdpError, UdpHeader};

use super::{DESTINATION_PORT, Family, Hops, Traffic};

/// Token, number and time.
pub(super) const STAMP_BYTES: usize = 16;
/// Hops that a frame may take.
const TTL: u8 = 64;

/// Why traffic cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A frame has no room for headers, number and time.
    #[error(
        "frames of {found_bytes} bytes are too short for this traffic, which needs {least_bytes} bytes without FCS"
    )]
    TooShort {
        /// The shortest that was asked for.
        found_bytes: usize,
        /// What headers, number and time take.
        least_bytes: usize,
    },
    /// No such VLAN.
    #[error("VLAN {vlan} is not possible; give 1 to 4094")]
    Vlan {
        /// What was asked for.
        vlan: u16,
    },
    /// What the sink is told cannot be written.
    #[error("write what the sink is told of the traffic: {why}")]
    Announcement {
        /// What was refused.
        why: String,
    },
    /// Not an Ethernet header.
    #[error(transparent)]
    Ethernet(#[from] EthernetError),
    /// Not an IPv4 header.
    #[error(transparent)]
    Ipv4(#[from] Ipv4Error),
    /// Not an IPv6 header.
    #[error(transparent)]
    Ipv6(#[from] Ipv6Error),
    /// Not a UDP header.
    #[error(transparent)]
    Udp(#[from] UdpError),
}

/// Where things lie behind the Ethernet header, bytes from its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) ethernet_bytes: usize,
    pub(super) addresses: usize,
    /// The last two bytes of the addresses.
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) udp: usize,
    pub(super) stamp: usize,
}

impl Places {
    pub(super) const fn of(traffic: &Traffic) -> Places {
        Places::new(traffic.family, traffic.vlan.is_some())
    }

    const fn new(family: Family, is_tagged: bool) -> Places {
        let (addresses, source, destination, udp) = match family {
            Family::V4 => (12, 14, 18, ipv4::HEADER_BYTES_MIN),
            Family::V6 => (8, 22, 38, ipv6::HEADER_BYTES),
        };
        let tag_bytes = if is_tagged { TAG_BYTES } else { 0 };
        let ethernet_bytes = UNTAGGED_HEADER_BYTES + tag_bytes;
        Places { ethernet_bytes, addresses, source, destination, udp, stamp: udp + udp::HEADER_BYTES }
    }
}

/// The shortest frame, bytes without FCS.
pub(super) const fn least_frame_bytes(family: Family, is_tagged: bool) -> usize {
    let at = Places::new(family, is_tagged);
    let bytes = at.ethernet_bytes + at.stamp + STAMP_BYTES;
    if bytes < FRAME_BYTES_MIN { FRAME_BYTES_MIN } else { bytes }
}

pub(super) const fn ether_type(family: Family) -> EtherType {
    match family {
        Family::V4 => EtherType::IPV4,
        Family::V6 => EtherType::IPV6,
    }
}

/// Of the datagram and its pseudo header: both addresses, which end where the UDP header begins, the protocol and the length.
pub(super) fn datagram_sum(packet: &[u8], at: Places, length_bytes: usize) -> Sum {
    let addresses = Sum::default().bytes(&packet[at.addresses..at.udp]);
    addresses.word(u16::from(udp::PROTOCOL)).word(length_bytes as u16).bytes(&packet[at.udp..at.udp + length_bytes])
}

/// Writes the headers of a frame, with source port and checksum of UDP 0: how many bytes the datagram has.
pub(super) fn write_headers(traffic: &Traffic, hops: Hops, frame: &mut [u8]) -> Result<usize, TrafficError> {
    let header = EthernetHeader {
        destination: hops.destination,
        source: hops.source,
        tags: tags(traffic)?,
        ethertype: ether_type(traffic.family),
    };
    let datagram = write_ip(traffic.family, header.write(frame)?)?;
    let udp_header = UdpHeader { source_port: 0, destination_port: DESTINATION_PORT, checksum: [0; 2] };
    udp_header.write(datagram)?;
    Ok(datagram.len())
}

/// A frame of the first addresses with this content, no shorter than `least_bytes`; the content is followed by spaces then.
pub(super) fn write_datagram(
    traffic: &Traffic,
    hops: Hops,
    content: &[u8],
    least_bytes: usize,
) -> Result<Vec<u8>, TrafficError> {
    let at = Places::of(traffic);
    let content_at = at.ethernet_bytes + at.stamp;
    let mut frame = vec![b' '; (content_at + content.len()).max(least_bytes)];
    let length_bytes = write_headers(traffic, hops, &mut frame)?;
    frame[content_at..content_at + content.len()].copy_from_slice(content);
    let packet = &mut frame[at.ethernet_bytes..];
    packet[at.udp..at.udp + 2].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
    let checksum = udp::checksum_field(datagram_sum(packet, at, length_bytes));
    packet[at.udp + udp::CHECKSUM_OFFSET..][..checksum.len()].copy_from_slice(&checksum);
    Ok(frame)
}

/// The content of a datagram to [`DESTINATION_PORT`].
pub(super) fn payload_of(frame: &[u8]) -> Option<&[u8]> {
    let (header, packet) = EthernetHeader::parse(frame).ok()?;
    let payload = match header.ethertype {
        EtherType::IPV4 => {
            Ipv4Header::parse(packet).ok().filter(|packet| packet.header.protocol == udp::PROTOCOL)?.payload
        }
        EtherType::IPV6 => {
            let (header, payload) = Ipv6Header::parse(packet).ok()?;
            (header.next_header == udp::PROTOCOL).then_some(payload)?
        }
        _ => return None,
    };
    let datagram = UdpDatagram::parse(payload).ok()?;
    (datagram.header.destination_port == DESTINATION_PORT).then(|| datagram.payload())
}

fn tags(traffic: &Traffic) -> Result<VlanTags, TrafficError> {
    let Some(vlan) = traffic.vlan else { return Ok(VlanTags::None) };
    let tag = VlanTag::new(TagKind::Customer, 0, false, vlan);
    Ok(VlanTags::One(tag.ok_or(TrafficError::Vlan { vlan })?))
}

fn write_ip(family: Family, packet: &mut [u8]) -> Result<&mut [u8], TrafficError> {
    match (family.sources(), family.destinations()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Ipv4Header {
            tos: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: TTL,
            protocol: udp::PROTOCOL,
            source,
            destination,
        }
        .write(packet)?),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            next_header: udp::PROTOCOL,
            hop_limit: TTL,
            source,
            destination,
        }
        .write(packet)?),
        _ => unreachable!("both addresses are of one family"),
    }
}

//! Frames of traffic, made from templates and read back.

use std::net::IpAddr;

use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{EtherType, EthernetError, EthernetHeader, TAG_BYTES, UNTAGGED_HEADER_BYTES, VlanTags};
use nearwire_wire::ipv4::{self, Ipv4Error, Ipv4Header};
use nearwire_wire::ipv6::{self, Ipv6Error, Ipv6Header};
use nearwire_wire::udp::{self, UdpError, UdpHeader};

use super::flows::Flow;
use super::{DESTINATION_PORT, Family, Hops, Traffic};

/// Hops that a frame may take.
const TTL: u8 = 64;
/// Bits of a number that frames carry: enough for a month at 100 million a second.
pub(crate) const NUMBER_BITS: u32 = 48;
/// Token, number and time.
const STAMP_BYTES: usize = 16;
/// What a frame with a customer's tag has in the place of the EtherType.
const TAG_IDENTIFIER: [u8; 2] = [0x81, 0x00];
/// Where the checksum of an IPv4 header lies in it.
const IPV4_CHECKSUM_AT: usize = 10;

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

/// What a frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Not of this traffic.
    Foreign,
    /// Of this traffic, and not as it was sent.
    Corrupt,
    /// As it was sent.
    Frame {
        /// Its number.
        number: u64,
        /// When it was to leave, ticks.
        due_ticks: u64,
    },
}

/// Makes frames of a traffic and reads them.
#[derive(Debug)]
pub struct FrameMaker {
    traffic: Traffic,
    /// In the order of the sizes.
    templates: Vec<Template>,
    places: Places,
}

/// Where things lie behind the Ethernet header, bytes from its end.
#[derive(Debug, Clone, Copy)]
struct Places {
    ethernet_bytes: usize,
    addresses: usize,
    /// The last two bytes of the addresses.
    source: usize,
    destination: usize,
    udp: usize,
    stamp: usize,
}

/// A frame without what differs from frame to frame: those bytes are 0.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    /// Of the IPv4 header; 0 of IPv6.
    header_sum: Sum,
    /// Of the datagram with its pseudo header.
    udp_sum: Sum,
}

impl Places {
    const fn of(traffic: &Traffic) -> Places {
        let (addresses, source, destination, udp) = match traffic.family {
            Family::V4 => (12, 14, 18, ipv4::HEADER_BYTES_MIN),
            Family::V6 => (8, 22, 38, ipv6::HEADER_BYTES),
        };
        let tag_bytes = if traffic.tag.is_some() { TAG_BYTES } else { 0 };
        let ethernet_bytes = UNTAGGED_HEADER_BYTES + tag_bytes;
        Places { ethernet_bytes, addresses, source, destination, udp, stamp: udp + udp::HEADER_BYTES }
    }
}

impl FrameMaker {
    /// For frames between `hops`.
    ///
    /// # Errors
    /// A size is too short for the headers.
    pub fn new(traffic: &Traffic, hops: Hops) -> Result<FrameMaker, TrafficError> {
        let places = Places::of(traffic);
        let least_bytes = places.ethernet_bytes + places.stamp + STAMP_BYTES;
        let found_bytes = traffic.sizes.least_bytes() as usize;
        if found_bytes < least_bytes {
            return Err(TrafficError::TooShort { found_bytes, least_bytes });
        }
        let sizes = traffic.sizes.sequence_bytes().iter();
        let templates =
            sizes.map(|&bytes| Template::new(traffic, hops, places, bytes as usize)).collect::<Result<_, _>>();
        Ok(FrameMaker { traffic: traffic.clone(), templates: templates?, places })
    }

    /// Bytes of the frame with this number.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self, number: u64) -> usize {
        self.templates[self.traffic.sizes.place_of(number)].bytes.len()
    }

    /// Writes the frame with this number into `frame`, which has its length.
    #[inline]
    pub fn write(&self, number: u64, due_ticks: u64, frame: &mut [u8]) {
        let template = &self.templates[self.traffic.sizes.place_of(number)];
        frame.copy_from_slice(&template.bytes);
        let varying = Varying::new(self.traffic.flows.of(number), self.stamp(number, due_ticks));
        let (at, packet) = (self.places, &mut frame[self.places.ethernet_bytes..]);
        let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
        put(at.source, &varying.source);
        put(at.destination, &varying.destination);
        put(at.udp, &varying.source_port);
        put(at.udp + udp::CHECKSUM_OFFSET, &varying.udp_checksum(template));
        put(at.stamp, &varying.stamp);
        if self.traffic.family == Family::V4 {
            put(IPV4_CHECKSUM_AT, &template.header_sum.bytes(&varying.source).bytes(&varying.destination).checksum());
        }
    }

    /// Reads a frame that came.
    #[inline]
    #[must_use]
    pub fn read(&self, frame: &[u8]) -> Reading {
        self.read_packet(frame).unwrap_or(Reading::Foreign)
    }

    #[inline]
    fn read_packet(&self, frame: &[u8]) -> Option<Reading> {
        // Devices take tags out and put some in.
        let is_tagged = frame.get(12..14)? == TAG_IDENTIFIER;
        let header_bytes = UNTAGGED_HEADER_BYTES + if is_tagged { TAG_BYTES } else { 0 };
        let (header, packet) = frame.split_at_checked(header_bytes)?;
        let at = self.places;
        let stamp: &[u8; STAMP_BYTES] = packet.get(at.stamp..)?.first_chunk()?;
        let is_ours = header[header_bytes - 2..] == self.ether_type().0.to_be_bytes()
            && packet[at.udp + 2..at.udp + 4] == DESTINATION_PORT.to_be_bytes()
            && stamp[..2] == self.traffic.token.to_be_bytes();
        if !is_ours {
            return None;
        }
        let (number, due_ticks) = numbers_of(stamp);
        let template = &self.templates[self.traffic.sizes.place_of(number)];
        let as_sent = &template.bytes[at.ethernet_bytes..];
        let varying = Varying::new(self.traffic.flows.of(number), *stamp);
        let has = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()] == *bytes;
        let is_same = |range: std::ops::Range<usize>| packet[range.clone()] == as_sent[range];
        let is_as_sent = packet.len() == as_sent.len()
            && is_same(at.addresses..at.source)
            && is_same(at.source + 2..at.destination)
            && is_same(at.udp + 2..at.udp + udp::CHECKSUM_OFFSET)
            && has(at.source, &varying.source)
            && has(at.destination, &varying.destination)
            && has(at.udp, &varying.source_port)
            && has(at.udp + udp::CHECKSUM_OFFSET, &varying.udp_checksum(template))
            && packet[at.stamp + STAMP_BYTES..] == as_sent[at.stamp + STAMP_BYTES..];
        Some(if is_as_sent { Reading::Frame { number, due_ticks } } else { Reading::Corrupt })
    }

    const fn ether_type(&self) -> EtherType {
        ether_type(self.traffic.family)
    }

    fn stamp(&self, number: u64, due_ticks: u64) -> [u8; STAMP_BYTES] {
        let first = u64::from(self.traffic.token) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&first.to_be_bytes());
        stamp[8..].copy_from_slice(&due_ticks.to_be_bytes());
        stamp
    }
}

const fn ether_type(family: Family) -> EtherType {
    match family {
        Family::V4 => EtherType::IPV4,
        Family::V6 => EtherType::IPV6,
    }
}

fn numbers_of(stamp: &[u8; STAMP_BYTES]) -> (u64, u64) {
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| stamp[at + byte]));
    (word(0) & ((1 << NUMBER_BITS) - 1), word(8))
}

/// What differs from frame to frame, as it lies in them.
struct Varying {
    source: [u8; 2],
    destination: [u8; 2],
    source_port: [u8; 2],
    stamp: [u8; STAMP_BYTES],
}

impl Varying {
    #[inline]
    fn new(flow: Flow, stamp: [u8; STAMP_BYTES]) -> Varying {
        // The first addresses end in 1.
        Varying {
            source: (flow.source + 1).to_be_bytes(),
            destination: (flow.destination + 1).to_be_bytes(),
            source_port: flow.source_port.to_be_bytes(),
            stamp,
        }
    }

    #[inline]
    fn udp_checksum(&self, template: &Template) -> [u8; 2] {
        let addresses = template.udp_sum.bytes(&self.source).bytes(&self.destination);
        udp::checksum_field(addresses.bytes(&self.source_port).bytes(&self.stamp))
    }
}

impl Template {
    fn new(traffic: &Traffic, hops: Hops, at: Places, bytes: usize) -> Result<Template, TrafficError> {
        let mut frame = vec![0; bytes];
        let header = EthernetHeader {
            destination: hops.destination,
            source: hops.source,
            tags: traffic.tag.map_or(VlanTags::None, VlanTags::One),
            ethertype: ether_type(traffic.family),
        };
        let packet = header.write(&mut frame)?;
        let datagram = write_ip(traffic.family, packet)?;
        let length_bytes = datagram.len();
        let udp_header = UdpHeader { source_port: 0, destination_port: DESTINATION_PORT, checksum: [0; 2] };
        let payload = udp_header.write(datagram)?;
        fill(&mut payload[STAMP_BYTES..]);
        let packet = &mut frame[at.ethernet_bytes..];
        for varying in [at.source, at.destination] {
            packet[varying..varying + 2].fill(0);
        }
        let header_sum = match traffic.family {
            Family::V4 => {
                packet[IPV4_CHECKSUM_AT..IPV4_CHECKSUM_AT + 2].fill(0);
                Sum::default().bytes(&packet[..at.udp])
            }
            Family::V6 => Sum::default(),
        };
        // The pseudo header: both addresses, which end where the UDP header begins, the protocol and the length.
        let udp_sum = Sum::default()
            .bytes(&packet[at.addresses..at.udp])
            .word(u16::from(udp::PROTOCOL))
            .word(length_bytes as u16)
            .bytes(&packet[at.udp..]);
        Ok(Template { bytes: frame, header_sum, udp_sum })
    }
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

/// Bytes that depend on their place alone; two places have the same only by chance or when a multiple of 251 apart, a prime.
fn fill(payload: &mut [u8]) {
    for (place, byte) in payload.iter_mut().enumerate() {
        *byte = (place % 251) as u8;
    }
}

#[cfg(test)]
mod tests;

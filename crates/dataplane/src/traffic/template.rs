//! Frames of traffic, made from templates and read back.

use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::{EtherType, TAG_BYTES, UNTAGGED_HEADER_BYTES};
use nearwire_wire::udp;

use super::flows::Flow;
use super::headers::{Places, STAMP_BYTES, TrafficError, datagram_sum, ether_type, least_frame_bytes, write_headers};
use super::{DESTINATION_PORT, Family, Hops, Traffic};

/// Bits of a number that frames carry: enough for a month at 100 million a second.
pub(crate) const NUMBER_BITS: u32 = 48;
/// What a frame with a customer's tag has in the place of the EtherType.
const TAG_IDENTIFIER: [u8; 2] = [0x81, 0x00];
/// Where the checksum of an IPv4 header lies in it.
const IPV4_CHECKSUM_AT: usize = 10;

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

/// What frames are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Whole.
    Frame,
    /// The content of datagrams: the kernel has taken the headers off, and verified the checksum.
    Content,
}

/// Makes frames of a traffic and reads them.
#[derive(Debug)]
pub struct FrameMaker {
    traffic: Traffic,
    form: Form,
    /// In the order of the sizes.
    templates: Vec<Template>,
    places: Places,
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

impl FrameMaker {
    /// For frames between `hops`.
    ///
    /// # Errors
    /// A size is too short for the headers.
    pub fn new(traffic: &Traffic, hops: Hops) -> Result<FrameMaker, TrafficError> {
        let places = Places::of(traffic);
        let least_bytes = least_frame_bytes(traffic.family, traffic.vlan.is_some());
        let found_bytes = traffic.sizes.least_bytes() as usize;
        if found_bytes < least_bytes {
            return Err(TrafficError::TooShort { found_bytes, least_bytes });
        }
        let sizes = traffic.sizes.sequence_bytes().iter();
        let templates =
            sizes.map(|&bytes| Template::new(traffic, hops, places, bytes as usize)).collect::<Result<_, _>>();
        Ok(FrameMaker { traffic: traffic.clone(), form: Form::Frame, templates: templates?, places })
    }

    /// The same, for a reader that has the content of datagrams and not their headers.
    #[must_use]
    pub fn reading_content(self) -> FrameMaker {
        FrameMaker { form: Form::Content, ..self }
    }

    /// Bytes in front of the content of a datagram.
    #[must_use]
    pub const fn headers_bytes(&self) -> usize {
        self.places.ethernet_bytes + self.places.stamp
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
        let reading = match self.form {
            Form::Frame => self.read_packet(frame),
            Form::Content => self.read_content(frame),
        };
        reading.unwrap_or(Reading::Foreign)
    }

    #[inline]
    fn read_content(&self, content: &[u8]) -> Option<Reading> {
        let stamp: &[u8; STAMP_BYTES] = content.first_chunk()?;
        if stamp[..2] != self.traffic.token.to_be_bytes() {
            return None;
        }
        let (number, due_ticks) = numbers_of(stamp);
        let as_sent = &self.templates[self.traffic.sizes.place_of(number)].bytes[self.headers_bytes()..];
        let is_as_sent = content.len() == as_sent.len() && content[STAMP_BYTES..] == as_sent[STAMP_BYTES..];
        Some(if is_as_sent { Reading::Frame { number, due_ticks } } else { Reading::Corrupt })
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
        let length_bytes = write_headers(traffic, hops, &mut frame)?;
        fill(&mut frame[at.ethernet_bytes + at.stamp + STAMP_BYTES..]);
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
        let udp_sum = datagram_sum(packet, at, length_bytes);
        Ok(Template { bytes: frame, header_sum, udp_sum })
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

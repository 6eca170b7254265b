//! IPv6 headers (RFC 8200 section 3).
//!
//! ```text
//!  0             4         6       7      8        24            40
//! +-------------+---------+-------+------+--------+-------------+---------
//! |6, class,    |payload  |next   |hop   |source  |destination  |payload
//! |flow label   |length   |header |limit |        |             |
//! +-------------+---------+-------+------+--------+-------------+---------
//!  4, 8, 20 bits
//! ```

use std::net::Ipv6Addr;

use thiserror::Error;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;

const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// A header as meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Header {
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// Names the flow for routers; 20 bits, 0 for none.
    pub flow_label: u32,
    /// What follows: a protocol or an extension header; IANA's protocol number.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Who should receive it.
    pub destination: Ipv6Addr,
}

/// Why bytes are not an IPv6 packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Ipv6Error {
    /// The bytes end inside the header.
    #[error("IPv6 packet of {found_bytes} bytes ends inside its header, wanted {HEADER_BYTES}")]
    TooShort {
        /// Bytes there are.
        found_bytes: usize,
    },
    /// Another version.
    #[error("IP packet of version {found}, wanted 6")]
    Version {
        /// The version.
        found: u8,
    },
    /// The packet was cut on its way.
    #[error("IPv6 packet with a payload of {wanted_bytes} bytes is cut to {found_bytes}")]
    Cut {
        /// Bytes of payload there are.
        found_bytes: usize,
        /// Bytes of payload the packet says it has.
        wanted_bytes: usize,
    },
    /// The payload to write is longer than the length field can say.
    #[error("IPv6 payload of {found_bytes} bytes is longer than 65535")]
    TooLong {
        /// Bytes of payload.
        found_bytes: usize,
    },
}

/// The header as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    version_class_label: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

impl Ipv6Header {
    /// Splits a packet into header and payload. Bytes behind its payload length are padding and left out.
    ///
    /// # Errors
    /// The packet is of another version or cut.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Ipv6Header, &[u8]), Ipv6Error> {
        let short = Ipv6Error::TooShort { found_bytes: packet.len() };
        let (bytes, rest) = Bytes::ref_from_prefix(packet).map_err(|_| short)?;
        let first = bytes.version_class_label.get();
        if first >> 28 != 6 {
            return Err(Ipv6Error::Version { found: (first >> 28) as u8 });
        }
        let wanted_bytes = usize::from(bytes.payload_length.get());
        let payload = rest.get(..wanted_bytes).ok_or(Ipv6Error::Cut { found_bytes: rest.len(), wanted_bytes })?;
        let header = Ipv6Header {
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL_MASK,
            next_header: bytes.next_header,
            hop_limit: bytes.hop_limit,
            source: bytes.source.into(),
            destination: bytes.destination.into(),
        };
        Ok((header, payload))
    }

    /// Writes the header at the start of `packet`, all of which is the packet. Returns the rest, where the payload goes.
    ///
    /// # Errors
    /// `packet` is shorter than the header, or longer than a packet can be.
    pub fn write<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], Ipv6Error> {
        let found_bytes = packet.len();
        let Some((header, payload)) = packet.split_at_mut_checked(HEADER_BYTES) else {
            return Err(Ipv6Error::TooShort { found_bytes });
        };
        let Ok(payload_length) = u16::try_from(payload.len()) else {
            return Err(Ipv6Error::TooLong { found_bytes: payload.len() });
        };
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        let bytes = Bytes {
            version_class_label: first.into(),
            payload_length: payload_length.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        header.copy_from_slice(bytes.as_bytes());
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use nearwire_checks::wire::ipv6 as check_bytes;
    use proptest::prelude::*;

    use super::*;

    fn any_header() -> impl Strategy<Value = Ipv6Header> {
        (any::<u8>(), 0..=FLOW_LABEL_MASK, any::<u8>(), any::<u8>(), any::<Ipv6Addr>(), any::<Ipv6Addr>()).prop_map(
            |(traffic_class, flow_label, next_header, hop_limit, source, destination)| Ipv6Header {
                traffic_class,
                flow_label,
                next_header,
                hop_limit,
                source,
                destination,
            },
        )
    }

    #[test]
    fn malformed_packet_parsed_names_the_cause() {
        assert_eq!(Ipv6Header::parse(&[0x60; 39]), Err(Ipv6Error::TooShort { found_bytes: 39 }));
        assert_eq!(Ipv6Header::parse(&[0x45; 40]), Err(Ipv6Error::Version { found: 4 }));
        let mut packet = [0; 44];
        packet[0] = 0x60;
        packet[5] = 5;
        assert_eq!(Ipv6Header::parse(&packet), Err(Ipv6Error::Cut { found_bytes: 4, wanted_bytes: 5 }));
        packet[5] = 3;
        assert_eq!(Ipv6Header::parse(&packet).expect("valid").1.len(), 3);
        check_bytes(&packet);
    }

    proptest! {
        #[test]
        fn any_bytes_parsed_give_value_or_error(mut bytes: Vec<u8>, version_six: bool) {
            if let (Some(first), true) = (bytes.first_mut(), version_six) {
                *first = 0x60 | *first & 0xf;
            }
            check_bytes(&bytes);
        }

        #[test]
        fn header_written_and_parsed_is_the_same(header in any_header(), payload: Vec<u8>) {
            let mut packet = vec![0; HEADER_BYTES];
            packet.extend_from_slice(&payload);
            header.write(&mut packet).expect("fits");
            prop_assert_eq!(Ipv6Header::parse(&packet), Ok((header, payload.as_slice())));
            check_bytes(&packet);
        }
    }
}

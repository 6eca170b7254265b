//! IPv4 headers (RFC 791, RFC 1122 section 3.2.1).
//!
//! ```text
//!  0    1    2         4         6           8    9     10        12      16           20
//! +----+----+---------+---------+-----------+----+-----+---------+-------+------------+-- - - --
//! |4 n |TOS |total    |identifi-|DF MF      |TTL |pro- |header   |source |destination |options
//! |    |    |length   |cation   |offset / 8 |    |tocol|checksum |       |            |
//! +----+----+---------+---------+-----------+----+-----+---------+-------+------------+-- - - --
//! ```
//! n is the header's length in 4-byte words: 5 without options.

use std::net::Ipv4Addr;

use thiserror::Error;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;

/// Bytes of a header without options.
pub const HEADER_BYTES_MIN: usize = 20;
/// The longest packet, header included.
pub const PACKET_BYTES_MAX: usize = 65_535;
/// Bit of the fragment word: do not fragment.
pub const DONT_FRAGMENT: u16 = 0x4000;

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;
const OPTION_END: u8 = 0;
const OPTION_NO_OPERATION: u8 = 1;
const OPTION_LOOSE_SOURCE_ROUTE: u8 = 131;
const OPTION_STRICT_SOURCE_ROUTE: u8 = 137;

/// A header as meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Header {
    /// Differentiated services and congestion notification, the byte once called type of service.
    pub tos: u8,
    /// Names the packet among those of its source, destination and protocol; without meaning when
    /// `dont_fragment` is set (RFC 6864).
    pub identification: u16,
    /// Routers drop the packet where it is too long.
    pub dont_fragment: bool,
    /// Further fragments follow.
    pub more_fragments: bool,
    /// Place of this fragment in the whole packet, in units of 8 bytes; 13 bits.
    pub fragment_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// What the payload is; IANA's protocol number.
    pub protocol: u8,
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Who should receive it.
    pub destination: Ipv4Addr,
}

/// Why bytes are not an IPv4 packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Ipv4Error {
    /// The bytes end inside the header.
    #[error("IPv4 packet of {found_bytes} bytes ends inside its header, wanted {wanted_bytes}")]
    TooShort {
        /// Bytes there are.
        found_bytes: usize,
        /// Bytes the header has.
        wanted_bytes: usize,
    },
    /// Another version.
    #[error("IP packet of version {found}, wanted 4")]
    Version {
        /// The version.
        found: u8,
    },
    /// The header says that it is shorter than a header can be.
    #[error("IPv4 header of {found_bytes} bytes, wanted at least {HEADER_BYTES_MIN}")]
    HeaderLength {
        /// Length the header says it has.
        found_bytes: usize,
    },
    /// The packet says that it is shorter than its header.
    #[error("IPv4 packet says it has {total_bytes} bytes, fewer than its header of {header_bytes}")]
    TotalLength {
        /// Length the packet says it has.
        total_bytes: usize,
        /// Length of its header.
        header_bytes: usize,
    },
    /// The packet was cut on its way.
    #[error("IPv4 packet of {total_bytes} bytes is cut to {found_bytes}")]
    Cut {
        /// Bytes there are.
        found_bytes: usize,
        /// Length the packet says it has.
        total_bytes: usize,
    },
    /// The header was changed on its way.
    #[error("IPv4 header checksum is wrong")]
    Checksum,
    /// The options do not end where the header does.
    #[error("IPv4 option at byte {offset} of the header is malformed")]
    Option {
        /// Where in the header.
        offset: usize,
    },
}

/// The header as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    version_length: u8,
    tos: u8,
    total_length: U16,
    identification: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: [u8; 2],
    source: [u8; 4],
    destination: [u8; 4],
}

/// A parsed packet: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Packet<'a> {
    /// What the header says.
    pub header: Ipv4Header,
    /// The options as they lie on the wire; their form was not looked at, see [`has_source_route`].
    pub options: &'a [u8],
    /// What is carried, without what a link added to reach its shortest frame.
    pub payload: &'a [u8],
}

impl Ipv4Header {
    /// Whether the packet is a part of one.
    #[inline]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Splits a packet into header, options and payload. Bytes behind its total length are padding and left out.
    ///
    /// # Errors
    /// The packet is malformed, cut, or its header checksum is wrong.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Ipv4Packet<'_>, Ipv4Error> {
        let found_bytes = packet.len();
        let short = |wanted_bytes| Ipv4Error::TooShort { found_bytes, wanted_bytes };
        let (bytes, _) = Bytes::ref_from_prefix(packet).map_err(|_| short(HEADER_BYTES_MIN))?;
        let (version, words) = (bytes.version_length >> 4, usize::from(bytes.version_length & 0xf));
        if version != 4 {
            return Err(Ipv4Error::Version { found: version });
        }
        let header_bytes = words * 4;
        if header_bytes < HEADER_BYTES_MIN {
            return Err(Ipv4Error::HeaderLength { found_bytes: header_bytes });
        }
        let header = packet.get(..header_bytes).ok_or_else(|| short(header_bytes))?;
        //= RFC 1122 3.2.1.2 MUST: the header checksum of every packet is verified
        if !Sum::default().bytes(header).is_valid() {
            return Err(Ipv4Error::Checksum);
        }
        let total_bytes = usize::from(bytes.total_length.get());
        if total_bytes < header_bytes {
            return Err(Ipv4Error::TotalLength { total_bytes, header_bytes });
        }
        let payload = packet.get(header_bytes..total_bytes).ok_or(Ipv4Error::Cut { found_bytes, total_bytes })?;
        let fragment = bytes.fragment.get();
        let parsed = Ipv4Header {
            tos: bytes.tos,
            identification: bytes.identification.get(),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: fragment & OFFSET_MASK,
            ttl: bytes.ttl,
            protocol: bytes.protocol,
            source: bytes.source.into(),
            destination: bytes.destination.into(),
        };
        Ok(Ipv4Packet { header: parsed, options: &header[HEADER_BYTES_MIN..], payload })
    }

    /// Writes the header, without options and with its checksum, at the start of `packet`, all of which is the packet.
    /// Returns the rest, where the payload goes.
    ///
    /// # Errors
    /// `packet` is shorter than the header, or longer than a packet can be.
    pub fn write<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], Ipv4Error> {
        let found_bytes = packet.len();
        let Ok(total_length) = u16::try_from(found_bytes) else {
            return Err(Ipv4Error::Cut { found_bytes: PACKET_BYTES_MAX, total_bytes: found_bytes });
        };
        let Some((header, payload)) = packet.split_at_mut_checked(HEADER_BYTES_MIN) else {
            return Err(Ipv4Error::TooShort { found_bytes, wanted_bytes: HEADER_BYTES_MIN });
        };
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let more = if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let mut bytes = Bytes {
            version_length: 0x45,
            tos: self.tos,
            total_length: total_length.into(),
            identification: self.identification.into(),
            fragment: (flags | more | self.fragment_offset & OFFSET_MASK).into(),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: [0; 2],
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        bytes.checksum = Sum::default().bytes(bytes.as_bytes()).checksum();
        header.copy_from_slice(bytes.as_bytes());
        Ok(payload)
    }
}

/// Whether the options of a packet hold a loose or strict source route (RFC 791 section 3.1).
///
/// # Errors
/// An option is shorter than an option can be or goes beyond the header.
pub fn has_source_route(options: &[u8]) -> Result<bool, Ipv4Error> {
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        let malformed = Ipv4Error::Option { offset: HEADER_BYTES_MIN + options.len() - rest.len() };
        match *kind {
            OPTION_END => return Ok(false),
            OPTION_NO_OPERATION => rest = after,
            OPTION_LOOSE_SOURCE_ROUTE | OPTION_STRICT_SOURCE_ROUTE => return Ok(true),
            _ => {
                let length = after.first().map_or(0, |length| usize::from(*length));
                rest = if length < 2 { None } else { rest.get(length..) }.ok_or(malformed)?;
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;

//! UDP headers (RFC 768; over IPv6 RFC 8200 section 8.1).
//!
//! ```text
//!  0            2                 4        6          8
//! +------------+-----------------+--------+----------+---------
//! |source port |destination port |length  |checksum  |payload
//! +------------+-----------------+--------+----------+---------
//! ```
//! The length is that of header and payload. The checksum covers a pseudo header of the IP addresses, the header and the
//! payload; over IPv4 zero means that there is none.

use thiserror::Error;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{ChecksumState, Sum};

/// IANA's number of the protocol.
pub const PROTOCOL: u8 = 17;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// Where the checksum lies, bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = 6;

/// A header as meaning, all but its length, which is that of the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHeader {
    /// Where an answer goes.
    pub source_port: u16,
    /// Whom it is for.
    pub destination_port: u16,
    /// The checksum field as it lies on the wire.
    pub checksum: [u8; 2],
}

/// Why bytes are not a datagram.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UdpError {
    /// The bytes end inside the header.
    #[error("UDP datagram of {found_bytes} bytes ends inside its header, wanted {HEADER_BYTES}")]
    TooShort {
        /// Bytes there are.
        found_bytes: usize,
    },
    /// The datagram says that it is shorter than its header, or longer than the packet around it.
    #[error("UDP datagram says it has {length_bytes} bytes; its packet has {found_bytes}, its header {HEADER_BYTES}")]
    Length {
        /// Bytes there are.
        found_bytes: usize,
        /// Bytes the datagram says it has.
        length_bytes: usize,
    },
}

/// The header as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    source_port: U16,
    destination_port: U16,
    length: U16,
    checksum: [u8; 2],
}

/// A parsed datagram: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// What the header says.
    pub header: UdpHeader,
    /// Header and payload, which the checksum covers, without what follows in the packet.
    pub bytes: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// Takes a datagram out of the payload of an IP packet. Bytes behind its length are left out, as Linux does
    /// (`net/ipv4/udp.c`, `__udp4_lib_rcv`).
    ///
    /// # Errors
    /// The payload is too short for what the header says.
    #[inline]
    pub fn parse(packet_payload: &'a [u8]) -> Result<UdpDatagram<'a>, UdpError> {
        let found_bytes = packet_payload.len();
        let (bytes, _) = Bytes::ref_from_prefix(packet_payload).map_err(|_| UdpError::TooShort { found_bytes })?;
        let length_bytes = usize::from(bytes.length.get());
        let datagram = packet_payload.get(..length_bytes).filter(|datagram| datagram.len() >= HEADER_BYTES);
        let header = UdpHeader {
            source_port: bytes.source_port.get(),
            destination_port: bytes.destination_port.get(),
            checksum: bytes.checksum,
        };
        Ok(UdpDatagram { header, bytes: datagram.ok_or(UdpError::Length { found_bytes, length_bytes })? })
    }

    /// Header and payload, bytes. Fits in 16 bits, as the field it came from does.
    #[inline]
    #[must_use]
    pub const fn length_bytes(&self) -> u16 {
        self.bytes.len() as u16
    }

    /// What is carried.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Judges the checksum. `pseudo_header` is the sum of the pseudo header with [`Self::length_bytes`].
    #[inline]
    #[must_use]
    pub fn checksum_state(&self, pseudo_header: Sum) -> ChecksumState {
        if self.header.checksum == [0; 2] {
            return ChecksumState::Absent;
        }
        if pseudo_header.bytes(self.bytes).is_valid() {
            return ChecksumState::Valid;
        }
        if pseudo_header.folded() == self.header.checksum { ChecksumState::Partial } else { ChecksumState::Wrong }
    }
}

impl UdpHeader {
    /// Writes the header, the checksum field as it is given, at the start of `datagram`, all of which is the datagram.
    /// Returns the rest, where the payload goes.
    ///
    /// # Errors
    /// `datagram` is shorter than the header, or longer than a datagram can be.
    pub fn write<'a>(&self, datagram: &'a mut [u8]) -> Result<&'a mut [u8], UdpError> {
        let found_bytes = datagram.len();
        let Ok(length) = u16::try_from(found_bytes) else {
            return Err(UdpError::Length { found_bytes: usize::from(u16::MAX), length_bytes: found_bytes });
        };
        let Some((header, payload)) = datagram.split_at_mut_checked(HEADER_BYTES) else {
            return Err(UdpError::TooShort { found_bytes });
        };
        let bytes = Bytes {
            source_port: self.source_port.into(),
            destination_port: self.destination_port.into(),
            length: length.into(),
            checksum: self.checksum,
        };
        header.copy_from_slice(bytes.as_bytes());
        Ok(payload)
    }
}

/// The checksum field for a sum over pseudo header, header and payload: never zero, which would say that there is none.
#[inline]
#[must_use]
pub const fn checksum_field(sum: Sum) -> [u8; 2] {
    //= RFC 768 fields MUST: a computed checksum of zero is sent as all ones
    match sum.checksum() {
        [0, 0] => [0xff, 0xff],
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests;

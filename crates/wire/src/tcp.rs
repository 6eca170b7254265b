//! TCP headers (RFC 9293 section 3.1).
//!
//! ```text
//!  0            2                 4          8                 12       13      14       16         18       20        header_bytes
//! +------------+-----------------+----------+-----------------+--------+-------+--------+----------+--------+---------+---------
//! |source port |destination port |sequence  |acknowledgement  |length  |flags  |window  |checksum  |urgent  |options  |payload
//! +------------+-----------------+----------+-----------------+--------+-------+--------+----------+--------+---------+---------
//! ```
//! The length is the upper half of its byte: words of four bytes of header and [options]. The checksum covers a pseudo header of the IP
//! addresses, and all of the segment.

pub mod options;

use bitflags::bitflags;
use thiserror::Error;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{ChecksumState, Sum};

/// IANA's number of the protocol.
pub const PROTOCOL: u8 = 6;
/// Bytes of a header without options.
pub const HEADER_BYTES_MIN: usize = 20;
/// Bytes of the longest header.
pub const HEADER_BYTES_MAX: usize = 60;
/// Where the checksum lies, bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = 16;

bitflags! {
    /// Control bits (RFC 9293 section 3.1; RFC 3168 section 6.1 for those of congestion).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Flags: u8 {
        /// The sender has no more data.
        const FIN = 1;
        /// Sequence numbers are synchronised.
        const SYN = 1 << 1;
        /// The connection is reset.
        const RST = 1 << 2;
        /// The receiver is to hand over what it has.
        const PSH = 1 << 3;
        /// The acknowledgement number counts.
        const ACK = 1 << 4;
        /// The urgent pointer counts.
        const URG = 1 << 5;
        /// The far end was told of congestion.
        const ECE = 1 << 6;
        /// The sender has reduced its congestion window.
        const CWR = 1 << 7;
    }
}

/// A header as meaning, all but its length, which follows from its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpHeader {
    /// Where an answer goes.
    pub source_port: u16,
    /// Whom it is for.
    pub destination_port: u16,
    /// Number of the first byte of the payload; of a SYN, that of the SYN.
    pub sequence: u32,
    /// Number of the byte that the sender waits for next.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// Bytes that the sender takes from the acknowledgement on, not scaled.
    pub window: u16,
    /// The checksum field as it lies on the wire.
    pub checksum: [u8; 2],
    /// Where urgent data ends, from `sequence`.
    pub urgent: u16,
}

/// Why bytes are not a segment.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TcpError {
    /// The bytes end inside the header.
    #[error("TCP segment of {found_bytes} bytes ends inside its header, wanted {HEADER_BYTES_MIN} at least")]
    TooShort {
        /// Bytes there are.
        found_bytes: usize,
    },
    /// The header says that it is shorter than a header can be, or longer than the segment.
    #[error(
        "TCP header says it has {header_bytes} bytes; the segment has {found_bytes}, a header {HEADER_BYTES_MIN} at least"
    )]
    HeaderLength {
        /// Bytes there are.
        found_bytes: usize,
        /// Bytes the header says it has.
        header_bytes: usize,
    },
    /// Options that are to be written are no whole words, or more than a header can have.
    #[error("TCP options of {found_bytes} bytes; they are words of 4 bytes, and at most {} bytes", HEADER_BYTES_MAX - HEADER_BYTES_MIN)]
    Options {
        /// Bytes there are.
        found_bytes: usize,
    },
}

/// The header as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    source_port: U16,
    destination_port: U16,
    sequence: U32,
    acknowledgement: U32,
    length: u8,
    flags: u8,
    window: U16,
    checksum: [u8; 2],
    urgent: U16,
}

/// A parsed segment: a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// What the header says.
    pub header: TcpHeader,
    /// All of it, which the checksum covers.
    pub bytes: &'a [u8],
    header_bytes: usize,
}

impl<'a> TcpSegment<'a> {
    /// Takes a segment out of the payload of an IP packet, all of which it is.
    ///
    /// # Errors
    /// The payload is too short for what the header says.
    #[inline]
    pub fn parse(packet_payload: &'a [u8]) -> Result<TcpSegment<'a>, TcpError> {
        let found_bytes = packet_payload.len();
        let (bytes, _) = Bytes::ref_from_prefix(packet_payload).map_err(|_| TcpError::TooShort { found_bytes })?;
        let header_bytes = usize::from(bytes.length >> 4) * 4;
        if !(HEADER_BYTES_MIN..=found_bytes).contains(&header_bytes) {
            return Err(TcpError::HeaderLength { found_bytes, header_bytes });
        }
        let header = TcpHeader {
            source_port: bytes.source_port.get(),
            destination_port: bytes.destination_port.get(),
            sequence: bytes.sequence.get(),
            acknowledgement: bytes.acknowledgement.get(),
            flags: Flags::from_bits_retain(bytes.flags),
            window: bytes.window.get(),
            checksum: bytes.checksum,
            urgent: bytes.urgent.get(),
        };
        Ok(TcpSegment { header, bytes: packet_payload, header_bytes })
    }

    /// The options as they lie on the wire; [`options::parse`] takes them apart.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES_MIN..self.header_bytes]
    }

    /// What is carried.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes..]
    }

    /// How many sequence numbers the segment takes: those of its payload, and one each for SYN and FIN (RFC 9293 section 3.4,
    /// SEG.LEN).
    #[inline]
    #[must_use]
    pub fn sequence_length(&self) -> u32 {
        let of = |flag| u32::from(self.header.flags.contains(flag));
        self.payload().len() as u32 + of(Flags::SYN) + of(Flags::FIN)
    }

    /// Judges the checksum. `pseudo_header` is the sum of the pseudo header with the length of the whole segment.
    #[inline]
    #[must_use]
    pub fn checksum_state(&self, pseudo_header: Sum) -> ChecksumState {
        //= RFC 9293 3.1 MUST: the receiver checks the checksum
        if pseudo_header.bytes(self.bytes).is_valid() {
            return ChecksumState::Valid;
        }
        if self.has_partial_checksum(pseudo_header) { ChecksumState::Partial } else { ChecksumState::Wrong }
    }

    /// Whether the checksum may be that of the pseudo header alone ([`ChecksumState::Partial`]); the segment's bytes are not looked at.
    #[inline]
    #[must_use]
    pub fn has_partial_checksum(&self, pseudo_header: Sum) -> bool {
        pseudo_header.folded() == self.header.checksum
    }
}

impl TcpHeader {
    /// Writes the header, the checksum field as it is given, and options of whole words at the start of `segment`. Returns the rest, where
    /// the payload goes.
    ///
    /// # Errors
    /// `segment` is shorter than that, or a header cannot have these options.
    pub fn write<'a>(&self, options: &[u8], segment: &'a mut [u8]) -> Result<&'a mut [u8], TcpError> {
        let header_bytes = HEADER_BYTES_MIN + options.len();
        if !options.len().is_multiple_of(4) || header_bytes > HEADER_BYTES_MAX {
            return Err(TcpError::Options { found_bytes: options.len() });
        }
        let found_bytes = segment.len();
        let Some((header, payload)) = segment.split_at_mut_checked(header_bytes) else {
            return Err(TcpError::TooShort { found_bytes });
        };
        let bytes = Bytes {
            source_port: self.source_port.into(),
            destination_port: self.destination_port.into(),
            sequence: self.sequence.into(),
            acknowledgement: self.acknowledgement.into(),
            // Words, in the upper half.
            length: (header_bytes as u8 / 4) << 4,
            flags: self.flags.bits(),
            window: self.window.into(),
            checksum: self.checksum,
            urgent: self.urgent.into(),
        };
        header[..HEADER_BYTES_MIN].copy_from_slice(bytes.as_bytes());
        header[HEADER_BYTES_MIN..].copy_from_slice(options);
        Ok(payload)
    }
}

#[cfg(test)]
mod tests;

//! The measuring frame: what the `frame/*` paths send and return.
//!
//! An Ethernet II frame of the EtherType 0x88b5 (IEEE 802 local experimental 1), so that no host
//! on the way takes it for anything else. Offsets without tags; each VLAN tag adds 4:
//!
//! ```text
//!  0           6       12        14      18    19        22     26        34             size
//! +-----------+-------+---------+-------+-----+---------+------+---------+--- - - - - ---+
//! |destination|source |0x88b5   |"NWPP" |kind |0 0 0    |token |sequence |fill pattern   |
//! +-----------+-------+---------+-------+-----+---------+------+---------+--- - - - - ---+
//! ```
//!
//! * *token* names the experiment: a frame left over from another one is told apart and dropped;
//! * *sequence*, big-endian, is the only part that differs between the requests of a run: a frame
//!   resident in a port's memory is sent again after one store of 8 bytes at
//!   [`SEQUENCE_OFFSET`];
//! * *fill* depends on the place in the frame alone, so that the receiver checks it by one
//!   comparison with a constant ([`MeasuringFrame::verify`]) and the sender need not touch it.
//!   Two places have the same byte only by chance or when a multiple of 4093 apart, a prime: lost,
//!   doubled or swapped blocks of any usual buffer size do not pass.
//!
//! What `verify` cannot see: a change of the addresses, which the caller knows, and of the
//! sequence number, which shows as a number that nobody sent.

use thiserror::Error;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::{
    EtherType, EthernetError, EthernetHeader, FRAME_BYTES_MIN, TAG_BYTES, UNTAGGED_HEADER_BYTES, VlanTags,
};
use crate::{MacAddress, ethernet};

/// First bytes after the Ethernet header.
pub const MAGIC: [u8; 4] = *b"NWPP";
/// Where the kind lies in an untagged frame, bytes from its start.
pub const KIND_OFFSET: usize = UNTAGGED_HEADER_BYTES + 4;
/// Where the experiment token lies in an untagged frame, bytes from its start.
pub const TOKEN_OFFSET: usize = UNTAGGED_HEADER_BYTES + 8;
/// Where the sequence number lies in an untagged frame, bytes from its start; see
/// [`sequence_offset`] for tagged ones.
pub const SEQUENCE_OFFSET: usize = UNTAGGED_HEADER_BYTES + 12;
/// Where the fill begins in an untagged frame, bytes from its start.
pub const FILL_OFFSET: usize = UNTAGGED_HEADER_BYTES + BODY_BYTES;
/// The shortest measuring frame, tagged or not, without frame check sequence.
pub const MEASURING_BYTES_MIN: usize = FRAME_BYTES_MIN;

const BODY_BYTES: usize = size_of::<Body>();

/// Where the sequence number lies in a frame with these tags, bytes from its start.
#[must_use]
pub const fn sequence_offset(tags: VlanTags) -> usize {
    SEQUENCE_OFFSET + tags.count() * TAG_BYTES
}

/// What a measuring frame asks of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// To be returned at once, and counted.
    Request = 1,
    /// The answer to a request or a warm-up.
    Reply = 2,
    /// To be returned at once; its time is not part of the result.
    WarmUp = 3,
}

impl Kind {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Request),
            2 => Some(Self::Reply),
            3 => Some(Self::WarmUp),
            _ => None,
        }
    }
}

/// Names one experiment; drawn at random by its initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExperimentToken(pub u32);

/// A measuring frame as meaning, all but its fill and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeasuringHeader {
    /// Who should receive the frame.
    pub destination: MacAddress,
    /// Who sends it.
    pub source: MacAddress,
    /// VLAN tags.
    pub tags: VlanTags,
    /// Request, reply or warm-up.
    pub kind: Kind,
    /// The experiment it belongs to.
    pub token: ExperimentToken,
    /// Its number in the run.
    pub sequence: u64,
}

/// The body as it lies on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Body {
    magic: [u8; 4],
    kind: u8,
    reserved: [u8; 3],
    token: U32,
    sequence: U64,
}

/// A parsed measuring frame: a view, nothing is copied but the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuringFrame<'a> {
    /// What the header says.
    pub header: MeasuringHeader,
    fill: &'a [u8],
    len_bytes: usize,
}

/// Why bytes are not a measuring frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// Not even an Ethernet frame.
    #[error(transparent)]
    Ethernet(#[from] EthernetError),
    /// Somebody else's frame.
    #[error("frame has the EtherType {found:#06x}, not that of a measuring frame")]
    OtherEtherType {
        /// The EtherType after all tags.
        found: u16,
    },
    /// Ours by type, yet it ends inside the body.
    #[error("measuring frame of {found_bytes} bytes is cut, wanted at least {wanted_bytes}")]
    Cut {
        /// Bytes there are.
        found_bytes: usize,
        /// Bytes a frame with these tags has at least.
        wanted_bytes: usize,
    },
    /// Another program's experiment with the same EtherType, or a corrupt frame.
    #[error("frame has the EtherType of a measuring frame but the magic {found:02x?}")]
    Magic {
        /// The bytes in the place of the magic.
        found: [u8; 4],
    },
    /// Corrupt, or from a version that knows more kinds.
    #[error("measuring frame has the unknown kind {found}")]
    Kind {
        /// The byte in the place of the kind.
        found: u8,
    },
    /// Corrupt, or from a version that uses the reserved bytes.
    #[error("measuring frame has reserved bytes {found:02x?}, not zero")]
    Reserved {
        /// The three bytes.
        found: [u8; 3],
    },
}

/// Why a frame cannot be written.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    /// The buffer is shorter than a frame may be.
    #[error("measuring frame of {wanted_bytes} bytes asked, at least {MEASURING_BYTES_MIN} needed")]
    TooShort {
        /// Length of the buffer.
        wanted_bytes: usize,
    },
    /// The Ethernet header cannot be written.
    #[error(transparent)]
    Ethernet(#[from] EthernetError),
}

/// How a frame differs from the one that was sent.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Corruption {
    /// Bytes were lost or added.
    #[error("frame has {found_bytes} bytes, {wanted_bytes} were sent")]
    Length {
        /// Bytes received.
        found_bytes: usize,
        /// Bytes sent.
        wanted_bytes: usize,
    },
    /// The fill was changed.
    #[error("byte {offset} of the frame was changed")]
    Fill {
        /// The first byte that differs, from the start of the frame.
        offset: usize,
    },
}

/// Writes a whole frame: header, then the fill to the end of `frame`, whose length is the frame's
/// size.
///
/// # Errors
/// `frame` is shorter than [`MEASURING_BYTES_MIN`].
pub fn write(frame: &mut [u8], header: &MeasuringHeader) -> Result<(), WriteError> {
    if frame.len() < MEASURING_BYTES_MIN {
        return Err(WriteError::TooShort { wanted_bytes: frame.len() });
    }
    let ethernet = EthernetHeader {
        destination: header.destination,
        source: header.source,
        tags: header.tags,
        ethertype: EtherType::MEASURING,
    };
    let payload = ethernet.write(frame)?;
    let (body, fill) = payload.split_at_mut(BODY_BYTES);
    let content = Body {
        magic: MAGIC,
        kind: header.kind as u8,
        reserved: [0; 3],
        token: header.token.0.into(),
        sequence: header.sequence.into(),
    };
    body.copy_from_slice(content.as_bytes());
    for block in fill.chunks_mut(PATTERN.len()) {
        block.copy_from_slice(&PATTERN[..block.len()]);
    }
    Ok(())
}

/// Reads a frame. Its fill is not looked at: see [`MeasuringFrame::verify`].
///
/// # Errors
/// The bytes are not a measuring frame; [`ParseError`] says of which sort.
pub fn parse(frame: &[u8]) -> Result<MeasuringFrame<'_>, ParseError> {
    let (ethernet, payload) = EthernetHeader::parse(frame)?;
    if ethernet.ethertype != EtherType::MEASURING {
        return Err(ParseError::OtherEtherType { found: ethernet.ethertype.0 });
    }
    let (body, fill) = Body::ref_from_prefix(payload)
        .map_err(|_| ParseError::Cut { found_bytes: frame.len(), wanted_bytes: ethernet.len_bytes() + BODY_BYTES })?;
    if body.magic != MAGIC {
        return Err(ParseError::Magic { found: body.magic });
    }
    let kind = Kind::from_byte(body.kind).ok_or(ParseError::Kind { found: body.kind })?;
    if body.reserved != [0; 3] {
        return Err(ParseError::Reserved { found: body.reserved });
    }
    let header = MeasuringHeader {
        destination: ethernet.destination,
        source: ethernet.source,
        tags: ethernet.tags,
        kind,
        token: ExperimentToken(body.token.get()),
        sequence: body.sequence.get(),
    };
    Ok(MeasuringFrame { header, fill, len_bytes: frame.len() })
}

/// Makes a request or warm-up in place the reply to it: addresses swapped, kind changed; sequence,
/// token and fill stay. A reply stays a reply.
///
/// # Errors
/// The bytes are not a measuring frame; they are then left as they were.
pub fn turn_around(frame: &mut [u8]) -> Result<(), ParseError> {
    let tags = parse(frame)?.header.tags;
    let (destination, rest) = frame.split_at_mut(size_of::<MacAddress>());
    destination.swap_with_slice(&mut rest[..size_of::<MacAddress>()]);
    frame[KIND_OFFSET + tags.count() * TAG_BYTES] = Kind::Reply as u8;
    Ok(())
}

/// Gives a frame another sequence number in place. The sender of a resident frame does the same by
/// one store at [`sequence_offset`].
///
/// # Errors
/// The bytes are not a measuring frame; they are then left as they were.
pub fn set_sequence(frame: &mut [u8], sequence: u64) -> Result<(), ParseError> {
    let at = sequence_offset(parse(frame)?.header.tags);
    frame[at..at + size_of::<u64>()].copy_from_slice(&sequence.to_be_bytes());
    Ok(())
}

impl MeasuringFrame<'_> {
    /// Length of the frame, bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Checks that the frame has the size it was sent with and that its fill is unharmed.
    ///
    /// # Errors
    /// [`Corruption`] says what differs and where.
    pub fn verify(&self, sent_bytes: usize) -> Result<(), Corruption> {
        if self.len_bytes != sent_bytes {
            return Err(Corruption::Length { found_bytes: self.len_bytes, wanted_bytes: sent_bytes });
        }
        let unharmed = |block: &[u8]| *block == PATTERN[..block.len()];
        if self.fill.chunks(PATTERN.len()).all(unharmed) {
            return Ok(());
        }
        Err(self.first_change())
    }

    /// Looks for the byte; apart from `verify` because that runs for every frame and this for
    /// almost none.
    #[cold]
    fn first_change(&self) -> Corruption {
        let wanted = PATTERN.iter().cycle();
        let at = self.fill.iter().zip(wanted).take_while(|(a, b)| a == b);
        Corruption::Fill { offset: self.len_bytes - self.fill.len() + at.count() }
    }
}

/// A prime, so that no block size of memory or transport divides the period.
const PATTERN_BYTES: usize = 4093;

static PATTERN: [u8; PATTERN_BYTES] = pattern();

/// The high bytes of a linear congruential generator (constants of Knuth's MMIX), seeded with a
/// constant.
const fn pattern() -> [u8; PATTERN_BYTES] {
    let mut bytes = [0; PATTERN_BYTES];
    let mut state: u64 = 0x4e57_5050;
    let mut at = 0;
    while at < PATTERN_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes[at] = (state >> 56) as u8;
        at += 1;
    }
    bytes
}

const _: () = assert!(FILL_OFFSET + ethernet::TAGS_MAX * TAG_BYTES < MEASURING_BYTES_MIN);

#[cfg(test)]
mod tests;

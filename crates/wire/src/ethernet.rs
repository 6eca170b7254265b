//! Ethernet II headers with up to two VLAN tags.
//!
//! Sources: IEEE 802.3 clause 3 (frame), IEEE 802.1Q clause 9 (tags; 0x8100 is the customer tag,
//! 0x88a8 the service tag that 802.1ad added in front of it). Lengths never include the frame
//! check sequence: Linux neither takes nor gives it.
//!
//! ```text
//!  0           6           12            12+4n      14+4n
//! +-----------+-----------+-------------+----------+---------
//! |destination|source     |n tags (0..2)|EtherType |payload
//! +-----------+-----------+-------------+----------+---------
//!                          tag: 2 bytes 0x8100 or 0x88a8,
//!                               3 bits priority, 1 bit drop eligible, 12 bits VLAN id
//! ```

use thiserror::Error;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MacAddress;

/// Bytes of a header without tags.
pub const UNTAGGED_HEADER_BYTES: usize = 14;
/// Bytes that each tag adds.
pub const TAG_BYTES: usize = 4;
/// More tags than this are not understood.
pub const TAGS_MAX: usize = 2;
/// The shortest frame that may go on a wire, without frame check sequence.
pub const FRAME_BYTES_MIN: usize = 60;

const CUSTOMER_TAG: u16 = 0x8100;
const SERVICE_TAG: u16 = 0x88a8;

/// What the payload is. Values below 0x0600 are 802.3 lengths, not types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address Resolution Protocol.
    pub const ARP: Self = Self(0x0806);
    /// Internet Protocol version 6.
    pub const IPV6: Self = Self(0x86dd);
    /// IEEE 802 local experimental EtherType 1 (IEEE 802 clause 9.2.3): Nearwire's measuring
    /// frames.
    pub const MEASURING: Self = Self(0x88b5);

    const fn is_tag(self) -> bool {
        matches!(self.0, CUSTOMER_TAG | SERVICE_TAG)
    }
}

/// Which of the two tag protocol identifiers a tag has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagKind {
    /// 802.1Q, 0x8100.
    Customer,
    /// 802.1ad, 0x88a8.
    Service,
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    kind: TagKind,
    control: u16,
}

impl VlanTag {
    /// A tag, or `None` when `priority` is above 7 or `vlan_id` above 4095.
    #[must_use]
    pub const fn new(kind: TagKind, priority: u8, drop_eligible: bool, vlan_id: u16) -> Option<Self> {
        if priority > 7 || vlan_id > 0x0fff {
            return None;
        }
        let control = (priority as u16) << 13 | (drop_eligible as u16) << 12 | vlan_id;
        Some(Self { kind, control })
    }

    /// Customer or service tag.
    #[must_use]
    pub const fn kind(self) -> TagKind {
        self.kind
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.control >> 13) as u8
    }

    /// Drop eligible indicator.
    #[must_use]
    pub const fn is_drop_eligible(self) -> bool {
        self.control & 0x1000 != 0
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub const fn vlan_id(self) -> u16 {
        self.control & 0x0fff
    }
}

/// The tags of a frame, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VlanTags {
    /// No tag.
    #[default]
    None,
    /// One tag.
    One(VlanTag),
    /// Two tags: outer, inner.
    Two(VlanTag, VlanTag),
}

impl VlanTags {
    /// How many tags there are.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Two(..) => 2,
        }
    }

    /// The tags, outermost first.
    pub fn iter(self) -> impl Iterator<Item = VlanTag> {
        let (outer, inner) = match self {
            Self::None => (None, None),
            Self::One(tag) => (Some(tag), None),
            Self::Two(outer, inner) => (Some(outer), Some(inner)),
        };
        outer.into_iter().chain(inner)
    }

    const fn with_inner(self, tag: VlanTag) -> Option<Self> {
        match self {
            Self::None => Some(Self::One(tag)),
            Self::One(outer) => Some(Self::Two(outer, tag)),
            Self::Two(..) => None,
        }
    }
}

/// A header as meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// Who should receive the frame.
    pub destination: MacAddress,
    /// Who sent it.
    pub source: MacAddress,
    /// VLAN tags between the addresses and the EtherType.
    pub tags: VlanTags,
    /// What the payload is.
    pub ethertype: EtherType,
}

/// Why bytes are not an Ethernet header, or a buffer cannot hold one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EthernetError {
    /// The bytes end inside the header.
    #[error("frame of {found_bytes} bytes ends inside its Ethernet header, wanted {wanted_bytes}")]
    TooShort {
        /// Bytes there are.
        found_bytes: usize,
        /// Bytes needed, as far as is known at the place where the frame ends.
        wanted_bytes: usize,
    },
    /// A third tag follows the second.
    #[error("frame has more than {TAGS_MAX} VLAN tags")]
    TooManyTags,
    /// The header to write has a tag's identifier as EtherType: it would not be parsed back.
    #[error("EtherType {0:#06x} is that of a VLAN tag; use VlanTags")]
    TagAsEtherType(u16),
}

/// The addresses as they lie on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Addresses {
    destination: MacAddress,
    source: MacAddress,
}

/// Two bytes of type and two of whatever the type says: a tag, or the start of the payload.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TagBytes {
    identifier: U16,
    control: U16,
}

impl EthernetHeader {
    /// Length of the header on the wire, bytes: 14, 18 or 22.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        UNTAGGED_HEADER_BYTES + self.tags.count() * TAG_BYTES
    }

    /// Splits a frame into header and payload.
    ///
    /// # Errors
    /// The frame is too short or has three tags.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), EthernetError> {
        let short = |wanted_bytes| EthernetError::TooShort { found_bytes: frame.len(), wanted_bytes };
        let (addresses, mut rest) = Addresses::ref_from_prefix(frame).map_err(|_| short(UNTAGGED_HEADER_BYTES))?;
        let mut tags = VlanTags::None;
        loop {
            let wanted_bytes = UNTAGGED_HEADER_BYTES + tags.count() * TAG_BYTES;
            let (ethertype, payload) = U16::ref_from_prefix(rest).map_err(|_| short(wanted_bytes))?;
            let kind = match ethertype.get() {
                CUSTOMER_TAG => TagKind::Customer,
                SERVICE_TAG => TagKind::Service,
                other => {
                    let header = Self {
                        destination: addresses.destination,
                        source: addresses.source,
                        tags,
                        ethertype: EtherType(other),
                    };
                    return Ok((header, payload));
                }
            };
            let (tag, after) = TagBytes::ref_from_prefix(rest).map_err(|_| short(wanted_bytes + TAG_BYTES))?;
            let control = tag.control.get();
            tags = tags.with_inner(VlanTag { kind, control }).ok_or(EthernetError::TooManyTags)?;
            rest = after;
        }
    }

    /// Writes the header at the start of `frame` and returns the rest of it, where the payload
    /// goes.
    ///
    /// # Errors
    /// `frame` is shorter than [`Self::len_bytes`], or the EtherType is that of a tag.
    pub fn write<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], EthernetError> {
        if self.ethertype.is_tag() {
            return Err(EthernetError::TagAsEtherType(self.ethertype.0));
        }
        let found_bytes = frame.len();
        let Some((header, payload)) = frame.split_at_mut_checked(self.len_bytes()) else {
            return Err(EthernetError::TooShort { found_bytes, wanted_bytes: self.len_bytes() });
        };
        let (addresses, mut types) = header.split_at_mut(UNTAGGED_HEADER_BYTES - 2);
        addresses[..6].copy_from_slice(&self.destination.0);
        addresses[6..].copy_from_slice(&self.source.0);
        for tag in self.tags.iter() {
            let identifier = match tag.kind {
                TagKind::Customer => CUSTOMER_TAG,
                TagKind::Service => SERVICE_TAG,
            };
            let (at, after) = types.split_at_mut(TAG_BYTES);
            at[..2].copy_from_slice(&identifier.to_be_bytes());
            at[2..].copy_from_slice(&tag.control.to_be_bytes());
            types = after;
        }
        types.copy_from_slice(&self.ethertype.0.to_be_bytes());
        Ok(payload)
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Why a memif connection could not be made, or how the peer broke the protocol.

use std::io;

/// Why a memif connection could not be made or used. What a peer says and writes is checked; what breaks the protocol is named here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemifError {
    /// The kernel refused a step.
    #[error("{tried}: {source}")]
    Kernel {
        /// What was tried.
        tried: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody was there in time.
    #[error("no {peer} within {waited_ms} ms; start it, or wait longer (`connect_within`)")]
    NoPeer {
        /// Who was waited for.
        peer: &'static str,
        /// How long.
        waited_ms: u64,
    },
    /// The peer was there, and did not send what the protocol has next.
    #[error("the peer sent no {wanted} in time")]
    Silent {
        /// The message that was to come.
        wanted: &'static str,
    },
    /// The peer closed the connection before it was made.
    #[error("the peer closed the connection while {wanted} was to come")]
    Closed {
        /// The message that was to come.
        wanted: &'static str,
    },
    /// The peer ended the connection with a reason.
    #[error("the peer refused the connection: {reason} (code {code})")]
    Refused {
        /// The peer's code.
        code: u32,
        /// The peer's words.
        reason: String,
    },
    /// A control message is not 128 bytes long.
    #[error("the peer sent a control message of {found_bytes} bytes; one has 128")]
    MessageLength {
        /// Its length.
        found_bytes: usize,
    },
    /// A control message of an unknown type, or one that has no place here.
    #[error("the peer sent a control message of type {found} where {wanted} was to come")]
    UnexpectedMessage {
        /// Its type.
        found: u16,
        /// What was to come.
        wanted: &'static str,
    },
    /// The peer speaks other versions.
    #[error("the peer speaks memif {least:#06x} to {most:#06x}; this port speaks 0x0200")]
    Version {
        /// The lowest it speaks.
        least: u16,
        /// The highest it speaks.
        most: u16,
    },
    /// The peer wants another interface.
    #[error("the peer asked for interface {found}; this socket has {wanted}")]
    InterfaceId {
        /// What it asked for.
        found: u32,
        /// What is here.
        wanted: u32,
    },
    /// The peer does not send Ethernet frames.
    #[error("the peer asked for mode {found}; this port carries Ethernet frames only (mode 0)")]
    Mode {
        /// What it asked for.
        found: u8,
    },
    /// The peer does not know the secret.
    #[error("the peer sent another secret, or none")]
    Secret,
    /// A region came without its file.
    #[error("region {region} came without a file descriptor")]
    NoRegionFile {
        /// The region.
        region: u16,
    },
    /// Regions are numbered from 0 without gaps.
    #[error("the peer added region {found}; the next one is {wanted} of at most {most}")]
    RegionNumber {
        /// Its number.
        found: u16,
        /// The number it had to have.
        wanted: usize,
        /// How many there can be.
        most: usize,
    },
    /// A region is empty, longer than its file, or longer than offsets reach.
    #[error(
        "region {region} is said to have {found_bytes} bytes; its file has {file_bytes}, and 1 to 4294967296 are possible"
    )]
    RegionLength {
        /// The region.
        region: u16,
        /// The length the peer said.
        found_bytes: u64,
        /// The length of its file.
        file_bytes: u64,
    },
    /// The peer could cut the file of a region, which would end this process with SIGBUS.
    #[error(
        "the peer can take away the memory of region {region} ({lacks}), which would end this program; have it sealed (F_SEAL_SHRINK), or \
         set `trusts_unsealed_memory`"
    )]
    RegionUnsealed {
        /// The region.
        region: u16,
        /// What its file lacks.
        lacks: &'static str,
    },
    /// A ring of a number that this port does not have, or one that was added twice.
    #[error("the peer added ring {found} in direction {direction}; this port has one ring (0) in each")]
    RingNumber {
        /// Its number.
        found: u16,
        /// Its direction.
        direction: &'static str,
    },
    /// A ring of an impossible size.
    #[error("the ring in direction {direction} has 2^{size_log2} slots; 2^1 to 2^14 are possible")]
    RingSize {
        /// Its direction.
        direction: &'static str,
        /// Its size.
        size_log2: u8,
    },
    /// A ring that does not lie within a region, or not on a boundary of 16 bytes.
    #[error(
        "the ring in direction {direction} is at byte {offset_bytes} of region {region}, which is not within it or no multiple of 16"
    )]
    RingPlace {
        /// Its direction.
        direction: &'static str,
        /// The region named.
        region: u16,
        /// Where in the region.
        offset_bytes: u32,
    },
    /// The peer connected without a ring for a direction.
    #[error("the peer added no ring in direction {direction}")]
    RingMissing {
        /// The direction.
        direction: &'static str,
    },
    /// A ring with a header of the peer's own in front of each packet.
    #[error("the peer wants {found_bytes} bytes of its own in front of each frame; this port has none")]
    PrivateHeader {
        /// Its length.
        found_bytes: u16,
    },
    /// A ring does not begin with the cookie.
    #[error("the ring in direction {direction} begins with {found:#x} instead of 0x3e31f20")]
    Cookie {
        /// Its direction.
        direction: &'static str,
        /// What is there.
        found: u32,
    },
    /// What came to interrupt the peer with is not an eventfd(2).
    #[error("the ring in direction {direction} came with a file descriptor that is no eventfd")]
    NoEvent {
        /// Its direction.
        direction: &'static str,
    },
    /// The peer's index of a ring is where it cannot be.
    #[error("the peer moved its index of a ring to {found}, from {last}: the ring has {size_slots} slots")]
    RingJump {
        /// Where it is.
        found: u16,
        /// Where it was when last seen, or could have been.
        last: u16,
        /// The ring's size.
        size_slots: u16,
    },
    /// A descriptor names bytes that are not in its region, or none at all.
    #[error(
        "the descriptor in slot {slot} names {length_bytes} bytes at {offset_bytes} of region {region}, which are not there"
    )]
    Descriptor {
        /// The slot.
        slot: u16,
        /// The region named.
        region: u16,
        /// Where in the region.
        offset_bytes: u32,
        /// How many bytes.
        length_bytes: u32,
    },
    /// A chain of buffers ends in the middle of a packet.
    #[error("the packet that begins in slot {slot} has no end among the {slots} slots that were sent")]
    ChainCut {
        /// Where it begins.
        slot: u16,
        /// Slots from there on.
        slots: u16,
    },
    /// A packet without bytes, or one that is longer than any frame.
    #[error("the packet that begins in slot {slot} has no bytes, or more than {most_bytes}")]
    FrameLength {
        /// Where it begins.
        slot: u16,
        /// Longest frame that is received.
        most_bytes: usize,
    },
}

impl MemifError {
    /// A step that the kernel refused.
    pub(super) fn kernel(tried: &'static str, source: impl Into<io::Error>) -> MemifError {
        MemifError::Kernel { tried, source: source.into() }
    }
}

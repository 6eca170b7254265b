//! Segments: one that came, and one that is to be sent.

use nearwire_wire::tcp::options::Options;
use nearwire_wire::tcp::{Flags, TcpSegment, options};

use super::sequence::Sequence;

/// A segment that came for a connection, its checksum good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) acknowledgement: Sequence,
    pub(crate) flags: Flags,
    /// Not scaled.
    pub(crate) window: u16,
    pub(crate) options: Options,
    pub(crate) payload: &'a [u8],
    /// A router marked the packet (RFC 3168 section 5).
    pub(crate) is_marked: bool,
}

impl<'a> Segment<'a> {
    #[inline]
    pub(crate) fn new(wire: &TcpSegment<'a>, is_marked: bool) -> Segment<'a> {
        let header = &wire.header;
        Segment {
            sequence: Sequence(header.sequence),
            acknowledgement: Sequence(header.acknowledgement),
            flags: header.flags,
            window: header.window,
            options: options::parse(wire.options()),
            payload: wire.payload(),
            is_marked,
        }
    }

    #[inline]
    pub(crate) const fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// The number after the last that it takes.
    #[inline]
    pub(crate) fn end(&self) -> Sequence {
        self.sequence + self.payload.len() as u32 + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }
}

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The connection is reset.
    Reset,
    /// What was sent before, of the segment of this index.
    Again(usize),
    /// New data, or the FIN.
    New,
    /// Something that the far end answers: an old number (`tcp_xmit_probe_skb`).
    Probe,
    /// An acknowledgement alone.
    Acknowledge,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) purpose: Purpose,
    pub(crate) sequence: Sequence,
    pub(crate) payload_bytes: u32,
    pub(crate) flags: Flags,
    /// It goes because the tail is probed (RFC 8985 section 7.3).
    pub(crate) is_tail_probe: bool,
}

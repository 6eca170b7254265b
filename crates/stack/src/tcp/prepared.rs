//! A message that is laid out before it is known when it is sent: its payload lies in a frame already, and its checksum is known, so the send
//! writes headers alone. Otherwise it is sent as any other: it counts against both windows, and waits in the send buffer until it is
//! acknowledged.

use nearwire_wire::checksum::Sum;
use nearwire_wire::tcp::HEADER_BYTES_MIN;
use nearwire_wire::tcp::options::{OPTIONS_BYTES_MAX, Options, Timestamps};

use super::ConnectionId;
use super::calls::TcpCallError;
use super::segment::Purpose;
use super::transmit::OutgoingSegment;
use crate::Stack;

/// The bytes of a message, and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedMessage {
    bytes: Vec<u8>,
    /// Folded, as it lies in memory.
    sum: [u8; 2],
}

impl PreparedMessage {
    /// One of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> PreparedMessage {
        PreparedMessage { bytes: bytes.to_vec(), sum: Sum::default().bytes(bytes).folded() }
    }

    /// What is sent.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Overwrites bytes from an offset on; `false`: they are not within the message, and nothing was changed.
    #[inline]
    pub fn patch(&mut self, offset_bytes: usize, patch: &[u8]) -> bool {
        let Some(end) = offset_bytes.checked_add(patch.len()).filter(|end| *end <= self.bytes.len()) else {
            return false;
        };
        // The words that it touches, whole: the sum is one of words.
        let words = offset_bytes & !1..end.next_multiple_of(2).min(self.bytes.len());
        let without =
            Sum::default().bytes(&self.sum).bytes(&Sum::default().bytes(&self.bytes[words.clone()]).checksum());
        self.bytes[offset_bytes..end].copy_from_slice(patch);
        self.sum = without.bytes(&Sum::default().bytes(&self.bytes[words]).folded()).folded();
        true
    }
}

impl OutgoingSegment<'_> {
    /// Whether it carries the last bytes that were written, so many of them, for the first time, and no others.
    #[inline]
    #[must_use]
    pub fn is_all_new(&self, message_bytes: usize) -> bool {
        self.purpose() == Purpose::New && self.payload_bytes() == message_bytes && self.is_end_of_written()
    }

    /// As [`Self::write`], into a frame that has this message at its end already: headers alone are written. The segment is one that carries it
    /// ([`Self::is_all_new`]).
    #[inline]
    pub fn write_headers(self, frame: &mut [u8], message: &PreparedMessage) -> usize {
        self.write_before(frame, message.bytes.len(), message.sum)
    }
}

impl Stack {
    /// Bytes of Ethernet, IP and TCP headers in front of the next message, and how long a message may be to lie in one segment. `None`: the way
    /// is not known now. Where there is a question of a path ([`Stack::take_path_question`]), ask again after it was answered.
    pub fn tcp_layout(&mut self, id: ConnectionId) -> Option<(usize, usize)> {
        let Stack { tcp, tables, .. } = self;
        if !tcp.connections.get(id)?.flow.holds(tables.generation()) && !tcp.find_way(id.index, tables) {
            return None;
        }
        let connection = tcp.connections.get(id)?;
        let timestamps = connection.timestamps.as_ref().map(|_| Timestamps { value: 0, echo: 0 });
        let options_bytes = Options { timestamps, ..Options::default() }.write(&mut [0; OPTIONS_BYTES_MAX]);
        let headers_bytes = connection.flow.ready()?.transport_offset() + HEADER_BYTES_MIN + options_bytes;
        Some((headers_bytes, connection.sender.full_bytes(0) as usize))
    }

    /// As [`Self::tcp_write`], of all bytes or none.
    ///
    /// # Errors
    /// Nothing was taken: the reason. [`TcpCallError::WouldBlock`]: there is not room for all.
    #[inline]
    pub fn tcp_write_whole(&mut self, id: ConnectionId, now_ns: u64, data: &[u8]) -> Result<(), TcpCallError> {
        let connection = self.tcp.connections.get_mut(id).ok_or(TcpCallError::NoConnection)?;
        let room_bytes = connection.written_most_bytes().saturating_sub(connection.sender.buffer.len_bytes());
        if connection.error.is_none() && data.len() > room_bytes as usize {
            connection.is_write_blocked = true;
            return Err(TcpCallError::WouldBlock);
        }
        self.tcp_write(id, now_ns, data, false).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn message_patched_has_the_sum_of_its_bytes(
            mut bytes in proptest::collection::vec(any::<u8>(), 1..200),
            patches in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 0..20)), 1..8),
        ) {
            let mut message = PreparedMessage::new(&bytes);
            for (at, patch) in patches {
                let at = at.index(bytes.len());
                let fits = at + patch.len() <= bytes.len();
                prop_assert_eq!(message.patch(at, &patch), fits);
                if fits {
                    bytes[at..at + patch.len()].copy_from_slice(&patch);
                }
                prop_assert_eq!(message.bytes(), &bytes[..]);
                // Zero has two forms in one's complement, and only a message of zeroes has the other one.
                let (told, is) = (message.sum, Sum::default().bytes(&bytes).folded());
                prop_assert!(told == is || [told, is].iter().all(|sum| [[0; 2], [0xff; 2]].contains(sum)));
            }
        }
    }

    #[test]
    fn message_patched_beyond_its_end_stays() {
        let mut message = PreparedMessage::new(b"order");
        for (offset, patch) in [(5, &b"x"[..]), (4, b"xy"), (usize::MAX, b"x")] {
            assert!(!message.patch(offset, patch));
        }
        assert_eq!(message, PreparedMessage::new(b"order"));
        assert!(message.patch(5, b""));
    }
}

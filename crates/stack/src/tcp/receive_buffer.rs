//! What the far end sent and the program has not read: bytes in order, and beyond them those that came too early.
//!
//! ```text
//!  first unread        next (RCV.NXT)                       right edge of the window
//!  |                   |                                    |
//!  +-------------------+------+---------+------+------------+
//!  | in order          | hole | range   | hole |            |
//!  +-------------------+------+---------+------+------------+
//! ```
//! Early bytes are stored where they belong, so nothing moves when a hole is filled.

use super::ranges::{Range, Ranges};
use super::ring::Ring;
use super::sequence::Sequence;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    ring: Ring,
    next: Sequence,
    readable_bytes: u32,
    pub(crate) early: Ranges,
}

/// What became of the payload of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// How far the next expected byte moved.
    pub(crate) advanced_bytes: u32,
    /// Some of it is kept beyond a hole.
    pub(crate) is_early: bool,
    /// What of it was here before (RFC 2883).
    pub(crate) duplicate: Option<Range>,
}

impl ReceiveBuffer {
    pub(crate) fn new(first_unread: Sequence) -> ReceiveBuffer {
        ReceiveBuffer { ring: Ring::default(), next: first_unread, readable_bytes: 0, early: Ranges::default() }
    }

    /// RCV.NXT, of data.
    #[inline]
    pub(crate) const fn next(&self) -> Sequence {
        self.next
    }

    /// Bytes in order that were not read.
    #[inline]
    pub(crate) const fn readable_bytes(&self) -> u32 {
        self.readable_bytes
    }

    /// Takes what lies between the next expected byte and `right_edge`.
    pub(crate) fn accept(&mut self, start: Sequence, payload: &[u8], right_edge: Sequence) -> Accepted {
        let whole = Range { start, end: start + payload.len() as u32 };
        let wanted = Range { start: start.later_of(self.next), end: whole.end.earlier_of(right_edge) };
        if !wanted.start.is_before(wanted.end) {
            let has_all = !payload.is_empty() && !whole.end.is_after(self.next);
            return Accepted { duplicate: has_all.then_some(whole), ..Accepted::default() };
        }
        let old = Range { start, end: wanted.start };
        let mut accepted = Accepted { duplicate: old.start.is_before(old.end).then_some(old), ..Accepted::default() };
        if accepted.duplicate.is_none() && !self.early.is_empty() {
            accepted.duplicate = self.early.overlap(wanted);
        }
        let payload = &payload[(wanted.start - start) as usize..(wanted.end - start) as usize];
        if wanted.start == self.next {
            self.store(wanted, payload);
            self.advance_to(wanted.end);
            accepted.advanced_bytes = self.next - wanted.start;
        } else if self.early.insert(wanted) {
            self.store(wanted, payload);
            accepted.is_early = true;
        }
        accepted
    }

    #[inline]
    fn store(&mut self, range: Range, payload: &[u8]) {
        let at = self.readable_bytes + (range.start - self.next);
        let used = self.early.end().map_or(self.readable_bytes, |end| self.readable_bytes + end.beyond(self.next));
        let end = at as usize + payload.len();
        self.ring.reserve(end, (used as usize).min(self.ring.capacity_bytes()));
        self.ring.write(at as usize, payload);
    }

    #[inline]
    fn advance_to(&mut self, end: Sequence) {
        let mut next = end;
        while let Some(end) = self.early.take_from(next) {
            next = next.later_of(end);
        }
        self.readable_bytes += next - self.next;
        self.next = next;
    }

    /// The FIN takes one number and is no byte.
    pub(crate) fn pass_fin(&mut self) {
        self.next = self.next + 1;
    }

    /// All bytes in order, in one piece or two.
    #[inline]
    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        self.ring.slices(0, self.readable_bytes as usize)
    }

    /// The program has read so many.
    #[inline]
    pub(crate) fn consume(&mut self, count: u32) {
        let count = count.min(self.readable_bytes);
        if count > 0 {
            self.ring.advance(count as usize);
            self.readable_bytes -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duplicate_bytes_are_named_and_not_taken_again() {
        let mut buffer = ReceiveBuffer::new(Sequence(100));
        let edge = Sequence(1100);
        assert_eq!(buffer.accept(Sequence(100), b"abcd", edge).advanced_bytes, 4);
        let again = buffer.accept(Sequence(98), b"..abcd", edge);
        let all = Range { start: Sequence(98), end: Sequence(104) };
        assert_eq!(again, Accepted { duplicate: Some(all), ..Accepted::default() });
        let partly = buffer.accept(Sequence(102), b"cdef", edge);
        let old = Range { start: Sequence(102), end: Sequence(104) };
        assert_eq!(partly, Accepted { advanced_bytes: 2, duplicate: Some(old), is_early: false });
        assert!(buffer.accept(Sequence(110), b"klm", edge).is_early);
        let early = buffer.accept(Sequence(111), b"lmn", edge);
        assert_eq!(early.duplicate, Some(Range { start: Sequence(111), end: Sequence(113) }));
        assert_eq!(buffer.readable().0, b"abcdef");
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_are_read_as_the_stream(
            start: u32, pieces in proptest::collection::vec((0..3000_usize, 1..400_usize), 1..60), read in 1..500_u32,
        ) {
            let stream: Vec<u8> = (0..4000_u32).map(|at| (at * 7 + at / 256) as u8).collect();
            let mut buffer = ReceiveBuffer::new(Sequence(start));
            let mut got = Vec::<u8>::new();
            let mut pieces = pieces;
            pieces.extend((0..10).map(|n| (n * 400, 400)));
            for (at, len) in pieces {
                let edge = Sequence(start) + got.len() as u32 + 5000;
                buffer.accept(Sequence(start) + at as u32, &stream[at..at + len], edge);
                let count = buffer.readable_bytes().min(read);
                let (one, two) = buffer.readable();
                got.extend(one.iter().chain(two).take(count as usize));
                buffer.consume(count);
            }
            let (one, two) = buffer.readable();
            got.extend(one.iter().chain(two));
            prop_assert_eq!(buffer.next(), Sequence(start) + 4000);
            prop_assert!(got == stream);
        }
    }
}

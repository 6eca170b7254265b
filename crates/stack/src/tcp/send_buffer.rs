//! What a program wrote and the far end has not acknowledged: sent bytes, then unsent ones.

use super::ring::Ring;
use super::sequence::Sequence;

/// See the [module](self). Which of the bytes were sent, the connection knows (SND.NXT).
#[derive(Debug)]
pub(crate) struct SendBuffer {
    ring: Ring,
    start: Sequence,
    len_bytes: u32,
}

impl SendBuffer {
    pub(crate) fn new(start: Sequence) -> SendBuffer {
        SendBuffer { ring: Ring::default(), start, len_bytes: 0 }
    }

    /// Number of the byte that will be written next.
    #[inline]
    pub(crate) fn end(&self) -> Sequence {
        self.start + self.len_bytes
    }

    #[inline]
    pub(crate) const fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    /// Takes as many bytes as `limit_bytes` allows for all that wait; how many.
    #[inline]
    pub(crate) fn push(&mut self, data: &[u8], limit_bytes: u32) -> usize {
        let room = limit_bytes.saturating_sub(self.len_bytes) as usize;
        let data = &data[..data.len().min(room)];
        let used = self.len_bytes as usize;
        self.ring.reserve(used + data.len(), used);
        self.ring.write(used, data);
        self.len_bytes += data.len() as u32;
        data.len()
    }

    /// The far end has everything before `sequence`.
    #[inline]
    pub(crate) fn acknowledge(&mut self, sequence: Sequence) {
        let count = sequence.beyond(self.start).min(self.len_bytes);
        if count > 0 {
            self.ring.advance(count as usize);
            self.start = self.start + count;
            self.len_bytes -= count;
        }
    }

    /// Bytes by their numbers, in one piece or two; they are here.
    #[inline]
    pub(crate) fn slices(&self, from: Sequence, count: u32) -> (&[u8], &[u8]) {
        let at = from.beyond(self.start).min(self.len_bytes);
        self.ring.slices(at as usize, count.min(self.len_bytes - at) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_are_found_by_number_until_they_are_acknowledged() {
        let mut buffer = SendBuffer::new(Sequence(u32::MAX - 1));
        assert_eq!(buffer.push(b"abcdefgh", 6), 6);
        assert_eq!(buffer.push(b"x", 6), 0);
        assert_eq!(buffer.slices(Sequence(0), 2).0, b"cd");
        buffer.acknowledge(Sequence(1));
        assert_eq!((buffer.start, buffer.len_bytes(), buffer.end()), (Sequence(1), 3, Sequence(4)));
        assert_eq!(buffer.slices(Sequence(1), 9).0, b"def");
        buffer.acknowledge(Sequence(0));
        assert_eq!(buffer.start, Sequence(1), "an old acknowledgement changes nothing");
    }
}

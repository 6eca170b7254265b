//! Bytes in a ring that grows: what both buffers of a connection are made of.

/// The smallest ring that is allocated. Two of them are most of what an idle connection takes, and a fork copies the tables of their pages.
const LEAST_BYTES: usize = 1024;

/// A ring of bytes. It knows where its first byte is and not which of the others mean something. Nothing is allocated before the first byte
/// is written; it grows by doubling, so that a connection pays for what it really holds.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// A power of two, or none.
    bytes: Box<[u8]>,
    first: usize,
}

impl Ring {
    #[inline]
    pub(crate) const fn capacity_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    const fn index(&self, at: usize) -> usize {
        (self.first + at) & self.bytes.len().wrapping_sub(1)
    }

    /// Makes room for `wanted` bytes; the first `used` stay.
    #[inline]
    pub(crate) fn reserve(&mut self, wanted: usize, used: usize) {
        if wanted > self.bytes.len() {
            self.grow(wanted, used);
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize, used: usize) {
        let mut bytes = vec![0; wanted.next_power_of_two().max(LEAST_BYTES)].into_boxed_slice();
        let (one, two) = self.slices(0, used);
        bytes[..one.len()].copy_from_slice(one);
        bytes[one.len()..used].copy_from_slice(two);
        *self = Ring { bytes, first: 0 };
    }

    /// The `count` bytes from `at` on, in one piece or two.
    #[inline]
    pub(crate) fn slices(&self, at: usize, count: usize) -> (&[u8], &[u8]) {
        if count == 0 {
            return (&[], &[]);
        }
        let from = self.index(at);
        let until_end = self.bytes.len() - from;
        if count <= until_end {
            (&self.bytes[from..from + count], &[])
        } else {
            (&self.bytes[from..], &self.bytes[..count - until_end])
        }
    }

    /// Writes `data` at `at`; there is room for it.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let from = self.index(at);
        let (one, two) = data.split_at(data.len().min(self.bytes.len() - from));
        self.bytes[from..from + one.len()].copy_from_slice(one);
        self.bytes[..two.len()].copy_from_slice(two);
    }

    /// The first `count` bytes are no longer part of it.
    #[inline]
    pub(crate) const fn advance(&mut self, count: usize) {
        self.first = self.index(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_that_wraps_and_grows_keeps_its_bytes() {
        let mut ring = Ring::default();
        assert_eq!(ring.slices(0, 0), (&[][..], &[][..]));
        ring.reserve(10, 0);
        ring.write(0, &[7; LEAST_BYTES - 2]);
        ring.advance(LEAST_BYTES - 2);
        ring.write(0, b"abcdef");
        assert_eq!(ring.slices(0, 6), (&b"ab"[..], &b"cdef"[..]));
        ring.reserve(LEAST_BYTES + 1, 6);
        assert_eq!(ring.slices(0, 6), (&b"abcdef"[..], &[][..]));
        assert_eq!(ring.capacity_bytes(), 2 * LEAST_BYTES);
    }
}

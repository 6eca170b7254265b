//! Values out of the bytes of a fuzz input. Behind the end everything is zero, so that any input means something and
//! a shorter one means the same thing cut short.

/// What is left of an input.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(std::array::from_fn(|_| self.u8()))
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// Below `limit`, which is 1 to 256.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.u8()) % limit
    }

    /// One of a list that is not empty.
    pub(crate) fn choose<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// The next bytes, as many as there are.
    pub(crate) fn take(&mut self, len_bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len_bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

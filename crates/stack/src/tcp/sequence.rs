//! Sequence numbers: 32 bits that wrap (RFC 9293 section 3.4).

use std::fmt;
use std::ops::{Add, Sub};

/// The number of a byte of a stream. Two of them are compared as if they were less than 2^31 apart, so there is no order over all of
/// them, and no `Ord`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sequence(pub(crate) u32);

impl Sequence {
    /// How far this one is beyond `other`; negative: it comes before it.
    #[inline]
    pub(crate) const fn offset_from(self, other: Sequence) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    #[inline]
    pub(crate) const fn is_before(self, other: Sequence) -> bool {
        self.offset_from(other) < 0
    }

    #[inline]
    pub(crate) const fn is_after(self, other: Sequence) -> bool {
        self.offset_from(other) > 0
    }

    #[inline]
    pub(crate) const fn later_of(self, other: Sequence) -> Sequence {
        if self.is_before(other) { other } else { self }
    }

    #[inline]
    pub(crate) const fn earlier_of(self, other: Sequence) -> Sequence {
        if self.is_after(other) { other } else { self }
    }

    /// Bytes from `start` to this one; 0 where it comes before.
    #[inline]
    pub(crate) const fn beyond(self, start: Sequence) -> u32 {
        if self.is_after(start) { self.0.wrapping_sub(start.0) } else { 0 }
    }

    #[inline]
    pub(crate) const fn minus(self, bytes: u32) -> Sequence {
        Sequence(self.0.wrapping_sub(bytes))
    }
}

impl Add<u32> for Sequence {
    type Output = Sequence;

    #[inline]
    fn add(self, bytes: u32) -> Sequence {
        Sequence(self.0.wrapping_add(bytes))
    }
}

/// The distance, of one that does not come before the other.
impl Sub for Sequence {
    type Output = u32;

    #[inline]
    fn sub(self, other: Sequence) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_both_sides_of_the_wrap_are_in_order() {
        let (before, after) = (Sequence(u32::MAX - 1), Sequence(3));
        assert!(before.is_before(after) && after.is_after(before) && !before.is_before(before));
        assert_eq!((after - before, before + 5, after.minus(5)), (5, after, before));
        assert_eq!((before.later_of(after), before.earlier_of(after)), (after, before));
        assert_eq!((after.beyond(before), before.beyond(after), after.offset_from(before)), (5, 0, 5));
    }
}

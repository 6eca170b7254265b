//! A word that says who holds a buffer: 24 bits that change with every holder, and 8 that name him. 0 in those: nobody.
//!
//! Several may find at once that a buffer is nobody's any more. Each has read the word before, and sets it free only if it is still what
//! it read: somebody who stood still meanwhile finds the count changed, though the buffer may have the same holder again.

use std::sync::atomic::{AtomicU32, Ordering};

const HOLDER_BITS: u32 = 8;
const HOLDER_MASK: u32 = (1 << HOLDER_BITS) - 1;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct HolderWord<'m>(&'m AtomicU32);

/// What a word said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held(u32);

impl Held {
    pub(super) fn by_nobody(self) -> bool {
        self.0 & HOLDER_MASK == 0
    }

    /// Whether a share holds the buffer.
    pub(super) fn by(self, share: u32) -> bool {
        self.0 & HOLDER_MASK == share + 1
    }
}

impl<'m> HolderWord<'m> {
    pub(super) fn new(word: &'m AtomicU32) -> HolderWord<'m> {
        HolderWord(word)
    }

    #[inline]
    pub(super) fn read(self) -> Held {
        Held(self.0.load(Ordering::Acquire))
    }

    /// A share has the buffer now, which nobody else has. Shares are fewer than the bits have values.
    #[inline]
    pub(super) fn hold(self, share: u32) {
        let count = (self.0.load(Ordering::Relaxed) >> HOLDER_BITS).wrapping_add(1);
        self.0.store(count << HOLDER_BITS | (share + 1) & HOLDER_MASK, Ordering::Relaxed);
    }

    /// Nobody has it, unless the word says something else than it did.
    #[inline]
    pub(super) fn free(self, found: Held) {
        if !found.by_nobody() {
            let free = found.0 & !HOLDER_MASK;
            let _ = self.0.compare_exchange(found.0, free, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_that_changed_since_it_was_read_is_not_set_free() {
        let memory = AtomicU32::new(0);
        let word = HolderWord::new(&memory);
        word.hold(254);
        let before = word.read();
        assert!(before.by(254) && !before.by(253) && !before.by_nobody());
        word.free(before);
        assert!(word.read().by_nobody());
        word.hold(254);
        word.free(before);
        assert!(word.read().by(254), "the same holder, at another time");
    }
}

//! The numbers of a port's shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::steering::SHARES_MOST;

/// Which numbers are taken, a bit each.
#[derive(Debug)]
struct Numbers(Box<[AtomicU64]>);

impl Numbers {
    fn word(&self, number: u32) -> (&AtomicU64, u64) {
        (&self.0[(number / u64::BITS) as usize], 1 << (number % u64::BITS))
    }
}

/// A share's number; free again when dropped.
#[derive(Debug)]
pub(super) struct Number {
    numbers: Arc<Numbers>,
    number: u32,
}

impl Number {
    /// That of the port which shares are made of.
    pub(super) fn first() -> Number {
        Number::handed(0)
    }

    /// That of a share which another process gave.
    pub(super) fn handed(number: u32) -> Number {
        let words = SHARES_MOST.div_ceil(u64::BITS);
        let numbers = Arc::new(Numbers((0..words).map(|_| AtomicU64::new(0)).collect()));
        let (word, bit) = numbers.word(number);
        word.store(bit, Ordering::Release);
        Number { numbers, number }
    }

    /// The lowest below `most` that is free.
    pub(super) fn another(&self, most: u32) -> Option<Number> {
        let free = |number: &u32| {
            let (word, bit) = self.numbers.word(*number);
            word.fetch_or(bit, Ordering::AcqRel) & bit == 0
        };
        let number = (1..most.min(SHARES_MOST)).find(free)?;
        Some(Number { numbers: Arc::clone(&self.numbers), number })
    }

    pub(super) fn get(&self) -> u32 {
        self.number
    }

    /// Whether nobody has another number of the same port.
    pub(super) fn is_free(&self, number: u32) -> bool {
        let (word, bit) = self.numbers.word(number);
        word.load(Ordering::Acquire) & bit == 0
    }

    pub(super) fn is_of(&self, other: &Number) -> bool {
        Arc::ptr_eq(&self.numbers, &other.numbers)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let (word, bit) = self.numbers.word(self.number);
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

//! Which messages are out, came back, came twice, came late.

/// How far back an answer can still be told apart; older ones count as reordered.
const WINDOW: usize = 4096;

/// The bits of a number that come back, of which there are so many.
pub(super) const fn mask_of(sequence_bits: u32) -> u64 {
    if sequence_bits >= u64::BITS { u64::MAX } else { (1 << sequence_bits) - 1 }
}

/// What an answer turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The one that is waited for.
    Expected,
    /// Had been answered before.
    Duplicate,
    /// Had been counted as lost.
    Late,
    /// Carries a number that was never sent.
    Foreign,
}

/// Follows the numbers of a closed loop with one message out at a time.
#[derive(Debug)]
pub struct SequenceTracker {
    /// Number of the message that is out; numbers start at 1.
    current: u64,
    mask: u64,
    /// Whether the last [`WINDOW`] messages were answered, by number modulo the window.
    answered: Vec<bool>,
}

impl SequenceTracker {
    /// `sequence_bits`: how many low bits of a number the messages carry.
    #[must_use]
    pub fn new(sequence_bits: u32) -> SequenceTracker {
        let mask = mask_of(sequence_bits);
        SequenceTracker { current: 0, mask, answered: vec![false; WINDOW] }
    }

    /// Number of the next message to send.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.current += 1;
        self.answered[self.current as usize % WINDOW] = false;
        self.current
    }

    /// Judges an answer by the low bits of its number and remembers it.
    #[inline]
    pub fn judge(&mut self, low_bits: u64) -> Answer {
        let behind = self.current.wrapping_sub(low_bits) & self.mask;
        if behind == 0 && !self.answered[self.current as usize % WINDOW] {
            self.answered[self.current as usize % WINDOW] = true;
            return Answer::Expected;
        }
        self.judge_old(behind)
    }

    #[cold]
    fn judge_old(&mut self, behind: u64) -> Answer {
        if behind >= self.current {
            return Answer::Foreign;
        }
        if behind >= WINDOW as u64 {
            return Answer::Late;
        }
        let seen = &mut self.answered[(self.current - behind) as usize % WINDOW];
        if std::mem::replace(seen, true) { Answer::Duplicate } else { Answer::Late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn message_out_own_number_is_expected_once() {
        let mut tracker = SequenceTracker::new(64);
        let sequence = tracker.next();
        assert_eq!(tracker.judge(sequence), Answer::Expected);
        assert_eq!(tracker.judge(sequence), Answer::Duplicate);
    }

    #[test]
    fn message_lost_answer_after_timeout_is_late_then_duplicate() {
        let mut tracker = SequenceTracker::new(64);
        let lost = tracker.next();
        let next = tracker.next();
        assert_eq!(tracker.judge(lost), Answer::Late);
        assert_eq!(tracker.judge(lost), Answer::Duplicate);
        assert_eq!(tracker.judge(next), Answer::Expected);
    }

    #[test]
    fn number_never_sent_is_foreign() {
        let mut tracker = SequenceTracker::new(64);
        tracker.next();
        assert_eq!(tracker.judge(77), Answer::Foreign);
        assert_eq!(tracker.judge(0), Answer::Foreign);
    }

    proptest! {
        /// Against a plain set: any interleaving of sends and answers with few bits is judged as with all 64, as long
        /// as no answer is older than the bits can tell.
        #[test]
        fn few_bits_judge_as_many(bits in 8_u32..64, steps in prop::collection::vec(0_u64..20, 1..300)) {
            let mut tracker = SequenceTracker::new(bits);
            let mut answered = std::collections::HashSet::new();
            let mut current = 0;
            for behind in steps {
                if behind < 10 || behind >= current {
                    current = tracker.next();
                }
                let behind = behind.min(current - 1);
                let number = current - behind;
                let low = if bits == 64 { number } else { number & ((1 << bits) - 1) };
                let expected = match (answered.insert(number), behind) {
                    (false, _) => Answer::Duplicate,
                    (true, 0) => Answer::Expected,
                    (true, _) => Answer::Late,
                };
                prop_assert_eq!(tracker.judge(low), expected);
            }
        }
    }
}

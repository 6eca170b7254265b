//! Many messages that are out at a time: which were answered, came twice, came late, came not.

use crate::workloads::sequence::mask_of;

/// What an answer turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first to its message. `is_behind`: the answer to a later message came before.
    First { intended_ticks: u64, sent_ticks: u64, is_behind: bool },
    /// Its message had been answered.
    Again,
    /// Its message had been counted as lost.
    AfterLoss,
    /// Carries a number that is not out.
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unused,
    Out,
    Answered,
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    intended_ticks: u64,
    sent_ticks: u64,
    state: State,
}

const UNUSED: Message = Message { intended_ticks: 0, sent_ticks: 0, state: State::Unused };

/// The last messages, by their numbers. Numbers start at 1.
#[derive(Debug)]
pub(super) struct Outstanding {
    messages: Vec<Message>,
    number_mask: u64,
    /// The number of the next message.
    next: u64,
    /// Every message before this one was answered or counted as lost.
    oldest: u64,
    highest_answered: u64,
    /// Messages that are out.
    count: u64,
}

impl Outstanding {
    /// Room for at least so many messages that are out. `number_bits`: how many low bits of a number come back.
    pub(super) fn new(room: u64, number_bits: u32) -> Outstanding {
        let number_mask = mask_of(number_bits);
        let most = number_mask.checked_add(1).unwrap_or(1 << 63);
        let room = room.next_power_of_two().min(most) as usize;
        Outstanding { messages: vec![UNUSED; room], number_mask, next: 1, oldest: 1, highest_answered: 0, count: 0 }
    }

    /// The number of the next message.
    #[inline]
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Messages that are out.
    #[inline]
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The next message left. Where there is no more room the oldest one is given up: when it was to leave.
    #[inline]
    pub(super) fn sent(&mut self, intended_ticks: u64, sent_ticks: u64) -> Option<u64> {
        let place = self.place(self.next);
        let before = self.messages[place];
        let given_up = (before.state == State::Out).then_some(before.intended_ticks);
        self.count += u64::from(given_up.is_none());
        self.messages[place] = Message { intended_ticks, sent_ticks, state: State::Out };
        self.next += 1;
        given_up
    }

    /// An answer with these low bits of a number.
    #[inline]
    pub(super) fn answered(&mut self, low_bits: u64) -> Answer {
        let last = self.next - 1;
        let behind = last.wrapping_sub(low_bits) & self.number_mask;
        if behind >= last || behind >= self.messages.len() as u64 {
            return Answer::Foreign;
        }
        let number = last - behind;
        let place = self.place(number);
        let message = &mut self.messages[place];
        match std::mem::replace(&mut message.state, State::Answered) {
            State::Out => {
                let (intended_ticks, sent_ticks) = (message.intended_ticks, message.sent_ticks);
                self.count -= 1;
                let is_behind = number < self.highest_answered;
                self.highest_answered = self.highest_answered.max(number);
                Answer::First { intended_ticks, sent_ticks, is_behind }
            }
            State::Answered => Answer::Again,
            State::Lost => Answer::AfterLoss,
            State::Unused => Answer::Foreign,
        }
    }

    /// Gives up the oldest message that is out if it left before `ticks`: when it was to leave.
    #[inline]
    pub(super) fn give_up_before(&mut self, ticks: u64) -> Option<u64> {
        // What had no room was given up already.
        self.oldest = self.oldest.max(self.next.saturating_sub(self.messages.len() as u64));
        while self.oldest < self.next {
            let place = self.place(self.oldest);
            let message = &mut self.messages[place];
            if message.state == State::Out {
                if message.sent_ticks >= ticks {
                    return None;
                }
                message.state = State::Lost;
                self.count -= 1;
                self.oldest += 1;
                return Some(message.intended_ticks);
            }
            self.oldest += 1;
        }
        None
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.messages.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn first(intended_ticks: u64, is_behind: bool) -> Answer {
        Answer::First { intended_ticks, sent_ticks: intended_ticks, is_behind }
    }

    fn with(messages: u64, room: u64) -> Outstanding {
        let mut out = Outstanding::new(room, 64);
        (1..=messages).for_each(|number| assert_eq!(out.sent(number, number), None));
        out
    }

    #[test]
    fn three_out_answered_in_another_order_are_behind() {
        let mut out = with(3, 8);
        assert_eq!([2, 1, 3].map(|n| out.answered(n)), [first(2, false), first(1, true), first(3, false)]);
        assert_eq!(out.count(), 0);
    }

    #[test]
    fn message_lost_answer_comes_is_after_loss_then_again() {
        let mut out = with(3, 8);
        assert_eq!([out.give_up_before(2), out.give_up_before(2)], [Some(1), None]);
        assert_eq!([1, 1, 2].map(|n| out.answered(n)), [Answer::AfterLoss, Answer::Again, first(2, false)]);
        assert_eq!(out.count(), 1);
    }

    #[test]
    fn number_not_sent_is_foreign() {
        let mut out = with(3, 8);
        assert_eq!([0, 4, 77].map(|n| out.answered(n)), [Answer::Foreign; 3]);
    }

    #[test]
    fn message_without_room_is_given_up_once() {
        let mut out = with(4, 4);
        assert_eq!(out.sent(5, 5), Some(1));
        assert_eq!(out.count(), 4);
        assert_eq!(out.answered(1), Answer::Foreign);
        let given_up: Vec<u64> = std::iter::from_fn(|| out.give_up_before(u64::MAX)).collect();
        assert_eq!(given_up, [2, 3, 4, 5]);
        assert_eq!(out.count(), 0);
    }

    proptest! {
        /// Against a plain map: every message ends as answered or given up, once, whatever the order.
        #[test]
        fn as_a_plain_map(bits in 32_u32..=64, steps in prop::collection::vec((0_u8..4, 0_u64..40), 1..400)) {
            const ROOM: u64 = 16;
            let mut out = Outstanding::new(ROOM, bits);
            let (mut model, mut next) = (BTreeMap::new(), 1_u64);
            for (what, operand) in steps {
                match what {
                    0 | 1 => {
                        let no_room = next.checked_sub(ROOM).filter(|number| model.get(number) == Some(&State::Out));
                        prop_assert_eq!(out.sent(next, next), no_room);
                        next.checked_sub(ROOM).map(|number| model.remove(&number));
                        model.insert(next, State::Out);
                        next += 1;
                    }
                    2 => {
                        let number = (next + 2).saturating_sub(operand);
                        let low = if bits == 64 { number } else { number & ((1 << bits) - 1) };
                        let answer = out.answered(low);
                        match model.get(&number) {
                            Some(State::Out) => {
                                let is_first = matches!(answer, Answer::First { intended_ticks, .. } if intended_ticks == number);
                                prop_assert!(is_first);
                            }
                            Some(State::Answered) => prop_assert_eq!(answer, Answer::Again),
                            Some(State::Lost) => prop_assert_eq!(answer, Answer::AfterLoss),
                            _ => prop_assert_eq!(answer, Answer::Foreign),
                        }
                        if let Some(state) = model.get_mut(&number) {
                            *state = State::Answered;
                        }
                    }
                    _ => {
                        let before = next.saturating_sub(operand);
                        let oldest = model.iter().find(|(_, state)| **state == State::Out).map(|(number, _)| *number);
                        let wanted = oldest.filter(|number| *number < before);
                        prop_assert_eq!(out.give_up_before(before), wanted);
                        wanted.map(|number| model.insert(number, State::Lost));
                    }
                }
                let count = model.values().filter(|state| **state == State::Out).count() as u64;
                prop_assert_eq!(out.count(), count);
            }
        }
    }
}

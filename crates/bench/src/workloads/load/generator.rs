//! What is due, what is out, and what becomes of it. Time is passed in, so a round runs under any clock.

use nearwire_sys::tsc::Clock;

use super::outstanding::{Answer, Outstanding};
use super::{Load, RoundOutcome, RoundPlan, Schedule};
use crate::workloads::Sample;

/// Fewest and most messages that can be out.
const ROOM: (u64, u64) = (1 << 12, 1 << 20);

/// A generator that is behind goes on for a tenth of the round: messages of its end that are a little late are no failure.
const LATE_PART: u64 = 10;

/// One round of an open loop.
#[derive(Debug)]
pub(super) struct Generator {
    schedule: Schedule,
    outstanding: Outstanding,
    /// Messages that are due from here on count.
    counted_from_ticks: u64,
    /// None is sent that is due from here on.
    ends_ticks: u64,
    /// Nor is any sent after this.
    closes_ticks: u64,
    /// Counted messages still to be sent.
    left: u64,
    timeout_ticks: u64,
    last_sent_ticks: u64,
    outcome: RoundOutcome,
}

impl Generator {
    /// Of a plan that begins with the schedule.
    pub(super) fn new(load: &Load, schedule: Schedule, clock: Clock, plan: &RoundPlan, number_bits: u32) -> Generator {
        let (began, most_warm_up_ns) = (schedule.began_ticks(), plan.time_ns.unwrap_or(u64::MAX).max(plan.warm_up_ns));
        let of_messages = (schedule.gap_ticks() * plan.warm_up_messages as f64) as u64;
        let warm_up_ticks = of_messages.max(clock.ticks(plan.warm_up_ns)).min(clock.ticks(most_warm_up_ns));
        let counted_from_ticks = began.saturating_add(warm_up_ticks);
        let time_ticks = plan.time_ns.map_or(u64::MAX, |ns| clock.ticks(ns));
        let ends_ticks = counted_from_ticks.saturating_add(time_ticks);
        let in_flight = u128::from(load.rate_per_second) * u128::from(plan.timeout_ns) / 1_000_000_000;
        let room = u64::try_from(in_flight).unwrap_or(u64::MAX).saturating_add(1).clamp(ROOM.0, ROOM.1);
        Generator {
            outstanding: Outstanding::new(room, number_bits),
            counted_from_ticks,
            ends_ticks,
            closes_ticks: ends_ticks.saturating_add(time_ticks / LATE_PART),
            left: plan.messages.unwrap_or(u64::MAX),
            timeout_ticks: clock.ticks(plan.timeout_ns),
            last_sent_ticks: began,
            outcome: RoundOutcome { started_ticks: counted_from_ticks, ..RoundOutcome::default() },
            schedule,
        }
    }

    fn has_more(&self) -> bool {
        self.left > 0 && self.schedule.next_ticks() < self.ends_ticks
    }

    /// The number of the message that is to be sent now.
    #[inline]
    pub(super) fn due(&self, now_ticks: u64) -> Option<u64> {
        let is_due = self.schedule.next_ticks() <= now_ticks && self.has_more() && now_ticks < self.closes_ticks;
        is_due.then(|| self.outstanding.next())
    }

    /// Whether a message is due by `ticks` from now.
    #[inline]
    pub(super) fn is_due_within(&self, now_ticks: u64, ticks: u64) -> bool {
        self.has_more() && self.schedule.next_ticks() <= now_ticks.saturating_add(ticks)
    }

    /// The message that was due left.
    #[inline]
    pub(super) fn sent(&mut self, sent_ticks: u64) {
        let intended_ticks = self.schedule.next_ticks();
        self.schedule.advance();
        self.last_sent_ticks = sent_ticks;
        if self.counts(intended_ticks) {
            self.outcome.sent += 1;
            self.left -= 1;
        } else {
            self.outcome.warm_up_messages += 1;
        }
        if let Some(intended_ticks) = self.outstanding.sent(intended_ticks, sent_ticks) {
            self.lost(intended_ticks);
        }
        self.outcome.outstanding_most = self.outcome.outstanding_most.max(self.outstanding.count());
    }

    /// An answer came. `Some`: a sample that counts.
    #[inline]
    pub(super) fn answered(&mut self, low_bits: u64, received_ticks: u64) -> Option<Sample> {
        match self.outstanding.answered(low_bits) {
            Answer::First { intended_ticks, sent_ticks, is_behind } => {
                self.outcome.reordered += u64::from(is_behind);
                self.counts(intended_ticks).then(|| Sample::new(intended_ticks, sent_ticks, received_ticks))
            }
            Answer::Again => {
                self.outcome.duplicated += 1;
                None
            }
            Answer::AfterLoss => {
                self.outcome.reordered += 1;
                None
            }
            Answer::Foreign => {
                self.corrupted();
                None
            }
        }
    }

    /// Something of the wrong length or content came.
    pub(super) fn corrupted(&mut self) {
        self.outcome.corrupted += 1;
    }

    /// Whether the thread was where it belongs when an answer came.
    #[inline]
    pub(super) fn saw_cpu(&mut self, is_right: bool) {
        self.outcome.migrated += u64::from(!is_right);
    }

    /// Counts as lost what has been out for too long.
    #[inline]
    pub(super) fn give_up_late_ones(&mut self, now_ticks: u64) {
        let before_ticks = now_ticks.saturating_sub(self.timeout_ticks);
        while let Some(intended_ticks) = self.outstanding.give_up_before(before_ticks) {
            self.lost(intended_ticks);
        }
    }

    fn lost(&mut self, intended_ticks: u64) {
        self.outcome.lost += u64::from(self.counts(intended_ticks));
    }

    fn counts(&self, intended_ticks: u64) -> bool {
        intended_ticks >= self.counted_from_ticks
    }

    /// Whether nothing is to be sent or waited for any more.
    #[inline]
    pub(super) fn is_over(&self, now_ticks: u64) -> bool {
        // A path that takes nothing any more, as a connection whose far end does not read.
        let waits_since_ticks = self.last_sent_ticks.max(self.schedule.next_ticks());
        let is_stuck = now_ticks.saturating_sub(waits_since_ticks) > self.timeout_ticks;
        let may_send = self.has_more() && now_ticks < self.closes_ticks && !is_stuck;
        !may_send && (self.outstanding.count() == 0 || self.is_silent(now_ticks))
    }

    fn is_silent(&self, now_ticks: u64) -> bool {
        now_ticks.saturating_sub(self.last_sent_ticks) > self.timeout_ticks
    }

    /// What the round came to by `now_ticks`. Where that is earlier than planned, messages that may still be answered do not count.
    pub(super) fn finish(mut self, clock: Clock, now_ticks: u64) -> RoundOutcome {
        let is_cut_short = !self.is_over(now_ticks);
        if is_cut_short {
            self.give_up_late_ones(now_ticks);
            let still_out = std::iter::from_fn(|| self.outstanding.give_up_before(u64::MAX));
            let counted = still_out.filter(|intended_ticks| *intended_ticks >= self.counted_from_ticks).count();
            self.outcome.sent -= counted as u64;
        } else {
            self.give_up_late_ones(u64::MAX);
            self.outcome.unsent = self.unsent();
        }
        let has_end = self.ends_ticks < u64::MAX && !is_cut_short;
        let ended_ticks = if has_end { self.ends_ticks } else { self.last_sent_ticks };
        RoundOutcome {
            warm_up_ns: clock.ns(self.counted_from_ticks - self.schedule.began_ticks()),
            duration_ns: clock.ns(ended_ticks.saturating_sub(self.counted_from_ticks)),
            ..self.outcome
        }
    }

    /// Counted messages of the round that were not sent.
    fn unsent(&mut self) -> u64 {
        if self.ends_ticks == u64::MAX {
            return self.left;
        }
        let mut unsent = 0;
        while self.left > unsent && self.schedule.next_ticks() < self.ends_ticks {
            unsent += u64::from(self.counts(self.schedule.next_ticks()));
            self.schedule.advance();
        }
        unsent
    }
}

#[cfg(test)]
mod tests;

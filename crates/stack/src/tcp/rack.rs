//! Loss detection by time: RACK (RFC 8985 section 6). A segment is lost when one that was sent enough later has arrived.

use super::scoreboard::{Fate, Scoreboard, Sent};
use super::sequence::Sequence;

/// Segments that arrived out of order before a lossless path is taken for one that reorders (RFC 5681 section 3.2).
pub(crate) const DUPLICATES_OF_LOSS: u32 = 3;
/// Recoveries for which a window of reordering that grew stays (RFC 8985 section 6.2, step 4).
const RECOVERIES_KEPT: u8 = 16;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: the delivered segment that was sent last.
    sent_ns: u64,
    end: Sequence,
    /// RACK.rtt.
    round_trip_ns: u64,
    /// RACK.fack: the highest number that arrived.
    farthest: Sequence,
    /// A segment arrived after one that was sent later.
    is_reordering: bool,
    /// RACK.reo_wnd_mult and RACK.reo_wnd_persist.
    multiplier: u8,
    recoveries_left: u8,
    /// RACK.dsack_round: until here one duplicate was counted.
    duplicate_round: Option<Sequence>,
}

impl Rack {
    pub(crate) const fn new(unacknowledged: Sequence) -> Rack {
        Rack {
            sent_ns: 0,
            end: unacknowledged,
            round_trip_ns: 0,
            farthest: unacknowledged,
            is_reordering: false,
            multiplier: 1,
            recoveries_left: RECOVERIES_KEPT,
            duplicate_round: None,
        }
    }

    /// Whether the path was seen to reorder.
    pub(crate) const fn is_reordering(&self) -> bool {
        self.is_reordering
    }

    /// A segment was acknowledged or selectively acknowledged (steps 2 and 3). `echo_is_older`: the timestamp that came back is from before
    /// it was sent again, so the first one arrived.
    pub(crate) fn delivered(&mut self, sent: &Sent, now_ns: u64, least_ns: Option<u64>, echo_is_older: bool) {
        if sent.end.is_after(self.farthest) {
            self.farthest = sent.end;
        } else if sent.end.is_before(self.farthest) && !sent.is_retransmitted {
            self.is_reordering = true;
        }
        let round_trip_ns = now_ns.saturating_sub(sent.sent_ns);
        // A copy that cannot be the one that was acknowledged says nothing of when it arrived.
        if sent.is_retransmitted && (echo_is_older || least_ns.is_some_and(|least_ns| round_trip_ns < least_ns)) {
            return;
        }
        self.round_trip_ns = round_trip_ns;
        if is_sent_after(sent.sent_ns, sent.end, self.sent_ns, self.end) {
            (self.sent_ns, self.end) = (sent.sent_ns, sent.end);
        }
    }

    /// The far end got something twice: what was sent again was not lost, once for each round trip (step 4).
    pub(crate) fn duplicate(&mut self, next: Sequence) {
        if self.duplicate_round.is_none() {
            self.duplicate_round = Some(next);
            self.multiplier = self.multiplier.saturating_add(1);
            self.recoveries_left = RECOVERIES_KEPT;
        }
    }

    /// `unacknowledged` moved.
    pub(crate) fn advanced(&mut self, unacknowledged: Sequence) {
        if self.duplicate_round.is_some_and(|round| !unacknowledged.is_before(round)) {
            self.duplicate_round = None;
        }
    }

    /// A recovery has ended.
    pub(crate) const fn recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.multiplier = 1;
        }
    }

    /// RACK_update_reo_wnd: how much later than expected a segment may be.
    fn window_ns(&self, has_many: bool, least_ns: Option<u64>, smoothed_ns: Option<u64>) -> u64 {
        //= RFC 8985 6.2 MUST: as long as no reordering was seen, three segments beyond it or a recovery are enough
        if !self.is_reordering && has_many {
            return 0;
        }
        let quarter_ns = least_ns.unwrap_or(0) / 4;
        (u64::from(self.multiplier) * quarter_ns).min(smoothed_ns.unwrap_or(u64::MAX))
    }

    /// RACK_detect_loss (step 5): marks what is lost. Returns whether something was, and how long to wait for the next, if there may be one.
    pub(crate) fn detect(&self, scoreboard: &mut Scoreboard, now_ns: u64, facts: Facts) -> (bool, Option<u64>) {
        let window_ns = self.window_ns(facts.has_many, facts.least_ns, facts.smoothed_ns);
        let mut wait_ns: Option<u64> = None;
        let lost_bytes = scoreboard.mark_lost_where(|sent| {
            if !is_sent_after(self.sent_ns, self.end, sent.sent_ns, sent.end) {
                // What was sent once is in the order of sending: nothing behind it was sent before it.
                return sent.is_retransmitted.then_some(false);
            }
            if sent.fate != Fate::InFlight {
                return Some(false);
            }
            let due_ns = sent.sent_ns.saturating_add(self.round_trip_ns).saturating_add(window_ns);
            if due_ns <= now_ns {
                return Some(true);
            }
            wait_ns = Some(wait_ns.unwrap_or(0).max(due_ns - now_ns));
            Some(false)
        });
        (lost_bytes > 0, wait_ns)
    }

    /// RACK_mark_losses_on_RTO (section 6.3): the first, and all that would have been acknowledged by now.
    pub(crate) fn detect_on_timeout(&self, scoreboard: &mut Scoreboard, now_ns: u64) {
        let first = scoreboard.first().map(|sent| sent.start);
        scoreboard.mark_lost_where(|sent| {
            let is_due = sent.sent_ns.saturating_add(self.round_trip_ns) <= now_ns;
            Some(Some(sent.start) == first || is_due)
        });
    }
}

/// What else counts for the window of reordering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// As many segments beyond holes as make a loss, or a recovery goes on.
    pub(crate) has_many: bool,
    pub(crate) least_ns: Option<u64>,
    pub(crate) smoothed_ns: Option<u64>,
}

/// RACK_sent_after.
const fn is_sent_after(sent_ns: u64, end: Sequence, other_ns: u64, other_end: Sequence) -> bool {
    sent_ns > other_ns || (sent_ns == other_ns && end.is_after(other_end))
}

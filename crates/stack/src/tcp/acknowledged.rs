//! What an acknowledgement means to the sender: delivered bytes, a round trip, losses, and the congestion window that follows.

use nearwire_wire::tcp::options::Block;

use super::congestion::Progress;
use super::rack::DUPLICATES_OF_LOSS;
use super::recovery::Phase;
use super::scoreboard::{Fate, Sent};
use super::sender::{Fin, NEVER, Sender};
use super::sequence::Sequence;

/// What of a segment concerns the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) number: Sequence,
    /// SEG.SEQ.
    pub(crate) sequence: Sequence,
    /// Scaled.
    pub(crate) window_bytes: u32,
    pub(crate) blocks: &'a [Block],
    /// Neither data nor FIN.
    pub(crate) is_bare: bool,
    /// How long ago, by the timestamp that came back, what it acknowledges was sent.
    pub(crate) echo_age_ns: Option<u64>,
    /// ECE.
    pub(crate) is_marked: bool,
}

/// What an acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    /// Acknowledged or selectively acknowledged for the first time.
    bytes: u32,
    selective_bytes: u32,
    has_retransmitted: bool,
    /// When the first and the last of what was sent once and is acknowledged now were sent.
    oldest_ns: Option<u64>,
    newest_ns: Option<u64>,
    selective_newest_ns: Option<u64>,
}

impl Delivery {
    #[inline]
    fn acknowledged(&mut self, sent: &Sent) {
        if sent.fate != Fate::Delivered {
            self.bytes += sent.len();
        }
        if sent.is_retransmitted {
            self.has_retransmitted = true;
        } else if sent.fate != Fate::Delivered {
            self.oldest_ns.get_or_insert(sent.sent_ns);
            self.newest_ns = Some(sent.sent_ns);
        }
    }

    fn selectively(&mut self, sent: &Sent) {
        self.bytes += sent.len();
        self.selective_bytes += sent.len();
        if !sent.is_retransmitted {
            self.selective_newest_ns = self.selective_newest_ns.max(Some(sent.sent_ns));
        }
    }
}

impl Sender {
    /// Takes an acknowledgement in that is neither too old nor beyond SND.NXT. Returns whether SND.UNA moved.
    pub(crate) fn acknowledged(&mut self, ack: &Acknowledgement<'_>, now_ns: u64) -> bool {
        let (before, out_bytes, pipe_bytes) = (self.unacknowledged, self.out_bytes(), self.pipe_bytes());
        self.unanswered_probes = 0;
        let has_new_window = self.update_window(ack);
        let mut delivery = Delivery::default();
        let has_duplicate = self.has_selective && self.selective(ack, &mut delivery, now_ns);
        let has_advanced = ack.number.is_after(before);
        if has_advanced {
            self.advance(ack, &mut delivery, now_ns);
        }
        self.measure(&delivery, ack, has_advanced, now_ns);
        let is_duplicate = !has_advanced && ack.number == before && ack.is_bare && !has_new_window && out_bytes > 0;
        self.settle_probe(ack, has_duplicate, is_duplicate && delivery.bytes == 0);
        if !self.has_selective {
            self.count_duplicates(is_duplicate, ack.number.beyond(before), &mut delivery);
        }
        if ack.is_marked && has_advanced {
            self.enter_marked();
        }
        if out_bytes > 0 {
            self.next_phase(has_advanced, now_ns);
            self.grow_or_reduce(&delivery, has_advanced, pipe_bytes, now_ns);
        }
        if has_advanced {
            self.round_trip.acknowledged();
            self.timeouts = 0;
            self.stalled_since_ns = if self.scoreboard.is_empty() { NEVER } else { now_ns };
            //= RFC 6298 5.2 MUST: when all is acknowledged the timer is off
            //= RFC 6298 5.3 MUST: new data acknowledged restarts the timer
            self.arm_retransmit(now_ns);
        }
        if has_advanced || delivery.selective_bytes > 0 {
            self.schedule_probe(now_ns);
        }
        has_advanced
    }

    /// SND.WND. As Linux does (`tcp_may_update_window`), a larger window in a segment with the same numbers counts, and so does zero.
    fn update_window(&mut self, ack: &Acknowledgement<'_>) -> bool {
        //= RFC 9293 3.10.7.4 MUST: an old segment does not update the send window
        let is_newer = ack.number.is_after(self.unacknowledged)
            || ack.sequence.is_after(self.window_sequence)
            || (ack.sequence == self.window_sequence
                && (ack.window_bytes > self.window_bytes || ack.window_bytes == 0));
        if !is_newer || ack.number.is_before(self.unacknowledged) {
            return false;
        }
        self.window_sequence = ack.sequence;
        let has_changed = self.window_bytes != ack.window_bytes;
        self.window_bytes = ack.window_bytes;
        self.window_most_bytes = self.window_most_bytes.max(ack.window_bytes);
        if ack.window_bytes > 0 {
            self.persist_doublings = 0;
            if self.scoreboard.is_empty() {
                self.stalled_since_ns = NEVER;
            }
        }
        has_changed
    }

    /// Blocks. Returns whether the first reports a duplicate (RFC 2883).
    fn selective(&mut self, ack: &Acknowledgement<'_>, delivery: &mut Delivery, now_ns: u64) -> bool {
        let Some((first, others)) = ack.blocks.split_first() else { return false };
        let (left, right) = (Sequence(first.left), Sequence(first.right));
        let within = |outer: &Block| {
            !left.is_before(Sequence(outer.left)) && !right.is_after(Sequence(outer.right)) && first != outer
        };
        //= RFC 2883 4 MUST: a first block below the acknowledgement, or within the second, tells what came twice
        let is_duplicate = left.is_before(right)
            && (!right.is_after(ack.number) || others.first().is_some_and(within))
            && ack.number.offset_from(left) < self.window_most_bytes.max(1).cast_signed();
        if is_duplicate {
            self.duplicate_reports += 1;
            self.rack.duplicate(self.next);
        }
        let least_ns = self.round_trip.least_ns();
        for block in ack.blocks {
            let (start, end) = (Sequence(block.left), Sequence(block.right));
            let is_possible = start.is_before(end)
                && start.is_after(ack.number.later_of(self.unacknowledged))
                && !end.is_after(self.next);
            if !is_possible {
                continue;
            }
            let Sender { scoreboard, rack, .. } = self;
            scoreboard.deliver(start, end, |sent| {
                delivery.selectively(sent);
                rack.delivered(sent, now_ns, least_ns, is_echo_older(ack, sent, now_ns));
            });
        }
        is_duplicate
    }

    fn advance(&mut self, ack: &Acknowledgement<'_>, delivery: &mut Delivery, now_ns: u64) {
        let least_ns = self.round_trip.least_ns();
        let Sender { scoreboard, rack, .. } = self;
        scoreboard.acknowledge(ack.number, |sent| {
            delivery.acknowledged(sent);
            if sent.fate != Fate::Delivered {
                rack.delivered(sent, now_ns, least_ns, is_echo_older(ack, sent, now_ns));
            }
        });
        self.buffer.acknowledge(ack.number);
        self.unacknowledged = ack.number;
        self.rack.advanced(ack.number);
        // Numbers that are only compared with SND.UNA stay near it: far behind, they would be beyond it.
        self.small_end = self.small_end.later_of(ack.number);
        if self.recovery.phase == Phase::Open {
            self.recovery.point = self.recovery.point.later_of(ack.number.minus(1));
        }
        if self.fin == Fin::Sent && ack.number.is_after(self.buffer.end()) {
            self.fin = Fin::Acknowledged;
        }
    }

    fn measure(&mut self, delivery: &Delivery, ack: &Acknowledgement<'_>, has_advanced: bool, now_ns: u64) {
        let age_ns = |sent_ns: u64| now_ns.saturating_sub(sent_ns);
        //= RFC 6298 3 MUST: no round trip is measured of what was sent again, unless timestamps tell which came
        let measured_ns = match delivery.oldest_ns {
            Some(oldest_ns) if !delivery.has_retransmitted => Some(age_ns(oldest_ns)),
            _ => delivery.selective_newest_ns.map(age_ns),
        };
        //= RFC 7323 4.3 MUST: a timestamp that came back is used only where it acknowledges new data
        let sample_ns = measured_ns.or(ack.echo_age_ns.filter(|_| has_advanced));
        if let Some(sample_ns) = sample_ns {
            self.round_trip.measured(sample_ns, now_ns);
        }
        if let Some(newest_ns) = delivery.newest_ns.filter(|_| !delivery.has_retransmitted) {
            self.round_trip.least(age_ns(newest_ns), now_ns);
        }
    }

    /// What became of a probe of the tail (RFC 8985 section 7.4, `tcp_process_tlp_ack`).
    fn settle_probe(&mut self, ack: &Acknowledgement<'_>, has_duplicate: bool, is_duplicate: bool) {
        let Some(probe) = self.tail_probe.filter(|probe| !ack.number.is_before(probe.end)) else { return };
        if !probe.is_retransmission || has_duplicate {
            self.tail_probe = None;
            if probe.is_retransmission {
                self.round_trip.probed(false);
            }
        } else if ack.number.is_after(probe.end) {
            // The probe repaired a loss that nothing else showed.
            //= RFC 8985 7.4 MUST: a loss that a probe repaired is answered as congestion
            self.tail_probe = None;
            self.round_trip.probed(true);
            if self.recovery.phase == Phase::Open {
                self.reduce();
                self.congestion.window_bytes = self.congestion.window_bytes.min(self.congestion.threshold_bytes);
            }
        } else if is_duplicate {
            // Both the segment and the probe arrived.
            self.tail_probe = None;
            self.round_trip.probed(false);
        }
    }

    /// A far end without selective acknowledgements: each duplicate says that one segment arrived (RFC 5681 section 3.2, RFC 6582).
    fn count_duplicates(&mut self, is_duplicate: bool, advanced_bytes: u32, delivery: &mut Delivery) {
        let segment_bytes = self.segment_bytes;
        if is_duplicate {
            self.duplicates += 1;
            let most_bytes = self.out_bytes().saturating_sub(segment_bytes);
            let bytes = most_bytes.saturating_sub(self.duplicate_bytes).min(segment_bytes);
            self.duplicate_bytes += bytes;
            delivery.bytes += bytes;
            // RFC 6582 section 3.2: not again for what was sent before the last recovery began.
            let is_fresh = self.unacknowledged.is_after(self.recovery.point);
            //= RFC 5681 3.2 MUST: the third duplicate acknowledgement has the first segment sent again
            if self.duplicates == DUPLICATES_OF_LOSS && is_fresh {
                self.scoreboard.mark_lost(0);
            }
        } else if advanced_bytes > 0 {
            self.duplicates = 0;
            // One segment filled the hole; the others are those that the duplicates reported.
            let told_bytes = advanced_bytes.saturating_sub(segment_bytes).min(self.duplicate_bytes);
            self.duplicate_bytes = (self.duplicate_bytes - told_bytes).min(self.out_bytes());
            delivery.bytes = delivery.bytes.saturating_sub(told_bytes);
        }
    }

    fn next_phase(&mut self, has_advanced: bool, now_ns: u64) {
        let is_past = !self.unacknowledged.is_before(self.recovery.point);
        if self.recovery.phase != Phase::Open && is_past {
            self.leave_phase();
        } else if self.recovery.phase == Phase::Recovery && has_advanced && !self.has_selective {
            //= RFC 6582 3.2 MUST: an acknowledgement of a part of what was out shows the next loss
            self.scoreboard.mark_lost(0);
        }
        self.detect_losses(now_ns);
        if self.scoreboard.lost_bytes() > 0 {
            self.enter_recovery();
        }
    }

    fn leave_phase(&mut self) {
        if self.recovery.is_reducing() {
            self.congestion.window_bytes = self.congestion.threshold_bytes;
            self.rack.recovered();
        }
        self.recovery.phase = Phase::Open;
        (self.duplicates, self.duplicate_bytes) = (0, 0);
    }

    fn grow_or_reduce(&mut self, delivery: &Delivery, has_advanced: bool, in_flight_bytes: u32, now_ns: u64) {
        if self.recovery.is_reducing() {
            let threshold_bytes = self.congestion.threshold_bytes;
            let pipe_bytes = self.pipe_bytes();
            if delivery.bytes > 0 || self.recovery.phase == Phase::Recovery {
                self.congestion.window_bytes =
                    self.recovery.window_bytes(delivery.bytes, pipe_bytes, threshold_bytes, self.segment_bytes);
            }
            if has_advanced && !self.has_selective && self.scoreboard.lost_bytes() > 0 {
                // What a partial acknowledgement shows is sent at once (RFC 6582 section 3.2).
                let least_bytes = pipe_bytes.saturating_add(self.segment_bytes);
                self.congestion.window_bytes = self.congestion.window_bytes.max(least_bytes);
            }
        } else if has_advanced && delivery.bytes > 0 {
            let smoothed_ns = self.round_trip.smoothed_ns().unwrap_or(0);
            let bytes = delivery.bytes;
            // After a timeout the window grows though it was not used: what is out was sent before.
            let in_flight_bytes =
                if self.recovery.phase == Phase::Loss { self.congestion.window_bytes } else { in_flight_bytes };
            self.congestion.acknowledged(Progress { bytes, in_flight_bytes, now_ns, smoothed_ns });
        }
    }
}

/// The timestamp that came back is from before a segment was sent again.
fn is_echo_older(ack: &Acknowledgement<'_>, sent: &Sent, now_ns: u64) -> bool {
    ack.echo_age_ns.is_some_and(|age_ns| age_ns > now_ns.saturating_sub(sent.sent_ns).saturating_add(ECHO_TICK_NS))
}

/// Timestamps count milliseconds, so an age may be that much too large.
const ECHO_TICK_NS: u64 = 1_000_000;

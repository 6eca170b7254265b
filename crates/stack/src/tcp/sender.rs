//! The sending half of a connection: what was written, what of it is on its way, and when it is sent again.

use super::TcpOptions;
use super::congestion::Congestion;
use super::rack::{DUPLICATES_OF_LOSS, Rack};
use super::recovery::{Phase, Recovery};
use super::round_trip::{RoundTrip, backed_off};
use super::scoreboard::{Fate, Scoreboard, Sent};
use super::send_buffer::SendBuffer;
use super::sequence::Sequence;

/// A deadline that is not set.
pub(crate) const NEVER: u64 = u64::MAX;
/// Linux's `TCP_TIMEOUT_MIN`, two ticks of its clock; ours are shorter (`wheel.rs`), but the far end's may be no better than this.
const PROBE_GRANULARITY_NS: u64 = 1_000_000;
/// `TCP_MIN_MSS`: no segment is made smaller by what the far end says.
pub(crate) const SEGMENT_BYTES_LEAST: u32 = 88;
/// A far end whose windows were never larger than this gets segments as large as the window (`tcp_bound_to_half_wnd`).
const SMALL_WINDOW_BYTES: u32 = 536;

/// The end of the stream that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fin {
    /// The program may write.
    No,
    /// It comes after what was written.
    Wanted,
    Sent,
    Acknowledged,
}

/// A probe of the tail that is out (RFC 8985 section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailProbe {
    /// TLP.end_seq.
    pub(crate) end: Sequence,
    /// TLP.is_retrans.
    pub(crate) is_retransmission: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) buffer: SendBuffer,
    /// SND.UNA, with the FIN.
    pub(crate) unacknowledged: Sequence,
    /// SND.NXT.
    pub(crate) next: Sequence,
    /// SND.WND.
    pub(crate) window_bytes: u32,
    /// MAX.SND.WND.
    pub(crate) window_most_bytes: u32,
    /// SND.WL1.
    pub(crate) window_sequence: Sequence,
    pub(crate) window_shift: u8,
    /// The largest segment that the far end takes, as it said.
    pub(crate) peer_segment_bytes: u32,
    /// The largest payload with timestamps that path and far end take.
    pub(crate) segment_bytes: u32,
    pub(crate) has_selective: bool,
    pub(crate) fin: Fin,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) round_trip: RoundTrip,
    pub(crate) congestion: Congestion,
    pub(crate) rack: Rack,
    pub(crate) recovery: Recovery,
    /// Duplicate acknowledgements in a row, of a far end without selective ones.
    pub(crate) duplicates: u32,
    /// Bytes that these say have arrived.
    pub(crate) duplicate_bytes: u32,
    /// The end of the last segment that was not full (`snd_sml`, for Nagle's rule as Minshall changed it).
    pub(crate) small_end: Sequence,
    pub(crate) tail_probe: Option<TailProbe>,
    /// A probe of the tail is to be sent.
    pub(crate) is_probe_due: bool,
    /// What waits is sent as far as the window allows, also a piece of a segment.
    pub(crate) is_forced: bool,
    /// A segment is to be sent that the far end answers.
    pub(crate) is_window_probe_due: bool,
    pub(crate) retransmit_ns: u64,
    pub(crate) probe_ns: u64,
    pub(crate) reorder_ns: u64,
    pub(crate) persist_ns: u64,
    pub(crate) persist_doublings: u32,
    /// Timeouts without progress.
    pub(crate) timeouts: u32,
    /// Probes of a window, or of an idle far end, without an answer.
    pub(crate) unanswered_probes: u32,
    /// Since when nothing was acknowledged that should have been; [`NEVER`]: it was.
    pub(crate) stalled_since_ns: u64,
    pub(crate) last_sent_ns: u64,
    pub(crate) retransmitted_segments: u64,
    pub(crate) duplicate_reports: u64,
    /// The window went down, and no new data was sent since: the next says so (CWR, RFC 3168 section 6.1.2).
    pub(crate) has_reduced: bool,
}

impl Sender {
    /// Bytes that were written and not sent.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u32 {
        self.buffer.end().beyond(self.next)
    }

    /// The first number that the far end does not take.
    #[inline]
    pub(crate) fn window_end(&self) -> Sequence {
        self.unacknowledged + self.window_bytes
    }

    /// Sent and not acknowledged.
    #[inline]
    pub(crate) fn out_bytes(&self) -> u32 {
        self.next - self.unacknowledged
    }

    /// What of that is on its way, as far as is known.
    #[inline]
    pub(crate) const fn pipe_bytes(&self) -> u32 {
        self.scoreboard.in_flight_bytes().saturating_sub(self.duplicate_bytes)
    }

    /// The payload of a full segment, of which `blocks_bytes` go to selective acknowledgements. No more than half of the largest window of
    /// the far end: else a window that is smaller than a segment would never be used (RFC 9293 section 3.8.6.2.1).
    #[inline]
    pub(crate) fn full_bytes(&self, blocks_bytes: u32) -> u32 {
        let half_bytes = match self.window_most_bytes {
            0 => u32::MAX,
            most_bytes if most_bytes > SMALL_WINDOW_BYTES => most_bytes / 2,
            most_bytes => most_bytes,
        };
        self.segment_bytes.saturating_sub(blocks_bytes).max(SEGMENT_BYTES_LEAST / 2).min(half_bytes).max(1)
    }

    pub(crate) fn set_segment_bytes(&mut self, segment_bytes: u32) {
        self.segment_bytes = segment_bytes;
        self.congestion.set_segment_bytes(segment_bytes);
    }

    /// Counts what an earlier owner sent as on its way since now: it cannot be measured.
    pub(crate) fn adopt_sent(&mut self, now_ns: u64) {
        let mut start = self.unacknowledged;
        while start.is_before(self.next) {
            let end = (start + self.segment_bytes).earlier_of(self.next);
            self.scoreboard.push(Sent { start, end, sent_ns: now_ns, fate: Fate::InFlight, is_retransmitted: true });
            start = end;
        }
        if !self.scoreboard.is_empty() {
            self.congestion.window_bytes = self.congestion.window_bytes.max(self.out_bytes());
            self.stall(now_ns);
            self.arm_retransmit(now_ns);
            self.schedule_probe(now_ns);
        }
    }

    pub(crate) fn arm_retransmit(&mut self, now_ns: u64) {
        self.retransmit_ns =
            if self.scoreboard.is_empty() { NEVER } else { now_ns.saturating_add(self.round_trip.timeout_ns()) };
    }

    /// RFC 8985 section 7.2: after new data was sent, or some of it acknowledged.
    pub(crate) fn schedule_probe(&mut self, now_ns: u64) {
        // One that is due and found no room yet is for what was out then.
        self.is_probe_due = false;
        let is_plain = matches!(self.recovery.phase, Phase::Open | Phase::Marked);
        let has_holes = self.scoreboard.delivered_bytes() > 0 || self.scoreboard.lost_bytes() > 0;
        let wants = self.has_selective && is_plain && !has_holes && self.tail_probe.is_none();
        if !wants || self.scoreboard.is_empty() {
            self.probe_ns = NEVER;
            return;
        }
        let after_ns = self.round_trip.probe_after_ns(self.scoreboard.len() == 1, PROBE_GRANULARITY_NS);
        //= RFC 8985 7.2 MUST: the probe is sent no later than the retransmission timeout expires
        self.probe_ns = now_ns.saturating_add(after_ns).min(self.retransmit_ns);
    }

    /// Persist (RFC 9293 section 3.8.6.1): nothing is out and what waits cannot be sent. `is_blocked`: no segment can be made.
    pub(crate) fn update_persist(&mut self, is_blocked: bool, now_ns: u64) {
        let waits = self.unsent_bytes() > 0 || self.fin == Fin::Wanted;
        if !(waits && is_blocked && self.scoreboard.is_empty()) {
            self.persist_ns = NEVER;
            self.persist_doublings = 0;
        } else if self.persist_ns == NEVER {
            self.persist_ns = now_ns.saturating_add(backed_off(self.round_trip.base_ns(), self.persist_doublings));
        }
    }

    /// The retransmission timeout expired (RFC 6298 section 5, `tcp_enter_loss`).
    pub(crate) fn time_out(&mut self, now_ns: u64) {
        let is_new = match self.recovery.phase {
            Phase::Open => true,
            Phase::Marked | Phase::Recovery => !self.recovery.point.is_after(self.unacknowledged),
            //= RFC 5681 3.1 MUST: a segment that is lost again does not lower the threshold again
            Phase::Loss => self.timeouts == 0,
        };
        if is_new {
            self.reduce();
        }
        if self.scoreboard.first().is_some_and(|first| first.fate == Fate::Delivered) {
            //= RFC 2018 8 MUST: when the timeout expires, what was selectively acknowledged is not counted upon
            self.scoreboard.forget_deliveries();
        }
        if self.has_selective {
            self.rack.detect_on_timeout(&mut self.scoreboard, now_ns);
        } else {
            self.scoreboard.mark_lost_where(|_| Some(true));
        }
        (self.duplicates, self.duplicate_bytes) = (0, 0);
        //= RFC 5681 3.1 MUST: after a timeout the window is one segment
        self.congestion.window_bytes = self.pipe_bytes().saturating_add(self.segment_bytes);
        self.recovery.begin(Phase::Loss, self.next, self.out_bytes());
        self.tail_probe = None;
        self.is_probe_due = false;
        (self.probe_ns, self.reorder_ns) = (NEVER, NEVER);
        self.timeouts += 1;
        self.round_trip.double();
        //= RFC 6298 5.6 MUST: the timer is started again with the doubled timeout
        self.arm_retransmit(now_ns);
    }

    /// The timer of the tail expired (RFC 8985 section 7.3).
    pub(crate) fn probe_tail(&mut self, now_ns: u64) {
        self.probe_ns = NEVER;
        self.is_probe_due = true;
        //= RFC 8985 7.3 MUST: after a probe the retransmission timer is armed anew
        self.arm_retransmit(now_ns);
    }

    /// The timer of reordering expired (RFC 8985 section 6.3).
    pub(crate) fn reorder_timeout(&mut self, now_ns: u64) {
        self.reorder_ns = NEVER;
        self.detect_losses(now_ns);
        if self.scoreboard.lost_bytes() > 0 {
            self.enter_recovery();
            let window_bytes = self.pipe_bytes().saturating_add(self.segment_bytes);
            self.congestion.window_bytes = self.congestion.window_bytes.max(window_bytes);
        }
    }

    /// The window of the far end stays closed, or the program holds back a piece of a segment (`tcp_write_wakeup`).
    pub(crate) fn persist(&mut self, now_ns: u64) {
        let is_open = self.window_end().is_after(self.next) && self.unsent_bytes() > 0;
        if is_open {
            self.is_forced = true;
            self.persist_ns = NEVER;
        } else {
            self.is_window_probe_due = true;
            self.unanswered_probes += 1;
            self.persist_doublings += 1;
            //= RFC 9293 3.8.6.1 MUST: a window of zero is probed regularly
            self.persist_ns = now_ns.saturating_add(backed_off(self.round_trip.base_ns(), self.persist_doublings));
        }
        self.stall(now_ns);
    }

    pub(crate) fn stall(&mut self, now_ns: u64) {
        self.stalled_since_ns = self.stalled_since_ns.min(now_ns);
    }

    /// RACK, where the far end tells what it has.
    pub(crate) fn detect_losses(&mut self, now_ns: u64) {
        if !self.has_selective {
            return;
        }
        let many_bytes = DUPLICATES_OF_LOSS.saturating_mul(self.segment_bytes);
        let facts = super::rack::Facts {
            has_many: self.recovery.phase != Phase::Open || self.delivered_many(many_bytes),
            least_ns: self.round_trip.least_ns(),
            smoothed_ns: self.round_trip.smoothed_ns(),
        };
        let (_, wait_ns) = self.rack.detect(&mut self.scoreboard, now_ns, facts);
        self.reorder_ns = wait_ns.map_or(NEVER, |wait_ns| now_ns.saturating_add(wait_ns));
    }

    /// Whether three segments, which may be small ones, arrived beyond a hole.
    fn delivered_many(&self, many_bytes: u32) -> bool {
        let delivered_bytes = self.scoreboard.delivered_bytes();
        if delivered_bytes == 0 || delivered_bytes >= many_bytes {
            return delivered_bytes > 0;
        }
        let delivered = self.scoreboard.iter().filter(|sent| sent.fate == Fate::Delivered);
        delivered.take(DUPLICATES_OF_LOSS as usize).count() == DUPLICATES_OF_LOSS as usize
    }

    /// Something was lost: the threshold goes down once for all losses of a round trip.
    pub(crate) fn enter_recovery(&mut self) {
        match self.recovery.phase {
            Phase::Recovery | Phase::Loss => return,
            Phase::Open => self.reduce(),
            // It went down already.
            Phase::Marked => {}
        }
        self.recovery.begin(Phase::Recovery, self.next, self.out_bytes());
        self.probe_ns = NEVER;
        self.is_probe_due = false;
    }

    /// Congestion, however it showed.
    pub(crate) fn reduce(&mut self) {
        self.congestion.reduced(self.out_bytes());
        self.has_reduced = true;
    }

    /// The far end reported congestion (RFC 3168 section 6.1.2).
    pub(crate) fn enter_marked(&mut self) {
        //= RFC 3168 6.1.2 MUST: the window goes down once in a round trip, however many marks there are
        if self.recovery.phase == Phase::Open {
            self.reduce();
            self.recovery.begin(Phase::Marked, self.next, self.out_bytes());
        }
    }

    /// An idle connection does not know the path any more.
    pub(crate) fn restart_after_idle(&mut self, now_ns: u64) {
        let idle_ns = now_ns.saturating_sub(self.last_sent_ns);
        let timeout_ns = self.round_trip.base_ns();
        //= RFC 5681 4.1 MUST: what is sent after an idle timeout is no more than the restart window
        if self.scoreboard.is_empty() && self.last_sent_ns != 0 && idle_ns > timeout_ns {
            self.congestion.idle(idle_ns, timeout_ns);
        }
    }

    pub(crate) fn new(parts: SenderParts, options: &TcpOptions) -> Sender {
        let SenderParts { unacknowledged, next, window_bytes, window_most_bytes, window_sequence, .. } = parts;
        Sender {
            buffer: SendBuffer::new(unacknowledged),
            unacknowledged,
            next,
            window_bytes,
            window_most_bytes,
            window_sequence,
            window_shift: parts.window_shift,
            peer_segment_bytes: parts.peer_segment_bytes,
            segment_bytes: parts.segment_bytes,
            has_selective: parts.has_selective,
            fin: Fin::No,
            scoreboard: Scoreboard::default(),
            round_trip: RoundTrip::new(options.retransmit_floor_ns, parts.round_trip),
            congestion: Congestion::new(options.congestion_control, parts.segment_bytes),
            rack: Rack::new(unacknowledged),
            recovery: Recovery::new(unacknowledged),
            duplicates: 0,
            duplicate_bytes: 0,
            small_end: unacknowledged,
            tail_probe: None,
            is_probe_due: false,
            is_forced: false,
            is_window_probe_due: false,
            retransmit_ns: NEVER,
            probe_ns: NEVER,
            reorder_ns: NEVER,
            persist_ns: NEVER,
            persist_doublings: 0,
            timeouts: 0,
            unanswered_probes: 0,
            stalled_since_ns: NEVER,
            last_sent_ns: 0,
            retransmitted_segments: 0,
            duplicate_reports: 0,
            has_reduced: false,
        }
    }
}

/// What a sender is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderParts {
    pub(crate) unacknowledged: Sequence,
    pub(crate) next: Sequence,
    pub(crate) window_bytes: u32,
    pub(crate) window_most_bytes: u32,
    pub(crate) window_sequence: Sequence,
    pub(crate) window_shift: u8,
    pub(crate) peer_segment_bytes: u32,
    pub(crate) segment_bytes: u32,
    pub(crate) has_selective: bool,
    pub(crate) round_trip: Option<(u64, u64)>,
}

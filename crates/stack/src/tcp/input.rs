//! A segment arrives (RFC 9293 section 3.10.7.4, with RFC 5961 against segments of third parties and RFC 7323 against old ones).

use nearwire_wire::tcp::Flags;

use super::acknowledged::Acknowledgement;
use super::connection::{Connection, TcpError};
use super::ranges::Range;
use super::segment::Segment;
use super::sender::Fin;

/// At most one answer in so long to segments that cannot be accepted (`net.ipv4.tcp_invalid_ratelimit`).
const QUIET_NS: u64 = 500_000_000;

/// What a segment changed that the program may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Data, the end of the stream, an error or urgent data.
    pub(crate) is_news: bool,
    /// Room to write.
    pub(crate) has_room: bool,
    /// It was not taken in: the next owner ends the connection by it.
    pub(crate) is_ending: bool,
}

const NOTHING: Arrived = Arrived { is_news: false, has_room: false, is_ending: false };
const NEWS: Arrived = Arrived { is_news: true, ..NOTHING };
const ENDING: Arrived = Arrived { is_ending: true, ..NOTHING };

impl Connection {
    /// Takes a segment in.
    pub(crate) fn arrive(&mut self, segment: &Segment<'_>, now_ns: u64) -> Arrived {
        if self.error.is_some() {
            //= RFC 9293 3.10.7.1 MUST: a segment for a connection that is no more is answered by a reset, unless it is one
            if !segment.has(Flags::RST) && segment.has(Flags::ACK) {
                self.is_reset_due = true;
                self.reset_sequence = segment.acknowledgement;
            }
            return NOTHING;
        }
        if self.is_old(segment, now_ns) || !self.is_within(segment) {
            self.refuse(segment, now_ns);
            return NOTHING;
        }
        if self.options.leaves_ending && (segment.has(Flags::FIN) || segment.has(Flags::RST) || segment.has(Flags::URG))
        {
            return ENDING;
        }
        if segment.has(Flags::RST) {
            return self.reset(segment, now_ns);
        }
        //= RFC 5961 4.2 MUST: a SYN is answered by an acknowledgement, whatever its number
        //= RFC 9293 3.10.7.4 MUST: a segment without ACK is dropped
        if segment.has(Flags::SYN) {
            self.challenge(now_ns);
            return NOTHING;
        }
        if !segment.has(Flags::ACK) || !self.has_possible_acknowledgement(segment, now_ns) {
            return NOTHING;
        }
        if segment.has(Flags::URG) {
            // It is not acknowledged: the kernel, to which the connection is released, gets it again.
            self.has_urgent = true;
            return NEWS;
        }
        self.last_heard_ns = now_ns;
        self.has_heard = true;
        self.take_timestamp(segment, now_ns);
        self.take_mark(segment);
        let room_bytes = self.sender.buffer.len_bytes();
        self.take_acknowledgement(segment, now_ns);
        let has_room = self.sender.buffer.len_bytes() < room_bytes;
        let is_news = self.take_data(segment, now_ns);
        Arrived { is_news, has_room, is_ending: false }
    }

    /// PAWS (RFC 7323 section 5.3).
    fn is_old(&self, segment: &Segment<'_>, now_ns: u64) -> bool {
        let (Some(ours), Some(theirs)) = (&self.timestamps, segment.options.timestamps) else { return false };
        //= RFC 7323 5.3 MUST: a segment with an old timestamp is not accepted, unless it is a reset
        !segment.has(Flags::RST) && ours.is_old(theirs.value, now_ns)
    }

    /// Whether a segment lies in the window. As Linux does (`tcp_sequence`), what was acknowledged last still counts, so that an old
    /// segment can bring a new acknowledgement.
    fn is_within(&self, segment: &Segment<'_>) -> bool {
        let edge = self.receiver.next() + self.receiver.open_bytes();
        !segment.end().is_before(self.receiver.told_at()) && !segment.sequence.is_after(edge)
    }

    /// Answers a segment that cannot be accepted.
    fn refuse(&mut self, segment: &Segment<'_>, now_ns: u64) {
        //= RFC 9293 3.10.7.4 MUST: a segment outside of the window is answered by an acknowledgement, unless it is a reset
        if segment.has(Flags::RST) {
            return;
        }
        let end = segment.sequence + segment.payload.len() as u32;
        if segment.payload.is_empty() || segment.has(Flags::SYN) {
            self.challenge(now_ns);
            return;
        }
        // Data is no part of a loop of acknowledgements (`__tcp_oow_rate_limited`), and what came again may be waited for.
        if self.sender.has_selective && !end.is_after(self.receiver.next()) {
            self.receiver.duplicate = Some(Range { start: segment.sequence, end });
        }
        self.receiver.is_due = true;
        self.receiver.quicken();
    }

    /// A challenge ACK (RFC 5961), unless one was sent a moment ago. Counted for this connection alone: a limit for all of them would tell
    /// a third party whether another's segments are answered.
    fn challenge(&mut self, now_ns: u64) {
        //= RFC 5961 7 MUST: answers to segments that cannot be accepted are limited in number
        if now_ns >= self.quiet_until_ns {
            self.quiet_until_ns = now_ns.saturating_add(QUIET_NS);
            self.receiver.is_due = true;
        }
    }

    fn reset(&mut self, segment: &Segment<'_>, now_ns: u64) -> Arrived {
        //= RFC 5961 3.2 MUST: only a reset with exactly the expected number resets; another in the window is answered
        if segment.sequence != self.receiver.next() {
            self.challenge(now_ns);
            return NOTHING;
        }
        // `tcp_reset`.
        self.end(if self.receiver.has_ended { TcpError::ResetAfterFin } else { TcpError::Reset });
        NEWS
    }

    fn has_possible_acknowledgement(&mut self, segment: &Segment<'_>, now_ns: u64) -> bool {
        let number = segment.acknowledgement;
        let oldest = self.sender.unacknowledged.minus(self.sender.window_most_bytes);
        //= RFC 5961 5.2 MUST: an acknowledgement older than the largest window is answered and its data is dropped
        //= RFC 9293 3.10.7.4 MUST: an acknowledgement of what was not sent is answered and the segment is dropped
        let is_possible = !number.is_after(self.sender.next) && !number.is_before(oldest);
        if !is_possible {
            self.challenge(now_ns);
        }
        is_possible
    }

    fn take_timestamp(&mut self, segment: &Segment<'_>, now_ns: u64) {
        let (Some(ours), Some(theirs)) = (&mut self.timestamps, segment.options.timestamps) else { return };
        //= RFC 7323 4.3 MUST: what is echoed is the timestamp of the segment that was expected, or of an earlier one
        if !segment.sequence.is_after(self.receiver.told_at()) {
            ours.take(theirs.value, now_ns);
        }
    }

    fn take_mark(&mut self, segment: &Segment<'_>) {
        let notification = &mut self.notification;
        if !notification.is_negotiated || segment.payload.is_empty() {
            return;
        }
        //= RFC 3168 6.1.3 MUST: after a marked packet ECE is sent until the far end says that it heard
        if segment.has(Flags::CWR) {
            notification.tells = false;
        }
        if segment.is_marked && !notification.tells {
            notification.tells = true;
            self.receiver.quicken();
        }
    }

    fn take_acknowledgement(&mut self, segment: &Segment<'_>, now_ns: u64) {
        let echo_age_ns = match (&self.timestamps, segment.options.timestamps) {
            (Some(ours), Some(theirs)) => ours.age_ns(theirs.echo, now_ns),
            _ => None,
        };
        let ack = Acknowledgement {
            number: segment.acknowledgement,
            sequence: segment.sequence,
            //= RFC 7323 2.3 MUST: windows that come are scaled by the far end's shift
            window_bytes: u32::from(segment.window) << self.sender.window_shift,
            blocks: segment.options.blocks.as_slice(),
            is_bare: segment.end() == segment.sequence,
            echo_age_ns,
            is_marked: self.notification.is_negotiated && segment.has(Flags::ECE),
        };
        self.has_more &= !self.sender.acknowledged(&ack, now_ns);
    }

    /// Payload and FIN. Returns whether there is news for the program.
    fn take_data(&mut self, segment: &Segment<'_>, now_ns: u64) -> bool {
        let has_fin = segment.has(Flags::FIN);
        if segment.payload.is_empty() && !has_fin {
            return false;
        }
        let receiver = &mut self.receiver;
        if receiver.has_ended {
            // All of it came before, or follows a FIN.
            receiver.is_due = true;
            return false;
        }
        let before = receiver.next();
        let edge = receiver.right_edge().later_of(before);
        let edge = receiver.fin_at.map_or(edge, |fin| edge.earlier_of(fin));
        if !segment.sequence.is_before(edge) && !segment.payload.is_empty() {
            //= RFC 9293 3.10.7.4 MUST: with a window of zero acknowledgements are still taken, and data is answered
            receiver.quicken();
            receiver.is_due = true;
            return false;
        }
        self.bulk.has_joined |= segment.payload.len() as u32 > self.sender.peer_segment_bytes;
        let had_holes = !receiver.buffer.early.is_empty();
        let accepted = receiver.buffer.accept(segment.sequence, segment.payload, edge);
        let fin = segment.sequence + segment.payload.len() as u32;
        if has_fin && !fin.is_before(receiver.next()) && !fin.is_after(edge.later_of(receiver.next())) {
            receiver.fin_at.get_or_insert(fin);
        }
        if receiver.fin_at == Some(receiver.next()) {
            //= RFC 9293 3.10.7.4 MUST: a FIN is acknowledged, and the program hears of it after the data
            receiver.buffer.pass_fin();
            receiver.has_ended = true;
            receiver.is_due = true;
        }
        if self.sender.has_selective && accepted.duplicate.is_some() {
            receiver.duplicate = accepted.duplicate;
        }
        let is_out_of_order = accepted.is_early || accepted.advanced_bytes == 0 || had_holes;
        if accepted.is_early || accepted.duplicate.is_some() {
            receiver.quicken();
        }
        if accepted.advanced_bytes > 0 {
            let (payload_bytes, timeout_ns) = (segment.payload.len() as u32, self.sender.round_trip.timeout_ns());
            receiver.received(payload_bytes, self.sender.peer_segment_bytes, timeout_ns, now_ns);
        }
        receiver.decide(is_out_of_order, self.sender.round_trip.smoothed_ns(), now_ns);
        receiver.next() != before
    }

    /// A state of RFC 9293 section 3.3.2 in which this end may still send data.
    pub(crate) const fn may_write(&self) -> bool {
        matches!(self.sender.fin, Fin::No) && self.error.is_none()
    }
}

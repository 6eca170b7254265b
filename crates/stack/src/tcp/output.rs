//! What a connection sends next.
//!
//! ```text
//!  reset      this end gives the connection up
//!  again      what was lost, as far as the congestion window allows
//!  tail       a probe of the tail: new data, or the last segment again
//!  new        data, as far as both windows and Nagle's rule allow; the FIN with the last of it
//!  probe      something that is answered, to a window that is closed or a far end that is idle
//!  ACK        an acknowledgement alone; every segment above has one too
//! ```
//! [`Connection::next`] says which, and changes nothing; [`Connection::sent`] is told once it is on its way.

use nearwire_wire::tcp::Flags;

use super::connection::Connection;
use super::scoreboard::{Fate, Sent};
use super::segment::{Outgoing, Purpose};
use super::sender::{Fin, NEVER, Sender, TailProbe};
use super::sequence::Sequence;

/// An option of blocks: its head, and each block.
const BLOCKS_HEAD_BYTES: u32 = 4;
const BLOCK_BYTES: u32 = 8;

impl Connection {
    /// The next segment, if there is something to send.
    #[inline]
    pub(crate) fn next(&self) -> Option<Outgoing> {
        if self.is_reset_due {
            return Some(self.bare(Purpose::Reset, self.reset_sequence, Flags::RST | Flags::ACK));
        }
        if self.error.is_some() {
            return None;
        }
        self.lost().or_else(|| self.tail_probe()).or_else(|| self.new_data()).or_else(|| self.answer())
    }

    #[inline]
    fn answer(&self) -> Option<Outgoing> {
        if self.sender.is_window_probe_due {
            return Some(self.bare(Purpose::Probe, self.sender.unacknowledged.minus(1), Flags::ACK));
        }
        self.receiver.is_due.then(|| self.bare(Purpose::Acknowledge, self.next_sequence(), Flags::ACK))
    }

    const fn bare(&self, purpose: Purpose, sequence: Sequence, flags: Flags) -> Outgoing {
        Outgoing { purpose, sequence, payload_bytes: 0, flags, is_tail_probe: false }
    }

    /// The number of a segment without data: the far end takes it even if its window went back (`tcp_acceptable_seq`).
    fn next_sequence(&self) -> Sequence {
        self.sender.next.earlier_of(self.sender.window_end()).later_of(self.sender.unacknowledged)
    }

    /// Payload of a full segment beside the blocks that it carries.
    #[inline]
    pub(crate) fn full_bytes(&self) -> u32 {
        self.sender.full_bytes(self.blocks_bytes())
    }

    /// How many blocks an acknowledgement can carry.
    pub(crate) const fn blocks_most(&self) -> usize {
        if self.timestamps.is_some() { 3 } else { 4 }
    }

    /// What blocks take of a header.
    #[inline]
    pub(crate) fn blocks_bytes(&self) -> u32 {
        if self.sender.has_selective && self.receiver.has_blocks() { self.bytes_of_blocks() } else { 0 }
    }

    #[cold]
    fn bytes_of_blocks(&self) -> u32 {
        let mut blocks = [nearwire_wire::tcp::options::Block::default(); 4];
        BLOCKS_HEAD_BYTES + BLOCK_BYTES * self.receiver.blocks(self.blocks_most(), &mut blocks) as u32
    }

    /// What was lost.
    #[inline]
    fn lost(&self) -> Option<Outgoing> {
        if self.sender.scoreboard.lost_bytes() > 0 { self.first_lost() } else { None }
    }

    #[cold]
    fn first_lost(&self) -> Option<Outgoing> {
        let sender = &self.sender;
        let (index, sent) = sender.scoreboard.first_lost()?;
        // A far end that took its window back gets the first segment still: it is the probe (`tcp_retransmit_timer`).
        if !sent.start.is_before(sender.window_end()) && sent.start != sender.unacknowledged {
            return None;
        }
        let outgoing = self.again(index, sent);
        let pipe_bytes = sender.pipe_bytes();
        let has_room = pipe_bytes.saturating_add(sent.len().min(self.full_bytes())) <= sender.congestion.window_bytes;
        (has_room || pipe_bytes == 0).then_some(outgoing)
    }

    /// A segment, or as much of it as fits one now, once more.
    fn again(&self, index: usize, sent: &Sent) -> Outgoing {
        let sender = &self.sender;
        let data_bytes = sender.buffer.end().earlier_of(sent.end).beyond(sent.start);
        let payload_bytes = data_bytes.min(self.full_bytes());
        let is_end = payload_bytes == data_bytes;
        let has_fin = is_end && sent.end.is_after(sender.buffer.end());
        let mut flags = Flags::ACK;
        flags.set(Flags::PSH, payload_bytes > 0 && is_end);
        flags.set(Flags::FIN, has_fin);
        Outgoing { purpose: Purpose::Again(index), sequence: sent.start, payload_bytes, flags, is_tail_probe: false }
    }

    /// RFC 8985 section 7.3: new data where there is some, else the last segment.
    #[inline]
    fn tail_probe(&self) -> Option<Outgoing> {
        if self.sender.is_probe_due { self.probe_of_tail() } else { None }
    }

    #[cold]
    fn probe_of_tail(&self) -> Option<Outgoing> {
        let sender = &self.sender;
        //= RFC 8985 7.3 MUST: a probe of the tail is sent whatever the congestion window
        let new = self.new_segment(true).filter(|new| new.payload_bytes > 0);
        let again = || {
            let last = sender.scoreboard.last()?;
            Some(self.again(sender.scoreboard.len() - 1, last))
        };
        new.or_else(again).map(|outgoing| Outgoing { is_tail_probe: true, ..outgoing })
    }

    /// New data, or the FIN.
    #[inline]
    pub(crate) fn new_data(&self) -> Option<Outgoing> {
        let outgoing = self.new_segment(self.sender.is_forced)?;
        let pipe_bytes = self.sender.pipe_bytes();
        let has_room = pipe_bytes.saturating_add(outgoing.payload_bytes) <= self.sender.congestion.window_bytes;
        // The FIN does not wait for the congestion window (`tcp_cwnd_test`).
        (has_room || pipe_bytes == 0 || outgoing.flags.contains(Flags::FIN)).then_some(outgoing)
    }

    /// The next segment of new data as far as the far end's window and Nagle's rule allow. `is_forced`: a piece is good enough.
    #[inline]
    fn new_segment(&self, is_forced: bool) -> Option<Outgoing> {
        let sender = &self.sender;
        let unsent_bytes = sender.unsent_bytes();
        let wants_fin = sender.fin == Fin::Wanted;
        if unsent_bytes == 0 && !wants_fin {
            return None;
        }
        let full_bytes = self.full_bytes();
        let mut payload_bytes = unsent_bytes.min(full_bytes);
        let open_bytes = sender.window_end().beyond(sender.next);
        let is_last = payload_bytes == unsent_bytes;
        if payload_bytes > open_bytes {
            //= RFC 9293 3.8.6.2.1 MUST: a segment that the window has no room for is not sent in pieces
            if !is_forced || open_bytes == 0 {
                return None;
            }
            payload_bytes = open_bytes;
        }
        let is_end = is_last && payload_bytes == unsent_bytes;
        let has_fin = wants_fin && is_end && open_bytes > payload_bytes;
        if payload_bytes == 0 && !has_fin {
            return None;
        }
        if payload_bytes < full_bytes && !is_forced && !wants_fin && !self.may_send_piece() {
            return None;
        }
        let mut flags = Flags::ACK;
        //= RFC 9293 3.9.1.2 MUST: the last segment of what was written has PSH
        flags.set(Flags::PSH, payload_bytes > 0 && is_end);
        flags.set(Flags::FIN, has_fin);
        Some(Outgoing { purpose: Purpose::New, sequence: sender.next, payload_bytes, flags, is_tail_probe: false })
    }

    /// Nagle's rule as Minshall changed it (`tcp_nagle_check`): one piece may be out.
    //= RFC 9293 3.7.4 MUST: a piece waits for an acknowledgement, and a program can switch that off
    #[inline]
    fn may_send_piece(&self) -> bool {
        let sender = &self.sender;
        let has_piece_out = sender.small_end.is_after(sender.unacknowledged);
        !(self.options.cork || self.has_more) && (self.options.no_delay || !has_piece_out)
    }

    /// A segment is on its way. All but resets have an acknowledgement.
    pub(crate) fn sent(&mut self, outgoing: &Outgoing, now_ns: u64) {
        match outgoing.purpose {
            Purpose::Reset => {
                self.is_reset_due = false;
                return;
            }
            Purpose::Again(index) => self.sender.sent_again(index, outgoing, now_ns),
            Purpose::New => {
                let full_bytes = self.full_bytes();
                self.sender.sent_new(outgoing, full_bytes, now_ns);
                if outgoing.payload_bytes > 0 {
                    self.receiver.data_sent(now_ns);
                    self.sender.has_reduced = false;
                }
            }
            Purpose::Probe => self.sender.is_window_probe_due = false,
            Purpose::Acknowledge => {}
        }
        if outgoing.is_tail_probe {
            self.sender.sent_probe(outgoing);
        }
        self.receiver.acknowledgement_sent();
    }
}

impl Sender {
    fn sent_again(&mut self, index: usize, outgoing: &Outgoing, now_ns: u64) {
        let len = outgoing.payload_bytes + u32::from(outgoing.flags.contains(Flags::FIN));
        self.scoreboard.retransmitted(index, len, now_ns);
        self.recovery.sent(len);
        self.retransmitted_segments += 1;
        self.last_sent_ns = now_ns;
        if self.retransmit_ns == NEVER {
            self.arm_retransmit(now_ns);
        }
    }

    #[inline]
    fn sent_new(&mut self, outgoing: &Outgoing, full_bytes: u32, now_ns: u64) {
        let has_fin = outgoing.flags.contains(Flags::FIN);
        let end = outgoing.sequence + outgoing.payload_bytes + u32::from(has_fin);
        self.scoreboard.push(Sent {
            start: outgoing.sequence,
            end,
            sent_ns: now_ns,
            fate: Fate::InFlight,
            is_retransmitted: false,
        });
        self.next = end;
        self.recovery.sent(outgoing.payload_bytes);
        if has_fin {
            self.fin = Fin::Sent;
        }
        if outgoing.payload_bytes < full_bytes && outgoing.payload_bytes > 0 {
            self.small_end = end;
        }
        self.is_forced = false;
        self.last_sent_ns = now_ns;
        self.stall(now_ns);
        //= RFC 6298 5.1 MUST: a segment with data starts the timer, unless it runs
        if self.retransmit_ns == NEVER {
            self.arm_retransmit(now_ns);
        }
        if !outgoing.is_tail_probe {
            self.schedule_probe(now_ns);
        }
    }

    fn sent_probe(&mut self, outgoing: &Outgoing) {
        let is_retransmission = matches!(outgoing.purpose, Purpose::Again(_));
        self.is_probe_due = false;
        self.probe_ns = NEVER;
        //= RFC 8985 7.3 MUST: there is one probe of a tail at most
        self.tail_probe = Some(TailProbe { end: self.next, is_retransmission });
    }
}

//! The receiving half of a connection: the window that is told, and when an acknowledgement is sent.
//!
//! Linux's rules (`net/ipv4/tcp_input.c`, `tcp_event_data_recv`, `__tcp_ack_snd_check`; `net/ipv4/tcp_output.c`,
//! `__tcp_select_window`, `tcp_send_delayed_ack`), in nanoseconds where it has ticks.

use nearwire_wire::tcp::options::Block;

use super::ranges::Range;
use super::receive_buffer::ReceiveBuffer;
use super::sender::NEVER;
use super::sequence::Sequence;

/// `TCP_DELACK_MIN`, and what `ato` starts with (`TCP_ATO_MIN`).
const DELAY_LEAST_NS: u64 = 40_000_000;
/// `TCP_DELACK_MAX`.
//= RFC 9293 3.8.6.3 MUST: an acknowledgement is delayed by less than half a second
const DELAY_MOST_NS: u64 = 200_000_000;
/// `TCP_MAX_QUICKACKS`.
const QUICK_MOST: u32 = 16;
/// `TCP_MSS_DEFAULT`: what the segments of the far end are taken for before one came.
const SEGMENT_DEFAULT_BYTES: u32 = 536;

/// What a connection takes before it has received anything (`net.ipv4.tcp_rmem`, half of it): a far end that sends nothing must not cost
/// the memory of a large window, of which one early byte at its end would be enough.
const WINDOW_FIRST_BYTES: u32 = 65_536;

/// When acknowledgements are sent.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// Acknowledgements that are sent at once, before delays begin.
    quick: u32,
    /// The program answers what it receives: an acknowledgement travels with the answer.
    is_interactive: bool,
    /// Linux's `ato`: how long the next one may wait; 0: nothing was received yet.
    wait_ns: u64,
    last_received_ns: u64,
    /// Something was received that is not acknowledged.
    is_scheduled: bool,
    deadline_ns: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) buffer: ReceiveBuffer,
    /// RCV.WND as it was told last, bytes from `told_at` on.
    told_bytes: u32,
    /// `rcv_wup`: RCV.NXT when the window was told, which is the last acknowledgement that was sent.
    told_at: Sequence,
    pub(crate) window_shift: u8,
    limit_bytes: u32,
    /// What of that is offered so far: it grows with what comes (`tcp_grow_window`).
    offered_bytes: u32,
    /// The largest segment seen of late, or what one is taken for.
    segment_bytes: u32,
    delay: Delay,
    /// An acknowledgement is to be sent whatever else is.
    pub(crate) is_due: bool,
    /// What came twice, to be told in the next acknowledgement (RFC 2883).
    pub(crate) duplicate: Option<Range>,
    /// RCV.NXT is beyond the far end's FIN.
    pub(crate) has_ended: bool,
    /// Where the FIN is, once one was seen that came too early.
    pub(crate) fin_at: Option<Sequence>,
}

impl Receiver {
    /// `limit_bytes`: what may wait. A larger window that an earlier owner told holds still.
    pub(crate) fn new(first_unread: Sequence, told: (Sequence, u32), window_shift: u8, limit_bytes: u32) -> Receiver {
        let (told_at, told_bytes) = told;
        let delay = Delay {
            quick: 0,
            is_interactive: false,
            wait_ns: 0,
            last_received_ns: 0,
            is_scheduled: false,
            deadline_ns: NEVER,
        };
        Receiver {
            buffer: ReceiveBuffer::new(first_unread),
            told_bytes,
            told_at,
            window_shift,
            limit_bytes,
            offered_bytes: told_bytes.max(WINDOW_FIRST_BYTES),
            segment_bytes: SEGMENT_DEFAULT_BYTES,
            delay,
            is_due: false,
            duplicate: None,
            has_ended: false,
            fin_at: None,
        }
    }

    /// RCV.NXT.
    #[inline]
    pub(crate) const fn next(&self) -> Sequence {
        self.buffer.next()
    }

    /// `rcv_wup`.
    #[inline]
    pub(crate) const fn told_at(&self) -> Sequence {
        self.told_at
    }

    pub(crate) const fn told_bytes(&self) -> u32 {
        self.told_bytes
    }

    #[inline]
    pub(crate) fn right_edge(&self) -> Sequence {
        self.told_at + self.told_bytes
    }

    /// What the far end may send as far as it knows, bytes (`tcp_receive_window`).
    #[inline]
    pub(crate) fn open_bytes(&self) -> u32 {
        self.right_edge().beyond(self.next())
    }

    pub(crate) fn set_limit(&mut self, limit_bytes: u32) {
        self.limit_bytes = limit_bytes;
    }

    /// The window to tell now.
    pub(crate) fn window_bytes(&self) -> u32 {
        let open_bytes = self.open_bytes();
        let unit_bytes = 1_u32 << self.window_shift;
        //= RFC 9293 3.8.6.2.2 MUST: a receiver's window does not shrink
        let kept_bytes = open_bytes.next_multiple_of(unit_bytes);
        let most_bytes = u32::from(u16::MAX) << self.window_shift;
        self.free_bytes(open_bytes).max(kept_bytes).min(most_bytes)
    }

    /// What there is room for, in steps that are worth telling (`__tcp_select_window`).
    fn free_bytes(&self, open_bytes: u32) -> u32 {
        let limit_bytes = self.limit_bytes.min(self.offered_bytes);
        let free_bytes = limit_bytes.saturating_sub(self.buffer.readable_bytes());
        let segment_bytes = self.segment_bytes.min(limit_bytes);
        //= RFC 9293 3.8.6.2.2 MUST: no window is offered that is smaller than a segment, or a part of the buffer
        if free_bytes < limit_bytes / 2 && (free_bytes < limit_bytes / 16 || free_bytes < segment_bytes) {
            return 0;
        }
        if self.window_shift > 0 {
            return free_bytes >> self.window_shift << self.window_shift;
        }
        let is_worth_it = open_bytes.saturating_add(segment_bytes) <= free_bytes || open_bytes > free_bytes;
        if is_worth_it { free_bytes / segment_bytes.max(1) * segment_bytes } else { open_bytes }
    }

    /// The window field of the segment that is sent now, and what follows from its being sent.
    pub(crate) fn tell(&mut self) -> u16 {
        let window_bytes = self.window_bytes();
        (self.told_at, self.told_bytes) = (self.next(), window_bytes);
        (window_bytes >> self.window_shift).min(u16::MAX.into()) as u16
    }

    /// The window field as it would be sent now.
    pub(crate) fn window_field(&self) -> u16 {
        (self.window_bytes() >> self.window_shift).min(u16::MAX.into()) as u16
    }

    /// Data came in order (`tcp_event_data_recv`). `segment_most_bytes`: what is longer was joined, or is not cut yet. `timeout_ns`: the retransmission
    /// timeout.
    pub(crate) fn received(&mut self, payload_bytes: u32, segment_most_bytes: u32, timeout_ns: u64, now_ns: u64) {
        let segment_bytes = payload_bytes.min(segment_most_bytes);
        if segment_bytes >= self.segment_bytes || segment_bytes > SEGMENT_DEFAULT_BYTES / 2 {
            self.segment_bytes = segment_bytes.clamp(SEGMENT_DEFAULT_BYTES / 4, u16::MAX.into());
        }
        self.offered_bytes =
            self.offered_bytes.saturating_add(2 * payload_bytes).min(self.limit_bytes.max(self.offered_bytes));
        let quick = self.quick_count();
        let delay = &mut self.delay;
        delay.is_scheduled = true;
        let gap_ns = now_ns.saturating_sub(delay.last_received_ns);
        if delay.wait_ns == 0 {
            delay.quick = delay.quick.max(quick);
            delay.wait_ns = DELAY_LEAST_NS;
        } else if gap_ns <= DELAY_LEAST_NS / 2 {
            delay.wait_ns = delay.wait_ns / 2 + DELAY_LEAST_NS / 2;
        } else if gap_ns < delay.wait_ns {
            delay.wait_ns = (delay.wait_ns / 2 + gap_ns).min(timeout_ns);
        } else if gap_ns > timeout_ns {
            // A pause that long: the far end may be in slow start again and need every acknowledgement.
            delay.quick = delay.quick.max(quick);
        }
        delay.last_received_ns = now_ns;
    }

    /// `tcp_incr_quickack`: as many as acknowledge half the window.
    fn quick_count(&self) -> u32 {
        (self.told_bytes / (2 * self.segment_bytes)).clamp(2, QUICK_MOST)
    }

    /// The next acknowledgements are not delayed: something is wrong with the order.
    pub(crate) fn quicken(&mut self) {
        self.delay.quick = self.delay.quick.max(self.quick_count());
        self.delay.is_interactive = false;
        self.delay.wait_ns = DELAY_LEAST_NS;
    }

    /// Whether an acknowledgement goes now or waits, after a segment with data (`__tcp_ack_snd_check`).
    pub(crate) fn decide(&mut self, is_out_of_order: bool, smoothed_ns: Option<u64>, now_ns: u64) {
        let unacknowledged_bytes = self.next() - self.told_at;
        //= RFC 9293 3.8.6.3 MUST: at least every second full segment is acknowledged at once
        let is_second = unacknowledged_bytes > self.segment_bytes;
        let is_quick = self.delay.quick > 0 && !self.delay.is_interactive;
        //= RFC 5681 4.2 MUST: a segment out of order, or one that fills a hole, is acknowledged at once
        if is_second || is_quick || is_out_of_order {
            self.is_due = true;
        } else if self.delay.is_scheduled {
            self.delay_acknowledgement(smoothed_ns, now_ns);
        }
    }

    /// `tcp_send_delayed_ack`.
    fn delay_acknowledgement(&mut self, smoothed_ns: Option<u64>, now_ns: u64) {
        let delay = &mut self.delay;
        let mut wait_ns = delay.wait_ns.max(DELAY_LEAST_NS);
        if wait_ns > DELAY_LEAST_NS {
            let most_ns = smoothed_ns.map_or(DELAY_MOST_NS, |rtt_ns| rtt_ns.clamp(DELAY_LEAST_NS, DELAY_MOST_NS));
            wait_ns = wait_ns.min(most_ns);
        }
        if delay.deadline_ns <= now_ns.saturating_add(wait_ns / 4) {
            self.is_due = true;
            return;
        }
        delay.deadline_ns = delay.deadline_ns.min(now_ns.saturating_add(wait_ns));
    }

    #[inline]
    pub(crate) const fn deadline_ns(&self) -> u64 {
        self.delay.deadline_ns
    }

    /// The acknowledgement has waited long enough (`tcp_delack_timer_handler`).
    pub(crate) fn delay_over(&mut self, timeout_ns: u64) {
        let delay = &mut self.delay;
        delay.deadline_ns = NEVER;
        if !delay.is_scheduled {
            return;
        }
        if delay.is_interactive {
            delay.is_interactive = false;
            delay.wait_ns = DELAY_LEAST_NS;
        } else {
            delay.wait_ns = (delay.wait_ns << 1).min(timeout_ns);
        }
        self.is_due = true;
    }

    /// A segment with an acknowledgement was sent (`tcp_event_ack_sent`).
    #[inline]
    pub(crate) fn acknowledgement_sent(&mut self) {
        self.is_due = false;
        self.duplicate = None;
        let delay = &mut self.delay;
        if delay.is_scheduled {
            delay.quick = delay.quick.saturating_sub(1);
            if delay.quick == 0 {
                delay.wait_ns = delay.wait_ns.min(DELAY_LEAST_NS);
            }
        }
        delay.is_scheduled = false;
        delay.deadline_ns = NEVER;
    }

    /// Data was sent soon after some was received: the connection is one of questions and answers (`tcp_event_data_sent`).
    #[inline]
    pub(crate) const fn data_sent(&mut self, now_ns: u64) {
        let delay = &mut self.delay;
        if delay.last_received_ns != 0 && now_ns.saturating_sub(delay.last_received_ns) < delay.wait_ns {
            delay.is_interactive = true;
        }
    }

    /// The program has read: whether the far end is to be notified of the room (`tcp_cleanup_rbuf`).
    pub(crate) fn has_read(&mut self) {
        let is_read_empty = self.buffer.readable_bytes() == 0;
        let unacknowledged_bytes = self.next() - self.told_at;
        let waits = self.delay.is_scheduled
            && (unacknowledged_bytes > self.segment_bytes
                || (is_read_empty && !self.delay.is_interactive && self.delay.quick > 0));
        let open_bytes = self.open_bytes();
        let grows = !self.has_ended && open_bytes <= self.limit_bytes.min(self.offered_bytes) / 2 && {
            let window_bytes = self.window_bytes();
            window_bytes > 0 && window_bytes >= 2 * open_bytes
        };
        self.is_due |= waits || grows;
    }

    /// TCP_QUICKACK.
    pub(crate) fn set_quick(&mut self, is_quick: bool) {
        self.delay.is_interactive = !is_quick;
        if is_quick && self.delay.is_scheduled {
            self.is_due = true;
        }
    }

    /// Blocks of the next acknowledgement, at most `most`: what came twice, then what is here beyond holes.
    pub(crate) fn blocks(&self, most: usize, blocks: &mut [Block; 4]) -> usize {
        //= RFC 2883 4 MUST: what came twice is the first block, and told once
        let Some(duplicate) = self.duplicate else { return self.buffer.early.blocks(most, blocks) };
        let mut others = [Block::default(); 4];
        let count = self.buffer.early.blocks(most.saturating_sub(1), &mut others);
        blocks[0] = duplicate.block();
        blocks[1..].copy_from_slice(&others[..3]);
        1 + count
    }

    pub(crate) fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.buffer.early.is_empty()
    }
}

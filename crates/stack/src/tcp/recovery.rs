//! What a sender does after a loss: how long a recovery goes on, and how much may be sent meanwhile: proportional rate reduction
//! (RFC 6937).

use super::sequence::Sequence;

/// The state of a sender as to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is wrong, or some segments came out of order (Linux: Open, Disorder).
    Open,
    /// A router marked a packet: the window goes down without a loss (RFC 3168).
    Marked,
    /// Segments were lost, and acknowledgements still come (RFC 5681 section 3.2).
    Recovery,
    /// The retransmission timeout expired.
    Loss,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// RecoveryPoint: what was sent when the phase began is acknowledged from here on.
    pub(crate) point: Sequence,
    /// RecoverFS: bytes out when it began.
    start_bytes: u32,
    delivered_bytes: u32,
    /// prr_out.
    sent_bytes: u32,
}

impl Recovery {
    pub(crate) const fn new(unacknowledged: Sequence) -> Recovery {
        Recovery {
            phase: Phase::Open,
            point: unacknowledged.minus(1),
            start_bytes: 0,
            delivered_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// Whether the window goes down in proportion to what is delivered.
    pub(crate) const fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Marked)
    }

    /// The phase begins: `point` is SND.NXT, `out_bytes` is what was sent and not acknowledged.
    pub(crate) fn begin(&mut self, phase: Phase, point: Sequence, out_bytes: u32) {
        let goes_on = self.is_reducing() && phase == Phase::Recovery;
        self.phase = phase;
        self.point = point;
        if !goes_on {
            (self.start_bytes, self.delivered_bytes, self.sent_bytes) = (out_bytes.max(1), 0, 0);
        }
    }

    #[inline]
    pub(crate) const fn sent(&mut self, bytes: u32) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// The window after an acknowledgement that delivered so much (RFC 6937 section 3, PRR-SSRB).
    //= RFC 6937 3 MUST: while more is on its way than the threshold, what is sent is in proportion to what is delivered
    //= RFC 6937 3 MUST: below the threshold no more is sent than was delivered, and one segment
    pub(crate) fn window_bytes(
        &mut self,
        delivered_bytes: u32,
        pipe_bytes: u32,
        threshold_bytes: u32,
        segment_bytes: u32,
    ) -> u32 {
        self.delivered_bytes = self.delivered_bytes.saturating_add(delivered_bytes);
        let is_first = self.sent_bytes == 0;
        let more_bytes = if pipe_bytes > threshold_bytes {
            let share_bytes =
                u64::from(self.delivered_bytes) * u64::from(threshold_bytes) / u64::from(self.start_bytes);
            // Whole segments, as they are sent: a part of one that is due is not saved up.
            let due_bytes = share_bytes.next_multiple_of(segment_bytes.max(1).into());
            due_bytes.saturating_sub(self.sent_bytes.into()).min(u32::MAX.into()) as u32
        } else {
            let owed_bytes = self.delivered_bytes.saturating_sub(self.sent_bytes);
            let limit_bytes = owed_bytes.max(delivered_bytes).saturating_add(segment_bytes);
            limit_bytes.min(threshold_bytes - pipe_bytes)
        };
        // The first retransmission is not held back.
        let least_bytes = if is_first && self.phase == Phase::Recovery { segment_bytes } else { 0 };
        pipe_bytes.saturating_add(more_bytes.max(least_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty segments out, the first lost, one delivered by each acknowledgement: what may be sent after each, segments.
    fn sends(threshold: u32) -> Vec<u32> {
        let mut recovery = Recovery::new(Sequence(0));
        recovery.begin(Phase::Recovery, Sequence(20_000), 20_000);
        let mut pipe_bytes = 19_000;
        let mut sends = Vec::new();
        for _ in 0..19 {
            pipe_bytes -= 1000;
            let window_bytes = recovery.window_bytes(1000, pipe_bytes, threshold * 1000, 1000);
            let count = (window_bytes - pipe_bytes) / 1000;
            recovery.sent(count * 1000);
            pipe_bytes += count * 1000;
            sends.push(count);
        }
        sends
    }

    //= test RFC 6937 3
    #[test]
    fn half_of_what_is_delivered_is_sent() {
        let sends = sends(10);
        assert_eq!(sends[0], 1, "the retransmission goes at once");
        let total: u32 = sends.iter().sum();
        assert!((9..=11).contains(&total) && sends.iter().all(|count| *count <= 1), "{sends:?}");
    }

    //= test RFC 6937 3
    #[test]
    fn below_the_threshold_no_more_than_delivered_and_one_is_sent() {
        let mut recovery = Recovery::new(Sequence(0));
        recovery.begin(Phase::Recovery, Sequence(20_000), 20_000);
        assert_eq!(recovery.window_bytes(1000, 2000, 10_000, 1000), 2000 + 2000);
        recovery.sent(2000);
        assert_eq!(recovery.window_bytes(1000, 9500, 10_000, 1000), 10_000);
    }
}

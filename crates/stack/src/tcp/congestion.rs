//! Congestion control: how many bytes may be on their way (RFC 5681), by NewReno or CUBIC.

mod cubic;

use cubic::Cubic;

/// How a connection answers to congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 9438, the default of Linux.
    #[default]
    Cubic,
    /// RFC 5681 and RFC 6582.
    NewReno,
}

/// Segments of the initial window (RFC 6928 section 2).
pub(crate) const INITIAL_SEGMENTS: u32 = 10;

#[derive(Clone, Copy, Debug)]
enum State {
    Cubic(Cubic),
    NewReno {
        /// Bytes acknowledged since the window was last made larger.
        acknowledged_bytes: u32,
    },
}

/// The congestion window of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    state: State,
    /// cwnd.
    pub(crate) window_bytes: u32,
    /// ssthresh.
    pub(crate) threshold_bytes: u32,
    segment_bytes: u32,
}

/// What was acknowledged, for the window to grow by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) bytes: u32,
    /// Bytes that were on their way before.
    pub(crate) in_flight_bytes: u32,
    pub(crate) now_ns: u64,
    pub(crate) smoothed_ns: u64,
}

impl Congestion {
    pub(crate) fn new(control: CongestionControl, segment_bytes: u32) -> Congestion {
        let state = match control {
            CongestionControl::Cubic => State::Cubic(Cubic::default()),
            CongestionControl::NewReno => State::NewReno { acknowledged_bytes: 0 },
        };
        let window_bytes = INITIAL_SEGMENTS.saturating_mul(segment_bytes);
        Congestion { state, window_bytes, threshold_bytes: u32::MAX, segment_bytes }
    }

    /// The path carries other segments than before.
    pub(crate) const fn set_segment_bytes(&mut self, segment_bytes: u32) {
        self.segment_bytes = segment_bytes;
    }

    pub(crate) const fn is_slow_start(&self) -> bool {
        self.window_bytes < self.threshold_bytes
    }

    const fn least_bytes(&self) -> u32 {
        2 * self.segment_bytes
    }

    /// New data was acknowledged, without congestion. A window that was not used does not grow (`tcp_is_cwnd_limited`).
    #[inline]
    pub(crate) fn acknowledged(&mut self, progress: Progress) {
        let Progress { mut bytes, in_flight_bytes, .. } = progress;
        if self.is_slow_start() {
            if self.window_bytes >= in_flight_bytes.saturating_mul(2) {
                return;
            }
            //= RFC 5681 3.1 MUST: in slow start the window grows by no more than what was acknowledged
            let grown_bytes = self.window_bytes.saturating_add(bytes).min(self.threshold_bytes);
            bytes -= grown_bytes - self.window_bytes;
            self.window_bytes = grown_bytes;
        }
        if bytes == 0 || in_flight_bytes.saturating_add(self.segment_bytes) <= self.window_bytes {
            return;
        }
        match &mut self.state {
            State::Cubic(cubic) => {
                let progress = Progress { bytes, ..progress };
                self.window_bytes = cubic.grown_bytes(self.window_bytes, self.segment_bytes, progress);
            }
            State::NewReno { acknowledged_bytes } => {
                *acknowledged_bytes = acknowledged_bytes.saturating_add(bytes);
                //= RFC 5681 3.1 MUST: in congestion avoidance the window grows by one segment in a round trip
                if *acknowledged_bytes >= self.window_bytes {
                    *acknowledged_bytes -= self.window_bytes;
                    self.window_bytes = self.window_bytes.saturating_add(self.segment_bytes);
                }
            }
        }
    }

    /// Congestion: the threshold that the window goes down to. `in_flight_bytes`: sent and not acknowledged.
    pub(crate) fn reduced(&mut self, in_flight_bytes: u32) {
        let threshold_bytes = match &mut self.state {
            State::Cubic(cubic) => cubic.reduced_bytes(self.window_bytes, self.segment_bytes),
            //= RFC 5681 3.1 MUST: the threshold becomes half of what is on its way, and two segments at least
            State::NewReno { acknowledged_bytes } => {
                *acknowledged_bytes = 0;
                in_flight_bytes.min(self.window_bytes) / 2
            }
        };
        self.threshold_bytes = threshold_bytes.max(self.least_bytes());
    }

    /// Nothing was sent for `idle_ns`: what is known of the path fades, by half in every timeout (RFC 5681 section 4.1;
    /// `tcp_cwnd_restart`).
    pub(crate) fn idle(&mut self, idle_ns: u64, timeout_ns: u64) {
        let restart_bytes = (INITIAL_SEGMENTS * self.segment_bytes).min(self.window_bytes);
        self.threshold_bytes = self.threshold_bytes.max(self.window_bytes / 4 * 3);
        let halvings = (idle_ns / timeout_ns.max(1)).min(31) as u32;
        self.window_bytes = (self.window_bytes >> halvings).max(restart_bytes);
        if let State::Cubic(cubic) = &mut self.state {
            cubic.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;

    fn round(congestion: &mut Congestion, now_ns: u64) {
        let in_flight_bytes = congestion.window_bytes;
        for _ in 0..in_flight_bytes / SEGMENT {
            congestion.acknowledged(Progress { bytes: SEGMENT, in_flight_bytes, now_ns, smoothed_ns: 10_000_000 });
        }
    }

    //= test RFC 5681 3.1
    //= test RFC 5681 3.1
    //= test RFC 5681 3.1
    #[test]
    fn new_reno_doubles_then_adds_a_segment_and_halves_on_congestion() {
        let mut congestion = Congestion::new(CongestionControl::NewReno, SEGMENT);
        assert_eq!(congestion.window_bytes, 10_000);
        round(&mut congestion, 0);
        round(&mut congestion, 0);
        assert_eq!(congestion.window_bytes, 40_000);
        congestion.reduced(40_000);
        congestion.window_bytes = congestion.threshold_bytes;
        assert_eq!(congestion.window_bytes, 20_000);
        round(&mut congestion, 0);
        assert_eq!(congestion.window_bytes, 21_000);
        congestion.reduced(1000);
        assert_eq!(congestion.threshold_bytes, 2000);
    }

    #[test]
    fn window_that_is_not_used_does_not_grow() {
        for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
            let mut congestion = Congestion::new(control, SEGMENT);
            congestion.acknowledged(Progress { bytes: 1000, in_flight_bytes: 1000, now_ns: 0, smoothed_ns: 1 });
            assert_eq!(congestion.window_bytes, 10_000);
        }
    }

    #[test]
    fn idle_window_fades_to_the_initial_one() {
        let mut congestion = Congestion::new(CongestionControl::Cubic, SEGMENT);
        congestion.window_bytes = 100_000;
        congestion.threshold_bytes = 50_000;
        congestion.idle(250, 100);
        assert_eq!((congestion.window_bytes, congestion.threshold_bytes), (25_000, 75_000));
        congestion.idle(100_000, 100);
        assert_eq!(congestion.window_bytes, 10_000);
    }
}

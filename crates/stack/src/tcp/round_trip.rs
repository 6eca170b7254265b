//! The round trip time and the retransmission timeout (RFC 6298).

/// Before anything was measured.
//= RFC 6298 2.1 MUST: until a round trip was measured the timeout is one second
pub(crate) const TIMEOUT_FIRST_NS: u64 = 1_000_000_000;
/// `TCP_RTO_MAX` of Linux.
pub(crate) const TIMEOUT_MOST_NS: u64 = 120_000_000_000;
/// How long the least round trip counts (`net.ipv4.tcp_min_rtt_wlen`).
const LEAST_FOR_NS: u64 = 300_000_000_000;
/// A probe of the tail waits for no more than 2^6 times as long as at first: 64 ms where round trips are short.
const PATIENCE_MOST: u8 = 6;
/// After so many acknowledgements the wait is half as long.
const WAIT_HALVED_AFTER: u16 = 512;
/// 2^7 times a second is more than [`TIMEOUT_MOST_NS`].
const DOUBLINGS_MOST: u32 = 20;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    /// SRTT; 0: nothing was measured.
    smoothed_ns: u64,
    /// RTTVAR.
    variation_ns: u64,
    least_ns: u64,
    least_at_ns: u64,
    /// How often the timeout was doubled.
    doublings: u32,
    /// The least that is added to the smoothed time.
    floor_ns: u64,
    /// How often the wait for a probe of the tail is doubled.
    patience: u8,
    /// Acknowledgements since that last changed.
    acknowledged: u16,
}

impl RoundTrip {
    /// `known`: smoothed and variation, ns, as an earlier owner of the connection measured them.
    pub(crate) fn new(floor_ns: u64, known: Option<(u64, u64)>) -> RoundTrip {
        let (smoothed_ns, variation_ns) = known.unwrap_or_default();
        RoundTrip { floor_ns, smoothed_ns, variation_ns, least_ns: u64::MAX, ..RoundTrip::default() }
    }

    pub(crate) const fn set_floor(&mut self, floor_ns: u64) {
        self.floor_ns = floor_ns;
    }

    /// A segment that was sent once took so long to be acknowledged.
    ///
    //= RFC 6298 2.2 MUST: the first measurement R gives SRTT = R and RTTVAR = R/2
    //= RFC 6298 2.3 MUST: a later one moves RTTVAR by a quarter of the distance from SRTT, then SRTT by an eighth
    pub(crate) fn measured(&mut self, sample_ns: u64, now_ns: u64) {
        let sample_ns = sample_ns.max(1);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = sample_ns;
            self.variation_ns = sample_ns / 2;
        } else {
            let distance_ns = self.smoothed_ns.abs_diff(sample_ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + distance_ns / 4;
            self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + sample_ns / 8;
        }
        // Karn's second half: a timeout that was doubled stays so until something was measured (RFC 6298 section 5).
        self.doublings = 0;
        self.least(sample_ns, now_ns);
    }

    /// Something was delivered so quickly. Not smoothed.
    pub(crate) fn least(&mut self, sample_ns: u64, now_ns: u64) {
        if sample_ns <= self.least_ns || now_ns.saturating_sub(self.least_at_ns) > LEAST_FOR_NS {
            self.least_ns = sample_ns.max(1);
            self.least_at_ns = now_ns;
        }
    }

    /// SRTT; `None`: nothing was measured.
    pub(crate) fn smoothed_ns(&self) -> Option<u64> {
        (self.smoothed_ns != 0).then_some(self.smoothed_ns)
    }

    pub(crate) const fn variation_ns(&self) -> u64 {
        self.variation_ns
    }

    /// The least of the last minutes; `None`: nothing was measured.
    pub(crate) fn least_ns(&self) -> Option<u64> {
        (self.least_ns != u64::MAX).then_some(self.least_ns)
    }

    /// The timeout without doublings. Four variations may be less than the floor, which is added to the smoothed time as Linux does
    /// (`tcp_rtt_estimator`, `mdev_max_us`), because the far end may delay its acknowledgement.
    pub(crate) fn base_ns(&self) -> u64 {
        match self.smoothed_ns {
            0 => TIMEOUT_FIRST_NS.max(self.floor_ns),
            smoothed_ns => (smoothed_ns + (4 * self.variation_ns).max(self.floor_ns)).min(TIMEOUT_MOST_NS),
        }
    }

    pub(crate) fn timeout_ns(&self) -> u64 {
        backed_off(self.base_ns(), self.doublings)
    }

    //= RFC 6298 5.5 MUST: a timeout that expires is doubled
    pub(crate) const fn double(&mut self) {
        if self.doublings < DOUBLINGS_MOST {
            self.doublings += 1;
        }
    }

    /// RFC 8985 section 7.2, TLP_calc_PTO: twice the round trip, and where only one segment is out, what the far end may delay its
    /// acknowledgement by. How long that is is seen in the variation, of which RFC 9002 section 6.2.1 takes as much; a fixed 200 ms would
    /// make every lost last segment wait as long.
    ///
    /// Nor does the variation tell of a far end whose program takes its time now and then, as what was probed gives no measurement: pgbench over
    /// a busy cable had 3 segments of 100 repeated for nothing. So a probe that was for nothing has the next wait twice as long.
    pub(crate) fn probe_after_ns(&self, is_single: bool, granularity_ns: u64) -> u64 {
        let after_ns = match self.smoothed_ns {
            0 => return TIMEOUT_FIRST_NS,
            smoothed_ns if is_single => (2 * smoothed_ns).max(smoothed_ns + 4 * self.variation_ns) + granularity_ns,
            smoothed_ns => (2 * smoothed_ns).max(granularity_ns),
        };
        after_ns.saturating_mul(1 << self.patience)
    }

    /// A probe of the tail was a copy of what had arrived, or repaired a loss.
    pub(crate) fn probed(&mut self, was_needed: bool) {
        self.patience = if was_needed { 0 } else { (self.patience + 1).min(PATIENCE_MOST) };
        self.acknowledged = 0;
    }

    /// New data was acknowledged.
    pub(crate) const fn acknowledged(&mut self) {
        if self.patience > 0 {
            self.acknowledged += 1;
            if self.acknowledged == WAIT_HALVED_AFTER {
                (self.patience, self.acknowledged) = (self.patience - 1, 0);
            }
        }
    }
}

/// An interval after so many doublings.
pub(crate) fn backed_off(base_ns: u64, doublings: u32) -> u64 {
    base_ns.saturating_mul(1 << doublings.min(DOUBLINGS_MOST)).min(TIMEOUT_MOST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    //= test RFC 6298 2.1
    //= test RFC 6298 2.2
    //= test RFC 6298 2.3
    #[test]
    fn timeout_follows_measurements() {
        let mut round_trip = RoundTrip::new(200 * MS, None);
        assert_eq!(round_trip.timeout_ns(), 1000 * MS);
        round_trip.measured(100 * MS, 0);
        assert_eq!((round_trip.smoothed_ns(), round_trip.variation_ns()), (Some(100 * MS), 50 * MS));
        assert_eq!(round_trip.timeout_ns(), 300 * MS);
        round_trip.measured(180 * MS, 0);
        assert_eq!((round_trip.smoothed_ns(), round_trip.variation_ns()), (Some(110 * MS), 57_500_000));
        assert_eq!(round_trip.timeout_ns(), 340 * MS);
        assert_eq!(round_trip.least_ns(), Some(100 * MS));
    }

    //= test RFC 6298 5.5
    #[test]
    fn timeout_expired_is_doubled_until_something_is_measured() {
        let mut round_trip = RoundTrip::new(200 * MS, Some((50 * MS, MS)));
        assert_eq!(round_trip.timeout_ns(), 250 * MS);
        round_trip.double();
        round_trip.double();
        assert_eq!(round_trip.timeout_ns(), 1000 * MS);
        (0..100).for_each(|_| round_trip.double());
        assert_eq!(round_trip.timeout_ns(), TIMEOUT_MOST_NS);
        round_trip.measured(50 * MS, 0);
        assert_eq!(round_trip.timeout_ns(), 250 * MS);
    }

    #[test]
    fn least_round_trip_is_forgotten_after_minutes() {
        let mut round_trip = RoundTrip::new(0, None);
        round_trip.measured(3, 0);
        round_trip.measured(9, LEAST_FOR_NS);
        assert_eq!(round_trip.least_ns(), Some(3));
        round_trip.measured(9, LEAST_FOR_NS + 1);
        assert_eq!(round_trip.least_ns(), Some(9));
    }
}

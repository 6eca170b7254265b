//! Timestamps, and protection against old segments by them (RFC 7323 sections 3 to 5).

use super::facts::TcpTimestamp;

/// After so long without a segment the far end's clock may have gone half around (RFC 7323 section 5.5).
const RECENT_FOR_NS: u64 = 24 * 24 * 3600 * 1_000_000_000;

/// So much older than the latest a timestamp may be, as with Linux (`TCP_PAWS_WINDOW` of include/net/tcp.h): a connection that changes its owner may
/// have a clock that is one behind for the rest of a tick.
const OLDER_MOST: i32 = 1;

/// The clocks of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    /// What this end's clock shows at `base_ns`.
    base: u32,
    base_ns: u64,
    unit_ns: u64,
    /// TS.Recent.
    pub(crate) recent: Option<u32>,
    recent_ns: u64,
}

impl Timestamps {
    pub(crate) const fn new(told: TcpTimestamp, now_ns: u64) -> Timestamps {
        let unit_ns = if told.is_in_microseconds { 1000 } else { 1_000_000 };
        Timestamps { base: told.value, base_ns: now_ns, unit_ns, recent: told.recent, recent_ns: now_ns }
    }

    pub(crate) const fn tell(&self, now_ns: u64) -> TcpTimestamp {
        TcpTimestamp { value: self.value(now_ns), is_in_microseconds: self.unit_ns == 1000, recent: self.recent }
    }

    /// TSval.
    #[inline]
    pub(crate) const fn value(&self, now_ns: u64) -> u32 {
        self.base.wrapping_add((now_ns.saturating_sub(self.base_ns) / self.unit_ns) as u32)
    }

    /// Whether a segment is an old one.
    #[inline]
    pub(crate) fn is_old(&self, value: u32, now_ns: u64) -> bool {
        let is_before = self.recent.is_some_and(|recent| value.wrapping_sub(recent).cast_signed() < -OLDER_MOST);
        //= RFC 7323 5.5 MUST: a timestamp of 24 days ago does not refuse segments
        is_before && now_ns.saturating_sub(self.recent_ns) < RECENT_FOR_NS
    }

    /// A segment that is not old came, and begins no later than what was acknowledged last.
    #[inline]
    pub(crate) const fn take(&mut self, value: u32, now_ns: u64) {
        match self.recent {
            Some(recent) if recent.wrapping_sub(value) == OLDER_MOST as u32 => {}
            _ => (self.recent, self.recent_ns) = (Some(value), now_ns),
        }
    }

    /// How long ago a timestamp of this end was sent, ns; `None`: it is none of ours. At least one unit: clocks are coarse.
    #[inline]
    pub(crate) fn age_ns(&self, echo: u32, now_ns: u64) -> Option<u64> {
        let units = self.value(now_ns).wrapping_sub(echo);
        (echo != 0 && units.cast_signed() >= 0).then(|| u64::from(units.max(1)) * self.unit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn timestamps(value: u32, recent: u32) -> Timestamps {
        Timestamps::new(TcpTimestamp { value, is_in_microseconds: false, recent: Some(recent) }, 0)
    }

    //= test RFC 7323 5.5
    #[test]
    fn timestamp_of_long_ago_does_not_refuse() {
        let timestamps = timestamps(0, 1000);
        assert!(timestamps.is_old(998, RECENT_FOR_NS - 1) && !timestamps.is_old(1000, 0));
        assert!(!timestamps.is_old(998, RECENT_FOR_NS));
    }

    #[test]
    fn timestamp_that_is_one_behind_is_taken_and_not_remembered() {
        let mut timestamps = timestamps(0, 1000);
        assert!(!timestamps.is_old(999, MS));
        timestamps.take(999, MS);
        assert_eq!(timestamps.recent, Some(1000));
        assert!(timestamps.is_old(998, MS));
    }

    #[test]
    fn clock_that_wraps_goes_on() {
        let timestamps = timestamps(u32::MAX, u32::MAX);
        assert_eq!((timestamps.value(MS), timestamps.value(3 * MS)), (0, 2));
        assert!(!timestamps.is_old(1, 0));
        assert_eq!(timestamps.age_ns(u32::MAX, 2 * MS), Some(2 * MS));
        assert_eq!((timestamps.age_ns(5, 2 * MS), timestamps.age_ns(0, 2 * MS)), (None, None));
        assert_eq!(timestamps.tell(4 * MS).value, 3);
    }
}

//! The time of a call. Sockets ask their [`Host`](crate::Host) for it, once a call; the engine is told it. So a simulation has time of
//! its own.
//!
//! A look at the counter of the CPU takes 5 to 20 ns. The kernel's clocks take 20 ns each, so they are
//! read again only when what is known of them is old, or when arrivals are stamped.

use std::time::Duration;

/// What is known of the kernel's clocks may be this old: 0.2 to 1 ms. The shortest time that is measured by them is 10 ms.
const CLOCKS_OLD_TICKS: u64 = 1 << 20;

/// What the kernel's clocks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Nanoseconds of a clock that never steps.
    pub monotonic_ns: u64,
    /// Nanoseconds since 1970.
    pub time_of_day_ns: u64,
}

/// The time of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Of the counter that all CPUs have, one to five a nanosecond ([`nearwire_sys::tsc::rough_ticks`]).
    pub ticks: u64,
    /// Up to [`CLOCKS_OLD_TICKS`] old. The time of day is exact when a socket wants arrivals stamped, or frames are captured.
    pub clocks: Clocks,
    /// When they were read.
    read_ticks: u64,
}

impl Now {
    /// It is later. `read` reads the kernel's clocks, if they must be `exact` or what is known is old.
    #[inline]
    pub(crate) fn advance(&mut self, ticks: u64, exact: bool, read: impl FnOnce() -> Clocks) {
        self.ticks = ticks;
        if exact || ticks.wrapping_sub(self.read_ticks) > CLOCKS_OLD_TICKS {
            (self.clocks, self.read_ticks) = (read(), ticks);
        }
    }

    /// How long ago a time of the monotonic clock was.
    pub(crate) const fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.clocks.monotonic_ns.saturating_sub(then_ns))
    }

    /// The monotonic clock, nanoseconds.
    pub(crate) const fn monotonic_ns(&self) -> u64 {
        self.clocks.monotonic_ns
    }
}

//! The time of a call. Sockets ask their [`Host`](crate::Host) for it, once a call; the engine is told it. So a simulation has time of
//! its own.
//!
//! A look at the counter of the CPU takes 5 to 20 ns. The kernel's clocks take 20 ns each, so they are
//! read again only when what is known of them is old, or when arrivals are stamped.

use std::time::Duration;

use nearwire_sys::tsc::PacedClock;

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
    /// Up to 1 ms old. The time of day is exact when a socket wants arrivals stamped, or frames are captured.
    pub clocks: Clocks,
    /// The monotonic one, which goes on by the counter.
    paced: PacedClock,
}

impl Now {
    /// It is later. `read` reads the kernel's clocks, if they must be `exact` or what is known is old; `counter` the counter once more.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        ticks: u64,
        exact: bool,
        read: impl FnOnce() -> Clocks,
        counter: impl FnOnce() -> u64,
    ) {
        self.ticks = ticks;
        if exact || self.paced.is_old(ticks) {
            self.clocks = read();
            self.paced.read(ticks, self.clocks.monotonic_ns, counter());
        }
    }

    /// The monotonic clock as it is, ns: for connections, whose round trips are measured in microseconds.
    #[inline]
    pub(crate) const fn exact_ns(&self) -> u64 {
        self.paced.ns(self.ticks)
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

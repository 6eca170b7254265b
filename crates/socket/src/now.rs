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
    exact_ns: u64,
}

impl Now {
    /// It is later. `exact`: the kernel's clocks are read though what is known of them is not old.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        paced: &mut PacedClock,
        exact: bool,
        ticks: impl Fn() -> u64,
        clocks: impl FnOnce() -> Clocks,
    ) {
        self.ticks = ticks();
        if exact || paced.is_old(self.ticks) {
            self.read_clocks(paced, ticks, clocks);
        }
        self.exact_ns = paced.ns(self.ticks);
    }

    /// Not inlined: it would make the frame of each call larger.
    #[cold]
    #[inline(never)]
    fn read_clocks(&mut self, paced: &mut PacedClock, ticks: impl Fn() -> u64, clocks: impl FnOnce() -> Clocks) {
        self.clocks = clocks();
        paced.read(self.ticks, self.clocks.monotonic_ns, ticks());
    }

    /// The monotonic clock as it is, ns: for connections, whose round trips are measured in microseconds.
    #[inline]
    pub(crate) const fn exact_ns(&self) -> u64 {
        self.exact_ns
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

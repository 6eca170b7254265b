//! What the timer thread knows of connections without a gate: while a thread of the program does what is due, there is nothing for it to do, and to
//! enter would take the bias from that thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nearwire_sys::tsc::monotonic_raw_ns;

/// While the program computes, what comes for connections is acknowledged within this time: far ends send again what was not after 200 ms.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(10);
/// After a look that found several frames the next one comes so soon: a transfer through a window takes as many looks as it takes round trips.
const LOOKED_AGAIN: Duration = Duration::from_micros(500);
/// A thread that has done what was due so lately does so still, or goes to sleep and tells the kernel until when.
const ACTIVE_NS: u64 = 200_000;
/// What is due soon it does within its next call, or computes: then it is late by so much. More is due later than that after most calls.
const NAP_NS: u64 = 1_000_000;
/// It leaves the rest to the timer thread, which looks at connections so often in any case.
const LOOKED_BY_TIMER_EVERY_NS: u64 = 100_000_000;

/// Times are of CLOCK_MONOTONIC_RAW, ns.
#[derive(Debug, Default)]
struct Times {
    /// When a thread has last done what was due.
    driven_ns: AtomicU64,
    /// The next deadline then; `u64::MAX`: none.
    due_ns: AtomicU64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct StreamsDue(Arc<Times>);

impl StreamsDue {
    #[inline]
    pub(super) fn driven(&self, now_ns: u64, next_ns: Option<u64>) {
        self.0.driven_ns.store(now_ns, Relaxed);
        self.0.due_ns.store(next_ns.unwrap_or(u64::MAX), Relaxed);
    }

    /// The next deadline is the one that was known.
    #[inline]
    pub(super) fn driven_still(&self, now_ns: u64) {
        self.0.driven_ns.store(now_ns, Relaxed);
    }

    /// How long the timer thread, which last looked at connections at `looked_ns`, may sleep without looking; `None`: it has to look.
    #[must_use]
    pub fn sleep_without_looking(&self, looked_ns: u64) -> Option<Duration> {
        self.sleep_at(monotonic_raw_ns(), looked_ns).map(Duration::from_nanos)
    }

    fn sleep_at(&self, now_ns: u64, looked_ns: u64) -> Option<u64> {
        let (driven_ns, due_ns) = (self.0.driven_ns.load(Relaxed), self.0.due_ns.load(Relaxed));
        let is_active = now_ns.saturating_sub(driven_ns) < ACTIVE_NS;
        let look_ns = looked_ns.saturating_add(LOOKED_BY_TIMER_EVERY_NS);
        // By then the thread may compute.
        let most_ns = now_ns + LOOKED_AT_EVERY.as_nanos() as u64;
        let until_ns = due_ns.max(now_ns + NAP_NS).min(most_ns).min(look_ns);
        (is_active && look_ns > now_ns).then(|| until_ns - now_ns)
    }
}

/// Fewer are an answer that the program comes to take: each look may have to take the bias from its thread.
const SEVERAL_FRAMES: u64 = 2;

/// How often the timer thread looks at connections: soon after several frames came, and then each time after twice the time.
#[derive(Debug)]
pub struct Pace(Duration);

impl Default for Pace {
    fn default() -> Self {
        Self(LOOKED_AT_EVERY)
    }
}

impl Pace {
    /// The time until the next look, after one that found so many.
    pub(super) fn looked(&mut self, frames: u64) -> Duration {
        self.0 = if frames >= SEVERAL_FRAMES { LOOKED_AGAIN } else { LOOKED_AT_EVERY.min(self.0 * 2) };
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn due(driven_ns: u64, next_ns: Option<u64>) -> StreamsDue {
        let due = StreamsDue::default();
        due.driven(driven_ns, next_ns);
        due
    }

    #[test]
    fn active_thread_the_timer_sleeps_until_its_next_deadline() {
        assert_eq!(due(10 * MS, Some(13 * MS)).sleep_at(10 * MS + 1, 0), Some(3 * MS - 1));
        assert_eq!(due(10 * MS, None).sleep_at(10 * MS, 0), Some(10 * MS), "it may compute by then");
        assert_eq!(due(95 * MS, None).sleep_at(95 * MS, 0), Some(5 * MS), "and the timer looks now and then");
    }

    #[test]
    fn active_thread_with_something_due_the_timer_leaves_it_that() {
        assert_eq!(due(10 * MS, Some(9 * MS)).sleep_at(10 * MS + 1, 0), Some(NAP_NS));
    }

    #[test]
    fn thread_that_computes_the_timer_looks() {
        assert_eq!(due(10 * MS, Some(13 * MS)).sleep_at(10 * MS + ACTIVE_NS, 0), None);
    }

    #[test]
    fn active_thread_for_long_the_timer_looks() {
        assert_eq!(due(100 * MS, Some(103 * MS)).sleep_at(100 * MS, 0), None);
        assert_eq!(due(100 * MS, Some(103 * MS)).sleep_at(100 * MS, MS), Some(MS));
    }

    #[test]
    fn several_frames_came_the_timer_looks_again_soon_and_then_more_seldom() {
        let mut pace = Pace::default();
        assert_eq!([0, 1].map(|frames| pace.looked(frames)), [LOOKED_AT_EVERY; 2]);
        assert_eq!([2, 10, 1, 0].map(|frames| pace.looked(frames).as_micros()), [500, 500, 1000, 2000]);
        assert_eq!([0; 4].map(|frames| pace.looked(frames).as_millis()), [4, 8, 10, 10]);
    }
}

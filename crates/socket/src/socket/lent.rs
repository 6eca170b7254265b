//! What is known of a socket while it is lent to the kernel.

use crate::wait::LentBy;

/// Time from one question to the next: a quarter of what a trial takes.
const ASKED_EVERY_NS: u64 = 4_000_000;
/// The same in calls, whatever the rate.
const CALLS_LEAST: u16 = 16;
const CALLS_MOST: u16 = 4096;

/// How a socket is lent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    pub(crate) by: LentBy,
    /// Calls that were allowed since the thread that lent it was last asked, and when that was.
    calls: u64,
    asked_ns: u64,
    /// Datagrams that calls received in this time.
    pub(crate) received: u64,
}

impl Lent {
    pub(crate) fn by_this_thread(now_ns: u64) -> Lent {
        Lent { by: LentBy::this_thread(), calls: CALLS_LEAST.into(), asked_ns: now_ns, received: 0 }
    }

    /// How many calls are allowed now: to the thread that lent it, by what the last ones took; to another, some until that makes one.
    pub(crate) fn allow_more(&mut self, now_ns: u64) -> u16 {
        if !self.by.is_this_thread() {
            self.calls += u64::from(CALLS_LEAST);
            return CALLS_LEAST;
        }
        let took_ns = now_ns.saturating_sub(self.asked_ns).max(1);
        let calls = (self.calls * ASKED_EVERY_NS / took_ns).clamp(CALLS_LEAST.into(), CALLS_MOST.into());
        (self.calls, self.asked_ns) = (calls, now_ns);
        calls as u16
    }
}

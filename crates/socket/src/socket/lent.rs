//! What is known of a socket while it is lent to the kernel.

use crate::direct;
use crate::wait::{count_messages, stays_by_kernel, this_thread};

/// Time from one question to the next: a quarter of what a trial takes.
const ASKED_EVERY_NS: u64 = 4_000_000;
/// The same in calls, whatever the rate.
const CALLS_LEAST: u16 = 16;
const CALLS_MOST: u16 = 4096;
/// No more than so many times the calls of the last time: the first question follows the lending at once.
const CALLS_GROW_BY: u64 = 8;
/// Threads other than the one that lent a socket leave it to that for so long: 2 of its longest times without a trial.
const LENDER_DECIDES_NS: u64 = 20_000_000_000;

/// How a socket is lent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    /// The thread that lent it, and when.
    by: usize,
    since_ns: u64,
    /// Calls that were allowed since the thread that lent it was last asked, and when that was.
    calls: u64,
    asked_ns: u64,
    /// Datagrams that calls received in this time.
    received: u64,
}

impl Lent {
    pub(crate) fn by_this_thread(now_ns: u64) -> Lent {
        Lent { by: this_thread(), since_ns: now_ns, calls: CALLS_LEAST.into(), asked_ns: now_ns, received: 0 }
    }

    fn is_by_this_thread(&self) -> bool {
        self.by == this_thread()
    }

    /// Whether what the fd names stays lent, as the calling thread, which is about to use it, has it. What its calls have received since the
    /// last question is counted before.
    pub(crate) fn stays(&mut self, fd: i32, now_ns: u64) -> bool {
        self.received += direct::take_received(fd);
        if self.is_by_this_thread() {
            count_messages(std::mem::take(&mut self.received));
            stays_by_kernel(now_ns)
        } else {
            now_ns.saturating_sub(self.since_ns) < LENDER_DECIDES_NS
        }
    }

    /// How many calls are allowed now. To the thread that lent it: by the time that the last calls took. To another thread: a few, until the
    /// thread that lent it makes a call.
    pub(crate) fn allow_more(&mut self, now_ns: u64) -> u16 {
        if !self.is_by_this_thread() {
            self.calls += u64::from(CALLS_LEAST);
            return CALLS_LEAST;
        }
        let took_ns = now_ns.saturating_sub(self.asked_ns).max(1);
        let wanted = (self.calls * ASKED_EVERY_NS / took_ns).min(self.calls * CALLS_GROW_BY);
        let calls = wanted.clamp(CALLS_LEAST.into(), CALLS_MOST.into());
        (self.calls, self.asked_ns) = (calls, now_ns);
        calls as u16
    }
}

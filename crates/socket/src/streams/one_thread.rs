//! By `auto`, connections are carried while one thread uses connections: all are in one engine, where threads wait for each other.
//!
//! The thread is the one that has one adopted first; those of others stay with the kernel. Where these have calls too, nothing is carried for a
//! time that doubles: of 64 connections in four threads on two CPUs, a server that carried those of one thread passed 0.68 of the kernel's messages,
//! and one that carried all 0.55. A thread whose connections have no calls any more leaves its place to the next one that asks.

use std::collections::HashSet;

use rustix::process::Pid;

/// Calls that the kernel gets before a connection of another thread is tried again.
pub(super) const CALLS_OF_ANOTHER: u16 = 1024;
/// The same while nothing is carried.
pub(super) const CALLS_OF_SEVERAL: u16 = 8192;
/// A thread whose connections have no calls for so long leaves its place. Calls of others are held against its own for so long.
const IDLE_NS: u64 = 100_000_000;
const LONG_AGO_NS: u64 = 4 * IDLE_NS;
/// So does one that has no more calls in such a time, while others have as many as they may.
const IDLE_CALLS: u64 = 128;
/// Several threads use connections: others have more than this part of the calls of the one.
const PART_OF_CALLS: u64 = 4;
const SEVERAL_AT_FIRST_NS: u64 = 1_000_000_000;
const SEVERAL_MOST_NS: u64 = 64_000_000_000;

/// What a thread that wants a connection adopted is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is the one.
    Adopt,
    /// Not now: another is the one.
    Another,
    /// Not now: several threads use connections. What is carried is to be released, if anything is.
    Several,
}

/// The thread, and what is known of calls.
#[derive(Debug, Default)]
pub(super) struct OneThread {
    thread: Option<Pid>,
    calls_served: u64,
    /// When they were so many first, CLOCK_MONOTONIC_RAW.
    since_ns: u64,
    others: Others,
    several_until_ns: u64,
    several_for_ns: u64,
}

/// Calls of other threads, by the kernel.
#[derive(Debug, Default)]
struct Others {
    since_ns: u64,
    /// What was served by then of the one thread.
    served_before: u64,
    calls: u64,
    /// Those of their connections that have asked before.
    fds: HashSet<i32>,
}

impl Others {
    /// A connection of other threads asks. The answer follows from the calls that they had, and that the one thread had.
    fn asks(&mut self, fd: i32, calls_served: u64, now_ns: u64) -> Told {
        // What happened in a long time says nothing of now.
        if self.since_ns == 0 || now_ns.saturating_sub(self.since_ns) > LONG_AGO_NS {
            (self.since_ns, self.served_before, self.calls) = (now_ns, calls_served, 0);
        }
        if !self.fds.insert(fd) {
            self.calls += u64::from(CALLS_OF_ANOTHER);
        }
        if now_ns.saturating_sub(self.since_ns) < IDLE_NS {
            return Told::Another;
        }
        self.since_ns = 0;
        match calls_served.saturating_sub(self.served_before) {
            served if self.calls * PART_OF_CALLS <= served => Told::Another,
            served if served < IDLE_CALLS => Told::Adopt,
            _ => Told::Several,
        }
    }
}

impl OneThread {
    /// A connection that an fd names opened or ended.
    pub(super) fn forget(&mut self, fd: i32) {
        self.others.fds.remove(&fd);
    }

    /// `calls_served`: of all connections that are carried; `None`: none is.
    pub(super) fn ask(&mut self, fd: i32, thread: Pid, calls_served: Option<u64>, now_ns: u64) -> Told {
        if now_ns < self.several_until_ns {
            return Told::Several;
        }
        let Some(calls_served) = calls_served.filter(|_| self.thread.is_some()) else {
            (self.thread, self.since_ns) = (Some(thread), now_ns);
            self.calls_served = calls_served.unwrap_or(0);
            return Told::Adopt;
        };
        if calls_served != self.calls_served {
            (self.calls_served, self.since_ns) = (calls_served, now_ns);
        }
        if self.thread == Some(thread) {
            return Told::Adopt;
        }
        let is_idle = now_ns.saturating_sub(self.since_ns) >= IDLE_NS;
        match if is_idle { Told::Adopt } else { self.others.asks(fd, calls_served, now_ns) } {
            Told::Adopt => {
                (self.thread, self.since_ns) = (Some(thread), now_ns);
                Told::Adopt
            }
            Told::Another => Told::Another,
            Told::Several => self.several(now_ns),
        }
    }

    fn several(&mut self, now_ns: u64) -> Told {
        let has_rested = now_ns.saturating_sub(self.several_until_ns) > SEVERAL_MOST_NS;
        let longer_ns = if has_rested { 0 } else { self.several_for_ns * 2 };
        self.several_for_ns = longer_ns.clamp(SEVERAL_AT_FIRST_NS, SEVERAL_MOST_NS);
        (self.several_until_ns, self.thread) = (now_ns + self.several_for_ns, None);
        self.others = Others::default();
        Told::Several
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn second_thread_is_kept_out_while_the_first_calls() {
        let mut one = OneThread::default();
        assert_eq!(one.ask(3, thread(1), None, 5), Told::Adopt);
        assert_eq!(one.ask(4, thread(1), Some(0), 6), Told::Adopt, "another connection of its own");
        assert_eq!(one.ask(5, thread(2), Some(0), 7), Told::Another, "it has just begun");
        assert_eq!(one.ask(5, thread(2), Some(9000), 7 + IDLE_NS), Told::Another, "it has called more");
        assert_eq!(one.ask(5, thread(2), Some(18_000), 6 + 2 * IDLE_NS), Told::Another);
    }

    #[test]
    fn thread_that_calls_no_more_leaves_its_place_to_the_next_that_asks() {
        let mut one = OneThread::default();
        assert_eq!(one.ask(3, thread(1), None, 5), Told::Adopt);
        assert_eq!(one.ask(4, thread(2), Some(0), 5 + IDLE_NS), Told::Adopt);
        assert_eq!(one.ask(3, thread(1), Some(0), 6 + IDLE_NS), Told::Another);
    }

    #[test]
    fn threads_that_all_call_have_nothing_carried_for_a_time_that_doubles() {
        let mut one = OneThread::default();
        let mut now_ns = 0;
        for several_for_ns in [SEVERAL_AT_FIRST_NS, 2 * SEVERAL_AT_FIRST_NS, 4 * SEVERAL_AT_FIRST_NS] {
            assert_eq!(one.ask(3, thread(1), None, now_ns), Told::Adopt);
            assert_eq!(one.ask(4, thread(2), Some(0), now_ns + 1), Told::Another);
            now_ns += IDLE_NS + 1;
            assert_eq!(one.ask(4, thread(2), Some(4 * u64::from(CALLS_OF_ANOTHER) - 1), now_ns), Told::Several);
            assert_eq!(one.ask(3, thread(1), None, now_ns + several_for_ns - 1), Told::Several);
            now_ns += several_for_ns;
        }
    }

    #[test]
    fn calls_of_others_are_not_held_against_a_thread_that_has_called_before() {
        let mut one = OneThread::default();
        assert_eq!(one.ask(3, thread(1), None, 5), Told::Adopt);
        assert_eq!(one.ask(4, thread(2), Some(0), 6), Told::Another);
        assert_eq!(
            one.ask(4, thread(2), Some(100), 7 + LONG_AGO_NS),
            Told::Another,
            "it is idle, as far as is known since now"
        );
        assert_eq!(one.ask(4, thread(2), Some(100), 7 + LONG_AGO_NS + IDLE_NS), Told::Adopt);
    }

    #[test]
    fn thread_with_few_calls_leaves_its_place_to_one_with_many() {
        let mut one = OneThread::default();
        assert_eq!(one.ask(3, thread(1), None, 5), Told::Adopt);
        assert_eq!(one.ask(4, thread(2), Some(0), 6), Told::Another);
        assert_eq!(one.ask(4, thread(2), Some(IDLE_CALLS - 1), 6 + IDLE_NS), Told::Adopt);
    }

    #[test]
    fn many_connections_of_others_without_calls_do_not_count() {
        let mut one = OneThread::default();
        assert_eq!(one.ask(3, thread(1), None, 5), Told::Adopt);
        assert!((4..100).all(|fd| one.ask(fd, thread(2), Some(1), 6) == Told::Another));
        assert_eq!(one.ask(100, thread(2), Some(100), 6 + IDLE_NS), Told::Another);
    }
}

//! By `auto`, connections of one thread are carried: all are in one engine, and threads that wait for each other there pass fewer messages than by the
//! kernel. A server of four threads with 64 connections, on two CPUs, passed 0.55 of the kernel's messages.
//!
//! The thread is the one that has one adopted first. When what is carried was not called for a while, the next thread that asks is that thread.

use nearwire_sys::tsc::monotonic_raw_ns;
use rustix::process::Pid;
use rustix::thread::gettid;

use crate::config::Adopt;
use crate::direct;
use crate::host::Host;
use crate::reason::Reason;
use crate::sockets::Sockets;
use crate::status::Counter;

/// Calls that the kernel gets before a connection of another thread is tried again.
const CALLS: u16 = 1024;
/// A thread whose connections have no calls for so long leaves its place.
const IDLE_NS: u64 = 100_000_000;

/// The thread, and what is known of its calls.
#[derive(Debug, Default)]
pub(super) struct OneThread {
    thread: Option<Pid>,
    calls_served: u64,
    /// When they were so many first, CLOCK_MONOTONIC_RAW.
    since_ns: u64,
}

impl OneThread {
    /// Whether connections of `thread` are the kernel's. `calls_served`: of all that are carried.
    fn keeps_out(&mut self, thread: Pid, calls_served: u64, now_ns: u64) -> bool {
        if calls_served != self.calls_served || self.thread.is_none() {
            (self.calls_served, self.since_ns) = (calls_served, now_ns);
        }
        let is_idle = now_ns.saturating_sub(self.since_ns) >= IDLE_NS;
        let is_kept_out = self.thread.is_some_and(|own| own != thread) && !is_idle;
        if !is_kept_out && self.thread != Some(thread) {
            (self.thread, self.since_ns) = (Some(thread), now_ns);
        }
        is_kept_out
    }
}

impl<H: Host> Sockets<H> {
    /// Whether a connection stays with the kernel for some calls, as another thread has connections carried.
    pub(super) fn stays_with_its_thread(&mut self, fd: i32) -> bool {
        if self.config.adopt != Adopt::Auto {
            return false;
        }
        if !self.streams.are_carried() {
            self.streams.one_thread = OneThread::default();
        }
        let calls_served = self.page.counted(Counter::CallsServed);
        let is_kept_out = self.streams.one_thread.keeps_out(gettid(), calls_served, monotonic_raw_ns());
        if is_kept_out {
            self.tell_attempt(fd);
            self.tell_kept(fd, Some(Reason::OtherThread.into()));
            direct::allow(fd, CALLS);
        }
        is_kept_out
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
        assert!(!one.keeps_out(thread(1), 0, 5));
        assert!(!one.keeps_out(thread(1), 0, 6), "another connection of its own");
        assert!(one.keeps_out(thread(2), 0, 7), "it has just begun");
        assert!(one.keeps_out(thread(2), 9, 7 + IDLE_NS), "it has called");
        assert!(one.keeps_out(thread(2), 9, 6 + 2 * IDLE_NS));
    }

    #[test]
    fn thread_that_calls_no_more_leaves_its_place_to_the_next_that_asks() {
        let mut one = OneThread::default();
        assert!(!one.keeps_out(thread(1), 0, 5));
        assert!(!one.keeps_out(thread(2), 0, 5 + IDLE_NS));
        assert!(one.keeps_out(thread(1), 0, 6 + IDLE_NS));
    }
}

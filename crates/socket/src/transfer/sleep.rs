//! Threads that sleep until something comes.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::engine::PORTS_SLEPT_ON;
use crate::host::Host;
use crate::sleepers::{Thread, WaitsFor};
use crate::sockets::{EngineState, Sockets};
use crate::status::Counter;

/// What a thread sleeps on.
#[derive(Clone, Copy, Debug)]
pub struct SleepDescriptors {
    /// The others know only now that the thread sleeps: it looks once more first, so what came before is seen and what comes
    /// later wakes it.
    pub is_new: bool,
    /// Readable when another thread wakes this one; `None`: no descriptor is left, and it must not sleep for long.
    pub wake: Option<RawFd>,
    /// Readable when the kernel has something; `None`: no socket is accelerated yet.
    pub watch: Option<RawFd>,
    /// Readable when frames come; those that the watch does not report.
    pub ports: [Option<RawFd>; PORTS_SLEPT_ON],
    /// An epoll set of all these, whose events say which by an [`EndOfSleep`](crate::EndOfSleep).
    pub set: Option<RawFd>,
    /// It sleeps no longer than this: something of a connection is due then.
    pub at_most: Option<Duration>,
}

impl<H: Host> Sockets<H> {
    /// Whether [`Sockets::reserve_sleep_descriptors`] has something to open.
    #[must_use]
    pub fn lacks_sleep_descriptors(&self, process: u32) -> bool {
        self.sleepers.lacks(process) > 0
    }

    /// The program has opened a descriptor in this process: what its threads sleep on is opened now.
    pub fn reserve_sleep_descriptors(&mut self, process: u32) {
        self.sleepers.reserve(process);
    }

    /// A thread is about to sleep. `on_nothing_else`: the program has no descriptors of its own that end it.
    pub fn begin_sleep(&mut self, thread: Thread, waits_for: WaitsFor, on_nothing_else: bool) -> SleepDescriptors {
        self.follow_sharing(true);
        let (is_new, wake) = self.sleepers.begin(thread, waits_for);
        let at_most = self.streams_due_within();
        let mut sleep_on =
            SleepDescriptors { is_new, wake, watch: None, ports: [None; PORTS_SLEPT_ON], set: None, at_most };
        if let EngineState::Open(engine) = &mut self.engine
            && !is_new
        {
            let watch = engine.watch().descriptor();
            sleep_on.watch = Some(watch.as_raw_fd());
            if on_nothing_else && self.sleepers.is_only_one() && wake.is_some() {
                sleep_on.set = self.sleepers.set(thread, watch, engine.ports_generation(), engine.receive_sockets());
            }
            if sleep_on.set.is_none() {
                sleep_on.ports = engine.sleep_on_ports();
            }
        }
        sleep_on
    }

    /// It is back, and looks at what the watch has if that reported something. `by_wake`: its eventfd was written, or may have been.
    pub fn woken(&mut self, thread: Thread, slept_ns: u64, by_watch: bool, by_wake: bool) {
        self.page.count(Counter::Sleeps, 1);
        self.page.count(Counter::SleepingNs, slept_ns);
        let now = self.time();
        self.sleepers.awake(now.ticks, thread, by_wake);
        // Before the shadows, which are asked first from then on.
        self.take_in_frames();
        if by_watch {
            self.look();
        } else if let Some(engine) = self.engine() {
            engine.watch_was_quiet(now);
        }
    }

    /// All that sleep look at what else could end their calls.
    pub fn wake_sleepers(&mut self) {
        self.sleepers.wake_all();
    }

    /// Its call ends.
    pub fn end_sleep(&mut self, thread: Thread) {
        let now = self.time();
        self.sleepers.awake(now.ticks, thread, false);
    }
}

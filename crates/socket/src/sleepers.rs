//! Threads that sleep in a waiting call, and how one of them is woken by another.
//!
//! Every sleeper polls the watch, which the kernel makes ready. But what the watch told one thread, another one may wait
//! for: the frame is out of the ring then, and the edge of the shadow is used up. So each sleeper has an eventfd of its
//! own, which nobody but that thread empties. One for all could be emptied by the first to wake, before the others have
//! looked at it (`do_poll` looks again after it was woken).

pub mod set;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nearwire_sys::descriptor::place;
use rustix::event::{EventfdFlags, eventfd};

use crate::engine::new_epoll;
use crate::id::SocketId;
use set::Set;

/// A thread of a process: a child of fork has its parent's table, and shares the eventfds in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process.
    pub process: u32,
    /// What is unique in it among living threads.
    pub identity: usize,
}

/// The identity of no thread: of a place that none has slept at.
const NOBODY: usize = 0;

/// What a sleeping thread is to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Something at one socket.
    Socket(SocketId),
    /// Something at any.
    Anything,
}

/// Threads that can begin to sleep before the program opens another socket without a descriptor being opened then.
const RESERVE: usize = 2;

/// One that has not slept for so long spins: 0.4 to 2 ms.
const AWAKE_LONG_TICKS: u64 = 2_000_000;

#[derive(Debug)]
struct Sleeper {
    thread: Thread,
    wake: OwnedFd,
    waits_for: WaitsFor,
    is_asleep: bool,
    /// Its eventfd was written and not yet emptied.
    is_woken: bool,
    /// What it sleeps on where the program waits for nothing else.
    set: Option<Set>,
    /// An epoll descriptor for the first of these.
    spare: Option<OwnedFd>,
    /// When it was last awake.
    woke_ticks: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    slots: Vec<Sleeper>,
    asleep: u32,
}

impl Sleepers {
    /// A thread is about to sleep; `true`: it was not known to, so it looks once more before it does. The descriptor ends
    /// its sleep; without one (none is left) the thread must not sleep for long.
    pub(crate) fn begin(&mut self, thread: Thread, waits_for: WaitsFor) -> (bool, Option<RawFd>) {
        let known = self.slots.iter().position(|sleeper| sleeper.thread == thread);
        let free =
            || self.slots.iter().position(|sleeper| !sleeper.is_asleep && sleeper.thread.process == thread.process);
        let at = match known.or_else(free) {
            Some(at) => at,
            None => {
                // Those of the parent process are not ours to empty.
                self.slots.retain(|sleeper| sleeper.thread.process == thread.process);
                self.asleep = self.slots.iter().filter(|sleeper| sleeper.is_asleep).count() as u32;
                let Some(sleeper) = Sleeper::new(thread) else { return (false, None) };
                self.slots.push(sleeper);
                self.slots.len() - 1
            }
        };
        let sleeper = &mut self.slots[at];
        let is_new = !sleeper.is_asleep || sleeper.waits_for != waits_for;
        self.asleep += u32::from(!sleeper.is_asleep);
        (sleeper.thread, sleeper.waits_for, sleeper.is_asleep) = (thread, waits_for, true);
        (is_new, Some(sleeper.wake.as_raw_fd()))
    }

    /// The program opens a descriptor: what threads will sleep on is opened now. When a thread first sleeps another one may be
    /// opening something, and would find the lowest fd taken until ours is moved out of the way.
    pub(crate) fn reserve(&mut self, process: u32) {
        for _ in 0..self.lacks(process) {
            let Some(mut sleeper) = Sleeper::new(Thread { process, identity: NOBODY }) else { return };
            sleeper.spare = new_epoll().ok();
            self.slots.push(sleeper);
        }
    }

    /// How many of these are missing.
    pub(crate) fn lacks(&self, process: u32) -> usize {
        let is_free = |sleeper: &&Sleeper| !sleeper.is_asleep && sleeper.thread.process == process;
        RESERVE.saturating_sub(self.slots.iter().filter(is_free).count())
    }

    /// What a thread that has begun to sleep waits at, all in one: its eventfd, the watch, and the ports; `None`: it has to poll
    /// each. `generation` is another one whenever the ports are others.
    pub(crate) fn set<'p>(
        &mut self,
        thread: Thread,
        watch: BorrowedFd<'_>,
        generation: u64,
        ports: impl Iterator<Item = BorrowedFd<'p>>,
    ) -> Option<RawFd> {
        let sleeper = self.slots.iter_mut().find(|sleeper| sleeper.thread == thread)?;
        if !sleeper.set.as_ref().is_some_and(|set| set.fits(watch, generation)) {
            let epoll = sleeper.spare.take().map_or_else(new_epoll, Ok);
            sleeper.set = epoll.and_then(|epoll| Set::new(epoll, sleeper.wake.as_fd(), watch)).ok();
        }
        let put = sleeper.set.as_mut()?.put_in(generation, ports);
        sleeper.set.take_if(|_| put.is_err());
        sleeper.set.as_ref().map(Set::descriptor)
    }

    /// Threads that have been awake for long get frames without a call into their sets.
    pub(crate) fn rest<'p, P: Iterator<Item = BorrowedFd<'p>>>(&mut self, now_ticks: u64, ports: impl Fn() -> P) {
        let rests = |sleeper: &&mut Sleeper| {
            !sleeper.is_asleep && now_ticks.wrapping_sub(sleeper.woke_ticks) > AWAKE_LONG_TICKS
        };
        self.slots
            .iter_mut()
            .filter(rests)
            .filter_map(|sleeper| sleeper.set.as_mut())
            .for_each(|set| set.rest(ports()));
    }

    /// The thread is awake: it looks itself, so that nobody, itself above all, has to wake it with two system calls. Before it
    /// sleeps once more it looks once more, as [`Sleepers::begin`] says. `is_told`: a signal may have written its eventfd.
    pub(crate) fn awake(&mut self, now_ticks: u64, thread: Thread, is_told: bool) {
        if let Some(sleeper) = self.slots.iter_mut().find(|sleeper| sleeper.thread == thread && sleeper.is_asleep) {
            sleeper.woke_ticks = now_ticks;
            sleeper.is_woken |= is_told;
            sleeper.empty();
            sleeper.is_asleep = false;
            self.asleep -= 1;
        }
    }

    /// No other thread sleeps. Of several that poll a port the kernel wakes first who began last, so that they take turns; of
    /// their sets it would wake always the same first.
    pub(crate) const fn is_only_one(&self) -> bool {
        self.asleep == 1
    }

    pub(crate) fn any_asleep(&self) -> bool {
        self.asleep > 0
    }

    /// Something happened at a socket.
    #[inline]
    pub(crate) fn wake_for(&mut self, id: SocketId) {
        if self.asleep > 0 {
            self.wake(|waits_for| matches!(waits_for, WaitsFor::Anything) || waits_for == WaitsFor::Socket(id));
        }
    }

    /// All shall look again.
    pub(crate) fn wake_all(&mut self) {
        if self.asleep > 0 {
            self.wake(|_| true);
        }
    }

    #[cold]
    fn wake(&mut self, concerns: impl Fn(WaitsFor) -> bool) {
        let concerned = |sleeper: &&mut Sleeper| sleeper.is_asleep && !sleeper.is_woken && concerns(sleeper.waits_for);
        for sleeper in self.slots.iter_mut().filter(concerned) {
            // Full only after 2^64 wakes that nobody took.
            let _ = rustix::io::write(&sleeper.wake, &1_u64.to_ne_bytes());
            sleeper.is_woken = true;
        }
    }
}

impl Sleeper {
    fn new(thread: Thread) -> Option<Sleeper> {
        let wake = place(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?);
        Some(Sleeper {
            thread,
            wake,
            waits_for: WaitsFor::Anything,
            is_asleep: false,
            is_woken: false,
            set: None,
            spare: None,
            woke_ticks: 0,
        })
    }

    fn empty(&mut self) {
        if std::mem::take(&mut self.is_woken) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const ONE: Thread = Thread { process: 1, identity: 1 };
    const TWO: Thread = Thread { process: 1, identity: 2 };

    fn is_woken(sleepers: &Sleepers, thread: Thread) -> bool {
        let sleeper = sleepers.slots.iter().find(|sleeper| sleeper.thread == thread).expect("it sleeps");
        let mut polled = [PollFd::new(&sleeper.wake, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).expect("polled") == 1
    }

    #[test]
    fn one_of_two_sleepers_back_leaves_the_other_woken() {
        let mut sleepers = Sleepers::default();
        assert!(sleepers.begin(ONE, WaitsFor::Anything).0);
        assert!(!sleepers.begin(ONE, WaitsFor::Anything).0);
        assert!(sleepers.begin(TWO, WaitsFor::Anything).0);
        sleepers.wake_for(SocketId::new(3));
        sleepers.awake(0, ONE, false);
        assert!(!is_woken(&sleepers, ONE) && is_woken(&sleepers, TWO));
    }

    #[test]
    fn sleeper_that_takes_its_own_frames_is_not_woken_and_looks_again_before_it_sleeps() {
        let mut sleepers = Sleepers::default();
        sleepers.begin(ONE, WaitsFor::Anything);
        sleepers.awake(0, ONE, false);
        sleepers.wake_for(SocketId::new(3));
        assert!(!is_woken(&sleepers, ONE));
        assert!(sleepers.begin(ONE, WaitsFor::Anything).0, "it looks once more");
        sleepers.wake_for(SocketId::new(3));
        assert!(is_woken(&sleepers, ONE));
    }

    #[test]
    fn sleeper_of_one_socket_is_not_woken_for_another() {
        let mut sleepers = Sleepers::default();
        sleepers.begin(ONE, WaitsFor::Socket(SocketId::new(1)));
        sleepers.wake_for(SocketId::new(2));
        assert!(!is_woken(&sleepers, ONE));
        sleepers.wake_for(SocketId::new(1));
        assert!(is_woken(&sleepers, ONE));
        sleepers.awake(0, ONE, false);
        assert_eq!(sleepers.asleep, 0);
    }

    #[test]
    fn threads_that_begin_to_sleep_after_a_reserve_was_made_open_nothing() {
        let mut sleepers = Sleepers::default();
        sleepers.reserve(1);
        let watch = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let reserved: Vec<RawFd> = sleepers.slots.iter().map(|sleeper| sleeper.wake.as_raw_fd()).collect();
        let spares: Vec<RawFd> =
            sleepers.slots.iter().filter_map(|sleeper| Some(sleeper.spare.as_ref()?.as_raw_fd())).collect();
        assert_eq!((reserved.len(), spares.len()), (RESERVE, RESERVE));
        for thread in [ONE, TWO] {
            assert!(reserved.contains(&sleepers.begin(thread, WaitsFor::Anything).1.expect("a descriptor")));
            let set = sleepers.set(thread, watch.as_fd(), 1, std::iter::empty());
            assert!(spares.contains(&set.expect("a descriptor")));
        }
        sleepers.awake(0, ONE, false);
        sleepers.reserve(1);
        assert_eq!(sleepers.slots.len(), RESERVE + 1, "one is free that has slept");
    }

    #[test]
    fn child_of_a_fork_beginning_gets_an_eventfd_of_its_own() {
        let mut sleepers = Sleepers::default();
        let parents = sleepers.begin(ONE, WaitsFor::Anything).1;
        sleepers.awake(0, ONE, false);
        let child = Thread { process: 2, ..ONE };
        let (_, own) = sleepers.begin(child, WaitsFor::Anything);
        assert!(own.is_some() && (own != parents || sleepers.slots.len() == 1));
        assert!(sleepers.slots.iter().all(|sleeper| sleeper.thread.process == 2));
    }
}

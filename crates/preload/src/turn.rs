//! A call that waits: turns of looking, spinning, and sleeping with signals noticed on the way.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use nearwire_socket::wait::{Pause, SpinFor, Waiter};

use crate::signals::{Count, interruptions};
use crate::{real, state};

/// Why a turn ended the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Look again.
    Again,
    /// The time is over.
    TimedOut,
    /// A signal handler ran: EINTR.
    Interrupted,
}

/// One waiting call of the program.
pub struct Turns {
    waiter: Waiter,
    before: Count,
    /// EINTR also after a handler with SA_RESTART, as calls with a timeout and those of the poll family have it.
    never_restarts: bool,
    /// Counted among those that sleep, so that whoever finds a frame wakes us.
    sleeps: bool,
}

impl Turns {
    /// Begins to wait, at most `timeout`.
    pub fn new(timeout: Option<Duration>, never_restarts: bool) -> Turns {
        let spin = if timeout == Some(Duration::ZERO) { SpinFor::Time(Duration::ZERO) } else { state::spin() };
        Turns { waiter: Waiter::new(spin, timeout), before: interruptions(), never_restarts, sleeps: false }
    }

    /// Nothing was found. `also`: descriptors of the program's that end the sleep, as poll(2) takes them; their answers
    /// are left in it.
    #[inline]
    pub fn turn(&mut self, also: &mut Vec<pollfd>) -> Turn {
        match self.waiter.pause() {
            Pause::Again if self.is_interrupted() => Turn::Interrupted,
            Pause::Again => Turn::Again,
            Pause::TimedOut => Turn::TimedOut,
            Pause::Sleep(rest) => self.sleep(rest, also),
        }
    }

    #[inline]
    fn is_interrupted(&self) -> bool {
        let now = interruptions();
        now.interrupting != self.before.interrupting
            || (self.never_restarts && now.restarting != self.before.restarting)
    }

    fn sleep(&mut self, rest: Option<Duration>, also: &mut Vec<pollfd>) -> Turn {
        if !self.sleeps {
            // One more look after being counted: what came before is seen, what comes later wakes.
            self.sleeps = state::with(|sockets| sockets.begin_sleep()).is_some();
            return if self.is_interrupted() { Turn::Interrupted } else { Turn::Again };
        }
        let watch = state::with(|sockets| sockets.engine().map(|engine| engine.watch().descriptor().as_raw_fd()));
        let length = also.len();
        also.extend(watch.flatten().map(readable));
        let slept = self.sleep_on(also, rest);
        also.truncate(length);
        state::with(|sockets| sockets.look());
        slept
    }

    /// Sleeps with all signals held back until the kernel has the thread asleep, so that a handler that ran a moment
    /// before is noticed.
    fn sleep_on(&self, also: &mut [pollfd], rest: Option<Duration>) -> Turn {
        let held = HeldSignals::hold();
        if self.is_interrupted() {
            return Turn::Interrupted;
        }
        let rest = rest.map(to_timespec);
        let timeout = rest.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `also` is a live array of its length, the timeout null or live, the mask live.
        let found = unsafe { real::ppoll(also.as_mut_ptr(), also.len() as nfds_t, timeout, &raw const held.before) };
        if found >= 0 {
            return Turn::Again;
        }
        drop(held);
        // A handler that the library did not install, or that restarts the call it interrupted.
        let now = interruptions();
        let restarts = now.restarting != self.before.restarting && now.interrupting == self.before.interrupting;
        if errno() == libc::EINTR && (!restarts || self.never_restarts) { Turn::Interrupted } else { Turn::Again }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if self.sleeps {
            state::with(|sockets| sockets.end_sleep());
        }
    }
}

/// Signals held back in the calling thread while it lives.
pub struct HeldSignals {
    before: sigset_t,
}

impl HeldSignals {
    fn hold() -> HeldSignals {
        // SAFETY: the sets are live locals, and an all-zero set is a valid one.
        unsafe {
            let mut all: sigset_t = std::mem::zeroed();
            let mut before: sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            HeldSignals { before }
        }
    }

    /// Puts a mask of the program's in force (ppoll, pselect, epoll_pwait) until it is dropped.
    ///
    /// # Safety
    /// `mask` points to a signal set.
    pub unsafe fn replace(mask: *const sigset_t) -> HeldSignals {
        // SAFETY: `before` is a live local; the caller vouches for `mask`.
        unsafe {
            let mut before: sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut before);
            HeldSignals { before }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

const fn readable(fd: RawFd) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// As the kernel takes it.
pub fn to_timespec(duration: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// The calling thread's errno.
#[inline]
pub fn errno() -> c_int {
    // SAFETY: the location is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno; -1, for returning.
#[inline]
pub fn fail(errno: c_int) -> isize {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = errno };
    -1
}

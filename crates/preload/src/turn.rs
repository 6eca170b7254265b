//! A call that waits: turns of looking, spinning, and sleeping with signals noticed on the way.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use nearwire_socket::wait::{Pause, SpinFor, Waiter};
use nearwire_socket::{Thread, WaitsFor};

use crate::real;
use crate::signals::{Count, interruptions};
use crate::state::{self, Subject};

/// Why a turn ended the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Look again.
    Again,
    /// A handler with SA_RESTART ran: the call begins anew, with what its number names now.
    Restarted,
    /// The time is over.
    TimedOut,
    /// A signal handler ran: EINTR.
    Interrupted,
}

/// What a call of the program waits for, and how.
#[derive(Clone, Copy)]
pub struct Wait<'m> {
    /// At most so long; `None`: for ever.
    pub timeout: Option<Duration>,
    /// The program's mask of ppoll, pselect, epoll_pwait: in force from the first turn, so that what is there already is
    /// told without the handlers of pending signals running (`restore_saved_sigmask_unless`).
    pub mask: Option<&'m sigset_t>,
    /// EINTR also after a handler with SA_RESTART, as calls with a timeout and those of the poll family have it.
    pub never_restarts: bool,
    /// There is something that the kernel does not tell of when it comes.
    pub spins: bool,
    /// Who wakes it.
    pub waits_for: WaitsFor,
    /// What it waits for something at: it sleeps in the engine that serves that.
    pub subject: Subject,
}

impl<'m> Wait<'m> {
    /// A call of the poll family.
    pub const fn poll(timeout: Option<Duration>, mask: Option<&'m sigset_t>, subject: Subject) -> Wait<'m> {
        Wait { timeout, mask, never_restarts: true, spins: true, waits_for: WaitsFor::Anything, subject }
    }
}

/// One waiting call of the program.
pub struct Turns<'m> {
    waiter: Waiter,
    before: Count,
    wait: Wait<'m>,
    /// The mask is in force.
    masked: Option<HeldSignals>,
    /// The engine whose other threads know that it sleeps.
    sleeps_in: Option<usize>,
}

/// Without a descriptor to be woken by, a thread sleeps no longer than this.
const UNWOKEN_SLEEP: Duration = Duration::from_millis(1);

impl<'m> Turns<'m> {
    /// Begins to wait.
    pub fn new(wait: Wait<'m>) -> Turns<'m> {
        let spins = wait.spins && wait.timeout != Some(Duration::ZERO);
        let spin = if spins { state::spin() } else { SpinFor::Time(Duration::ZERO) };
        let waiter = Waiter::new(spin, wait.timeout);
        Turns { waiter, before: interruptions(), wait, masked: None, sleeps_in: None }
    }

    /// What is waited for is there now.
    pub fn is_at(&mut self, subject: Subject) {
        self.wait.subject = subject;
    }

    /// Nothing was found. `also`: descriptors of the program's that end the sleep, as poll(2) takes them; their answers
    /// are left in it.
    #[inline]
    pub fn turn(&mut self, also: &mut Vec<pollfd>) -> Turn {
        if let (Some(mask), None) = (self.wait.mask, &self.masked) {
            // SAFETY: a live set.
            self.masked = Some(unsafe { HeldSignals::replace(mask) });
            if self.is_interrupted() {
                return Turn::Interrupted;
            }
        }
        match self.waiter.pause() {
            Pause::Again => self.again(),
            Pause::TimedOut => Turn::TimedOut,
            Pause::Sleep(rest) => self.sleep(rest, also),
        }
    }

    /// Looks again, unless a handler ran.
    #[inline]
    fn again(&self) -> Turn {
        let now = interruptions();
        if now == self.before {
            return Turn::Again;
        }
        if self.is_interrupted() { Turn::Interrupted } else { Turn::Restarted }
    }

    #[inline]
    fn is_interrupted(&self) -> bool {
        let now = interruptions();
        now.interrupting != self.before.interrupting
            || (self.wait.never_restarts && now.restarting != self.before.restarting)
    }

    fn sleep(&mut self, rest: Option<Duration>, also: &mut Vec<pollfd>) -> Turn {
        let (thread, waits_for) = (this_thread(), self.wait.waits_for);
        let engine = self.wait.subject.engine();
        if self.sleeps_in.is_some_and(|before| before != engine) {
            self.end_sleep();
        }
        let at = Subject::Engine(engine);
        let Some(bed) = state::with_subject(at, |sockets| sockets.begin_sleep(thread, waits_for)) else {
            return Turn::Again;
        };
        self.sleeps_in = Some(engine);
        if bed.is_new {
            return self.again();
        }
        let rest = match bed.wake {
            Some(_) => rest,
            None => Some(rest.map_or(UNWOKEN_SLEEP, |rest| rest.min(UNWOKEN_SLEEP))),
        };
        let length = also.len();
        // The watch first: whether it told of something is read behind the program's own.
        also.extend([bed.watch, bed.wake].into_iter().chain(bed.ports).flatten().map(readable));
        let (before, asleep) = (errno(), Instant::now());
        let slept = self.sleep_on(also, rest);
        // A handler that ran may have had an errno of its own; what the program sees of this call is set by its end.
        fail(before);
        // Without ports the frames come by the watch, and with them what else it has.
        let by_watch = bed.watch.is_some() && also.get(length).is_some_and(|watch| watch.revents != 0);
        also.truncate(length);
        let slept_ns = asleep.elapsed().as_nanos() as u64;
        state::with_subject(at, |sockets| sockets.woken(thread, slept_ns, by_watch));
        slept
    }

    /// Sleeps with all signals held back until the kernel has the thread asleep, so that a handler that ran a moment
    /// before is noticed.
    fn sleep_on(&self, also: &mut [pollfd], rest: Option<Duration>) -> Turn {
        let held = HeldSignals::hold();
        let before = self.again();
        if before != Turn::Again {
            return before;
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
        let is_restarting = now.restarting != self.before.restarting && now.interrupting == self.before.interrupting;
        let interrupts = self.wait.never_restarts || !is_restarting;
        if errno() == libc::EINTR && interrupts { Turn::Interrupted } else { self.again() }
    }
}

impl Turns<'_> {
    fn end_sleep(&mut self) {
        if let Some(engine) = self.sleeps_in.take() {
            state::with_subject(Subject::Engine(engine), |sockets| sockets.end_sleep(this_thread()));
        }
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        self.end_sleep();
    }
}

/// The pid is asked anew: a child of fork has its parent's thread.
fn this_thread() -> Thread {
    // SAFETY: both only say who calls.
    let (process, identity) = unsafe { (libc::getpid(), libc::pthread_self()) };
    Thread { process: process.cast_unsigned(), identity: identity as usize }
}

/// Signals held back in the calling thread while it lives.
pub struct HeldSignals {
    before: sigset_t,
}

impl HeldSignals {
    /// Holds all back.
    pub fn hold() -> HeldSignals {
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

/// An entry of poll(2) that waits for something to read.
pub const fn readable(fd: RawFd) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// As the kernel takes it.
pub fn to_timespec(duration: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// The error of calls on a socket that `strict` refuses. The kernel gives it to no call on a UDP socket but a send with
/// MSG_OOB, so it is not mistaken for another.
pub const REFUSED: c_int = libc::EOPNOTSUPP;

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

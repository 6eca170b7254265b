//! A call that waits: turns of looking, spinning, and sleeping with signals noticed on the way.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use libc::{c_int, c_long, c_ulong, epoll_event, pollfd, sigset_t, timespec};
use nearwire_socket::wait::{Pause, SpinFor, Waiter, now_ns};
use nearwire_socket::{EndOfSleep, SleepDescriptors, Thread, WaitsFor};
use nearwire_sys::own_stack;

use crate::errno::{errno, fail};
use crate::signals::sleep::SignalsEndSleep;
use crate::signals::{self, mask};
use crate::state::{self, Subject};
use crate::thread::{
    self, CALL_MASK_IS_OVER, CANCEL_ASKED, HANDLERS_UNDER_CALL_MASK, INTERRUPTS, NO_CALL_MASK, RESTARTS,
};
use crate::{own_process, real, start};

/// Why a turn ended the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Look again.
    Again,
    /// The call is left, so that a handler with SA_RESTART runs or the thread is cancelled, and is restarted: with what its
    /// fd names then.
    Restarted,
    /// What is waited for is to be lent to the kernel, as far as that can be; then look again.
    Lend,
    /// The time is over.
    TimedOut,
    /// A signal handler is about to run: EINTR.
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
    /// There is something that the kernel does not report when it comes.
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
    wait: Wait<'m>,
    /// The mask is in force.
    masked: Option<CallMask>,
    /// The engine whose other threads know that it sleeps.
    sleeps_in: Option<usize>,
}

/// What ended a sleep.
#[derive(Clone, Copy, Default)]
struct SleepEndedBy {
    watch: bool,
    wake: bool,
}

/// Linux before 5.11, or a filter of system calls that does not know it.
static LACKS_EPOLL_PWAIT2: AtomicBool = AtomicBool::new(false);
/// The watch, the thread's eventfd, and ports; what finds no place is told by the next wait.
const EVENTS_AT_ONCE: usize = 8;

/// Without a descriptor to be woken by, a thread sleeps no longer than this.
const UNWOKEN_SLEEP: Duration = Duration::from_millis(1);

impl<'m> Turns<'m> {
    /// Begins to wait.
    pub fn new(wait: Wait<'m>) -> Turns<'m> {
        let spins = wait.spins && wait.timeout != Some(Duration::ZERO);
        let spin = if spins { start::spin() } else { SpinFor::Time(Duration::ZERO) };
        let waiter = Waiter::new(spin, wait.timeout);
        Turns { waiter, wait, masked: None, sleeps_in: None }
    }

    /// What is waited for is there now.
    pub fn is_at(&mut self, subject: Subject) {
        self.wait.subject = subject;
    }

    /// Nothing was found. `also`: descriptors of the program's that end the sleep, as poll(2) takes them; their answers
    /// are left in it.
    #[inline]
    pub fn turn(&mut self, also: &mut Vec<pollfd>) -> Turn {
        let turn = self.next(also);
        if let (Turn::Interrupted, Some(mask)) = (turn, &mut self.masked) {
            mask.is_interrupted = true;
        }
        turn
    }

    #[inline]
    fn next(&mut self, also: &mut Vec<pollfd>) -> Turn {
        if let (Some(mask), None) = (self.wait.mask, &self.masked) {
            self.masked = Some(CallMask::put(mask));
            let now = self.again();
            if now != Turn::Again {
                return now;
            }
        }
        match self.waiter.pause() {
            Pause::Again => self.again(),
            Pause::LastLook => Turn::Again,
            Pause::Lend => Turn::Lend,
            Pause::TimedOut => Turn::TimedOut,
            Pause::Sleep(rest) => self.sleep(rest, also),
        }
    }

    /// Looks again, unless a handler or the end of the thread waits for the end of the call.
    #[inline]
    fn again(&self) -> Turn {
        let attention = thread::current().attention.load(Relaxed);
        if attention & (RESTARTS | INTERRUPTS | CANCEL_ASKED) == 0 {
            return Turn::Again;
        }
        let interrupts = if self.wait.never_restarts { RESTARTS | INTERRUPTS } else { INTERRUPTS };
        if attention & interrupts == 0 { Turn::Restarted } else { Turn::Interrupted }
    }

    /// The time is over, and the present look is the last one.
    pub fn is_over(&self) -> bool {
        self.waiter.is_over()
    }

    /// What is left of the time.
    pub fn rest(&self) -> Option<Duration> {
        self.waiter.rest()
    }

    fn sleep(&mut self, rest: Option<Duration>, also: &mut Vec<pollfd>) -> Turn {
        let (thread, waits_for) = (this_thread(), self.wait.waits_for);
        let engine = self.wait.subject.engine();
        if self.sleeps_in.is_some_and(|before| before != engine) {
            self.end_sleep();
        }
        let at = Subject::Engine(engine);
        let on_nothing_else = also.is_empty() && !LACKS_EPOLL_PWAIT2.load(Relaxed);
        let begin = || state::with_subject(at, |sockets| sockets.begin_sleep(thread, waits_for, on_nothing_else));
        let Some(sleep_on) = own_stack::run(begin) else {
            return Turn::Again;
        };
        self.sleeps_in = Some(engine);
        // Also where no other thread has the engine: a socket that moved behind the last look brought what it has along.
        if sleep_on.is_new {
            return self.again();
        }
        let rest = match sleep_on.wake {
            Some(_) => rest,
            None => Some(rest.map_or(UNWOKEN_SLEEP, |rest| rest.min(UNWOKEN_SLEEP))),
        };
        let rest = rest.into_iter().chain(sleep_on.at_most).min();
        let (before, asleep_ns) = (errno(), now_ns());
        let (slept, by) = match sleep_on.set {
            Some(set) => self.sleep_on_set(set, rest, sleep_on.wake),
            None => self.sleep_on_each(also, &sleep_on, rest),
        };
        fail(before);
        let (by_watch, by_wake) = (by.watch, by.wake || slept != Turn::Again);
        let slept_ns = now_ns().saturating_sub(asleep_ns);
        own_stack::run(|| state::with_subject(at, |sockets| sockets.woken(thread, slept_ns, by_watch, by_wake)));
        // While it is awake, no other thread has to wait for it.
        self.sleeps_in = None;
        slept
    }

    /// Sleeps on the program's own descriptors and each of the library's.
    fn sleep_on_each(
        &self,
        also: &mut Vec<pollfd>,
        sleep_on: &SleepDescriptors,
        rest: Option<Duration>,
    ) -> (Turn, SleepEndedBy) {
        let length = also.len();
        // The watch first: whether it reported something is read behind the program's own.
        also.extend([sleep_on.watch, sleep_on.wake].into_iter().chain(sleep_on.ports).flatten().map(readable));
        // SAFETY: `also` is a live array, the timeout null or live.
        let slept = self.sleep_by(sleep_on.wake, rest, |rest| unsafe { raw_ppoll(also, rest) });
        // Without ports the frames come by the watch, and with them what else it has.
        let told = |at: usize| also.get(at).is_some_and(|entry| entry.revents != 0);
        let watch = sleep_on.watch.is_some() && told(length);
        let wake = told(length + usize::from(sleep_on.watch.is_some()));
        also.truncate(length);
        (slept, SleepEndedBy { watch, wake })
    }

    /// Sleeps on all of the library's at once.
    fn sleep_on_set(&self, set: RawFd, rest: Option<Duration>, wake: Option<RawFd>) -> (Turn, SleepEndedBy) {
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE];
        let mut by = SleepEndedBy::default();
        let slept = self.sleep_by(wake, rest, |rest| {
            // SAFETY: the array is live, the timeout null or live.
            let found = unsafe { raw_epoll_pwait2(set, &mut events, rest) };
            let is_told =
                |what: EndOfSleep| events.iter().take(found.max(0) as usize).any(|event| { event.u64 } == what as u64);
            by = SleepEndedBy { watch: is_told(EndOfSleep::Watch), wake: is_told(EndOfSleep::Wake) };
            if found < 0 && errno() == libc::ENOSYS {
                LACKS_EPOLL_PWAIT2.store(true, Relaxed);
            }
            found
        });
        (slept, by)
    }

    /// Sleeps so that a signal which came a moment before is noticed: it writes to the eventfd `wake`. To hold signals back until
    /// the kernel has the thread asleep would take two more system calls. By a raw system call: the C library's function is a
    /// cancellation point.
    fn sleep_by(
        &self,
        wake: Option<RawFd>,
        rest: Option<Duration>,
        wait: impl FnOnce(Option<&timespec>) -> c_long,
    ) -> Turn {
        let sleep = SignalsEndSleep::on(wake);
        let before = self.again();
        if before != Turn::Again {
            return before;
        }
        let rest = rest.map(to_timespec);
        let found = wait(rest.as_ref());
        if found >= 0 {
            return Turn::Again;
        }
        let is_interrupted = errno() == libc::EINTR;
        drop(sleep);
        match self.again() {
            Turn::Again if is_interrupted && signals::has_unwrapped_handlers() => Turn::Interrupted,
            turn => turn,
        }
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

/// A child of fork has its parent's thread, and another pid.
fn this_thread() -> Thread {
    // SAFETY: only says who calls.
    let identity = unsafe { libc::pthread_self() };
    Thread { process: own_process::own_pid(), identity: identity as usize }
}

/// # Safety
/// `fds` can be polled: what the kernel writes to it is its own.
unsafe fn raw_ppoll(fds: &mut [pollfd], timeout: Option<&timespec>) -> c_long {
    // The kernel writes the time that is left.
    let mut timeout = timeout.copied();
    let timeout = timeout.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let (at, count) = (fds.as_mut_ptr() as c_ulong, fds.len() as c_ulong);
    // SAFETY: the array is live and so long, the timeout null or live, and there is no mask.
    unsafe { real::syscall(libc::SYS_ppoll, at, count, timeout as c_ulong, 0, 0, 0) }
}

/// # Safety
/// The timeout is null or live.
unsafe fn raw_epoll_pwait2(set: RawFd, events: &mut [epoll_event], timeout: Option<&timespec>) -> c_long {
    let timeout = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
    let (at, count) = (events.as_mut_ptr() as c_ulong, events.len() as c_ulong);
    // SAFETY: the array is live and so long, the timeout null or live, and there is no mask.
    unsafe { real::syscall(libc::SYS_epoll_pwait2, set as c_ulong, at, count, timeout as c_ulong, 0, 0) }
}

/// A mask of the program's (ppoll, pselect, epoll_pwait) that is in force while it lives. Where the call ends with EINTR the
/// handlers that wait run under it. Else what only this mask let through is pending again, for the next call: a program may
/// rely on no handler having run in a call that reports something (`restore_saved_sigmask_unless`).
struct CallMask {
    is_interrupted: bool,
}

impl CallMask {
    fn put(mask: &sigset_t) -> CallMask {
        let (thread, mask) = (thread::current(), mask::to_bits(mask));
        // No signal changes these between: all are held back.
        let before = mask::set_mask(u64::MAX) & !thread.deferred.load(Relaxed);
        thread.mask_before.store(before, Relaxed);
        thread.call_mask.store(mask, Relaxed);
        thread.has_call_mask.store(HANDLERS_UNDER_CALL_MASK, Relaxed);
        mask::set_mask(mask | thread.deferred.load(Relaxed));
        CallMask { is_interrupted: false }
    }
}

impl Drop for CallMask {
    fn drop(&mut self) {
        let thread = thread::current();
        // First, as a signal that only the call's mask lets through may still come before that is gone.
        let how = if self.is_interrupted { HANDLERS_UNDER_CALL_MASK } else { CALL_MASK_IS_OVER };
        thread.has_call_mask.store(how, Relaxed);
        mask::set_mask(thread.mask_before.load(Relaxed) | thread.deferred.load(Relaxed));
        if thread.attention.load(Relaxed) & (RESTARTS | INTERRUPTS) == 0 {
            thread.has_call_mask.store(NO_CALL_MASK, Relaxed);
        }
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

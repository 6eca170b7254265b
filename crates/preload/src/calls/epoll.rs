//! epoll_ctl(2) and epoll_wait(2).

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use libc::{c_int, epoll_event, pollfd, sigset_t};
use nearwire_socket::epoll::{Delivery, Events, Interest, Target};
use nearwire_socket::plain::{PlainWait, call_data};
use nearwire_socket::{AskKernel, Asked, Concerns, Control, Operation};
use nearwire_sys::own_stack;

use super::adoption;
use super::poll::Attempt::{self, Ended, Restart};
use crate::cancellation;
use crate::errno::fail;
use crate::probe::is_readable;
use crate::signals::{Handlers, deferral, handlers_so_far};
use crate::state::{self, Subject};
use crate::thread;
use crate::turn::{Turn, Turns, Wait, readable};
use crate::{engines, marks, real};

/// epoll_ctl(2).
///
/// # Safety
/// As for the C function.
pub unsafe fn control(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Option<c_int> {
    if !marks::is_epoll(set) {
        // A set that was there before the library, or is another process's.
        adoption::leave(fd);
        return None;
    }
    let asked = match operation {
        libc::EPOLL_CTL_ADD => Operation::Add,
        libc::EPOLL_CTL_MOD => Operation::Modify,
        libc::EPOLL_CTL_DEL => Operation::Delete,
        _ => return None,
    };
    let (events, data) = if asked == Operation::Delete {
        (0, 0)
    } else if !is_readable(event, size_of::<epoll_event>()) {
        return None;
    } else {
        // SAFETY: the caller's; the structure is packed on x86-64.
        unsafe { ((&raw const (*event).events).read_unaligned(), (&raw const (*event).u64).read_unaligned()) }
    };
    let interest = Interest { fd, events: Events::from_bits_retain(events), data };
    deferral::inside_deep(|| {
        let both = [set, fd];
        match engines::with_all(&both, |_, sockets| sockets.epoll_control(set, asked, interest))? {
            Control::Done => Some(0),
            Control::Failed(errno) => Some(fail(errno.raw_os_error()) as c_int),
            Control::Kernel => {
                // SAFETY: the caller's.
                let result = unsafe { real::epoll_ctl(set, operation, fd, event) };
                if result == 0 {
                    engines::with_all(&both, |_, sockets| sockets.epoll_noted(set, asked, interest));
                }
                Some(result)
            }
        }
    })
}

/// One call of the epoll_wait(2) family.
#[derive(Clone, Copy)]
pub struct WaitCall<'m> {
    /// The set's fd.
    pub set: c_int,
    /// Room for events.
    pub events: *mut epoll_event,
    /// How many.
    pub room: c_int,
    /// At most so long; `None`: for ever.
    pub timeout: Option<Duration>,
    /// Signals to hold back meanwhile.
    pub mask: Option<&'m sigset_t>,
}

/// epoll_wait(2). `original` makes the call as it is.
///
/// # Safety
/// `events` points to room for `room` events.
pub unsafe fn wait(call: &WaitCall<'_>, original: impl FnOnce() -> c_int) -> c_int {
    let WaitCall { set, events, room, timeout, .. } = *call;
    if room <= 0 || events.is_null() || !marks::is_epoll(set) {
        return original();
    }
    cancellation::point();
    let before = handlers_so_far();
    let ask = || state::with_fd(set, |sockets| sockets.epoll_concerns(set));
    let concerns = || if state::is_in_use() { deferral::inside(ask) } else { None };
    let mut concerned = concerns().unwrap_or(Concerns::No);
    if concerned == Concerns::No {
        if timeout == Some(Duration::ZERO) {
            // SAFETY: the kernel wrote the events.
            return unsafe { without_call(events, original()) };
        }
        let (plain, started) = (Plain::begin(set), Instant::now());
        concerned = concerns().unwrap_or(Concerns::No);
        if concerned == Concerns::No {
            // What asked was of this call: the kernel's part must not begin to wait as if nothing had come.
            let was_handled = before.since() != Handlers::default();
            // SAFETY: the caller's.
            let found = if was_handled { unsafe { real::epoll_wait(set, events, room, 0) } } else { original() };
            drop(plain);
            // SAFETY: as above.
            let left = unsafe { without_call(events, found) };
            if left == 0 && was_handled {
                return fail(libc::EINTR) as c_int;
            }
            if left != 0 || found == 0 {
                return left;
            }
            // Called: a socket came into the set.
            let timeout = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            // SAFETY: the caller's.
            return unsafe { wait_call(&WaitCall { timeout, ..*call }, Concerns::Now) }
                .unwrap_or_else(|| fail(libc::EINTR) as c_int);
        }
    }
    if before.since() == Handlers::default() || timeout == Some(Duration::ZERO) {
        // SAFETY: the caller's.
        return unsafe { wait_call(call, concerned) }.unwrap_or_else(original);
    }
    // What asked was of this call, and a handler ran behind it.
    // SAFETY: the caller's.
    match unsafe { wait_call(&WaitCall { timeout: Some(Duration::ZERO), ..*call }, concerned) } {
        Some(0) | None => fail(libc::EINTR) as c_int,
        Some(found) => found,
    }
}

/// A wait in the kernel, where handlers run at once and threads are cancelled. One that left an earlier wait of this thread by a
/// jump is noticed by the next: that call's place on the stack is in use again, or given up.
struct Plain {
    wait: Option<PlainWait>,
    set: c_int,
    outer: Outer,
}

/// The same of the thread's wait that this one is within, as a handler's: the set and one, how often its fd had been
/// closed, and the place on the stack.
type Outer = (u32, u32, usize);

/// A wait is over: the set has no event of ours any more if it was the last.
fn plain_wait_left(wait: PlainWait, set: c_int) {
    drop(wait);
    if call_data().is_some() {
        deferral::inside(|| state::with_fd(set, |sockets| sockets.plain_waiters_left(set)));
    }
}

impl Plain {
    #[inline(never)]
    fn begin(set: c_int) -> Plain {
        let thread = thread::current();
        let here = std::ptr::from_ref(&set) as usize;
        let mut outer =
            (thread.plain_set.load(Relaxed), thread.plain_closed.load(Relaxed), thread.plain_at.load(Relaxed));
        if outer.0 != 0 && here >= outer.2 {
            let left = outer.0.cast_signed() - 1;
            plain_wait_left(PlainWait::left(left, outer.1), left);
            outer = (0, 0, 0);
        }
        let wait = PlainWait::begin(set);
        thread.plain_at.store(here, Relaxed);
        thread.plain_closed.store(wait.closed(), Relaxed);
        thread.plain_set.store((set + 1).cast_unsigned(), Relaxed);
        Plain { wait: Some(wait), set, outer }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let thread = thread::current();
        thread.plain_set.store(self.outer.0, Relaxed);
        thread.plain_closed.store(self.outer.1, Relaxed);
        thread.plain_at.store(self.outer.2, Relaxed);
        if let Some(wait) = self.wait.take() {
            plain_wait_left(wait, self.set);
        }
    }
}

/// A whole call, for both halves of a set.
unsafe fn wait_call(call: &WaitCall<'_>, concerns: Concerns) -> Option<c_int> {
    let mut call = *call;
    loop {
        // What asked whether the set concerns us was a call too: one that was cancelled in it must not begin to wait.
        cancellation::point();
        // SAFETY: the caller's.
        match deferral::inside(|| unsafe { wait_with_us(&call, concerns) })? {
            Ended(result) => return Some(result),
            Restart(rest) => call.timeout = rest,
        }
    }
}

/// Waits for both halves of a set. `None`: the library is off.
unsafe fn wait_with_us(call: &WaitCall<'_>, concerns: Concerns) -> Option<Attempt> {
    let WaitCall { set, timeout, .. } = *call;
    engines::about_to_wait(set);
    let wait = Wait { spins: concerns == Concerns::Now, ..Wait::poll(timeout, call.mask, Subject::Fd(set)) };
    let mut turns: Option<(Turns<'_>, Vec<pollfd>)> = None;
    let mut asked = Asked::NotYet;
    loop {
        // SAFETY: the caller's.
        let count = unsafe { collect(call, asked) }?;
        // Without time it looks at no signals (`ep_poll`).
        if count != 0 || timeout == Some(Duration::ZERO) {
            return Some(Ended(count));
        }
        let (turns, also) = turns.get_or_insert_with(|| (Turns::new(wait), vec![readable(set)]));
        match turns.turn(also) {
            Turn::Again => asked = if also[0].revents != 0 || turns.is_over() { Asked::NotYet } else { Asked::Before },
            Turn::Lend => {
                own_stack::run(|| state::with_fd(set, |sockets| sockets.lend(&[set])));
                asked = Asked::NotYet;
            }
            Turn::Restarted => return Some(Restart(turns.rest())),
            Turn::TimedOut => return Some(Ended(0)),
            Turn::Interrupted => return Some(Ended(fail(libc::EINTR) as c_int)),
        }
        also[0].revents = 0;
    }
}

/// Events of sets inside the set that one call remembers, to merge what both halves report about them.
const NESTED_MOST: usize = 8;

/// Looks at both halves of a set once. -1: the kernel refused.
unsafe fn collect(call: &WaitCall<'_>, asked: Asked) -> Option<c_int> {
    let WaitCall { set, events, room, .. } = *call;
    if !is_readable(events, room as usize * size_of::<epoll_event>()) {
        let is_ready = state::with_fd(set, |sockets| {
            sockets.take_in();
            sockets.epoll_is_ready(set) == Some(true)
        })?;
        // SAFETY: the kernel finds that the pointer is bad when there is an event.
        if is_ready {
            return Some(fail(libc::EFAULT) as c_int);
        }
        // SAFETY: the kernel finds that the pointer is bad when there is an event.
        return Some(unsafe { real::epoll_wait(set, events, room, 0) });
    }
    let most = room as usize;
    let mut nested = [None; NESTED_MOST];
    let mut nested_count = 0;
    let mut count = 0;
    let mut collect = |asked, count: &mut usize| {
        let room = most - *count;
        // SAFETY: no more than there is room for are written.
        let mut put = |delivery: Delivery| unsafe {
            write(events.add(*count), &delivery);
            if let (Target::Set(_), Some(slot)) = (delivery.target, nested.get_mut(nested_count)) {
                *slot = Some((delivery.data, *count));
                nested_count += 1;
            }
            *count += 1;
        };
        state::with_fd(set, |sockets| sockets.epoll_collect(set, room, asked, &mut put))?
    };
    let first = collect(asked, &mut count)?;
    let kernels = match first.ask_kernel {
        AskKernel::No => 0..0,
        AskKernel::Too => {
            // SAFETY: the room that is left.
            let found = unsafe { ask_kernel(set, events.add(count), most - count) };
            if found < 0 && count == 0 {
                return Some(found);
            }
            let before = count;
            count += found.max(0) as usize;
            before..count
        }
        AskKernel::First => {
            // SAFETY: the caller's room.
            let found = unsafe { ask_kernel(set, events, most) };
            if found < 0 {
                return Some(found);
            }
            count = found as usize;
            if count < most {
                collect(Asked::JustNow, &mut count)?;
            }
            0..found as usize
        }
    };
    if nested_count > 0 && !kernels.is_empty() {
        // SAFETY: so many were written.
        count = unsafe { merge(events, count, kernels, &nested[..nested_count]) };
    }
    Some(count as c_int)
}

unsafe fn ask_kernel(set: c_int, events: *mut epoll_event, room: usize) -> c_int {
    // SAFETY: the caller's room.
    unsafe { without_call(events, real::epoll_wait(set, events, room as c_int, 0)) }
}

unsafe fn write(at: *mut epoll_event, delivery: &Delivery) {
    // SAFETY: the caller's room; the structure is packed on x86-64.
    unsafe { at.write_unaligned(epoll_event { events: delivery.events.bits(), u64: delivery.data }) };
}

/// Takes the event that calls plain waiters out of what the kernel found.
unsafe fn without_call(events: *mut epoll_event, found: c_int) -> c_int {
    let Some(data) = call_data() else { return found };
    let found_count = usize::try_from(found).unwrap_or(0);
    // SAFETY: the kernel wrote so many.
    let Some(at) = (0..found_count).find(|at| unsafe { events.add(*at).read_unaligned() }.u64 == data) else {
        return found;
    };
    // SAFETY: as above.
    unsafe { std::ptr::copy(events.add(at + 1), events.add(at), found_count - at - 1) };
    found - 1
}

/// The kernel and the library may both have reported a set inside the set: one event, with what both said. Only the program's
/// data tells which of the kernel's events it is; where the program gives other registrations the same data, the next call reports
/// theirs again.
unsafe fn merge(
    events: *mut epoll_event,
    count: usize,
    kernels: std::ops::Range<usize>,
    nested: &[Option<(u64, usize)>],
) -> usize {
    // SAFETY: the caller wrote `count` of them, and all places are below it.
    let read = |at: usize| unsafe { events.add(at).read_unaligned() };
    // SAFETY: as above.
    let write = |at: usize, event| unsafe { events.add(at).write_unaligned(event) };
    for (data, ours) in nested.iter().flatten().copied() {
        let Some(kernels) = kernels.clone().find(|at| read(*at).u64 == data) else { continue };
        let (first, second) = (kernels.min(ours), kernels.max(ours));
        write(first, epoll_event { events: read(first).events | read(second).events, u64: data });
        write(second, epoll_event { events: 0, u64: data });
    }
    let mut kept = 0;
    for event in (0..count).map(read).filter(|event| event.events != 0) {
        write(kept, event);
        kept += 1;
    }
    kept
}

/// Milliseconds as epoll_wait(2) and poll(2) take them.
pub fn from_ms(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

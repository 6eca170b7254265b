//! epoll_ctl(2) and epoll_wait(2).

use std::time::Duration;

use libc::{c_int, epoll_event, pollfd};
use nearwire_socket::epoll::{Delivery, Events, Interest};
use nearwire_socket::{Control, Operation};

use crate::turn::{Turn, Turns, fail};
use crate::{real, state};

/// epoll_ctl(2).
///
/// # Safety
/// As for the C function.
pub unsafe fn control(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Option<c_int> {
    if !state::is_epoll(set) {
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
    } else if event.is_null() {
        return None;
    } else {
        // SAFETY: the caller's; the structure is packed on x86-64.
        unsafe { ((&raw const (*event).events).read_unaligned(), (&raw const (*event).u64).read_unaligned()) }
    };
    let interest = Interest { fd, events: Events::from_bits_retain(events), data };
    match state::with(|sockets| sockets.epoll_control(set, asked, interest))? {
        Control::Done => Some(0),
        Control::Failed(errno) => Some(fail(errno.raw_os_error()) as c_int),
        Control::Kernel => {
            // SAFETY: the caller's.
            let result = unsafe { real::epoll_ctl(set, operation, fd, event) };
            if result == 0 {
                state::with(|sockets| sockets.epoll_noted(set, asked, interest));
            }
            Some(result)
        }
    }
}

/// epoll_wait(2). `timeout`: `None` waits for ever.
///
/// # Safety
/// `events` points to room for `room` events.
pub unsafe fn wait(set: c_int, events: *mut epoll_event, room: c_int, timeout: Option<Duration>) -> Option<c_int> {
    if room <= 0 || events.is_null() || !state::is_in_use() || !state::is_epoll(set) {
        return None;
    }
    if !state::with(|sockets| sockets.epoll_concerns(set))? {
        return None;
    }
    let most = room as usize;
    let mut turns: Option<Turns> = None;
    let mut first = true;
    loop {
        let mut count = 0;
        // SAFETY: no more than `most` are written.
        let put = |delivery: Delivery| unsafe {
            write(events.add(count), &delivery);
            count += 1;
        };
        let collected = state::with(|sockets| sockets.epoll_collect(set, most, first, put))??;
        let mut count = collected.count;
        if collected.ask_kernel {
            // SAFETY: the room that is left.
            let found = unsafe { real::epoll_wait(set, events.add(count), (most - count) as c_int, 0) };
            if found < 0 && count == 0 {
                return Some(found);
            }
            // SAFETY: as many as the kernel wrote.
            count = unsafe { merge(events, count, found.max(0) as usize) };
        }
        if count > 0 {
            return Some(count as c_int);
        }
        let mut also = vec![pollfd { fd: set, events: libc::POLLIN, revents: 0 }];
        match turns.get_or_insert_with(|| Turns::new(timeout, true)).turn(&mut also) {
            Turn::Again => first = also[0].revents != 0,
            Turn::TimedOut => return Some(0),
            Turn::Interrupted => return Some(fail(libc::EINTR) as c_int),
        }
    }
}

unsafe fn write(at: *mut epoll_event, delivery: &Delivery) {
    // SAFETY: the caller's room; the structure is packed on x86-64.
    unsafe { at.write_unaligned(epoll_event { events: delivery.events.bits(), u64: delivery.data }) };
}

/// The kernel and the library may both have told of a set inside the set: one event, with what both said.
unsafe fn merge(events: *mut epoll_event, ours: usize, kernels: usize) -> usize {
    let mut count = ours;
    for from in ours..ours + kernels {
        // SAFETY: the caller wrote that many.
        let event = unsafe { events.add(from).read_unaligned() };
        // SAFETY: as above.
        let same = (0..ours).find(|at| unsafe { events.add(*at).read_unaligned() }.u64 == event.u64);
        let Some(at) = same else {
            // SAFETY: never beyond what was written.
            unsafe { events.add(count).write_unaligned(event) };
            count += 1;
            continue;
        };
        // SAFETY: as above.
        unsafe {
            let mut known = events.add(at).read_unaligned();
            known.events |= event.events;
            events.add(at).write_unaligned(known);
        }
    }
    count
}

/// Milliseconds as epoll_wait(2) and poll(2) take them.
pub fn from_ms(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

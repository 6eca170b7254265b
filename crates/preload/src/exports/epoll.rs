//! epoll.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, epoll_event, sigset_t, timespec};

use super::poll::{duration, mask_of};
use crate::calls::epoll::{self, WaitCall};
use crate::calls::names;
use crate::real;
use crate::signals::deferral;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    deferral::inside_deep(|| {
        // SAFETY: the caller's, as for the C function.
        let fd = unsafe { real::epoll_create(size) };
        names::epoll_opened(fd);
        fd
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    deferral::inside_deep(|| {
        // SAFETY: the caller's, as for the C function.
        let fd = unsafe { real::epoll_create1(flags) };
        names::epoll_opened(fd);
        fd
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe { epoll::control(set, operation, fd, event).unwrap_or_else(|| real::epoll_ctl(set, operation, fd, event)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout_ms: c_int,
) -> c_int {
    let call = WaitCall { set, events, room, timeout: epoll::from_ms(timeout_ms), mask: None };
    // SAFETY: the caller's, as for the C function.
    unsafe { epoll::wait(&call, || real::epoll_wait(set, events, room, timeout_ms)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let original = || real::epoll_pwait(set, events, room, timeout_ms, mask);
        let Some(mask) = mask_of(mask) else { return original() };
        let call = WaitCall { set, events, room, timeout: epoll::from_ms(timeout_ms), mask };
        epoll::wait(&call, original)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let original = || real::epoll_pwait2(set, events, room, timeout, mask);
        let (Some(time), Some(mask)) = (duration(timeout), mask_of(mask)) else { return original() };
        epoll::wait(&WaitCall { set, events, room, timeout: time, mask }, original)
    }
}

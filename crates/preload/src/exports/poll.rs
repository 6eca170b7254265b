//! poll and select.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use std::time::{Duration, Instant};

use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::calls::epoll::from_ms;
use crate::calls::poll as calls;
use crate::probe::is_readable;
use crate::real;

/// A timeout of the program's: `Some(None)` waits for ever; `None`: one that the kernel refuses.
///
/// # Safety
/// `timeout` is null or points to one.
pub unsafe fn duration(timeout: *const timespec) -> Option<Option<Duration>> {
    if timeout.is_null() {
        return Some(None);
    }
    if !is_readable(timeout, size_of::<timespec>()) {
        return None;
    }
    // SAFETY: the caller's.
    let timespec { tv_sec, tv_nsec } = unsafe { *timeout };
    let nanoseconds = u32::try_from(tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?;
    Some(Some(Duration::new(u64::try_from(tv_sec).ok()?, nanoseconds)))
}

/// A mask of the program's, or `Some(None)` where it gives none; `None`: one that the kernel refuses.
///
/// # Safety
/// `mask` is null or points to one, which lives as long as the call.
pub unsafe fn mask_of<'m>(mask: *const sigset_t) -> Option<Option<&'m sigset_t>> {
    /// What the kernel reads of it.
    const MASK_BYTES: usize = 8;
    if mask.is_null() {
        return Some(None);
    }
    if !is_readable(mask, MASK_BYTES) {
        return None;
    }
    // SAFETY: the caller's.
    Some(unsafe { mask.as_ref() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let original = || real::poll(fds, count, timeout_ms);
        calls::poll(fds, count, from_ms(timeout_ms), None, original).unwrap_or_else(original)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let fits = room / size_of::<pollfd>() >= count as usize;
        let original = || real::__poll_chk(fds, count, timeout_ms, room);
        let result = if fits { calls::poll(fds, count, from_ms(timeout_ms), None, original) } else { None };
        result.unwrap_or_else(original)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe { masked_poll(fds, count, timeout, mask).unwrap_or_else(|| real::ppoll(fds, count, timeout, mask)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let fits = room / size_of::<pollfd>() >= count as usize;
        let result = if fits { masked_poll(fds, count, timeout, mask) } else { None };
        result.unwrap_or_else(|| real::__ppoll_chk(fds, count, timeout, mask, room))
    }
}

unsafe fn masked_poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Option<c_int> {
    // SAFETY: the caller's, as for the C function.
    unsafe { calls::poll(fds, count, duration(timeout)?, mask_of(mask)?, || real::ppoll(fds, count, timeout, mask)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let count = calls::select_count(count);
    // SAFETY: the caller's, as for the C function.
    let by_kernel =
        || calls::select_by_kernel(count, |count| unsafe { real::select(count, read, write, except, timeout) });
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let time = if timeout.is_null() {
            None
        } else if !is_readable(timeout, size_of::<timeval>()) {
            return by_kernel();
        } else {
            let timeval { tv_sec, tv_usec } = *timeout;
            match (u64::try_from(tv_sec), u64::try_from(tv_usec)) {
                (Ok(seconds), Ok(microseconds)) => {
                    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(microseconds)))
                }
                _ => return by_kernel(),
            }
        };
        let started = Instant::now();
        let Some(result) = calls::select(count, [read, write, except], time, None, by_kernel) else {
            return by_kernel();
        };
        if let Some(time) = time.filter(|time| *time > Duration::ZERO) {
            // Linux tells what is left.
            let rest = time.saturating_sub(started.elapsed());
            *timeout = timeval { tv_sec: rest.as_secs() as i64, tv_usec: i64::from(rest.subsec_micros()) };
        }
        result
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let count = calls::select_count(count);
    // SAFETY: the caller's, as for the C function.
    unsafe {
        let pselect = |count| real::pselect(count, read, write, except, timeout, mask);
        let by_kernel = || calls::select_by_kernel(count, pselect);
        let sets = [read, write, except];
        let result = duration(timeout).and_then(|time| calls::select(count, sets, time, mask_of(mask)?, by_kernel));
        result.unwrap_or_else(by_kernel)
    }
}

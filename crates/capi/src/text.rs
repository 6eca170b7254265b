//! Texts: version, errors, descriptions.

use libc::{c_char, c_int, size_t};
use nearwire_frames::Port as _;

use crate::abi;
use crate::fault::{self, Fault};
use crate::handle::{self, Port, State, with_port};

const VERSION: &[u8] = concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes();

/// See `nearwire.h`.
#[unsafe(no_mangle)]
pub extern "C" fn nearwire_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// See `nearwire.h`.
#[unsafe(no_mangle)]
pub extern "C" fn nearwire_strerror(error: c_int) -> *const c_char {
    let errno = error.saturating_abs();
    let known = ERRORS.iter().find(|(value, _)| *value == errno);
    known.map_or(UNKNOWN, |(_, text)| *text).as_ptr().cast()
}

const UNKNOWN: &str = "an error of the kernel; nearwire_last_error has its text\0";

/// What the values mean here, each text with its closing NUL.
const ERRORS: &[(c_int, &str)] = &[
    (0, "no error\0"),
    (libc::EPERM, "a capability is missing (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF or CAP_PERFMON)\0"),
    (libc::ENOENT, "there is no such filter, or nothing is loaded in the slot\0"),
    (libc::EINTR, "a signal ended the wait\0"),
    (libc::EIO, "a defect of libnearwire, or an error without a number\0"),
    (libc::E2BIG, "a structure has parts that this library does not know\0"),
    (libc::EAGAIN, "no room now, or a send that has not completed\0"),
    (libc::ENOMEM, "packet memory could not be had or locked\0"),
    (libc::EBUSY, "another thread is in a call, or another program has the queue or the interface\0"),
    (libc::EEXIST, "the filter is there already\0"),
    (libc::ENODEV, "no such interface, or it was removed\0"),
    (libc::EINVAL, "an argument is NULL or out of range\0"),
    (libc::ENOSPC, "the table of filters is full\0"),
    (libc::ERANGE, "no such queue or slot\0"),
    (libc::EBADFD, "a call out of turn: begin before end, one at a time\0"),
    (libc::EMSGSIZE, "a frame or part of one that is too long or too short\0"),
    (libc::ENOTSUP, "the driver, or the port as it was opened, cannot do that\0"),
    (libc::ENETDOWN, "the interface is down\0"),
];

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `text` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_last_error(port: *const Port, text: *mut c_char, size: size_t) -> c_int {
    // Without `handle::call`: another call may be in the port, and a failure here must not replace the text asked for.
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: NULL or a live port, as the caller promises.
        unsafe { port.as_ref() }.map_or_else(fault::last_of_thread, Port::last_error)
    }));
    let Ok(said) = said else { return -libc::EIO };
    // SAFETY: as the caller promises.
    unsafe { put(&said, text, size) }.unwrap_or_else(|fault| -fault.errno)
}

/// See `nearwire.h`.
///
/// # Safety
/// As the crate's list says; `text` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearwire_describe(port: *mut Port, text: *mut c_char, size: size_t) -> c_int {
    // SAFETY: as the caller promises.
    let describe = |state: &mut State| unsafe { put(&with_port!(&state.port, port => port.describe()), text, size) };
    // SAFETY: as the caller promises.
    unsafe { handle::call(port, describe) }
}

/// Writes as much of `said` as there is room for, and a NUL. Gives the whole length.
///
/// # Safety
/// `text` is NULL or has room for `size` bytes.
unsafe fn put(said: &str, text: *mut c_char, size: size_t) -> Result<c_int, Fault> {
    if size > 0 {
        // SAFETY: as the caller promises.
        let room = unsafe { abi::room(text.cast(), size, "text") }?;
        let end = said.len().min(size - 1);
        for (to, from) in room.iter_mut().zip(said.as_bytes()[..end].iter().chain(&[0])) {
            to.write(*from);
        }
    }
    Ok(c_int::try_from(said.len()).unwrap_or(c_int::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_ends_in_one_nul() {
        for (errno, text) in ERRORS {
            assert_eq!(text.find('\0'), Some(text.len() - 1), "{errno}");
        }
        assert!(UNKNOWN.ends_with('\0'));
    }

    #[test]
    fn text_longer_than_its_room_is_cut_and_ends_in_nul() {
        let mut room = [b'x'; 8];
        // SAFETY: the room is as long as said.
        let whole = unsafe { put("a text", room.as_mut_ptr().cast(), 4) }.unwrap();
        assert_eq!((whole, &room), (6, b"a t\0xxxx"));
        // SAFETY: no room is allowed.
        assert_eq!(unsafe { put("a text", std::ptr::null_mut(), 0) }.unwrap(), 6);
        // SAFETY: NULL is refused.
        assert_eq!(unsafe { put("a text", std::ptr::null_mut(), 1) }.unwrap_err().errno, libc::EINVAL);
    }
}

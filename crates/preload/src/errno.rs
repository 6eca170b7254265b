//! The errno of the calling thread.

use libc::c_int;

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

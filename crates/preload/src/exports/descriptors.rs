//! Copying and closing descriptors.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, c_uint};

use crate::calls::{adoption, names};
use crate::errno::fail;
use crate::signals::deferral;
use crate::{cancellation, internal_fd, marks, real};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if internal_fd::is_internal(fd) {
        return names::close_internal(fd);
    }
    let original = || {
        // SAFETY: the caller's, as for the C function.
        let result = unsafe { real::close(fd) };
        if result == 0 {
            internal_fd::note_fd(fd);
        }
        result
    };
    if !marks::is_noted(fd) {
        return original();
    }
    cancellation::point();
    deferral::inside_deep(|| {
        names::closing(fd);
        original()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    adoption::leave(fd);
    deferral::inside_deep(|| {
        // SAFETY: the caller's, as for the C function.
        let copy = unsafe { real::dup(fd) };
        names::copied(fd, copy);
        copy
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if internal_fd::is_internal(new) {
        return fail(libc::EBADF) as c_int;
    }
    deferral::inside_deep(|| {
        names::replacing(old, new, 0);
        // SAFETY: the caller's, as for the C function.
        let copy = unsafe { real::dup2(old, new) };
        names::copied(old, copy);
        copy
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if internal_fd::is_internal(new) {
        return fail(libc::EBADF) as c_int;
    }
    deferral::inside_deep(|| {
        names::replacing(old, new, flags);
        // SAFETY: the caller's, as for the C function.
        let copy = unsafe { real::dup3(old, new, flags) };
        names::copied(old, copy);
        copy
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    deferral::inside_deep(|| unsafe { names::close_range(first, last, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: the caller's, as for the C function.
    deferral::inside_deep(|| unsafe { names::close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) });
}

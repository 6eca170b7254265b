//! Programs that use io_uring: its requests go to the kernel past every function of the C library, so a socket that the
//! library serves would get nothing that is asked for that way. Sockets of such a program are the kernel's.
//!
//! | the program sets a ring up by | we learn by |
//! |---|---|
//! | `syscall(SYS_io_uring_setup)` | the symbol; what is accelerated then is given back |
//! | an instruction in its own text or a library's (liburing) | that text, looked through when a UDP socket is opened or a connection adopted |
//!
//! A library that is loaded when sockets are accelerated already is found when the next one is opened, and not before: dlopen(3) is not
//! exported here, since it looks for libraries as its caller's `RUNPATH` and `$ORIGIN` say, and the caller would be this library. Its
//! own instructions make no call that is seen. Code that is made at run time is not found.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use libc::{c_int, dl_phdr_info, size_t};
use nearwire_socket::program::io_uring::is_set_up_by;

use crate::{marks, state};

/// The program uses it, or could.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Objects that the dynamic linker had loaded at the last look, of all that it ever loaded.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Whether sockets are the kernel's for this reason.
#[inline]
pub fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// A ring was set up, or is used.
#[cold]
pub fn set_up() {
    if !IS_USED.swap(true, Relaxed) && state::is_in_use() {
        // What a parent carries is to be the kernel's too.
        state::with(|sockets| marks::streams().for_each(|fd| _ = sockets.claim_stream(fd)));
        state::with_each(|sockets| sockets.io_uring_used());
    }
}

/// Before a socket is followed: looks through the text of what was loaded since the last time.
pub fn look_for() {
    if is_used() {
        return;
    }
    let mut look = Look { before: LOOKED_AT.load(Relaxed), loaded: 0, finds: false };
    // SAFETY: the function takes what it is given for what it is, and the value lives until the call is over.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut look).cast()) };
    LOOKED_AT.store(look.loaded, Relaxed);
    if look.finds {
        set_up();
    }
}

struct Look {
    before: u64,
    loaded: u64,
    finds: bool,
}

/// One loaded object. Not 0: enough is known.
unsafe extern "C" fn object(info: *mut dl_phdr_info, _: size_t, look: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker gives a live structure, and what `look_for` gave it.
    let (info, look) = unsafe { (&*info, &mut *look.cast::<Look>()) };
    look.loaded = info.dlpi_adds;
    if look.loaded == look.before {
        return 1;
    }
    // SAFETY: the object's own table of segments.
    let segments = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for segment in segments {
        let is_text = segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0;
        if !is_text || segment.p_flags & libc::PF_R == 0 {
            continue;
        }
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr) as usize;
        let text = start..start.wrapping_add(segment.p_filesz as usize);
        // This library asks for calls by number too.
        if text.contains(&(object as *const () as usize)) {
            continue;
        }
        // SAFETY: a segment that is loaded and can be read, which the dynamic linker keeps while this runs.
        let text = unsafe { std::slice::from_raw_parts(start as *const u8, text.len()) };
        look.finds |= is_set_up_by(text);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_io_uring_that_are_looked_through_are_not_said_to_use_it() {
        look_for();
        assert!(!is_used() && LOOKED_AT.load(Relaxed) > 0);
    }
}

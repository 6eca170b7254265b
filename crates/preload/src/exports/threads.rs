//! Threads.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, c_void, pthread_attr_t, pthread_t};

use crate::first_thread;
use crate::real::{self, ThreadStart};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    first_thread::comes();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::pthread_create(thread, attributes, start, argument) }
}

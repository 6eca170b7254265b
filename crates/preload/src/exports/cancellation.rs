//! Cancellation of threads: that of [`crate::cancellation`] under its C name.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, pthread_t};

use crate::cancellation;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's, as for the C function.
    unsafe { cancellation::cancel(thread) }
}

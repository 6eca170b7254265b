//! Functions that install signal handlers: those of [`crate::signals`] under their C names.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_int, sigaction as Action, sighandler_t};

use crate::signals;
use crate::signals::older;

macro_rules! export {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty => $function:path;)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            // SAFETY: the caller's, as for the C function.
            unsafe { $function($($argument),*) }
        })*
    };
}

export! {
    sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int => signals::sigaction;
    __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int => signals::sigaction;
    signal(signal: c_int, handler: sighandler_t) -> sighandler_t => older::signal;
    bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => older::signal;
    ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t => older::signal;
    sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => older::sysv_signal;
    __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => older::sysv_signal;
    siginterrupt(signal: c_int, interrupt: c_int) -> c_int => older::siginterrupt;
    sigset(signal: c_int, handler: sighandler_t) -> sighandler_t => older::sigset;
}

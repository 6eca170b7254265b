//! Processes.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use libc::{c_char, c_int, posix_spawn_file_actions_t};

use crate::calls::process;
use crate::real;

type Strings = *const *const c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    process::before_exec();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execv(path, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    process::before_exec();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execve(path, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    process::before_exec();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execvp(file, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    process::before_exec();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execvpe(file, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    process::before_exec();
    // SAFETY: the caller's, as for the C function.
    unsafe { real::fexecve(fd, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut posix_spawn_file_actions_t,
    fd: c_int,
    new: c_int,
) -> c_int {
    process::passed_by_spawn(fd);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(stay: c_int, keep_streams: c_int) -> c_int {
    // SAFETY: the caller's, as for the C function.
    let result = unsafe { real::daemon(stay, keep_streams) };
    if result == 0 {
        process::became_daemon();
    }
    result
}

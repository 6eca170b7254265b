//! Processes.
#![allow(clippy::missing_safety_doc, reason = "as for the C function of each name")]
#![allow(missing_docs, reason = "each is the C function of its name")]

use std::arch::naked_asm;

use libc::{c_char, c_int, c_ulong, c_void, posix_spawn_file_actions_t};

use crate::calls::process;
use crate::real;
use crate::signals::deferral;
use crate::{timer, wiring};

type Strings = *const *const c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    deferral::inside_deep(process::before_exec);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execv(path, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    deferral::inside_deep(process::before_exec);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execve(path, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    deferral::inside_deep(process::before_exec);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execvp(file, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    deferral::inside_deep(process::before_exec);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::execvpe(file, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    deferral::inside_deep(process::before_exec);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::fexecve(fd, arguments, environment) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut posix_spawn_file_actions_t,
    fd: c_int,
    new: c_int,
) -> c_int {
    deferral::inside_deep(|| process::passed_by_spawn(fd));
    // SAFETY: the caller's, as for the C function.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    process::before_exit();
    loop {
        // SAFETY: the caller's, as for the C function.
        unsafe { real::_exit(status) };
    }
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as in C")]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    process::before_exit();
    loop {
        // SAFETY: the caller's, as for the C function.
        unsafe { real::_Exit(status) };
    }
}

/// Declared with variable arguments in C: those that are not there are not looked at, and have registers in every ABI that is supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(operation: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if operation == libc::PR_SET_SECCOMP {
        timer::forbid();
    }
    // SAFETY: the caller's, as for the C function.
    unsafe { real::prctl(operation, a, b, c, d) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    deferral::inside_deep(wiring::before_new_root);
    // SAFETY: the caller's, as for the C function.
    unsafe { real::chroot(path) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(stay: c_int, keep_streams: c_int) -> c_int {
    deferral::inside_deep(process::about_to_become_daemon);
    // SAFETY: the caller's, as for the C function.
    let result = unsafe { real::daemon(stay, keep_streams) };
    if result == 0 {
        deferral::inside_deep(process::became_daemon);
    }
    result
}

/// Functions with `...` in C. Each is what comes before an exec, and then a jump to the original with all that it was called
/// with: arguments in registers are kept on the way, those on the stack stay where they are.
macro_rules! variadic {
    ($($name:ident by $before:ident;)*) => {
        $(extern "C" fn $before() -> *mut c_void {
            deferral::inside_deep(process::before_exec);
            real::address::$name()
        }

        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> c_int {
            // Seven words keep the stack aligned for the call; `al` counts vector registers, of which there are none.
            naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> c_int {
            naked_asm!(
                "stp x0, x1, [sp, #-80]!", "stp x2, x3, [sp, #16]", "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]", "str x30, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldr x30, [sp, #64]", "ldp x6, x7, [sp, #48]", "ldp x4, x5, [sp, #32]",
                "ldp x2, x3, [sp, #16]", "ldp x0, x1, [sp], #80",
                "br x16",
                before = sym $before,
            )
        })*
    };
}

variadic! {
    execl by before_execl;
    execle by before_execle;
    execlp by before_execlp;
}

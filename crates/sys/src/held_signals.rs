//! Signals that the kernel sends a thread for what it does itself: SIGPIPE for a write that nobody can read, SIGXFSZ for a file that becomes longer
//! than `RLIMIT_FSIZE` lets it. Memory that is shared is such a file too (memfd_create(2)). Both end a program that has not asked for them.
//!
//! Sources: signal(7), `inode_newsize_ok` of fs/attr.c, rt_sigprocmask(2), rt_sigtimedwait(2).

use std::io;

/// Bytes of the kernel's `sigset_t`.
const SET_BYTES: usize = size_of::<u64>();

/// Makes calls for which this thread would get these signals: they fail by their error alone. Signals that waited before still do.
pub fn without<R>(signals: &[libc::c_int], work: impl FnOnce() -> R) -> R {
    let set = signals.iter().fold(0, |set, signal| set | 1_u64 << (signal - 1));
    let waited = pending();
    let before = block(libc::SIG_BLOCK, set);
    let result = work();
    let Ok(before) = before else { return result };
    while pending() & set & !waited != 0 && take(set & !waited) {}
    let _ = block(libc::SIG_SETMASK, before);
    result
}

// These calls are made past the C library, whose symbols are those of the preloaded library where that is loaded.

/// The mask of this thread before.
fn block(how: libc::c_int, set: u64) -> io::Result<u64> {
    let mut before = 0_u64;
    // SAFETY: both sets are live, and as long as is said.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, &raw mut before, SET_BYTES) };
    if result == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
}

fn pending() -> u64 {
    let mut set = 0_u64;
    // SAFETY: the set is live, and as long as is said.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, SET_BYTES) };
    set
}

/// Takes one of these signals, if one waits.
fn take(set: u64) -> bool {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let nowhere = std::ptr::null_mut::<libc::siginfo_t>();
    // SAFETY: set and time are live; what is told of the signal is not wanted.
    let taken =
        unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, &raw const set, nowhere, &raw const none, SET_BYTES) };
    taken > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_that_nobody_can_read_fails_and_what_was_blocked_is_as_before() {
        let blocked = || block(libc::SIG_BLOCK, 0).unwrap();
        let before = blocked();
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        // Rust programs ignore it.
        // SAFETY: no handler is set.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let written = without(&[libc::SIGPIPE], || rustix::io::write(&write, b"x"));
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        assert_eq!(written, Err(rustix::io::Errno::PIPE));
        assert_eq!((blocked(), pending()), (before, 0));
    }
}

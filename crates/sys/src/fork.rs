//! fork(2), for simulations of processes: the child has the memory and the descriptors of the parent as they are.

use std::io;

use rustix::process::Pid;

/// Makes a child; its number, or `None` in the child.
///
/// # Errors
/// `EDEADLK` where the process has other threads: what they hold at this moment nobody would give back in the child. Else as fork(2).
pub fn fork() -> io::Result<Option<Pid>> {
    if std::fs::read_dir("/proc/self/task")?.nth(1).is_some() {
        return Err(io::Error::from_raw_os_error(libc::EDEADLK));
    }
    // SAFETY: there is no other thread, so the child's memory is whole, and it may call whatever this process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_several_threads_is_not_forked() {
        // A test runs beside the thread that waits for it.
        assert_eq!(fork().unwrap_err().raw_os_error(), Some(libc::EDEADLK));
    }
}

//! Whether a capture could kill a process: during a capture the library makes system calls that the program's seccomp filter may
//! punish with death.
//!
//! The kernel does not report what a filter does. A filter that a process shares with its parent is that of a container, which
//! allows these calls or fails them with an error. A filter of the process's own may kill, so the capture is refused.
//!
//! Source: seccomp(2), proc_pid_status(5) (`Seccomp`, `Seccomp_filters`, of Linux 5.9).

use std::fs;

use anyhow::anyhow;

use crate::exit::{CANNOT, Failure};

/// Refuses a process with a seccomp filter that its parent does not have.
pub fn check(pid: i32) -> Result<(), Failure> {
    // That the process is gone is reported later.
    let Ok(own) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(()) };
    let parent = field(&own, "PPid").and_then(|parent| fs::read_to_string(format!("/proc/{parent}/status")).ok());
    if filters(&own) <= parent.map_or(0, |parent| filters(&parent)) {
        return Ok(());
    }
    let error = anyhow!(
        "process {pid} has a seccomp filter of its own: if that kills for memfd_create, ftruncate, fallocate, fcntl, fstat, mmap, munmap \
         or flock, a capture kills the process; if it allows these calls, or fails them with an error, use --despite-seccomp"
    );
    Err(Failure { code: CANNOT, error: Some(error) })
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// How many filters there are; on older kernels only whether there are any.
fn filters(status: &str) -> u64 {
    field(status, "Seccomp_filters").or_else(|| field(status, "Seccomp")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_a_process_are_read_from_its_status() {
        let status = "Name:\tSeccomp_filters: 9\nPPid:\t7\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!((filters(status), field(status, "PPid")), (3, Some(7)));
        assert_eq!((filters("Seccomp:\t2\n"), filters("")), (2, 0));
    }
}

//! Whether a capture could be the death of a process: the library makes system calls then that the program has perhaps
//! sworn not to make.
//!
//! What a filter does nobody can ask. One that a process shares with its parent is that of a container, which allows these
//! calls or answers with an error; one of its own is looked at with suspicion.
//!
//! Source: seccomp(2), proc_pid_status(5) (`Seccomp`, `Seccomp_filters`, of Linux 5.9).

use std::fs;

use anyhow::anyhow;

use crate::exit::{CANNOT, Failure};

/// Refuses a process with a seccomp filter that its parent has not.
pub fn check(pid: i32) -> Result<(), Failure> {
    // A process that is gone is told of later.
    let Ok(own) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(()) };
    let parent = field(&own, "PPid").and_then(|parent| fs::read_to_string(format!("/proc/{parent}/status")).ok());
    if filters(&own) <= parent.map_or(0, |parent| filters(&parent)) {
        return Ok(());
    }
    let error = anyhow!(
        "process {pid} has a seccomp filter of its own: where that kills it for memfd_create, ftruncate, fallocate, fcntl, fstat, \
         mmap, munmap or flock, a capture would; where it allows them, or fails them with an error, --despite-seccomp captures it"
    );
    Err(Failure { code: CANNOT, error: Some(error) })
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// How many filters; of older kernels only whether there are some.
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

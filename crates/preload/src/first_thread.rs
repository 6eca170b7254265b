//! What is done before a program has threads, because it takes long afterwards.
//!
//! Two things that the first UDP socket needs make the kernel wait until every CPU has passed through its scheduler (an RCU
//! grace period of 5 to 20 ms), once the process has a second thread: registering for membarrier(2), which the gate uses
//! (`sync_runqueues_membarrier_state`), and a longer table of fds, in which ours are high (`expand_files`). With
//! one thread both take microseconds. So they are done when the second thread is about to come, whether there will be sockets or not:
//! the price is 64 KiB of kernel memory and about 0.1 ms, once, for programs that have threads.
//!
//! A thread that comes by another way than pthread_create(3) is not seen: the first socket then takes as long as it takes.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::errno::{errno, fail};
use crate::internal_fd;

/// The process in which it is done; a child of fork(2) has a table of its own.
static DONE_IN: AtomicU32 = AtomicU32::new(0);
/// More than `/proc/self/status` holds before the lines that are looked for.
const STATUS_BYTES_MOST: usize = 2048;

/// A thread is about to be made.
#[inline]
pub fn comes() {
    let process = std::process::id();
    if DONE_IN.load(Relaxed) != process && DONE_IN.swap(process, Relaxed) != process {
        let before = errno();
        prepare();
        fail(before);
    }
}

#[cold]
fn prepare() {
    let Ok(mut status) = File::open("/proc/self/status") else { return };
    let mut bytes = [0; STATUS_BYTES_MOST];
    let length = status.read(&mut bytes).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..length]).unwrap_or_default();
    if !is_alone(text) {
        return;
    }
    // Refused, the first socket asks for both again.
    let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    internal_fd::make_room(&status);
}

/// Whether a process has one thread, by its proc_pid_status(5).
fn is_alone(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("Threads:").is_some_and(|threads| threads.trim() == "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_process_with_threads_is_told_from_that_of_one_without() {
        assert!(is_alone("Name:\tone\nThreads:\t1\nSigQ:\t0/1\n"));
        assert!(!is_alone("Name:\tone\nThreads:\t12\nSigQ:\t0/1\n"));
        assert!(!is_alone(""));
    }
}

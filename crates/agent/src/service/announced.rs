//! Sockets whose flows are opened when a call first uses them.
//!
//! A program that binds sockets for others, as the master of a prefork server, never uses them itself: a flow would keep their datagrams from
//! the worker that inherits the socket. Without a flow they would be strangers beside those of workers that are at it ([`super::strangers`]).
//!
//! What one of the programs that have a socket leaves to the kernel is none of these, whoever announces it, until it has a flow again: the
//! kernel's part of the datagrams is read there. A flow would take them from that program, so that only its own process gets one.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::ProgramId;

/// By cookie.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The programs that said so.
    by: HashMap<u64, Vec<ProgramId>>,
    /// Read by the kernel, in these processes, as far as they are known.
    left: HashMap<u64, Vec<u32>>,
}

impl Announced {
    /// All, by cookie.
    pub(super) fn sockets(&self) -> impl Iterator<Item = u64> {
        self.by.keys().chain(self.left.keys()).copied()
    }

    pub(super) fn has(&self, cookie: u64) -> bool {
        self.by.contains_key(&cookie)
    }

    pub(super) fn add(&mut self, cookie: u64, id: ProgramId) {
        if self.left.contains_key(&cookie) {
            return;
        }
        let programs = self.by.entry(cookie).or_default();
        if !programs.contains(&id) {
            programs.push(id);
        }
    }

    /// A process reads the socket by the kernel; `None`: it is not known which.
    pub(super) fn leave_to_kernel(&mut self, cookie: u64, pid: Option<u32>) {
        self.by.remove(&cookie);
        let readers = self.left.entry(cookie).or_default();
        readers.extend(pid.filter(|pid| !readers.contains(pid)));
    }

    /// Another process that reads the socket by the kernel, and lives. A new program that it executes has the socket still.
    pub(super) fn reader_beside(&mut self, cookie: u64, pid: u32) -> Option<u32> {
        let readers = self.left.get_mut(&cookie)?;
        readers.retain(|reader| *reader == pid || has_descriptors(*reader));
        readers.iter().copied().find(|reader| *reader != pid)
    }

    /// The socket has a flow, of this process.
    pub(super) fn has_flow(&mut self, cookie: u64, pid: u32) {
        let is_last = self.left.get_mut(&cookie).is_some_and(|readers| {
            readers.retain(|reader| *reader != pid);
            readers.is_empty()
        });
        if is_last {
            self.left.remove(&cookie);
        }
    }

    pub(super) fn closed(&mut self, cookie: u64) {
        self.by.remove(&cookie);
        self.left.remove(&cookie);
    }

    pub(super) fn program_gone(&mut self, id: ProgramId) {
        self.by.retain(|_, programs| {
            programs.retain(|program| *program != id);
            !programs.is_empty()
        });
    }

    /// How often programs of a user did.
    pub(super) fn count(&self, is_of_user: impl Fn(ProgramId) -> bool) -> usize {
        self.by.values().flatten().filter(|id| is_of_user(**id)).count()
    }
}

/// Whether a process has its descriptors still. One that ends closes them before it is gone, and the agent hears of that at once; one that its
/// parent has not waited for has none.
fn has_descriptors(pid: u32) -> bool {
    let is_there = Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    let has_any = |thread: fs::DirEntry| match fs::read_dir(thread.path().join("fd")) {
        Ok(mut descriptors) => descriptors.next().is_some(),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    };
    is_there && fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |threads| threads.flatten().any(has_any))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn reader_that_ended_unwaited_for_reads_no_more() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, mut announced) = (child.id(), Announced::default());
        announced.leave_to_kernel(7, Some(pid));
        assert_eq!(announced.reader_beside(7, std::process::id()), Some(pid));
        assert_eq!(announced.reader_beside(7, pid), None);
        child.kill().unwrap();
        let begun = std::time::Instant::now();
        while announced.reader_beside(7, std::process::id()).is_some() {
            assert!(begun.elapsed().as_secs() < 10, "a process that was killed counts as a reader");
        }
        assert!(
            Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok()),
            "nobody waited for it"
        );
        child.wait().unwrap();
    }
}

//! Sockets whose flows are opened when a call first uses them.
//!
//! A program that binds sockets for others, as the master of a prefork server, never uses them itself: a flow would keep their datagrams from
//! the worker that inherits the socket. Without a flow they would be strangers beside those of workers that are at it ([`super::strangers`]).
//!
//! What one of the programs that have a socket leaves to the kernel is none of these, whoever announces it, until it has a flow again: the
//! kernel's part of the datagrams is read there. A flow would take them from that program, so that only its own process gets one.

use std::collections::HashMap;

use super::ProgramId;
use crate::holders::has_descriptors;
use crate::ports::Ports;
use crate::shadow::Shadow;

/// By cookie.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The programs that said so.
    by: HashMap<u64, Vec<ProgramId>>,
    /// Read by the kernel.
    left: HashMap<u64, Readers>,
}

/// Processes that read a socket by the kernel, as far as they are known.
#[derive(Debug, Default)]
struct Readers {
    inode: u64,
    pids: Vec<u32>,
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
    pub(super) fn leave_to_kernel(&mut self, shadow: &Shadow, pid: Option<u32>) {
        self.by.remove(&shadow.cookie);
        let Readers { inode, pids } = self.left.entry(shadow.cookie).or_default();
        *inode = shadow.inode;
        pids.extend(pid.filter(|pid| !pids.contains(pid)));
    }

    /// Another process that reads the socket by the kernel, and lives. A new program that it executes has the socket still, and so do children of
    /// that one, of which nobody tells: when a reader is there no more, all processes are looked at.
    pub(super) fn reader_beside(&mut self, ports: &impl Ports, cookie: u64, pid: u32) -> Option<u32> {
        let Readers { inode, pids } = self.left.get_mut(&cookie)?;
        let before = pids.len();
        pids.retain(|reader| *reader == pid || has_descriptors(*reader));
        if pids.len() < before {
            pids.extend(ports.holders_of(*inode).into_iter().filter(|holder| *holder != pid));
        }
        pids.iter().copied().find(|reader| *reader != pid)
    }

    /// The socket has a flow, of this process.
    pub(super) fn has_flow(&mut self, cookie: u64, pid: u32) {
        let is_last = self.left.get_mut(&cookie).is_some_and(|Readers { pids, .. }| {
            pids.retain(|reader| *reader != pid);
            pids.is_empty()
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

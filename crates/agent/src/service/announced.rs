//! Sockets whose flows are opened when a call first uses them.
//!
//! A program that binds sockets for others, as the master of a prefork server, never uses them itself: a flow would keep their datagrams from
//! the worker that inherits the socket. Without a flow they would be strangers beside those of workers that are at it ([`super::strangers`]).
//!
//! What one of the programs that have a socket leaves to the kernel is none of these, whoever announces it, until it has a flow again: the
//! kernel's part of the datagrams is read there.

use std::collections::{HashMap, HashSet};

use super::ProgramId;

/// By cookie.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The programs that said so.
    by: HashMap<u64, Vec<ProgramId>>,
    /// Read by the kernel.
    left: HashSet<u64>,
}

impl Announced {
    /// All, by cookie.
    pub(super) fn sockets(&self) -> impl Iterator<Item = u64> {
        self.by.keys().chain(&self.left).copied()
    }

    pub(super) fn has(&self, cookie: u64) -> bool {
        self.by.contains_key(&cookie)
    }

    pub(super) fn add(&mut self, cookie: u64, id: ProgramId) {
        if self.left.contains(&cookie) {
            return;
        }
        let programs = self.by.entry(cookie).or_default();
        if !programs.contains(&id) {
            programs.push(id);
        }
    }

    /// A program reads the socket by the kernel.
    pub(super) fn leave_to_kernel(&mut self, cookie: u64) {
        self.by.remove(&cookie);
        self.left.insert(cookie);
    }

    /// The socket has a flow.
    pub(super) fn has_flow(&mut self, cookie: u64) {
        self.left.remove(&cookie);
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

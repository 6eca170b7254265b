//! Sockets whose flows are opened when a call first uses them.
//!
//! A program that binds sockets for others, as the master of a prefork server, never uses them itself: a flow would keep their datagrams from
//! the worker that inherits the socket. Without a flow they would be strangers beside those of workers that are at it ([`super::strangers`]).

use std::collections::HashMap;

use super::ProgramId;

/// By cookie, who said so: the programs that have the socket.
#[derive(Debug, Default)]
pub(super) struct Announced(HashMap<u64, Vec<ProgramId>>);

impl Announced {
    pub(super) fn has(&self, cookie: u64) -> bool {
        self.0.contains_key(&cookie)
    }

    pub(super) fn add(&mut self, cookie: u64, id: ProgramId) {
        let programs = self.0.entry(cookie).or_default();
        if !programs.contains(&id) {
            programs.push(id);
        }
    }

    pub(super) fn remove(&mut self, cookie: u64, id: ProgramId) {
        self.0.retain(|known, programs| {
            programs.retain(|program| (*known, *program) != (cookie, id));
            !programs.is_empty()
        });
    }

    pub(super) fn closed(&mut self, cookie: u64) {
        self.0.remove(&cookie);
    }

    pub(super) fn program_gone(&mut self, id: ProgramId) {
        self.0.retain(|_, programs| {
            programs.retain(|program| *program != id);
            !programs.is_empty()
        });
    }

    /// How often programs of a user did.
    pub(super) fn count(&self, is_of_user: impl Fn(ProgramId) -> bool) -> usize {
        self.0.values().flatten().filter(|id| is_of_user(**id)).count()
    }
}

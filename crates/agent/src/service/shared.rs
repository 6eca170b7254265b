//! Sockets that several programs use: the kernel serves them all, until one of them is left.
//!
//! Servers that are told to start anew have old and new workers at one socket until the old ones end, and then the new ones for days. A program that
//! may read a socket unknown to the agent ([`Request::Release`](crate::message::Request::Release), [`Request::Announce`](crate::message::Request::Announce))
//! leaves it to the others when its process has ended ([`super::announced`]).

use std::collections::HashMap;

use super::ProgramId;

/// A program that asked for the flow of such a socket, and the share that was to have it.
pub(super) type User = (ProgramId, u32);

/// By cookie.
#[derive(Debug, Default)]
pub(super) struct SharedSockets(HashMap<u64, Vec<User>>);

impl SharedSockets {
    /// All, by cookie.
    pub(super) fn sockets(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    pub(super) fn add(&mut self, cookie: u64, user: User) {
        let users = self.0.entry(cookie).or_default();
        if !users.iter().any(|(program, _)| *program == user.0) {
            users.push(user);
        }
    }

    /// Another program that uses it.
    pub(super) fn user_beside(&self, cookie: u64, id: ProgramId) -> Option<ProgramId> {
        self.0.get(&cookie)?.iter().map(|(program, _)| *program).find(|program| *program != id)
    }

    /// It was closed, or its last user has the flow.
    pub(super) fn forget(&mut self, cookie: u64) {
        self.0.remove(&cookie);
    }

    /// The sockets that one program is left at, and that program. `is_read_beside`: whether a process beside a program reads a socket by the kernel.
    pub(super) fn program_gone(
        &mut self,
        id: ProgramId,
        mut is_read_beside: impl FnMut(u64, ProgramId) -> bool,
    ) -> Vec<(u64, User)> {
        let mut left = Vec::new();
        self.0.retain(|cookie, users| {
            let before = users.len();
            users.retain(|(program, _)| *program != id);
            if users.len() == before {
                // One that is alone here has a process beside it that reads the socket by the kernel.
                return true;
            }
            if let [last] = users[..]
                && !is_read_beside(*cookie, last.0)
            {
                // It uses the socket by the kernel until it asks for a flow: nobody else gets one before.
                left.push((*cookie, last));
            }
            !users.is_empty()
        });
        left
    }
}

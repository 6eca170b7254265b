//! poll(2) and select(2) over accelerated sockets and the kernel's descriptors.
//!
//! A program's list is split: accelerated sockets are answered from their state here, all others by the
//! kernel's poll(2); the two answers are merged into the program's list. [`select`] makes a list of
//! `struct pollfd` of three bit sets and bit sets of the answer, so there is one way to wait.
//!
//! Source: `fs/select.c` (`do_pollfd`, `do_select`), poll(2), select(2).

pub mod select;
#[cfg(test)]
mod tests;

use libc::pollfd;

use crate::SocketId;
use crate::epoll::Events;

/// The two parts of a program's list. Keep it and fill it again: then it allocates only when a list is
/// longer than any before.
#[derive(Debug, Default)]
pub struct PollSplit {
    /// Place in the program's list, and the socket.
    ours: Vec<(u32, SocketId)>,
    kernel: Vec<pollfd>,
    /// Place in the program's list of each entry of `kernel`.
    kernel_at: Vec<u32>,
}

impl PollSplit {
    /// Splits a list. `lookup` knows the accelerated socket behind a descriptor. Entries with a negative
    /// descriptor belong to neither part.
    pub fn fill(&mut self, fds: &[pollfd], mut lookup: impl FnMut(i32) -> Option<SocketId>) {
        self.ours.clear();
        self.kernel.clear();
        self.kernel_at.clear();
        for (at, entry) in (0..).zip(fds) {
            if entry.fd < 0 {
                continue;
            }
            if let Some(socket) = lookup(entry.fd) {
                self.ours.push((at, socket));
            } else {
                self.kernel.push(pollfd { revents: 0, ..*entry });
                self.kernel_at.push(at);
            }
        }
    }

    /// Whether an accelerated socket is in the list; if none is, the kernel alone can answer.
    #[must_use]
    pub fn has_ours(&self) -> bool {
        !self.ours.is_empty()
    }

    /// What the kernel's poll(2) is to be called with; empty where all sockets are accelerated. The caller
    /// may append descriptors of its own to wait for; [`PollSplit::merge`] does not look at them.
    pub fn kernel(&mut self) -> &mut Vec<pollfd> {
        &mut self.kernel
    }

    /// Whether an accelerated socket of the list has something to report: for a loop that waits.
    #[must_use]
    pub fn is_any_ready(&self, fds: &[pollfd], mut state: impl FnMut(SocketId) -> Events) -> bool {
        self.ours.iter().any(|&(at, socket)| revents(fds[at as usize].events, state(socket)) != 0)
    }

    /// Writes `revents` of every entry of the program's list, which must be the one this was filled from;
    /// the number of entries with something to report, which is what poll(2) returns.
    pub fn merge(&self, fds: &mut [pollfd], mut state: impl FnMut(SocketId) -> Events) -> usize {
        for entry in fds.iter_mut() {
            entry.revents = 0;
        }
        for (&at, answer) in self.kernel_at.iter().zip(&self.kernel) {
            fds[at as usize].revents = answer.revents;
        }
        for &(at, socket) in &self.ours {
            let entry = &mut fds[at as usize];
            entry.revents = revents(entry.events, state(socket));
        }
        fds.iter().filter(|entry| entry.revents != 0).count()
    }
}

/// What poll(2) reports of a socket in state `state` to who asked for `events`: what was asked for, and
/// errors and hang-ups always.
#[must_use]
pub fn revents(events: i16, state: Events) -> i16 {
    let asked = events | Events::ALWAYS.bits() as i16;
    state.bits() as i16 & asked
}

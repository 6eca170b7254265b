//! The open file that fds of the program name: how long it lives, and who waits at it.

use std::os::fd::OwnedFd;

use nearwire_sys::descriptor::{Descriptor, inode_of};

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// How many fds name it.
    pub(crate) fds: u32,
    /// O_NONBLOCK, which belongs to the open file and not to the fd.
    pub(crate) is_nonblocking: bool,
    /// Calls that wait at it, in the order in which they began to: it lives until they end, whichever fds are closed.
    tickets: Vec<u32>,
    next_ticket: u32,
    /// The shadow's fd when the program has closed all of its own.
    pub(crate) kept_open: Option<OwnedFd>,
    /// No two sockets have the same. 0: the kernel did not report it.
    pub(crate) inode: u64,
}

impl OpenFile {
    pub(super) fn new(shadow: Descriptor, is_nonblocking: bool) -> OpenFile {
        OpenFile {
            fds: 1,
            is_nonblocking,
            tickets: Vec::new(),
            next_ticket: 0,
            kept_open: None,
            inode: inode_of(shadow).unwrap_or(0),
        }
    }

    /// A call begins to wait at it; what [`OpenFile::release`] is to be told.
    pub(crate) fn hold(&mut self) -> u32 {
        let ticket = self.next_ticket;
        self.next_ticket = ticket.wrapping_add(1);
        self.tickets.push(ticket);
        ticket
    }

    /// The call ends.
    pub(crate) fn release(&mut self, ticket: u32) {
        self.tickets.retain(|other| *other != ticket);
    }

    /// Whether calls wait at it.
    pub(crate) const fn is_held(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Whether nothing needs it any more.
    pub(crate) const fn is_over(&self) -> bool {
        self.fds == 0 && !self.is_held()
    }

    /// Whether another call waits at it for longer than the one with this ticket.
    #[inline]
    pub(crate) fn is_behind(&self, ticket: u32) -> bool {
        self.tickets.first().is_some_and(|first| *first != ticket)
    }
}

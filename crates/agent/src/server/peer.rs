//! One connection of the agent's.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;

use crate::connection::{Connection, Packet};
use crate::service::Caller;

/// As many packets wait for a program to read. It has one answer and its events; more pile up only where it does not read.
const WAITING_MOST: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    Ungreeted { until: Instant },
    Served,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) caller: Caller,
    pub(super) state: State,
    /// What the epoll set looks for.
    pub(super) watched: epoll::EventFlags,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

/// The program is gone or does not read.
#[derive(Debug)]
pub(super) struct Lost;

impl Peer {
    pub(super) fn new(connection: Connection, caller: Caller, until: Instant) -> Peer {
        let (state, watched) = (State::Ungreeted { until }, epoll::EventFlags::IN);
        Peer { connection, caller, state, watched, waiting: VecDeque::new() }
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends, or keeps what finds no room.
    pub(super) fn send(&mut self, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) -> Result<(), Lost> {
        self.waiting.push_back((bytes, descriptors));
        self.flush()?;
        if self.waiting.len() > WAITING_MOST { Err(Lost) } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        while let Some((bytes, descriptors)) = self.waiting.front() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match self.connection.send(bytes, &descriptors) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Lost),
            }
        }
        Ok(())
    }

    /// The next packet, if there is one; an empty one at the end.
    pub(super) fn receive(&self) -> Result<Option<Packet>, Lost> {
        match self.connection.receive() {
            Ok(packet) => Ok(Some(packet)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(_) => Err(Lost),
        }
    }
}

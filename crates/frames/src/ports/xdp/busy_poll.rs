//! Busy polling: an empty look runs the driver's receive path in the process's own time, instead of waiting for an interrupt's.
//!
//! The host decides what it is worth: with `napi_defer_hard_irqs` and `gro_flush_timeout` set the device raises no interrupt
//! while somebody polls; without them it polls beside the interrupts.
//!
//! Each poll is a system call and a round of the driver, so with several queues not every look polls all: the queue that had the last
//! frame is polled at each look, the others in turn.
//!
//! Source: `Documentation/networking/napi.rst`, `net/xdp/xsk.c` (`__xsk_recvmsg`, `__xsk_sendmsg`), `net/core/sock.c`.

use std::io;
use std::os::fd::BorrowedFd;

use nearwire_sys::socket::{set_busy_poll_budget_packets, set_busy_poll_us, set_prefer_busy_poll};

use super::{Receiver, XdpMode, XdpPort};
use crate::PortError;

/// Frames of one round: what drivers take in one of their own (`NAPI_POLL_WEIGHT`).
const BUDGET_PACKETS: u16 = 64;
/// Looks in which one of the other queues has its turn.
const LOOKS_PER_TURN: u32 = 4;

/// The queues that one look polls.
pub(super) struct Polled {
    last: usize,
    turn: Option<usize>,
}

impl Polled {
    #[inline]
    pub(super) fn includes(&self, at: usize) -> bool {
        at == self.last || self.turn == Some(at)
    }
}

/// Sets the options of sockets; 0 ends it.
pub(super) fn poll_busily<'fd>(sockets: impl Iterator<Item = BorrowedFd<'fd>>, busy_poll_us: u32) -> io::Result<()> {
    let polls = busy_poll_us > 0;
    for socket in sockets {
        set_prefer_busy_poll(socket, polls)?;
        set_busy_poll_us(socket, busy_poll_us)?;
        if polls {
            set_busy_poll_budget_packets(socket, BUDGET_PACKETS)?;
        }
    }
    Ok(())
}

impl XdpPort {
    /// Has empty looks poll the device's queues for up to `busy_poll_us`, in the process's own time instead of an
    /// interrupt's: for drivers with NAPI, whose interrupts `nic.napi-defer-hard-irqs` and `nic.gro-flush-timeout-ns` hold
    /// back. 0 ends it.
    ///
    /// # Errors
    /// The kernel refused the socket options, for want of CAP_NET_ADMIN.
    pub fn set_busy_poll(&mut self, busy_poll_us: u32) -> Result<(), PortError> {
        let polls = busy_poll_us > 0;
        // Of a zero-copy socket the driver's rounds send too. In copy mode a send needs none.
        let sender = (self.config.mode == XdpMode::ZeroCopy).then(|| self.sender.socket());
        poll_busily(self.receivers.iter().map(Receiver::socket).chain(sender), busy_poll_us)
            .map_err(|source| PortError::refused("set busy polling", &self.config.interface, source))?;
        self.busy_polls = polls;
        for sender in std::iter::once(&mut self.sender).chain(&mut self.other_senders) {
            sender.set_polls(polls);
        }
        self.decide_acts_when_empty();
        Ok(())
    }

    /// Which queues this empty look polls.
    #[inline]
    pub(super) fn polled_now(&self) -> Polled {
        let turns = self.empty_looks / LOOKS_PER_TURN;
        let has_turn = self.empty_looks.is_multiple_of(LOOKS_PER_TURN);
        Polled { last: self.last, turn: has_turn.then(|| turns as usize % self.receivers.len()) }
    }

    /// For people, behind what a port is.
    pub(super) fn busy_poll_in_words(&self) -> String {
        match &self.no_busy_poll {
            Some(why) => format!(", without busy polling: {why}"),
            None if self.busy_polls => ", busy polling".to_owned(),
            None => String::new(),
        }
    }
}

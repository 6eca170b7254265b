//! Several threads that send by one port: a TX queue each, that is a ring of its own, and kicks that are made when the
//! port is no longer at hand.
//!
//! In copy mode the kernel does all of a frame's way within the kick, so threads that made theirs one after the other,
//! behind a lock, would send no faster than one. The kernel has a lock a socket too (`xs->mutex`, `net/xdp/xsk.c`):
//! threads on one TX queue wait for one another there, and not while they are in the port.
//!
//! Shares of the port ([`XdpPort::share`]) have TX rings of their own beside these.

use super::kick::{Kick, Kicked};
use super::send::Sender;
use super::{XdpPort, gone};
use crate::PortError;

#[inline]
fn pick<'s>(first: &'s mut Sender, others: &'s mut [Sender], tx_queue: usize) -> &'s mut Sender {
    match tx_queue.checked_sub(1).and_then(|other| others.get_mut(other)) {
        Some(sender) => sender,
        None => first,
    }
}

impl XdpPort {
    /// How many TX queues there are: one, and with [`tx_queues`](super::XdpConfig::tx_queues) one for each receive queue. The first
    /// is that of [`crate::Port::queue`].
    #[inline]
    #[must_use]
    pub fn tx_queues(&self) -> usize {
        1 + self.other_senders.len()
    }

    #[inline]
    fn sender_of(&mut self, tx_queue: usize) -> &mut Sender {
        pick(&mut self.sender, &mut self.other_senders, tx_queue)
    }

    /// As [`crate::Port::queue_with`], on a TX queue; the first for one that there is not.
    ///
    /// # Errors
    /// The frame has a length that the interface does not take.
    #[inline]
    pub fn queue_on(
        &mut self,
        tx_queue: usize,
        len_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, PortError> {
        self.limits.check_length(len_bytes)?;
        let XdpPort { limits, sender, other_senders, .. } = self;
        pick(sender, other_senders, tx_queue).queue_with(len_bytes, |buffer| {
            write(buffer);
            limits.check(buffer)
        })
    }

    /// As [`crate::Port::flush`], of a TX queue.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn flush_on(&mut self, tx_queue: usize) -> Result<(), PortError> {
        let flushed = self.sender_of(tx_queue).flush();
        flushed.map_err(|source| gone(self.config.sending_interface(), source))
    }

    /// Shows the kernel what is queued on a TX queue, and gives the kick that has it sent. `None`: nothing is queued, or the
    /// driver sees it without one.
    #[inline]
    pub fn submit_on(&mut self, tx_queue: usize) -> Option<Kick> {
        self.sender_of(tx_queue).submit()
    }

    /// Takes note of what came of a kick, if it was one of this port: not one of a port that was on the same interface before,
    /// whose failure says nothing of this one.
    ///
    /// # Errors
    /// The kick failed: the interface is gone, or down.
    pub fn kicked(&mut self, kicked: Kicked) -> Result<(), PortError> {
        let mut senders = std::iter::once(&mut self.sender).chain(&mut self.other_senders);
        let Some(sender) = senders.find(|sender| sender.has_socket(&kicked.socket)) else { return Ok(()) };
        sender.refused(kicked.refused_frames);
        if kicked.is_unfinished {
            sender.unfinished();
        }
        match kicked.failed {
            Some(source) => Err(gone(self.config.sending_interface(), source)),
            None => Ok(()),
        }
    }
}

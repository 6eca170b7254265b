//! Several threads that send by one port: a TX queue each, that is a ring of its own, and kicks that are made when the
//! port is no longer at hand.
//!
//! In copy mode the kernel does all of a frame's way within the kick, so threads that made theirs one after the other,
//! behind a lock, would send no faster than one. The kernel has a lock a socket too (`xs->mutex`, `net/xdp/xsk.c`):
//! threads on one TX queue wait for one another there, and not while they are in the port.
//!
//! Shares of the port ([`XdpPort::share`]) have TX rings of their own beside these.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use super::queue::Queue;
use super::send::{KICKS_MOST, Sender, Took, kick};
use super::{XdpPort, gone};
use crate::PortError;

/// The system call that has the kernel take what a TX queue shows it.
#[derive(Debug)]
pub struct Kick {
    /// Open as long as the kick: the number cannot become that of another socket, even when the port is closed. There until the
    /// kick is dropped.
    socket: Option<Arc<OwnedFd>>,
    /// Where senders take turns.
    queue: Option<Arc<Queue>>,
}

impl Drop for Kick {
    /// Where the port was closed meanwhile the kick is the last to have the socket, which keeps the queue busy while it is open.
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().and_then(Arc::into_inner) {
            nearwire_sys::descriptor::close(socket);
        }
    }
}

/// What came of a kick.
#[derive(Debug)]
#[must_use]
pub struct Kicked {
    /// Which was kicked, by its place in memory, which no other gets as long as this is here. It does not keep the socket open.
    socket: Weak<OwnedFd>,
    refused_frames: u64,
    /// The kernel may not have taken all.
    is_unfinished: bool,
    failed: Option<io::Error>,
}

impl Kick {
    #[inline]
    pub(super) fn new(socket: &Arc<OwnedFd>, queue: &Arc<Queue>) -> Kick {
        Kick { socket: Some(Arc::clone(socket)), queue: queue.takes_turns().then(|| Arc::clone(queue)) }
    }

    /// Makes it. `None`: all is sent, and nothing is left to be passed to [`XdpPort::kicked`].
    #[inline]
    pub fn make(self) -> Option<Kicked> {
        let socket = self.socket.as_ref()?;
        let kicked = |refused_frames, is_unfinished, failed| {
            Some(Kicked { socket: Arc::downgrade(socket), refused_frames, is_unfinished, failed })
        };
        let mut refused_frames = 0;
        for _ in 0..KICKS_MOST {
            match kick(socket, self.queue.as_deref()) {
                Ok(Took::All) if refused_frames == 0 => return None,
                Ok(Took::All) => return kicked(refused_frames, false, None),
                Ok(Took::Part) => {}
                Ok(Took::PartAndDroppedOne) => refused_frames += 1,
                Err(source) => return kicked(refused_frames, false, Some(source)),
            }
        }
        kicked(refused_frames, true, None)
    }
}

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

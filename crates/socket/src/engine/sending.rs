//! Datagrams leave: into a port's ring, and by a kick.

use nearwire_frames::capture::Direction;
use nearwire_frames::{EnginePort, PortKick};
use nearwire_stack::{EndpointId, Message, NeedsKernel};

use super::Engine;
use crate::host::Host;
use crate::now::Now;
use crate::reason::Reason;
use crate::status::Counter;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the port's ring.
    Queued,
    /// The original call has to be made on the shadow.
    Kernel(NeedsKernel),
    /// The port has no room, even after a kick.
    Full,
}

/// A kick of one of the engine's ports, to be made when nobody is kept out.
pub struct EngineKick<P: EnginePort> {
    ifindex: u32,
    kick: P::Kick,
}

/// What came of it.
pub struct EngineKicked<P: EnginePort> {
    ifindex: u32,
    kicked: <P::Kick as PortKick>::Kicked,
}

impl<P: EnginePort> EngineKick<P> {
    /// Makes it. `None`: all is sent; else it is to be passed to [`Engine::kicked`].
    #[inline]
    #[must_use]
    pub fn make(self) -> Option<EngineKicked<P>> {
        let kicked = self.kick.make()?;
        Some(EngineKicked { ifindex: self.ifindex, kicked })
    }
}

impl<H: Host> Engine<H> {
    /// Puts a datagram into its port's ring; [`Engine::flush`] has it sent.
    #[inline]
    pub fn send(&mut self, now: Now, endpoint: EndpointId, message: &Message<'_>) -> Sent {
        self.warming.sends(endpoint);
        match self.queue(now, endpoint, message) {
            Sent::Kernel(NeedsKernel::PathUnknown) if self.answer_path_question(now) => {
                self.queue(now, endpoint, message)
            }
            sent => sent,
        }
    }

    #[inline]
    fn queue(&mut self, now: Now, endpoint: EndpointId, message: &Message<'_>) -> Sent {
        let Engine { stack, interfaces, page, tx_queue, capture, .. } = self;
        let outgoing = match stack.udp_send(endpoint, message) {
            Ok(outgoing) => outgoing,
            Err(reason) => return Sent::Kernel(reason),
        };
        let (port, len_bytes) = (outgoing.port(), outgoing.len_bytes());
        let Some(attached) = interfaces.by_port(port) else { return Sent::Kernel(NeedsKernel::NoPort) };
        if attached.failed.is_some() {
            return Sent::Kernel(NeedsKernel::NoPort);
        }
        let queues = attached.port.tx_queues();
        let tx_queue = if *tx_queue < queues { *tx_queue } else { *tx_queue % queues };
        attached.unsent_queues |= 1 << tx_queue;
        let ifindex = attached.ifindex;
        match attached.port.queue_on(tx_queue, len_bytes, |frame| {
            outgoing.write(frame);
            if let Some(capture) = capture {
                capture.record(now, ifindex, Direction::Outbound, frame);
            }
        }) {
            Ok(true) => {
                page.count(Counter::FramesSent, 1);
                Sent::Queued
            }
            Ok(false) => Sent::Full,
            Err(_) => Sent::Kernel(NeedsKernel::NoPort),
        }
    }

    /// Has the kernel send what is queued.
    #[inline]
    pub fn flush(&mut self) {
        for attached in self.interfaces.attached.iter_mut().filter(|attached| attached.unsent_queues != 0) {
            while attached.unsent_queues != 0 {
                let tx_queue = attached.unsent_queues.trailing_zeros() as usize;
                attached.unsent_queues &= attached.unsent_queues - 1;
                self.page.count(Counter::Kicks, 1);
                if let Err(error) = attached.port.flush_on(tx_queue) {
                    attached.failed = Some(Reason::of_failure(&error));
                    self.has_failed = true;
                }
            }
        }
    }

    /// The TX queue that is sent on from now on; any number, of which there may be more than TX queues.
    #[inline]
    pub(crate) fn set_tx_queue(&mut self, tx_queue: usize) {
        self.tx_queue = tx_queue;
    }

    /// As [`Engine::flush`], with one kick left to the caller, for when it keeps nobody out.
    pub fn flush_but_one(&mut self) -> Option<EngineKick<H::Port>> {
        let attached = self.interfaces.attached.iter_mut().find(|attached| attached.unsent_queues != 0);
        let kick = attached.and_then(|attached| {
            let tx_queue = attached.unsent_queues.trailing_zeros() as usize;
            attached.unsent_queues &= attached.unsent_queues - 1;
            let kick = attached.port.submit_on(tx_queue)?;
            self.page.count(Counter::Kicks, 1);
            Some(EngineKick { ifindex: attached.ifindex, kick })
        });
        self.flush();
        kick
    }

    /// Takes note of what came of a kick.
    pub fn kicked(&mut self, done: EngineKicked<H::Port>) {
        let port = self.interfaces.attached.iter_mut().find(|attached| attached.ifindex == done.ifindex);
        // One that was closed meanwhile has nothing to be told, nor has the one that was opened after it.
        let Some(attached) = port else { return };
        if let Err(error) = attached.port.kicked(done.kicked) {
            attached.failed = Some(Reason::of_failure(&error));
            self.has_failed = true;
        }
    }
}

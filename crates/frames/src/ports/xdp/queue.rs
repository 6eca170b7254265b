//! What all sockets of a queue have in common: the memory, the fill ring and the completion ring.
//!
//! The kernel has one fill ring and one completion ring for all sockets of a queue (`xp_assign_dev` in `net/xdp/xsk_buff_pool.c` gives a queue one
//! pool). Ports that share the queue, of whatever process, use them without a lock ([`super::shared_ring`]): a signal handler may receive by one share in
//! the middle of another's turn, a thread may be stopped there, and a process may be killed.
//!
//! A port without shares fills the ring alone ([`OwnFill`]), without exchanges and without marks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::xdp::{XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets};

use super::control::Control;
use super::rings::{AddressRing, ProducerRing, RingSpec};
use super::shared_ring::SharedRing;
use super::turn::{self, Turn};
use super::umem::Umem;

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    fill: AddressRing,
    completion: AddressRing,
    /// Senders kick one at a time.
    takes_turns: bool,
    memory: Arc<Umem>,
}

/// Slots of a queue's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueSlots {
    pub fill: u32,
    pub completion: u32,
}

impl Queue {
    /// Maps the rings of the queue that `socket` is bound to, or will be.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: &XdpMmapOffsets,
        slots: QueueSlots,
        memory: Arc<Umem>,
    ) -> io::Result<Queue> {
        let spec = |page_offset, offsets, slots| RingSpec::of(socket, page_offset, offsets, slots);
        let fill = AddressRing::map(&spec(XDP_UMEM_PGOFF_FILL_RING, offsets.fr, slots.fill))?;
        let completion = AddressRing::map(&spec(XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, slots.completion))?;
        let takes_turns = memory.control().layout().senders > 1 && turn::are_needed();
        Ok(Queue { fill, completion, takes_turns, memory })
    }

    pub(super) fn memory(&self) -> &Arc<Umem> {
        &self.memory
    }

    pub(super) fn control(&self) -> &Control {
        self.memory.control()
    }

    #[inline]
    pub(super) fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    /// Waits for the turn to kick a socket of the queue, where there are turns.
    #[inline]
    pub(super) fn turn(&self) -> Option<Turn<'_>> {
        self.takes_turns.then(|| Turn::take(self.control().turn()))
    }

    /// The driver ran out of buffers and waits to be told that there are some.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }

    /// The fill ring as its users see it.
    #[inline]
    pub(super) fn fill_ring(&self) -> SharedRing<'_> {
        self.fill.shared()
    }

    /// Gives receive buffers to the kernel, where several do so.
    #[inline]
    pub(super) fn fill(&self, buffers: &[u64]) {
        self.fill.shared().fill(buffers, self.control());
    }

    /// Records all buffers that the kernel has sent. A sender that wants to use one again first checks whether it is free, and calls this
    /// afterwards ([`super::shared_ring`]).
    #[inline]
    pub(super) fn drain_completions(&self) {
        self.completion.shared().empty(self.control());
    }
}

/// The fill ring, for a port that is alone with it.
#[derive(Debug)]
pub(super) struct OwnFill {
    ring: ProducerRing<u64>,
    queue: Arc<Queue>,
}

impl OwnFill {
    pub(super) fn new(queue: &Arc<Queue>) -> OwnFill {
        OwnFill { ring: queue.fill.alone(), queue: Arc::clone(queue) }
    }

    #[inline]
    pub(super) fn ring(&mut self) -> &mut ProducerRing<u64> {
        &mut self.ring
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Others may fill it too from now on.
    pub(super) fn into_shared(mut self) -> Arc<Queue> {
        self.ring.submit();
        self.queue.fill.shared().begin_sharing();
        self.queue
    }
}

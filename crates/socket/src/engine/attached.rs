//! An interface with a port.

use nearwire_frames::ports::xdp::{TimesWanted, XdpMode};
use nearwire_frames::{EnginePort, PortError};
use nearwire_stack::{PortId, ReceiveChecksum};

use crate::host::Offloads;
use crate::reason::Reason;

/// An interface with a port.
pub struct Attached<P> {
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// The port.
    pub port: P,
    /// The port in words, kept because a capture that begins must not allocate.
    pub(super) description: String,
    /// The port's name in the stack.
    pub(super) port_id: PortId,
    /// A bit for each TX queue on which frames are queued that no kick was made for.
    pub(super) unsent_queues: u64,
    /// It can no more, and why.
    pub(super) failed: Option<Reason>,
    pub(super) told_dropped_frames: u64,
    /// What [`EnginePort::too_long_segments`] was when connections were last released for it.
    pub(super) seen_too_long: u64,
    /// Received when it was last asked whether it receives.
    pub(super) checked_frames: u64,
    pub(super) is_veth: bool,
    /// The kernel has had its frames before.
    pub(super) is_generic: bool,
    /// Of the interface, when the port was opened.
    pub(super) offloads: Offloads,
}

impl<P: EnginePort> Attached<P> {
    pub(super) fn new(ifindex: u32, name: &str, is_veth: bool, port: P, port_id: PortId) -> Attached<P> {
        Attached {
            ifindex,
            name: name.to_owned(),
            description: port.describe(),
            is_generic: port.about().mode == XdpMode::Generic.name(),
            port,
            port_id,
            unsent_queues: 0,
            failed: None,
            told_dropped_frames: 0,
            seen_too_long: 0,
            checked_frames: 0,
            is_veth,
            offloads: Offloads::default(),
        }
    }

    /// Why a socket cannot have a flow of the port. One whose holder is gone can no more.
    pub(super) fn refused_flow(&mut self, error: &PortError) -> Reason {
        if matches!(error, PortError::HolderGone { .. }) {
            self.failed.get_or_insert(Reason::of_failure(error));
        }
        Reason::of_port(error)
    }

    /// Has the port's frames carry times, which its words tell too.
    pub(super) fn want_times(&mut self, wanted: TimesWanted) {
        self.port.want_times(wanted);
        self.description = self.port.describe();
    }

    /// A sender on this machine leaves the checksum to its card, and the peer of a veth pair is such a sender: what
    /// arrives has the sum of the pseudo header alone. On any other device that would be corruption let through.
    #[inline]
    pub(super) const fn receive_checksum(&self) -> ReceiveChecksum {
        match (self.is_veth, self.is_generic) {
            (true, _) => ReceiveChecksum::VerifyOrPartial,
            (false, true) => ReceiveChecksum::VerifyOrJoined,
            (false, false) => ReceiveChecksum::Verify,
        }
    }
}

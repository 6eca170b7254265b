//! What the paths by our own stack have in common: a port that takes chosen flows, and a stack that knows one cable.

use std::net::SocketAddr;

use nearwire_frames::PortError;
use nearwire_frames::fault::FaultPort;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::port::Port;
use nearwire_frames::ports::xdp::{Steer, XdpPort};
use nearwire_frames::raw::RawPort;
use nearwire_frames::steering::Filter;
use nearwire_stack::{
    InterfaceAddress, Link, LinkKind, Neighbour, NeighbourState, Offers, PortId, Route, Stack, StackConfig, Update,
};
use nearwire_sys::tsc::monotonic_raw_ns;
use nearwire_wire::MacAddress;

use super::frame::{Faulty, faults_of};
use super::frame_xdp::open_chosen;
use super::{EndInterface, LocalEnd, PathError, Setup};

/// A port that takes the frames of chosen flows and leaves all others to the kernel.
pub trait FlowPort: Port + Sized {
    /// Opens it on the end's interface; it takes nothing yet.
    ///
    /// # Errors
    /// This end has no interface, or the port cannot be made on it.
    fn open_to_steer(setup: &Setup, local: &LocalEnd) -> Result<Self, PathError>;

    /// Has it take the frames of a filter.
    ///
    /// # Errors
    /// The kernel refused.
    fn take(&mut self, filter: Filter) -> Result<(), PortError>;

    /// Leaves these to the kernel again.
    ///
    /// # Errors
    /// The kernel refused.
    fn leave(&mut self, filter: Filter) -> Result<(), PortError>;
}

impl FlowPort for XdpPort {
    fn open_to_steer(setup: &Setup, local: &LocalEnd) -> Result<XdpPort, PathError> {
        open_chosen(setup, local, Steer::Filters)
    }

    fn take(&mut self, filter: Filter) -> Result<(), PortError> {
        self.add_filter(filter)
    }

    fn leave(&mut self, filter: Filter) -> Result<(), PortError> {
        self.remove_filter(filter)
    }
}

impl<P: FlowPort> FlowPort for Faulty<P> {
    fn open_to_steer(setup: &Setup, local: &LocalEnd) -> Result<Faulty<P>, PathError> {
        let port = P::open_to_steer(setup, local)?;
        Ok(FaultPort::new(port, faults_of(setup, local.role), setup.fault_seed, monotonic_raw_ns))
    }

    fn take(&mut self, filter: Filter) -> Result<(), PortError> {
        self.inner_mut().take(filter)
    }

    fn leave(&mut self, filter: Filter) -> Result<(), PortError> {
        self.inner_mut().leave(filter)
    }
}

/// An address of UDP or TCP with the hardware address that it is reached by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Station {
    pub(super) address: SocketAddr,
    pub(super) mac: MacAddress,
}

/// What the stack wants to know of the interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct CableLink {
    pub(super) ifindex: u32,
    pub(super) mtu_bytes: u32,
    /// The far end may leave a checksum to its card, which there is none of: a virtual Ethernet pair.
    pub(super) is_virtual: bool,
}

impl CableLink {
    pub(super) fn of(interface: &EndInterface) -> Result<CableLink, PathError> {
        let facts = InterfaceFacts::read(&interface.name)?;
        Ok(CableLink { ifindex: facts.ifindex, mtu_bytes: facts.mtu_bytes, is_virtual: facts.is_veth() })
    }

    /// A stack that knows this cable with both its ends, and the port that stands for it there.
    pub(super) fn stack(self, secret: u64, own: Station, peer: Station) -> (Stack, PortId) {
        // Whatever comes is read as it comes, so no datagram ever waits.
        let mut stack = Stack::new(StackConfig { queue_slots: 1, ..StackConfig::new(secret) });
        for update in self.known(own, peer) {
            stack.update(update);
        }
        let attached = stack.attach_port(self.ifindex, Offers::default());
        (stack, attached)
    }

    /// The events a netlink listener would tell of this end's cable. The peer is on the link: its hardware address came over
    /// the control connection, so nobody is asked for it.
    fn known(self, own: Station, peer: Station) -> [Update; 4] {
        let CableLink { ifindex, mtu_bytes, .. } = self;
        let prefix_len = if own.address.is_ipv4() { 32 } else { 128 };
        let address = InterfaceAddress {
            ifindex,
            address: own.address.ip(),
            prefix_len,
            broadcast: None,
            is_secondary: false,
            is_deprecated: false,
            is_temporary: false,
            is_tentative: false,
        };
        let peer_address = peer.address.ip();
        [
            Update::NewLink(Link { ifindex, mac: own.mac, mtu_bytes, is_up: true, kind: LinkKind::Ethernet }),
            Update::NewAddress(address),
            Update::NewRoute { route: Route::on_link(peer_address, prefix_len, ifindex), replaces: false },
            Update::NewNeighbour(Neighbour {
                ifindex,
                address: peer_address,
                mac: peer.mac,
                state: NeighbourState::Permanent,
            }),
        ]
    }
}

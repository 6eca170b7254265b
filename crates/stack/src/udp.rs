//! UDP: endpoints, the choice of a datagram's endpoint, and the receive queues.

pub(crate) mod demux;
pub(crate) mod endpoint;
mod group;
mod membership;
mod moving;
pub(crate) mod queue;
pub(crate) mod slab;
mod sockets;
mod takeover;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

pub use endpoint::{
    EndpointId, FamilyOptions, MulticastInterface, PathMtuDiscovery, RECEIVE_BUFFER_DEFAULT_BYTES, UdpOptions,
};
pub use membership::SourceFilter;
pub use moving::MovedEndpoint;
pub use queue::OVERHEAD_BYTES;
pub(crate) use sockets::scope_of;
pub use sockets::{BindError, ConnectError, MembershipError};

pub(crate) use endpoint::Endpoint;

use crate::hash::KeyedHash;
use demux::Demux;
use queue::Pool;
use slab::Slab;

/// A datagram that arrived, lent to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What was sent.
    pub payload: &'a [u8],
    /// Who sent it. IPv4 is IPv4, also to an IPv6 endpoint; a link-local IPv6 source has its interface as scope.
    pub source: SocketAddr,
    /// To which address it was sent: of this host, a group, or broadcast (`ipi_addr` of IP_PKTINFO).
    pub destination: IpAddr,
    /// The interface it came in on: of a tagged frame the VLAN's (`ipi_ifindex`).
    pub ifindex: u32,
    /// IPv4's time to live or IPv6's hop limit, as it arrived (IP_RECVTTL).
    pub ttl: u8,
    /// IPv4's type of service or IPv6's traffic class (IP_RECVTOS).
    pub tos: u8,
    /// When the frame arrived, as the caller said.
    pub received_ns: u64,
    /// When the device had it, as the caller said; 0: it does not say.
    pub device_ns: u64,
    /// Datagrams dropped at the endpoint before it for want of room (SO_RXQ_OVFL).
    pub dropped_before: u32,
    /// It came by the kernel's socket, and was queued here for its order.
    pub is_by_kernel: bool,
}

/// All of UDP but what is sent.
#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) endpoints: Slab,
    pub(crate) demux: Demux,
    pub(crate) pool: Pool,
    /// Endpoints that became readable; room for all is made when they are opened.
    pub(crate) readable: Vec<u32>,
    /// Receivers of the group datagram at hand; room as above.
    pub(crate) receivers: Vec<u32>,
}

impl Udp {
    pub(crate) fn new(hash: KeyedHash, slots: u32, slot_bytes: usize) -> Udp {
        Udp {
            endpoints: Slab::default(),
            demux: Demux::new(hash),
            pool: Pool::new(slots, slot_bytes),
            readable: Vec::new(),
            receivers: Vec::new(),
        }
    }
}

//! A UDP socket of the program.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nearwire_frames::steering::FlowFilter;
use nearwire_stack::{EndpointId, Family, SourceFilter};
use nearwire_sys::descriptor::Descriptor;

use crate::reason::Reason;
use crate::shadow::Kept;

/// Who serves a socket.
#[derive(Debug)]
pub(crate) enum Service {
    /// Not decided: it has no address.
    Open,
    /// The kernel, and why.
    Kernel(Reason),
    /// The stack.
    Accelerated(Accelerated),
}

/// What an accelerated socket has in the engine.
#[derive(Debug)]
pub(crate) struct Accelerated {
    pub(crate) endpoint: EndpointId,
    /// The packets the ports take for it.
    pub(crate) flows: Vec<FlowFilter>,
}

/// A group joined, as the shadow was told.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) ifindex: u32,
    pub(crate) group: IpAddr,
    pub(crate) filter: SourceFilter,
}

/// Counters of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Datagrams read that came past the kernel.
    pub received: u64,
    /// Datagrams sent past the kernel.
    pub sent: u64,
    /// Datagrams sent by the shadow.
    pub sent_by_kernel: u64,
    /// Calls to receive that the shadow answered.
    pub received_by_kernel: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct UdpSocket {
    /// One of its numbers.
    pub(crate) shadow: Descriptor,
    /// How many numbers it has.
    pub(crate) numbers: u32,
    pub(crate) family: Family,
    /// O_NONBLOCK, which is the open file's and not the number's.
    pub(crate) is_nonblocking: bool,
    /// The program bound it to a port of its choice.
    pub(crate) is_server: bool,
    pub(crate) is_connected: bool,
    pub(crate) service: Service,
    pub(crate) kept: Option<Kept>,
    pub(crate) memberships: Vec<Membership>,
    /// The shadow may have a datagram.
    pub(crate) shadow_has_data: bool,
    /// The shadow may have an error.
    pub(crate) shadow_has_error: bool,
    /// The kernel gathers a datagram of several sends (MSG_MORE): the sends that follow belong to it.
    pub(crate) is_corked: bool,
    /// An error that a call could not tell, for the next one: what the kernel keeps in `sk_err`. 0: none.
    pub(crate) pending_error: i32,
    /// Datagrams read from ports since the watch was looked at on their account.
    pub(crate) received_unlooked: u32,
    /// An endpoint that is no longer served, with datagrams that were taken before.
    pub(crate) leftover: Option<EndpointId>,
    pub(crate) counters: SocketCounters,
    /// This host's first IPv4 address on each interface, for packet information of group datagrams.
    pub(crate) own_addresses: Vec<(u32, Ipv4Addr)>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
}

impl UdpSocket {
    pub(crate) fn new(shadow: Descriptor, family: Family, is_nonblocking: bool) -> UdpSocket {
        UdpSocket {
            shadow,
            numbers: 1,
            family,
            is_nonblocking,
            is_server: false,
            is_connected: false,
            service: Service::Open,
            kept: None,
            memberships: Vec::new(),
            shadow_has_data: false,
            shadow_has_error: false,
            is_corked: false,
            pending_error: 0,
            received_unlooked: 0,
            leftover: None,
            counters: SocketCounters::default(),
            own_addresses: Vec::new(),
            local: None,
            remote: None,
        }
    }

    /// The endpoint whose queue may hold datagrams for it.
    #[inline]
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        match &self.service {
            Service::Accelerated(accelerated) => Some(accelerated.endpoint),
            Service::Open | Service::Kernel(_) => self.leftover,
        }
    }

    pub(crate) fn own_address_on(&self, ifindex: u32) -> Option<Ipv4Addr> {
        self.own_addresses.iter().find(|(of, _)| *of == ifindex).map(|(_, address)| *address)
    }

    /// What is true of it is known here alone: it is accelerated, or was and has datagrams from then.
    pub(crate) const fn is_answered_here(&self) -> bool {
        self.is_accelerated() || self.leftover.is_some()
    }

    #[inline]
    pub(crate) const fn is_accelerated(&self) -> bool {
        matches!(self.service, Service::Accelerated(_))
    }
}

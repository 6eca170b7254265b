//! What a UDP socket has and no other kind.

use std::net::{IpAddr, Ipv4Addr};

use nearwire_stack::SourceFilter;

use super::Socket;
use crate::kept::Ancillary;

/// A group joined, as the shadow was told.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) ifindex: u32,
    pub(crate) group: IpAddr,
    pub(crate) filter: SourceFilter,
}

/// See the module. What each datagram needs comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Udp {
    /// What recvmsg reports: a copy of what the kernel keeps.
    pub(super) ancillary: Ancillary,
    /// Datagrams read from ports since the watch was looked at on their account.
    pub(crate) received_unlooked: u32,
    /// When the datagram read last arrived (SIOCGSTAMP), nanoseconds since 1970; 0: nobody looked at the clock. `None`: the
    /// kernel knows.
    pub(crate) stamp_ns: Option<u64>,
    /// SIOCGSTAMP asked when a datagram arrived.
    pub(crate) asks_stamps: bool,
    pub(crate) memberships: Vec<Membership>,
    /// IPV6_MTU, which the kernel does not report.
    pub(crate) longest_v6_packet_bytes: Option<u32>,
    /// This host's first IPv4 address on each interface, for packet information of group datagrams.
    pub(crate) own_addresses: Vec<(u32, Ipv4Addr)>,
}

impl Socket {
    /// What recvmsg reports.
    #[inline]
    pub(crate) const fn ancillary(&self) -> &Ancillary {
        &self.udp.ancillary
    }

    /// The program may ask when a datagram arrived.
    pub(crate) fn wants_stamps(&self) -> bool {
        self.udp.asks_stamps || self.udp.ancillary.wants_times().is_some()
    }

    pub(crate) fn own_address_on(&self, ifindex: u32) -> Option<Ipv4Addr> {
        self.udp.own_addresses.iter().find(|(of, _)| *of == ifindex).map(|(_, address)| *address)
    }
}

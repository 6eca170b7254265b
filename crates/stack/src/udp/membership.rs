//! Groups that endpoints joined, with the sources they want (`IP_ADD_MEMBERSHIP`, `IP_ADD_SOURCE_MEMBERSHIP`,
//! `MCAST_JOIN_GROUP` and their kin). The kernel joins on the wire, by the shadow socket.

use std::net::IpAddr;

use crate::address::Address;

use super::Endpoint;

/// Which sources of a group an endpoint wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFilter {
    /// All but these (`MCAST_EXCLUDE`); of none: all.
    Exclude(Vec<IpAddr>),
    /// Only these (`MCAST_INCLUDE`).
    Include(Vec<IpAddr>),
}

impl Default for SourceFilter {
    fn default() -> SourceFilter {
        SourceFilter::Exclude(Vec::new())
    }
}

#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) ifindex: u32,
    pub(crate) group: Address,
    excludes: bool,
    sources: Vec<Address>,
}

impl Membership {
    pub(crate) fn new(ifindex: u32, group: Address, filter: &SourceFilter) -> Membership {
        let (excludes, sources) = match filter {
            SourceFilter::Exclude(sources) => (true, sources),
            SourceFilter::Include(sources) => (false, sources),
        };
        Membership { ifindex, group, excludes, sources: sources.iter().copied().map(Address::from).collect() }
    }
}

impl Endpoint {
    /// Whether the endpoint's memberships let a group datagram in (`net/ipv4/igmp.c`, `ip_mc_sf_allow`;
    /// `net/ipv6/mcast.c`, `inet6_mc_check`).
    #[inline]
    pub(crate) fn wants_group(&self, ifindex: u32, group: Address, source: Address) -> bool {
        let mut memberships = self.memberships.iter();
        match memberships.find(|membership| (membership.ifindex, membership.group) == (ifindex, group)) {
            Some(membership) => membership.sources.contains(&source) != membership.excludes,
            None => self.options.of(group.family()).multicast_all,
        }
    }
}

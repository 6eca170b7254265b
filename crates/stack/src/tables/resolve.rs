//! From a destination to everything a frame needs: interface, port, hardware addresses, source, MTU.
//!
//! Slow path: a flow caches the outcome until the generation of the tables changes.

use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::{VlanTag, VlanTags};

use crate::address::Address;
use crate::reasons::NeedsKernel;

use super::source::{self, Wanted};
use super::update::{LinkKind, NeighbourState, Route, RouteKind, RouteTable};
use super::{Offers, PortId, Tables, sure_bytes};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) destination: Address,
    /// Source address, when it is fixed.
    pub(crate) source: Option<Address>,
    /// Interface, when it is fixed: SO_BINDTODEVICE, IP_MULTICAST_IF, the scope of a link-local address, IP_PKTINFO.
    pub(crate) ifindex: Option<u32>,
}

/// The first half of the answer: which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) ifindex: u32,
    pub(crate) source: Address,
    /// Whose hardware address is needed.
    next_hop: Address,
    mtu_bytes: Option<u32>,
    is_mtu_locked: bool,
    hop_limit: Option<u8>,
}

/// The whole answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHop {
    pub(crate) port: PortId,
    pub(crate) offers: Offers,
    pub(crate) source: Address,
    pub(crate) destination_mac: MacAddress,
    pub(crate) source_mac: MacAddress,
    pub(crate) tags: VlanTags,
    /// Interface index.
    pub(crate) ifindex: u32,
    /// Longest packet for this destination, as far as the kernel was asked.
    pub(crate) sure_bytes: u32,
    /// The same, unless a router reported a smaller MTU.
    pub(crate) mtu_bytes: u32,
    /// Longest packet of the interface.
    pub(crate) link_mtu_bytes: u32,
    pub(crate) is_mtu_locked: bool,
    pub(crate) hop_limit: Option<u8>,
    /// The destination is a group that is joined on the interface.
    pub(crate) is_joined_here: bool,
}

impl Tables {
    /// After a packet that is longer than what is sure: whether the kernel was asked by now, for another flow. If not, it is
    /// to be asked ([`Tables::take_path_question`]).
    pub(crate) fn is_path_known(&mut self, ifindex: u32, destination: Address) -> bool {
        let is_known = self.paths.get(ifindex, destination).is_some();
        if !is_known {
            self.paths.want(ifindex, destination);
        }
        is_known
    }

    /// Everything for a frame to `query.destination`.
    pub(crate) fn next_hop(&mut self, query: Query) -> Result<NextHop, NeedsKernel> {
        let way = self.way(query)?;
        let link = self.links.get(&way.ifindex).filter(|link| link.is_up).ok_or(NeedsKernel::InterfaceDown)?;
        let (source_mac, link_mtu_bytes) = (link.mac, link.mtu_bytes);
        let (port, tags) = self.port_of(way.ifindex)?;
        let offers = self.ports[port.0 as usize].offers;
        let destination_mac = self.hardware_address(way.ifindex, way.next_hop)?;
        let path = self.paths.get(way.ifindex, query.destination);
        let is_path_known = path.is_some() || !self.asks_paths || query.destination.is_multicast();
        let path = path.unwrap_or_default();
        let mtu_bytes = [way.mtu_bytes, path.mtu_bytes].into_iter().flatten().fold(link_mtu_bytes, u32::min);
        Ok(NextHop {
            port,
            offers,
            source: way.source,
            destination_mac,
            source_mac,
            tags,
            ifindex: way.ifindex,
            sure_bytes: if is_path_known { mtu_bytes } else { mtu_bytes.min(sure_bytes(query.destination)) },
            mtu_bytes,
            link_mtu_bytes,
            is_mtu_locked: way.is_mtu_locked || path.is_mtu_locked,
            hop_limit: way.hop_limit,
            is_joined_here: self.is_joined(way.ifindex, query.destination),
        })
    }

    /// Interface and source address, without asking for a hardware address: what connect() needs.
    pub(crate) fn way(&self, query: Query) -> Result<Way, NeedsKernel> {
        if self.has_policy_rules {
            return Err(NeedsKernel::PolicyRouting);
        }
        let destination = query.destination;
        if destination.is_link_local_v6() && query.ifindex.is_none() {
            return Err(NeedsKernel::NoScope);
        }
        if let Some(source) = query.source
            && source.family() != destination.family()
        {
            return Err(NeedsKernel::FamilyMismatch);
        }
        let way = if destination.is_multicast() { self.way_to_group(query)? } else { self.way_to_host(query)? };
        if query.source.is_some_and(|source| !self.is_own(way.ifindex, source)) {
            return Err(NeedsKernel::SourceNotOurs);
        }
        Ok(way)
    }

    fn way_to_host(&self, query: Query) -> Result<Way, NeedsKernel> {
        let destination = query.destination;
        // Linux takes the unspecified address for loopback.
        if destination.is_any() || destination.is_loopback() || self.is_own_anywhere(destination) {
            return Err(NeedsKernel::LocalDestination);
        }
        if self.is_broadcast(destination) {
            return Err(NeedsKernel::Broadcast);
        }
        let route = self.route(query)?;
        if self.links.get(&route.ifindex).is_some_and(|link| link.kind == LinkKind::Loopback) {
            return Err(NeedsKernel::LocalDestination);
        }
        self.way_along(query, route)
    }

    /// Groups need no gateway but for the source (`net/ipv4/route.c`, `__mkroute_output`) and, with an interface given, no
    /// route.
    fn way_to_group(&self, query: Query) -> Result<Way, NeedsKernel> {
        if let Some(ifindex) = query.ifindex {
            return self.way_along(query, &Route::on_link(query.destination.to_ip(), 0, ifindex));
        }
        let route = self.route(query)?;
        if route.gateway.is_some() && route.prefix_len >= 4 {
            return Err(NeedsKernel::UnsupportedRoute);
        }
        self.way_along(query, route)
    }

    fn way_along(&self, query: Query, route: &Route) -> Result<Way, NeedsKernel> {
        let gateway = route.gateway.map(Address::from);
        let wanted = Wanted { ifindex: route.ifindex, destination: query.destination, gateway };
        let preferred = query.source.or(route.preferred_source.map(Address::from));
        let source = preferred.or_else(|| source::select(&self.addresses, wanted)).ok_or(NeedsKernel::NoSource)?;
        Ok(Way {
            ifindex: route.ifindex,
            source,
            next_hop: gateway.filter(|_| !query.destination.is_multicast()).unwrap_or(query.destination),
            mtu_bytes: route.mtu_bytes,
            is_mtu_locked: route.is_mtu_locked,
            hop_limit: route.hop_limit,
        })
    }

    /// The tables in the order of the kernel's own three rules.
    fn route(&self, query: Query) -> Result<&Route, NeedsKernel> {
        let is_group = query.destination.is_multicast();
        let accepts = |route: &Route| match route.kind {
            RouteKind::Unicast | RouteKind::Multicast => {
                let is_asked = query.ifindex.is_none_or(|ifindex| ifindex == route.ifindex);
                is_asked && (route.is_multipath || self.links.get(&route.ifindex).is_some_and(|link| link.is_up))
            }
            _ => true,
        };
        for table in [RouteTable::Local, RouteTable::Main, RouteTable::Default] {
            let Some(found) = self.routes.find(table, query.destination, accepts) else { continue };
            let route = found.route;
            return match route.kind {
                _ if found.has_unsupported => Err(NeedsKernel::UnsupportedRoute),
                RouteKind::Throw => continue,
                RouteKind::Local => Err(NeedsKernel::LocalDestination),
                RouteKind::Broadcast => Err(NeedsKernel::Broadcast),
                RouteKind::Unreachable => Err(NeedsKernel::Unreachable),
                RouteKind::Multicast if !is_group => Err(NeedsKernel::UnsupportedRoute),
                RouteKind::Unicast | RouteKind::Multicast if route.is_multipath => Err(NeedsKernel::Multipath),
                // IPv6 keeps the next hops of one multipath route as routes of equal metric. Of equal IPv4 default routes the
                // kernel takes one whose gateway answers (`net/ipv4/fib_semantics.c`, `fib_select_default`).
                _ if found.has_equals && (!query.destination.is_v4() || route.prefix_len == 0) => {
                    Err(NeedsKernel::Multipath)
                }
                _ => Ok(route),
            };
        }
        Err(NeedsKernel::NoRoute)
    }

    /// The port below an interface, and the tags on the way down to it.
    fn port_of(&self, ifindex: u32) -> Result<(PortId, VlanTags), NeedsKernel> {
        let mut tags = VlanTags::None;
        let mut at = ifindex;
        loop {
            let link = self.links.get(&at).filter(|link| link.is_up).ok_or(NeedsKernel::InterfaceDown)?;
            let LinkKind::Vlan { parent, tag, vlan_id } = link.kind else { break };
            let tag = VlanTag::new(tag, 0, false, vlan_id).ok_or(NeedsKernel::NoPort)?;
            tags = match tags {
                VlanTags::None => VlanTags::One(tag),
                VlanTags::One(inner) => VlanTags::Two(tag, inner),
                VlanTags::Two(..) => return Err(NeedsKernel::NoPort),
            };
            at = parent;
        }
        let port = self.ports.iter().position(|port| port.is_attached && port.ifindex == at);
        let port = port.ok_or(NeedsKernel::NoPort)?;
        Ok((PortId(port as u32), tags))
    }

    /// The hardware address of a next hop. Notes the use of a stale one, so that the kernel can be asked to confirm it.
    fn hardware_address(&mut self, ifindex: u32, next_hop: Address) -> Result<MacAddress, NeedsKernel> {
        if next_hop.is_multicast() {
            return Ok(group_mac(next_hop));
        }
        let entry = self.neighbours.get_mut(&(ifindex, next_hop)).ok_or(NeedsKernel::NeighbourUnresolved)?;
        entry.is_used = true;
        if !entry.state.is_usable() {
            return Err(NeedsKernel::NeighbourUnresolved);
        }
        if entry.state == NeighbourState::Stale && !entry.is_confirmation_asked {
            entry.is_confirmation_asked = true;
            self.stale_used.push((ifindex, next_hop));
        }
        Ok(entry.mac)
    }
}

/// The hardware address of a group: RFC 1112 section 6.4 for IPv4, RFC 2464 section 7 for IPv6.
fn group_mac(group: Address) -> MacAddress {
    let [.., a, b, c, d] = group.0.to_be_bytes();
    if group.is_v4() { MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d]) } else { MacAddress([0x33, 0x33, a, b, c, d]) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn group_address_maps_to_the_hardware_address_of_the_rfcs() {
        let mac = |text: &str| group_mac(text.parse::<IpAddr>().unwrap().into()).to_string();
        assert_eq!(mac("224.0.0.1"), "01:00:5e:00:00:01");
        assert_eq!(mac("239.255.130.3"), "01:00:5e:7f:82:03");
        assert_eq!(mac("ff02::1:ff28:9c5a"), "33:33:ff:28:9c:5a");
    }
}

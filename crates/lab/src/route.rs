//! Which way a remote address lies.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::LabError;
use crate::addresses::family;
use crate::interface::InterfaceFacts;
use crate::netlink::Netlink;

/// How an address is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFacts {
    /// The address that was asked for.
    pub destination: IpAddr,
    /// The interface that leads there.
    pub interface: InterfaceFacts,
    /// The address that this host would send from.
    pub source: Option<IpAddr>,
    /// The router in between; `None` when the address is on the link.
    pub gateway: Option<IpAddr>,
    /// The address is this host's own: nothing would cross a wire.
    pub is_local: bool,
}

impl RouteFacts {
    /// Whose link address a frame to the destination carries: the router or the destination.
    #[must_use]
    pub fn next_hop(&self) -> IpAddr {
        self.gateway.unwrap_or(self.destination)
    }
}

/// Finds the interface through which `address` is reached, in the namespace of the calling thread.
///
/// # Errors
///
/// [`LabError::NoRoute`], or a netlink failure.
pub fn route_to(address: IpAddr) -> Result<RouteFacts, LabError> {
    let mut netlink = Netlink::open()?;
    let no_route = |errno| LabError::NoRoute { address, source: io::Error::from_raw_os_error(errno) };
    let route = netlink.route_towards(address)?;
    // An unreachable or prohibit route of IPv6 answers with a verdict in place of an interface.
    let reaches = matches!(route.header.kind, RouteType::Unicast | RouteType::Local);
    let ifindex = outgoing_ifindex(&route).filter(|_| reaches);
    let ifindex = ifindex.ok_or_else(|| no_route(libc::ENETUNREACH))?;
    let link = netlink.link(ifindex)?;
    let link = link.ok_or_else(|| no_route(libc::ENODEV))?;
    Ok(describe(address, &route, InterfaceFacts::from_link(&link)))
}

/// The interfaces that carry a default route of any table, in the namespace of the calling thread.
///
/// # Errors
///
/// A netlink failure.
pub fn interfaces_of_default_routes() -> Result<Vec<String>, LabError> {
    let mut netlink = Netlink::open()?;
    let routes = netlink.routes()?;
    let is_default =
        |route: &&RouteMessage| route.header.destination_prefix_length == 0 && route.header.kind == RouteType::Unicast;
    let defaults: Vec<&RouteMessage> = routes.iter().filter(is_default).collect();
    let links = netlink.links()?;
    let facts = links.iter().map(InterfaceFacts::from_link);
    let carries = |facts: &InterfaceFacts| defaults.iter().any(|route| leads_through(route, facts.ifindex));
    Ok(facts.filter(carries).map(|facts| facts.name).collect())
}

impl Netlink {
    /// Asks the kernel how it would reach `address` now.
    pub(crate) fn route_towards(&mut self, address: IpAddr) -> Result<RouteMessage, LabError> {
        let mut question = RouteMessage::default();
        question.header.address_family = family(address);
        question.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        question.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address))];
        let no_route = |errno| LabError::NoRoute { address, source: io::Error::from_raw_os_error(errno) };
        let answer = self.get(&|| format!("find the route to {address}"), RouteNetlinkMessage::GetRoute(question));
        match answer {
            Ok(Some(RouteNetlinkMessage::NewRoute(route))) => Ok(route),
            Ok(_) => Err(no_route(libc::ENETUNREACH)),
            Err(error) => Err(match error.refused_errno() {
                Some(errno @ (libc::ENETUNREACH | libc::EHOSTUNREACH)) => no_route(errno),
                _ => error,
            }),
        }
    }
}

impl Netlink {
    /// All routes of all tables, IPv4 and IPv6.
    pub(crate) fn routes(&mut self) -> Result<Vec<RouteMessage>, LabError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            let question = RouteNetlinkMessage::GetRoute(question);
            let answers = self.dump(&|| "list routes".to_owned(), &question)?;
            routes.extend(answers.into_iter().filter_map(|answer| match answer {
                // A kernel without IPv6 answers a question for it with all it has.
                RouteNetlinkMessage::NewRoute(route) if route.header.address_family == family => Some(route),
                _ => None,
            }));
        }
        Ok(routes)
    }
}

/// Whether a route is a default route that leads through an interface.
pub(crate) fn is_default_through(route: &RouteMessage, ifindex: u32) -> bool {
    let is_default = route.header.destination_prefix_length == 0 && route.header.kind == RouteType::Unicast;
    is_default && leads_through(route, ifindex)
}

/// Whether a route, or one of its next hops, leads through an interface.
pub(crate) fn leads_through(route: &RouteMessage, ifindex: u32) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(oif) => *oif == ifindex,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == ifindex),
        _ => false,
    })
}

/// Number of the table a route is in. The header has room for the first 256 only.
pub(crate) fn table_of(route: &RouteMessage) -> u32 {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        })
        .unwrap_or_else(|| u32::from(route.header.table))
}

fn outgoing_ifindex(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(ifindex) => Some(*ifindex),
        _ => None,
    })
}

fn describe(destination: IpAddr, route: &RouteMessage, interface: InterfaceFacts) -> RouteFacts {
    let mut facts = RouteFacts {
        destination,
        interface,
        source: None,
        gateway: None,
        is_local: route.header.kind == RouteType::Local,
    };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::PrefSource(source) => facts.source = ip(source),
            RouteAttribute::Gateway(gateway) => facts.gateway = ip(gateway),
            // An IPv4 route through an IPv6 router (RFC 5549).
            RouteAttribute::Via(RouteVia::Inet6(gateway)) => {
                facts.gateway = Some((*gateway).into());
            }
            _ => {}
        }
    }
    facts
}

/// The address of a route attribute, if it is an IP address.
pub(crate) fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ipv4) => Some(IpAddr::V4(*ipv4)),
        RouteAddress::Inet6(ipv6) => Some(IpAddr::V6(*ipv6)),
        _ => None,
    }
}

/// The link address of a neighbour, as the kernel knows it now. `None` when it has not been heard
/// of or did not answer: send it something and ask again.
///
/// # Errors
///
/// A netlink failure.
pub fn neighbour_mac(ifindex: u32, address: IpAddr) -> Result<Option<[u8; 6]>, LabError> {
    let mut netlink = Netlink::open()?;
    let mut question = NeighbourMessage::default();
    question.header.family = family(address);
    question.header.ifindex = ifindex;
    question.attributes = vec![NeighbourAttribute::Destination(NeighbourAddress::from(address))];
    let answer = netlink.get(
        &|| format!("look up neighbour {address} on interface {ifindex}"),
        RouteNetlinkMessage::GetNeighbour(question),
    );
    let neighbour = match answer {
        Ok(Some(RouteNetlinkMessage::NewNeighbour(neighbour))) => neighbour,
        Ok(_) => return Ok(None),
        Err(error) if error.refused_errno() == Some(libc::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    }))
}

//! What the kernel forwards by: its routes and neighbours, for a program that is to forward in its place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::LabError;
use crate::netlink::Netlink;
use crate::route::{ip, table_of};

/// What becomes of packets that a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// They leave through an interface.
    Unicast,
    /// They are this host's own: local and anycast.
    ThisHost,
    /// They are for all hosts of a link.
    Broadcast,
    /// They are refused: unreachable, prohibit, blackhole.
    Unreachable,
    /// Anything else: multicast, throw, nat.
    Other,
}

/// One way that a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouteHop {
    /// The interface.
    pub ifindex: u32,
    /// The router in between; `None` when destinations are on the link.
    pub gateway: Option<IpAddr>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEntry {
    /// Destinations begin with the first bits of this address.
    pub destination: IpAddr,
    /// How many bits count.
    pub prefix_bits: u8,
    /// Number of its table: 255 local, 254 main.
    pub table: u32,
    /// Of routes of a table to one prefix, the one with the lowest counts.
    pub metric: u32,
    /// What becomes of packets.
    pub kind: RouteKind,
    /// The ways it leads, without those that are dead.
    pub hops: Vec<RouteHop>,
}

/// A neighbour whose link address is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NeighbourEntry {
    /// The interface on whose link it is.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its link address.
    pub mac: [u8; 6],
}

/// Routes and neighbours of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardingTables {
    /// Routes of all tables, IPv4 and IPv6, without those for a type of service or a source.
    pub routes: Vec<RouteEntry>,
    /// Neighbours with Ethernet addresses that the kernel would send to now.
    pub neighbours: Vec<NeighbourEntry>,
}

/// Reads the routes and neighbours of the calling thread's namespace.
///
/// # Errors
///
/// A netlink failure.
pub fn forwarding_tables() -> Result<ForwardingTables, LabError> {
    let mut netlink = Netlink::open()?;
    let routes = netlink.routes()?.iter().filter_map(route_entry).collect();
    let neighbours = netlink.neighbours()?.iter().filter_map(neighbour_entry).collect();
    Ok(ForwardingTables { routes, neighbours })
}

impl Netlink {
    /// All neighbours, IPv4 and IPv6.
    fn neighbours(&mut self) -> Result<Vec<NeighbourMessage>, LabError> {
        let mut neighbours = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = NeighbourMessage::default();
            question.header.family = family;
            let question = RouteNetlinkMessage::GetNeighbour(question);
            let answers = self.dump(&|| "list neighbours".to_owned(), &question)?;
            neighbours.extend(answers.into_iter().filter_map(|answer| match answer {
                // A kernel without IPv6 answers a question for it with all it has.
                RouteNetlinkMessage::NewNeighbour(neighbour) if neighbour.header.family == family => Some(neighbour),
                _ => None,
            }));
        }
        Ok(neighbours)
    }
}

fn route_entry(route: &RouteMessage) -> Option<RouteEntry> {
    let header = &route.header;
    // A cloned route is what the kernel learned of one destination.
    if header.tos != 0 || header.source_prefix_length != 0 || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut destination = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut metric = 0;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Priority(priority) => metric = *priority,
            _ => {}
        }
    }
    let kind = kind_of(header.kind);
    let hops = hops_of(route);
    if kind == RouteKind::Unicast && hops.is_empty() {
        return None;
    }
    let prefix_bits = header.destination_prefix_length;
    Some(RouteEntry { destination, prefix_bits, table: table_of(route), metric, kind, hops })
}

const fn kind_of(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local | RouteType::Anycast => RouteKind::ThisHost,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit => RouteKind::Unreachable,
        _ => RouteKind::Other,
    }
}

fn hops_of(route: &RouteMessage) -> Vec<RouteHop> {
    let several = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    if let Some(several) = several {
        let alive = several.iter().filter(|hop| !hop.flags.contains(RouteNextHopFlags::Dead));
        return alive
            .map(|hop| RouteHop { ifindex: hop.interface_index, gateway: gateway_of(&hop.attributes) })
            .collect();
    }
    let ifindex = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(ifindex) => Some(*ifindex),
        _ => None,
    });
    let alive = ifindex.filter(|_| !route.header.flags.contains(RouteFlags::Dead));
    alive.map(|ifindex| RouteHop { ifindex, gateway: gateway_of(&route.attributes) }).into_iter().collect()
}

fn gateway_of(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(gateway) => ip(gateway),
        // An IPv4 route through an IPv6 router (RFC 5549).
        RouteAttribute::Via(RouteVia::Inet6(gateway)) => Some(IpAddr::V6(*gateway)),
        _ => None,
    })
}

fn neighbour_entry(neighbour: &NeighbourMessage) -> Option<NeighbourEntry> {
    const USED: [NeighbourState; 5] = [
        NeighbourState::Reachable,
        NeighbourState::Stale,
        NeighbourState::Delay,
        NeighbourState::Probe,
        NeighbourState::Permanent,
    ];
    if !USED.contains(&neighbour.header.state) {
        return None;
    }
    let mut address = None;
    let mut mac = None;
    for attribute in &neighbour.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => address = Some(IpAddr::V4(*found)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(found)) => address = Some(IpAddr::V6(*found)),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some(NeighbourEntry { ifindex: neighbour.header.ifindex, address: address?, mac: mac? })
}

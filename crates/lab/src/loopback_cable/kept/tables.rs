//! Addresses, routes and neighbours of one interface: found in the kernel's tables, put in words.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::neighbour::{NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};

use crate::LabError;
use crate::netlink::Netlink;
use crate::route::{ip, leads_through, table_of};

/// `RT_TABLE_LOCAL`: routes to own addresses, which the kernel makes with the addresses.
const RT_TABLE_LOCAL: u32 = 255;
/// `IFA_F_TEMPORARY` (the bit is `IFA_F_SECONDARY` for IPv4): a privacy address, which the kernel
/// makes from a router's announcement and makes anew.
const IFA_F_TEMPORARY: AddressFlags = AddressFlags::Secondary;

impl Netlink {
    /// Addresses of an interface, but for those that only the kernel can make.
    pub(super) fn addresses_of(&mut self, ifindex: u32) -> Result<Vec<AddressMessage>, LabError> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.dump(&|| "list addresses".to_owned(), &question)?;
        let addresses = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        });
        Ok(addresses.filter(|address| address.header.index == ifindex && !is_temporary(address)).collect())
    }

    /// Neighbours of an interface that someone wrote down; the others are learnt again.
    pub(super) fn permanent_neighbours_of(&mut self, ifindex: u32) -> Result<Vec<NeighbourMessage>, LabError> {
        let question = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump(&|| "list neighbours".to_owned(), &question)?;
        let neighbours = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(neighbour) => Some(neighbour),
            _ => None,
        });
        Ok(neighbours
            .filter(|neighbour| {
                neighbour.header.ifindex == ifindex && neighbour.header.state == NeighbourState::Permanent
            })
            .collect())
    }

    /// Writes a neighbour down again, now at `ifindex`.
    pub(super) fn restore_neighbour(&mut self, ifindex: u32, kept: &NeighbourMessage) -> Result<(), LabError> {
        let mut message = kept.clone();
        message.header.ifindex = ifindex;
        message.attributes.retain(|attribute| {
            use netlink_packet_route::neighbour::NeighbourAttribute as Attribute;
            matches!(attribute, Attribute::Destination(_) | Attribute::LinkLayerAddress(_) | Attribute::Protocol(_))
        });
        self.request(
            &|| "restore a permanent neighbour".to_owned(),
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }
}

fn is_temporary(address: &AddressMessage) -> bool {
    address.header.family == netlink_packet_route::AddressFamily::Inet6 && flags_of(address).contains(IFA_F_TEMPORARY)
}

/// All flags of an address: the attribute has 32 bits, the header repeats the lower eight.
pub(super) fn flags_of(address: &AddressMessage) -> AddressFlags {
    let attribute = address.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    attribute.unwrap_or_else(|| AddressFlags::from_bits_retain(u32::from(address.header.flags.bits())))
}

/// The host's own address: `IFA_LOCAL`, which IPv6 leaves out when there is no peer.
pub(super) fn local_address(address: &AddressMessage) -> Option<IpAddr> {
    let find = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| address.attributes.iter().find_map(wanted);
    find(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    })
    .or_else(|| {
        find(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

/// Whether an address is one that every interface has.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(super) fn address_text(address: &AddressMessage) -> String {
    let local = local_address(address).map_or_else(String::new, |local| local.to_string());
    format!("{local}/{}", address.header.prefix_len)
}

/// Whether a route goes when the interface leaves: it leads through it, or it names one of the
/// interface's own addresses as its source.
pub(super) fn is_lost_with(route: &RouteMessage, ifindex: u32, own: &[IpAddr]) -> bool {
    let from_own = preferred_source(route).is_some_and(|source| own.contains(&source));
    route.header.kind == RouteType::Unicast
        && table_of(route) != RT_TABLE_LOCAL
        && (leads_through(route, ifindex) || from_own)
}

/// The source address that a route asks for.
pub(super) fn preferred_source(route: &RouteMessage) -> Option<IpAddr> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(source) => ip(source),
        _ => None,
    })
}

pub(super) fn has_gateway(route: &RouteMessage) -> bool {
    route.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::Gateway(_) | RouteAttribute::Via(_)))
}

/// A route in the words of `ip route`.
pub(super) fn route_text(route: &RouteMessage) -> String {
    let mut destination = "default".to_owned();
    let mut rest = String::new();
    for attribute in &route.attributes {
        let word = match attribute {
            RouteAttribute::Destination(address) => {
                let bits = route.header.destination_prefix_length;
                destination = ip(address).map_or_else(String::new, |ip| format!("{ip}/{bits}"));
                continue;
            }
            RouteAttribute::Gateway(address) => ip(address).map(|ip| format!(" via {ip}")),
            RouteAttribute::PrefSource(address) => ip(address).map(|ip| format!(" src {ip}")),
            RouteAttribute::Priority(metric) => Some(format!(" metric {metric}")),
            _ => None,
        };
        rest.extend(word);
    }
    format!("{destination}{rest} proto {} table {}", route.header.protocol, table_of(route))
}

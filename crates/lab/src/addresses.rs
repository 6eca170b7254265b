//! Netlink requests about addresses and neighbours.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::LabError;
use crate::netlink::Netlink;

impl Netlink {
    /// Gives an interface an address that is usable at once: duplicate address detection is off.
    pub(crate) fn add_address(&mut self, ifindex: u32, address: IpAddr, prefix_bits: u8) -> Result<(), LabError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_bits;
        message.header.index = ifindex;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.request(
            &|| format!("add address {address}/{prefix_bits} to interface {ifindex}"),
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Takes an address from an interface.
    pub(crate) fn remove_address(&mut self, ifindex: u32, address: IpAddr, prefix_bits: u8) -> Result<(), LabError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_bits;
        message.header.index = ifindex;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        let removal = RouteNetlinkMessage::DelAddress(message);
        self.request(&|| format!("remove address {address}/{prefix_bits} from interface {ifindex}"), removal, 0)
    }

    /// Writes down where `address` is, for good: no frame ever waits for ARP or neighbour discovery.
    pub(crate) fn add_neighbour(&mut self, ifindex: u32, address: IpAddr, mac: [u8; 6]) -> Result<(), LabError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = ifindex;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unspec;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::from(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.request(
            &|| format!("add neighbour {address} on interface {ifindex}"),
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }
}

/// The address family of an address.
pub(crate) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

//! Bridges of a namespace's kernel. One that is the host of a guest joins its end of a cable with the guest's tap device, and the guest has the
//! addresses of the end.

use std::time::Duration;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use crate::cable::await_carrier;
use crate::interface::facts_named;
use crate::netlink::Netlink;
use crate::{CableEnd, LabError, Namespace};

/// A tap device that somebody has open, and veth, have carrier at once; this is for a stalled machine.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a bridge of the kernel of these interfaces of a namespace, and brings all of them up. It has no address. It forwards as soon as this
/// returns: the kernel, which lets an interface with carrier take part up to a second late, is asked until it did.
///
/// # Errors
///
/// [`LabError::MissingInterface`]; [`LabError::Refused`] where the kernel has no bridges; [`LabError::NoCarrier`].
pub fn join_by_bridge(namespace: &Namespace, bridge: &str, members: &[&str], mtu_bytes: u32) -> Result<(), LabError> {
    let mut netlink = Netlink::open_in(namespace)?;
    netlink.join(bridge, members, mtu_bytes)?;
    for member in members {
        let ifindex = facts_named(&mut netlink, member)?.ifindex;
        await_carrier(&mut netlink, ifindex, member, CARRIER_TIMEOUT)?;
    }
    Ok(())
}

/// Takes the IP addresses from an end and gives its interface this link address instead of its own, so that a guest can have those that
/// its neighbours know.
///
/// # Errors
///
/// [`LabError::Refused`].
pub fn give_away_addresses(end: &CableEnd, mac: [u8; 6]) -> Result<(), LabError> {
    let mut netlink = Netlink::open_in(&end.namespace)?;
    for (address, prefix_bits) in end.addresses() {
        netlink.remove_address(end.ifindex, address, prefix_bits)?;
    }
    let mut message = LinkMessage::default();
    message.header.index = end.ifindex;
    message.attributes = vec![LinkAttribute::Address(mac.to_vec())];
    let change = RouteNetlinkMessage::SetLink(message);
    netlink.request(&|| format!("change the link address of {}", end.interface), change, 0)
}

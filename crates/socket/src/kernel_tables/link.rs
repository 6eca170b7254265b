//! RTM_NEWLINK.
//!
//! Source: `include/uapi/linux/if_link.h`.

use nearwire_stack::{Link, LinkKind};
use nearwire_sys::netlink::message::{Attributes, Message, u16_of, u32_of};
use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::TagKind;
use netlink_packet_route::link::{LinkFlags, LinkHeader, LinkLayerType};

use super::error::Malformed;

pub(super) const HEADER_BYTES: usize = 16;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const ETH_P_8021AD: [u8; 2] = [0x88, 0xa8];

/// What is said of a link before its kind is known.
#[derive(Default)]
struct Facts<'a> {
    mac: Option<MacAddress>,
    mtu_bytes: u32,
    below: Option<u32>,
    is_below_elsewhere: bool,
    has_master: bool,
    /// IFLA_INFO_KIND without its NUL; hardware has none.
    software: Option<&'a [u8]>,
    vlan: Option<(TagKind, u16)>,
}

/// The link of an RTM_NEWLINK.
pub(super) fn link(message: &Message<'_>) -> Result<Link, Malformed> {
    let header = LinkHeader::parse(message.payload).map_err(|_| Malformed)?;
    let mut facts = Facts::default();
    for (kind, value) in message.attributes(HEADER_BYTES) {
        match kind {
            libc::IFLA_ADDRESS => facts.mac = value.try_into().ok().map(MacAddress),
            libc::IFLA_MTU => facts.mtu_bytes = u32_of(value).ok_or(Malformed)?,
            libc::IFLA_LINK => facts.below = u32_of(value),
            libc::IFLA_LINK_NETNSID => facts.is_below_elsewhere = true,
            libc::IFLA_MASTER => facts.has_master = u32_of(value) != Some(0),
            libc::IFLA_LINKINFO => link_info(value, &mut facts),
            _ => {}
        }
    }
    Ok(Link {
        ifindex: header.index,
        mac: facts.mac.unwrap_or_default(),
        mtu_bytes: facts.mtu_bytes,
        is_up: header.flags.contains(LinkFlags::Up),
        kind: kind(&header, &facts),
    })
}

fn link_info<'a>(info: &'a [u8], facts: &mut Facts<'a>) {
    let find = |wanted| Attributes(info).value(wanted);
    facts.software = find(IFLA_INFO_KIND).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
    if facts.software == Some(b"vlan") {
        facts.vlan = find(IFLA_INFO_DATA).and_then(vlan);
    }
}

fn vlan(data: &[u8]) -> Option<(TagKind, u16)> {
    let (mut tag, mut vlan_id) = (TagKind::Customer, None);
    for (kind, value) in Attributes(data) {
        match kind {
            IFLA_VLAN_ID => vlan_id = u16_of(value),
            IFLA_VLAN_PROTOCOL if value == ETH_P_8021AD => tag = TagKind::Service,
            _ => {}
        }
    }
    vlan_id.map(|vlan_id| (tag, vlan_id))
}

fn kind(header: &LinkHeader, facts: &Facts<'_>) -> LinkKind {
    if header.flags.contains(LinkFlags::Loopback) {
        return LinkKind::Loopback;
    }
    // What a bridge, bond or VRF holds is not an interface with addresses of its own.
    if facts.has_master || facts.mac.is_none() || header.link_layer_type != LinkLayerType::Ether {
        return LinkKind::Other;
    }
    match (facts.software, facts.vlan, facts.below) {
        (None | Some(b"veth"), ..) => LinkKind::Ethernet,
        // A parent in another namespace has a number of that namespace.
        (_, Some((tag, vlan_id)), Some(parent)) if !facts.is_below_elsewhere => LinkKind::Vlan { parent, tag, vlan_id },
        _ => LinkKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    const UP: u32 = 1;
    const LOOPBACK: u32 = 8;

    fn request(hardware: u16, flags: u32) -> Request {
        let mut header = [0; HEADER_BYTES];
        header[2..4].copy_from_slice(&hardware.to_ne_bytes());
        header[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        header[8..12].copy_from_slice(&flags.to_ne_bytes());
        Request::new(libc::RTM_NEWLINK, 0, 0, &header)
            .attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9])
            .attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes())
    }

    fn parsed(request: Request) -> Link {
        let bytes = request.into_bytes();
        link(&Messages::new(&bytes).next().unwrap()).unwrap()
    }

    /// IFLA_LINKINFO of a VLAN: kind, then data with id 42 and a protocol.
    fn vlan_info(protocol: [u8; 2]) -> Vec<u8> {
        let mut info = vec![9, 0, 1, 0, b'v', b'l', b'a', b'n', 0, 0, 0, 0];
        info.extend([20, 0, 2, 0, 6, 0, 1, 0, 42, 0, 0, 0, 6, 0, 5, 0, protocol[0], protocol[1], 0, 0]);
        info
    }

    #[test]
    fn hardware_and_veth_are_ethernet() {
        let plain = parsed(request(1, UP));
        let wanted = Link {
            ifindex: 7,
            mac: MacAddress([2, 0, 0, 0, 0, 9]),
            mtu_bytes: 1500,
            is_up: true,
            kind: LinkKind::Ethernet,
        };
        assert_eq!(plain, wanted);
        let veth = request(1, 0).attribute(libc::IFLA_LINKINFO, &[9, 0, 1, 0, b'v', b'e', b't', b'h', 0, 0, 0, 0]);
        assert_eq!(parsed(veth), Link { is_up: false, ..wanted });
    }

    #[test]
    fn loopback_dummy_slave_and_tunnel_are_told_apart() {
        assert_eq!(parsed(request(772, UP | LOOPBACK)).kind, LinkKind::Loopback);
        let dummy =
            request(1, UP).attribute(libc::IFLA_LINKINFO, &[10, 0, 1, 0, b'd', b'u', b'm', b'm', b'y', 0, 0, 0]);
        assert_eq!(parsed(dummy).kind, LinkKind::Other);
        assert_eq!(parsed(request(1, UP).attribute(libc::IFLA_MASTER, &[3, 0, 0, 0])).kind, LinkKind::Other);
        assert_eq!(parsed(request(65534, UP)).kind, LinkKind::Other);
        assert_eq!(parsed(request(1, UP).attribute(libc::IFLA_ADDRESS, &[1; 20])).kind, LinkKind::Other);
    }

    #[test]
    fn vlan_has_its_parent_unless_that_is_in_another_namespace() {
        let vlan = |protocol| {
            request(1, UP)
                .attribute(libc::IFLA_LINK, &[4, 0, 0, 0])
                .attribute(libc::IFLA_LINKINFO, &vlan_info(protocol))
        };
        let customer = LinkKind::Vlan { parent: 4, tag: TagKind::Customer, vlan_id: 42 };
        assert_eq!(parsed(vlan([0x81, 0])).kind, customer);
        let service = LinkKind::Vlan { parent: 4, tag: TagKind::Service, vlan_id: 42 };
        assert_eq!(parsed(vlan(ETH_P_8021AD)).kind, service);
        let elsewhere = vlan([0x81, 0]).attribute(libc::IFLA_LINK_NETNSID, &[0; 4]);
        assert_eq!(parsed(elsewhere).kind, LinkKind::Other);
    }
}

//! Segments of NICs with several queues: their other ends are tap devices in a namespace of their own, and a bridge there joins
//! those of one segment. QEMU's own hubs know one queue only.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use super::hardware::HostNic;
use crate::netlink::Netlink;
use crate::{LabError, Namespace};

/// What tap devices and bridges carry: more than any NIC here is set to.
const MTU_BYTES: u32 = 16_384;

/// Joins the tap devices of each segment that has two or more. QEMU has made them.
pub(super) fn join(namespace: &Namespace, nics: &[HostNic]) -> Result<(), LabError> {
    let taps = || nics.iter().enumerate().filter(|(_, nic)| nic.is_joined_here());
    let mut segments: Vec<u32> = taps().map(|(_, nic)| nic.segment).collect();
    segments.sort_unstable();
    segments.dedup();
    let mut netlink = Netlink::open_in(namespace)?;
    for segment in segments {
        let members: Vec<String> =
            taps().filter(|(_, nic)| nic.segment == segment).map(|(index, _)| format!("tap{index}")).collect();
        if members.len() > 1 {
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            netlink.join(&format!("segment{segment}"), &members, MTU_BYTES)?;
        }
    }
    Ok(())
}

impl Netlink {
    /// Makes a bridge and makes these interfaces its ports.
    pub(crate) fn join(&mut self, bridge: &str, members: &[&str], mtu_bytes: u32) -> Result<(), LabError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(bridge.to_owned()),
            LinkAttribute::Mtu(mtu_bytes),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        let creation = RouteNetlinkMessage::NewLink(message);
        self.request(&|| format!("create bridge {bridge}"), creation, NLM_F_CREATE | NLM_F_EXCL)?;
        let bridge_index = self.index_of(bridge)?;
        for member in members {
            let mut message = LinkMessage::default();
            message.header.index = self.index_of(member)?;
            message.attributes = vec![LinkAttribute::Controller(bridge_index), LinkAttribute::Mtu(mtu_bytes)];
            let index = message.header.index;
            let change = RouteNetlinkMessage::SetLink(message);
            self.request(&|| format!("make {member} a port of bridge {bridge}"), change, 0)?;
            self.set_up(index, true)?;
        }
        self.set_up(bridge_index, true)
    }

    fn index_of(&mut self, interface: &str) -> Result<u32, LabError> {
        crate::interface::facts_named(self, interface).map(|facts| facts.ifindex)
    }
}

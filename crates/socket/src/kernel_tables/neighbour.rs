//! RTM_NEWNEIGH and RTM_DELNEIGH.
//!
//! Source: `include/uapi/linux/neighbour.h`.

use nearwire_stack::{Neighbour, NeighbourState, Update};
use nearwire_sys::netlink::message::{Message, address_of};
use nearwire_wire::MacAddress;
use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourHeader, NeighbourState as State};

use super::error::Malformed;

const HEADER_BYTES: usize = 12;

/// What an RTM_NEWNEIGH or RTM_DELNEIGH of IPv4 or IPv6 means. `None`: not a neighbour that is sent to: a proxy entry,
/// or a group, which the kernel makes without a message.
pub(super) fn neighbour(message: &Message<'_>, is_gone: bool) -> Result<Option<Update>, Malformed> {
    let header = NeighbourHeader::parse(message.payload).map_err(|_| Malformed)?;
    if header.flags.contains(NeighbourFlags::Proxy) {
        return Ok(None);
    }
    let (mut address, mut mac) = (None, None);
    for (kind, value) in message.attributes(HEADER_BYTES) {
        match kind {
            libc::NDA_DST => address = address_of(value),
            libc::NDA_LLADDR => mac = value.try_into().ok().map(MacAddress),
            _ => {}
        }
    }
    let address = address.ok_or(Malformed)?;
    if address.is_multicast() {
        return Ok(None);
    }
    let ifindex = header.ifindex;
    let gone = Update::DelNeighbour { ifindex, address };
    let state = state(header.state).filter(|_| !is_gone);
    Ok(Some(match (state, mac) {
        (None, _) => gone,
        // Hardware addresses of another length are not Ethernet's.
        (Some(state), None) if state.is_usable() => gone,
        (Some(state), mac) => Update::NewNeighbour(Neighbour { ifindex, address, mac: mac.unwrap_or_default(), state }),
    }))
}

/// `None`: NUD_NONE, and what no kernel has.
fn state(state: State) -> Option<NeighbourState> {
    Some(match state {
        State::Incomplete => NeighbourState::Incomplete,
        State::Reachable => NeighbourState::Reachable,
        State::Stale => NeighbourState::Stale,
        State::Delay => NeighbourState::Delay,
        State::Probe => NeighbourState::Probe,
        State::Failed => NeighbourState::Failed,
        State::Noarp => NeighbourState::Noarp,
        State::Permanent => NeighbourState::Permanent,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const REACHABLE: u8 = 2;
    const FAILED: u8 = 0x20;

    fn request(state: u8, flags: u8, lladdr: &[u8]) -> Request {
        let header = [libc::AF_INET as u8, 0, 0, 0, 7, 0, 0, 0, state, 0, flags, 0];
        let request = Request::new(libc::RTM_NEWNEIGH, 0, 0, &header).attribute(libc::NDA_DST, &[10, 0, 0, 2]);
        if lladdr.is_empty() { request } else { request.attribute(libc::NDA_LLADDR, lladdr) }
    }

    fn parsed(request: Request, is_gone: bool) -> Option<Update> {
        let bytes = request.into_bytes();
        neighbour(&Messages::new(&bytes).next().unwrap(), is_gone).unwrap()
    }

    #[test]
    fn reachable_and_failed_neighbour_are_new() {
        let new = |mac, state| {
            Some(Update::NewNeighbour(Neighbour { ifindex: 7, address: ADDRESS, mac: MacAddress(mac), state }))
        };
        let mac = [2, 0, 0, 0, 0, 9];
        assert_eq!(parsed(request(REACHABLE, 0, &mac), false), new(mac, NeighbourState::Reachable));
        assert_eq!(parsed(request(FAILED, 0, &[]), false), new([0; 6], NeighbourState::Failed));
    }

    #[test]
    fn neighbour_gone_or_without_ethernet_address_is_deleted() {
        let gone = Some(Update::DelNeighbour { ifindex: 7, address: ADDRESS });
        assert_eq!(parsed(request(REACHABLE, 0, &[2, 0, 0, 0, 0, 9]), true), gone);
        assert_eq!(parsed(request(REACHABLE, 0, &[10, 9, 9, 9]), false), gone, "of a tunnel");
        assert_eq!(parsed(request(REACHABLE, 0, &[]), false), gone);
        assert_eq!(parsed(request(0, 0, &[]), false), gone, "NUD_NONE");
    }

    #[test]
    fn proxy_entry_is_not_a_neighbour() {
        assert_eq!(parsed(request(0, 8, &[]), false), None);
    }
}

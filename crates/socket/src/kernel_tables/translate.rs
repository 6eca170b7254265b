//! From messages to updates: which matter, and where updates alone would go wrong.

use std::collections::HashSet;
use std::net::IpAddr;

use nearwire_stack::{InterfaceAddress, Link, Route, RouteTable, Update};
use nearwire_sys::netlink::message::Message;

use super::TablesError;
use super::error::Malformed;
use super::groups::Groups;
use super::{address, link, neighbour, route};

const RTM_NEWMULTICAST: u16 = 56;
const RTM_DELMULTICAST: u16 = 57;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
/// Below it the kernel takes IPv6 off an interface, and with it all groups (`net/ipv6/addrconf.c`).
const IPV6_MTU_BYTES_MIN: u32 = 1280;

/// What events call for beside the updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noticed {
    pub(super) is_any: bool,
    pub(super) is_lost: bool,
    /// Ask for the rules.
    pub(super) rules: bool,
    /// Read the groups.
    pub(super) groups: bool,
}

/// A route's place; several may be at one.
type RoutePlace = (RouteTable, IpAddr, u8, u32);

/// Turns messages into updates, and remembers the little that this takes.
#[derive(Debug)]
pub(super) struct Translator {
    pub(super) groups: Groups,
    are_groups_told: bool,
    /// Where there are multipath routes. The kernel does not report all changes of their ways.
    multipath: HashSet<RoutePlace>,
    /// With their prefix length: one address may be there twice, which [`Update::DelAddress`] cannot say.
    addresses: HashSet<(u32, IpAddr, u8)>,
    has_unknown_route: bool,
}

impl Translator {
    pub(super) fn open(are_groups_told: bool) -> Result<Self, TablesError> {
        Ok(Self {
            groups: Groups::open()?,
            are_groups_told,
            multipath: HashSet::new(),
            addresses: HashSet::new(),
            has_unknown_route: false,
        })
    }

    /// A dump begins.
    pub(super) fn forget(&mut self) {
        self.groups.forget();
        self.multipath.clear();
        self.addresses.clear();
        self.has_unknown_route = false;
    }

    /// Whether a dumped route could not be understood.
    pub(super) const fn has_unknown_route(&self) -> bool {
        self.has_unknown_route
    }

    /// Takes in a message of a dump. One that is not understood is left out.
    pub(super) fn dumped(&mut self, message: &Message<'_>, apply: &mut impl FnMut(Update)) {
        let mut noticed = Noticed::default();
        if self.take(message, &mut noticed, apply).is_err() {
            self.has_unknown_route |= message.kind == libc::RTM_NEWROUTE;
        }
    }

    /// Takes in news.
    pub(super) fn event(&mut self, message: &Message<'_>, noticed: &mut Noticed, apply: &mut impl FnMut(Update)) {
        if self.take(message, noticed, apply).is_err() {
            noticed.is_lost = true;
        }
    }

    fn take(
        &mut self,
        message: &Message<'_>,
        noticed: &mut Noticed,
        apply: &mut impl FnMut(Update),
    ) -> Result<(), Malformed> {
        let is_ip = matches!(message.family(), libc::AF_INET | libc::AF_INET6);
        match message.kind {
            // Bridges speak of their ports by messages of the family AF_BRIDGE.
            libc::RTM_NEWLINK | libc::RTM_DELLINK if message.family() != libc::AF_UNSPEC => {}
            libc::RTM_NEWLINK => apply(self.new_link(link::link(message)?, noticed)),
            libc::RTM_DELLINK => apply(self.del_link(link::link(message)?.ifindex, noticed)),
            libc::RTM_NEWRULE | libc::RTM_DELRULE => noticed.rules = true,
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => noticed.is_lost |= !self.multipath.is_empty(),
            _ if !is_ip => {}
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                let is_gone = message.kind == libc::RTM_DELADDR;
                apply(self.address(address::address(message)?, is_gone, noticed));
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                if let Some(route) = route::route(message)? {
                    let is_gone = message.kind == libc::RTM_DELROUTE;
                    let has = |flags| i32::from(message.flags) & flags != 0;
                    // Before others of its metric (`ip route prepend`), which an update cannot say; IPv6 has no such order.
                    let is_prepended = !has(libc::NLM_F_EXCL | libc::NLM_F_APPEND | libc::NLM_F_REPLACE);
                    noticed.is_lost |= !is_gone && is_prepended && route.destination.is_ipv4();
                    apply(self.route(route, is_gone, has(libc::NLM_F_REPLACE), noticed));
                }
            }
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                neighbour::neighbour(message, message.kind == libc::RTM_DELNEIGH)?.into_iter().for_each(apply);
            }
            RTM_NEWMULTICAST | RTM_DELMULTICAST => {
                apply(self.groups.event(message, message.kind == RTM_DELMULTICAST)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn new_link(&mut self, link: Link, noticed: &mut Noticed) -> Update {
        noticed.groups |= !self.are_groups_told || link.mtu_bytes < IPV6_MTU_BYTES_MIN;
        // An IPv4 route of which all ways are gone goes without a message (`fib_sync_down_dev`).
        noticed.is_lost |= !link.is_up && !self.multipath.is_empty();
        Update::NewLink(link)
    }

    fn del_link(&mut self, ifindex: u32, noticed: &mut Noticed) -> Update {
        self.groups.forget_link(ifindex);
        self.addresses.retain(|(at, ..)| *at != ifindex);
        noticed.is_lost |= !self.multipath.is_empty();
        Update::DelLink { ifindex }
    }

    fn address(&mut self, address: InterfaceAddress, is_gone: bool, noticed: &mut Noticed) -> Update {
        noticed.groups |= !self.are_groups_told;
        let ifindex = address.ifindex;
        let known = (ifindex, address.address, address.prefix_len);
        if !is_gone {
            self.addresses.insert(known);
            return Update::NewAddress(address);
        }
        self.addresses.remove(&known);
        let address = address.address;
        noticed.is_lost |= self.addresses.iter().any(|other| (other.0, other.1) == (ifindex, address));
        Update::DelAddress { ifindex, address }
    }

    fn route(&mut self, route: Route, is_gone: bool, replaces: bool, noticed: &mut Noticed) -> Update {
        let is_v6 = route.destination.is_ipv6();
        let place = (route.table, route.destination, route.prefix_len, route.metric);
        match (is_gone, route.is_multipath) {
            (false, true) => drop(self.multipath.insert(place)),
            (true, true) => drop(self.multipath.remove(&place)),
            (false, false) if replaces => drop(self.multipath.remove(&place)),
            // IPv6 says which way of a multipath route is gone, but not which are left.
            (true, false) => noticed.is_lost |= is_v6 && self.multipath.contains(&place),
            (false, false) => {}
        }
        if is_gone {
            return Update::DelRoute(route);
        }
        // IPv6 tells all ways when one joins another: the lone route of before is among them.
        let replaces = replaces || (is_v6 && route.is_multipath);
        Update::NewRoute { route, replaces }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    fn translator() -> Translator {
        Translator::open(true).unwrap()
    }

    fn said(translator: &mut Translator, bytes: &[u8]) -> (Vec<Update>, Noticed) {
        let (mut updates, mut noticed) = (Vec::new(), Noticed::default());
        for message in Messages::new(bytes) {
            translator.event(&message, &mut noticed, &mut |update| updates.push(update));
        }
        (updates, noticed)
    }

    fn link_down() -> Vec<u8> {
        link_down_with_mtu(1500)
    }

    fn link_down_with_mtu(mtu_bytes: u32) -> Vec<u8> {
        Request::new(libc::RTM_NEWLINK, 0, 0, &[0; 16]).attribute(libc::IFLA_MTU, &mtu_bytes.to_ne_bytes()).into_bytes()
    }

    fn route_v6(kind: u16, flags: u16, way: u16) -> Vec<u8> {
        let header = [libc::AF_INET6 as u8, 64, 0, 0, libc::RT_TABLE_MAIN, 3, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
        Request::new(kind, flags, 0, &header)
            .attribute(libc::RTA_DST, &Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).octets())
            .attribute(way, &[7, 0, 0, 0])
            .into_bytes()
    }

    #[test]
    fn kernel_that_does_not_tell_of_groups_they_are_read_when_a_link_changes() {
        assert!(!said(&mut translator(), &link_down_with_mtu(1500)).1.groups);
        assert!(said(&mut Translator::open(false).unwrap(), &link_down_with_mtu(1500)).1.groups);
        assert!(said(&mut translator(), &link_down_with_mtu(1000)).1.groups, "IPv6 left the link");
    }

    #[test]
    fn message_of_unknown_type_is_passed_over() {
        let bytes = Request::new(1000, 0, 0, &[2, 0, 0, 0]).into_bytes();
        assert_eq!(said(&mut translator(), &bytes), (vec![], Noticed::default()));
    }

    #[test]
    fn malformed_message_asks_for_a_resync_and_the_next_is_taken() {
        let mut bytes = Request::new(libc::RTM_NEWADDR, 0, 0, &[2, 24, 0, 0, 7, 0, 0, 0]).into_bytes();
        bytes.extend(link_down());
        let (updates, noticed) = said(&mut translator(), &bytes);
        assert!(noticed.is_lost && matches!(updates[..], [Update::NewLink(_)]));
    }

    #[test]
    fn bridges_word_of_its_port_is_not_the_end_of_the_link() {
        let mut header = [0; 16];
        header[0] = libc::AF_BRIDGE as u8;
        let bytes = Request::new(libc::RTM_DELLINK, 0, 0, &header).into_bytes();
        assert_eq!(said(&mut translator(), &bytes).0, []);
    }

    #[test]
    fn dumped_route_that_is_not_understood_is_remembered() {
        let mut translator = translator();
        let header = [libc::AF_INET as u8, 8, 0, 0, libc::RT_TABLE_MAIN, 3, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
        let bytes = Request::new(libc::RTM_NEWROUTE, 0, 0, &header).attribute(libc::RTA_DST, &[1, 2]).into_bytes();
        translator.dumped(&Messages::new(&bytes).next().unwrap(), &mut |_| panic!("no update"));
        assert!(translator.has_unknown_route());
        translator.forget();
        assert!(!translator.has_unknown_route());
    }

    #[test]
    fn link_down_with_multipath_routes_asks_for_a_resync() {
        let mut translator = translator();
        assert!(!said(&mut translator, &link_down()).1.is_lost);
        let (updates, _) = said(&mut translator, &route_v6(libc::RTM_NEWROUTE, 0, libc::RTA_MULTIPATH));
        assert!(matches!(&updates[..], [Update::NewRoute { route, replaces: true }] if route.is_multipath));
        assert!(said(&mut translator, &link_down()).1.is_lost);
        said(&mut translator, &route_v6(libc::RTM_DELROUTE, 0, libc::RTA_MULTIPATH));
        assert!(!said(&mut translator, &link_down()).1.is_lost);
    }

    #[test]
    fn one_way_of_a_v6_multipath_route_gone_asks_for_a_resync() {
        let mut translator = translator();
        let gone = route_v6(libc::RTM_DELROUTE, 0, libc::RTA_OIF);
        assert!(!said(&mut translator, &gone).1.is_lost);
        said(&mut translator, &route_v6(libc::RTM_NEWROUTE, 0, libc::RTA_MULTIPATH));
        assert!(said(&mut translator, &gone).1.is_lost);
    }

    #[test]
    fn address_that_is_there_twice_and_goes_once_asks_for_a_resync() {
        let mut translator = translator();
        let message = |kind, prefix_len| {
            let header = [libc::AF_INET as u8, prefix_len, 0, 0, 7, 0, 0, 0];
            Request::new(kind, 0, 0, &header)
                .attribute(libc::IFA_LOCAL, &Ipv4Addr::new(10, 0, 0, 1).octets())
                .into_bytes()
        };
        said(&mut translator, &message(libc::RTM_NEWADDR, 24));
        said(&mut translator, &message(libc::RTM_NEWADDR, 16));
        assert!(said(&mut translator, &message(libc::RTM_DELADDR, 24)).1.is_lost);
        assert!(!said(&mut translator, &message(libc::RTM_DELADDR, 16)).1.is_lost);
    }
}

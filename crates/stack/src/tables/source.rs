//! Chooses the source address of a packet when the program gave none.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::address::Address;

use super::update::InterfaceAddress;

/// Where the packet goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) ifindex: u32,
    pub(super) destination: Address,
    pub(super) gateway: Option<Address>,
}

/// Chooses as the kernel does.
pub(super) fn select(addresses: &[InterfaceAddress], wanted: Wanted) -> Option<Address> {
    let usable = addresses.iter().filter(|address| !address.is_tentative);
    if wanted.destination.is_v4() {
        select_v4(usable.filter(|address| address.address.is_ipv4()), wanted)
    } else {
        select_v6(usable.filter(|address| address.address.is_ipv6()), wanted)
    }
}

/// `net/ipv4/devinet.c`, `inet_select_addr`: the first primary address of the interface, one of the gateway's subnet
/// before others (the destination's subnet does not matter); of another interface only when this one has none.
fn select_v4<'a>(usable: impl Iterator<Item = &'a InterfaceAddress> + Clone, wanted: Wanted) -> Option<Address> {
    let primary = usable.filter(|address| !address.is_secondary);
    let mut here = primary.clone().filter(|address| address.ifindex == wanted.ifindex);
    let in_subnet = |address: &&InterfaceAddress| {
        let is_near = |gateway: Address| {
            Address::from(address.address).masked(address.prefix_len) == gateway.masked(address.prefix_len)
        };
        wanted.gateway.is_some_and(is_near)
    };
    let chosen = here.clone().find(in_subnet).or_else(|| here.next());
    let elsewhere = || primary.clone().find(|address| !is_narrow_v4(address));
    chosen.or_else(elsewhere).map(|address| address.address.into())
}

/// Link-local and loopback addresses do not go out of other interfaces.
fn is_narrow_v4(address: &InterfaceAddress) -> bool {
    let address = Address::from(address.address);
    address.is_loopback() || address.to_v4().is_link_local()
}

/// RFC 6724 section 5, without rules 4 (mobile IP) and 5.5.
fn select_v6<'a>(usable: impl Iterator<Item = &'a InterfaceAddress>, wanted: Wanted) -> Option<Address> {
    let destination = wanted.destination;
    let wanted_scope = scope(destination.to_v6());
    // Section 4: for groups and link-local destinations only addresses of the interface are candidates.
    let stays_on_link = destination.is_multicast() || wanted_scope <= LINK_LOCAL;
    let candidates = usable.filter(|address| !stays_on_link || address.ifindex == wanted.ifindex);
    let best = candidates.max_by_key(|candidate| {
        let address = Address::from(candidate.address);
        let own_scope = scope(address.to_v6());
        // Rule 2: the smallest scope that reaches; of those that do not, the largest.
        let reach = if own_scope >= wanted_scope { i16::from(u8::MAX) - own_scope } else { own_scope - 256 };
        (
            address == destination,
            reach,
            !candidate.is_deprecated,
            candidate.ifindex == wanted.ifindex,
            label(address.to_v6()) == label(destination.to_v6()),
            !candidate.is_temporary,
            // Rule 8 counts within the prefix of the source address.
            address.common_bits(destination).min(u32::from(candidate.prefix_len)),
        )
    });
    best.map(|address| address.address.into())
}

const LINK_LOCAL: i16 = 2;
const SITE_LOCAL: i16 = 5;
const GLOBAL: i16 = 14;

/// RFC 6724 section 3.1. Unique local addresses are global in scope.
fn scope(address: Ipv6Addr) -> i16 {
    match address.segments()[0] {
        group if group & 0xff00 == 0xff00 => (group & 0xf) as i16,
        unicast if unicast & 0xffc0 == 0xfe80 => LINK_LOCAL,
        unicast if unicast & 0xffc0 == 0xfec0 => SITE_LOCAL,
        _ if address == Ipv6Addr::LOCALHOST => LINK_LOCAL,
        _ => GLOBAL,
    }
}

/// The labels of the default policy table, RFC 6724 section 2.1.
fn label(address: Ipv6Addr) -> u8 {
    let segments = address.segments();
    match segments {
        _ if address == Ipv6Addr::LOCALHOST => 0,
        [0, 0, 0, 0, 0, 0xffff, ..] => 4,
        [0, 0, 0, 0, 0, 0, ..] => 3,
        [0x2001, 0, ..] => 5,
        [0x2002, ..] => 2,
        [0x3ffe, ..] => 12,
        [first, ..] if first & 0xffc0 == 0xfec0 => 11,
        [first, ..] if first & 0xfe00 == 0xfc00 => 13,
        _ => 1,
    }
}

/// Whether no packet may come from this IPv4 address (RFC 1122 section 3.2.1.3; `ip_route_input_slow`). The limited
/// broadcast may be answered by a host that has no address yet: then the source is zero.
#[inline]
pub(super) fn is_martian_v4(source: Ipv4Addr, to_limited_broadcast: bool) -> bool {
    let [first, ..] = source.octets();
    match first {
        0 => !to_limited_broadcast || !source.is_unspecified(),
        127 | 224..=239 => true,
        255 => source == Ipv4Addr::BROADCAST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(ifindex: u32, text: &str) -> InterfaceAddress {
        let (address, prefix_len) = text.split_once('/').unwrap();
        InterfaceAddress {
            ifindex,
            address: address.parse().unwrap(),
            prefix_len: prefix_len.parse().unwrap(),
            broadcast: None,
            is_secondary: false,
            is_deprecated: false,
            is_temporary: false,
            is_tentative: false,
        }
    }

    fn selected(addresses: &[InterfaceAddress], destination: &str, gateway: Option<&str>) -> Option<String> {
        let parse = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        let wanted = Wanted { ifindex: 2, destination: parse(destination), gateway: gateway.map(parse) };
        select(addresses, wanted).map(|address| address.to_ip().to_string())
    }

    #[test]
    fn v4_source_is_the_first_primary_of_the_gateways_subnet() {
        let mut addresses = [
            address(3, "192.0.2.1/24"),
            address(2, "10.0.0.1/24"),
            address(2, "10.1.0.1/24"),
            address(2, "10.1.0.2/24"),
        ];
        addresses[3].is_secondary = true;
        assert_eq!(selected(&addresses, "8.8.8.8", Some("10.1.0.254")).as_deref(), Some("10.1.0.1"));
        assert_eq!(selected(&addresses, "8.8.8.8", Some("172.16.0.1")).as_deref(), Some("10.0.0.1"));
        assert_eq!(selected(&addresses, "10.1.0.9", None).as_deref(), Some("10.0.0.1"), "on the link");
        assert_eq!(selected(&addresses, "10.1.0.9", Some("fd00::1")).as_deref(), Some("10.0.0.1"));
        assert_eq!(selected(&addresses[..1], "8.8.8.8", None).as_deref(), Some("192.0.2.1"));
        assert_eq!(selected(&[], "8.8.8.8", None), None);
    }

    /// Examples of RFC 6724 section 10.1.
    #[test]
    fn v6_source_is_that_of_the_rfcs_examples() {
        let of = |list: &[&str], to| {
            let addresses: Vec<_> = list.iter().map(|text| address(2, text)).collect();
            selected(&addresses, to, None)
        };
        assert_eq!(of(&["2001:db8:3::1/64", "fe80::1/64"], "2001:db8:1::1").as_deref(), Some("2001:db8:3::1"));
        assert_eq!(of(&["2001:db8:3::1/64", "fe80::1/64"], "ff05::1").as_deref(), Some("2001:db8:3::1"));
        assert_eq!(of(&["2001:db8:1::2/64", "2001:db8:3::2/64"], "2001:db8:1::1").as_deref(), Some("2001:db8:1::2"));
        assert_eq!(of(&["fe80::2/64", "2001:db8:1::1/64"], "fe80::1").as_deref(), Some("fe80::2"));
        assert_eq!(
            of(&["2002:c633:6401::d5e3:7953:13eb:22e8/64", "2001:db8:1::2/64"], "2002:c633:6401::1").as_deref(),
            Some("2002:c633:6401:0:d5e3:7953:13eb:22e8")
        );
        assert_eq!(of(&["fd00::2/64", "2001:db8::2/64"], "2a00::1").as_deref(), Some("2001:db8::2"));
        assert_eq!(of(&["fd00::2/64", "2001:db8::2/64"], "fd01::1").as_deref(), Some("fd00::2"));
    }

    #[test]
    fn v6_source_for_a_group_is_never_of_another_interface() {
        let addresses = [address(1, "::1/128"), address(3, "2001:db8::1/64")];
        assert_eq!(selected(&addresses, "ff05::7", None), None);
        assert_eq!(selected(&addresses, "2001:db8:9::1", None).as_deref(), Some("2001:db8::1"));
        let with_own = [address(3, "2001:db8::1/64"), address(2, "fe80::2/64")];
        assert_eq!(selected(&with_own, "ff0e::7", None).as_deref(), Some("fe80::2"));
    }

    #[test]
    fn v6_deprecated_temporary_and_tentative_sources_come_last_or_never() {
        let mut addresses = [address(2, "2001:db8::1/64"), address(2, "2001:db8::2/64")];
        addresses[0].is_deprecated = true;
        assert_eq!(selected(&addresses, "2001:db8::1:0", None).as_deref(), Some("2001:db8::2"));
        addresses[1].is_tentative = true;
        assert_eq!(selected(&addresses, "2001:db8::1:0", None).as_deref(), Some("2001:db8::1"));
        addresses[0].is_deprecated = false;
        addresses[0].is_temporary = true;
        addresses[1].is_tentative = false;
        assert_eq!(selected(&addresses, "2001:db8::1:0", None).as_deref(), Some("2001:db8::2"));
    }
}

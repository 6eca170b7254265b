//! RTM_NEWROUTE and RTM_DELROUTE.
//!
//! Source: `include/uapi/linux/rtnetlink.h`; what fills the messages: `fib_dump_info` of
//! `net/ipv4/fib_semantics.c` and `rt6_fill_node` of `net/ipv6/route.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use nearwire_stack::{Path, Route, RouteKind, RouteTable};
use nearwire_sys::netlink::message::{Attributes, Message, address_of, u16_of, u32_of};
use netlink_packet_route::route::{RouteFlags, RouteHeader, RouteType};

use super::error::Malformed;

const HEADER_BYTES: usize = 12;
const RTA_NH_ID: u16 = 30;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_HOPLIMIT: u16 = 10;
/// `rta_expires` in `struct rta_cacheinfo`, and what it counts in (`USER_HZ`).
const EXPIRES_AT: usize = 8;
const MILLISECONDS_PER_TICK: u64 = 10;
const LWTUNNEL_ENCAP_NONE: u16 = 0;

/// The route of a message of IPv4 or IPv6. `None`: of a table that needs policy rules, or a cached one.
pub(super) fn route(message: &Message<'_>) -> Result<Option<Route>, Malformed> {
    let header = RouteHeader::parse(message.payload).map_err(|_| Malformed)?;
    let mut attributes = message.attributes(HEADER_BYTES);
    let in_attribute = attributes.find(|(kind, _)| *kind == libc::RTA_TABLE).and_then(|(_, value)| u32_of(value));
    let table = table(in_attribute.unwrap_or(header.table.into()));
    let Some(table) = table.filter(|_| !header.flags.contains(RouteFlags::Cloned)) else { return Ok(None) };
    let any = if message.family() == libc::AF_INET {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let kind = kind(header.kind);
    let mut route = Route {
        table,
        kind: kind.unwrap_or(RouteKind::Unicast),
        is_unsupported: kind.is_none() || header.tos != 0 || header.source_prefix_length != 0,
        ..Route::on_link(any, header.destination_prefix_length, 0)
    };
    for (kind, value) in message.attributes(HEADER_BYTES) {
        attribute(&mut route, kind, value)?;
    }
    if route.is_multipath {
        // The ways are the kernel's business, and a message that deletes the route may not name them.
        (route.ifindex, route.gateway) = (0, None);
    }
    Ok(Some(route))
}

fn attribute(route: &mut Route, kind: u16, value: &[u8]) -> Result<(), Malformed> {
    let address = || address_of(value).map(Some).ok_or(Malformed);
    match kind {
        libc::RTA_DST => route.destination = address_of(value).ok_or(Malformed)?,
        libc::RTA_OIF => route.ifindex = u32_of(value).ok_or(Malformed)?,
        libc::RTA_GATEWAY => route.gateway = address()?,
        // The family, then the address.
        libc::RTA_VIA => route.gateway = Some(value.get(2..).and_then(address_of).ok_or(Malformed)?),
        libc::RTA_PREFSRC => route.preferred_source = address()?,
        libc::RTA_PRIORITY => route.metric = u32_of(value).ok_or(Malformed)?,
        libc::RTA_METRICS => metrics(route, value),
        libc::RTA_MULTIPATH | RTA_NH_ID => route.is_multipath = true,
        libc::RTA_ENCAP => route.is_unsupported = true,
        libc::RTA_ENCAP_TYPE => route.is_unsupported |= u16_of(value) != Some(LWTUNNEL_ENCAP_NONE),
        libc::RTA_SRC | libc::RTA_NEWDST => route.is_unsupported = true,
        _ => {}
    }
    Ok(())
}

fn metrics(route: &mut Route, metrics: &[u8]) {
    for (kind, value) in Attributes(metrics) {
        let number = u32_of(value).filter(|number| *number != 0);
        match kind {
            RTAX_LOCK => route.is_mtu_locked = number.is_some_and(|locks| locks & 1 << RTAX_MTU != 0),
            RTAX_MTU => route.mtu_bytes = number,
            RTAX_HOPLIMIT => route.hop_limit = number.and_then(|hops| hops.try_into().ok()),
            _ => {}
        }
    }
}

/// What the answer to a question for one destination says of the path, and how long it is good (`rt_fill_info` of
/// `net/ipv4/route.c`, `rt6_fill_node` of `net/ipv6/route.c`).
pub(super) fn path(message: &Message<'_>) -> (Path, Option<Duration>) {
    let mut route = Route::on_link(Ipv4Addr::UNSPECIFIED.into(), 0, 0);
    let mut ticks = 0;
    for (kind, value) in message.attributes(HEADER_BYTES) {
        match kind {
            libc::RTA_METRICS => metrics(&mut route, value),
            libc::RTA_CACHEINFO => ticks = value.get(EXPIRES_AT..).and_then(u32_of).unwrap_or(0),
            _ => {}
        }
    }
    let expires = Duration::from_millis(u64::from(ticks) * MILLISECONDS_PER_TICK);
    let path = Path { mtu_bytes: route.mtu_bytes, is_mtu_locked: route.is_mtu_locked };
    (path, Some(expires).filter(|_| ticks.cast_signed() > 0))
}

fn table(number: u32) -> Option<RouteTable> {
    Some(match u8::try_from(number).ok()? {
        libc::RT_TABLE_LOCAL => RouteTable::Local,
        libc::RT_TABLE_MAIN => RouteTable::Main,
        libc::RT_TABLE_DEFAULT => RouteTable::Default,
        _ => return None,
    })
}

fn kind(kind: RouteType) -> Option<RouteKind> {
    Some(match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local | RouteType::Anycast => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Multicast => RouteKind::Multicast,
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit => RouteKind::Unreachable,
        RouteType::Throw => RouteKind::Throw,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    const MAIN: u8 = libc::RT_TABLE_MAIN;
    const UNICAST: u8 = libc::RTN_UNICAST;

    /// IPv4, 10.9.0.0/16 unless the prefix is shorter.
    fn request(prefix_len: u8, tos: u8, table: u8, kind: u8, flags: u32) -> Request {
        let mut header = vec![libc::AF_INET as u8, prefix_len, 0, tos, table, 3, 0, kind];
        header.extend(flags.to_ne_bytes());
        let request = Request::new(libc::RTM_NEWROUTE, 0, 0, &header).attribute(libc::RTA_OIF, &[7, 0, 0, 0]);
        if prefix_len == 0 { request } else { request.attribute(libc::RTA_DST, &[10, 9, 0, 0]) }
    }

    fn parsed(request: Request) -> Option<Route> {
        let bytes = request.into_bytes();
        route(&Messages::new(&bytes).next().unwrap()).unwrap()
    }

    #[test]
    fn default_route_has_gateway_metric_source_and_metrics() {
        let metrics = [8, 0, 1, 0, 4, 0, 0, 0, 8, 0, 2, 0, 0x78, 5, 0, 0, 8, 0, 10, 0, 33, 0, 0, 0];
        let bytes = request(0, 0, MAIN, UNICAST, 0)
            .attribute(libc::RTA_GATEWAY, &[10, 0, 0, 254])
            .attribute(libc::RTA_PREFSRC, &[10, 0, 0, 1])
            .attribute(libc::RTA_PRIORITY, &[100, 0, 0, 0])
            .attribute(libc::RTA_METRICS, &metrics);
        let wanted = Route {
            preferred_source: Some([10, 0, 0, 1].into()),
            metric: 100,
            mtu_bytes: Some(1400),
            is_mtu_locked: true,
            hop_limit: Some(33),
            ..Route::on_link([0, 0, 0, 0].into(), 0, 7).via([10, 0, 0, 254].into())
        };
        assert_eq!(parsed(bytes), Some(wanted));
    }

    #[test]
    fn answer_about_a_path_has_its_mtu_and_how_long_it_is_good() {
        let asked = |metrics: &[u8], expires: i32| {
            let mut cache = [0; 32];
            cache[EXPIRES_AT..EXPIRES_AT + 4].copy_from_slice(&expires.to_ne_bytes());
            let request = request(32, 0, MAIN, UNICAST, libc::RTM_F_CLONED).attribute(libc::RTA_METRICS, metrics);
            let bytes = request.attribute(libc::RTA_CACHEINFO, &cache).into_bytes();
            path(&Messages::new(&bytes).next().unwrap())
        };
        let narrow = Path { mtu_bytes: Some(1400), is_mtu_locked: false };
        assert_eq!(asked(&[8, 0, 2, 0, 0x78, 5, 0, 0], 59_900), (narrow, Some(Duration::from_secs(599))));
        assert_eq!(asked(&[], 0), (Path::default(), None));
    }

    #[test]
    fn gateway_of_the_other_family_is_kept() {
        let mut via = vec![10, 0];
        via.extend([0xfd; 16]);
        let found = parsed(request(16, 0, MAIN, UNICAST, 0).attribute(libc::RTA_VIA, &via)).unwrap();
        assert_eq!(found.gateway, Some(IpAddr::from([0xfd; 16])));
    }

    #[test]
    fn route_that_only_the_kernel_does_says_so() {
        assert!(parsed(request(16, 0x10, MAIN, UNICAST, 0)).unwrap().is_unsupported, "type of service");
        let encap = request(16, 0, MAIN, UNICAST, 0).attribute(libc::RTA_ENCAP_TYPE, &[1, 0]);
        assert!(parsed(encap).unwrap().is_unsupported);
        assert!(parsed(request(16, 0, MAIN, 10, 0)).unwrap().is_unsupported, "RTN_NAT");
        let group = parsed(request(16, 0, MAIN, UNICAST, 0).attribute(RTA_NH_ID, &[1, 0, 0, 0])).unwrap();
        assert!(group.is_multipath && group.ifindex == 0 && !group.is_unsupported);
    }

    #[test]
    fn cached_route_and_other_table_are_passed_over() {
        assert_eq!(parsed(request(16, 0, MAIN, UNICAST, libc::RTM_F_CLONED)), None);
        assert_eq!(parsed(request(16, 0, 100, UNICAST, 0)), None);
        let compat = request(16, 0, libc::RT_TABLE_COMPAT, UNICAST, 0);
        assert_eq!(parsed(compat.attribute(libc::RTA_TABLE, &1000_u32.to_ne_bytes())), None);
    }

    #[test]
    fn kinds_and_tables_are_those_of_the_kernel() {
        let found = parsed(request(16, 0, libc::RT_TABLE_LOCAL, libc::RTN_ANYCAST, 0)).unwrap();
        assert_eq!((found.table, found.kind), (RouteTable::Local, RouteKind::Local));
        let found = parsed(request(16, 0, libc::RT_TABLE_DEFAULT, libc::RTN_THROW, 0)).unwrap();
        assert_eq!((found.table, found.kind), (RouteTable::Default, RouteKind::Throw));
        assert_eq!(parsed(request(16, 0, MAIN, libc::RTN_PROHIBIT, 0)).unwrap().kind, RouteKind::Unreachable);
    }
}

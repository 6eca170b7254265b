//! What the kernel is told, the stack does: each change by `ip`, each outcome by what a send becomes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{NEAR, bed_or_skip, ip};
use nearwire_socket::kernel_tables::{KernelTables, News, PathErrors};
use nearwire_stack::NeedsKernel;
use nearwire_sys::descriptor::{Refusal, Request, Source, from_kernel, set_source};

const FAR4: &str = "10.77.0.2";
const FAR6: &str = "fd77::2";

#[test]
fn neighbour_resolved_by_the_kernel_send_goes_to_its_hardware_address() {
    let Some(mut bed) = bed_or_skip() else { return };
    let (near_mac, far_mac) = (bed.near().mac, bed.far().mac);
    for (far, any) in [(FAR4, Ipv4Addr::UNSPECIFIED.into()), (FAR6, IpAddr::from(Ipv6Addr::UNSPECIFIED))] {
        bed.ip(&format!("neigh del {far} dev {NEAR}"));
        assert_eq!(bed.send(far), Err(NeedsKernel::NeighbourUnresolved));
        bed.kernel_socket(any).send_to(b"first", (far, 9)).unwrap();
        bed.eventually("resolved", |bed| bed.send(far).is_ok());
        let frame = bed.send(far).unwrap();
        assert_eq!((&frame[..6], &frame[6..12]), (&far_mac[..], &near_mac[..]));
    }
}

#[test]
fn address_added_and_removed_its_network_comes_and_goes() {
    let Some(mut bed) = bed_or_skip() else { return };
    for (address, inside) in [("10.78.0.1/24", "10.78.0.9"), ("fd78::1/64", "fd78::9")] {
        assert_eq!(bed.send(inside), Err(NeedsKernel::NoRoute));
        bed.ip(&format!("addr add {address} dev {NEAR}"));
        assert_eq!(bed.send(inside), Err(NeedsKernel::NeighbourUnresolved));
        let own = address.split_once('/').unwrap().0;
        // IPv6 leaves it to a worker to make an address one's own.
        bed.eventually("own", |bed| bed.send(own) == Err(NeedsKernel::LocalDestination));
        bed.ip(&format!("addr del {address} dev {NEAR}"));
        assert_eq!((bed.send(inside), bed.send(own)), (Err(NeedsKernel::NoRoute), Err(NeedsKernel::NoRoute)));
    }
}

#[test]
fn address_there_twice_removed_once_stays() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("addr add 10.78.0.1/24 dev {NEAR}"));
    bed.ip(&format!("addr add 10.78.0.1/16 dev {NEAR}"));
    assert_eq!(bed.ip(&format!("addr del 10.78.0.1/24 dev {NEAR}")), News::Lost);
    assert_eq!(bed.send("10.78.0.1"), Err(NeedsKernel::LocalDestination));
}

#[test]
fn route_added_replaced_and_removed_is_followed() {
    let Some(mut bed) = bed_or_skip() else { return };
    for (net, one, two, inside) in [
        ("192.0.2.0/24", "10.77.0.50", "10.77.0.51", "192.0.2.9"),
        ("2001:db8::/32", "fd77::50", "fd77::51", "2001:db8::9"),
    ] {
        bed.ip(&format!("neigh add {one} lladdr 02:00:00:00:00:50 dev {NEAR}"));
        bed.ip(&format!("neigh add {two} lladdr 02:00:00:00:00:51 dev {NEAR}"));
        assert_eq!(bed.goes_to(inside), Err(NeedsKernel::NoRoute));
        bed.ip(&format!("route add {net} via {one}"));
        assert_eq!(bed.goes_to(inside), Ok(0x50));
        bed.ip(&format!("route replace {net} via {two}"));
        assert_eq!(bed.goes_to(inside), Ok(0x51));
        bed.ip(&format!("route del {net}"));
        assert_eq!(bed.goes_to(inside), Err(NeedsKernel::NoRoute));
        bed.ip(&format!("route add {net} nexthop via {one} nexthop via {two}"));
        assert_eq!(bed.goes_to(inside), Err(NeedsKernel::Multipath));
        bed.ip(&format!("route del {net}"));
        assert_eq!(bed.goes_to(inside), Err(NeedsKernel::NoRoute));
        bed.ip(&format!("route add unreachable {net}"));
        assert_eq!(bed.goes_to(inside), Err(NeedsKernel::Unreachable));
    }
}

#[test]
fn v4_route_put_before_another_is_taken() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("neigh add 10.77.0.50 lladdr 02:00:00:00:00:50 dev {NEAR}"));
    bed.ip(&format!("neigh add 10.77.0.51 lladdr 02:00:00:00:00:51 dev {NEAR}"));
    assert_eq!(bed.ip("route add 192.0.2.0/24 via 10.77.0.50"), News::Applied);
    assert_eq!(bed.ip("route append 192.0.2.0/24 via 10.77.0.51"), News::Applied);
    assert_eq!(bed.goes_to("192.0.2.9"), Ok(0x50));
    bed.ip("route del 192.0.2.0/24 via 10.77.0.51");
    assert_eq!(bed.ip("route prepend 192.0.2.0/24 via 10.77.0.51"), News::Lost);
    assert_eq!(bed.goes_to("192.0.2.9"), Ok(0x51));
}

#[test]
fn v6_multipath_route_that_loses_a_way_is_a_plain_route() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("neigh add fd77::51 lladdr 02:00:00:00:00:51 dev {NEAR}"));
    bed.ip("-6 route add 2001:db8::/32 via fd77::50");
    bed.ip("-6 route append 2001:db8::/32 via fd77::51");
    assert_eq!(bed.goes_to("2001:db8::9"), Err(NeedsKernel::Multipath));
    assert_eq!(bed.ip("-6 route del 2001:db8::/32 via fd77::50"), News::Lost);
    assert_eq!(bed.goes_to("2001:db8::9"), Ok(0x51));
}

#[test]
fn last_v4_address_removed_routes_of_its_interface_are_gone() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("route add 192.0.2.0/24 dev {NEAR}"));
    assert_eq!(bed.send("192.0.2.1"), Err(NeedsKernel::NeighbourUnresolved));
    bed.ip(&format!("addr del 10.77.0.1/24 dev {NEAR}"));
    assert_eq!(bed.send("192.0.2.1"), Err(NeedsKernel::NoRoute));
    assert_eq!(ip(&bed.near().namespace, "route show 192.0.2.0/24"), "");
}

#[test]
fn preferred_v6_source_removed_route_stays() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("addr add fd78::1/64 dev {NEAR}"));
    bed.eventually("own", |bed| bed.send("fd78::1") == Err(NeedsKernel::LocalDestination));
    bed.ip("-6 route add 2001:db8::/32 via fd77::2 src fd78::1");
    let source = |frame: Vec<u8>| frame[22..38].to_vec();
    assert_eq!(bed.send("2001:db8::1").map(source), Ok("fd78::1".parse::<Ipv6Addr>().unwrap().octets().to_vec()));
    bed.ip(&format!("addr del fd78::1/64 dev {NEAR}"));
    assert_eq!(bed.send("2001:db8::1").map(source), Ok(bed.near().ipv6.octets().to_vec()));
}

#[test]
fn mtu_changed_longer_datagram_needs_the_kernel() {
    let Some(mut bed) = bed_or_skip() else { return };
    let far = FAR4.parse().unwrap();
    assert!(bed.sender.send(far, 0, 1400).is_ok());
    bed.ip(&format!("link set {NEAR} mtu 1300"));
    assert_eq!(bed.sender.send(far, 0, 1400), Err(NeedsKernel::LargerThanMtu));
    bed.ip(&format!("link set {NEAR} mtu 1500"));
    assert!(bed.sender.send(far, 0, 1400).is_ok());
    bed.ip(&format!("route add {FAR4} dev {NEAR} mtu 1280"));
    assert_eq!(bed.sender.send(far, 0, 1400), Err(NeedsKernel::LargerThanMtu));
}

#[test]
fn link_down_and_up_is_followed() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("link set {NEAR} down"));
    assert_eq!((bed.send(FAR4), bed.send(FAR6)), (Err(NeedsKernel::NoRoute), Err(NeedsKernel::NoRoute)));
    bed.ip(&format!("link set {NEAR} up"));
    assert_eq!(bed.send(FAR4), Err(NeedsKernel::NeighbourUnresolved), "neighbours went with the link");
    bed.ip(&format!("neigh replace {FAR4} lladdr 02:00:00:00:00:42 dev {NEAR}"));
    assert_eq!(bed.goes_to(FAR4), Ok(0x42));
    bed.ip(&format!("link del {NEAR}"));
    assert_eq!(bed.send(FAR4), Err(NeedsKernel::NoRoute));
}

#[test]
fn neighbour_learned_failed_and_flushed_is_followed() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("neigh replace {FAR4} lladdr 02:00:00:00:00:42 dev {NEAR} nud reachable"));
    assert_eq!(bed.goes_to(FAR4), Ok(0x42));
    bed.ip(&format!("neigh replace {FAR4} lladdr 02:00:00:00:00:43 dev {NEAR} nud stale"));
    assert_eq!(bed.goes_to(FAR4), Ok(0x43));
    bed.ip(&format!("neigh change {FAR4} dev {NEAR} nud failed"));
    assert_eq!(bed.send(FAR4), Err(NeedsKernel::NeighbourUnresolved));
    bed.ip(&format!("neigh replace {FAR6} lladdr 02:00:00:00:00:44 dev {NEAR} nud reachable"));
    assert_eq!(bed.goes_to(FAR6), Ok(0x44));
    bed.ip(&format!("neigh flush dev {NEAR}"));
    assert_eq!(bed.send(FAR6), Err(NeedsKernel::NeighbourUnresolved));
    bed.ip(&format!("neigh add proxy 10.77.0.99 dev {NEAR}"));
    assert_eq!(bed.send("10.77.0.99"), Err(NeedsKernel::NeighbourUnresolved));
}

#[test]
fn stale_neighbour_in_use_is_confirmed_by_the_kernel() {
    let Some(mut bed) = bed_or_skip() else { return };
    for far in [FAR4, FAR6] {
        let mac = bed.far().mac.map(|byte| format!("{byte:02x}")).join(":");
        bed.ip(&format!("neigh replace {far} lladdr {mac} dev {NEAR} nud stale"));
        bed.send(far).unwrap();
        let (ifindex, address) = bed.sender.stack.take_stale_neighbour().unwrap();
        assert_eq!(address, far.parse::<IpAddr>().unwrap());
        bed.tables.use_neighbour(ifindex, address).unwrap();
        let state = ip(&bed.near().namespace, &format!("neigh show {far}"));
        assert!(["DELAY", "PROBE", "REACHABLE"].iter().any(|state_name| state.contains(state_name)), "{state}");
    }
    // One that is not there is refused, and the next question is answered.
    bed.tables.use_neighbour(999, FAR4.parse().unwrap()).unwrap();
    assert!(!bed.tables.snapshot().unwrap().is_empty());
}

#[test]
fn stale_neighbour_that_is_sent_a_packet_is_confirmed_by_the_kernel() {
    let Some(mut bed) = bed_or_skip() else { return };
    let errors = bed.near().namespace.enter(PathErrors::open).unwrap();
    let ifindex = bed.near().ifindex;
    for far in [FAR4, FAR6] {
        let mac = bed.far().mac.map(|byte| format!("{byte:02x}")).join(":");
        bed.ip(&format!("neigh replace {far} lladdr {mac} dev {NEAR} nud stale"));
        assert!(errors.use_neighbour(ifindex, far.parse().unwrap()));
        let state = ip(&bed.near().namespace, &format!("neigh show {far}"));
        assert!(["DELAY", "PROBE", "REACHABLE"].iter().any(|state_name| state.contains(state_name)), "{state}");
    }
    assert!(!errors.use_neighbour(999, FAR4.parse().unwrap()), "there is no such interface");
    assert!(!PathErrors::none().use_neighbour(ifindex, FAR4.parse().unwrap()));
}

#[test]
fn interface_in_a_bridge_is_the_kernels() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip("link add br0 type bridge");
    bed.ip(&format!("link set {NEAR} master br0"));
    bed.ip(&format!("link set {NEAR} nomaster"));
    assert!(bed.send(FAR4).is_ok(), "the bridge's word of the port is not its end");
}

#[test]
fn group_joined_by_another_socket_is_known_until_it_leaves() {
    let Some(mut bed) = bed_or_skip() else { return };
    bed.ip(&format!("route add 239.0.0.0/8 dev {NEAR}"));
    let (group4, group6) = (Ipv4Addr::new(239, 1, 2, 3), "ff05::7".parse::<Ipv6Addr>().unwrap());
    let (group4_text, group6_text) = (group4.to_string(), format!("{group6}"));
    bed.ip(&format!("-6 route add multicast ff05::/16 dev {NEAR} table local"));
    assert!(bed.send(&group4_text).is_ok() && bed.send(&group6_text).is_ok());
    let member4 = bed.kernel_socket(Ipv4Addr::UNSPECIFIED.into());
    member4.join_multicast_v4(&group4, &bed.near().ipv4).unwrap();
    let member6 = bed.kernel_socket(Ipv6Addr::UNSPECIFIED.into());
    member6.join_multicast_v6(&group6, bed.near().ifindex).unwrap();
    before_6_14_a_link_must_change(&mut bed);
    for group in [&group4_text, &group6_text] {
        assert_eq!(bed.send(group), Err(NeedsKernel::MulticastLoop), "{group} is joined");
    }
    drop((member4, member6));
    before_6_14_a_link_must_change(&mut bed);
    // The kernel takes a socket's groups away after the socket, in its own time.
    bed.eventually("left", |bed| bed.send(&group4_text).is_ok() && bed.send(&group6_text).is_ok());
}

fn before_6_14_a_link_must_change(bed: &mut common::Bed) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        bed.ip(&format!("link set {NEAR} txqueuelen 999"));
    }
    bed.catch_up();
}

#[test]
fn rule_added_all_is_the_kernels_until_it_is_removed() {
    let Some(mut bed) = bed_or_skip() else { return };
    for family in ["-4", "-6"] {
        assert!(bed.send(FAR4).is_ok());
        bed.ip(&format!("{family} rule add pref 100 lookup 100"));
        assert_eq!(bed.send(FAR4), Err(NeedsKernel::PolicyRouting));
        assert_eq!(bed.fresh().send(FAR4.parse().unwrap(), 0, 1), Err(NeedsKernel::PolicyRouting));
        bed.ip(&format!("{family} rule del pref 100"));
        assert!(bed.send(FAR4).is_ok());
    }
}

#[test]
fn fds_are_put_where_the_process_wants_them() {
    struct High;
    static PLACED: AtomicU32 = AtomicU32::new(0);
    impl Source for High {
        fn obtain(&self, request: &Request<'_>) -> Result<OwnedFd, Refusal> {
            from_kernel(request)
        }

        fn place(&self, fd: OwnedFd) -> OwnedFd {
            PLACED.fetch_add(1, Ordering::Relaxed);
            rustix::io::fcntl_dupfd_cloexec(&fd, 700).unwrap()
        }
    }
    let Some(bed) = bed_or_skip() else { return };
    set_source(&High);
    let (tables, _) = bed.near().namespace.enter(KernelTables::open).unwrap().unwrap();
    // Those of tests that run meanwhile count too.
    assert!(PLACED.load(Ordering::Relaxed) >= 4);
    assert!(tables.as_fd().as_raw_fd() >= 700);
}

#[test]
fn news_make_the_descriptor_readable_and_reading_takes_them() {
    let Some(mut bed) = bed_or_skip() else { return };
    assert_eq!(bed.catch_up(), News::None);
    ip(&bed.near().namespace, "addr add 10.78.0.1/24 dev nw0");
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(bed.tables.as_fd(), rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())), Ok(1));
    assert_eq!(bed.catch_up(), News::Applied);
    assert_eq!(bed.catch_up(), News::None);
}

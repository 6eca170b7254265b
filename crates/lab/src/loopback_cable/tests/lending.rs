//! Ports are lent, used, and come back as they were.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use netlink_packet_route::link::InfoKind;
use netlink_packet_route::route::{RouteAddress, RouteAttribute};

use super::host::Host;
use crate::interface::{InterfaceFacts, facts_named};
use crate::{Cable, CableEnd, LabError};

fn datagram_passes(from: &CableEnd, from_ip: IpAddr, to: &CableEnd, to_ip: IpAddr) {
    let bind = |end: &CableEnd, ip: IpAddr| {
        let socket = end.namespace.enter(|| UdpSocket::bind((ip, 0)));
        socket.unwrap().unwrap()
    };
    let receiver = bind(to, to_ip);
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sender = bind(from, from_ip);
    sender.send_to(b"near", receiver.local_addr().unwrap()).unwrap();
    let (_, source) = receiver.recv_from(&mut [0; 8]).unwrap();
    assert_eq!(source.ip(), from_ip);
}

/// Gives `port0` one of everything that a move takes away.
fn furnish(host: &mut Host) {
    host.up("port0");
    host.address("port0", "198.51.100.1", 24);
    host.address("port0", "198.51.100.2", 24);
    host.address("port0", "203.0.113.1", 32);
    host.address("port0", "2001:db8::1", 64);
    let mut route = host.through("port0", Some("198.51.100.254"));
    route.push(RouteAttribute::Priority(7));
    host.route("192.0.2.0", 24, route.clone()).unwrap();
    route.push(RouteAttribute::Table(1000));
    host.route("192.0.2.128", 25, route).unwrap();
    let route = host.through("port0", Some("2001:db8::fe"));
    host.route("2001:db8:1::", 48, route).unwrap();
    let ifindex = host.ifindex("port0");
    for neighbour in ["198.51.100.254", "2001:db8::fe"] {
        host.netlink.add_neighbour(ifindex, neighbour.parse().unwrap(), [2, 0, 0, 0, 0, 99]).unwrap();
    }
    host.write_sysctl("ipv4/conf/port0/rp_filter", "2");
    host.write_sysctl("ipv6/conf/port0/accept_ra", "0");
    host.write_sysctl("ipv4/neigh/port0/ucast_solicit", "5");
}

#[test]
fn furnished_port_lent_and_put_back_everything_is_as_before() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    furnish(&mut host);
    let before = host.shown_by_ip();
    let facts_before = ["port0", "port1"].map(|name| facts_named(&mut host.netlink, name).unwrap());

    let cable = host.lay("port0", "port1").unwrap();
    let (near, far) = (cable.near().clone(), cable.far().clone());
    for (from, to) in [(&near, &far), (&far, &near)] {
        datagram_passes(from, from.ipv4.into(), to, to.ipv4.into());
        datagram_passes(from, from.ipv6.into(), to, to.ipv6.into());
    }
    assert_eq!((near.interface.as_str(), near.driver.as_str()), ("port0", "veth"));
    assert_eq!((near.mac, near.queues), (facts_before[0].mac, 2));
    assert!(facts_named(&mut host.netlink, "port0").is_err());
    let warnings = cable.warnings().join("\n");
    assert!(warnings.contains("port0 was up with 198.51.100.1"), "{warnings}");
    assert!(!warnings.contains("port1"), "{warnings}");

    cable.put_back().unwrap();
    assert_eq!(host.shown_by_ip(), before);
    for (name, before) in ["port0", "port1"].into_iter().zip(facts_before) {
        let after = facts_named(&mut host.netlink, name).unwrap();
        assert_eq!((after.up, after.mtu_bytes, after.mac), (before.up, before.mtu_bytes, before.mac));
        assert_eq!(after.ifindex, before.ifindex);
    }
    assert_eq!(host.read_sysctl("ipv4/conf/port0/rp_filter"), "2");
    assert_eq!(host.read_sysctl("ipv6/conf/port0/accept_ra"), "0");
    assert_eq!(host.read_sysctl("ipv4/neigh/port0/ucast_solicit"), "5");
}

#[test]
fn ports_both_up_cable_dropped_ports_come_back_up() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.up("port0");
    host.up("port1");
    host.address("port1", "198.51.100.1", 24);
    host.await_link_local(["port0", "port1"]);
    let before = host.shown_by_ip();
    drop(host.lay("port0", "port1").unwrap());
    assert_eq!(host.shown_by_ip(), before);
    for port in ["port0", "port1"] {
        assert!(facts_named(&mut host.netlink, port).unwrap().up);
    }
}

#[test]
fn cable_held_thread_panics_ports_come_back() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    furnish(&mut host);
    let before = host.shown_by_ip();
    let cable = host.lay("port0", "port1").unwrap();
    let panicked = std::thread::spawn(move || {
        let _cable = cable;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(host.shown_by_ip(), before);
}

#[test]
fn route_of_another_port_sends_from_lent_address_it_comes_back_too() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.plug("other0", "other1");
    host.up("other0");
    host.up("other1");
    host.up("port0");
    host.up("port1");
    for (address, bits) in [("198.51.100.1", 24), ("2001:db8::1", 64)] {
        host.address("port0", address, bits);
    }
    for (source, destination, bits) in [("198.51.100.1", "192.0.2.0", 24), ("2001:db8::1", "2001:db8:2::", 48)] {
        let source: IpAddr = source.parse().unwrap();
        let mut route = host.through("other0", None);
        route.push(RouteAttribute::PrefSource(RouteAddress::from(source)));
        host.route(destination, bits, route).unwrap();
    }
    host.await_link_local(["port0", "port1", "other0", "other1"]);
    let before = host.shown_by_ip();
    let cable = host.lay("port0", "port1").unwrap();
    cable.put_back().unwrap();
    assert_eq!(host.shown_by_ip(), before);
}

#[test]
fn name_taken_while_away_port_comes_back_under_another_and_says_so() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    let mac = facts_named(&mut host.netlink, "port0").unwrap().mac;
    let cable = host.lay("port0", "port1").unwrap();
    host.add_link("port0", InfoKind::Bridge);
    let error = cable.put_back().unwrap_err();
    assert!(matches!(error, LabError::PutBack { .. }));
    assert!(error.to_string().contains("taken the name port0"), "{error}");
    let back =
        host.netlink.links().unwrap().iter().map(InterfaceFacts::from_link).find(|facts| facts.mac == mac).unwrap();
    assert!(error.to_string().contains(&format!("as {},", back.name)), "{error}");
    assert!(facts_named(&mut host.netlink, "port1").is_ok());
}

#[test]
fn partner_port_down_no_carrier_is_said_and_ports_come_back() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.plug("other0", "other1");
    furnish(&mut host);
    let before = host.shown_by_ip();
    // Each has a cable plugged in, but nothing is awake at its other end.
    let error = host.lay("port0", "other0").unwrap_err();
    assert!(matches!(error, LabError::NoCarrier { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("port0: no carrier 300 ms"), "{text}");
    assert!(text.contains("ethtool port0"), "{text}");
    assert_eq!(host.shown_by_ip(), before);
}

#[test]
fn ports_not_connected_to_each_other_is_said_and_ports_come_back() {
    let Some(mut host) = Host::with_ports_or_skip() else {
        return;
    };
    host.plug("other0", "other1");
    furnish(&mut host);
    host.up("port1");
    host.up("other0");
    host.up("other1");
    host.await_link_local(["port0", "port1", "other0", "other1"]);
    let before = host.shown_by_ip();
    let error = host.lay("port0", "other0").unwrap_err();
    assert!(matches!(error, LabError::NotConnected { .. }), "{error}");
    assert_eq!(host.shown_by_ip(), before);
}

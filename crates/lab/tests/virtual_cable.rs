//! The virtual cable on a real kernel.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{eventually, exchange_datagrams, held_namespaces, namespace_or_skip};
use nearwire_lab::{
    Cable, CableEnd, LabError, LabErrorKind, Namespace, VirtualCable, VirtualCableOptions, interface_facts, interfaces,
    neighbour_mac, route_to,
};

fn cable_or_skip(options: VirtualCableOptions) -> Option<VirtualCable> {
    namespace_or_skip()?;
    Some(VirtualCable::lay(options).unwrap())
}

#[test]
fn cable_just_laid_datagrams_pass_both_ways_over_ipv4_and_ipv6() {
    // Many times, because the first packet is the one that a late carrier or neighbour would lose.
    for _ in 0..20 {
        let Some(cable) = cable_or_skip(VirtualCableOptions::default()) else {
            return;
        };
        exchange_datagrams(cable.near(), cable.far());
        assert_eq!(cable.warnings(), &[] as &[String]);
    }
}

#[test]
fn cable_with_two_pairs_datagrams_pass_on_each() {
    let options = VirtualCableOptions { pairs: 2, ..VirtualCableOptions::default() };
    let Some(cable) = cable_or_skip(options) else {
        return;
    };
    let second = cable.second_pair().unwrap();
    exchange_datagrams(cable.near(), cable.far());
    exchange_datagrams(&second.near, &second.far);
    let inode = |end: &CableEnd| end.namespace.inode().unwrap();
    assert_eq!(inode(&second.near), inode(cable.near()));
    assert_eq!(inode(&second.far), inode(cable.far()));
}

#[test]
fn cable_laid_kernel_confirms_every_fact() {
    let options = VirtualCableOptions { mtu_bytes: 9000, queues: 3, pairs: 1 };
    let Some(cable) = cable_or_skip(options) else {
        return;
    };
    for (end, other) in [(cable.near(), cable.far()), (cable.far(), cable.near())] {
        let inside = end.namespace.enter(|| interface_facts(&end.interface));
        let facts = inside.unwrap().unwrap();
        assert_eq!(facts.ifindex, end.ifindex);
        assert_eq!(facts.mac, end.mac);
        assert_eq!((facts.mtu_bytes, end.mtu_bytes), (9000, 9000));
        assert_eq!((facts.tx_queues, facts.rx_queues, end.queues), (3, 3, 3));
        assert_eq!(facts.kind.as_deref(), Some("veth"));
        assert!(facts.up && facts.carrier);
        assert_eq!(facts.xdp_program_id, None);
        let names: Vec<String> =
            end.namespace.enter(interfaces).unwrap().unwrap().into_iter().map(|facts| facts.name).collect();
        assert_eq!(names, ["lo", end.interface.as_str()]);
        for address in [other.ipv4.into(), other.ipv6.into()] {
            let (route, mac) =
                end.namespace.enter(|| (route_to(address), neighbour_mac(end.ifindex, address))).unwrap();
            let route = route.unwrap();
            assert_eq!(route.interface, facts);
            assert_eq!((route.gateway, route.is_local), (None, false));
            assert_eq!(mac.unwrap(), Some(other.mac));
        }
    }
}

#[test]
fn route_asked_for_own_foreign_and_unknown_addresses_tells_them_apart() {
    let Some(cable) = cable_or_skip(VirtualCableOptions::default()) else {
        return;
    };
    let near = cable.near();
    near.namespace
        .enter(|| {
            let own = route_to(near.ipv4.into()).unwrap();
            assert!(own.is_local && own.interface.loopback);
            for nowhere in ["192.0.2.1", "2001:db8::1"] {
                let error = route_to(nowhere.parse().unwrap()).unwrap_err();
                assert!(matches!(error, LabError::NoRoute { .. }), "{error}");
                assert!(error.to_string().contains(nowhere), "{error}");
            }
            let unknown = neighbour_mac(near.ifindex, "10.77.0.9".parse().unwrap());
            assert_eq!(unknown.unwrap(), None);
        })
        .unwrap();
}

#[test]
fn cable_left_alone_stays_silent() {
    let Some(cable) = cable_or_skip(VirtualCableOptions::default()) else {
        return;
    };
    let before = [packets(cable.near()), packets(cable.far())];
    std::thread::sleep(Duration::from_millis(2500));
    let after = [packets(cable.near()), packets(cable.far())];
    assert_eq!(before, after, "(received, sent) packets of both ends");
}

/// Packets received and sent by an end so far.
fn packets(end: &CableEnd) -> (u64, u64) {
    // The thread's own view: /proc/net shows the namespace of the first thread.
    let table = end.namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let line = table.lines().find(|line| line.contains(&end.interface));
    let fields: Vec<&str> = line.unwrap().split_whitespace().collect();
    (fields[2].parse().unwrap(), fields[10].parse().unwrap())
}

#[test]
fn hundred_cables_laid_and_dropped_nothing_is_left() {
    if namespace_or_skip().is_none() {
        return;
    }
    let home = interfaces().unwrap();
    let mut times_us = Vec::new();
    let mut inodes = Vec::new();
    for _ in 0..100 {
        let started = Instant::now();
        let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
        times_us.push(started.elapsed().as_micros());
        for end in [cable.near(), cable.far()] {
            inodes.push(end.namespace.inode().unwrap());
        }
    }
    times_us.sort_unstable();
    println!("lay: median {} us, slowest of 100 {} us", times_us[50], times_us[99]);
    // Inode numbers are reused, also by tests that run beside this one: wait for each to be seen
    // free once.
    inodes.sort_unstable();
    inodes.dedup();
    let left = std::cell::RefCell::new(inodes);
    eventually("all namespaces are released", || {
        let held = held_namespaces();
        left.borrow_mut().retain(|inode| held.contains(inode));
        left.borrow().is_empty()
    });
    assert_eq!(interfaces().unwrap(), home);
}

#[test]
fn cable_dropped_while_namespace_is_kept_interface_stays_with_the_namespace() {
    let Some(cable) = cable_or_skip(VirtualCableOptions::default()) else {
        return;
    };
    let kept: Namespace = cable.near().namespace.clone();
    drop(cable);
    // The far namespace goes in the background, and its end of the pair takes ours along.
    eventually("the pair is gone", || kept.enter(|| interface_facts("nw0")).unwrap().is_err());
}

#[test]
fn options_out_of_range_cable_is_refused_with_the_range() {
    for (options, name) in [
        (VirtualCableOptions { mtu_bytes: 1279, ..VirtualCableOptions::default() }, "mtu_bytes 1279"),
        (VirtualCableOptions { queues: 0, ..VirtualCableOptions::default() }, "queues 0"),
        (VirtualCableOptions { pairs: 3, ..VirtualCableOptions::default() }, "pairs 3"),
    ] {
        let error = VirtualCable::lay(options).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.kind(), LabErrorKind::UnusableInput);
    }
}

#[test]
fn largest_mtu_cable_is_laid() {
    let options = VirtualCableOptions { mtu_bytes: 65_535, ..VirtualCableOptions::default() };
    let Some(cable) = cable_or_skip(options) else {
        return;
    };
    exchange_datagrams(cable.near(), cable.far());
}

#[test]
fn unknown_interface_asked_for_error_lists_existing_ones() {
    let error = interface_facts("nosuch0").unwrap_err();
    assert!(matches!(error, LabError::MissingInterface { .. }));
    let text = error.to_string();
    assert!(text.contains("nosuch0") && text.contains("lo"), "{text}");
    for impossible in ["", "a-name-far-too-long-for-linux", "nul\0byte"] {
        let error = interface_facts(impossible).unwrap_err();
        assert!(matches!(error, LabError::MissingInterface { .. }), "{error}");
    }
}

use std::net::Ipv6Addr;

use nearwire_wire::ethernet::{TagKind, VlanTags};

use super::*;
use crate::reasons::NeedsKernel;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn link(ifindex: u32) -> Link {
    let mac = MacAddress([2, 0, 0, 0, 0, ifindex as u8]);
    Link { ifindex, mac, mtu_bytes: 1500, is_up: true, kind: LinkKind::Ethernet }
}

fn address(ifindex: u32, text: &str, prefix_len: u8) -> Update {
    Update::NewAddress(InterfaceAddress {
        ifindex,
        address: ip(text),
        prefix_len,
        broadcast: None,
        is_secondary: false,
        is_deprecated: false,
        is_temporary: false,
        is_tentative: false,
    })
}

fn route(text: &str, prefix_len: u8, ifindex: u32) -> Route {
    Route::on_link(ip(text), prefix_len, ifindex)
}

fn new(route: Route) -> Update {
    Update::NewRoute { route, replaces: false }
}

fn neighbour(ifindex: u32, text: &str, last: u8, state: NeighbourState) -> Update {
    Update::NewNeighbour(Neighbour { ifindex, address: ip(text), mac: MacAddress([4, 0, 0, 0, 0, last]), state })
}

/// Interfaces 2 (10.0.0.1/24, fe80::1, fd00::1) and 3 (10.3.0.1/16), a gateway 10.0.0.254 on 2.
fn picture() -> Vec<Update> {
    vec![
        Update::NewLink(link(2)),
        Update::NewLink(link(3)),
        address(2, "10.0.0.1", 24),
        address(2, "fe80::1", 64),
        address(2, "fd00::1", 64),
        address(3, "10.3.0.1", 16),
        new(route("10.0.0.0", 24, 2)),
        new(route("10.3.0.0", 16, 3)),
        new(route("fd00::", 64, 2)),
        new(route("fe80::", 64, 2)),
        new(route("0.0.0.0", 0, 2).via(ip("10.0.0.254"))),
        neighbour(2, "10.0.0.254", 254, NeighbourState::Permanent),
        neighbour(2, "10.0.0.9", 9, NeighbourState::Reachable),
    ]
}

fn tables() -> Tables {
    let mut tables = Tables::new(KeyedHash::new(1), false);
    for ifindex in [2, 3] {
        tables.attach_port(ifindex, Offers::default());
    }
    picture().into_iter().for_each(|update| tables.update(update));
    tables
}

fn query(text: &str) -> Query {
    Query { destination: ip(text).into(), source: None, ifindex: None }
}

fn hop(tables: &mut Tables, text: &str) -> Result<NextHop, NeedsKernel> {
    tables.next_hop(query(text))
}

fn reason(tables: &mut Tables, text: &str) -> Option<NeedsKernel> {
    hop(tables, text).err()
}

#[test]
fn destination_on_link_and_behind_gateway_resolve_to_their_hardware_address() {
    let mut tables = tables();
    let near = hop(&mut tables, "10.0.0.9").unwrap();
    assert_eq!(near.destination_mac.0[5], 9);
    assert_eq!((near.source.to_ip(), near.source_mac.0[5]), (ip("10.0.0.1"), 2));
    let far = hop(&mut tables, "8.8.8.8").unwrap();
    assert_eq!(far.destination_mac.0[5], 254);
    assert_eq!((far.mtu_bytes, far.hop_limit), (1500, None));
}

#[test]
fn destination_without_way_names_the_reason() {
    let mut tables = tables();
    for (to, wanted) in [
        ("10.0.0.8", NeedsKernel::NeighbourUnresolved),
        ("10.0.0.1", NeedsKernel::LocalDestination),
        ("10.3.0.1", NeedsKernel::LocalDestination),
        ("127.0.0.1", NeedsKernel::LocalDestination),
        ("0.0.0.0", NeedsKernel::LocalDestination),
        ("::1", NeedsKernel::LocalDestination),
        ("255.255.255.255", NeedsKernel::Broadcast),
        ("2001:db8::1", NeedsKernel::NoRoute),
        ("fe80::9", NeedsKernel::NoScope),
    ] {
        assert_eq!(reason(&mut tables, to), Some(wanted), "{to}");
    }
    tables.update(Update::PolicyRules { present: true });
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::PolicyRouting));
}

#[test]
fn route_of_each_kind_answers_as_the_kernel_would() {
    let special = |kind| Route { kind, ..route("192.0.2.0", 24, 2) };
    let cases = [
        (special(RouteKind::Unreachable), NeedsKernel::Unreachable),
        (special(RouteKind::Local), NeedsKernel::LocalDestination),
        (special(RouteKind::Broadcast), NeedsKernel::Broadcast),
        (special(RouteKind::Multicast), NeedsKernel::UnsupportedRoute),
        (Route { is_multipath: true, ..route("192.0.2.0", 24, 2) }, NeedsKernel::Multipath),
        (Route { is_unsupported: true, ..route("192.0.2.0", 24, 2) }, NeedsKernel::UnsupportedRoute),
        (route("192.0.2.0", 24, 9), NeedsKernel::NoRoute),
    ];
    for (route, wanted) in cases {
        let mut tables = tables();
        tables.update(Update::DelRoute(Route::on_link(ip("0.0.0.0"), 0, 2).via(ip("10.0.0.254"))));
        tables.update(new(route.clone()));
        assert_eq!(reason(&mut tables, "192.0.2.1"), Some(wanted), "{route:?}");
        tables.update(Update::DelRoute(route));
        assert_eq!(reason(&mut tables, "192.0.2.1"), Some(NeedsKernel::NoRoute));
    }
}

#[test]
fn local_table_is_asked_before_and_default_table_after_main() {
    let mut tables = tables();
    tables.update(new(Route { table: RouteTable::Default, kind: RouteKind::Unreachable, ..route("10.0.0.9", 32, 2) }));
    assert!(hop(&mut tables, "10.0.0.9").is_ok());
    tables.update(new(Route { kind: RouteKind::Throw, ..route("10.0.0.9", 32, 2) }));
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::Unreachable));
    tables.update(new(Route { table: RouteTable::Local, kind: RouteKind::Local, ..route("10.0.0.0", 8, 1) }));
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::LocalDestination));
}

#[test]
fn v6_routes_of_equal_metric_are_the_kernels() {
    let mut tables = tables();
    tables.update(new(route("2001:db8::", 32, 2).via(ip("fd00::a"))));
    assert_eq!(reason(&mut tables, "2001:db8::1"), Some(NeedsKernel::NeighbourUnresolved));
    tables.update(new(route("2001:db8::", 32, 2).via(ip("fd00::b"))));
    assert_eq!(reason(&mut tables, "2001:db8::1"), Some(NeedsKernel::Multipath));
}

#[test]
fn source_given_must_be_ours_and_preferred_source_is_taken() {
    let mut tables = tables();
    let with_source = |text: &str| Query { source: Some(ip(text).into()), ..query("10.0.0.9") };
    assert_eq!(tables.next_hop(with_source("10.0.0.77")).err(), Some(NeedsKernel::SourceNotOurs));
    assert_eq!(tables.next_hop(with_source("fd00::1")).err(), Some(NeedsKernel::FamilyMismatch));
    let hop = tables.next_hop(with_source("10.3.0.1")).unwrap();
    assert_eq!(hop.source.to_ip(), ip("10.3.0.1"));
    tables.update(new(Route { preferred_source: Some(ip("10.3.0.1")), ..route("10.0.0.9", 32, 2) }));
    assert_eq!(tables.next_hop(query("10.0.0.9")).unwrap().source.to_ip(), ip("10.3.0.1"));
    tables.update(Update::DelAddress { ifindex: 3, address: ip("10.3.0.1") });
    assert_eq!(tables.next_hop(query("10.0.0.9")).unwrap().source.to_ip(), ip("10.0.0.1"));
}

#[test]
fn mtu_is_the_least_of_link_route_and_path() {
    let mut tables = tables();
    tables.update(new(Route { mtu_bytes: Some(1400), is_mtu_locked: true, ..route("10.0.0.9", 32, 2) }));
    let near = hop(&mut tables, "10.0.0.9").unwrap();
    assert_eq!((near.mtu_bytes, near.link_mtu_bytes, near.is_mtu_locked), (1400, 1500, true));
    let narrow = Path { mtu_bytes: Some(1300), is_mtu_locked: false };
    tables.update(Update::Path { ifindex: 2, destination: ip("10.0.0.9"), path: Some(narrow) });
    assert_eq!(hop(&mut tables, "10.0.0.9").unwrap().mtu_bytes, 1300);
    tables.update(Update::Path { ifindex: 2, destination: ip("10.0.0.9"), path: None });
    assert_eq!(hop(&mut tables, "10.0.0.9").unwrap().mtu_bytes, 1400);
}

#[test]
fn vlan_over_vlan_resolves_to_the_port_below_with_both_tags() {
    let mut tables = tables();
    let vlan = |ifindex, parent, tag, vlan_id| {
        let kind = LinkKind::Vlan { parent, tag, vlan_id };
        Update::NewLink(Link { kind, ..link(ifindex) })
    };
    tables.update(vlan(10, 2, TagKind::Service, 100));
    tables.update(vlan(11, 10, TagKind::Customer, 5));
    tables.update(address(11, "172.16.0.1", 24));
    tables.update(new(route("172.16.0.0", 24, 11)));
    tables.update(neighbour(11, "172.16.0.2", 22, NeighbourState::Noarp));
    let hop = hop(&mut tables, "172.16.0.2").unwrap();
    let VlanTags::Two(outer, inner) = hop.tags else { panic!("{:?}", hop.tags) };
    assert_eq!((outer.kind(), outer.vlan_id()), (TagKind::Service, 100));
    assert_eq!((inner.kind(), inner.vlan_id()), (TagKind::Customer, 5));
    assert_eq!((hop.port, hop.source_mac.0[5]), (PortId(0), 11));
    assert_eq!(tables.vlan_above(10, 5).map(|(ifindex, _)| ifindex), Some(11));
    tables.update(Update::DelLink { ifindex: 11 });
    assert_eq!(tables.vlan_above(10, 5), None);
}

#[test]
fn interface_without_port_or_down_is_the_kernels() {
    let mut tables = tables();
    tables.update(Update::NewLink(link(4)));
    tables.update(address(4, "10.4.0.1", 24));
    tables.update(new(route("10.4.0.0", 24, 4)));
    tables.update(neighbour(4, "10.4.0.2", 2, NeighbourState::Permanent));
    assert_eq!(reason(&mut tables, "10.4.0.2"), Some(NeedsKernel::NoPort));
    let port = tables.attach_port(4, Offers::default());
    assert_eq!(hop(&mut tables, "10.4.0.2").map(|hop| hop.port), Ok(port));
    tables.detach_port(port);
    assert_eq!(reason(&mut tables, "10.4.0.2"), Some(NeedsKernel::NoPort));
    assert_eq!(tables.receiving(port), None);
    assert_eq!(tables.interface_of(port), None);
    tables.update(Update::NewLink(Link { is_up: false, ..link(2) }));
    let through_two = Query { ifindex: Some(2), ..query("239.0.0.1") };
    assert_eq!(tables.next_hop(through_two).err(), Some(NeedsKernel::InterfaceDown));
}

#[test]
fn link_down_takes_its_routes_and_link_gone_its_all() {
    let mut tables = tables();
    tables.update(Update::NewLink(Link { is_up: false, ..link(2) }));
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::NoRoute));
    tables.update(Update::NewLink(link(2)));
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::NoRoute));
    tables.update(Update::DelLink { ifindex: 2 });
    assert_eq!(tables.class(2, ip("10.0.0.1").into()), DestinationClass::Other);
    assert!(tables.neighbours.is_empty());
}

#[test]
fn group_goes_out_of_the_interface_asked_for_or_of_its_route_without_gateway() {
    let mut tables = tables();
    let asked = Query { ifindex: Some(3), ..query("239.1.2.3") };
    let out = tables.next_hop(asked).unwrap();
    assert_eq!((out.port, out.source.to_ip()), (PortId(1), ip("10.3.0.1")));
    assert_eq!(out.destination_mac.to_string(), "01:00:5e:01:02:03");
    assert_eq!(hop(&mut tables, "239.1.2.3").unwrap().port, PortId(0));
    assert!(!hop(&mut tables, "239.1.2.3").unwrap().is_joined_here);
    tables.update(Update::NewGroup { ifindex: 2, group: ip("239.1.2.3") });
    assert!(hop(&mut tables, "239.1.2.3").unwrap().is_joined_here);
    tables.update(new(route("239.0.0.0", 8, 2).via(ip("10.0.0.254"))));
    assert_eq!(reason(&mut tables, "239.1.2.3"), Some(NeedsKernel::UnsupportedRoute));
}

#[test]
fn link_local_destination_takes_the_interface_given() {
    let mut tables = tables();
    tables.update(neighbour(2, "fe80::9", 9, NeighbourState::Reachable));
    let scoped = Query { ifindex: Some(2), ..query("fe80::9") };
    assert_eq!(tables.next_hop(scoped).unwrap().source.to_ip(), ip("fe80::1"));
    let elsewhere = Query { ifindex: Some(3), ..query("fe80::9") };
    assert_eq!(tables.next_hop(elsewhere).err(), Some(NeedsKernel::NoRoute));
    let link_local = Address::v6("fe80::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(tables.class(2, link_local), DestinationClass::Own);
    assert_eq!(tables.class(3, link_local), DestinationClass::Other);
}

#[test]
fn neighbour_in_every_state_is_usable_as_the_kernel_says() {
    use NeighbourState::{Delay, Failed, Incomplete, Noarp, Permanent, Probe, Reachable, Stale};
    for (state, usable) in [
        (Incomplete, false),
        (Reachable, true),
        (Stale, true),
        (Delay, true),
        (Probe, true),
        (Failed, false),
        (Noarp, true),
        (Permanent, true),
    ] {
        let mut tables = tables();
        tables.update(neighbour(2, "10.0.0.9", 9, state));
        assert_eq!(hop(&mut tables, "10.0.0.9").is_ok(), usable, "{state:?}");
    }
}

#[test]
fn neighbour_confirmed_with_the_same_address_keeps_the_generation() {
    let mut tables = tables();
    hop(&mut tables, "10.0.0.9").unwrap();
    let before = tables.generation();
    for state in [NeighbourState::Delay, NeighbourState::Probe, NeighbourState::Reachable] {
        tables.update(neighbour(2, "10.0.0.9", 9, state));
    }
    assert_eq!(tables.generation(), before);
    tables.update(neighbour(2, "10.0.0.9", 99, NeighbourState::Reachable));
    assert_ne!(tables.generation(), before);
    assert_eq!(hop(&mut tables, "10.0.0.9").unwrap().destination_mac.0[5], 99);
}

#[test]
fn stale_neighbour_used_is_named_once_for_the_kernel_to_confirm() {
    let mut tables = tables();
    hop(&mut tables, "10.0.0.9").unwrap();
    let before = tables.generation();
    tables.update(neighbour(2, "10.0.0.9", 9, NeighbourState::Stale));
    assert_ne!(tables.generation(), before, "the flow resolves anew and so notes the use");
    for _ in 0..2 {
        hop(&mut tables, "10.0.0.9").unwrap();
    }
    assert_eq!(tables.take_stale_neighbour(), Some((2, ip("10.0.0.9"))));
    assert_eq!(tables.take_stale_neighbour(), None);
    tables.update(neighbour(2, "10.0.0.9", 9, NeighbourState::Reachable));
    tables.update(neighbour(2, "10.0.0.9", 9, NeighbourState::Stale));
    hop(&mut tables, "10.0.0.9").unwrap();
    assert_eq!(tables.take_stale_neighbour(), Some((2, ip("10.0.0.9"))));
}

#[test]
fn unused_neighbour_changed_keeps_the_generation() {
    let mut tables = tables();
    tables.update(neighbour(2, "10.0.0.50", 50, NeighbourState::Reachable));
    let before = tables.generation();
    tables.update(neighbour(2, "10.0.0.50", 51, NeighbourState::Stale));
    tables.update(Update::DelNeighbour { ifindex: 2, address: ip("10.0.0.50") });
    assert_eq!(tables.generation(), before);
}

#[test]
fn picture_taken_anew_forgets_what_is_not_in_it() {
    let mut tables = tables();
    tables.endpoint_joined(2, ip("239.9.9.9").into());
    tables.update(neighbour(2, "10.0.0.8", 8, NeighbourState::Reachable));
    let before = tables.generation();
    tables.resync(KeyedHash::new(1), picture());
    assert_ne!(tables.generation(), before);
    assert!(hop(&mut tables, "10.0.0.9").is_ok());
    assert_eq!(reason(&mut tables, "10.0.0.8"), Some(NeedsKernel::NeighbourUnresolved));
    assert!(tables.is_joined(2, ip("239.9.9.9").into()));
}

#[test]
fn address_of_each_kind_is_classed() {
    let mut tables = tables();
    let broadcast = Route { table: RouteTable::Local, kind: RouteKind::Broadcast, ..route("10.3.255.255", 32, 3) };
    tables.update(new(broadcast));
    for (text, wanted) in [
        ("10.0.0.1", DestinationClass::Own),
        ("10.3.0.1", DestinationClass::Own),
        ("10.3.255.255", DestinationClass::Broadcast),
        ("255.255.255.255", DestinationClass::Broadcast),
        ("239.0.0.1", DestinationClass::Group),
        ("ff02::1", DestinationClass::Group),
        ("10.0.0.2", DestinationClass::Other),
        ("0.0.0.0", DestinationClass::Other),
        ("::", DestinationClass::Other),
        ("fd00::1", DestinationClass::Own),
    ] {
        assert_eq!(tables.class(2, ip(text).into()), wanted, "{text}");
    }
    assert_eq!(reason(&mut tables, "10.3.255.255"), Some(NeedsKernel::Broadcast));
}

#[test]
fn tentative_address_is_not_ours_yet() {
    let mut tables = tables();
    let Update::NewAddress(mut tentative) = address(2, "fd00::5", 64) else { return };
    tentative.is_tentative = true;
    tables.update(Update::NewAddress(tentative.clone()));
    assert_eq!(tables.class(2, ip("fd00::5").into()), DestinationClass::Other);
    tentative.is_tentative = false;
    tables.update(Update::NewAddress(tentative));
    assert_eq!(tables.class(2, ip("fd00::5").into()), DestinationClass::Own);
}

#[test]
fn last_v4_address_removed_takes_the_v4_routes_of_its_interface() {
    let mut tables = tables();
    tables.update(new(route("192.0.2.0", 24, 2).via(ip("10.0.0.9"))));
    tables.update(address(2, "10.0.0.7", 24));
    tables.update(Update::DelAddress { ifindex: 2, address: ip("10.0.0.7") });
    assert!(hop(&mut tables, "192.0.2.1").is_ok(), "one address is left");
    tables.update(Update::DelAddress { ifindex: 2, address: ip("10.0.0.1") });
    assert_eq!(reason(&mut tables, "192.0.2.1"), Some(NeedsKernel::NoRoute));
    assert_eq!(reason(&mut tables, "fd00::9"), Some(NeedsKernel::NeighbourUnresolved), "IPv6 stays");
    assert_eq!(reason(&mut tables, "10.3.0.9"), Some(NeedsKernel::NeighbourUnresolved), "others stay");
}

#[test]
fn preferred_source_removed_v6_route_stays_without_it_and_v4_route_only_beyond_the_main_table() {
    let mut tables = tables();
    tables.update(address(3, "fd03::1", 64));
    tables.update(neighbour(2, "fd00::9", 9, NeighbourState::Permanent));
    tables.update(new(Route { preferred_source: Some(ip("fd03::1")), ..route("fd00::9", 128, 2) }));
    assert_eq!(hop(&mut tables, "fd00::9").unwrap().source.to_ip(), ip("fd03::1"));
    tables.update(Update::DelAddress { ifindex: 3, address: ip("fd03::1") });
    assert_eq!(hop(&mut tables, "fd00::9").unwrap().source.to_ip(), ip("fd00::1"));

    tables.update(address(2, "10.0.0.7", 24));
    let preferring = |table, text| Route { table, preferred_source: Some(ip("10.0.0.7")), ..route(text, 24, 2) };
    tables.update(Update::DelRoute(route("0.0.0.0", 0, 2).via(ip("10.0.0.254"))));
    tables.update(new(preferring(RouteTable::Main, "192.0.2.0")));
    tables.update(new(preferring(RouteTable::Default, "198.51.100.0")));
    tables.update(Update::DelAddress { ifindex: 2, address: ip("10.0.0.7") });
    assert_eq!(reason(&mut tables, "192.0.2.1"), Some(NeedsKernel::NoRoute));
    assert_ne!(reason(&mut tables, "198.51.100.1"), Some(NeedsKernel::NoRoute));
}

#[test]
fn link_down_takes_its_broadcast_routes_and_leaves_the_local_ones() {
    let mut tables = tables();
    let of_local = |kind, text| new(Route { table: RouteTable::Local, kind, ..route(text, 32, 2) });
    tables.update(of_local(RouteKind::Broadcast, "10.3.0.99"));
    tables.update(of_local(RouteKind::Local, "10.3.0.98"));
    assert_eq!(reason(&mut tables, "10.3.0.99"), Some(NeedsKernel::Broadcast));
    tables.update(Update::NewLink(Link { is_up: false, ..link(2) }));
    assert_eq!(reason(&mut tables, "10.3.0.99"), Some(NeedsKernel::NeighbourUnresolved));
    assert_eq!(reason(&mut tables, "10.3.0.98"), Some(NeedsKernel::LocalDestination));
    tables.update(Update::DelLink { ifindex: 2 });
    assert_eq!(reason(&mut tables, "10.3.0.98"), Some(NeedsKernel::NeighbourUnresolved));
}

#[test]
fn route_for_a_type_of_service_beside_a_plain_one_is_the_kernels_until_it_goes() {
    let mut tables = tables();
    let special = Route { is_unsupported: true, ..route("10.0.0.0", 24, 2) };
    tables.update(new(special.clone()));
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::UnsupportedRoute));
    let replacing = Route { mtu_bytes: Some(1400), ..route("10.0.0.0", 24, 2) };
    tables.update(Update::NewRoute { route: replacing, replaces: true });
    assert_eq!(reason(&mut tables, "10.0.0.9"), Some(NeedsKernel::UnsupportedRoute), "the plain one was replaced");
    tables.update(Update::DelRoute(special));
    assert_eq!(hop(&mut tables, "10.0.0.9").map(|hop| hop.mtu_bytes), Ok(1400));
}

#[test]
fn v6_route_replaced_is_the_one_that_has_a_gateway_as_the_new_one_has() {
    let mut tables = tables();
    tables.update(neighbour(2, "fd00::9", 9, NeighbourState::Permanent));
    tables.update(new(route("2001:db8::", 32, 3)));
    tables.update(new(route("2001:db8::", 32, 2).via(ip("fd00::8"))));
    tables.update(Update::NewRoute { route: route("2001:db8::", 32, 2).via(ip("fd00::9")), replaces: true });
    tables.update(Update::DelRoute(route("2001:db8::", 32, 3)));
    assert_eq!(hop(&mut tables, "2001:db8::1").map(|hop| hop.destination_mac.0[5]), Ok(9));
}

#[test]
fn v4_routes_that_differ_in_their_preferred_source_are_two() {
    let mut tables = tables();
    let preferring = |text| Route { preferred_source: Some(ip(text)), ..route("10.0.0.9", 32, 2) };
    tables.update(new(preferring("10.3.0.1")));
    tables.update(new(preferring("10.0.0.1")));
    assert_eq!(hop(&mut tables, "10.0.0.9").map(|hop| hop.source.to_ip()), Ok(ip("10.3.0.1")), "the first");
    tables.update(new(preferring("10.3.0.1")));
    tables.update(Update::DelRoute(preferring("10.3.0.1")));
    assert_eq!(hop(&mut tables, "10.0.0.9").map(|hop| hop.source.to_ip()), Ok(ip("10.0.0.1")));
}

#[test]
fn equal_v4_default_routes_are_the_kernels_choice_and_other_equal_routes_the_first() {
    let mut tables = tables();
    for gateway in ["10.0.0.9", "10.0.0.254"] {
        tables.update(new(route("192.0.2.0", 24, 2).via(ip(gateway))));
    }
    assert_eq!(hop(&mut tables, "192.0.2.1").map(|hop| hop.destination_mac.0[5]), Ok(9));
    tables.update(new(route("0.0.0.0", 0, 2).via(ip("10.0.0.9"))));
    assert_eq!(reason(&mut tables, "8.8.8.8"), Some(NeedsKernel::Multipath));
}

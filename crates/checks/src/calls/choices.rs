//! What calls are made with: few values, so that they often meet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nearwire_stack::{
    InterfaceAddress, Link, LinkKind, Neighbour, NeighbourState, Path, Route, RouteKind, RouteTable, Update,
};
use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::TagKind;

use crate::bytes::Bytes;

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(first: u16, last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last))
}

const fn mapped(last: u8) -> IpAddr {
    IpAddr::V6(Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped())
}

pub(super) const PEER_V4: IpAddr = v4(10, 0, 0, 1);
pub(super) const PEER_V6: IpAddr = v6(0xfd00, 1);

/// Addresses of this host: interface, address, prefix.
const OWN: [(u32, IpAddr, u8); 8] = [
    (2, v4(10, 0, 0, 2), 24),
    (2, v6(0xfd00, 2), 64),
    (2, v6(0xfe80, 2), 64),
    (3, v4(10, 3, 0, 2), 16),
    (3, v6(0xfe80, 2), 64),
    (4, v4(10, 4, 0, 2), 24),
    (5, v6(0xfd05, 2), 64),
    (3, v4(10, 0, 0, 2), 32),
];
/// Of other hosts.
const PEERS: [(u32, IpAddr); 8] = [
    (2, PEER_V4),
    (2, PEER_V6),
    (2, v6(0xfe80, 1)),
    (3, v4(10, 3, 0, 1)),
    (3, v6(0xfe80, 1)),
    (4, v4(10, 4, 0, 1)),
    (5, v6(0xfd05, 1)),
    (2, v4(10, 0, 0, 254)),
];
const GROUPS: [IpAddr; 6] = [v4(239, 1, 1, 1), v4(239, 1, 1, 2), v6(0xff02, 1), v6(0xff05, 2), v6(0xff01, 1), PEER_V4];
/// Addresses that no host or no packet has.
const ODD: [IpAddr; 12] = [
    v4(0, 0, 0, 0),
    v4(127, 0, 0, 1),
    v4(255, 255, 255, 255),
    v4(10, 0, 0, 255),
    v4(224, 0, 0, 1),
    v4(0, 1, 2, 3),
    v4(255, 1, 1, 1),
    v6(0, 0),
    v6(0, 1),
    v6(0xff00, 1),
    v4(192, 0, 2, 1),
    v6(0x2001, 1),
];
/// The first most of all.
const PORTS: [u16; 4] = [4000, 4001, 7, 0];

pub(super) const fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number])
}

pub(super) fn ifindex(bytes: &mut Bytes<'_>) -> u32 {
    bytes.choose(&[2, 3, 4, 5, 9])
}

pub(super) fn port(bytes: &mut Bytes<'_>) -> u16 {
    PORTS[[0, 0, 0, 0, 1, 1, 2, 3][bytes.below(8)]]
}

pub(super) fn group(bytes: &mut Bytes<'_>) -> IpAddr {
    bytes.choose(&GROUPS)
}

/// Mostly an address of this host.
pub(super) fn own(bytes: &mut Bytes<'_>) -> IpAddr {
    let at = bytes.below(16);
    match at {
        0..8 => OWN[at].1,
        8..11 => group(bytes),
        11 => PEER_V4,
        _ => bytes.choose(&ODD),
    }
}

/// Mostly an address of another host.
pub(super) fn peer(bytes: &mut Bytes<'_>) -> IpAddr {
    let at = bytes.below(16);
    match at {
        0..8 => PEERS[at].1,
        8..10 => group(bytes),
        10 => mapped(1),
        11..13 => OWN[at - 11].1,
        _ => bytes.choose(&ODD),
    }
}

pub(super) fn source(bytes: &mut Bytes<'_>) -> IpAddr {
    own(bytes)
}

/// Where to bind to.
pub(super) fn local(bytes: &mut Bytes<'_>) -> SocketAddr {
    let how = bytes.u8();
    let address = match how >> 2 & 3 {
        0 => v4(0, 0, 0, 0),
        1 => v6(0, 0),
        2 if how & 0x10 != 0 => mapped(2),
        _ => own(bytes),
    };
    SocketAddr::new(address, PORTS[usize::from(how & 3)])
}

/// Where to send to, or to connect to.
pub(super) fn remote(bytes: &mut Bytes<'_>) -> SocketAddr {
    let (address, port, scope) = (peer(bytes), port(bytes), bytes.choose(&[0, 2, 3, 5]));
    match address {
        IpAddr::V6(address) => SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope)),
        IpAddr::V4(_) => SocketAddr::new(address, port),
    }
}

fn link(ifindex: u32, is_up: bool) -> Link {
    let tag = TagKind::Customer;
    let kind = match ifindex {
        4 => LinkKind::Vlan { parent: 2, tag, vlan_id: 5 },
        5 => LinkKind::Vlan { parent: 4, tag, vlan_id: 6 },
        9 => LinkKind::Loopback,
        _ => LinkKind::Ethernet,
    };
    Link { ifindex, mac: mac(ifindex as u8), mtu_bytes: if ifindex == 3 { 600 } else { 1500 }, is_up, kind }
}

fn address(which: usize, how: u8) -> InterfaceAddress {
    let (ifindex, address, prefix_len) = OWN[which];
    InterfaceAddress {
        ifindex,
        address,
        prefix_len,
        broadcast: (which == 0 && how & 1 == 0).then_some(Ipv4Addr::new(10, 0, 0, 255)),
        is_secondary: how & 2 != 0,
        is_deprecated: how & 4 != 0,
        is_temporary: how & 8 != 0,
        is_tentative: how & 0x30 == 0x30,
    }
}

fn neighbour(which: usize, state: NeighbourState) -> Neighbour {
    let (ifindex, address) = PEERS[which];
    Neighbour { ifindex, address, mac: mac(100 + which as u8), state }
}

fn route(which: usize) -> Route {
    match which {
        0 => Route::on_link(v4(10, 0, 0, 0), 24, 2),
        1 => Route::on_link(v6(0xfd00, 0), 64, 2),
        2 => Route::on_link(v4(10, 3, 0, 0), 16, 3),
        3 => Route::on_link(v4(10, 4, 0, 0), 24, 4),
        4 => Route::on_link(v6(0xfd05, 0), 64, 5),
        5 => Route::on_link(v4(0, 0, 0, 0), 0, 2).via(v4(10, 0, 0, 254)),
        6 => Route { mtu_bytes: Some(500), hop_limit: Some(3), metric: 5, ..Route::on_link(v4(0, 0, 0, 0), 0, 3) },
        7 => Route::on_link(v6(0, 0), 0, 2).via(v6(0xfe80, 1)),
        8 => Route { kind: RouteKind::Unreachable, ..Route::on_link(v4(192, 0, 2, 0), 24, 2) },
        9 => Route { kind: RouteKind::Throw, ..Route::on_link(v4(10, 0, 0, 0), 8, 2) },
        10 => Route { kind: RouteKind::Local, table: RouteTable::Local, ..Route::on_link(v4(10, 0, 0, 2), 32, 2) },
        11 => Route { is_multipath: true, metric: 1, ..Route::on_link(v6(0x2001, 0), 16, 2) },
        12 => Route { table: RouteTable::Default, ..Route::on_link(v4(0, 0, 0, 0), 0, 4) },
        13 => Route { kind: RouteKind::Multicast, ..Route::on_link(v4(224, 0, 0, 0), 4, 3) },
        14 => Route { is_unsupported: true, ..Route::on_link(PEER_V4, 32, 2) },
        // Longer than an address is.
        _ => Route::on_link(PEER_V4, 200, 3),
    }
}

const STATES: [NeighbourState; 8] = [
    NeighbourState::Incomplete,
    NeighbourState::Reachable,
    NeighbourState::Stale,
    NeighbourState::Delay,
    NeighbourState::Probe,
    NeighbourState::Failed,
    NeighbourState::Noarp,
    NeighbourState::Permanent,
];

/// One event from the kernel.
pub(super) fn update(bytes: &mut Bytes<'_>) -> Update {
    let (what, how) = (bytes.below(16), bytes.u8());
    let which = usize::from(how & 7);
    match what {
        0 | 1 => Update::NewLink(link(ifindex(bytes), how & 3 != 0)),
        2 => Update::DelLink { ifindex: ifindex(bytes) },
        3 | 4 => Update::NewAddress(address(which, bytes.u8())),
        5 => Update::DelAddress { ifindex: OWN[which].0, address: OWN[which].1 },
        6 | 7 => Update::NewRoute { route: route(bytes.below(16)), replaces: how & 1 != 0 },
        8 => Update::DelRoute(route(bytes.below(16))),
        9 | 10 => Update::NewNeighbour(neighbour(which, STATES[usize::from(how >> 3 & 7)])),
        11 => Update::DelNeighbour { ifindex: PEERS[which].0, address: PEERS[which].1 },
        12 => Update::NewGroup { ifindex: ifindex(bytes), group: group(bytes) },
        13 => Update::DelGroup { ifindex: ifindex(bytes), group: group(bytes) },
        14 => {
            let mtu_bytes = (how & 16 != 0).then_some(u32::from(how) * 4);
            let path = (how & 8 != 0).then_some(Path { mtu_bytes, is_mtu_locked: how & 32 != 0 });
            Update::Path { ifindex: PEERS[which].0, destination: PEERS[which].1, path }
        }
        _ => Update::PolicyRules { present: how & 7 == 7 },
    }
}

/// A whole host; `parts` says which of its parts there are.
pub(super) fn picture(parts: u16) -> Vec<Update> {
    let has = |bit: usize| parts >> bit & 1 != 0;
    let mut updates: Vec<_> = [2, 3, 4, 5].map(|ifindex| Update::NewLink(link(ifindex, has(ifindex as usize)))).into();
    let at = |from: usize| (0..7).filter(move |which| has((from + which) % 16));
    updates.extend(at(0).map(|which| Update::NewAddress(address(which, 0))));
    updates.extend(at(3).map(|which| Update::NewRoute { route: route(which), replaces: false }));
    updates.extend(at(7).map(|which| Update::NewNeighbour(neighbour(which, NeighbourState::Reachable))));
    for (bit, group) in [(6, GROUPS[0]), (9, GROUPS[2])] {
        updates.extend(has(bit).then_some(Update::NewGroup { ifindex: 2, group }));
    }
    updates
}

//! Hosts for tests and benchmarks: one interface, one port, the neighbours they are given.
//!
//! Host number n has the addresses 10.0.0.n and fd00::n on interface 2, and the hardware address 02:00:00:00:00:n.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod tcp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nearwire_stack::{
    Arrival, EndpointId, Family, InterfaceAddress, Link, LinkKind, Message, NeedsKernel, Neighbour, NeighbourState,
    Offers, PortId, ReceiveChecksum, Route, SourceFilter, Stack, StackConfig, Take, UdpOptions, Update, Verdict,
};
use nearwire_wire::MacAddress;

pub const IFINDEX: u32 = 2;

pub struct Host {
    pub stack: Stack,
    pub port: PortId,
    pub number: u8,
}

pub fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number])
}

pub fn v4(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

pub fn v6(number: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()))
}

pub fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

pub fn link(ifindex: u32, number: u8) -> Link {
    Link { ifindex, mac: mac(number), mtu_bytes: 1500, is_up: true, kind: LinkKind::Ethernet }
}

pub fn address(ifindex: u32, address: IpAddr, prefix_len: u8) -> InterfaceAddress {
    InterfaceAddress {
        ifindex,
        address,
        prefix_len,
        broadcast: None,
        is_secondary: false,
        is_deprecated: false,
        is_temporary: false,
        is_tentative: false,
    }
}

pub fn neighbour(address: IpAddr, number: u8, state: NeighbourState) -> Update {
    Update::NewNeighbour(Neighbour { ifindex: IFINDEX, address, mac: mac(number), state })
}

/// What the kernel would say of a host and those it knows.
pub fn picture(number: u8, knows: &[u8]) -> Vec<Update> {
    let own4 = InterfaceAddress { broadcast: Some(Ipv4Addr::new(10, 0, 0, 255)), ..address(IFINDEX, v4(number), 24) };
    let route = |destination: IpAddr, len| Update::NewRoute {
        route: Route::on_link(destination, len, IFINDEX),
        replaces: false,
    };
    let mut updates = vec![
        Update::NewLink(link(IFINDEX, number)),
        Update::NewAddress(own4),
        Update::NewAddress(address(IFINDEX, v6(number), 64)),
        route(v4(0), 24),
        route(v6(0), 64),
    ];
    for other in knows {
        updates.push(neighbour(v4(*other), *other, NeighbourState::Reachable));
        updates.push(neighbour(v6(*other), *other, NeighbourState::Reachable));
    }
    updates
}

pub fn host(number: u8, knows: &[u8]) -> Host {
    host_with(number, knows, StackConfig::new(0x5eed_0000 + u64::from(number)))
}

pub fn host_with(number: u8, knows: &[u8], config: StackConfig) -> Host {
    let mut stack = Stack::new(config);
    let port = stack.attach_port(IFINDEX, Offers::default());
    picture(number, knows).into_iter().for_each(|update| stack.update(update));
    Host { stack, port, number }
}

/// Two hosts, 1 and 2, that know each other.
pub fn pair() -> (Host, Host) {
    (host(1, &[2]), host(2, &[1]))
}

impl Host {
    pub fn endpoint(&mut self, bound: SocketAddr) -> EndpointId {
        self.endpoint_with(bound, UdpOptions::default())
    }

    pub fn endpoint_with(&mut self, bound: SocketAddr, options: UdpOptions) -> EndpointId {
        let family = if bound.is_ipv4() { Family::V4 } else { Family::V6 };
        let id = self.stack.udp_open(family, options);
        self.stack.udp_bind(id, bound).expect("free");
        id
    }

    pub fn connected(&mut self, bound: SocketAddr, remote: SocketAddr) -> EndpointId {
        let id = self.endpoint(bound);
        self.stack.udp_connect(id, remote, None).expect("has a way");
        id
    }

    pub fn join(&mut self, id: EndpointId, group: &str, filter: &SourceFilter) {
        self.stack.udp_join(id, IFINDEX, group.parse().expect("an address"), filter).expect("a group");
    }

    pub fn send(&mut self, id: EndpointId, message: &Message<'_>) -> Result<Vec<u8>, NeedsKernel> {
        let outgoing = self.stack.udp_send(id, message)?;
        let mut frame = vec![0xee; outgoing.len_bytes()];
        assert_eq!(outgoing.write(&mut frame), frame.len());
        Ok(frame)
    }

    pub fn receive(&mut self, frame: &[u8]) -> Verdict {
        self.receive_with(frame, ReceiveChecksum::Verify)
    }

    pub fn receive_with(&mut self, frame: &[u8], checksum: ReceiveChecksum) -> Verdict {
        let arrival = Arrival { port: self.port, frame, received_ns: 7, device_ns: 8, checksum };
        self.stack.receive(&arrival, |_, _| Take::Queue)
    }

    pub fn read(&mut self, id: EndpointId) -> Option<Vec<u8>> {
        self.stack.udp_read(id, |datagram| datagram.payload.to_vec())
    }
}

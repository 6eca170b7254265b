//! By which interfaces traffic of a socket goes, and which packets it wants.

use std::net::IpAddr;

use nearwire_frames::steering::{FlowFilter, Transport};
use nearwire_stack::{EndpointId, Family, FamilyOptions, MulticastInterface, UdpOptions};

use crate::engine::Engine;
use crate::host::Host;
use crate::socket::{Accelerated, Service, Socket};

/// What says by which interfaces traffic of a socket goes: local address, peer, device.
pub(crate) type Reach = (IpAddr, Option<IpAddr>, Option<u32>);

/// The same of an accelerated socket.
pub(crate) fn reach(socket: &Socket) -> Option<Reach> {
    let Service::Accelerated(Accelerated { first_remote, .. }) = &socket.service else { return None };
    let connected = socket.ends.peer().map(|remote| remote.ip().to_canonical());
    let device = socket.kept().and_then(|kept| kept.options.device);
    Some((socket.ends.local?.ip().to_canonical(), connected.or(*first_remote), device))
}

/// Options as the stack wants them: IP_MULTICAST_IF names an interface by an address of it, and IPV6_MTU the kernel does not report.
pub(crate) fn complete<H: Host>(
    options: UdpOptions,
    longest_v6_packet_bytes: Option<u32>,
    engine: &Engine<H>,
) -> UdpOptions {
    let with_index = |mut interface: MulticastInterface| {
        interface.ifindex = interface.source.and_then(|source| engine.interface_with(source)).unwrap_or(0);
        Some(interface).filter(|interface| interface.ifindex != 0)
    };
    let multicast_interface = options.v4.multicast_interface.and_then(with_index);
    let longest_packet_bytes = longest_v6_packet_bytes.unwrap_or(u32::MAX);
    UdpOptions {
        v4: FamilyOptions { multicast_interface, ..options.v4 },
        v6: FamilyOptions { longest_packet_bytes, ..options.v6 },
        ..options
    }
}

pub(crate) fn is_local<H: Host>(engine: &Engine<H>, address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || engine.interface_with(address).is_some()
}

/// The packets that an endpoint wants: to its own address, or to all of this host, and to its groups. Broadcasts stay with
/// the kernel: they are for other programs too. So are groups, and a copy that the kernel would make is one we cannot: where
/// another process may have the port too, the kernel serves the socket (`sharing.rs`).
pub(super) fn flows_of<H: Host>(socket: &Socket, engine: &Engine<H>, endpoint: EndpointId) -> Vec<FlowFilter> {
    let Some(local) = engine.stack_ref().udp_local(endpoint) else { return Vec::new() };
    let flow = |address: IpAddr| FlowFilter { transport: Transport::Udp, address, port: local.port() };
    let bound = local.ip().to_canonical();
    let v6_only = socket.kept().is_some_and(|kept| kept.options.v6_only);
    let takes = |address: &IpAddr| match socket.family {
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6() || !v6_only,
    };
    let mut flows: Vec<FlowFilter> = if bound.is_unspecified() {
        engine.own_addresses().filter(takes).map(flow).collect()
    } else if engine.interface_with(bound).is_some() {
        vec![flow(bound)]
    } else {
        // A group, or an address that was removed.
        Vec::new()
    };
    let groups = socket.udp.memberships.iter().map(|joined| joined.group);
    flows.extend(groups.filter(|group| bound.is_unspecified() || bound == *group).map(flow));
    flows.sort_unstable();
    flows.dedup();
    flows
}

//! Whom a datagram is for: against the kernel's loops, written down once more as they stand there.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::demux::Incoming;
use super::*;
use crate::address::{Address, Family};
use crate::{Stack, StackConfig};

const PORT: u16 = 4000;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn stack() -> Stack {
    Stack::new(StackConfig { queue_slots: 1, ..StackConfig::new(7) })
}

/// An endpoint as the kernel's structures have it.
#[derive(Clone, Debug)]
struct Sock {
    id: EndpointId,
    family: Family,
    v6_only: bool,
    reuse_port: bool,
    device: u32,
    port: u16,
    /// `sk_rcv_saddr` and `sk_v6_rcv_saddr` in one: IPv4 in its mapped form.
    rcv_saddr: Address,
    bound_saddr: Address,
    daddr: Option<Address>,
    dport: u16,
    /// Is in the reuseport group of all that were bound as it is.
    in_group: bool,
}

impl Sock {
    /// `compute_score` of `net/ipv4/udp.c` and `net/ipv6/udp.c`.
    fn score(&self, packet: &Incoming, slot: Address) -> i32 {
        let v4 = packet.destination.is_v4();
        let any = [Address::ANY_V4, Address::ANY_V6].contains(&self.rcv_saddr);
        let hashed_here = self.rcv_saddr == slot || (any && slot.is_any() && (self.family == Family::V6 || v4));
        if self.port != packet.destination_port || !hashed_here || (v4 && self.v6_only) {
            return -1;
        }
        if !v4 && (self.family == Family::V4 || self.rcv_saddr.is_v4()) {
            return -1;
        }
        let mut score = if v4 && self.family == Family::V4 { 2 } else { 1 };
        if let Some(daddr) = self.daddr {
            if daddr != packet.source {
                return -1;
            }
            score += 4;
        }
        if self.dport != 0 {
            if self.dport != packet.source_port {
                return -1;
            }
            score += 4;
        }
        if self.device != 0 {
            if self.device != packet.ifindex {
                return -1;
            }
            score += 4;
        }
        score
    }

    fn shares_group(&self, other: &Sock) -> bool {
        let of = |sock: &Sock| (sock.family, sock.v6_only, sock.device, sock.port, sock.bound_saddr);
        self.in_group && other.in_group && of(self) == of(other)
    }
}

/// `__udp4_lib_lookup` and `__udp6_lib_lookup`: those of whom one gets the datagram. Which one of a reuseport group
/// depends on a secret of the kernel's.
fn kernel(socks: &[Sock], packet: &Incoming) -> Vec<EndpointId> {
    let any = if packet.destination.is_v4() { Address::ANY_V4 } else { Address::ANY_V6 };
    // `udp4_lib_lookup4`, `udp6_lib_lookup4`: connected, the newest first.
    let is_connected = |sock: &&Sock| sock.daddr.is_some() && sock.score(packet, packet.destination) >= 0;
    if let Some(sock) = socks.iter().rev().find(is_connected) {
        return vec![sock.id];
    }
    for slot in [packet.destination, any] {
        // Newest first, but IPv6 with SO_REUSEPORT last, oldest of them first.
        let last = |sock: &&Sock| sock.reuse_port && sock.family == Family::V6;
        let chain = socks.iter().rev().filter(|sock| !last(sock)).chain(socks.iter().filter(last));
        let (mut best, mut badness) = (Vec::new(), -1);
        for sock in chain {
            let score = sock.score(packet, slot);
            if score <= badness {
                continue;
            }
            badness = score;
            best = vec![sock.id];
            if sock.daddr.is_some() || !sock.in_group {
                continue;
            }
            let members: Vec<_> = socks.iter().filter(|other| sock.shares_group(other)).collect();
            best = members.iter().filter(|member| member.daddr.is_none()).map(|member| member.id).collect();
            if !members.iter().any(|member| member.daddr.is_some()) {
                return best;
            }
        }
        if !best.is_empty() {
            return best;
        }
    }
    Vec::new()
}

#[derive(Clone, Debug)]
struct Plan {
    family: Family,
    v6_only: bool,
    reuse_port: bool,
    device: Option<u32>,
    port: u16,
    local: usize,
    remote: Option<(usize, u16)>,
}

const LOCALS: [[&str; 3]; 2] = [["0.0.0.0", "10.0.0.1", "10.0.0.2"], ["::", "fd00::1", "::ffff:10.0.0.1"]];
const REMOTES: [[&str; 2]; 2] = [["10.0.0.8", "10.0.0.9"], ["fd00::8", "fd00::9"]];

fn any_plan() -> impl Strategy<Value = Plan> {
    let remote = proptest::option::of((0..2_usize, prop_oneof![Just(7_u16), Just(8_u16)]));
    let device = proptest::option::weighted(0.3, 2..4_u32);
    (any::<bool>(), any::<bool>(), any::<bool>(), device, PORT..PORT + 2, 0..3_usize, remote).prop_map(
        |(six, v6_only, reuse_port, device, port, local, remote)| Plan {
            family: if six { Family::V6 } else { Family::V4 },
            v6_only: six && v6_only && local != 2,
            reuse_port,
            device,
            port,
            local,
            remote,
        },
    )
}

/// Opens what the plan says; `None`: the address is taken.
fn open(stack: &mut Stack, plan: &Plan) -> Option<Sock> {
    let options = UdpOptions {
        reuse_port: plan.reuse_port,
        reuse_address: true,
        v6_only: plan.v6_only,
        device: plan.device,
        ..UdpOptions::default()
    };
    let id = stack.udp_open(plan.family, options);
    let six = usize::from(plan.family == Family::V6);
    let local = ip(LOCALS[six][plan.local]);
    if stack.udp_bind(id, SocketAddr::new(local, plan.port)).is_err() {
        stack.udp_close(id);
        return None;
    }
    let local = if local.is_unspecified() && six == 0 { Address::ANY_V4 } else { Address::from(local) };
    let mut sock = Sock {
        id,
        family: plan.family,
        v6_only: plan.v6_only,
        reuse_port: plan.reuse_port,
        device: plan.device.unwrap_or(0),
        port: plan.port,
        rcv_saddr: local,
        bound_saddr: local,
        daddr: None,
        dport: 0,
        in_group: plan.reuse_port,
    };
    if let Some((remote, dport)) = plan.remote {
        let six = usize::from(plan.family == Family::V6 && !local.is_v4());
        let remote = ip(REMOTES[six][remote]);
        let source = ip(if six == 1 { "fd00::1" } else { "10.0.0.1" });
        stack.udp_connect(id, SocketAddr::new(remote, dport), Some(source)).expect("bound");
        sock.daddr = Some(remote.into());
        sock.dport = dport;
        if local.is_any() {
            sock.rcv_saddr = source.into();
            sock.in_group = false;
        }
    }
    Some(sock)
}

/// Every datagram that could tell two endpoints apart.
fn packets() -> impl Iterator<Item = Incoming> {
    let ends = [("10.0.0.8", "10.0.0.1"), ("10.0.0.9", "10.0.0.2"), ("10.0.0.9", "10.0.0.1"), ("fd00::8", "fd00::1")];
    ends.into_iter().flat_map(|(source, destination)| {
        (0..16_u16).map(move |bits| Incoming {
            source: ip(source).into(),
            destination: ip(destination).into(),
            source_port: 7 + bits % 2,
            destination_port: PORT + bits / 2 % 2,
            ifindex: 2 + u32::from(bits / 4 % 2),
        })
    })
}

fn check(stack: &Stack, socks: &[Sock]) {
    for packet in packets() {
        let found = stack.udp.demux.unicast(&packet, &stack.udp.endpoints);
        let wanted = kernel(socks, &packet);
        match found {
            Some(index) => {
                let allowed = wanted.iter().any(|id| id.index == index);
                assert!(allowed, "{packet:?}: found {index}, wanted one of {wanted:?} among {socks:#?}");
            }
            None => assert_eq!(wanted, [], "{packet:?}: found none among {socks:#?}"),
        }
    }
}

proptest! {
    #[test]
    fn endpoint_found_is_that_of_the_kernels_loops(
        plans in proptest::collection::vec(any_plan(), 1..9),
        closes in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut stack = stack();
        let mut socks: Vec<Sock> = plans.iter().filter_map(|plan| open(&mut stack, plan)).collect();
        check(&stack, &socks);
        for index in closes {
            if !socks.is_empty() {
                let sock = socks.remove(index.index(socks.len()));
                stack.udp_close(sock.id);
                // The kernel remembers that a group had connected members; so do groups here.
                if sock.daddr.is_some() && sock.in_group {
                    break;
                }
                check(&stack, &socks);
            }
        }
    }
}

#[test]
fn datagrams_of_many_flows_spread_over_a_reuseport_group_and_a_flow_stays() {
    let mut stack = stack();
    let plan =
        Plan { family: Family::V4, v6_only: false, reuse_port: true, device: None, port: PORT, local: 0, remote: None };
    for _ in 0..4 {
        open(&mut stack, &plan).expect("shared");
    }
    let mut counts = [0; 4];
    for source_port in 1..=4000 {
        let packet = Incoming {
            source: ip("10.0.0.9").into(),
            destination: ip("10.0.0.1").into(),
            source_port,
            destination_port: PORT,
            ifindex: 2,
        };
        let first = stack.udp.demux.unicast(&packet, &stack.udp.endpoints).expect("found");
        assert_eq!(stack.udp.demux.unicast(&packet, &stack.udp.endpoints), Some(first));
        counts[first as usize] += 1;
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn address_in_use_bound_again_is_refused_unless_both_share() {
    let bind = |first: (&str, UdpOptions), second: (&str, UdpOptions)| {
        let mut stack = stack();
        let mut open = |(text, options): (&str, UdpOptions)| {
            let address: SocketAddr = text.parse().expect("an address");
            let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
            let id = stack.udp_open(family, options);
            stack.udp_bind(id, address)
        };
        open(first).expect("free");
        open(second).is_ok()
    };
    let plain = UdpOptions::default();
    let reuse_port = UdpOptions { reuse_port: true, ..plain };
    let reuse_address = UdpOptions { reuse_address: true, ..plain };
    let on = |device| UdpOptions { device: Some(device), ..plain };
    let v6_only = UdpOptions { v6_only: true, ..plain };
    for (first, second, allowed) in [
        (("0.0.0.0:1", plain), ("0.0.0.0:1", plain), false),
        (("0.0.0.0:1", plain), ("0.0.0.0:2", plain), true),
        (("0.0.0.0:1", plain), ("10.0.0.1:1", plain), false),
        (("10.0.0.1:1", plain), ("10.0.0.2:1", plain), true),
        (("10.0.0.1:1", reuse_port), ("10.0.0.1:1", reuse_port), true),
        (("10.0.0.1:1", reuse_port), ("10.0.0.1:1", plain), false),
        (("10.0.0.1:1", reuse_address), ("10.0.0.1:1", reuse_address), true),
        (("10.0.0.1:1", reuse_address), ("10.0.0.1:1", reuse_port), false),
        (("10.0.0.1:1", on(2)), ("10.0.0.1:1", on(3)), true),
        (("10.0.0.1:1", on(2)), ("10.0.0.1:1", on(2)), false),
        (("10.0.0.1:1", on(2)), ("10.0.0.1:1", plain), false),
        (("[::]:1", plain), ("0.0.0.0:1", plain), false),
        (("[::]:1", v6_only), ("0.0.0.0:1", plain), true),
        (("[::]:1", v6_only), ("[::]:1", plain), false),
        (("[::ffff:10.0.0.1]:1", plain), ("10.0.0.1:1", plain), false),
        (("[fd00::1]:1", plain), ("10.0.0.1:1", plain), true),
    ] {
        assert_eq!(bind(first, second), allowed, "{first:?} {second:?}");
    }
}

#[test]
fn bind_and_connect_that_cannot_be_are_refused_with_the_cause() {
    let mut stack = stack();
    let id = stack.udp_open(Family::V4, UdpOptions::default());
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let connected = stack.udp_connect(id, address("10.0.0.9:7"), None);
    assert!(matches!(connected, Err(ConnectError::NotBound { .. })));
    assert!(matches!(stack.udp_bind(id, address("10.0.0.1:0")), Err(BindError::PortZero { .. })));
    assert!(matches!(stack.udp_bind(id, address("[::]:1")), Err(BindError::FamilyMismatch { .. })));
    stack.udp_bind(id, address("10.0.0.1:1")).expect("free");
    assert!(matches!(stack.udp_bind(id, address("10.0.0.1:2")), Err(BindError::AlreadyBound { port: 1, .. })));
    let connected = stack.udp_connect(id, address("[fd00::9]:7"), None);
    assert!(matches!(connected, Err(ConnectError::Refused { .. })));
    let other = stack.udp_open(Family::V4, UdpOptions::default());
    assert!(matches!(stack.udp_bind(other, address("10.0.0.1:1")), Err(BindError::AddressInUse { .. })));
    assert_eq!(stack.udp_local(other), Some(address("0.0.0.0:0")));
    stack.udp_bind(other, address("10.0.0.1:2")).expect("still unbound");
    stack.udp_close(id);
    assert!(matches!(stack.udp_bind(id, address("10.0.0.1:1")), Err(BindError::NoEndpoint { .. })));
    assert_eq!(stack.udp_options(id), None);
}

#[test]
fn endpoint_bound_to_v6_connected_to_v4_with_a_v4_source_is_refused() {
    let mut stack = stack();
    let id = stack.udp_open(Family::V6, UdpOptions::default());
    stack.udp_bind(id, "[fd00::1]:1".parse().expect("an address")).expect("free");
    let connected = stack.udp_connect(id, "10.0.0.9:7".parse().expect("an address"), Some(ip("10.0.0.1")));
    assert!(matches!(connected, Err(ConnectError::Refused { reason: crate::NeedsKernel::FamilyMismatch, .. })));
    assert_eq!(stack.udp_remote(id), None);
}

//! The kernel as the judge of which endpoint a datagram is for.
//!
//! The same sockets are opened in the kernel, on loopback addresses, and in the stack; each datagram is sent from a
//! kernel socket, and the one of the kernel's sockets that got it is compared with the stack's choice. Needs no root.
//! Not compared: which member of a SO_REUSEPORT group is chosen, which depends on a secret of the kernel's; and
//! SO_BINDTODEVICE.

mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use nearwire_stack::{
    Arrival, EndpointId, Family, InterfaceAddress, Link, LinkKind, Offers, PortId, ReceiveChecksum, Stack, StackConfig,
    Take, UdpOptions, Update, Verdict,
};
use nearwire_wire::MacAddress;
use nearwire_wire::ethernet::{EtherType, EthernetHeader, VlanTags};
use nearwire_wire::ipv4::Ipv4Header;
use nearwire_wire::udp::{PROTOCOL, UdpHeader};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// The interface index of the loopback device, which is the same in the stack under test.
const LOOPBACK: u32 = 1;
const SCRIPTS: u64 = 150;

/// What both open.
#[derive(Clone, Copy, Debug)]
struct Plan {
    dual: bool,
    local: u8,
    remote: Option<u8>,
    reuse_port: bool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn plan(&mut self) -> Plan {
        Plan {
            dual: self.below(3) == 0,
            local: self.below(3) as u8,
            remote: (self.below(2) == 0).then(|| 8 + self.below(2) as u8),
            reuse_port: self.below(3) > 0,
        }
    }
}

/// 127.0.0.0 stands for any address.
fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(if last == 0 { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::new(127, 0, 0, last) })
}

fn as_family(plan: Plan, address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(any) if plan.dual && any.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        IpAddr::V4(address) if plan.dual => IpAddr::V6(address.to_ipv6_mapped()),
        address => address,
    }
}

fn open_in_kernel(plan: Plan, port: u16, remote_port: u16) -> rustix::io::Result<OwnedFd> {
    let family = if plan.dual { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, plan.reuse_port)?;
    if plan.dual {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    net::bind(&socket, &SocketAddr::new(as_family(plan, loopback(plan.local)), port))?;
    if let Some(remote) = plan.remote {
        net::connect(&socket, &SocketAddr::new(as_family(plan, loopback(remote)), remote_port))?;
    }
    Ok(socket)
}

/// A stack to which the loopback network looks like an Ethernet, which it would refuse under its real addresses:
/// 127.0.0.n is 10.0.0.n on the wire, and `mapped` says so where addresses are compared.
struct Mirror {
    stack: Stack,
    port: PortId,
}

fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.is_loopback() => IpAddr::V4(Ipv4Addr::new(10, 0, 0, v4.octets()[3])),
        other => other,
    }
}

impl Mirror {
    fn new() -> Mirror {
        let mut stack = Stack::new(StackConfig { queue_slots: 4, ..StackConfig::new(5) });
        let port = stack.attach_port(LOOPBACK, Offers::default());
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        stack.update(Update::NewLink(Link {
            ifindex: LOOPBACK,
            mac,
            mtu_bytes: 1500,
            is_up: true,
            kind: LinkKind::Ethernet,
        }));
        for last in [1, 2] {
            let address: InterfaceAddress = common::address(LOOPBACK, common::v4(last), 24);
            stack.update(Update::NewAddress(address));
        }
        Mirror { stack, port }
    }

    fn receiver(&mut self, source: SocketAddr, destination: SocketAddr) -> Option<EndpointId> {
        let frame = frame(source, destination);
        let arrival = Arrival {
            port: self.port,
            frame: &frame,
            received_ns: 0,
            device_ns: 0,
            checksum: ReceiveChecksum::Verified,
        };
        match self.stack.receive(&arrival, |_, _| Take::Consumed) {
            Verdict::Delivered { endpoint, copies: 1 } => Some(endpoint),
            _ => None,
        }
    }
}

fn frame(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (mapped(source.ip()), mapped(destination.ip())) else { return Vec::new() };
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let ethernet = EthernetHeader { destination: mac, source: mac, tags: VlanTags::None, ethertype: EtherType::IPV4 };
    let ip = Ipv4Header {
        tos: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: PROTOCOL,
        source: from,
        destination: to,
    };
    let udp = UdpHeader { source_port: source.port(), destination_port: destination.port(), checksum: [0; 2] };
    let mut frame = vec![0; 14 + 20 + 8 + 1];
    let packet = ethernet.write(&mut frame).expect("fits");
    let datagram = ip.write(packet).expect("fits");
    udp.write(datagram).expect("fits");
    frame
}

/// What `plan` is in the mirror's addresses.
fn open_in_mirror(mirror: &mut Mirror, plan: Plan, port: u16, remote_port: u16) -> Option<EndpointId> {
    let options = UdpOptions { reuse_address: true, reuse_port: plan.reuse_port, ..UdpOptions::default() };
    let stack = &mut mirror.stack;
    let id = stack.udp_open(if plan.dual { Family::V6 } else { Family::V4 }, options);
    let local = as_family(plan, mapped(loopback(plan.local)));
    if stack.udp_bind(id, SocketAddr::new(local, port)).is_err() {
        stack.udp_close(id);
        return None;
    }
    if let Some(remote) = plan.remote {
        // The kernel's choice of a source towards a loopback address is 127.0.0.1.
        let source = if plan.local == 0 { loopback(1) } else { loopback(plan.local) };
        let remote = SocketAddr::new(mapped(loopback(remote)), remote_port);
        stack.udp_connect(id, remote, Some(mapped(source))).expect("bound");
    }
    Some(id)
}

#[test]
fn socket_that_gets_a_datagram_in_the_kernel_is_the_endpoint_that_gets_it_here() {
    let mut compared = 0;
    for seed in 0..SCRIPTS {
        let mut random = Random(seed);
        let senders = [8_u8, 9].map(|last| UdpSocket::bind((loopback(last), 0)).expect("loopback"));
        // Both senders have one port, as far as there is one free on both addresses.
        let remote_port = senders[0].local_addr().expect("bound").port();
        let Ok(second) = UdpSocket::bind((loopback(9), remote_port)) else { continue };
        let senders = [&senders[0], &second];
        let probe = UdpSocket::bind("0.0.0.0:0").expect("loopback");
        let port = probe.local_addr().expect("bound").port();
        drop(probe);

        let mut mirror = Mirror::new();
        let mut opened: Vec<(Plan, OwnedFd, EndpointId)> = Vec::new();
        for _ in 0..1 + random.below(7) {
            let plan = random.plan();
            let ours = open_in_mirror(&mut mirror, plan, port, remote_port);
            match (open_in_kernel(plan, port, remote_port), ours) {
                (Ok(socket), Some(id)) => opened.push((plan, socket, id)),
                (Err(rustix::io::Errno::ADDRINUSE), None) => {}
                (kernel, ours) => panic!("{plan:?}: kernel {kernel:?}, here {ours:?}, after {opened:?}"),
            }
        }
        for (sender, last) in senders.iter().zip([8, 9]) {
            for local in [1, 2] {
                let to = SocketAddr::new(loopback(local), port);
                let _ = sender.send_to(b"x", to);
                let from = SocketAddr::new(loopback(last), remote_port);
                let ours = mirror.receiver(from, to);
                let mut buffer = [0; 8];
                let got = opened
                    .iter()
                    .position(|(_, socket, _)| net::recv(socket, &mut buffer[..], net::RecvFlags::empty()).is_ok());
                let ours = ours.and_then(|id| opened.iter().position(|(.., opened)| *opened == id));
                let plans = opened.iter().map(|(plan, ..)| *plan).collect::<Vec<_>>();
                assert!(
                    got == ours || share_a_group(&plans, got, ours),
                    "seed {seed}, {from} to {to}: kernel {got:?}, here {ours:?} of {plans:#?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared} datagrams compared");
}

/// Whether two sockets are in one SO_REUSEPORT group, of which the kernel chooses by a secret.
fn share_a_group(plans: &[Plan], a: Option<usize>, b: Option<usize>) -> bool {
    let (Some(a), Some(b)) = (a.and_then(|a| plans.get(a)), b.and_then(|b| plans.get(b))) else { return false };
    let of = |plan: &Plan| (plan.dual, plan.local);
    let is_free = |plan: &Plan| plan.reuse_port && plan.remote.is_none();
    is_free(a) && is_free(b) && of(a) == of(b)
}

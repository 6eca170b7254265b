//! The router against the kernel's: the same packets go through both, and what comes out is the same, byte by byte.
//!
//! ```text
//!   near namespace            far namespace
//!   nw0  --- packets --->  nw1   kernel, or our router
//!   nw2  <-- forwarded --  nw3   MTU 1280
//! ```
//! For our router the kernel's forwarding is off: AF_PACKET ports leave it a copy of each frame.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use nearwire_dataplane::forwarder::Forwarder;
use nearwire_dataplane::function::l3::{Prefix, Target, kernel_view};
use nearwire_dataplane::function::{DropCause, Router};
use nearwire_frames::Port;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_lab::{Cable, CablePair, Namespace, VirtualCable, VirtualCableOptions, made_or_skip};
use nearwire_sys::netlink::message::{Messages, Request};
use nearwire_wire::checksum::Sum;

/// The MTU of the way out: what comes in may be longer.
const EGRESS_MTU_BYTES: u32 = 1280;
const REQUEST_FLAGS: u16 = 0x001 | 0x004 | 0x400; // NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE
const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const IFLA_MTU: u16 = 4;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// The last packet of a run.
const END: &[u8] = b"the end";

/// Sends a request that changes something in the calling thread's namespace.
fn change(request: Request) {
    let socket: OwnedFd = nearwire_sys::netlink::open(None).unwrap();
    rustix::net::send(&socket, &request.into_bytes(), rustix::net::SendFlags::empty()).unwrap();
    let mut answer = [0; 4096];
    let (len_bytes, _) = rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap();
    Messages::new(&answer[..len_bytes]).next().unwrap().verdict().unwrap();
}

fn set_mtu(ifindex: u32, mtu_bytes: u32) {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    change(Request::new(RTM_NEWLINK, REQUEST_FLAGS, 1, &header).attribute(IFLA_MTU, &mtu_bytes.to_ne_bytes()));
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A route of the main table; without a gateway it is unreachable.
fn add_route(destination: &str, bits: u8, through: Option<(u32, IpAddr)>) {
    const MAIN: u8 = 254;
    const BOOT: u8 = 3;
    let destination: IpAddr = destination.parse().unwrap();
    let family = if destination.is_ipv4() { 2 } else { 10 };
    let kind = if through.is_some() { 1 } else { 7 };
    let header = [family, bits, 0, 0, MAIN, BOOT, 0, kind, 0, 0, 0, 0];
    let request = Request::new(RTM_NEWROUTE, REQUEST_FLAGS, 1, &header).attribute(RTA_DST, &bytes_of(destination));
    change(match through {
        Some((ifindex, gateway)) => {
            request.attribute(RTA_OIF, &ifindex.to_ne_bytes()).attribute(RTA_GATEWAY, &bytes_of(gateway))
        }
        None => request,
    });
}

/// Switches the kernel's forwarding in the calling thread's namespace.
fn set_forwarding(on: bool) {
    for path in ["ipv4/conf/all/forwarding", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{path}"), if on { "1" } else { "0" }).unwrap();
    }
}

/// What is sent, with what is expected of it: `None`, it is forwarded.
struct Sent {
    what: &'static str,
    frame: Vec<u8>,
    cause: Option<DropCause>,
}

/// Makes frames from near to far.
struct Maker {
    source: [u8; 6],
    destination: [u8; 6],
    sent: Vec<Sent>,
}

impl Maker {
    /// A datagram whose source port is the number of the packet.
    fn frame(&self, source: &str, destination: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(self.source, self.destination);
        let builder = match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => builder.ipv4(source.octets(), destination.octets(), ttl),
            (IpAddr::V6(source), IpAddr::V6(destination)) => builder.ipv6(source.octets(), destination.octets(), ttl),
            _ => panic!("two versions"),
        };
        let mut frame = Vec::new();
        builder.udp(self.sent.len() as u16, 7).write(&mut frame, payload).unwrap();
        frame
    }

    /// Which packet it is, and its bytes.
    fn describe(&self, frame: &[u8]) -> String {
        let port_at = if frame[12] == 0x08 { 14 + usize::from(frame[14] & 0xf) * 4 } else { 54 };
        let number = usize::from(u16::from_be_bytes([frame[port_at], frame[port_at + 1]]));
        format!("{}: {frame:02x?}", self.sent.get(number).map_or("?", |sent| sent.what))
    }

    /// Adds a packet of a host on the near link, of `payload_bytes`, after `change`.
    fn add(
        &mut self,
        what: &'static str,
        (destination, ttl, payload_bytes): (&str, u8, usize),
        cause: Option<DropCause>,
        change: impl FnOnce(&mut Vec<u8>),
    ) {
        let source = if destination.contains(':') { "fd77::9" } else { "10.77.0.9" };
        let mut frame = self.frame(source, destination, ttl, &vec![0; payload_bytes]);
        change(&mut frame);
        self.sent.push(Sent { what, frame, cause });
    }
}

fn write_checksum(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[14] & 0xf) * 4;
    frame[24..26].fill(0);
    let checksum = Sum::default().bytes(&frame[14..14 + header_bytes]).checksum();
    frame[24..26].copy_from_slice(&checksum);
}

fn put_options(frame: &mut Vec<u8>, options: &[u8]) {
    frame.splice(34..34, options.iter().copied());
    frame[14] += (options.len() / 4) as u8;
    let total_bytes = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total_bytes.to_be_bytes());
    write_checksum(frame);
}

fn set_source(frame: &mut [u8], source: [u8; 4]) {
    frame[26..30].copy_from_slice(&source);
    write_checksum(frame);
}

fn packets(first: &CablePair) -> Maker {
    let mut maker = Maker { source: first.near.mac, destination: first.far.mac, sent: Vec::new() };
    let same = |_: &mut Vec<u8>| {};
    let add = &mut maker;
    add.add("to a neighbour", ("10.77.1.1", 64, 20), None, same);
    add.add("by a gateway", ("192.0.2.1", 64, 20), None, same);
    add.add("v6 to a neighbour", ("fd77:0:0:1::1", 64, 20), None, same);
    add.add("v6 by a gateway", ("2001:db8::1", 64, 20), None, same);
    add.add("by the default route of a longer prefix", ("192.0.3.1", 64, 20), None, same);
    add.add("last TTL", ("192.0.2.1", 2, 20), None, same);
    add.add("greatest TTL", ("192.0.2.1", 255, 20), None, same);
    add.add("last hop limit", ("2001:db8::1", 2, 20), None, same);
    add.add("padded", ("192.0.2.1", 64, 1), None, |frame| frame.resize(60, 0));
    add.add("as long as the MTU", ("192.0.2.1", 64, 1280 - 28), None, same);
    add.add("v6 as long as the MTU", ("2001:db8::1", 64, 1280 - 48), None, same);
    add.add("fragment", ("192.0.2.1", 64, 24), None, |frame| {
        frame[20..22].copy_from_slice(&[0x20, 0x05]);
        write_checksum(frame);
    });
    add.add("no-operation options", ("192.0.2.1", 64, 20), None, |frame| put_options(frame, &[1, 1, 1, 0]));
    add.add("an option for nobody", ("192.0.2.1", 64, 20), None, |frame| put_options(frame, &[30, 4, 1, 2]));
    add.add("class E source", ("192.0.2.1", 64, 20), None, |frame| set_source(frame, [240, 0, 0, 1]));
    // Among them are sums in the corner of RFC 1624.
    for identification in 0..=255_u8 {
        add.add("one of many checksums", ("192.0.2.1", 64, 20), None, |frame| {
            frame[18..20].copy_from_slice(&[0xfe ^ identification, identification]);
            write_checksum(frame);
        });
    }
    dropped(&mut maker);
    maker
}

fn dropped(add: &mut Maker) {
    let same = |_: &mut Vec<u8>| {};
    let rows = [
        ("TTL 1", ("192.0.2.1", 1, 20), DropCause::TtlExpired),
        ("TTL 0", ("192.0.2.1", 0, 20), DropCause::TtlExpired),
        ("hop limit 1", ("2001:db8::1", 1, 20), DropCause::TtlExpired),
        ("hop limit 0", ("2001:db8::1", 0, 20), DropCause::TtlExpired),
        ("no route", ("8.8.8.8", 64, 20), DropCause::NoRoute),
        ("v6 no route", ("2002::1", 64, 20), DropCause::NoRoute),
        ("unreachable", ("198.51.100.1", 64, 20), DropCause::Unreachable),
        ("too big with DF", ("192.0.2.1", 64, 1280 - 27), DropCause::TooBig),
        ("v6 too big", ("2001:db8::1", 64, 1280 - 47), DropCause::TooBig),
        ("for the router", ("10.77.1.2", 64, 20), DropCause::ForThisHost),
        ("v6 for the router", ("fd77:0:0:1::2", 64, 20), DropCause::ForThisHost),
        ("directed broadcast", ("10.77.1.255", 64, 20), DropCause::Broadcast),
        ("group", ("224.0.0.5", 64, 20), DropCause::Multicast),
        ("loopback", ("127.0.0.1", 64, 20), DropCause::MartianDestination),
        ("v6 loopback", ("::1", 64, 20), DropCause::MartianDestination),
        ("network 0", ("0.1.2.3", 64, 20), DropCause::MartianDestination),
    ];
    for (what, packet, cause) in rows {
        add.add(what, packet, Some(cause), same);
    }
    let to = ("192.0.2.1", 64, 20);
    for (what, source) in [
        ("source loopback", [127, 0, 0, 1]),
        ("source 0", [0, 0, 0, 0]),
        ("source group", [224, 0, 0, 1]),
        ("own source", [10, 77, 1, 2]),
    ] {
        add.add(what, to, Some(DropCause::MartianSource), |frame| set_source(frame, source));
    }
    add.add("bad checksum", to, Some(DropCause::HeaderChecksum), |frame| frame[24] ^= 1);
    add.add("wrong MAC", to, Some(DropCause::OtherHost), |frame| frame[5] ^= 0x10);
    add.add("broadcast MAC", to, Some(DropCause::LinkGroup), |frame| frame[..6].fill(0xff));
    add.add("cut", to, Some(DropCause::TotalLength), |frame| frame.truncate(frame.len() - 1));
    add.add("version 5", to, Some(DropCause::Version), |frame| {
        frame[14] = 0x55;
        write_checksum(frame);
    });
    add.add("header of 16 bytes", to, Some(DropCause::HeaderLength), |frame| frame[14] = 0x44);
    add.add("bad option", to, Some(DropCause::MalformedOption), |frame| put_options(frame, &[1, 1, 30, 9]));
    let to_v6 = ("2001:db8::1", 64, 20);
    add.add("v6 cut", to_v6, Some(DropCause::TotalLength), |frame| frame.truncate(frame.len() - 1));
    add.add("link-local source", to_v6, Some(DropCause::LinkLocal), |frame| {
        frame[22..38].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    });
    add.add("v6 source group", to_v6, Some(DropCause::MartianSource), |frame| {
        frame[22..24].copy_from_slice(&[0xff, 0x02])
    });
}

fn open(namespace: &Namespace, interface: &str) -> PacketPort {
    let config = PacketConfig { ring_slots: 1024, ..PacketConfig::new(interface, Steer::All) };
    namespace.enter(|| PacketPort::open(&config)).unwrap().unwrap()
}

/// Sends all packets and then the end; gives what comes out for the near host, in the order of its bytes.
fn through(maker: &Maker, ports: &mut [PacketPort; 2], near_mac: [u8; 6], mut turn: impl FnMut()) -> Vec<Vec<u8>> {
    let [ingress, egress] = ports;
    let end = maker.frame("10.77.0.9", "192.0.2.1", 64, END);
    for frame in maker.sent.iter().map(|sent| &sent.frame).chain([&end]) {
        assert!(ingress.send(frame).unwrap());
        turn();
    }
    let mut out = Vec::new();
    let mut deadline = Instant::now() + Duration::from_secs(5);
    let mut is_ended = false;
    while Instant::now() < deadline {
        turn();
        while let Some(frame) = egress.receive(<[u8]>::to_vec).unwrap() {
            if frame.ends_with(END) && !is_ended {
                is_ended = true;
                // On two CPUs, packets may overtake each other.
                deadline = Instant::now() + Duration::from_millis(100);
            } else if frame[..6] == near_mac {
                out.push(without_padding(frame));
            }
        }
    }
    assert!(is_ended, "the last packet did not come out");
    out.sort();
    out
}

/// The kernel cuts padding off, our router leaves it.
fn without_padding(mut frame: Vec<u8>) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let len_bytes = if frame[12] == 0x08 { 14 + number(16) } else { 54 + number(18) };
    frame.truncate(len_bytes);
    frame
}

/// The cable with routes behind its far end, and the router that the kernel's tables give.
fn far_router(cable: &VirtualCable) -> Router {
    let (far, second) = (cable.far(), cable.second_pair().unwrap());
    let out = (second.far.ifindex, IpAddr::V4(second.near.ipv4));
    let out_v6 = (second.far.ifindex, IpAddr::V6(second.near.ipv6));
    let enter = || {
        set_mtu(second.far.ifindex, EGRESS_MTU_BYTES);
        set_forwarding(true);
        add_route("192.0.2.0", 23, Some(out));
        add_route("192.0.3.0", 25, Some(out));
        add_route("198.51.100.0", 24, None);
        add_route("2001:db8::", 32, Some(out_v6));
        kernel_view(&[&far.interface, &second.far.interface]).unwrap()
    };
    let view = far.namespace.enter(enter).unwrap();
    assert_eq!(view.interfaces.iter().map(|interface| interface.mtu_bytes).collect::<Vec<_>>(), [1500, 1280]);
    let wanted = (Prefix::new("192.0.2.0".parse().unwrap(), 23).unwrap(), Target::Gateway { port: 1, address: out.1 });
    assert!(view.routes.iter().any(|route| route == wanted));
    assert_eq!(view.neighbours.mac(1, out.1), Some(second.near.mac));
    view.into_router().unwrap()
}

#[test]
fn router_forwards_what_the_kernel_forwards_byte_by_byte() {
    let options = VirtualCableOptions { pairs: 2, ..VirtualCableOptions::default() };
    let Some(cable) = made_or_skip(VirtualCable::lay(options)) else { return };
    if !cable.far().ipv6_usable {
        println!("SKIP the kernel has no IPv6");
        return;
    }
    let second = cable.second_pair().unwrap();
    let router = far_router(&cable);
    let maker = packets(cable.pair());
    let near = &cable.near().namespace;
    let mut ends = [open(near, &cable.near().interface), open(near, &second.near.interface)];
    let of_kernel = through(&maker, &mut ends, second.near.mac, || {});

    cable.far().namespace.enter(|| set_forwarding(false)).unwrap();
    let far = &cable.far().namespace;
    let ports = vec![open(far, &cable.far().interface), open(far, &second.far.interface)];
    let mut forwarder = Forwarder::new(ports, router);
    let of_ours = through(&maker, &mut ends, second.near.mac, || {
        forwarder.turn(0).unwrap();
    });

    let [ours_only, kernels_only] = [(&of_ours, &of_kernel), (&of_kernel, &of_ours)].map(|(some, others)| {
        some.iter().filter(|frame| !others.contains(frame)).map(|frame| maker.describe(frame)).collect::<Vec<_>>()
    });
    assert_eq!((ours_only, kernels_only), (vec![], vec![]));
    assert_eq!(of_ours, of_kernel);
    let forwarded = maker.sent.iter().filter(|sent| sent.cause.is_none()).count();
    assert_eq!(of_ours.len(), forwarded);
    for cause in DropCause::all() {
        let wanted: Vec<&str> =
            maker.sent.iter().filter(|sent| sent.cause == Some(cause)).map(|sent| sent.what).collect();
        let found = forwarder.drops().of(cause);
        // Frames that the kernels send by themselves may add to these.
        let is_more_allowed = matches!(cause, DropCause::LinkGroup | DropCause::Multicast | DropCause::ForThisHost);
        let is_right = found == wanted.len() as u64 || is_more_allowed && found > wanted.len() as u64;
        assert!(is_right, "{cause}: {found} frames, wanted {wanted:?}");
    }
}

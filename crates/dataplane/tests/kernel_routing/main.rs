//! The router against the kernel's: the same packets go through both, and what comes out is the same, byte by byte.
//!
//! ```text
//!   near namespace            far namespace
//!   nw0  --- packets --->  nw1   kernel, or our router
//!   nw2  <-- forwarded --  nw3   MTU 1280
//! ```
//! For our router the kernel's forwarding is off: AF_PACKET ports leave it a copy of each frame.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod network;
mod packets;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use nearwire_dataplane::forwarder::Forwarder;
use nearwire_dataplane::function::l3::{Prefix, Target, kernel_view};
use nearwire_dataplane::function::{DropCause, Drops, Io, Router};
use nearwire_frames::Port;
use nearwire_frames::ports::packet::{PacketConfig, PacketPort};
use nearwire_frames::ports::xdp::Steer;
use nearwire_lab::{Cable, Namespace, VirtualCable, VirtualCableOptions, made_or_skip};
use network::{add_route, set_forwarding, set_mtu};
use packets::{Maker, packets};

/// The MTU of the way out: what comes in may be longer.
const EGRESS_MTU_BYTES: u32 = 1280;
/// The last packet of a run.
const END: &[u8] = b"the end";

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

fn cable_or_skip() -> Option<VirtualCable> {
    made_or_skip(VirtualCable::lay(VirtualCableOptions { pairs: 2, ..VirtualCableOptions::default() }))
}

#[test]
fn router_forwards_what_the_kernel_forwards_byte_by_byte() {
    let Some(cable) = cable_or_skip() else { return };
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
    assert_causes(forwarder.drops(), &maker);
}

/// Each packet that is not forwarded was counted under its cause.
fn assert_causes(drops: &Drops, maker: &Maker) {
    for cause in DropCause::all() {
        let wanted: Vec<&str> =
            maker.sent.iter().filter(|sent| sent.cause == Some(cause)).map(|sent| sent.what).collect();
        let found = drops.of(cause);
        // Frames that the kernels send by themselves may add to these.
        let is_more_allowed = matches!(cause, DropCause::LinkGroup | DropCause::Multicast | DropCause::ForThisHost);
        let is_right = found == wanted.len() as u64 || is_more_allowed && found > wanted.len() as u64;
        assert!(is_right, "{cause}: {found} frames, wanted {wanted:?}");
    }
}

#[test]
fn frame_longer_than_the_way_out_is_dropped_and_the_next_forwarded() {
    let Some(cable) = cable_or_skip() else { return };
    let second = cable.second_pair().unwrap();
    let [near, far] = [cable.near(), cable.far()].map(|end| &end.namespace);
    far.enter(|| set_mtu(second.far.ifindex, EGRESS_MTU_BYTES)).unwrap();
    let [mut ingress, mut egress] = [&cable.near().interface, &second.near.interface].map(|name| open(near, name));
    let ports = [&cable.far().interface, &second.far.interface].map(|name| open(far, name));
    let mut forwarder = Forwarder::new(ports.into(), Io);
    let frames = [1400, 1281, 1280].map(|payload_bytes| {
        let header = [&cable.far().mac[..], &cable.near().mac, &[0x88, 0xb5]].concat();
        [header, vec![7; payload_bytes]].concat()
    });
    assert!(frames.iter().all(|frame| ingress.send(frame).unwrap()));
    let deadline = Instant::now() + Duration::from_secs(5);
    let out = loop {
        forwarder.turn(0).unwrap();
        if let Some(frame) = egress.receive(<[u8]>::to_vec).unwrap() {
            break frame;
        }
        assert!(Instant::now() < deadline, "nothing came out");
    };
    assert_eq!(out, frames[2]);
    assert_eq!(forwarder.drops().iter().collect::<Vec<_>>(), [(DropCause::EgressTooLong, 2)]);
}

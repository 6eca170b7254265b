//! The decision in the kernel against the decision in Rust, packet by packet.

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;

use etherparse::PacketBuilder;
use nearwire_sys::bpf::{Map, Program};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::group::Owners;
use super::program::TOLD;
use super::*;
use crate::interface::InterfaceFacts;
use crate::ports::xdp::{Steer, XdpConfig, XdpMode, XdpPort};
use crate::test_cable::{Cable, NEAR, cable_or_skip};
use crate::xdp::redirect::{XDP_DROP, XDP_PASS, XDP_REDIRECT};
use crate::xdp::stamps::{DeviceClock, RECORD_BYTES, Stamps};

/// More than a test run takes: the model knows no port.
const FRAME_MOST_BYTES: u32 = 1 << 16;
/// Shares of the table: no power of two, which would be another program.
const SHARES: u32 = 200;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const GROUP_MAC: [u8; 6] = [1, 0, 0x5e, 1, 2, 3];
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x42);

/// A table, the program that looks at it, and a socket to redirect to.
struct Bench {
    table: SteeringTable,
    program: Program,
    /// The same decision, with times in front of what is taken.
    stamping: Program,
    /// The same decision, told and not acted on.
    telling: Program,
    ifindex: u32,
    port: XdpPort,
    sockets: Map,
    cable: Cable,
}

impl Bench {
    fn or_skip() -> Option<Bench> {
        let cable = cable_or_skip()?;
        let (table, [program, stamping, telling], ifindex, port, sockets) = cable.near(|| {
            let ifindex = InterfaceFacts::read(NEAR).unwrap().ifindex;
            let table = SteeringTable::new(NEAR, FRAME_MOST_BYTES, SHARES).unwrap();
            let sockets = Map::xskmap("test", 2 * SHARES).unwrap();
            // The port's own program is another one; only its socket is wanted.
            let port = XdpPort::open(&XdpConfig::new(NEAR, XdpMode::Generic, Steer::Filters)).unwrap();
            sockets.set_socket(0, port.socket_of_queue(0).unwrap()).unwrap();
            let stamps = Stamps { mark: NonZeroU64::MAX, device: DeviceClock::Standing(7) };
            let stamping = table.stamped_program(&sockets, Some(stamps));
            let programs = [table.program(&sockets), stamping, table.telling_program()];
            (table, programs.map(Result::unwrap), ifindex, port, sockets)
        });
        Some(Bench { table, program, stamping, telling, ifindex, port, sockets, cable })
    }

    fn remove_all(&self) {
        let set = self.table.filters().unwrap();
        for filter in set.iter() {
            let mut owners = set.owners(filter).cloned();
            while let Some(owner) = owners.as_ref().map(Owners::first) {
                self.table.remove_for(*filter, owner).unwrap();
                owners = owners.and_then(|owners| owners.without(owner));
            }
        }
        assert_eq!(self.table.filters().unwrap().iter().count(), 0);
    }

    /// Who gets the frame on any queue, the same in the kernel and in the model.
    #[track_caller]
    fn verdict(&self, frame: &[u8]) -> Owner {
        let tell = |queue| self.cable.near(|| self.telling.test_run_on(frame, self.ifindex, queue)).unwrap().retval;
        let told = [0, 1].map(tell);
        let owner = told.map(|told| match told {
            XDP_PASS => Owner::Kernel,
            XDP_DROP => Owner::Nobody,
            place => Owner::Share((place - TOLD) % SHARES),
        });
        let model = self.table.filters().unwrap().verdict(frame);
        assert_eq!(owner, [model; 2], "{frame:02x?}");
        assert!(told[0] < TOLD || told[1] == told[0] + SHARES, "{told:?}");
        model
    }

    /// The share that gets the frame; `None`: the kernel does.
    #[track_caller]
    fn share_of(&self, frame: &[u8]) -> Option<u32> {
        match self.verdict(frame) {
            Owner::Share(share) => Some(share),
            Owner::Kernel | Owner::Unheard => None,
            Owner::Nobody => panic!("dropped: {frame:02x?}"),
        }
    }

    /// Whether the kernel takes the frame; the one check that every test makes.
    #[track_caller]
    fn takes(&self, frame: &[u8]) -> bool {
        let run = self.cable.near(|| self.program.test_run_on(frame, self.ifindex, 0)).unwrap();
        assert!([XDP_DROP, XDP_PASS, XDP_REDIRECT].contains(&run.retval), "{}", run.retval);
        assert_eq!(run.data_out, frame, "the frame is as it was");
        let takes = run.retval == XDP_REDIRECT;
        let stamped = self.cable.near(|| self.stamping.test_run_on(frame, self.ifindex, 0)).unwrap();
        let record_bytes = if takes { RECORD_BYTES } else { 0 };
        assert_eq!((stamped.retval, &stamped.data_out[record_bytes..]), (run.retval, frame), "stamping: {frame:02x?}");
        let set = self.table.filters().unwrap();
        let model = set.takes(frame);
        let filters: Vec<String> = set.iter().map(ToString::to_string).collect();
        assert_eq!(takes, model, "kernel {takes}, model {model}: {frame:02x?} with {filters:?}");
        takes
    }
}

fn udp(address: impl Into<IpAddr>, port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Udp, address: address.into(), port })
}

fn tcp(address: impl Into<IpAddr>, port: u16) -> Filter {
    Filter::Flow(FlowFilter { transport: Transport::Tcp, address: address.into(), port })
}

fn exact(transport: Transport, local: (IpAddr, u16), remote: (IpAddr, u16)) -> Filter {
    let ((local, local_port), (remote, remote_port)) = (local, remote);
    Filter::Exact(ExactFlow { transport, local, local_port, remote, remote_port })
}

/// The source that frames to an address have here.
fn source_of(address: IpAddr) -> IpAddr {
    if address.is_ipv4() { SOURCE.into() } else { HOST6.into() }
}

fn udp_v4(to: Ipv4Addr, port: u16) -> Vec<u8> {
    written(PacketBuilder::ethernet2([2; 6], MAC).ipv4(SOURCE.octets(), to.octets(), 64).udp(9999, port))
}

fn udp_v6(to: Ipv6Addr, port: u16) -> Vec<u8> {
    written(PacketBuilder::ethernet2([2; 6], MAC).ipv6(HOST6.octets(), to.octets(), 64).udp(9999, port))
}

fn tcp_v4(to: Ipv4Addr, port: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], MAC).ipv4(SOURCE.octets(), to.octets(), 64);
    let builder = builder.tcp(9999, port, 1, 1000);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"payload").unwrap();
    frame
}

fn tcp_v6(to: Ipv6Addr, port: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], MAC).ipv6(HOST6.octets(), to.octets(), 64);
    let builder = builder.tcp(9999, port, 1, 1000);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"payload").unwrap();
    frame
}

fn written(builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>) -> Vec<u8> {
    let mut frame = Vec::new();
    builder.write(&mut frame, b"payload").unwrap();
    frame
}

/// The same under tags: type, number.
fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(kind, id)| [kind.to_be_bytes(), (0xa000 | id).to_be_bytes()]).flatten();
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}

/// With IPv4 options of `words` words.
fn with_options(frame: &[u8], words: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[14] += words;
    let total = u16::from_be_bytes([frame[16], frame[17]]) + 4 * u16::from(words);
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame.splice(34..34, std::iter::repeat_n(1, 4 * usize::from(words)));
    frame
}

fn patched(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

#[test]
fn no_filter_nothing_is_taken() {
    let Some(bench) = Bench::or_skip() else { return };
    for frame in [udp_v4(HOST, 7000), udp_v6(HOST6, 7000), vec![0xff; 14], vec![0; 1514]] {
        assert!(!bench.takes(&frame));
    }
}

#[test]
fn udp_filter_takes_its_flow_and_leaves_the_rest_to_the_kernel() {
    let Some(bench) = Bench::or_skip() else { return };
    bench.table.add(udp(HOST, 7000)).unwrap();
    let wanted = udp_v4(HOST, 7000);
    let cases: [(&str, Vec<u8>, bool); 20] = [
        ("the flow", wanted.clone(), true),
        ("another port", udp_v4(HOST, 7001), false),
        ("the port with its bytes swapped", udp_v4(HOST, 7000_u16.swap_bytes()), false),
        ("another address", udp_v4(Ipv4Addr::new(10, 0, 0, 3), 7000), false),
        ("TCP to the same port", tcp_v4(HOST, 7000), false),
        ("IPv6 to the same port", udp_v6(HOST6, 7000), false),
        ("one tag", tagged(&wanted, &[(0x8100, 5)]), true),
        ("two tags", tagged(&wanted, &[(0x88a8, 5), (0x8100, 6)]), true),
        ("three tags", tagged(&wanted, &[(0x88a8, 5), (0x8100, 6), (0x8100, 7)]), false),
        ("one word of options", with_options(&wanted, 1), true),
        ("ten words of options", with_options(&wanted, 10), true),
        ("options under two tags", tagged(&with_options(&wanted, 10), &[(0x88a8, 5), (0x8100, 6)]), true),
        ("more fragments", patched(&wanted, 20, &[0x20, 0]), false),
        ("a later fragment", patched(&wanted, 20, &[0, 1]), false),
        ("do not fragment", patched(&wanted, 20, &[0x40, 0]), true),
        ("version 5", patched(&wanted, 14, &[0x55]), false),
        ("a header of 16 bytes", patched(&wanted, 14, &[0x44]), false),
        ("a total length of 27", patched(&wanted, 16, &[0, 27]), false),
        ("a total length beyond the frame", patched(&wanted, 16, &[0, 36]), false),
        ("padding behind the packet", [wanted.clone(), vec![0; 11]].concat(), true),
    ];
    for (name, frame, taken) in cases {
        assert_eq!(bench.takes(&frame), taken, "{name}");
    }
    for len_bytes in 14..wanted.len() {
        assert!(!bench.takes(&wanted[..len_bytes]), "cut to {len_bytes} bytes");
    }
}

#[test]
fn ipv6_filter_takes_its_flow_and_passes_extension_headers() {
    let Some(bench) = Bench::or_skip() else { return };
    bench.table.add(udp(HOST6, 7000)).unwrap();
    bench.table.add(tcp(HOST6, 7001)).unwrap();
    let wanted = udp_v6(HOST6, 7000);
    assert!(bench.takes(&wanted));
    assert!(bench.takes(&tcp_v6(HOST6, 7001)));
    assert!(bench.takes(&tagged(&wanted, &[(0x88a8, 1), (0x8100, 2)])));
    assert!(!bench.takes(&tcp_v6(HOST6, 7000)));
    assert!(!bench.takes(&udp_v6(GROUP6, 7000)));
    assert!(!bench.takes(&patched(&wanted, 14, &[0x50])), "version 5");
    // Hop-by-hop, routing, fragment, ESP, AH, ICMPv6, no next header, destination options, mobility.
    for next_header in [0, 43, 44, 50, 51, 58, 59, 60, 135] {
        assert!(!bench.takes(&patched(&wanted, 20, &[next_header])), "next header {next_header}");
    }
    assert!(!bench.takes(&patched(&wanted, 18, &[0, 7])), "payload shorter than a UDP header");
    assert!(!bench.takes(&patched(&wanted, 18, &[0, 16])), "payload beyond the frame");
    for len_bytes in 14..wanted.len() {
        assert!(!bench.takes(&wanted[..len_bytes]), "cut to {len_bytes} bytes");
    }
}

#[test]
fn wildcards_take_every_address_or_port_of_their_family() {
    let Some(bench) = Bench::or_skip() else { return };
    let frames = [udp_v4(HOST, 7000), udp_v4(GROUP, 7000), udp_v4(HOST, 1), udp_v6(HOST6, 7000), tcp_v4(HOST, 7000)];
    let (any4, any6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let cases = [
        (udp(any4, 7000), [true, true, false, false, false]),
        (udp(any6, 7000), [false, false, false, true, false]),
        (udp(HOST, 0), [true, false, true, false, false]),
        (udp(any4, 0), [true, true, true, false, false]),
        (tcp(any4, 0), [false, false, false, false, true]),
        (udp(GROUP, 7000), [false, true, false, false, false]),
    ];
    for (filter, taken) in cases {
        bench.table.add(filter).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|n| bench.takes(&frames[n])), taken, "{filter}");
        bench.table.remove(filter).unwrap();
        assert!(frames.iter().all(|frame| !bench.takes(frame)), "{filter} removed");
    }
}

#[test]
fn multicast_groups_are_taken_by_address() {
    let Some(bench) = Bench::or_skip() else { return };
    bench.table.add(udp(GROUP, 5000)).unwrap();
    bench.table.add(udp(GROUP6, 0)).unwrap();
    assert!(bench.takes(&patched(&udp_v4(GROUP, 5000), 0, &GROUP_MAC)));
    assert!(!bench.takes(&udp_v4(Ipv4Addr::new(239, 1, 2, 4), 5000)));
    assert!(bench.takes(&udp_v6(GROUP6, 1)) && bench.takes(&udp_v6(GROUP6, 65535)));
}

#[test]
fn frame_filters_match_mac_type_and_vlan_alone_and_together() {
    let Some(bench) = Bench::or_skip() else { return };
    let plain = udp_v4(HOST, 7000);
    let in_vlan = tagged(&plain, &[(0x8100, 5)]);
    let arp = patched(&plain, 12, &[8, 6]);
    let elsewhere = patched(&plain, 0, &GROUP_MAC);
    let none = FrameFilter::default();
    let vlan = |vlan| FrameFilter { vlan: Some(vlan), ..none };
    let cases = [
        (FrameFilter { mac: Some(MAC), ..none }, [true, true, true, false]),
        (FrameFilter { ether_type: Some(0x0800), ..none }, [true, true, false, true]),
        (vlan(VlanMatch::Untagged), [true, false, true, true]),
        (vlan(VlanMatch::Id(5)), [false, true, false, false]),
        (vlan(VlanMatch::Id(6)), [false; 4]),
        (FrameFilter { mac: Some(MAC), ether_type: Some(0x0806), ..none }, [false, false, true, false]),
        (FrameFilter { ether_type: Some(0x0800), ..vlan(VlanMatch::Id(5)) }, [false, true, false, false]),
        (FrameFilter { mac: Some(GROUP_MAC), ..vlan(VlanMatch::Untagged) }, [false, false, false, true]),
        (
            FrameFilter { mac: Some(MAC), ether_type: Some(0x0800), vlan: Some(VlanMatch::Id(5)) },
            [false, true, false, false],
        ),
        (none, [true; 4]),
    ];
    for (filter, taken) in cases {
        let filter = Filter::Frame(filter);
        bench.table.add(filter).unwrap();
        let frames = [&plain, &in_vlan, &arp, &elsewhere];
        assert_eq!(frames.map(|frame| bench.takes(frame)), taken, "{filter}");
        bench.table.remove(filter).unwrap();
    }
}

#[test]
fn queue_without_socket_frames_pass() {
    let Some(bench) = Bench::or_skip() else { return };
    bench.table.add(Filter::Frame(FrameFilter::default())).unwrap();
    let frame = udp_v4(HOST, 7000);
    let run = bench.cable.near(|| bench.program.test_run_on(&frame, bench.ifindex, 1)).unwrap();
    assert_eq!(run.retval, XDP_PASS);
}

#[test]
fn filters_added_twice_or_removed_twice_or_impossible_are_refused_by_cause() {
    let mut set = FilterSet::new();
    set.add(udp(HOST, 7000)).unwrap();
    assert_eq!(set.add(udp(HOST, 7000)), Err(FilterError::Present { filter: udp(HOST, 7000) }));
    set.remove(udp(HOST, 7000)).unwrap();
    assert_eq!(set.remove(udp(HOST, 7000)), Err(FilterError::Missing { filter: udp(HOST, 7000) }));
    for impossible in [
        FrameFilter { ether_type: Some(0x8100), ..FrameFilter::default() },
        FrameFilter { vlan: Some(VlanMatch::Id(4095)), ..FrameFilter::default() },
    ] {
        assert!(matches!(set.add(Filter::Frame(impossible)), Err(FilterError::Impossible { .. })));
    }
    assert_eq!(set.iter().count(), 0);
}

/// Filters and frames draw from few values, so that they often meet.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let v4 = [HOST, GROUP, Ipv4Addr::UNSPECIFIED].map(IpAddr::from);
    let v6 = [HOST6, GROUP6, Ipv6Addr::UNSPECIFIED].map(IpAddr::from);
    proptest::sample::select([v4, v6].concat())
}

fn ports() -> impl Strategy<Value = u16> {
    proptest::sample::select(vec![0, 7000, 7001, 0x581b])
}

fn macs() -> impl Strategy<Value = [u8; 6]> {
    proptest::sample::select(vec![MAC, GROUP_MAC, [0; 6]])
}

fn filters() -> impl Strategy<Value = Filter> {
    let transports = proptest::sample::select(vec![Transport::Udp, Transport::Tcp]);
    let flow = (transports, addresses(), ports())
        .prop_map(|(transport, address, port)| Filter::Flow(FlowFilter { transport, address, port }));
    let ether_types = proptest::sample::select(vec![0x0800, 0x86dd, 0x0806, 0]);
    let vlans = proptest::sample::select(vec![VlanMatch::Untagged, VlanMatch::Id(0), VlanMatch::Id(5)]);
    let parts = (proptest::option::of(macs()), proptest::option::of(ether_types), proptest::option::of(vlans));
    let frame = parts.prop_filter_map("a part", |(mac, ether_type, vlan)| {
        let filter = FrameFilter { mac, ether_type, vlan };
        (filter != FrameFilter::default()).then_some(Filter::Frame(filter))
    });
    prop_oneof![4 => flow, 2 => exact_flows(), 1 => frame]
}

/// Of the sources that frames have, mostly.
fn exact_flows() -> impl Strategy<Value = Filter> {
    let transports = proptest::sample::select(vec![Transport::Udp, Transport::Tcp]);
    let remote_ports = proptest::sample::select(vec![9999, 9999, 9999, 0x0f27]);
    (transports, addresses(), ports(), remote_ports).prop_map(|(transport, address, port, remote_port)| {
        exact(transport, (address, port), (source_of(address), remote_port))
    })
}

/// Whole packets, tagged, with options, cut, lengthened and with bytes changed; and noise.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let packet = (addresses(), ports(), any::<bool>(), macs()).prop_map(|(address, port, is_udp, mac)| {
        let frame = match (address, is_udp) {
            (IpAddr::V4(address), true) => udp_v4(address, port),
            (IpAddr::V4(address), false) => tcp_v4(address, port),
            (IpAddr::V6(address), true) => udp_v6(address, port),
            (IpAddr::V6(address), false) => tcp_v6(address, port),
        };
        patched(&frame, 0, &mac)
    });
    let with_options =
        (packet, 0..=10_u8).prop_map(|(frame, words)| if frame[12] == 8 { with_options(&frame, words) } else { frame });
    let kinds = proptest::sample::select(vec![0x8100_u16, 0x88a8]);
    let ids = proptest::sample::select(vec![0_u16, 5, 6, 0xfff]);
    let tags = proptest::collection::vec((kinds, ids), 0..=3);
    let whole = (with_options, tags).prop_map(|(frame, tags)| tagged(&frame, &tags));
    // Headers are in the first bytes, so changes are made there.
    let changes = proptest::collection::vec((0..70_usize, any::<u8>()), 0..=2);
    let mutated = (whole, changes, -40..=40_isize).prop_map(|(mut frame, changes, longer)| {
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        let len_bytes = if longer > 20 { frame.len() } else { frame.len().saturating_add_signed(longer) };
        frame.resize(len_bytes.max(14), 0);
        frame
    });
    let noise = proptest::collection::vec(any::<u8>(), 14..200);
    prop_oneof![9 => mutated, 1 => noise]
}

#[test]
fn random_and_mutated_packets_kernel_and_model_decide_alike() {
    let Some(bench) = Bench::or_skip() else { return };
    let cases = (proptest::collection::hash_set(filters(), 1..24), proptest::collection::vec(frames(), 40));
    let taken = std::cell::Cell::new(0);
    TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(200) })
        .run(&cases, |(filters, frames)| {
            bench.remove_all();
            for filter in &filters {
                bench.table.add(*filter).unwrap();
            }
            let now = frames.iter().filter(|frame| bench.takes(frame)).count();
            taken.set(taken.get() + now);
            Ok(())
        })
        .unwrap();
    // The frames are such that both outcomes are common.
    assert!((1000..7000).contains(&taken.get()), "{} of 8000 frames were taken", taken.get());
}

/// From other sources, behind the tags and options that the frame has.
fn from_source(frame: &[u8], address: u32, port: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let mut packet_at = 14;
    while packet_at < frame.len() && matches!(frame[packet_at - 2..packet_at], [0x81, 0] | [0x88, 0xa8]) {
        packet_at += 4;
    }
    let (address_at, port_at) = match frame.get(packet_at).map(|first| (first >> 4, usize::from(first & 0xf))) {
        Some((4, words)) => (packet_at + 12, packet_at + 4 * words),
        _ => (packet_at + 20, packet_at + 40),
    };
    for (at, bytes) in [(address_at, address.to_be_bytes().as_slice()), (port_at, &port.to_be_bytes())] {
        if let Some(place) = frame.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    frame
}

/// What may happen to the owners of a filter.
#[derive(Debug, Clone, Copy)]
enum Change {
    Join(Owner),
    Leave(Owner),
    Move(Owner, Owner),
}

fn owners() -> impl Strategy<Value = Owner> {
    let shares = [0, 1, 2, 64, 128, SHARES - 1].map(Owner::Share);
    proptest::sample::select([&shares[..], &[Owner::Kernel, Owner::Nobody, Owner::Unheard]].concat())
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => owners().prop_map(Change::Join),
        1 => owners().prop_map(Change::Leave),
        1 => (owners(), owners()).prop_map(|(from, to)| Change::Move(from, to)),
    ]
}

#[test]
fn filters_of_random_owners_kernel_and_model_decide_alike() {
    let Some(bench) = Bench::or_skip() else { return };
    let changes = proptest::collection::vec((0..8_usize, changes()), 8..40);
    let sources = (any::<u32>(), any::<u16>(), any::<bool>());
    let frames = (frames(), sources).prop_map(|(frame, (address, port, is_other))| match is_other {
        true => from_source(&frame, address, port),
        false => frame,
    });
    let filters = proptest::collection::vec(filters(), 8);
    let cases = (filters, changes, proptest::collection::vec(frames, 30));
    let seen = std::cell::RefCell::new(std::collections::BTreeMap::new());
    TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(200) })
        .run(&cases, |(filters, changes, frames)| {
            bench.remove_all();
            for (at, change) in changes {
                let filter = filters[at];
                // Refused where the owner is there already, or is not: as the model says.
                let _ = match change {
                    Change::Join(owner) => bench.table.add_for(filter, owner),
                    Change::Leave(owner) => bench.table.remove_for(filter, owner),
                    Change::Move(from, to) => bench.table.move_for(filter, from, to),
                };
            }
            for frame in frames {
                *seen.borrow_mut().entry(bench.verdict(&frame)).or_insert(0) += 1;
            }
            Ok(())
        })
        .unwrap();
    let seen = seen.into_inner();
    assert!(seen.len() == 8 && seen.values().all(|frames| *frames > 50), "{seen:?}");
}

#[test]
fn exact_flow_goes_to_its_owner_whatever_the_bound_one_says() {
    let Some(bench) = Bench::or_skip() else { return };
    let (any4, any6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let cases = [
        (Transport::Udp, IpAddr::from(HOST), udp_v4(HOST, 7000), [udp(HOST, 7000), udp(any4, 7000), udp(HOST, 0)]),
        (Transport::Tcp, HOST.into(), tcp_v4(HOST, 7000), [tcp(HOST, 7000), tcp(any4, 7000), tcp(any4, 0)]),
        (Transport::Udp, HOST6.into(), udp_v6(HOST6, 7000), [udp(HOST6, 7000), udp(any6, 7000), udp(HOST6, 0)]),
        (Transport::Tcp, HOST6.into(), tcp_v6(HOST6, 7000), [tcp(HOST6, 7000), tcp(any6, 7000), tcp(any6, 0)]),
    ];
    for (transport, local, frame, bound) in cases {
        let flow = exact(transport, (local, 7000), (source_of(local), 9999));
        bench.table.add_for(flow, Owner::Share(7)).unwrap();
        assert_eq!(bench.verdict(&frame), Owner::Share(7), "{flow}: no bound flow");
        for bound in bound {
            bench.table.add(bound).unwrap();
            let mut before = Owner::Share(7);
            for owner in [Owner::Kernel, Owner::Nobody, Owner::Share(199), Owner::Share(7)] {
                bench.table.move_for(flow, before, owner).unwrap();
                assert_eq!(bench.verdict(&frame), owner, "{flow} with {bound}");
                assert_eq!(bench.verdict(&tagged(&frame, &[(0x8100, 5)])), owner);
                before = owner;
            }
            let (address, other) = if local.is_ipv4() { (0x0a00_0002, 0x0a00_0003) } else { (1, 2) };
            assert_eq!(bench.verdict(&from_source(&frame, address, 9999)), Owner::Share(7), "its own source");
            assert_eq!(bench.verdict(&from_source(&frame, address, 9998)), Owner::Share(0), "another port");
            assert_eq!(bench.verdict(&from_source(&frame, other, 9999)), Owner::Share(0), "another address");
            bench.table.remove_for(flow, Owner::Share(7)).unwrap();
            assert_eq!(bench.verdict(&frame), Owner::Share(0), "{bound} alone");
            bench.table.add_for(flow, Owner::Share(7)).unwrap();
            bench.table.remove(bound).unwrap();
            assert_eq!(bench.verdict(&frame), Owner::Share(7));
        }
        bench.table.forget(7).unwrap();
        assert_eq!(bench.verdict(&frame), Owner::Kernel);
    }
}

#[test]
fn exact_flow_has_one_owner_and_addresses_of_one_family() {
    let Some(bench) = Bench::or_skip() else { return };
    let flow = exact(Transport::Udp, (HOST.into(), 7000), (SOURCE.into(), 9999));
    bench.table.add_for(flow, Owner::Kernel).unwrap();
    let refused = refusal(bench.table.add_for(flow, Owner::Share(1)));
    assert!(
        refused.contains("the filter udp 10.0.0.1 port 7000 from 10.0.0.2 port 9999 is there already"),
        "{refused}"
    );
    assert!(refusal(bench.table.remove(flow)).contains("is not there"));
    let mixed = exact(Transport::Udp, (HOST.into(), 7000), (HOST6.into(), 9999));
    assert!(refusal(bench.table.add(mixed)).contains("two families"));
}

#[test]
fn bound_flow_can_be_the_kernels_or_nobodys() {
    let Some(bench) = Bench::or_skip() else { return };
    let wildcard = udp(Ipv4Addr::UNSPECIFIED, 7000);
    bench.table.add(wildcard).unwrap();
    let frames = [udp_v4(HOST, 7000), udp_v4(GROUP, 7000)];
    let verdicts = || frames.each_ref().map(|frame| bench.verdict(frame));
    for owner in [Owner::Kernel, Owner::Nobody] {
        bench.table.add_for(udp(HOST, 7000), owner).unwrap();
        assert_eq!(verdicts(), [owner, Owner::Share(0)]);
        bench.table.remove_for(udp(HOST, 7000), owner).unwrap();
    }
    bench.table.add_for(udp(GROUP, 0), Owner::Nobody).unwrap();
    assert_eq!(verdicts(), [Owner::Share(0), Owner::Nobody], "an address goes before a port");
    bench.table.move_to(wildcard, Owner::Kernel).unwrap();
    assert_eq!(verdicts(), [Owner::Kernel, Owner::Nobody]);
}

/// The owner of each of many sources of one flow.
fn owners_of_sources(bench: &Bench, frame: &[u8]) -> Vec<Owner> {
    (40_000..40_400).map(|port| bench.verdict(&from_source(frame, 0x0a00_0002, port))).collect()
}

#[test]
fn owner_that_joins_or_leaves_moves_its_own_flows_and_no_others() {
    let Some(bench) = Bench::or_skip() else { return };
    let any = Ipv4Addr::UNSPECIFIED;
    for (filter, frame) in [
        (udp(HOST, 7000), udp_v4(HOST, 7000)),
        (udp(any, 7000), udp_v4(HOST, 7000)),
        (udp(HOST6, 7000), udp_v6(HOST6, 7000)),
    ] {
        bench.table.add(filter).unwrap();
        let mut before = owners_of_sources(&bench, &frame);
        for count in 2..6 {
            let joining = Owner::Share(count);
            bench.table.add_for(filter, joining).unwrap();
            let after = owners_of_sources(&bench, &frame);
            let moved: Vec<_> =
                before.iter().zip(&after).filter(|(old, new)| old != new).map(|(_, new)| *new).collect();
            assert!(moved.iter().all(|owner| *owner == joining), "{moved:?}");
            let fair = 400 / count as usize;
            assert!((fair / 2..fair * 2).contains(&moved.len()), "{} of 400 to the one of {count}", moved.len());
            before = after;
        }
        for leaving in [3, 0, 5, 2].map(Owner::Share) {
            bench.table.remove_for(filter, leaving).unwrap();
            let after = owners_of_sources(&bench, &frame);
            for (old, new) in before.iter().zip(&after) {
                assert_eq!(old == new, *old != leaving, "{leaving} left {filter}: {old} -> {new}");
            }
            before = after;
        }
        assert_eq!(before, vec![Owner::Share(4); 400]);
        bench.remove_all();
    }
}

/// Frames come all the while: none is anybody's but the owners', and none is the kernel's.
#[test]
fn owners_change_every_frame_goes_to_one_before_or_after() {
    let Some(bench) = Bench::or_skip() else { return };
    let any = Ipv4Addr::UNSPECIFIED;
    let owners = [0, 9].map(Owner::Share);
    let exact = exact(Transport::Udp, (HOST.into(), 7000), (SOURCE.into(), 9999));
    let others = [udp(GROUP, 7000), tcp(HOST, 7000), udp(any, 7001), udp(GROUP, 0)];
    for filter in [udp(HOST, 7000), udp(any, 7000), exact] {
        bench.table.add(filter).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let changes = std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut changes = 0_u32;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    bench.table.move_for(filter, owners[0], owners[1]).unwrap();
                    bench.table.move_for(filter, owners[1], owners[0]).unwrap();
                    if !matches!(filter, Filter::Exact(_)) {
                        bench.table.add_for(filter, owners[1]).unwrap();
                        bench.table.remove_for(filter, owners[0]).unwrap();
                        bench.table.move_for(filter, owners[1], owners[0]).unwrap();
                    }
                    for other in others {
                        // Of an owner of the flow: see the limits of `steering`.
                        bench.table.add_for(other, owners[1]).unwrap();
                    }
                    others.iter().for_each(|other| bench.table.remove_for(*other, owners[1]).unwrap());
                    changes += 1;
                }
                changes
            });
            let frame = udp_v4(HOST, 7000);
            for _ in 0..20_000 {
                let told = bench.telling.test_run(&frame).unwrap().retval;
                assert!([TOLD, TOLD + 9].contains(&told), "{told:#x} of {filter}");
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            changing.join().unwrap()
        });
        assert!(changes > 10, "{changes}");
        bench.table.remove(filter).unwrap();
    }
}

#[test]
fn filters_with_several_owners_are_limited_and_the_others_stay() {
    let Some(bench) = Bench::or_skip() else { return };
    for port in 1..=513 {
        bench.table.add(udp(HOST, port)).unwrap();
    }
    for port in 1..=512 {
        bench.table.add_for(udp(HOST, port), Owner::Nobody).unwrap();
    }
    let refused = refusal(bench.table.add_for(udp(HOST, 513), Owner::Nobody));
    assert!(refused.contains("512 filters have several already"), "{refused}");
    assert_eq!(owners_of_sources(&bench, &udp_v4(HOST, 513)), vec![Owner::Share(0); 400]);
    assert!(owners_of_sources(&bench, &udp_v4(HOST, 512)).contains(&Owner::Nobody));
}

#[test]
fn flow_filters_of_two_shares_each_gets_its_own_in_all_wrappings() {
    let Some(bench) = Bench::or_skip() else { return };
    let other = bench.table.of_share(5);
    bench.table.add(udp(HOST, 7000)).unwrap();
    other.add(udp(HOST, 7001)).unwrap();
    other.add(udp(HOST6, 7000)).unwrap();
    other.add(tcp(HOST, 7000)).unwrap();
    let (ours, theirs) = (udp_v4(HOST, 7000), udp_v4(HOST, 7001));
    assert_eq!([&ours, &theirs].map(|frame| bench.share_of(frame)), [Some(0), Some(5)]);
    assert_eq!([udp_v6(HOST6, 7000), tcp_v4(HOST, 7000)].map(|frame| bench.share_of(&frame)), [Some(5); 2]);
    let in_tags = tagged(&with_options(&theirs, 3), &[(0x88a8, 5), (0x8100, 6)]);
    assert_eq!(bench.share_of(&in_tags), Some(5));
    assert_eq!(bench.share_of(&patched(&theirs, 20, &[0x20, 0])), None, "a fragment");
    assert_eq!(bench.share_of(&udp_v4(HOST, 7002)), None);
    other.add(Filter::Frame(FrameFilter::default())).unwrap();
    assert_eq!(bench.share_of(&ours), Some(5), "a frame filter comes first");
}

#[test]
fn packet_to_no_address_or_port_goes_by_the_most_exact_filter_all_the_same() {
    let Some(bench) = Bench::or_skip() else { return };
    let any = Ipv6Addr::UNSPECIFIED;
    for (share, filter) in (0..).zip([udp(any, 0), udp(any, 7000), udp(HOST6, 0), udp(HOST6, 7000)]) {
        bench.table.of_share(share).add(filter).unwrap();
    }
    let frames = [udp_v6(any, 0), udp_v6(any, 7000), udp_v6(HOST6, 0), udp_v6(HOST6, 7000)];
    assert_eq!(frames.each_ref().map(|frame| bench.share_of(frame)), [0, 1, 2, 3].map(Some));
}

#[test]
fn filter_of_several_shares_each_flow_stays_and_all_get_some() {
    let Some(bench) = Bench::or_skip() else { return };
    let shares = [0, 3, 6];
    for filter in [udp(HOST, 7000), udp(HOST6, 7000)] {
        for share in shares {
            bench.table.of_share(share).add(filter).unwrap();
        }
    }
    for frame in [udp_v4(HOST, 7000), udp_v6(HOST6, 7000)] {
        let mut flows = std::collections::HashMap::new();
        for port in 40_000..40_120 {
            let frame = from_source(&frame, 0x0a00_0002, port);
            let share = bench.share_of(&frame).unwrap();
            assert_eq!(bench.share_of(&tagged(&frame, &[(0x8100, 5)])), Some(share), "the same under a tag");
            *flows.entry(share).or_insert(0) += 1;
        }
        assert!(shares.iter().all(|share| flows[share] > 20) && flows.len() == 3, "{flows:?}");
    }
}

#[test]
fn filter_moved_or_removed_by_one_share_stays_with_the_others() {
    let Some(bench) = Bench::or_skip() else { return };
    let frames = |filter| match filter {
        Filter::Flow(FlowFilter { address: IpAddr::V6(_), .. }) => udp_v6(HOST6, 7000),
        _ => udp_v4(HOST, 7000),
    };
    let ether_type = Filter::Frame(FrameFilter { ether_type: Some(0x0800), ..FrameFilter::default() });
    let everything = Filter::Frame(FrameFilter::default());
    for filter in [udp(HOST, 7000), udp(HOST6, 7000), udp(Ipv4Addr::UNSPECIFIED, 7000), ether_type, everything] {
        let (first, second) = (&bench.table, bench.table.of_share(1));
        let frame = frames(filter);
        first.add(filter).unwrap();
        assert!(refusal(first.add(filter)).contains("is there already"));
        assert!(refusal(second.remove(filter)).contains("is not there"));
        assert!(refusal(second.move_to(filter, Owner::Share(0))).contains("is not there"));
        assert!(refusal(first.move_to(filter, Owner::Share(SHARES))).contains("0 to 199"));
        first.move_to(filter, Owner::Share(1)).unwrap();
        assert_eq!(bench.share_of(&frame), Some(1), "{filter}");
        assert!(refusal(first.remove(filter)).contains("is not there"));
        first.add(filter).unwrap();
        second.move_to(filter, Owner::Share(0)).unwrap();
        assert_eq!(bench.share_of(&frame), Some(0), "{filter}: it has been there");
        second.add(filter).unwrap();
        first.remove(filter).unwrap();
        assert_eq!(bench.share_of(&frame), Some(1), "{filter}");
        second.pause().unwrap();
        assert!(!takes_now(&bench, &frame));
        first.resume().unwrap();
        assert!(takes_now(&bench, &frame));
        second.withdraw(filter);
        first.restore(filter);
        assert_eq!(bench.share_of(&frame), Some(1), "{filter} restored");
        first.forget(1).unwrap();
        assert!(!bench.takes(&frame), "{filter} forgotten");
    }
}

fn refusal(result: Result<(), crate::PortError>) -> String {
    result.unwrap_err().to_string()
}

/// Not held against the model, which knows no pause.
fn takes_now(bench: &Bench, frame: &[u8]) -> bool {
    bench.cable.near(|| bench.telling.test_run_on(frame, bench.ifindex, 0)).unwrap().retval >= TOLD
}

/// As when a signal handler runs in the middle of a change and makes one itself.
#[test]
fn table_held_by_somebody_who_does_not_go_on_change_is_refused_in_time() {
    let Some(bench) = Bench::or_skip() else { return };
    bench.table.add(udp(HOST, 7000)).unwrap();
    let started = std::time::Instant::now();
    let other = bench.table.of_share(1);
    let refused = bench.table.while_held(|| other.add(udp(HOST, 7001)));
    assert!(refusal(refused).starts_with("add a filter on"));
    assert!((50..2000).contains(&started.elapsed().as_millis()));
    bench.table.while_held(|| other.withdraw(udp(HOST, 7000)));
    assert!(!takes_now(&bench, &udp_v4(HOST, 7000)), "a child of fork waits for nobody");
    other.add(udp(HOST, 7001)).unwrap();
}

#[test]
fn frame_longer_than_buffers_stays_with_the_kernel() {
    let Some(bench) = Bench::or_skip() else { return };
    let short = udp_v4(HOST, 7);
    let mut long = short.clone();
    long.push(0);
    let table = SteeringTable::new(NEAR, short.len() as u32, SHARES).unwrap();
    for filter in [udp(HOST, 7), Filter::Frame(FrameFilter::default())] {
        table.add(filter).unwrap();
        let program = table.program(&bench.sockets).unwrap();
        let decided = |frame: &[u8]| bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap().retval;
        assert_eq!(decided(&short), XDP_REDIRECT, "{filter}");
        assert_eq!(decided(&long), XDP_PASS, "{filter}");
    }
    bench.remove_all();
}

#[test]
fn filter_withdrawn_takes_nothing_though_its_port_has_a_word_and_restored_takes_again() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7);
    bench.table.add(udp(HOST, 7)).unwrap();
    assert!(bench.takes(&frame));
    bench.table.withdraw(udp(HOST, 7));
    // The table still has it, so the model would take it.
    let run = bench.cable.near(|| bench.program.test_run_on(&frame, bench.ifindex, 0)).unwrap();
    assert_eq!(run.retval, XDP_PASS);
    bench.table.restore(udp(HOST, 7));
    assert!(bench.takes(&frame));
    bench.table.withdraw(udp(HOST, 7));
    bench.table.remove(udp(HOST, 7)).unwrap();
    assert!(!bench.takes(&frame));
}

#[test]
fn table_full_the_next_filter_is_refused_and_the_others_stay() {
    const FLOWS: u32 = 1 << 16;
    let Some(bench) = Bench::or_skip() else { return };
    let flow = |number: u32| udp(Ipv4Addr::from(0x0a00_0000 + (number >> 12)), 1 + (number & 0xfff) as u16);
    let started = std::time::Instant::now();
    for number in 0..FLOWS {
        bench.table.add(flow(number)).unwrap();
    }
    println!("{FLOWS} filters: {} ns each", started.elapsed().as_nanos() / u128::from(FLOWS));
    let refused = bench.table.add(flow(FLOWS)).unwrap_err();
    assert!(
        matches!(&refused, crate::PortError::Filter { source: FilterError::Full { most: FLOWS, .. }, .. }),
        "{refused}"
    );
    assert!(!bench.takes(&udp_v4(Ipv4Addr::from(0x0a00_0000 + (FLOWS >> 12)), 1)));
    assert!(refused.to_string().contains("holds 65536"), "{refused}");
    assert!(bench.takes(&udp_v4(Ipv4Addr::from(0x0a00_0000), 1)));
    bench.table.remove(flow(7)).unwrap();
    bench.table.add(flow(FLOWS)).unwrap();
    assert!(bench.takes(&udp_v4(Ipv4Addr::from(0x0a00_0000 + (FLOWS >> 12)), 1)));
    bench.remove_all();
}

#[test]
fn table_full_of_exact_flows_the_next_is_refused_and_the_others_stay() {
    const FLOWS: u32 = 1 << 16;
    let Some(bench) = Bench::or_skip() else { return };
    let flow = |number: u32| {
        exact(
            Transport::Udp,
            (HOST.into(), 7000),
            (Ipv4Addr::from(0x0b00_0000 + number / 1000).into(), (number % 1000) as u16),
        )
    };
    let frame = |number: u32| from_source(&udp_v4(HOST, 7000), 0x0b00_0000 + number / 1000, (number % 1000) as u16);
    bench.table.add(udp(HOST, 7000)).unwrap();
    let started = std::time::Instant::now();
    for number in 0..FLOWS {
        bench.table.add_for(flow(number), Owner::Share(1 + number % 100)).unwrap();
    }
    println!("{FLOWS} exact flows: {} ns each", started.elapsed().as_nanos() / u128::from(FLOWS));
    let refused = refusal(bench.table.add(flow(FLOWS)));
    assert!(refused.contains("holds 65536"), "{refused}");
    for number in [0, 1, 99, 100, 40_000, FLOWS - 1] {
        let told = bench.telling.test_run(&frame(number)).unwrap().retval;
        assert_eq!(told, TOLD + 1 + number % 100);
    }
    assert_eq!(bench.telling.test_run(&frame(FLOWS)).unwrap().retval, TOLD, "the bound flow's");
}

#[test]
fn frames_have_times_from_the_moment_somebody_asks_until_nobody_does() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7000);
    let program = bench.table.ready_program(&bench.sockets, NonZeroU64::MAX).unwrap();
    let length = || {
        let run = bench.cable.near(|| program.test_run_on(&frame, bench.ifindex, 0)).unwrap();
        (run.retval, run.data_out.len() - frame.len())
    };
    bench.table.set_stamped(true).unwrap();
    assert_eq!(length(), (XDP_PASS, 0), "there is no filter");
    bench.table.add(udp(HOST, 7000)).unwrap();
    assert_eq!(length(), (XDP_REDIRECT, RECORD_BYTES));
    bench.table.set_stamped(false).unwrap();
    assert_eq!(length(), (XDP_REDIRECT, 0));
    bench.table.set_stamped(true).unwrap();
    assert_eq!(length(), (XDP_REDIRECT, RECORD_BYTES));
    bench.table.pause().unwrap();
    assert_eq!(length(), (XDP_PASS, 0));
    bench.table.resume().unwrap();
    assert_eq!(length(), (XDP_REDIRECT, RECORD_BYTES));
    bench.remove_all();
}

/// `cargo test -p nearwire-frames --lib times_cost -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn times_cost_of_a_frame() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7000);
    bench.table.add(udp(HOST, 7000)).unwrap();
    let ready = bench.table.ready_program(&bench.sockets, NonZeroU64::MAX).unwrap();
    let mean_ns = |program: &Program| {
        let run = bench.cable.near(|| program.test_run_repeated(&frame, bench.ifindex, 0, 1_000_000));
        run.unwrap().duration_ns
    };
    for round in 0..8 {
        println!("round {round}: never, when asked: {:?} ns", [&bench.program, &ready].map(mean_ns));
    }
    bench.remove_all();
}

/// A table of credits for queue 0, and the program by it.
fn with_credits(bench: &Bench, counting: Counting) -> (SteeringTable, Program) {
    let table = SteeringTable::with_credits(NEAR, FRAME_MOST_BYTES, SHARES, 1, counting).unwrap();
    table.add(udp(HOST, 7000)).unwrap();
    let program = table.program(&bench.sockets).unwrap();
    (table, program)
}

#[test]
fn frames_without_room_and_all_behind_them_are_the_kernels_until_the_reader_has_settled() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7000);
    for counting in [Counting::OneCpu, Counting::SeveralCpus] {
        let (table, program) = with_credits(&bench, counting);
        let words = table.credit_words().unwrap().unwrap();
        let taken = |frames: usize| {
            let decide = |_| bench.cable.near(|| program.test_run_on(&frame, bench.ifindex, 0)).unwrap().retval;
            (0..frames).map(decide).filter(|action| *action == XDP_REDIRECT).count()
        };
        assert_eq!(taken(2), 0, "{counting:?}: nobody has room");
        let mut credit = Credit::open(&words, 0, 8).unwrap();
        assert!(!credit.is_overflowing());
        assert_eq!((taken(8), credit.is_overflowing()), (8, false));
        assert_eq!((taken(3), credit.is_overflowing()), (0, true));
        credit.give_back(8);
        assert_eq!(taken(1), 0, "there is room, and frames before are the kernel's");
        assert_eq!(credit.begin_settling(), 4);
        assert_eq!(taken(1), 0);
        credit.settle(0);
        assert_eq!((taken(1), credit.is_overflowing()), (0, true), "one came between");
        assert_eq!(credit.begin_settling(), 2);
        credit.settle(3);
        assert_eq!((taken(9), credit.is_overflowing()), (5, true), "three are with the reader still");
        assert_eq!(credit.passed(), 2 + 6 + 4);
        assert!(Credit::open(&words, SHARES, 8).is_none(), "a place that there is not");
    }
}

#[test]
fn icmp_is_the_kernels_and_its_errors_are_counted_for_readers() {
    let Some(bench) = Bench::or_skip() else { return };
    let v4 = || PacketBuilder::ethernet2([2; 6], MAC).ipv4(SOURCE.octets(), HOST.octets(), 64);
    let v6 = || PacketBuilder::ethernet2([2; 6], MAC).ipv6(GROUP6.octets(), HOST6.octets(), 64);
    let [mut echo_v4, mut echo_v6, mut error_v4, mut error_v6] = [const { Vec::<u8>::new() }; 4];
    v4().icmpv4_echo_request(1, 1).write(&mut echo_v4, b"ping").unwrap();
    v6().icmpv6_echo_request(1, 1).write(&mut echo_v6, b"ping").unwrap();
    v4().icmpv4_raw(3, 3, [0; 4]).write(&mut error_v4, &[0; 28]).unwrap();
    v6().icmpv6_raw(1, 4, [0; 4]).write(&mut error_v6, &[0; 48]).unwrap();
    let with_options = with_options(&error_v4, 2);
    let cases = [
        ("unreachable", error_v4.clone(), 1),
        ("unreachable, IPv6", error_v6.clone(), 1),
        ("tagged", tagged(&error_v4, &[(0x8100, 5)]), 1),
        ("with options", with_options.clone(), 1),
        ("with options, cut before its type", with_options[..14 + 28].to_vec(), 0),
        ("echo", echo_v4.clone(), 0),
        ("echo reply", patched(&echo_v4, 34, &[0]), 0),
        ("echo, IPv6", echo_v6, 0),
        ("neighbour solicitation", patched(&error_v6, 54, &[135]), 0),
        ("the other version's number", patched(&error_v4, 23, &[58]), 0),
        ("another protocol", patched(&error_v4, 23, &[47]), 0),
        ("a datagram", udp_v4(HOST, 7000), 0),
        ("nobody's datagram", udp_v4(HOST, 7001), 0),
    ];
    for counting in [Counting::OneCpu, Counting::SeveralCpus] {
        let (table, program) = with_credits(&bench, counting);
        let words = table.credit_words().unwrap().unwrap();
        let mut credit = Credit::open(&words, 0, 8).unwrap();
        for (name, frame, counted) in &cases {
            let before = words.errors();
            let run = bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap();
            let wanted = if *name == "a datagram" { XDP_REDIRECT } else { XDP_PASS };
            assert_eq!((run.retval, words.errors() - before), (wanted, *counted), "{counting:?}: {name}");
        }
        assert_eq!(credit.begin_settling(), 0, "{counting:?}");
    }
}

/// A datagram to port 7000 in a frame of this length.
fn long_frame(frame_bytes: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], MAC).ipv4(SOURCE.octets(), HOST.octets(), 64).udp(9999, 7000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0x5a; frame_bytes - 42]).unwrap();
    frame
}

/// The same over IPv6.
fn long_frame_v6(frame_bytes: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], MAC).ipv6(GROUP6.octets(), HOST6.octets(), 64).udp(9999, 7000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0x5a; frame_bytes - 62]).unwrap();
    frame
}

#[test]
fn frame_in_several_buffers_is_judged_by_its_whole_length_and_counted_by_buffers() {
    const ROOM: u32 = 6;
    let Some(bench) = Bench::or_skip() else { return };
    let capacity = Capacity { frame_most_bytes: 3 * 3840, buffer_bytes: Some(3840), in_pieces: true };
    for counting in [Counting::OneCpu, Counting::SeveralCpus] {
        let table = SteeringTable::with_credits(NEAR, capacity, SHARES, 1, counting).unwrap();
        table.add(udp(HOST, 7000)).unwrap();
        let program = table.program(&bench.sockets).unwrap();
        let decided = |frame: &[u8]| bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap().retval;
        let mut credit = Credit::open(&table.credit_words().unwrap().unwrap(), 0, ROOM).unwrap();
        for (frame_bytes, buffers) in [(60, 1), (3840, 1), (3841, 2), (7680, 2), (7681, 3), (11_520, 3)] {
            let frame = long_frame(frame_bytes);
            for tags in [&[][..], &[(0x8100, 5)]] {
                let cut = tagged(&frame[..frame_bytes - 1], tags);
                assert_eq!(decided(&cut), XDP_PASS, "the packet is longer than its frame");
                assert_eq!(credit.begin_settling(), 0);
            }
            for _ in 0..ROOM / buffers {
                assert_eq!(decided(&frame), XDP_REDIRECT, "{frame_bytes} bytes");
            }
            assert_eq!(decided(&frame), XDP_PASS, "{frame_bytes} bytes: there is room for {ROOM} buffers");
            assert_eq!(credit.begin_settling(), 1);
            credit.settle(0);
        }
        assert_eq!(decided(&tagged(&long_frame(7676), &[(0x8100, 5)])), XDP_REDIRECT);
        assert_eq!(decided(&long_frame(11_521)), XDP_PASS, "longer than the port holds");
        assert!(!credit.is_overflowing());
    }
}

#[test]
fn packet_beyond_the_mtu_in_generic_mode_is_a_bundle_and_the_kernels_with_all_behind_it() {
    let Some(bench) = Bench::or_skip() else { return };
    let wide = Capacity { frame_most_bytes: 4 * 3840, buffer_bytes: Some(3840), in_pieces: true };
    for capacity in [Capacity::from(2000), wide] {
        let table = SteeringTable::with_credits(NEAR, capacity, SHARES, 1, Counting::SeveralCpus).unwrap();
        table.add(udp(HOST, 7000)).unwrap();
        table.add(udp(HOST6, 7000)).unwrap();
        let program = table.program(&bench.sockets).unwrap();
        let decided = |frame: &[u8]| bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap().retval;
        let mut credit = Credit::open(&table.credit_words().unwrap().unwrap(), 0, 100).unwrap();
        assert_eq!(decided(&long_frame(1800)), XDP_REDIRECT, "no MTU is known");
        credit.set_longest(1500);
        let tagged_twice = tagged(&long_frame(14 + 1500), &[(0x88a8, 5), (0x8100, 6)]);
        assert_eq!([decided(&long_frame(14 + 1500)), decided(&tagged_twice)], [XDP_REDIRECT; 2]);
        for (packet_bytes, datagrams) in [(1501, 2), (3000, 2), (3001, 3)] {
            for frame in [long_frame(14 + packet_bytes), long_frame_v6(14 + packet_bytes)] {
                assert_eq!(decided(&frame), XDP_PASS, "{packet_bytes} bytes");
                assert_eq!(decided(&long_frame(60)), XDP_PASS, "behind {packet_bytes} bytes");
                assert_eq!(credit.begin_settling(), datagrams + 1, "{packet_bytes} bytes");
                credit.settle(0);
                assert_eq!(decided(&long_frame(60)), XDP_REDIRECT);
            }
        }
    }
}

/// A segment to port 7000 in a frame of this length.
fn long_segment(frame_bytes: usize) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2([2; 6], MAC).ipv4(SOURCE.octets(), HOST.octets(), 64).tcp(9999, 7000, 1, 1000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0x5a; frame_bytes - 54]).unwrap();
    frame
}

#[test]
fn segment_of_tcp_without_room_is_dropped_and_what_comes_behind_it_is_not() {
    let Some(bench) = Bench::or_skip() else { return };
    let segment = tcp_v4(HOST, 7000);
    for counting in [Counting::OneCpu, Counting::SeveralCpus] {
        let (table, program) = with_credits(&bench, counting);
        table.add(tcp(HOST, 7000)).unwrap();
        let decided = |frame: &[u8]| bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap().retval;
        let mut credit = Credit::open(&table.credit_words().unwrap().unwrap(), 0, 8).unwrap();
        (0..8).for_each(|_| assert_eq!(decided(&segment), XDP_REDIRECT));
        (0..3).for_each(|_| assert_eq!(decided(&segment), XDP_DROP));
        assert_eq!((credit.dropped(), credit.passed(), credit.is_overflowing()), (3, 0, false), "{counting:?}");
        credit.give_back(4);
        assert_eq!([&udp_v4(HOST, 7000), &segment].map(|frame| decided(frame)), [XDP_REDIRECT; 2], "nobody settled");
        // Two of those that were redirected never come.
        (0..64).for_each(|_| credit.find_lost(4));
        assert_eq!([(); 4].map(|()| decided(&segment)), [XDP_REDIRECT; 4], "{counting:?}");
        assert_eq!((decided(&segment), credit.dropped()), (XDP_DROP, 4));
        assert_eq!(decided(&udp_v4(HOST, 7000)), XDP_PASS);
        credit.give_back(8);
        assert_eq!((decided(&segment), credit.dropped()), (XDP_DROP, 5), "the kernel has a datagram that comes first");
        let next = Credit::open(&table.credit_words().unwrap().unwrap(), 0, 8).unwrap();
        assert_eq!((next.dropped(), next.too_long()), (0, 0), "another reader's");
    }
}

#[test]
fn bundle_of_tcp_is_one_long_segment_or_dropped_and_counted() {
    let Some(bench) = Bench::or_skip() else { return };
    let long = Capacity { frame_most_bytes: 20 * 1000, buffer_bytes: Some(1000), in_pieces: true };
    let in_one = Capacity { in_pieces: false, ..long };
    for (capacity, wanted) in [(long, XDP_REDIRECT), (in_one, XDP_REDIRECT), (Capacity::from(2000), XDP_DROP)] {
        let table = SteeringTable::with_credits(NEAR, capacity, SHARES, 1, Counting::SeveralCpus).unwrap();
        table.add(tcp(HOST, 7000)).unwrap();
        let program = table.program(&bench.sockets).unwrap();
        let decided = |frame: &[u8]| bench.cable.near(|| program.test_run_on(frame, bench.ifindex, 0)).unwrap().retval;
        let credit = Credit::open(&table.credit_words().unwrap().unwrap(), 0, 5).unwrap();
        credit.set_longest(1500);
        assert_eq!(decided(&long_segment(3000)), wanted);
        assert_eq!(decided(&long_segment(1514)), XDP_REDIRECT, "behind it");
        let is_held = wanted == XDP_REDIRECT;
        assert_eq!((credit.too_long(), credit.is_overflowing()), (u64::from(!is_held), false));
        if is_held {
            assert_eq!(decided(&long_segment(1514)), XDP_DROP, "all five buffers are taken");
        }
    }
}

#[test]
fn buffers_given_back_one_by_one_there_is_always_room() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7000);
    let (table, program) = with_credits(&bench, Counting::OneCpu);
    for room in [1, 2, 3, 8, 100] {
        let mut credit = Credit::open(&table.credit_words().unwrap().unwrap(), 0, room).unwrap();
        for number in 0..300 {
            let run = bench.cable.near(|| program.test_run_on(&frame, bench.ifindex, 0)).unwrap();
            assert_eq!(run.retval, XDP_REDIRECT, "frame {number}, room {room}");
            credit.give_back(1);
        }
    }
}

/// `cargo test -p nearwire-frames --lib credits_cost -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn credits_cost_of_a_frame() {
    let Some(bench) = Bench::or_skip() else { return };
    let frame = udp_v4(HOST, 7000);
    bench.table.add(udp(HOST, 7000)).unwrap();
    let one = with_credits(&bench, Counting::OneCpu);
    let several = with_credits(&bench, Counting::SeveralCpus);
    let credits: Vec<_> = [&one, &several]
        .map(|(table, _)| Credit::open(&table.credit_words().unwrap().unwrap(), 0, u32::MAX).unwrap())
        .into();
    for round in 0..5 {
        let mean_ns = [&bench.program, &one.1, &several.1]
            .map(|program| bench.cable.near(|| program.test_run_repeated(&frame, bench.ifindex, 0, 1_000_000)))
            .map(|run| run.unwrap().duration_ns);
        println!("round {round}: without, by one CPU, by several: {mean_ns:?} ns");
    }
    assert!(credits.iter().all(|credit| !credit.is_overflowing()));
}

/// `cargo test -p nearwire-frames --lib verdict_cost -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn verdict_cost_of_a_frame() {
    const REPEATS: u32 = 1_000_000;
    let Some(bench) = Bench::or_skip() else { return };
    let port = &bench.port;
    (0..4).for_each(|place| bench.sockets.set_socket(place, port.socket_of_queue(0).unwrap()).unwrap());
    let (any4, any6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let (v4, v6) = (udp_v4(HOST, 7000), udp_v6(HOST6, 7000));
    let measure = |name: &str, filters: &[(Filter, u32)], frame: &[u8]| {
        let table = SteeringTable::new(NEAR, FRAME_MOST_BYTES, SHARES).unwrap();
        for (filter, share) in filters {
            table.of_share(*share).add(*filter).unwrap();
        }
        let program = table.program(&bench.sockets).unwrap();
        let run = bench.cable.near(|| program.test_run_repeated(frame, bench.ifindex, 0, REPEATS)).unwrap();
        println!("cost\t{name}\t{}", run.duration_ns);
    };
    let group = |filter| [0, 1, 2, 3].map(|share| (filter, share));
    measure("bound v4", &[(udp(HOST, 7000), 0)], &v4);
    measure("bound v4, two addresses", &[(udp(HOST, 7000), 0), (udp(GROUP, 7000), 0)], &v4);
    measure("wildcard v4", &[(udp(any4, 7000), 0)], &v4);
    measure("wildcards v4 and v6, v4", &[(udp(any4, 7000), 0), (udp(any6, 7000), 0)], &v4);
    measure("no match v4", &[(udp(HOST, 7001), 0)], &v4);
    measure("no match v4, wildcard", &[(udp(any4, 7001), 0)], &v4);
    measure("group of 4, v4", &group(udp(HOST, 7000)), &v4);
    measure("bound v6", &[(udp(HOST6, 7000), 0)], &v6);
    measure("wildcard v6", &[(udp(any6, 7000), 0)], &v6);
    measure("no match v6", &[(udp(HOST6, 7001), 0)], &v6);
    measure("group of 4, v6", &group(udp(HOST6, 7000)), &v6);
    let (bound4, bound6) = ((udp(HOST, 7000), 0), (udp(HOST6, 7000), 0));
    let remote = |local: IpAddr, port| (exact(Transport::Udp, (local, 7000), (source_of(local), port)), 1);
    measure("exact v4", &[bound4, remote(HOST.into(), 9999)], &v4);
    measure("exact v6", &[bound6, remote(HOST6.into(), 9999)], &v6);
    measure("bound v4 beside another's exact", &[bound4, remote(HOST.into(), 9998)], &v4);
    measure("bound v6 beside another's exact", &[bound6, remote(HOST6.into(), 9998)], &v6);
    let many = |local: IpAddr| (0..10_000).map(|port| remote(local, port)).collect::<Vec<_>>();
    measure("one of 10 000 exact, v4", &many(HOST.into()), &v4);
    measure("one of 10 000 exact, v6", &many(HOST6.into()), &v6);
}

#[test]
fn exact_flow_given_to_the_kernel_until_a_frame_comes_hears_its_own_frames_alone_and_then_goes_to_a_share() {
    let Some(bench) = Bench::or_skip() else { return };
    for (local, frame, other) in [
        (IpAddr::from(HOST), tcp_v4(HOST, 7000), tcp_v4(HOST, 7001)),
        (IpAddr::from(HOST6), tcp_v6(HOST6, 7000), tcp_v6(HOST6, 7001)),
    ] {
        let flow = exact(Transport::Tcp, (local, 7000), (source_of(local), 9999));
        let Filter::Exact(exact_flow) = flow else { unreachable!() };
        assert!(matches!(bench.table.has_heard(exact_flow), Err(crate::PortError::Filter { .. })), "not there");
        bench.table.add_for(flow, Owner::Unheard).unwrap();
        bench.verdict(&other);
        assert!(!bench.table.has_heard(exact_flow).unwrap());
        for _ in 0..2 {
            assert_eq!(bench.verdict(&frame), Owner::Kernel);
            assert!(bench.table.has_heard(exact_flow).unwrap());
        }
        bench.table.move_for(flow, Owner::Unheard, Owner::Share(3)).unwrap();
        assert_eq!(bench.verdict(&frame), Owner::Share(3));
        assert!(matches!(bench.table.has_heard(exact_flow), Err(crate::PortError::Filter { .. })), "a share's");
        bench.table.remove_for(flow, Owner::Share(3)).unwrap();
    }
}

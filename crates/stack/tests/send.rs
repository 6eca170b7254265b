//! What frames are made, and when the kernel has to send instead. Every frame is read by etherparse too.

mod common;

use std::net::{IpAddr, Ipv4Addr};

use common::{Host, IFINDEX, at, host, host_with, mac, neighbour, pair, v4, v6};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nearwire_stack::{
    Family, FamilyOptions, FrameChecksum, Link, Message, MulticastInterface, NeedsKernel, NeighbourState, Offers, Path,
    PathMtuDiscovery, ReceiveChecksum, Route, SourceFilter, StackConfig, UdpOptions, Update, Verdict,
};
use nearwire_wire::udp;
use proptest::prelude::*;

const IP: usize = 14;

fn any4() -> IpAddr {
    Ipv4Addr::UNSPECIFIED.into()
}

/// etherparse's reading of a frame: (ttl, tos, identification, do not fragment) and the payload. Checks both checksums.
fn oracle(frame: &[u8]) -> (u8, u8, u16, bool, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).expect("etherparse reads it");
    let Some(TransportSlice::Udp(datagram)) = packet.transport else { panic!("UDP") };
    let header = datagram.to_header();
    match packet.net.expect("IP") {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header();
            assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
            if header.checksum != 0 {
                let sum = header.calc_checksum_ipv4_raw(ip.source(), ip.destination(), datagram.payload());
                assert_eq!(sum.expect("short"), header.checksum);
            }
            let tos = ip.dcp().value() << 2 | ip.ecn().value();
            (ip.ttl(), tos, ip.identification(), ip.dont_fragment(), datagram.payload().to_vec())
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header();
            let sum = header.calc_checksum_ipv6_raw(ip.source(), ip.destination(), datagram.payload());
            assert_eq!(sum.expect("short"), header.checksum);
            assert_eq!(ip.flow_label().value(), 0);
            (ip.hop_limit(), ip.traffic_class(), 0, true, datagram.payload().to_vec())
        }
        NetSlice::Arp(_) => panic!("IP"),
    }
}

fn configured(change: impl FnOnce(&mut UdpOptions)) -> (Host, nearwire_stack::EndpointId) {
    let (mut host, _) = pair();
    let id = host.connected(at(v4(1), 7), at(v4(2), 9));
    host.stack.udp_configure(id, change);
    (host, id)
}

/// A router told of an MTU on the way to a destination.
fn narrow(destination: IpAddr, mtu_bytes: u32) -> Update {
    let path = Path { mtu_bytes: Some(mtu_bytes), is_mtu_locked: false };
    Update::Path { ifindex: IFINDEX, destination, path: Some(path) }
}

fn reason(host: &mut Host, id: nearwire_stack::EndpointId, message: &Message<'_>) -> Option<NeedsKernel> {
    host.send(id, message).err()
}

#[test]
fn connected_datagram_sent_has_the_documented_bytes() {
    let (mut host, id) = configured(|_| ());
    let frame = host.send(id, &Message::new(b"abc")).expect("has a way");
    assert_eq!(frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    assert_eq!(frame[IP..IP + 4], [0x45, 0, 0, 31]);
    assert_eq!(frame[IP + 6..IP + 10], [0x40, 0, 64, 17]);
    assert_eq!(frame[IP + 12..IP + 20], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(frame[34..40], [0, 7, 0, 9, 0, 11]);
    assert_eq!(oracle(&frame).4, b"abc");
    let counters = host.stack.statistics();
    assert_eq!((counters.udp(Family::V4).out_datagrams, counters.ip(Family::V4).out_requests), (1, 1));
}

#[test]
fn frame_not_written_or_without_room_was_not_sent() {
    let (mut host, id) = configured(|_| ());
    assert!(host.stack.udp_send(id, &Message::new(b"abc")).is_ok());
    let outgoing = host.stack.udp_send(id, &Message::new(b"abc")).expect("has a way");
    assert_eq!(outgoing.port(), host.port);
    assert_eq!(outgoing.write(&mut [0; 44]), 0);
    assert_eq!(host.stack.statistics().udp(Family::V4).out_datagrams, 0);
}

#[test]
fn options_and_ancillary_data_reach_the_header() {
    let (mut host, id) = configured(|options| {
        options.v4.ttl = Some(9);
        options.v4.tos = 0xb8;
    });
    let sent = oracle(&host.send(id, &Message::new(b"x")).expect("has a way"));
    assert_eq!((sent.0, sent.1), (9, 0xb8));
    let message = Message { ttl: Some(3), tos: Some(0x10), ..Message::new(b"x") };
    let sent = oracle(&host.send(id, &message).expect("has a way"));
    assert_eq!((sent.0, sent.1), (3, 0x10));
    host.stack.udp_configure(id, |options| options.v4.ttl = None);
    let route = Route { hop_limit: Some(33), ..Route::on_link(v4(2), 32, IFINDEX) };
    host.stack.update(Update::NewRoute { route, replaces: false });
    assert_eq!(oracle(&host.send(id, &Message::new(b"x")).expect("has a way")).0, 33);

    let six = host.connected(at(v6(1), 7), at(v6(2), 9));
    let message = Message { ttl: Some(3), tos: Some(0x10), ..Message::new(b"x") };
    let sent = oracle(&host.send(six, &message).expect("has a way"));
    assert_eq!((sent.0, sent.1), (3, 0x10));
}

//= test RFC 1122 3.2.1.7
#[test]
fn time_to_live_of_zero_is_never_sent() {
    let (mut host, id) = configured(|_| ());
    let message = Message { ttl: Some(0), ..Message::new(b"x") };
    assert_eq!(reason(&mut host, id, &message), Some(NeedsKernel::TtlZero));
}

//= test RFC 791 3.1
#[test]
fn header_checksum_is_that_of_each_header() {
    let (mut host, id) = configured(|_| ());
    for n in 0..1000_u16 {
        let payload = vec![n as u8; usize::from(n)];
        let message = Message { ttl: Some(1 + n as u8 % 200), tos: Some(n as u8), ..Message::new(&payload) };
        oracle(&host.send(id, &message).expect("has a way"));
    }
}

//= test RFC 6864 4.1
#[test]
fn path_mtu_discovery_of_each_mode_sets_fragment_bit_identification_and_limit() {
    use PathMtuDiscovery::{Do, Dont, Interface, Omit, Probe, Want};
    for (mode, dont_fragment, obeys_path) in [
        (Dont, false, true),
        (Want, true, true),
        (Do, true, true),
        (Probe, true, false),
        (Interface, false, false),
        (Omit, false, false),
    ] {
        let (mut host, id) = configured(|options| options.v4.path_mtu_discovery = mode);
        host.stack.update(narrow(v4(2), 1000));
        let first = oracle(&host.send(id, &Message::new(&[0; 972])).expect("fits"));
        let second = oracle(&host.send(id, &Message::new(&[0; 972])).expect("fits"));
        assert_eq!(first.3, dont_fragment, "{mode:?}");
        assert_eq!(second.2, first.2.wrapping_add(1), "{mode:?}: an identification of its own");
        let over = reason(&mut host, id, &Message::new(&[0; 973]));
        assert_eq!(over == Some(NeedsKernel::LargerThanMtu), obeys_path, "{mode:?}");
        assert_eq!(reason(&mut host, id, &Message::new(&[0; 1473])), Some(NeedsKernel::LargerThanMtu), "{mode:?}");
    }
}

#[test]
fn path_that_may_be_narrow_is_asked_about_once_and_before_a_long_packet_only() {
    let mut host = host_with(1, &[2], StackConfig { asks_paths: true, ..StackConfig::new(1) });
    for (from, to, sure, most) in [(v4(1), v4(2), 524, 1472), (v6(1), v6(2), 1232, 1452)] {
        let id = host.connected(at(from, 7), at(to, 9));
        assert_eq!(reason(&mut host, id, &Message::new(&vec![1; sure])), None);
        assert_eq!(host.stack.take_path_question(), None, "short enough for every path");
        assert_eq!(reason(&mut host, id, &Message::new(&vec![1; sure + 1])), Some(NeedsKernel::PathUnknown));
        assert_eq!(host.stack.take_path_question(), Some((IFINDEX, to)));
        host.stack.update(Update::Path { ifindex: IFINDEX, destination: to, path: Some(Path::default()) });
        assert_eq!(reason(&mut host, id, &Message::new(&vec![1; most])), None);
        let other = host.connected(at(from, 8), at(to, 9));
        assert_eq!(reason(&mut host, other, &Message::new(&vec![1; most])), None, "known by now");
        host.stack.update(narrow(to, 1300));
        let too_long = Message::new(&[1; 1300]);
        assert_eq!(reason(&mut host, id, &too_long), Some(NeedsKernel::LargerThanMtu));
        host.stack.update(Update::Path { ifindex: IFINDEX, destination: to, path: None });
        assert_eq!(reason(&mut host, id, &too_long), Some(NeedsKernel::PathUnknown), "it is forgotten");
        assert_eq!(host.stack.take_path_question(), Some((IFINDEX, to)));
    }
}

#[test]
fn unconnected_datagram_that_is_not_fragmented_has_no_identification() {
    let (mut host, _) = pair();
    let id = host.endpoint(at(any4(), 7));
    assert_eq!(oracle(&host.send(id, &Message::to(b"x", at(v4(2), 9))).expect("has a way")).2, 0);
}

#[test]
fn datagram_of_exactly_the_mtu_goes_and_one_more_byte_does_not() {
    let (mut host, _) = pair();
    for (from, to, most) in [(v4(1), v4(2), 1472), (v6(1), v6(2), 1452)] {
        let id = host.connected(at(from, 7), at(to, 9));
        assert_eq!(host.send(id, &Message::new(&vec![1; most])).expect("fits").len(), 1514);
        assert_eq!(reason(&mut host, id, &Message::new(&vec![1; most + 1])), Some(NeedsKernel::LargerThanMtu));
        assert_eq!(reason(&mut host, id, &Message::new(&vec![1; 70_000])), Some(NeedsKernel::LargerThanMtu));
    }
}

#[test]
fn each_obstacle_names_its_reason_and_is_counted() {
    let (mut host, _) = pair();
    let id = host.endpoint(at(any4(), 7));
    let unbound = host.stack.udp_open(Family::V4, UdpOptions::default());
    let closed = host.stack.udp_open(Family::V4, UdpOptions::default());
    host.stack.udp_close(closed);
    let to = |address: &str| Message::to(b"x", address.parse().expect("an address"));
    for (endpoint, message, wanted) in [
        (closed, to("10.0.0.2:9"), NeedsKernel::NoEndpoint),
        (unbound, to("10.0.0.2:9"), NeedsKernel::NotBound),
        (id, Message::new(b"x"), NeedsKernel::NoDestination),
        (id, to("[fd00::2]:9"), NeedsKernel::FamilyMismatch),
        (id, to("10.0.0.2:0"), NeedsKernel::PortZero),
        (id, to("10.0.0.77:9"), NeedsKernel::NeighbourUnresolved),
        (id, to("192.0.2.1:9"), NeedsKernel::NoRoute),
        (id, to("10.0.0.1:9"), NeedsKernel::LocalDestination),
        (id, to("127.0.0.1:9"), NeedsKernel::LocalDestination),
        (id, to("10.0.0.255:9"), NeedsKernel::BroadcastNotPermitted),
        (id, Message { source: Some(v4(9)), ..to("10.0.0.2:9") }, NeedsKernel::SourceNotOurs),
        (id, Message { ifindex: Some(9), ..to("10.0.0.2:9") }, NeedsKernel::NoRoute),
    ] {
        let before = host.stack.statistics().needs_kernel(wanted);
        assert_eq!(reason(&mut host, endpoint, &message), Some(wanted));
        assert_eq!(host.stack.statistics().needs_kernel(wanted), before + 1);
    }
    host.stack.udp_configure(id, |options| options.broadcast = true);
    assert_eq!(reason(&mut host, id, &to("10.0.0.255:9")), Some(NeedsKernel::Broadcast));
    assert_eq!(host.stack.statistics().udp(Family::V4).out_datagrams, 0);
}

#[test]
fn flow_remembered_follows_every_change_of_the_tables() {
    let (mut host, id) = configured(|_| ());
    assert!(host.send(id, &Message::new(b"x")).is_ok());
    host.stack.update(neighbour(v4(2), 22, NeighbourState::Reachable));
    assert_eq!(host.send(id, &Message::new(b"x")).expect("has a way")[..6], mac(22).0);
    host.stack.update(neighbour(v4(2), 22, NeighbourState::Failed));
    assert_eq!(reason(&mut host, id, &Message::new(b"x")), Some(NeedsKernel::NeighbourUnresolved));
    host.stack.update(neighbour(v4(2), 2, NeighbourState::Reachable));
    assert!(host.send(id, &Message::new(b"x")).is_ok());
    host.stack.update(Update::NewLink(Link { mtu_bytes: 100, ..common::link(IFINDEX, 1) }));
    assert_eq!(reason(&mut host, id, &Message::new(&[0; 73])), Some(NeedsKernel::LargerThanMtu));
    host.stack.update(Update::DelRoute(Route::on_link(v4(0), 24, IFINDEX)));
    assert_eq!(reason(&mut host, id, &Message::new(b"x")), Some(NeedsKernel::NoRoute));
}

#[test]
fn destination_given_to_a_connected_endpoint_goes_there_and_the_connection_stays() {
    let mut host = host(1, &[2, 3]);
    let id = host.connected(at(v4(1), 7), at(v4(2), 9));
    let other = host.send(id, &Message::to(b"x", at(v4(3), 10))).expect("has a way");
    assert_eq!((&other[..6], &other[36..38]), (&mac(3).0[..], &[0, 10][..]));
    let back = host.send(id, &Message::new(b"x")).expect("has a way");
    assert_eq!((&back[..6], &back[36..38]), (&mac(2).0[..], &[0, 9][..]));
    host.stack.udp_disconnect(id);
    assert_eq!(reason(&mut host, id, &Message::new(b"x")), Some(NeedsKernel::NoDestination));
    assert_eq!(host.stack.udp_remote(id), None);
}

#[test]
fn dual_endpoint_sends_to_both_families() {
    let (mut host, _) = pair();
    let id = host.endpoint("[::]:7".parse().expect("an address"));
    for (to, ethertype) in [("10.0.0.2:9", [8, 0]), ("[::ffff:10.0.0.2]:9", [8, 0]), ("[fd00::2]:9", [0x86, 0xdd])] {
        let frame = host.send(id, &Message::to(b"x", to.parse().expect("an address"))).expect("has a way");
        assert_eq!(frame[12..14], ethertype);
        oracle(&frame);
    }
    host.stack.udp_configure(id, |options| options.v6_only = true);
    let to = Message::to(b"x", at(v4(2), 9));
    assert_eq!(reason(&mut host, id, &to), Some(NeedsKernel::FamilyMismatch));
}

#[test]
fn port_that_completes_checksums_gets_the_pseudo_header_sum() {
    for (from, to, start) in [(v4(1), v4(2), 34_u16), (v6(1), v6(2), 54)] {
        let (mut host, mut far) = pair();
        host.stack.detach_port(host.port);
        host.port = host.stack.attach_port(IFINDEX, Offers { send_checksum: true });
        let id = host.connected(at(from, 7), at(to, 9));
        let outgoing = host.stack.udp_send(id, &Message::new(b"x")).expect("has a way");
        assert_eq!(outgoing.checksum(), FrameChecksum::Complete { start, offset: 6 });
        let mut frame = vec![0; outgoing.len_bytes()];
        outgoing.write(&mut frame);
        // What the port does: sum from the start of the UDP header, with the field as it is.
        far.endpoint(at(to, 9));
        let partial = far.receive_with(&frame, ReceiveChecksum::VerifyOrPartial);
        assert!(matches!(partial, Verdict::Delivered { .. }));
        let start = usize::from(start);
        let field = udp::checksum_field(nearwire_wire::checksum::Sum::default().bytes(&frame[start..]));
        frame[start + 6..start + 8].copy_from_slice(&field);
        assert!(matches!(far.receive(&frame), Verdict::Delivered { .. }));
        oracle(&frame);
    }
}

#[test]
fn datagram_without_checksum_is_sent_over_v4_only() {
    let (mut host, _) = pair();
    for (from, to, zero) in [(v4(1), v4(2), true), (v6(1), v6(2), false)] {
        let id = host.connected(at(from, 7), at(to, 9));
        host.stack.udp_configure(id, |options| options.no_checksum = true);
        let frame = host.send(id, &Message::new(b"x")).expect("has a way");
        let field = frame.len() - 1 - 2;
        assert_eq!(frame[field..field + 2] == [0, 0], zero);
    }
}

//= test RFC 1112 6.1
#[test]
fn group_datagram_has_the_groups_hardware_address_and_a_time_to_live_of_one() {
    let (mut host, _) = pair();
    let group: IpAddr = "239.200.2.3".parse().expect("an address");
    let id = host.endpoint(at(any4(), 7));
    let message = Message::to(b"x", at(group, 9));
    assert_eq!(reason(&mut host, id, &message), Some(NeedsKernel::NoRoute));
    let interface = MulticastInterface { ifindex: IFINDEX, source: None };
    host.stack.udp_configure(id, |options| options.v4.multicast_interface = Some(interface));
    let frame = host.send(id, &message).expect("has a way");
    assert_eq!(frame[..6], [0x01, 0x00, 0x5e, 0x48, 2, 3]);
    assert_eq!(frame[26..30], [10, 0, 0, 1]);
    assert_eq!(oracle(&frame).0, 1);
    host.stack.udp_configure(id, |options| options.v4.multicast_ttl = 5);
    assert_eq!(oracle(&host.send(id, &message).expect("has a way")).0, 5);

    let six = host.endpoint("[::]:8".parse().expect("an address"));
    let to = std::net::SocketAddrV6::new("ff02::1234".parse().expect("an address"), 9, 0, IFINDEX);
    let frame = host.send(six, &Message::to(b"x", to.into())).expect("has a way");
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0x12, 0x34]);
    assert_eq!(oracle(&frame).0, 1);
}

#[test]
fn group_joined_here_is_looped_by_the_kernel_unless_looping_is_off() {
    let (mut host, _) = pair();
    let group: IpAddr = "239.200.2.3".parse().expect("an address");
    let interface = MulticastInterface { ifindex: IFINDEX, source: Some(v4(1)) };
    let options = UdpOptions {
        v4: FamilyOptions { multicast_interface: Some(interface), ..FamilyOptions::default() },
        ..UdpOptions::default()
    };
    let id = host.endpoint_with(at(any4(), 7), options);
    let message = Message::to(b"x", at(group, 9));
    assert!(host.send(id, &message).is_ok());
    host.stack.udp_join(id, IFINDEX, group, &SourceFilter::default()).expect("a group");
    assert_eq!(reason(&mut host, id, &message), Some(NeedsKernel::MulticastLoop));
    host.stack.udp_configure(id, |options| options.v4.multicast_loop = false);
    assert!(host.send(id, &message).is_ok());
    host.stack.udp_configure(id, |options| options.v4.multicast_loop = true);
    host.stack.udp_leave(id, IFINDEX, group).expect("joined");
    assert!(host.send(id, &message).is_ok());
}

/// A checksum that comes out as zero is sent as all ones: a payload word is chosen to make it so.
#[test]
fn checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
    for (from, to, udp) in [(v4(1), v4(2), 34), (v6(1), v6(2), 54)] {
        let (mut host, mut far) = pair();
        let id = host.connected(at(from, 7), at(to, 9));
        let frame = host.send(id, &Message::new(&[0, 0])).expect("has a way");
        let frame = host.send(id, &Message::new(&frame[udp + 6..udp + 8])).expect("has a way");
        assert_eq!(frame[udp + 6..udp + 8], [0xff, 0xff]);
        far.endpoint(at(to, 9));
        assert!(matches!(far.receive(&frame), Verdict::Delivered { .. }));
        oracle(&frame);
    }
}

proptest! {
    #[test]
    fn any_datagram_sent_is_read_alike_by_etherparse_and_delivered_by_the_far_end(
        six: bool, payload in proptest::collection::vec(any::<u8>(), 0..1452), ttl in 1..=255_u8, tos: u8,
        from_port in 1..=65_535_u16, to_port in 1..=65_535_u16,
    ) {
        let (mut one, mut two) = pair();
        let (from, to) = if six { (v6(1), v6(2)) } else { (v4(1), v4(2)) };
        let sender = one.endpoint(at(from, from_port));
        let reader = two.endpoint(at(to, to_port));
        let message = Message { ttl: Some(ttl), tos: Some(tos), ..Message::to(&payload, at(to, to_port)) };
        let frame = one.send(sender, &message).expect("has a way");
        let (oracle_ttl, oracle_tos, .., oracle_payload) = oracle(&frame);
        prop_assert_eq!((oracle_ttl, oracle_tos, &oracle_payload), (ttl, tos, &payload));
        prop_assert_eq!(two.receive(&frame), Verdict::Delivered { endpoint: reader, copies: 1 });
        let matches = two.stack.udp_read(reader, |datagram| {
            (datagram.payload == payload) && (datagram.source, datagram.ttl, datagram.tos) == (at(from, from_port), ttl, tos)
        });
        prop_assert_eq!(matches, Some(true));
    }
}

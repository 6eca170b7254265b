//! What becomes of each kind of frame.

mod common;

use std::net::{IpAddr, Ipv4Addr};

use common::{Host, IFINDEX, at, host, host_with, mac, pair, v4, v6};
use nearwire_stack::{
    Arrival, Dropped, EndpointId, Family, FamilyOptions, InterfaceAddress, Link, LinkKind, Message, NotOurs,
    OVERHEAD_BYTES, ReceiveChecksum, SourceFilter, StackConfig, Take, UdpOptions, Update, Verdict,
};
use nearwire_wire::checksum::Sum;
use nearwire_wire::ethernet::TagKind;
use nearwire_wire::udp;

const IP: usize = 14;
const UDP4: usize = IP + 20;
const UDP6: usize = IP + 40;

/// A frame from host 1 port 7 to host 2 port 4000.
fn frame(from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut sender = host(1, &[2]);
    let id = sender.endpoint(at(from, 7));
    sender.send(id, &Message::to(payload, at(to, 4000))).expect("has a way")
}

fn frame4() -> Vec<u8> {
    frame(v4(1), v4(2), b"payload")
}

fn frame6() -> Vec<u8> {
    frame(v6(1), v6(2), b"payload")
}

/// Sets the IPv4 header checksum right again.
fn with_header_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    let header = IP..IP + usize::from(frame[IP] & 0xf) * 4;
    frame[IP + 10..IP + 12].fill(0);
    let checksum = Sum::default().bytes(&frame[header]).checksum();
    frame[IP + 10..IP + 12].copy_from_slice(&checksum);
    frame
}

/// Replaces addresses of an IPv4 frame, both checksums right.
fn with_addresses(mut frame: Vec<u8>, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    frame[IP + 12..IP + 16].copy_from_slice(&source.octets());
    frame[IP + 16..IP + 20].copy_from_slice(&destination.octets());
    let length = (frame.len() - UDP4) as u16;
    frame[UDP4 + 6..UDP4 + 8].fill(0);
    let sum = Sum::default().pseudo_v4(source, destination, udp::PROTOCOL, length).bytes(&frame[UDP4..]);
    let field = udp::checksum_field(sum);
    frame[UDP4 + 6..UDP4 + 8].copy_from_slice(&field);
    with_header_checksum(frame)
}

/// Host 2 with an endpoint for both families on port 4000.
fn receiver() -> (Host, EndpointId) {
    let mut host = host(2, &[1]);
    let id = host.endpoint("[::]:4000".parse().expect("an address"));
    (host, id)
}

fn verdict(frame: &[u8]) -> Verdict {
    receiver().0.receive(frame)
}

#[test]
fn datagram_of_either_family_is_delivered_with_all_that_is_known_of_it() {
    for (frame, from, to) in [(frame4(), v4(1), v4(2)), (frame6(), v6(1), v6(2))] {
        let (mut host, id) = receiver();
        assert_eq!(host.receive(&frame), Verdict::Delivered { endpoint: id, copies: 1 });
        let seen = host.stack.udp_read(id, |datagram| {
            assert_eq!(datagram.payload, b"payload");
            assert_eq!((datagram.source, datagram.destination), (at(from, 7), to));
            assert_eq!((datagram.ifindex, datagram.ttl, datagram.tos), (IFINDEX, 64, 0));
            (datagram.received_ns, datagram.device_ns)
        });
        assert_eq!(seen, Some((7, 8)));
        assert_eq!(host.read(id), None);
    }
}

#[test]
fn reader_that_waits_gets_the_datagram_in_place_and_nothing_is_queued() {
    let (mut host, id) = receiver();
    let bytes = frame4();
    let arrival =
        Arrival { port: host.port, frame: &bytes, received_ns: 1, device_ns: 0, checksum: ReceiveChecksum::Verify };
    let mut lent = None;
    host.stack.receive(&arrival, |endpoint, datagram| {
        assert_eq!(endpoint, id);
        lent = Some(datagram.payload.as_ptr());
        Take::Consumed
    });
    assert_eq!(lent, Some(bytes[UDP4 + 8..].as_ptr()));
    assert_eq!(host.stack.udp_waiting(id), 0);
    assert_eq!(host.stack.take_readable(), None);
    assert_eq!(host.stack.statistics().udp(Family::V4).in_datagrams, 1);
}

#[test]
fn reader_that_waits_while_earlier_datagrams_do_is_not_offered_later_ones() {
    let (mut host, id) = receiver();
    host.receive(&frame(v4(1), v4(2), b"first"));
    let bytes = frame(v4(1), v4(2), b"second");
    let arrival =
        Arrival { port: host.port, frame: &bytes, received_ns: 1, device_ns: 0, checksum: ReceiveChecksum::Verify };
    host.stack.receive(&arrival, |_, _| panic!("offered out of order"));
    assert_eq!(host.stack.udp_peek(id, |datagram| datagram.payload.to_vec()).as_deref(), Some(b"first".as_slice()));
    assert_eq!(host.read(id).as_deref(), Some(b"first".as_slice()));
    assert_eq!(host.read(id).as_deref(), Some(b"second".as_slice()));
}

#[test]
fn endpoint_that_becomes_readable_is_named_once() {
    let (mut host, id) = receiver();
    host.receive(&frame4());
    host.receive(&frame4());
    assert_eq!(host.stack.take_readable(), Some(id));
    assert_eq!(host.stack.take_readable(), None);
    host.receive(&frame4());
    assert_eq!(host.stack.take_readable(), Some(id));
}

#[test]
fn frame_that_is_not_for_this_stack_is_said_to_be_the_kernels() {
    let changed = |at: usize, byte: u8| {
        let mut frame = frame4();
        frame[at] = byte;
        with_header_checksum(frame)
    };
    let mut tcp6 = frame6();
    tcp6[IP + 6] = 6;
    let mut extension = frame6();
    extension[IP + 6] = 0;
    let mut arp = frame4();
    arp[13] = 6;
    let elsewhere = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 3));
    let group = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(239, 0, 0, 1));
    for (frame, wanted) in [
        (vec![0; 13], NotOurs::NotEthernet),
        (arp, NotOurs::EtherType),
        (changed(5, 77), NotOurs::OtherHost),
        (changed(IP + 6, 0x20), NotOurs::Fragment),
        (changed(IP + 7, 0x01), NotOurs::Fragment),
        (changed(IP + 9, 6), NotOurs::Protocol),
        (tcp6, NotOurs::Protocol),
        (extension, NotOurs::ExtensionHeader),
        (elsewhere, NotOurs::OtherAddress),
        (group, NotOurs::GroupNotJoined),
    ] {
        assert_eq!(verdict(&frame), Verdict::NotOurs(wanted));
    }
    let (mut host, _) = receiver();
    host.stack.update(Update::NewLink(Link { is_up: false, ..common::link(IFINDEX, 2) }));
    assert_eq!(host.receive(&frame4()), Verdict::NotOurs(NotOurs::InterfaceDown));
    assert_eq!(host.stack.statistics().not_ours(NotOurs::InterfaceDown), 1);
}

//= test RFC 1122 3.3.1.1
#[test]
fn frame_for_another_station_is_not_taken() {
    let mut frame = frame4();
    frame[..6].copy_from_slice(&mac(9).0);
    assert_eq!(verdict(&frame), Verdict::NotOurs(NotOurs::OtherHost));
    // A unicast packet in a broadcast frame is taken, as Linux does (drop_unicast_in_l2_multicast = 0).
    frame[..6].fill(0xff);
    assert!(matches!(verdict(&frame), Verdict::Delivered { .. }));
}

//= test RFC 1122 3.2.1.3
#[test]
fn packet_from_an_impossible_source_is_dropped() {
    let to = Ipv4Addr::new(10, 0, 0, 2);
    for source in ["127.0.0.1", "239.1.1.1", "255.255.255.255", "0.0.0.0", "0.1.2.3", "10.0.0.2", "10.0.0.255"] {
        let frame = with_addresses(frame4(), source.parse().expect("an address"), to);
        assert_eq!(verdict(&frame), Verdict::Dropped(Dropped::InMartianSource), "{source}");
    }
    let frame = with_addresses(frame4(), Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    assert!(matches!(verdict(&frame), Verdict::Delivered { .. }), "a host without address yet");
}

//= test RFC 1122 3.2.1.3
#[test]
fn packet_for_another_address_is_not_taken() {
    let frame = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 9));
    let (mut host, id) = receiver();
    assert_eq!(host.receive(&frame), Verdict::NotOurs(NotOurs::OtherAddress));
    assert_eq!(host.read(id), None);
}

//= test RFC 1122 3.2.1.7
#[test]
fn packet_with_any_time_to_live_is_taken() {
    for ttl in [0, 1, 255] {
        let mut frame = frame4();
        frame[IP + 8] = ttl;
        let (mut host, id) = receiver();
        host.receive(&with_header_checksum(frame));
        assert_eq!(host.stack.udp_read(id, |datagram| datagram.ttl), Some(ttl));
    }
}

#[test]
fn malformed_ip_is_dropped_and_counted_as_the_kernel_does() {
    let mut bad_checksum = frame4();
    bad_checksum[IP + 10] ^= 1;
    let mut short_header = frame4();
    short_header[IP] = 0x44;
    let mut version = frame6();
    version[IP] = 0x40;
    let truncated4 = frame4()[..UDP4 + 3].to_vec();
    let truncated6 = frame6()[..UDP6 + 3].to_vec();
    for (frame, wanted) in [
        (bad_checksum, Dropped::InHdrErrors),
        (short_header, Dropped::InHdrErrors),
        (version, Dropped::InHdrErrors),
        (frame4()[..IP + 19].to_vec(), Dropped::InHdrErrors),
        (frame6()[..IP + 39].to_vec(), Dropped::InHdrErrors),
        (truncated4, Dropped::InTruncatedPkts),
        (truncated6, Dropped::InTruncatedPkts),
    ] {
        let (mut host, _) = receiver();
        assert_eq!(host.receive(&frame), Verdict::Dropped(wanted));
        let [v4, v6] = [Family::V4, Family::V6].map(|family| *host.stack.statistics().ip(family));
        let counted = match wanted {
            Dropped::InHdrErrors => v4.in_hdr_errors + v6.in_hdr_errors,
            _ => v4.in_truncated_pkts + v6.in_truncated_pkts,
        };
        assert_eq!((counted, host.stack.statistics().dropped(wanted)), (1, 1));
    }
}

#[test]
fn options_are_skipped_source_routes_left_to_the_kernel_and_bad_options_dropped() {
    let with_options = |options: [u8; 4]| {
        let mut frame = frame4();
        frame.splice(UDP4..UDP4, options);
        frame[IP] = 0x46;
        frame[IP + 3] += 4;
        with_header_checksum(frame)
    };
    assert!(matches!(verdict(&with_options([0x94, 4, 0, 0])), Verdict::Delivered { .. }));
    assert_eq!(verdict(&with_options([131, 3, 4, 0])), Verdict::NotOurs(NotOurs::SourceRoute));
    assert_eq!(verdict(&with_options([7, 9, 4, 0])), Verdict::Dropped(Dropped::InHdrErrors));
}

#[test]
fn frame_padded_to_the_shortest_of_ethernet_is_read_without_the_padding() {
    for mut frame in [frame(v4(1), v4(2), b"x"), frame(v6(1), v6(2), b"x")] {
        let padded = frame.len().max(60) + 4;
        frame.resize(padded, 0xee);
        let (mut host, id) = receiver();
        host.receive(&frame);
        assert_eq!(host.read(id).as_deref(), Some(b"x".as_slice()));
    }
}

#[test]
fn udp_length_that_is_impossible_is_dropped_and_a_shorter_one_trims() {
    let with_length = |length: u8| {
        let mut frame = frame4();
        frame[UDP4 + 5] = length;
        frame[UDP4 + 6..UDP4 + 8].fill(0);
        frame
    };
    for length in [0, 7, 16] {
        let (mut host, _) = receiver();
        assert_eq!(host.receive(&with_length(length)), Verdict::Dropped(Dropped::InErrors));
        assert_eq!(host.stack.statistics().udp(Family::V4).in_errors, 1);
    }
    let (mut host, id) = receiver();
    host.receive(&with_length(11));
    assert_eq!(host.read(id).as_deref(), Some(b"pay".as_slice()));
}

//= test RFC 768 fields
//= test RFC 8200 8.1
//= test RFC 8200 8.1
#[test]
fn checksum_of_zero_means_none_over_v4_and_is_an_error_over_v6() {
    let (mut v4, mut v6) = (frame4(), frame6());
    v4[UDP4 + 6..UDP4 + 8].fill(0);
    v6[UDP6 + 6..UDP6 + 8].fill(0);
    assert!(matches!(verdict(&v4), Verdict::Delivered { .. }));
    let (mut host, _) = receiver();
    assert_eq!(host.receive(&v6), Verdict::Dropped(Dropped::InCsumErrors));
    let counters = host.stack.statistics().udp(Family::V6);
    assert_eq!((counters.in_csum_errors, counters.in_errors), (1, 1));
    assert_ne!(frame6()[UDP6 + 6..UDP6 + 8], [0, 0], "what we send has one");
}

//= test RFC 1122 4.1.3.4
#[test]
fn datagram_with_any_bit_flipped_under_the_checksum_is_dropped() {
    for (frame, udp) in [(frame4(), UDP4), (frame6(), UDP6)] {
        for bit in udp * 8..frame.len() * 8 {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            let (mut host, id) = receiver();
            host.receive(&frame);
            assert_eq!(host.read(id), None, "bit {bit}");
        }
    }
}

#[test]
fn partial_checksum_is_good_only_where_it_means_a_local_sender() {
    for (mut frame, udp) in [(frame4(), UDP4), (frame6(), UDP6)] {
        let length = (frame.len() - udp) as u16;
        let pseudo = if udp == UDP4 {
            Sum::default().pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, length)
        } else {
            let [IpAddr::V6(from), IpAddr::V6(to)] = [v6(1), v6(2)] else { return };
            Sum::default().pseudo_v6(from, to, 17, length)
        };
        frame[udp + 6..udp + 8].copy_from_slice(&pseudo.folded());
        assert_eq!(verdict(&frame), Verdict::Dropped(Dropped::InCsumErrors));
        let (mut host, _) = receiver();
        let partial = host.receive_with(&frame, ReceiveChecksum::VerifyOrPartial);
        assert!(matches!(partial, Verdict::Delivered { .. }));
        frame[udp + 6] ^= 1;
        let (mut host, _) = receiver();
        let wrong = host.receive_with(&frame, ReceiveChecksum::VerifyOrPartial);
        assert_eq!(wrong, Verdict::Dropped(Dropped::InCsumErrors));
        assert!(matches!(host.receive_with(&frame, ReceiveChecksum::Verified), Verdict::Delivered { .. }));
    }
}

//= test RFC 4291 2.7
//= test RFC 4291 2.7
//= test RFC 4291 2.5.2
#[test]
fn v6_packet_with_an_address_that_none_may_have_is_dropped() {
    for (source, wanted) in [("ff02::1", true), ("::1", true), ("::ffff:10.0.0.1", true), ("fd00::1", false)] {
        let mut frame = frame6();
        let source: std::net::Ipv6Addr = source.parse().expect("an address");
        frame[IP + 8..IP + 24].copy_from_slice(&source.octets());
        assert_eq!(verdict(&frame) == Verdict::Dropped(Dropped::InMartianSource), wanted, "{source}");
    }
    for (destination, wanted) in [("ff00::1", true), ("ff01::1", true), ("::", true), ("::1", true), ("ff02::1", false)]
    {
        let mut frame = frame6();
        let destination: std::net::Ipv6Addr = destination.parse().expect("an address");
        frame[IP + 24..IP + 40].copy_from_slice(&destination.octets());
        assert_eq!(verdict(&frame) == Verdict::Dropped(Dropped::InAddrErrors), wanted, "{destination}");
    }
}

#[test]
fn datagram_for_a_port_without_endpoint_is_counted() {
    let mut host = host(2, &[1]);
    assert_eq!(host.receive(&frame4()), Verdict::Dropped(Dropped::NoPorts));
    assert_eq!(host.stack.statistics().udp(Family::V4).no_ports, 1);
}

#[test]
fn receive_buffer_full_drops_and_counts_and_reading_makes_room() {
    let mut host = host(2, &[1]);
    let options = UdpOptions { receive_buffer_bytes: 2 * (OVERHEAD_BYTES + 64), ..UdpOptions::default() };
    let id = host.endpoint_with(at(v4(2), 4000), options);
    let verdicts: Vec<_> = (0..4).map(|_| host.receive(&frame4())).collect();
    assert_eq!(verdicts[3], Verdict::Dropped(Dropped::RcvbufErrors));
    assert!(verdicts[..3].iter().all(|verdict| matches!(verdict, Verdict::Delivered { .. })));
    assert_eq!(host.stack.udp_charged_bytes(id), 3 * u64::from(OVERHEAD_BYTES + 64));
    let counters = *host.stack.statistics().udp(Family::V4);
    assert_eq!((counters.rcvbuf_errors, counters.in_errors, counters.in_datagrams), (1, 1, 0));
    assert!(host.read(id).is_some() && host.read(id).is_some());
    assert!(matches!(host.receive(&frame4()), Verdict::Delivered { .. }));
    assert_eq!(host.stack.statistics().udp(Family::V4).in_datagrams, 2);
}

#[test]
fn memory_used_up_drops_and_counts_and_closing_gives_it_back() {
    let mut host = host_with(2, &[1], StackConfig { queue_slots: 1, ..StackConfig::new(1) });
    let id = host.endpoint(at(v4(2), 4000));
    host.receive(&frame4());
    assert_eq!(host.receive(&frame4()), Verdict::Dropped(Dropped::MemErrors));
    assert_eq!(host.stack.statistics().udp(Family::V4).mem_errors, 1);
    host.stack.udp_close(id);
    assert_eq!(host.stack.take_readable(), None);
    let again = host.endpoint(at(v4(2), 4000));
    assert_ne!(again, id);
    assert_eq!(host.receive(&frame4()), Verdict::Delivered { endpoint: again, copies: 1 });
    assert_eq!(host.read(id), None, "the old name names nothing");
}

#[test]
fn tagged_frame_belongs_to_the_vlan_interface() {
    let (mut host, id) = receiver();
    let vlan = LinkKind::Vlan { parent: IFINDEX, tag: TagKind::Customer, vlan_id: 5 };
    host.stack.update(Update::NewLink(Link { ifindex: 9, kind: vlan, ..common::link(9, 2) }));
    let tagged = |vlan_id: u8| {
        let mut frame = frame4();
        frame.splice(12..12, [0x81, 0, 0, vlan_id]);
        frame
    };
    assert_eq!(host.receive(&tagged(6)), Verdict::NotOurs(NotOurs::UnknownVlan));
    host.receive(&tagged(5));
    assert_eq!(host.stack.udp_read(id, |datagram| datagram.ifindex), Some(9));
    host.receive(&tagged(0));
    assert_eq!(host.stack.udp_read(id, |datagram| datagram.ifindex), Some(IFINDEX));
    host.stack.udp_configure(id, |options| options.device = Some(9));
    assert!(matches!(host.receive(&tagged(5)), Verdict::Delivered { .. }));
    assert_eq!(host.receive(&frame4()), Verdict::Dropped(Dropped::NoPorts));
}

fn group_frame(source: u8) -> Vec<u8> {
    let mut frame = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, source), Ipv4Addr::new(239, 1, 1, 1));
    frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 1, 1, 1]);
    frame
}

#[test]
fn group_datagram_goes_to_every_endpoint_that_wants_it() {
    let mut host = host(2, &[1]);
    let group: IpAddr = "239.1.1.1".parse().expect("an address");
    let shared = UdpOptions { reuse_address: true, ..UdpOptions::default() };
    let any = at(Ipv4Addr::UNSPECIFIED.into(), 4000);
    let joined = host.endpoint_with(any, shared);
    let bound_to_group = host.endpoint_with(at(group, 4000), shared);
    let not_all =
        host.endpoint_with(any, UdpOptions { v4: FamilyOptions { multicast_all: false, ..shared.v4 }, ..shared });
    let bystander = host.endpoint_with(any, shared);
    let unicast = host.endpoint_with(at(v4(2), 4000), shared);
    host.stack.udp_join(joined, IFINDEX, group, &SourceFilter::default()).expect("a group");
    let Verdict::Delivered { copies, .. } = host.receive(&group_frame(1)) else { panic!("delivered") };
    assert_eq!(copies, 3);
    let got: Vec<_> = [joined, bound_to_group, not_all, bystander, unicast].map(|id| host.read(id).is_some()).to_vec();
    assert_eq!(got, [true, true, false, true, false]);

    let only_three = SourceFilter::Include(vec![v4(3)]);
    host.stack.udp_join(joined, IFINDEX, group, &only_three).expect("a group");
    host.receive(&group_frame(1));
    assert_eq!((host.read(joined), host.read(bystander).is_some()), (None, true));
    host.receive(&group_frame(3));
    assert!(host.read(joined).is_some());

    host.stack.udp_leave(joined, IFINDEX, group).expect("joined");
    assert_eq!(host.receive(&group_frame(1)), Verdict::NotOurs(NotOurs::GroupNotJoined));
    assert!(host.stack.udp_leave(joined, IFINDEX, group).is_err());
    assert!(host.stack.udp_join(joined, IFINDEX, v4(1), &SourceFilter::default()).is_err());
}

#[test]
fn group_joined_by_the_kernel_without_endpoint_is_ignored_and_counted() {
    let mut host = host(2, &[1]);
    host.stack.update(Update::NewGroup { ifindex: IFINDEX, group: "239.1.1.1".parse().expect("an address") });
    assert_eq!(host.receive(&group_frame(1)), Verdict::Dropped(Dropped::IgnoredMulti));
    assert_eq!(host.stack.statistics().udp(Family::V4).ignored_multi, 1);
}

#[test]
fn closed_endpoint_leaves_its_groups() {
    let mut host = host(2, &[1]);
    let id = host.endpoint(at(Ipv4Addr::UNSPECIFIED.into(), 4000));
    let group = "239.1.1.1".parse().expect("an address");
    host.stack.udp_join(id, IFINDEX, group, &SourceFilter::default()).expect("a group");
    host.stack.udp_close(id);
    assert_eq!(host.receive(&group_frame(1)), Verdict::NotOurs(NotOurs::GroupNotJoined));
}

#[test]
fn broadcast_goes_to_every_endpoint_bound_to_any_address() {
    for to in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255)] {
        let mut host = host(2, &[1]);
        let shared = UdpOptions { reuse_address: true, ..UdpOptions::default() };
        let any = at(Ipv4Addr::UNSPECIFIED.into(), 4000);
        let ids = [any, any, at(v4(2), 4000)].map(|bound| host.endpoint_with(bound, shared));
        let mut frame = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, 1), to);
        frame[..6].fill(0xff);
        assert!(matches!(host.receive(&frame), Verdict::Delivered { copies: 2, .. }));
        assert_eq!(ids.map(|id| host.read(id).is_some()), [true, true, false]);
    }
}

#[test]
fn endpoint_bound_to_a_broadcast_address_and_connected_gets_what_its_peer_broadcasts() {
    let to = Ipv4Addr::BROADCAST;
    let mut host = host(2, &[1]);
    let shared = UdpOptions { reuse_address: true, broadcast: true, ..UdpOptions::default() };
    let [peer, stranger, bound] = [(); 3].map(|()| host.endpoint_with(at(to.into(), 4000), shared));
    for (id, port) in [(peer, 7), (stranger, 8)] {
        host.stack.udp_connect(id, at(v4(1), port), None).expect("has a way");
    }
    let mut frame = with_addresses(frame4(), Ipv4Addr::new(10, 0, 0, 1), to);
    frame[..6].fill(0xff);
    assert!(matches!(host.receive(&frame), Verdict::Delivered { copies: 2, .. }));
    assert_eq!([peer, stranger, bound].map(|id| host.read(id).is_some()), [true, false, true]);
}

#[test]
fn address_removed_is_no_longer_received_for() {
    let (mut host, _) = receiver();
    host.stack.update(Update::DelAddress { ifindex: IFINDEX, address: v4(2) });
    assert_eq!(host.receive(&frame4()), Verdict::NotOurs(NotOurs::OtherAddress));
    let back: InterfaceAddress = common::address(IFINDEX, v4(2), 24);
    host.stack.update(Update::NewAddress(back));
    assert!(matches!(host.receive(&frame4()), Verdict::Delivered { .. }));
}

#[test]
fn two_hosts_talk_both_ways() {
    let (mut one, mut two) = pair();
    let a = one.connected(at(v6(1), 7), at(v6(2), 9));
    let b = two.connected(at(v6(2), 9), at(v6(1), 7));
    let there = one.send(a, &Message::new(b"ping")).expect("has a way");
    two.receive(&there);
    assert_eq!(two.read(b).as_deref(), Some(b"ping".as_slice()));
    let back = two.send(b, &Message::new(b"pong")).expect("has a way");
    one.receive(&back);
    assert_eq!(one.read(a).as_deref(), Some(b"pong".as_slice()));
}

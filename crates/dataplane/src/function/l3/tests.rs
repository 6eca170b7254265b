use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket};
use proptest::prelude::*;

use super::*;

const HERE: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 1, 1]];
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 1, 9];
const GATEWAY: [u8; 6] = [2, 0, 0, 0, 1, 7];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Port 0: 10.0.0.0/24, fd00::/64. Port 1: 10.0.1.0/24, fd00:1::/64, with a neighbour 9 and a gateway 7 to the rest.
fn router() -> Router {
    let rows = [
        ("10.0.0.0", 24, Target::Link { port: 0 }),
        ("10.0.1.0", 24, Target::Link { port: 1 }),
        ("10.0.0.1", 32, Target::ThisHost),
        ("10.0.1.255", 32, Target::Broadcast),
        ("192.0.2.0", 24, Target::Gateway { port: 1, address: ip("10.0.1.7") }),
        ("192.0.2.128", 25, Target::Unreachable),
        ("198.51.100.0", 24, Target::Gateway { port: 1, address: ip("10.0.1.8") }),
        ("203.0.113.0", 24, Target::OtherInterface),
        ("fd00::", 64, Target::Link { port: 0 }),
        ("fd00:1::", 64, Target::Link { port: 1 }),
        ("fd00::1", 128, Target::ThisHost),
        ("2001:db8::", 32, Target::Gateway { port: 1, address: ip("fd00:1::7") }),
    ];
    let mut routes = Routes::default();
    for (address, bits, target) in rows {
        routes.insert(Prefix::new(ip(address), bits).unwrap(), target);
    }
    let mut neighbours = Neighbours::default();
    for (port, address, mac) in [
        (0, "10.0.0.9", SENDER),
        (1, "10.0.1.9", NEIGHBOUR),
        (1, "fd00:1::9", NEIGHBOUR),
        (1, "10.0.1.7", GATEWAY),
        (1, "fd00:1::7", GATEWAY),
        // On a link on which no route says that it is.
        (0, "10.0.1.33", SENDER),
        (1, "192.0.2.1", NEIGHBOUR),
    ] {
        neighbours.insert(port, ip(address), mac);
    }
    let interfaces = HERE.map(|mac| Interface { mac, mtu_bytes: 1500 }).to_vec();
    Router::new(interfaces, &routes, &neighbours).unwrap()
}

/// A UDP datagram to the router's port 0.
fn packet(source: &str, destination: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(SENDER, HERE[0]);
    let builder = match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => builder.ipv4(source.octets(), destination.octets(), ttl),
        (IpAddr::V6(source), IpAddr::V6(destination)) => builder.ipv6(source.octets(), destination.octets(), ttl),
        _ => panic!("two versions"),
    };
    let mut frame = Vec::new();
    builder.udp(7, 7).write(&mut frame, payload).unwrap();
    frame
}

fn judged(frame: &[u8]) -> Verdict {
    router().judge(0, 0, frame)
}

fn leaves_to(destination: [u8; 6]) -> Verdict {
    Verdict::Forward { egress: 1, rewrite: Rewrite::Route { source: HERE[1], destination } }
}

#[test]
fn packets_leave_to_the_neighbour_or_the_gateway() {
    for (source, destination, mac) in [
        ("10.0.0.9", "10.0.1.9", NEIGHBOUR),
        ("10.0.0.9", "192.0.2.1", GATEWAY),
        ("fd00::9", "fd00:1::9", NEIGHBOUR),
        ("fd00::9", "2001:db8::1", GATEWAY),
    ] {
        assert_eq!(judged(&packet(source, destination, 64, b"data")), leaves_to(mac), "{destination}");
        assert_eq!(judged(&packet(source, destination, 2, b"data")), leaves_to(mac), "{destination}");
    }
    let back = router().judge(0, 0, &packet("10.0.1.9", "10.0.0.9", 64, b""));
    let rewrite = Rewrite::Route { source: HERE[0], destination: SENDER };
    assert_eq!(back, Verdict::Forward { egress: 0, rewrite });
}

#[test]
fn packets_that_do_not_leave_have_a_cause() {
    for (source, destination, cause) in [
        ("10.0.0.9", "10.0.0.1", DropCause::ForThisHost),
        ("10.0.0.9", "10.0.1.255", DropCause::Broadcast),
        ("10.0.0.9", "255.255.255.255", DropCause::Broadcast),
        ("10.0.0.9", "10.0.1.10", DropCause::NoNeighbour),
        ("10.0.0.9", "10.0.1.33", DropCause::NoNeighbour),
        ("10.0.0.9", "198.51.100.1", DropCause::NoNeighbour),
        ("10.0.0.9", "192.0.2.129", DropCause::Unreachable),
        ("10.0.0.9", "203.0.113.1", DropCause::OtherInterface),
        ("10.0.0.9", "8.8.8.8", DropCause::NoRoute),
        ("10.0.0.9", "224.0.0.5", DropCause::Multicast),
        ("10.0.0.9", "127.0.0.1", DropCause::MartianDestination),
        ("10.0.0.9", "0.0.0.0", DropCause::MartianDestination),
        ("10.0.0.9", "169.254.1.1", DropCause::LinkLocal),
        ("127.0.0.1", "10.0.1.9", DropCause::MartianSource),
        ("0.0.0.1", "10.0.1.9", DropCause::MartianSource),
        ("224.0.0.1", "10.0.1.9", DropCause::MartianSource),
        ("255.255.255.255", "10.0.1.9", DropCause::MartianSource),
        ("10.0.0.1", "10.0.1.9", DropCause::MartianSource),
        ("10.0.1.255", "10.0.1.9", DropCause::MartianSource),
        ("fd00::9", "fd00::1", DropCause::ForThisHost),
        ("fd00::9", "fd00:1::a", DropCause::NoNeighbour),
        ("fd00::9", "2002::1", DropCause::NoRoute),
        ("fd00::9", "ff02::1", DropCause::Multicast),
        ("fd00::9", "::1", DropCause::MartianDestination),
        ("::", "fd00:1::9", DropCause::MartianSource),
        ("::1", "fd00:1::9", DropCause::MartianSource),
        ("ff02::1", "fd00:1::9", DropCause::MartianSource),
        ("::ffff:10.0.0.9", "fd00:1::9", DropCause::MartianSource),
        ("fe80::1", "fd00:1::9", DropCause::LinkLocal),
        ("fd00::9", "fe80::1", DropCause::LinkLocal),
    ] {
        assert_eq!(judged(&packet(source, destination, 64, b"")), Verdict::Drop(cause), "{source} -> {destination}");
    }
    for ttl in [0, 1] {
        let expired = Verdict::Drop(DropCause::TtlExpired);
        assert_eq!(judged(&packet("10.0.0.9", "10.0.1.9", ttl, b"")), expired);
        assert_eq!(judged(&packet("fd00::9", "fd00:1::9", ttl, b"")), expired);
        assert_eq!(judged(&packet("10.0.0.9", "10.0.0.1", ttl, b"")), Verdict::Drop(DropCause::ForThisHost));
    }
}

#[test]
fn frames_of_others_and_without_ip_have_a_cause() {
    let plain = packet("10.0.0.9", "10.0.1.9", 64, &[0; 40]);
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = plain.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        judged(&frame)
    };
    assert_eq!(changed(0, &NEIGHBOUR), Verdict::Drop(DropCause::OtherHost));
    assert_eq!(changed(0, &[0xff; 6]), Verdict::Drop(DropCause::LinkGroup));
    assert_eq!(changed(12, &[0x08, 0x06]), Verdict::Drop(DropCause::NotIp));
    assert_eq!(changed(12, &[0x81, 0x00]), Verdict::Drop(DropCause::Tagged));
    assert_eq!(changed(12, &[0x86, 0xdd]), Verdict::Drop(DropCause::Version));
    assert_eq!(changed(14, &[0x44]), Verdict::Drop(DropCause::HeaderLength));
    assert_eq!(changed(24, &[0, 0]), Verdict::Drop(DropCause::HeaderChecksum));
    assert_eq!(judged(&plain[..13]), Verdict::Drop(DropCause::Runt));
    assert_eq!(judged(&plain[..33]), Verdict::Drop(DropCause::TotalLength));
    assert_eq!(judged(&plain[..plain.len() - 1]), Verdict::Drop(DropCause::TotalLength));
    let padded = [&plain[..], &[0; 1600]].concat();
    assert_eq!(judged(&padded), leaves_to(NEIGHBOUR), "what lies behind the packet does not count");
    assert_eq!(router().judge(0, 2, &plain), Verdict::Drop(DropCause::NoSuchPort));
}

#[test]
fn packets_longer_than_the_mtu_have_a_cause() {
    let fits = packet("10.0.0.9", "10.0.1.9", 64, &[0; 1472]);
    assert_eq!(judged(&fits), leaves_to(NEIGHBOUR));
    let mut long = packet("10.0.0.9", "10.0.1.9", 64, &[0; 1473]);
    assert_eq!(judged(&long), Verdict::Drop(DropCause::TooBig), "etherparse sets DF");
    long[20] &= !0x40;
    write_checksum(&mut long);
    assert_eq!(judged(&long), Verdict::Drop(DropCause::WantsFragments));
    assert_eq!(judged(&packet("fd00::9", "fd00:1::9", 64, &[0; 1452])), leaves_to(NEIGHBOUR));
    assert_eq!(judged(&packet("fd00::9", "fd00:1::9", 64, &[0; 1453])), Verdict::Drop(DropCause::TooBig));
}

fn write_checksum(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[14] & 0xf) * 4;
    frame[24..26].fill(0);
    let checksum = nearwire_wire::checksum::Sum::default().bytes(&frame[14..14 + header_bytes]).checksum();
    frame[24..26].copy_from_slice(&checksum);
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let mut frame = packet("10.0.0.9", "10.0.1.9", 64, b"data");
    frame.splice(34..34, options.iter().copied());
    frame[14] = 0x45 + (options.len() / 4) as u8;
    let total_bytes = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total_bytes.to_be_bytes());
    write_checksum(&mut frame);
    frame
}

#[test]
fn options_pass_unless_a_router_has_to_act_on_them() {
    for options in [[1, 1, 1, 0], [148, 4, 0, 0], [0, 7, 7, 7]] {
        assert_eq!(judged(&with_options(&options)), leaves_to(NEIGHBOUR), "{options:?}");
    }
    for kind in [7, 68, 131, 137] {
        assert_eq!(judged(&with_options(&[kind, 3, 4, 0])), Verdict::Drop(DropCause::OptionForRouter));
    }
    for options in [[148, 1, 0, 0], [1, 148, 4, 0], [1, 1, 1, 148]] {
        assert_eq!(judged(&with_options(&options)), Verdict::Drop(DropCause::MalformedOption), "{options:?}");
    }
}

#[test]
fn route_to_a_port_that_is_not_there_is_refused() {
    let mut routes = Routes::default();
    routes.insert(Prefix::new(ip("10.0.0.0"), 8).unwrap(), Target::Link { port: 2 });
    let interfaces = HERE.map(|mac| Interface { mac, mtu_bytes: 1500 }).to_vec();
    let error = Router::new(interfaces, &routes, &Neighbours::default()).unwrap_err();
    assert_eq!(error.to_string(), "route to 10.0.0.0/8 leads to port 2; there are 2 ports, counted from 0");
    assert_eq!(router().replace(&routes, &Neighbours::default()), Err(error));
    let mut empty = router();
    empty.replace(&Routes::default(), &Neighbours::default()).unwrap();
    let verdict = empty.judge(0, 0, &packet("10.0.0.9", "10.0.1.9", 64, b""));
    assert_eq!(verdict, Verdict::Drop(DropCause::NoRoute));
}

proptest! {
    #[test]
    fn any_routed_packet_differs_in_addresses_ttl_and_checksum_only(
        last in any::<u16>(), v6: bool, ttl in 2..=255_u8, payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let destination = if v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).to_string()
        } else {
            Ipv4Addr::new(192, 0, 2, last as u8 & 127).to_string()
        };
        let source = if v6 { "fd00::9" } else { "10.0.0.9" };
        let before = packet(source, &destination, ttl, &payload);
        let Verdict::Forward { egress: 1, rewrite } = judged(&before) else { panic!("not forwarded") };
        let mut after = before.clone();
        rewrite.apply(&mut after);

        let [old, new] = [&before, &after].map(|frame| SlicedPacket::from_ethernet(frame).expect("valid"));
        match (old.net.expect("has one"), new.net.expect("has one")) {
            (NetSlice::Ipv4(old), NetSlice::Ipv4(new)) => {
                let (mut wanted, found) = (old.header().to_header(), new.header().to_header());
                wanted.time_to_live -= 1;
                wanted.header_checksum = wanted.calc_header_checksum();
                prop_assert_eq!(found, wanted);
            }
            (NetSlice::Ipv6(old), NetSlice::Ipv6(new)) => {
                let (mut wanted, found) = (old.header().to_header(), new.header().to_header());
                wanted.hop_limit -= 1;
                prop_assert_eq!(found, wanted);
            }
            other => panic!("{other:?}"),
        }
        let link = new.link.and_then(|link| link.to_header()).and_then(|link| link.ethernet2()).expect("has one");
        prop_assert_eq!((link.source, link.destination), (HERE[1], GATEWAY));
        prop_assert_eq!(&after[26..], &before[26..]);
    }

    #[test]
    fn any_bytes_give_a_verdict(mut frame: Vec<u8>, ipv4: bool) {
        let header = [&HERE[0][..], &SENDER, if ipv4 { &[8, 0] } else { &[0x86, 0xdd] }].concat();
        judged(&frame);
        frame.splice(0..0, header);
        judged(&frame);
    }
}

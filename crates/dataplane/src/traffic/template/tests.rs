use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nearwire_wire::MacAddress;
use proptest::prelude::*;

use super::super::{Flows, Sizes};
use super::*;

const HOPS: Hops = Hops { source: MacAddress([2, 0, 0, 0, 0, 1]), destination: MacAddress([2, 0, 0, 0, 0, 2]) };

fn traffic(family: Family, sizes: &[u32], flows: u32, vlan: Option<u16>) -> Traffic {
    Traffic {
        family,
        sizes: Sizes::new(sizes.to_vec()).unwrap(),
        flows: Flows::new(flows).unwrap(),
        vlan,
        token: 0x4e57,
    }
}

fn frame(maker: &FrameMaker, number: u64, due_ticks: u64) -> Vec<u8> {
    let mut frame = vec![0xee; maker.len_bytes(number)];
    maker.write(number, due_ticks, &mut frame);
    frame
}

fn ways() -> Vec<Traffic> {
    vec![
        traffic(Family::V4, &[60], 1, None),
        traffic(Family::V4, &[64, 590, 1514], 50_000, Some(7)),
        traffic(Family::V6, &[80, 1514], 1000, None),
        traffic(Family::V6, &[86, 9018], 1, Some(7)),
    ]
}

#[test]
fn frame_made_is_read_back() {
    for traffic in ways() {
        let maker = FrameMaker::new(&traffic, HOPS).unwrap();
        for number in [0, 1, 2, 255, 256, 70_000, (1 << NUMBER_BITS) - 1] {
            let frame = frame(&maker, number, 12_345_678_901_234);
            assert_eq!(maker.read(&frame), Reading::Frame { number, due_ticks: 12_345_678_901_234 }, "{traffic:?}");
        }
    }
}

/// Headers and checksums as another implementation reads them.
#[test]
fn frame_made_is_a_datagram_with_right_checksums() {
    for traffic in ways() {
        let maker = FrameMaker::new(&traffic, HOPS).unwrap();
        for number in [0, 1, 777, 65_540] {
            let frame = frame(&maker, number, number * 1000);
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            assert_eq!(packet.vlan_ids().first().map(|id| id.value()), traffic.vlan);
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("{packet:?}") };
            assert_eq!(udp.destination_port(), DESTINATION_PORT);
            let payload = udp.payload();
            let wanted = match packet.net.unwrap() {
                NetSlice::Ipv4(ip) => {
                    assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
                    udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), payload)
                }
                NetSlice::Ipv6(ip) => udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), payload),
                other => panic!("{other:?}"),
            };
            assert_eq!(wanted.unwrap(), udp.checksum());
        }
    }
}

#[test]
fn frame_too_short_for_its_headers_is_refused() {
    let refused = |traffic: &Traffic| FrameMaker::new(traffic, HOPS).unwrap_err();
    let short = |found_bytes, least_bytes| TrafficError::TooShort { found_bytes, least_bytes };
    assert_eq!(refused(&traffic(Family::V6, &[60], 1, None)), short(60, 78));
    assert_eq!(refused(&traffic(Family::V4, &[1514, 60], 1, Some(7))), short(60, 62));
}

#[test]
fn frame_as_a_router_leaves_it_is_as_sent() {
    let maker = FrameMaker::new(&traffic(Family::V4, &[60], 10, None), HOPS).unwrap();
    let mut frame = frame(&maker, 3, 9);
    frame[..12].copy_from_slice(&[7; 12]);
    frame[22] -= 1; // TTL
    frame[24] ^= 1; // checksum of the header
    assert_eq!(maker.read(&frame), Reading::Frame { number: 3, due_ticks: 9 });
}

#[test]
fn frame_whose_tag_was_taken_out_or_put_in_is_as_sent() {
    let tagged = FrameMaker::new(&traffic(Family::V4, &[64], 1, Some(5)), HOPS).unwrap();
    let mut frame_with_tag = frame(&tagged, 8, 9);
    frame_with_tag.drain(12..16);
    assert_eq!(tagged.read(&frame_with_tag), Reading::Frame { number: 8, due_ticks: 9 });
    let plain = FrameMaker::new(&traffic(Family::V4, &[60], 1, None), HOPS).unwrap();
    let mut with_tag = frame(&plain, 8, 9);
    with_tag.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(plain.read(&with_tag), Reading::Frame { number: 8, due_ticks: 9 });
}

#[test]
fn frame_of_another_generator_is_foreign() {
    let maker = FrameMaker::new(&traffic(Family::V4, &[60], 1, None), HOPS).unwrap();
    let other = Traffic { token: 1, ..traffic(Family::V4, &[60], 1, None) };
    let other = FrameMaker::new(&other, HOPS).unwrap();
    assert_eq!(maker.read(&frame(&other, 1, 1)), Reading::Foreign);
    assert_eq!(maker.read(&[0; 60]), Reading::Foreign);
    assert_eq!(maker.read(&[]), Reading::Foreign);
}

#[test]
fn content_without_headers_is_read_as_the_frame_is() {
    for traffic in ways() {
        let maker = FrameMaker::new(&traffic, HOPS).unwrap().reading_content();
        let mut frame = frame(&maker, 5, 99);
        let content = maker.headers_bytes();
        assert_eq!(maker.read(&frame[content..]), Reading::Frame { number: 5, due_ticks: 99 });
        assert_eq!(maker.read(&frame[content..frame.len() - 1]), Reading::Corrupt);
        *frame.last_mut().unwrap() ^= 1;
        let is_stamp_only = frame.len() == content + 16;
        assert!(is_stamp_only || maker.read(&frame[content..]) == Reading::Corrupt);
        assert_eq!(maker.read(&[]), Reading::Foreign);
    }
}

proptest! {
    /// Whatever byte changes from the addresses on is seen. What is in front of them in the IPv4 header is the device's.
    #[test]
    fn changed_byte_is_seen(number in 0_u64..100_000, at in 14_usize..590, change in 1_u8..=255) {
        let maker = FrameMaker::new(&traffic(Family::V4, &[590], 300, None), HOPS).unwrap();
        let mut frame = frame(&maker, number, 77);
        prop_assume!(!(14..26).contains(&at));
        frame[at] ^= change;
        prop_assert_ne!(maker.read(&frame), Reading::Frame { number, due_ticks: 77 });
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let maker = FrameMaker::new(&traffic(Family::V4, &[60], 1, None), HOPS).unwrap();
        let _ = maker.read(&bytes);
    }
}

use nearwire_checks::wire::ipv4 as check_bytes;
use proptest::prelude::*;

use super::*;

fn any_header() -> impl Strategy<Value = Ipv4Header> {
    let first = (any::<u8>(), any::<u16>(), any::<bool>(), any::<bool>(), 0..0x2000_u16);
    (first, any::<u8>(), any::<u8>(), any::<Ipv4Addr>(), any::<Ipv4Addr>()).prop_map(
        |(
            (tos, identification, dont_fragment, more_fragments, fragment_offset),
            ttl,
            protocol,
            source,
            destination,
        )| {
            Ipv4Header {
                tos,
                identification,
                dont_fragment,
                more_fragments,
                fragment_offset,
                ttl,
                protocol,
                source,
                destination,
            }
        },
    )
}

fn sample() -> Vec<u8> {
    let header = Ipv4Header {
        tos: 0,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut packet = vec![0xaa; 24];
    header.write(&mut packet).expect("fits");
    packet
}

fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let header_bytes = (usize::from(packet[0] & 0xf) * 4).clamp(HEADER_BYTES_MIN, packet.len());
    packet[10..12].fill(0);
    let checksum = Sum::default().bytes(&packet[..header_bytes]).checksum();
    packet[10..12].copy_from_slice(&checksum);
    packet
}

#[test]
fn header_written_has_the_documented_bytes() {
    let packet = sample();
    assert_eq!(packet[..10], [0x45, 0, 0, 24, 0, 7, 0x40, 0, 64, 17]);
    assert_eq!(packet[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
    check_bytes(&packet);
}

#[test]
fn padding_behind_total_length_parsed_is_left_out() {
    let mut packet = sample();
    packet.resize(46, 0);
    assert_eq!(Ipv4Header::parse(&packet).expect("valid").payload, [0xaa; 4]);
}

#[test]
fn malformed_packet_parsed_names_the_cause() {
    assert_eq!(Ipv4Header::parse(&[0x45; 19]), Err(Ipv4Error::TooShort { found_bytes: 19, wanted_bytes: 20 }));
    let mut packet = sample();
    packet[0] = 0x65;
    assert_eq!(Ipv4Header::parse(&packet), Err(Ipv4Error::Version { found: 6 }));
    packet[0] = 0x44;
    assert_eq!(Ipv4Header::parse(&packet), Err(Ipv4Error::HeaderLength { found_bytes: 16 }));
    packet[0] = 0x4f;
    assert_eq!(Ipv4Header::parse(&packet), Err(Ipv4Error::TooShort { found_bytes: 24, wanted_bytes: 60 }));
    assert_eq!(Ipv4Header::parse(&sample()[..23]), Err(Ipv4Error::Cut { found_bytes: 23, total_bytes: 24 }));
    let mut packet = sample();
    packet[3] = 19;
    let packet = with_checksum(packet);
    assert_eq!(Ipv4Header::parse(&packet), Err(Ipv4Error::TotalLength { total_bytes: 19, header_bytes: 20 }));
}

//= test RFC 1122 3.2.1.2
#[test]
fn header_with_a_bit_flipped_is_refused() {
    for bit in 0..HEADER_BYTES_MIN * 8 {
        let mut packet = sample();
        packet[bit / 8] ^= 1 << (bit % 8);
        assert!(Ipv4Header::parse(&packet).is_err(), "bit {bit}");
    }
}

#[test]
fn options_are_skipped_and_source_routes_found() {
    let mut packet = sample();
    packet.splice(20..20, [1, 7, 3, 4, 131, 3, 4, 0]);
    packet[0] = 0x47;
    packet[3] = 32;
    let packet = with_checksum(packet);
    let parsed = Ipv4Header::parse(&packet).expect("valid");
    assert_eq!(parsed.payload, [0xaa; 4]);
    assert_eq!(has_source_route(parsed.options), Ok(true));
    check_bytes(&packet);
    assert_eq!(has_source_route(&[1, 1, 0, 131]), Ok(false));
    assert_eq!(has_source_route(&[7, 1, 0, 0]), Err(Ipv4Error::Option { offset: 20 }));
    assert_eq!(has_source_route(&[1, 7, 4, 0]), Err(Ipv4Error::Option { offset: 21 }));
    assert_eq!(has_source_route(&[1, 1, 1, 7]), Err(Ipv4Error::Option { offset: 23 }));
}

proptest! {
    #[test]
    fn any_bytes_parsed_give_value_or_error(bytes: Vec<u8>) {
        check_bytes(&bytes);
    }

    #[test]
    fn header_like_bytes_parsed_give_value_or_error(words in 5..16_u8, mut bytes in proptest::collection::vec(any::<u8>(), 60..80)) {
        bytes[0] = 0x40 | words;
        bytes[2..4].copy_from_slice(&70_u16.to_be_bytes());
        check_bytes(&with_checksum(bytes));
    }

    #[test]
    fn header_written_and_parsed_is_the_same(header in any_header(), payload: Vec<u8>) {
        let mut packet = vec![0; HEADER_BYTES_MIN];
        packet.extend_from_slice(&payload);
        header.write(&mut packet).expect("fits");
        let parsed = Ipv4Header::parse(&packet);
        prop_assert_eq!(parsed, Ok(Ipv4Packet { header, options: &[], payload: &payload }));
        check_bytes(&packet);
    }
}

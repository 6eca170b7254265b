use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::UdpHeader as OracleHeader;
use nearwire_checks::wire::udp as check_bytes;
use proptest::prelude::*;

use super::*;

fn datagram(payload: &[u8], checksum: [u8; 2]) -> Vec<u8> {
    let mut bytes = [&[0; HEADER_BYTES], payload].concat();
    UdpHeader { source_port: 1, destination_port: 2, checksum }.write(&mut bytes).expect("fits");
    bytes
}

#[test]
fn datagram_with_trailing_bytes_parsed_ends_at_its_length() {
    let mut bytes = datagram(b"abc", [0; 2]);
    bytes.extend_from_slice(b"trailer");
    assert_eq!(UdpDatagram::parse(&bytes).expect("valid").payload(), b"abc");
    check_bytes(&bytes);
}

#[test]
fn length_that_cannot_be_parsed_is_refused() {
    let mut bytes = datagram(b"abc", [0; 2]);
    for (length, refused) in [(0, true), (7, true), (8, false), (11, false), (12, true), (255, true)] {
        bytes[5] = length;
        assert_eq!(UdpDatagram::parse(&bytes).is_err(), refused, "length {length}");
    }
    assert_eq!(UdpDatagram::parse(&bytes[..7]), Err(UdpError::TooShort { found_bytes: 7 }));
}

//= test RFC 768 fields
#[test]
fn sum_of_all_ones_written_is_not_zero() {
    let sum = Sum::default().word(0xffff);
    assert_eq!(sum.checksum(), [0, 0]);
    assert_eq!(checksum_field(sum), [0xff, 0xff]);
    assert_eq!(checksum_field(Sum::default().word(1)), [0xff, 0xfe]);
}

#[test]
fn pseudo_header_sum_alone_is_partial() {
    let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let pseudo = Sum::default().pseudo_v4(a, b, PROTOCOL, 11);
    let state = |checksum| UdpDatagram::parse(&datagram(b"abc", checksum)).expect("valid").checksum_state(pseudo);
    assert_eq!(state(pseudo.folded()), ChecksumState::Partial);
    assert_eq!(state([0, 0]), ChecksumState::Absent);
    assert_eq!(state([1, 2]), ChecksumState::Wrong);
}

proptest! {
    #[test]
    fn any_bytes_parsed_give_value_or_error(mut bytes: Vec<u8>, length: Option<u8>) {
        if let (Some(length), Some(field)) = (length, bytes.get_mut(4..6)) {
            field.copy_from_slice(&[0, length]);
        }
        check_bytes(&bytes);
    }

    #[test]
    fn checksum_written_is_that_of_etherparse_and_valid(
        source: Ipv4Addr, destination: Ipv4Addr, source6: Ipv6Addr, destination6: Ipv6Addr, payload: Vec<u8>,
    ) {
        let length = (HEADER_BYTES + payload.len()) as u16;
        let bytes = datagram(&payload, [0; 2]);
        let v4 = Sum::default().pseudo_v4(source, destination, PROTOCOL, length);
        let v6 = Sum::default().pseudo_v6(source6, destination6, PROTOCOL, length);
        let (field4, field6) = (checksum_field(v4.bytes(&bytes)), checksum_field(v6.bytes(&bytes)));

        let header = OracleHeader { source_port: 1, destination_port: 2, length, checksum: 0 };
        let other4 = header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), &payload).expect("short");
        let other6 = header.calc_checksum_ipv6_raw(source6.octets(), destination6.octets(), &payload).expect("short");
        prop_assert_eq!((field4, field6), (other4.to_be_bytes(), other6.to_be_bytes()));

        for (field, pseudo) in [(field4, v4), (field6, v6)] {
            let bytes = datagram(&payload, field);
            let parsed = UdpDatagram::parse(&bytes).expect("was written");
            prop_assert_eq!(parsed.checksum_state(pseudo), ChecksumState::Valid);
            check_bytes(&bytes);
        }
    }
}

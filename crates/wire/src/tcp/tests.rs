use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{TcpHeader as OracleHeader, TcpOptionElement};
use nearwire_checks::wire::tcp as check_bytes;
use proptest::prelude::*;

use super::options::{BLOCKS_MAX, Block, Blocks, OPTIONS_BYTES_MAX, Options, Timestamps, WINDOW_SCALE_MAX, parse};
use super::*;

const HEADER: TcpHeader = TcpHeader {
    source_port: 1,
    destination_port: 2,
    sequence: 3,
    acknowledgement: 4,
    flags: Flags::ACK,
    window: 5,
    checksum: [0; 2],
    urgent: 0,
};

fn segment(header: TcpHeader, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES_MIN + options.len() + payload.len()];
    header.write(options, &mut bytes).expect("fits").copy_from_slice(payload);
    bytes
}

#[test]
fn header_length_that_cannot_be_is_refused() {
    let mut bytes = segment(HEADER, &[1; 4], b"abc");
    for (words, refused) in [(0, true), (4, true), (5, false), (6, false), (7, true), (15, true)] {
        bytes[12] = words << 4;
        assert_eq!(TcpSegment::parse(&bytes).is_err(), refused, "{words} words");
    }
    assert_eq!(TcpSegment::parse(&bytes[..19]), Err(TcpError::TooShort { found_bytes: 19 }));
}

#[test]
fn options_that_a_header_cannot_have_are_refused() {
    for found_bytes in [1, 7, 44] {
        let mut segment = [0; 100];
        let refused = HEADER.write(&vec![1; found_bytes], &mut segment);
        assert_eq!(refused, Err(TcpError::Options { found_bytes }));
    }
    assert_eq!(HEADER.write(&[1; 4], &mut [0; 23]), Err(TcpError::TooShort { found_bytes: 23 }));
}

#[test]
fn syn_and_fin_take_a_sequence_number_each() {
    let length = |flags| {
        let bytes = segment(TcpHeader { flags, ..HEADER }, &[], b"abc");
        TcpSegment::parse(&bytes).expect("valid").sequence_length()
    };
    assert_eq!([Flags::ACK, Flags::SYN, Flags::FIN | Flags::ACK, Flags::SYN | Flags::FIN].map(length), [3, 4, 4, 5]);
}

//= test RFC 9293 3.1
//= test RFC 9293 3.1
#[test]
fn unknown_and_malformed_options_do_no_harm() {
    // Kind 253 is experimental, and the maximum segment behind it is found.
    assert_eq!(parse(&[253, 4, 9, 9, 2, 4, 5, 180]).maximum_segment, Some(1460));
    for malformed in
        [&[2_u8][..], &[2, 0, 1, 1], &[2, 1, 1, 1], &[2, 5, 1, 1], &[8, 3, 1], &[5, 9, 0, 0, 0, 0, 0, 0, 0]]
    {
        assert_eq!(parse(malformed), Options::default(), "{malformed:?}");
    }
    assert_eq!(parse(&[0, 2, 4, 5, 180]), Options::default(), "what stands behind the end");
}

//= test RFC 7323 2.3
#[test]
fn window_scale_beyond_the_largest_counts_as_that() {
    assert_eq!(parse(&[3, 3, 200]).window_scale, Some(WINDOW_SCALE_MAX));
}

#[test]
fn blocks_that_find_no_room_are_left_out() {
    let blocks = [1, 3, 5, 7].map(|left| Block { left, right: left + 1 });
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    let mut bytes = [0; OPTIONS_BYTES_MAX];
    let plain = Options { blocks: Blocks::new(&blocks), ..Options::default() };
    assert_eq!(plain.write(&mut bytes), 36);
    assert_eq!(parse(&bytes[..36]), plain);
    let stamped = Options { timestamps, ..plain };
    assert_eq!(stamped.write(&mut bytes), OPTIONS_BYTES_MAX);
    assert_eq!(parse(&bytes).blocks, Blocks::new(&blocks[..BLOCKS_MAX - 1]));
}

proptest! {
    #[test]
    fn any_bytes_parsed_give_value_or_error(mut bytes in prop::collection::vec(any::<u8>(), 0..90), words: Option<u8>) {
        if let (Some(words), Some(field)) = (words, bytes.get_mut(12)) {
            *field = words << 4;
        }
        check_bytes(&bytes);
    }

    #[test]
    fn options_written_are_parsed_back_and_those_of_etherparse(
        maximum_segment: Option<u16>, scale in prop::option::of(0..=WINDOW_SCALE_MAX), selective_permitted: bool,
        stamps: Option<(u32, u32)>, pairs in prop::collection::vec(any::<(u32, u32)>(), 0..4),
    ) {
        let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
        let of_a_syn = Options { maximum_segment, window_scale: scale, selective_permitted, timestamps, ..Options::default() };
        let blocks: Vec<Block> = pairs.iter().map(|(left, right)| Block { left: *left, right: *right }).collect();
        let of_data = Options { timestamps, blocks: Blocks::new(&blocks), ..Options::default() };
        for options in [of_a_syn, of_data] {
            let mut bytes = [0; OPTIONS_BYTES_MAX];
            let count = options.write(&mut bytes);
            prop_assert_eq!(count % 4, 0);
            prop_assert_eq!(parse(&bytes[..count]), options);
            let mut other = OracleHeader::new(1, 2, 3, 4);
            other.set_options_raw(&bytes[..count]).expect("fits");
            for element in other.options_iterator().filter(|element| *element != Ok(TcpOptionElement::Noop)) {
                match element.expect("etherparse takes it too") {
                    TcpOptionElement::MaximumSegmentSize(bytes) => prop_assert_eq!(Some(bytes), options.maximum_segment),
                    TcpOptionElement::WindowScale(shift) => prop_assert_eq!(Some(shift), options.window_scale),
                    TcpOptionElement::SelectiveAcknowledgementPermitted => prop_assert!(options.selective_permitted),
                    TcpOptionElement::Timestamp(value, echo) => {
                        prop_assert_eq!(Some(Timestamps { value, echo }), options.timestamps);
                    }
                    TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                        let all: Vec<_> = std::iter::once(first).chain(rest.into_iter().flatten()).collect();
                        let ours: Vec<_> = options.blocks.as_slice().iter().map(|block| (block.left, block.right)).collect();
                        prop_assert_eq!(all, ours);
                    }
                    TcpOptionElement::Noop => {}
                }
            }
        }
    }

    //= test RFC 9293 3.1
    #[test]
    fn checksum_of_etherparse_is_valid_and_one_bit_more_is_wrong(
        source: Ipv4Addr, destination: Ipv4Addr, source6: Ipv6Addr, destination6: Ipv6Addr, payload: Vec<u8>, bit: usize,
    ) {
        let bytes = segment(HEADER, &[], &payload);
        let length = bytes.len() as u16;
        let mut other = OracleHeader::new(1, 2, 3, 5);
        (other.acknowledgment_number, other.ack) = (4, true);
        let field4 = other.calc_checksum_ipv4_raw(source.octets(), destination.octets(), &payload).expect("short");
        let field6 = other.calc_checksum_ipv6_raw(source6.octets(), destination6.octets(), &payload).expect("short");
        let v4 = Sum::default().pseudo_v4(source, destination, PROTOCOL, length);
        let v6 = Sum::default().pseudo_v6(source6, destination6, PROTOCOL, length);
        for (field, pseudo) in [(field4, v4), (field6, v6)] {
            let mut bytes = segment(TcpHeader { checksum: field.to_be_bytes(), ..HEADER }, &[], &payload);
            let state = |bytes: &[u8]| TcpSegment::parse(bytes).expect("was written").checksum_state(pseudo);
            prop_assert_eq!(state(&bytes), ChecksumState::Valid);
            // Not in the header's length.
            let at = bit % 12;
            bytes[at] ^= 1 << (bit % 8);
            prop_assert_ne!(state(&bytes), ChecksumState::Valid);
        }
    }
}

use nearwire_checks::wire::measuring as check_bytes;
use proptest::prelude::*;

use super::*;
use crate::ethernet::{TagKind, VlanTag};

fn header(tags: VlanTags) -> MeasuringHeader {
    MeasuringHeader {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        tags,
        kind: Kind::Request,
        token: ExperimentToken(0xdead_beef),
        sequence: 0x0102_0304_0506_0708,
    }
}

fn frame(tags: VlanTags, size_bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xee; size_bytes];
    write(&mut frame, &header(tags)).expect("long enough");
    frame
}

fn one_tag() -> VlanTags {
    VlanTags::One(VlanTag::new(TagKind::Customer, 0, false, 7).expect("in range"))
}

#[test]
fn smallest_frame_written_has_the_documented_bytes() {
    let bytes = frame(VlanTags::None, MEASURING_BYTES_MIN);
    assert_eq!(bytes[12..14], [0x88, 0xb5]);
    assert_eq!(bytes[14..18], *b"NWPP");
    assert_eq!(bytes[KIND_OFFSET], 1);
    assert_eq!(bytes[19..TOKEN_OFFSET], [0; 3]);
    assert_eq!(bytes[TOKEN_OFFSET..SEQUENCE_OFFSET], [0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(bytes[SEQUENCE_OFFSET..FILL_OFFSET], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[FILL_OFFSET..], PATTERN[..26]);
    check_bytes(&bytes);
}

#[test]
fn resident_frame_patched_at_its_offset_has_the_new_sequence() {
    for tags in [VlanTags::None, one_tag()] {
        let mut bytes = frame(tags, 64);
        let at = sequence_offset(tags);
        bytes[at..at + 8].copy_from_slice(&42u64.to_be_bytes());
        let parsed = parse(&bytes).expect("still a frame");
        assert_eq!(parsed.header, MeasuringHeader { sequence: 42, ..header(tags) });
        assert_eq!(parsed.verify(64), Ok(()));

        set_sequence(&mut bytes, 43).expect("still a frame");
        assert_eq!(parse(&bytes).expect("still a frame").header.sequence, 43);
    }
}

#[test]
fn buffer_below_minimum_written_is_refused() {
    assert_eq!(write(&mut [0; 59], &header(VlanTags::None)), Err(WriteError::TooShort { wanted_bytes: 59 }));
}

#[test]
fn frame_of_others_parsed_is_told_apart() {
    let mut bytes = frame(VlanTags::None, 60);
    bytes[12] = 8;
    assert_eq!(parse(&bytes), Err(ParseError::OtherEtherType { found: 0x08b5 }));

    let mut bytes = frame(VlanTags::None, 60);
    bytes[14] = b'X';
    assert_eq!(parse(&bytes), Err(ParseError::Magic { found: *b"XWPP" }));

    let mut bytes = frame(VlanTags::None, 60);
    bytes[KIND_OFFSET] = 0;
    assert_eq!(parse(&bytes), Err(ParseError::Kind { found: 0 }));

    let mut bytes = frame(VlanTags::None, 60);
    bytes[20] = 1;
    assert_eq!(parse(&bytes), Err(ParseError::Reserved { found: [0, 1, 0] }));

    let bytes = frame(one_tag(), 60);
    assert_eq!(parse(&bytes[..37]), Err(ParseError::Cut { found_bytes: 37, wanted_bytes: 38 }));
}

#[test]
fn frame_cut_or_lengthened_is_corrupt() {
    let mut bytes = frame(VlanTags::None, 200);
    let cut = parse(&bytes[..199]).expect("still a frame");
    let wanted = Corruption::Length { found_bytes: 199, wanted_bytes: 200 };
    assert_eq!(cut.verify(200), Err(wanted));
    bytes.push(0);
    assert!(parse(&bytes).expect("still a frame").verify(200).is_err());
}

#[test]
fn jumbo_frame_with_blocks_swapped_is_corrupt() {
    for block_bytes in [64, 512, 2048, 4096] {
        let mut bytes = frame(VlanTags::None, 9014);
        assert_eq!(parse(&bytes).expect("a frame").verify(9014), Ok(()));
        let (first, second) = bytes[FILL_OFFSET..].split_at_mut(block_bytes);
        first.swap_with_slice(&mut second[..block_bytes]);
        assert!(parse(&bytes).expect("a frame").verify(9014).is_err());
    }
}

fn any_header() -> impl Strategy<Value = MeasuringHeader> {
    let kind = prop_oneof![Just(Kind::Request), Just(Kind::Reply), Just(Kind::WarmUp)];
    let tags = crate::ethernet::tests::any_tags();
    (any::<[u8; 6]>(), any::<[u8; 6]>(), tags, kind, any::<u32>(), any::<u64>()).prop_map(
        |(destination, source, tags, kind, token, sequence)| MeasuringHeader {
            destination: MacAddress(destination),
            source: MacAddress(source),
            tags,
            kind,
            token: ExperimentToken(token),
            sequence,
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_parsed_give_value_or_error(bytes: Vec<u8>) {
        check_bytes(&bytes);
    }

    #[test]
    fn frame_like_bytes_parsed_give_value_or_error(
        bytes in crate::ethernet::tests::frame_like(0x88b5)
    ) {
        check_bytes(&bytes);
    }

    #[test]
    fn frame_written_and_parsed_is_the_same(header in any_header(), size_bytes in 60..9018usize) {
        let mut bytes = vec![0; size_bytes];
        write(&mut bytes, &header).expect("long enough");
        let parsed = parse(&bytes).expect("was written");
        prop_assert_eq!(parsed.header, header);
        prop_assert_eq!(parsed.len_bytes(), size_bytes);
        prop_assert_eq!(parsed.verify(size_bytes), Ok(()));
        check_bytes(&bytes);
    }

    #[test]
    fn frame_with_one_fill_byte_changed_names_it(
        header in any_header(), size_bytes in 60..9018usize, at: prop::sample::Index, flip in 1..=255u8,
    ) {
        let mut bytes = vec![0; size_bytes];
        write(&mut bytes, &header).expect("long enough");
        let fill_offset = FILL_OFFSET + header.tags.count() * TAG_BYTES;
        let offset = fill_offset + at.index(size_bytes - fill_offset);
        bytes[offset] ^= flip;
        let parsed = parse(&bytes).expect("header is whole");
        prop_assert_eq!(parsed.verify(size_bytes), Err(Corruption::Fill { offset }));
        check_bytes(&bytes);
    }

    #[test]
    fn frame_with_any_byte_changed_never_panics(
        header in any_header(), at: prop::sample::Index, flip in 1..=255u8,
    ) {
        let mut bytes = vec![0; 128];
        write(&mut bytes, &header).expect("long enough");
        bytes[at.index(128)] ^= flip;
        check_bytes(&bytes);
    }
}

use etherparse::{EtherType as OtherType, LinkExtSlice, SlicedPacket};
use nearwire_checks::wire::ethernet as check_bytes;
use proptest::prelude::*;

use super::*;

const TO: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const FROM: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn tag(kind: TagKind, vlan_id: u16) -> VlanTag {
    VlanTag::new(kind, 5, true, vlan_id).expect("in range")
}

#[test]
fn untagged_written_has_the_bytes_of_the_standard() {
    let header = EthernetHeader { destination: TO, source: FROM, tags: VlanTags::None, ethertype: EtherType::IPV4 };
    let mut frame = [0xaa; 16];
    assert_eq!(header.write(&mut frame), Ok(&mut [0xaa; 2][..]));
    assert_eq!(frame, *b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\xaa\xaa");
    check_bytes(&frame);
}

#[test]
fn two_tags_written_are_service_then_customer() {
    let header = EthernetHeader {
        destination: TO,
        source: FROM,
        tags: VlanTags::Two(tag(TagKind::Service, 100), tag(TagKind::Customer, 4095)),
        ethertype: EtherType::ARP,
    };
    let mut frame = [0; 22];
    header.write(&mut frame).expect("fits");
    assert_eq!(frame[12..], *b"\x88\xa8\xb0\x64\x81\0\xbf\xff\x08\x06");
    check_bytes(&frame);
}

#[test]
fn tag_out_of_range_is_refused() {
    assert_eq!(VlanTag::new(TagKind::Customer, 8, false, 1), None);
    assert_eq!(VlanTag::new(TagKind::Customer, 7, false, 4096), None);
}

#[test]
fn short_frame_parsed_says_what_is_wanted() {
    let mut frame = [0; 22];
    frame[12..14].copy_from_slice(&[0x81, 0]);
    for (len, wanted_bytes) in [(0, 14), (13, 14), (14, 18), (17, 18)] {
        assert_eq!(
            EthernetHeader::parse(&frame[..len]),
            Err(EthernetError::TooShort { found_bytes: len, wanted_bytes })
        );
    }
}

#[test]
fn third_tag_parsed_is_refused() {
    let mut frame = [0; 40];
    for at in [12, 16, 20] {
        frame[at..at + 2].copy_from_slice(&[0x81, 0]);
    }
    assert_eq!(EthernetHeader::parse(&frame), Err(EthernetError::TooManyTags));
}

#[test]
fn tag_identifier_as_ethertype_written_is_refused() {
    let header = EthernetHeader { destination: TO, source: FROM, tags: VlanTags::None, ethertype: EtherType(0x8100) };
    assert_eq!(header.write(&mut [0; 60]).map(|_| ()), Err(EthernetError::TagAsEtherType(0x8100)));
}

/// Any tag.
pub(crate) fn any_tag() -> impl Strategy<Value = VlanTag> {
    (any::<bool>(), 0..8u8, any::<bool>(), 0..4096u16).prop_map(|(service, priority, drop, id)| {
        let kind = if service { TagKind::Service } else { TagKind::Customer };
        VlanTag::new(kind, priority, drop, id).expect("in range")
    })
}

/// Any number of tags.
pub(crate) fn any_tags() -> impl Strategy<Value = VlanTags> {
    prop_oneof![
        Just(VlanTags::None),
        any_tag().prop_map(VlanTags::One),
        (any_tag(), any_tag()).prop_map(|(outer, inner)| VlanTags::Two(outer, inner)),
    ]
}

/// Bytes that are often, but not always, a frame with tags.
pub(crate) fn frame_like(ethertype: u16) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![Just(0x8100), Just(0x88a8), Just(ethertype), any::<u16>()];
    let words = proptest::collection::vec(word, 0..40);
    (any::<[u8; 12]>(), words).prop_map(|(addresses, words)| {
        let words = words.iter().flat_map(|word| word.to_be_bytes());
        addresses.into_iter().chain(words).collect()
    })
}

/// etherparse's reading of the tags: (identifier, priority, drop eligible, VLAN id).
fn oracle_tags(packet: &SlicedPacket<'_>) -> Vec<(u8, bool, u16)> {
    let tags = packet.link_exts.iter().filter_map(|ext| match ext {
        LinkExtSlice::Vlan(vlan) => {
            Some((vlan.priority_code_point().value(), vlan.drop_eligible_indicator(), vlan.vlan_identifier().value()))
        }
        _ => None,
    });
    tags.collect()
}

proptest! {
    #[test]
    fn any_bytes_parsed_give_value_or_error(frame: Vec<u8>) {
        check_bytes(&frame);
    }

    #[test]
    fn frame_like_bytes_parsed_give_value_or_error(frame in frame_like(0x0800)) {
        check_bytes(&frame);
    }

    #[test]
    fn header_written_and_parsed_is_the_same(
        destination: [u8; 6], source: [u8; 6], tags in any_tags(), payload: Vec<u8>,
    ) {
        let header = EthernetHeader {
            destination: MacAddress(destination),
            source: MacAddress(source),
            tags,
            ethertype: EtherType::MEASURING,
        };
        let mut frame = vec![0; header.len_bytes()];
        header.write(&mut frame).expect("fits");
        frame.extend_from_slice(&payload);
        prop_assert_eq!(EthernetHeader::parse(&frame), Ok((header, payload.as_slice())));
        check_bytes(&frame);

        let other = SlicedPacket::from_ethernet(&frame).expect("valid");
        let ours: Vec<_> = tags
            .iter()
            .map(|tag| (tag.priority(), tag.is_drop_eligible(), tag.vlan_id()))
            .collect();
        prop_assert_eq!(oracle_tags(&other), ours);
        let rest = other.ether_payload().expect("has one");
        prop_assert_eq!(rest.ether_type, OtherType(0x88b5));
        prop_assert_eq!(rest.payload, payload.as_slice());
    }
}

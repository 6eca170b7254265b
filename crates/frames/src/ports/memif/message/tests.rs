//! Where the fields are, and messages of any bytes.

use std::mem::offset_of;

use proptest::prelude::*;

use super::*;

/// The structures as C has them, each behind the two bytes of its type.
#[allow(dead_code, reason = "only the places of the fields are used")]
mod packed {
    #[repr(C, packed)]
    pub struct Hello {
        pub kind: u16,
        pub name: [u8; 32],
        pub min_version: u16,
        pub max_version: u16,
        pub max_region: u16,
        pub max_m2s_ring: u16,
        pub max_s2m_ring: u16,
        pub max_log2_ring_size: u8,
    }

    #[repr(C, packed)]
    pub struct Init {
        pub kind: u16,
        pub version: u16,
        pub id: u32,
        pub mode: u8,
        pub secret: [u8; 24],
        pub name: [u8; 32],
    }

    #[repr(C, packed)]
    pub struct AddRegion {
        pub kind: u16,
        pub index: u16,
        pub size: u64,
    }

    #[repr(C, packed)]
    pub struct AddRing {
        pub kind: u16,
        pub flags: u16,
        pub index: u16,
        pub region: u16,
        pub offset: u32,
        pub log2_ring_size: u8,
        pub private_hdr_size: u16,
    }

    #[repr(C, packed)]
    pub struct Connect {
        pub kind: u16,
        pub if_name: [u8; 32],
    }

    #[repr(C, packed)]
    pub struct Disconnect {
        pub kind: u16,
        pub code: u32,
        pub string: [u8; 96],
    }
}

#[test]
fn fields_are_where_the_structures_have_them() {
    use packed::{AddRegion, AddRing, Connect, Disconnect, Hello, Init};
    let places = [
        (at::TYPE, offset_of!(Hello, kind)),
        (at::HELLO_NAME, offset_of!(Hello, name)),
        (at::HELLO_LEAST_VERSION, offset_of!(Hello, min_version)),
        (at::HELLO_MOST_VERSION, offset_of!(Hello, max_version)),
        (at::HELLO_LAST_REGION, offset_of!(Hello, max_region)),
        (at::HELLO_LAST_S2C_RING, offset_of!(Hello, max_m2s_ring)),
        (at::HELLO_LAST_C2S_RING, offset_of!(Hello, max_s2m_ring)),
        (at::HELLO_RING_SIZE_LOG2, offset_of!(Hello, max_log2_ring_size)),
        (at::INIT_VERSION, offset_of!(Init, version)),
        (at::INIT_ID, offset_of!(Init, id)),
        (at::INIT_MODE, offset_of!(Init, mode)),
        (at::INIT_SECRET, offset_of!(Init, secret)),
        (at::INIT_NAME, offset_of!(Init, name)),
        (at::REGION_NUMBER, offset_of!(AddRegion, index)),
        (at::REGION_LENGTH, offset_of!(AddRegion, size)),
        (at::RING_FLAGS, offset_of!(AddRing, flags)),
        (at::RING_NUMBER, offset_of!(AddRing, index)),
        (at::RING_REGION, offset_of!(AddRing, region)),
        (at::RING_OFFSET, offset_of!(AddRing, offset)),
        (at::RING_SIZE_LOG2, offset_of!(AddRing, log2_ring_size)),
        (at::RING_PRIVATE_HEADER, offset_of!(AddRing, private_hdr_size)),
        (at::CONNECT_NAME, offset_of!(Connect, if_name)),
        (at::DISCONNECT_CODE, offset_of!(Disconnect, code)),
        (at::DISCONNECT_REASON, offset_of!(Disconnect, string)),
    ];
    for (number, (ours, theirs)) in places.into_iter().enumerate() {
        assert_eq!(ours, theirs, "place {number}");
    }
    let sizes = [size_of::<Hello>(), size_of::<Init>(), size_of::<AddRegion>(), size_of::<AddRing>()];
    assert_eq!(sizes, [45, 65, 12, 15]);
    assert_eq!((size_of::<Connect>(), size_of::<Disconnect>()), (34, 102));
}

fn message() -> impl Strategy<Value = Message> {
    let hello = (any::<[u8; 32]>(), any::<[u16; 5]>(), any::<u8>()).prop_map(|(name, words, ring_size_log2)| {
        let [least_version, most_version, last_region, last_s2c_ring, last_c2s_ring] = words;
        let versions =
            Hello { name, least_version, most_version, last_region, last_s2c_ring, last_c2s_ring, ring_size_log2 };
        Message::Hello(versions)
    });
    let init = (any::<u16>(), any::<u32>(), any::<u8>(), any::<[u8; 24]>(), any::<[u8; 32]>())
        .prop_map(|(version, id, mode, secret, name)| Message::Init(Init { version, id, mode, secret, name }));
    let ring = (any::<bool>(), any::<[u16; 3]>(), any::<u32>(), any::<u8>());
    let ring = ring.prop_map(|(from_client, [number, region, private_header_bytes], offset_bytes, size_log2)| {
        let direction = if from_client { Direction::ClientToServer } else { Direction::ServerToClient };
        Message::AddRing(AddRing { direction, number, region, offset_bytes, size_log2, private_header_bytes })
    });
    prop_oneof![
        Just(Message::Ack),
        hello,
        init,
        any::<(u16, u64)>().prop_map(|(number, length_bytes)| Message::AddRegion { number, length_bytes }),
        ring,
        any::<[u8; 32]>().prop_map(|name| Message::Connect { name }),
        any::<[u8; 32]>().prop_map(|name| Message::Connected { name }),
        (any::<u32>(), "[ -~]{0,95}").prop_map(|(code, reason)| Message::Disconnect { code, reason }),
    ]
}

fn any_bytes() -> impl Strategy<Value = [u8; MESSAGE_BYTES]> {
    (any::<[[u8; 32]; 4]>(), 0..12_u16).prop_map(|(parts, kind)| {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes.copy_from_slice(parts.as_flattened());
        bytes[..2].copy_from_slice(&kind.to_ne_bytes());
        bytes
    })
}

proptest! {
    #[test]
    fn message_encoded_is_decoded(message in message()) {
        prop_assert_eq!(Message::decode(&message.encode(), "").unwrap(), message);
    }

    #[test]
    fn bytes_decoded_are_a_message_or_an_error(bytes in any_bytes()) {
        match Message::decode(&bytes, "x") {
            Ok(message) => {
                prop_assert_eq!(message.kind().to_ne_bytes(), [bytes[0], bytes[1]]);
                if let Message::Disconnect { reason, .. } = &message {
                    prop_assert!(!reason.contains(char::is_control));
                } else {
                    prop_assert_eq!(Message::decode(&message.encode(), "x").unwrap(), message);
                }
            }
            Err(MemifError::UnexpectedMessage { found, wanted: "x" }) => prop_assert!(!(1..=8).contains(&found)),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn text_longer_than_its_field_is_cut_and_ended() {
    assert_eq!(padded::<4>(b"abcdef"), *b"abc\0");
    assert_eq!(padded::<4>(b"a"), *b"a\0\0\0");
}

//! What is changed in a frame that is forwarded.

use nearwire_wire::ethernet::{EtherType, UNTAGGED_HEADER_BYTES};

use super::ADDRESS_BYTES;

const TTL_AT: usize = UNTAGGED_HEADER_BYTES + 8;
const CHECKSUM_AT: usize = UNTAGGED_HEADER_BYTES + 10;
const HOP_LIMIT_AT: usize = UNTAGGED_HEADER_BYTES + 7;

/// What is changed in the copy of a frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing.
    None,
    /// The Ethernet source and destination change places.
    SwapAddresses,
    /// A router's part (RFC 1812 section 5.2.3): new Ethernet addresses, one hop less.
    Route {
        /// The Ethernet source: the router's own address on the link.
        source: [u8; 6],
        /// The Ethernet destination: the next hop's.
        destination: [u8; 6],
    },
}

impl Rewrite {
    /// Changes `frame`. A frame too short for a change is not changed there: no bytes make it panic.
    #[inline]
    pub fn apply(self, frame: &mut [u8]) {
        match self {
            Rewrite::None => {}
            Rewrite::SwapAddresses => swap_addresses(frame),
            Rewrite::Route { source, destination } => route(frame, source, destination),
        }
    }
}

#[inline]
fn swap_addresses(frame: &mut [u8]) {
    if let Some((destination, rest)) = frame.split_first_chunk_mut::<ADDRESS_BYTES>()
        && let Some(source) = rest.first_chunk_mut::<ADDRESS_BYTES>()
    {
        std::mem::swap(destination, source);
    }
}

#[inline]
fn route(frame: &mut [u8], source: [u8; 6], destination: [u8; 6]) {
    let Some(header) = frame.first_chunk_mut::<UNTAGGED_HEADER_BYTES>() else { return };
    header[..ADDRESS_BYTES].copy_from_slice(&destination);
    header[ADDRESS_BYTES..2 * ADDRESS_BYTES].copy_from_slice(&source);
    match EtherType(u16::from_be_bytes([header[12], header[13]])) {
        EtherType::IPV4 => one_hop_less_v4(frame),
        EtherType::IPV6 => {
            if let Some(hop_limit) = frame.get_mut(HOP_LIMIT_AT) {
                // RFC 8200 section 3: by 1 by each node that forwards the packet.
                *hop_limit = hop_limit.saturating_sub(1);
            }
        }
        _ => {}
    }
}

/// RFC 1812 section 5.3.1: the TTL is lessened by one, and the header checksum follows.
#[inline]
fn one_hop_less_v4(frame: &mut [u8]) {
    let Some(bytes) = frame.get_mut(TTL_AT..CHECKSUM_AT + 2) else { return };
    let [ttl, protocol, high, low] = [bytes[0], bytes[1], bytes[2], bytes[3]];
    let Some(less) = ttl.checked_sub(1) else { return };
    let [old, new] = [[ttl, protocol], [less, protocol]].map(u16::from_be_bytes);
    let checksum = updated_checksum(u16::from_be_bytes([high, low]), old, new);
    bytes[0] = less;
    bytes[2..].copy_from_slice(&checksum.to_be_bytes());
}

/// The Internet checksum after a word that it covers has changed (RFC 1624 section 3, equation 3).
#[inline]
const fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = (!checksum) as u32 + (!old) as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use nearwire_wire::checksum::Sum;
    use proptest::prelude::*;

    use super::*;

    const ROUTE: Rewrite = Rewrite::Route { source: [2; 6], destination: [4; 6] };

    #[test]
    fn example_of_rfc_1624_updated_is_as_printed() {
        // Section 4: the checksum 0xDD2F, and 0x5555 becomes 0x3285.
        assert_eq!(updated_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
        // A sum that carries twice.
        assert_eq!(updated_checksum(0, 0, 1), 0xfffe);
    }

    #[test]
    fn addresses_swapped_twice_are_as_before() {
        let mut frame = *b"aaaaaabbbbbbcc";
        Rewrite::SwapAddresses.apply(&mut frame);
        assert_eq!(frame, *b"bbbbbbaaaaaacc");
        Rewrite::SwapAddresses.apply(&mut frame);
        assert_eq!(frame, *b"aaaaaabbbbbbcc");
    }

    proptest! {
        #[test]
        fn any_word_changed_gives_the_checksum_of_a_full_sum(mut words in proptest::collection::vec(any::<u16>(), 2..20), new: u16) {
            let full = |words: &[u16]| {
                let sum = words.iter().fold(Sum::default(), |sum, word| sum.word(*word));
                u16::from_be_bytes(sum.checksum())
            };
            // Sums of zeros alone have two checksums.
            words[0] |= 1;
            let (before, old) = (full(&words), words[1]);
            words[1] = new;
            prop_assert_eq!(updated_checksum(before, old, new), full(&words));
        }

        #[test]
        fn any_bytes_rewritten_do_not_panic_and_keep_their_length(mut frame: Vec<u8>, ipv4: bool) {
            if let Some(ethertype) = frame.get_mut(12..14) {
                ethertype.copy_from_slice(if ipv4 { &[8, 0] } else { &[0x86, 0xdd] });
            }
            for rewrite in [Rewrite::None, Rewrite::SwapAddresses, ROUTE] {
                rewrite.apply(&mut frame);
            }
        }

        #[test]
        fn header_routed_has_the_checksum_of_a_full_sum(
            mut header in proptest::collection::vec(any::<u8>(), 20..60), ttl in 1..=255_u8,
        ) {
            header.truncate(header.len() & !3);
            header[8] = ttl;
            header[10..12].fill(0);
            let checksum = Sum::default().bytes(&header).checksum();
            header[10..12].copy_from_slice(&checksum);

            let mut frame = b"aaaaaabbbbbb\x08\x00".to_vec();
            frame.extend_from_slice(&header);
            ROUTE.apply(&mut frame);

            header[8] = ttl - 1;
            header[10..12].fill(0);
            let checksum = Sum::default().bytes(&header).checksum();
            header[10..12].copy_from_slice(&checksum);
            prop_assert_eq!(&frame[14..], header.as_slice());
            prop_assert_eq!(&frame[..14], b"\x04\x04\x04\x04\x04\x04\x02\x02\x02\x02\x02\x02\x08\x00".as_slice());
        }
    }
}

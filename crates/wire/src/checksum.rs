//! The Internet checksum of IPv4, UDP and TCP (RFC 1071).
//!
//! A [`Sum`] adds 16-bit words as they lie in memory, in the byte order of the machine. The one's complement sum does not
//! care: swapped words give the swapped sum (RFC 1071 section 2 B), and the result is stored as it came, so nothing is
//! ever swapped.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A one's complement sum in the making. Parts may be added in any order; only the last part may have an odd length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd last byte is padded with zero (RFC 1071 section 4.1).
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // 32-bit words in a 64-bit sum: room for 2^32 of them, which no packet has.
        let mut sum = self.0;
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_ne_bytes(*eight);
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        let (fours, rest) = rest.as_chunks::<4>();
        if let [four] = fours {
            sum += u64::from(u32::from_ne_bytes(*four));
        }
        let (twos, last) = rest.as_chunks::<2>();
        if let [two] = twos {
            sum += u64::from(u16::from_ne_bytes(*two));
        }
        if let [last] = last {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Sum(sum)
    }

    /// Adds a 16-bit number, which goes on the wire in network order.
    #[inline]
    #[must_use]
    pub const fn word(self, number: u16) -> Sum {
        Sum(self.0 + number.to_be() as u64)
    }

    /// Adds the pseudo header of IPv4 (RFC 768, RFC 9293 section 3.1). `length_bytes` is that of the UDP or TCP header
    /// with its data.
    #[inline]
    #[must_use]
    pub fn pseudo_v4(self, source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length_bytes: u16) -> Sum {
        let addresses = self.bytes(&source.octets()).bytes(&destination.octets());
        addresses.word(u16::from(protocol)).word(length_bytes)
    }

    /// Adds the pseudo header of IPv6 (RFC 8200 section 8.1).
    #[inline]
    #[must_use]
    pub fn pseudo_v6(self, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length_bytes: u16) -> Sum {
        let addresses = self.bytes(&source.octets()).bytes(&destination.octets());
        addresses.word(u16::from(protocol)).word(length_bytes)
    }

    /// The sum in 16 bits, as it lies in memory.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> [u8; 2] {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum as u16).to_ne_bytes()
    }

    /// The bytes of the checksum field: the complement.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> [u8; 2] {
        let [a, b] = self.folded();
        [!a, !b]
    }

    /// Whether a sum over data and its checksum is that of unharmed data.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        let [a, b] = self.folded();
        a & b == 0xff
    }
}

/// What the checksum field of a UDP datagram or a TCP segment tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// It is right.
    Valid,
    /// There is none: UDP's field is zero.
    Absent,
    /// It is the sum of the pseudo header alone: Linux leaves it so for a network card to complete, and a virtual
    /// Ethernet pair hands the frame on as it is.
    Partial,
    /// None of these.
    Wrong,
}

#[cfg(test)]
mod tests {
    use nearwire_checks::wire::checksum_by_words as slow;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn example_of_rfc_1071_summed_is_as_printed() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).folded(), [0xdd, 0xf2]);
    }

    #[test]
    fn longest_packet_of_ones_summed_does_not_overflow() {
        let bytes = vec![0xff; 65_535];
        assert_eq!(Sum::default().bytes(&bytes).checksum(), slow(&bytes));
        assert!(Sum(u64::MAX).is_valid());
    }

    proptest! {
        #[test]
        fn any_bytes_in_even_parts_sum_as_defined(bytes: Vec<u8>, cut: prop::sample::Index) {
            let cut = cut.index(bytes.len() + 1) & !1;
            let sum = Sum::default().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
            prop_assert_eq!(sum.checksum(), slow(&bytes));
        }

        #[test]
        fn words_summed_are_as_their_bytes(words: Vec<u16>) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let sum = words.iter().fold(Sum::default(), |sum, word| sum.word(*word));
            prop_assert_eq!(sum.checksum(), slow(&bytes));
        }

        #[test]
        fn bytes_with_their_checksum_are_valid_and_with_a_bit_flipped_not(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..64), bit: prop::sample::Index,
        ) {
            let even = bytes.len() & !1;
            bytes.truncate(even);
            let sum = Sum::default().bytes(&bytes).checksum();
            bytes.extend(sum);
            prop_assert!(Sum::default().bytes(&bytes).is_valid());
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!Sum::default().bytes(&bytes).is_valid());
        }
    }
}

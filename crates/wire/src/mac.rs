//! IEEE 802 MAC addresses (EUI-48).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An EUI-48 address in the order of its bytes on the wire.
///
/// Written and read as six pairs of hexadecimal digits with colons: `02:00:00:00:00:01`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

/// Why a text is not a [`MacAddress`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MacAddressError {
    /// Not six groups.
    #[error("MAC address {text:?} has {groups} groups between colons, wanted 6")]
    Groups {
        /// The text as given.
        text: String,
        /// How many groups it has.
        groups: usize,
    },
    /// A group is not two hexadecimal digits.
    #[error("MAC address {text:?} has the group {group:?}, wanted two hexadecimal digits")]
    Digits {
        /// The text as given.
        text: String,
        /// The first group at fault.
        group: String,
    },
}

impl MacAddress {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether the frame is for a group of stations (broadcast included): bit 0 of the first byte.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address was given by an administrator and not by a maker: bit 1 of the first
    /// byte.
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let groups = text.split(':').count();
        if groups != 6 {
            return Err(MacAddressError::Groups { text: text.to_owned(), groups });
        }
        let mut bytes = [0; 6];
        for (byte, group) in bytes.iter_mut().zip(text.split(':')) {
            *byte = pair(group)
                .ok_or_else(|| MacAddressError::Digits { text: text.to_owned(), group: group.to_owned() })?;
        }
        Ok(Self(bytes))
    }
}

/// The value of exactly two hexadecimal digits. `u8::from_str_radix` alone would take `+1`.
fn pair(group: &str) -> Option<u8> {
    let two_digits = group.len() == 2 && group.bytes().all(|b| b.is_ascii_hexdigit());
    two_digits.then(|| u8::from_str_radix(group, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_with_wrong_groups_or_digits_is_named() {
        for (text, groups) in [("", 1), ("02:00:00:00:00", 5), ("0:0:0:0:0:0:0", 7)] {
            assert!(matches!(
                text.parse::<MacAddress>(),
                Err(MacAddressError::Groups { groups: g, .. }) if g == groups
            ));
        }
        for (text, at_fault) in [
            ("02:00:00:00:00:1", "1"),
            ("02:00:+1:00:00:01", "+1"),
            ("02:00:00:é:00:01", "é"),
            ("02:00:00:00:00:001", "001"),
        ] {
            assert!(matches!(
                text.parse::<MacAddress>(),
                Err(MacAddressError::Digits { group, .. }) if group == at_fault
            ));
        }
    }

    #[test]
    fn first_byte_bits_tell_group_and_local() {
        assert!(MacAddress::BROADCAST.is_group());
        assert!(!MacAddress([0x02, 0, 0, 0, 0, 1]).is_group());
        assert!(MacAddress([0x02, 0, 0, 0, 0, 1]).is_local());
        assert!(!MacAddress([0x00, 0x1b, 0x21, 0, 0, 1]).is_local());
    }

    proptest! {
        #[test]
        fn address_printed_and_parsed_is_the_same(bytes: [u8; 6]) {
            let address = MacAddress(bytes);
            prop_assert_eq!(address.to_string().parse::<MacAddress>(), Ok(address));
            prop_assert_eq!(address.to_string().to_uppercase().parse::<MacAddress>(), Ok(address));
        }

        #[test]
        fn any_text_parses_or_errs(text: String) {
            let _ = text.parse::<MacAddress>();
        }
    }
}

//! Addresses of both families as one number.
//!
//! An IPv4 address is kept in its IPv6-mapped form (RFC 4291 section 2.5.5.2). No packet on a wire may carry that form,
//! so the two families never meet, and a dual-stack endpoint needs no second code path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4, `AF_INET`.
    V4,
    /// IPv6, `AF_INET6`; an endpoint of this family may also carry IPv4.
    V6,
}

/// An address of either family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    pub(crate) const ANY_V4: Address = Address(MAPPED);
    pub(crate) const ANY_V6: Address = Address(0);

    #[inline]
    pub(crate) const fn v4(address: Ipv4Addr) -> Address {
        Address(MAPPED | address.to_bits() as u128)
    }

    #[inline]
    pub(crate) const fn v6(address: Ipv6Addr) -> Address {
        Address(address.to_bits())
    }

    #[inline]
    pub(crate) const fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    #[inline]
    pub(crate) const fn family(self) -> Family {
        if self.is_v4() { Family::V4 } else { Family::V6 }
    }

    #[inline]
    pub(crate) const fn is_any(self) -> bool {
        self.0 == Address::ANY_V4.0 || self.0 == Address::ANY_V6.0
    }

    #[inline]
    pub(crate) const fn to_v4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0 as u32)
    }

    #[inline]
    pub(crate) const fn to_v6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.0)
    }

    /// As the rest of the world writes it: IPv4 is IPv4.
    #[inline]
    pub(crate) const fn to_ip(self) -> IpAddr {
        if self.is_v4() { IpAddr::V4(self.to_v4()) } else { IpAddr::V6(self.to_v6()) }
    }

    #[inline]
    pub(crate) const fn is_multicast(self) -> bool {
        if self.is_v4() { self.to_v4().is_multicast() } else { self.to_v6().is_multicast() }
    }

    #[inline]
    pub(crate) const fn is_loopback(self) -> bool {
        if self.is_v4() { self.to_v4().is_loopback() } else { self.to_v6().is_loopback() }
    }

    /// Whether the address names a host only together with an interface: link-local IPv6.
    #[inline]
    pub(crate) const fn is_link_local_v6(self) -> bool {
        !self.is_v4() && (self.to_v6().is_unicast_link_local() || self.is_link_local_group())
    }

    const fn is_link_local_group(self) -> bool {
        // Scope in the low half of the second byte: 1 interface-local, 2 link-local (RFC 4291 section 2.7).
        self.0 >> 120 == 0xff && matches!(self.0 >> 112 & 0xf, 1 | 2)
    }

    /// The first `prefix_len` bits, which count within the family, the others zero.
    pub(crate) const fn masked(self, prefix_len: u8) -> Address {
        let len = if self.is_v4() { 96 + prefix_len as u32 } else { prefix_len as u32 };
        let mask = if len == 0 { 0 } else { u128::MAX << 128_u32.saturating_sub(len) };
        Address(self.0 & mask)
    }

    /// How many bits from the first on two addresses have in common.
    pub(crate) const fn common_bits(self, other: Address) -> u32 {
        (self.0 ^ other.0).leading_zeros()
    }
}

impl From<IpAddr> for Address {
    #[inline]
    fn from(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(address) => Address::v4(address),
            IpAddr::V6(address) => Address::v6(address),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_either_family_comes_back_as_it_was() {
        for text in ["0.0.0.0", "255.255.255.255", "10.0.0.1", "::", "::1", "fe80::1", "2001:db8::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Address::from(address).to_ip(), address);
            assert_eq!(Address::from(address).is_v4(), address.is_ipv4());
            assert_eq!(Address::from(address).is_any(), address.is_unspecified());
        }
    }

    #[test]
    fn prefix_is_counted_within_the_family() {
        let masked = |text: &str, len| Address::from(text.parse::<IpAddr>().unwrap()).masked(len).to_ip().to_string();
        assert_eq!(masked("10.1.2.3", 8), "10.0.0.0");
        assert_eq!(masked("10.1.2.3", 32), "10.1.2.3");
        assert_eq!(masked("10.1.2.3", 0), "0.0.0.0");
        assert_eq!(masked("2001:db8::1", 32), "2001:db8::");
        assert_eq!(masked("2001:db8::1", 0), "::");
        assert_eq!(masked("2001:db8::1", 128), "2001:db8::1");
    }
}

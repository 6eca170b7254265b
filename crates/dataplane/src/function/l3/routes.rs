//! What a router is told: routes and neighbours, as data.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The first `bits` bits of `address`; bits behind them are cleared. `None` where an address has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Option<Prefix> {
        let address = match address {
            IpAddr::V4(_) if bits > 32 => return None,
            IpAddr::V6(_) if bits > 128 => return None,
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() & !u32::MAX.unbounded_shr(u32::from(bits))).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::MAX.unbounded_shr(u32::from(bits))).into()),
        };
        Some(Prefix { address, bits })
    }

    /// A single address.
    #[must_use]
    pub const fn host(address: IpAddr) -> Prefix {
        Prefix { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Its lowest address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether it is a single address.
    #[must_use]
    pub fn is_host(self) -> bool {
        self == Prefix::host(self.address)
    }
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// To the link of a port: the destination is the next hop.
    Link {
        /// Number of the port.
        port: usize,
    },
    /// To another router.
    Gateway {
        /// Number of the port.
        port: usize,
        /// The router's address on the link of the port.
        address: IpAddr,
    },
    /// To the router itself.
    ThisHost,
    /// To all hosts of a link (not forwarded: RFC 2644).
    Broadcast,
    /// To nowhere: unreachable, prohibited or discarded.
    Unreachable,
    /// Through an interface that is no port of the forwarder.
    OtherInterface,
}

impl Target {
    /// The port, if it leads through one.
    #[must_use]
    pub const fn port(self) -> Option<usize> {
        match self {
            Target::Link { port } | Target::Gateway { port, .. } => Some(port),
            _ => None,
        }
    }
}

/// Routes, one for each prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    targets: BTreeMap<Prefix, Target>,
}

impl Routes {
    /// Adds a route, in place of one with the same prefix.
    pub fn insert(&mut self, prefix: Prefix, target: Target) {
        self.targets.insert(prefix, target);
    }

    /// Adds a route unless there is one with the same prefix.
    pub fn insert_if_absent(&mut self, prefix: Prefix, target: Target) {
        self.targets.entry(prefix).or_insert(target);
    }

    /// All routes, in order of their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, Target)> {
        self.targets.iter().map(|(prefix, target)| (*prefix, *target))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// Link addresses of hosts and routers on the links of ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    macs: BTreeMap<(usize, IpAddr), [u8; 6]>,
}

impl Neighbours {
    /// Adds a neighbour on the link of `port`, in place of what was known of its address there.
    pub fn insert(&mut self, port: usize, address: IpAddr, mac: [u8; 6]) {
        self.macs.insert((port, address), mac);
    }

    /// The link address of a neighbour.
    #[must_use]
    pub fn mac(&self, port: usize, address: IpAddr) -> Option<[u8; 6]> {
        self.macs.get(&(port, address)).copied()
    }

    /// All neighbours: port, address, link address.
    pub fn iter(&self) -> impl Iterator<Item = (usize, IpAddr, [u8; 6])> {
        self.macs.iter().map(|((port, address), mac)| (*port, *address, *mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_made_has_no_bits_behind_its_length() {
        let prefix = |address: &str, bits| Prefix::new(address.parse().unwrap(), bits);
        assert_eq!(prefix("10.1.2.3", 24), prefix("10.1.2.0", 24));
        assert_eq!(prefix("10.1.2.3", 0), prefix("0.0.0.0", 0));
        assert_eq!(prefix("2001:db8::1", 33).unwrap().address(), "2001:db8::".parse::<IpAddr>().unwrap());
        assert_eq!((prefix("10.1.2.3", 33), prefix("::", 129)), (None, None));
        assert!(prefix("10.1.2.3", 32).unwrap().is_host() && !prefix("::", 32).unwrap().is_host());
    }
}

//! What a router looks up: for each destination at once where a frame leaves, and with which addresses.
//!
//! Neighbours on a link become routes to single addresses, so one look-up finds the next hop and its link address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::prefix_table::{Address, Entry, PrefixTable};
use super::{Interface, Neighbours, Prefix, Routes, Target};
use crate::function::DropCause;

/// What becomes of packets to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Hop {
    Forward { egress: usize, mtu_bytes: usize, source: [u8; 6], destination: [u8; 6] },
    Drop(DropCause),
}

#[derive(Debug, Clone)]
pub(super) struct Fib {
    hops: Vec<Hop>,
    v4: PrefixTable<u32>,
    v6: PrefixTable<u128>,
    /// The router's own IPv4 addresses and the broadcast addresses of its links.
    not_sources: AddressSet,
}

/// The hop of destinations without a route.
const NO_ROUTE: u32 = 0;

impl Fib {
    /// All ports that `routes` name are in `interfaces`.
    pub(super) fn new(interfaces: &[Interface], routes: &Routes, neighbours: &Neighbours) -> Fib {
        let mut builder = Builder { interfaces, hops: vec![Hop::Drop(DropCause::NoRoute)], numbers: HashMap::new() };
        let mut entries = Entries::default();
        let mut targets = vec![None];
        let mut target_entries = Entries::default();
        for (prefix, target) in routes.iter() {
            entries.push(prefix, builder.hop_of(target, neighbours));
            target_entries.push(prefix, targets.len() as u32);
            targets.push(Some(target));
        }
        let (v4, v6) = target_entries.into_tables();
        for (port, address, mac) in neighbours.iter() {
            // A neighbour counts where the way to its address is the link on which it is.
            let target = targets[value_of(&v4, &v6, address) as usize];
            if target == Some(Target::Link { port }) {
                entries.push(Prefix::host(address), builder.forward(port, mac));
            }
        }
        let not_sources =
            AddressSet::new(routes.iter().filter_map(|(prefix, target)| match (prefix.address(), target) {
                (IpAddr::V4(address), Target::ThisHost | Target::Broadcast) if prefix.is_host() => Some(address),
                _ => None,
            }));
        let (v4, v6) = entries.into_tables();
        Fib { hops: builder.hops, v4, v6, not_sources }
    }

    #[inline]
    pub(super) fn hop_v4(&self, destination: Ipv4Addr) -> Hop {
        self.hops[self.v4.value(destination.to_bits()) as usize]
    }

    #[inline]
    pub(super) fn hop_v6(&self, destination: Ipv6Addr) -> Hop {
        self.hops[self.v6.value(destination.to_bits()) as usize]
    }

    /// Whether no other host can have sent from this address: it is the router's own, or that of a broadcast.
    #[inline]
    pub(super) fn is_no_source(&self, address: Ipv4Addr) -> bool {
        self.not_sources.contains(address)
    }
}

fn value_of(v4: &PrefixTable<u32>, v6: &PrefixTable<u128>, address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => v4.value(address.to_bits()),
        IpAddr::V6(address) => v6.value(address.to_bits()),
    }
}

/// Prefixes of both versions with values.
#[derive(Default)]
struct Entries {
    v4: Vec<Entry<u32>>,
    v6: Vec<Entry<u128>>,
}

impl Entries {
    fn push(&mut self, prefix: Prefix, value: u32) {
        let bits = prefix.bits();
        match prefix.address() {
            IpAddr::V4(address) => self.v4.push(Entry { address: address.to_bits(), bits, value }),
            IpAddr::V6(address) => self.v6.push(Entry { address: address.to_bits(), bits, value }),
        }
    }

    fn into_tables(self) -> (PrefixTable<u32>, PrefixTable<u128>) {
        (PrefixTable::new(self.v4, NO_ROUTE), PrefixTable::new(self.v6, NO_ROUTE))
    }
}

/// Numbers hops, equal ones once.
struct Builder<'a> {
    interfaces: &'a [Interface],
    hops: Vec<Hop>,
    numbers: HashMap<Hop, u32>,
}

impl Builder<'_> {
    fn hop_of(&mut self, target: Target, neighbours: &Neighbours) -> u32 {
        let cause = match target {
            Target::Gateway { port, address } => match neighbours.mac(port, address) {
                Some(mac) => return self.forward(port, mac),
                None => DropCause::NoNeighbour,
            },
            Target::Link { .. } => DropCause::NoNeighbour,
            Target::ThisHost => DropCause::ForThisHost,
            Target::Broadcast => DropCause::Broadcast,
            Target::Unreachable => DropCause::Unreachable,
            Target::OtherInterface => DropCause::OtherInterface,
        };
        self.number(Hop::Drop(cause))
    }

    fn forward(&mut self, port: usize, mac: [u8; 6]) -> u32 {
        let Interface { mac: source, mtu_bytes } = self.interfaces[port];
        let mtu_bytes = mtu_bytes as usize;
        self.number(Hop::Forward { egress: port, mtu_bytes, source, destination: mac })
    }

    fn number(&mut self, hop: Hop) -> u32 {
        let hops = &mut self.hops;
        *self.numbers.entry(hop).or_insert_with(|| {
            hops.push(hop);
            hops.len() as u32 - 1
        })
    }
}

/// A few addresses of which most are not: a bit for each value of the last byte answers nearly all questions.
#[derive(Debug, Clone)]
struct AddressSet {
    last_bytes: [u64; 4],
    sorted: Vec<Ipv4Addr>,
}

impl AddressSet {
    fn new(addresses: impl Iterator<Item = Ipv4Addr>) -> AddressSet {
        let mut set = AddressSet { last_bytes: [0; 4], sorted: addresses.collect() };
        set.sorted.sort_unstable();
        for address in &set.sorted {
            let last = address.to_bits().byte(3);
            set.last_bytes[usize::from(last >> 6)] |= 1 << (last & 63);
        }
        set
    }

    #[inline]
    fn contains(&self, address: Ipv4Addr) -> bool {
        let last = address.to_bits().byte(3);
        let is_likely = self.last_bytes[usize::from(last >> 6)] >> (last & 63) & 1 != 0;
        is_likely && self.sorted.binary_search(&address).is_ok()
    }
}

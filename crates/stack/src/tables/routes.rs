//! Routes: the longest prefix wins, then the lowest metric.
//!
//! One hash map over (length, prefix); a lookup tries the lengths that exist, longest first. The cost depends on how many
//! different lengths there are, not on how many routes.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::address::Address;
use crate::hash::KeyedHash;

use super::update::{Route, RouteTable};

/// All routes of all tables.
#[derive(Debug)]
pub(super) struct Routes {
    /// By table, then family.
    prefixes: [[Prefixes; 2]; 3],
}

/// Routes of one table and family.
#[derive(Debug)]
struct Prefixes {
    by_prefix: HashMap<(u8, Address), Vec<Route>, KeyedHash>,
    /// Lengths that exist, longest first.
    lengths: Vec<u8>,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) route: &'a Route,
    /// Another route of the same prefix and metric leads elsewhere.
    pub(super) has_equals: bool,
    /// One of the same prefix, of whatever metric, is for the kernel: it may be for a type of service or for a source.
    pub(super) has_unsupported: bool,
}

impl Routes {
    pub(super) fn new(hash: KeyedHash) -> Routes {
        let prefixes = || Prefixes { by_prefix: HashMap::with_hasher(hash), lengths: Vec::new() };
        Routes { prefixes: std::array::from_fn(|_| [prefixes(), prefixes()]) }
    }

    fn prefixes(&mut self, route: &Route) -> (&mut Prefixes, (u8, Address)) {
        let destination = Address::from(route.destination);
        let prefixes = &mut self.prefixes[route.table as usize][destination.family() as usize];
        (prefixes, (route.prefix_len, destination.masked(route.prefix_len)))
    }

    pub(super) fn add(&mut self, route: Route, replaces: bool) {
        let (prefixes, key) = self.prefixes(&route);
        let routes = prefixes.by_prefix.entry(key).or_default();
        // IPv4 has routes side by side that differ in no more than the preferred source (`ip route append`).
        let is_known = |other: &Route| {
            is_same(other, &route) && (route.destination.is_ipv6() || other.preferred_source == route.preferred_source)
        };
        let at = if replaces { replaced(routes, &route) } else { routes.iter().position(is_known) };
        match at {
            Some(at) => routes[at] = route,
            None => {
                let at = routes.partition_point(|other| other.metric <= route.metric);
                routes.insert(at, route);
            }
        }
        if !prefixes.lengths.contains(&key.0) {
            prefixes.lengths.push(key.0);
            prefixes.lengths.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    pub(super) fn remove(&mut self, route: &Route) -> bool {
        let (prefixes, key) = self.prefixes(route);
        let Some(routes) = prefixes.by_prefix.get_mut(&key) else { return false };
        let exact = routes.iter().position(|other| other == route);
        let Some(at) = exact.or_else(|| routes.iter().position(|other| is_same(other, route))) else { return false };
        routes.remove(at);
        prefixes.forget_empty();
        true
    }

    pub(super) fn remove_where(&mut self, unwanted: impl Fn(&Route) -> bool) {
        for prefixes in self.prefixes.iter_mut().flatten() {
            prefixes.by_prefix.values_mut().for_each(|routes| routes.retain(|route| !unwanted(route)));
            prefixes.forget_empty();
        }
    }

    pub(super) fn forget_preferred_source(&mut self, address: IpAddr) {
        let prefixes = self.prefixes.iter_mut().flatten();
        let routes = prefixes.flat_map(|prefixes| prefixes.by_prefix.values_mut().flatten());
        for route in routes.filter(|route| route.preferred_source == Some(address)) {
            route.preferred_source = None;
        }
    }

    /// The best route of one table that `accepts` takes.
    pub(super) fn find(
        &self,
        table: RouteTable,
        destination: Address,
        accepts: impl Fn(&Route) -> bool,
    ) -> Option<Found<'_>> {
        let prefixes = &self.prefixes[table as usize][destination.family() as usize];
        prefixes.lengths.iter().find_map(|length| {
            let routes = prefixes.by_prefix.get(&(*length, destination.masked(*length)))?;
            let mut accepted = routes.iter().filter(|route| accepts(route));
            let route = accepted.next()?;
            let has_equals = accepted.next().is_some_and(|other| other.metric == route.metric);
            let has_unsupported = routes.iter().any(|route| route.is_unsupported && accepts(route));
            Some(Found { route, has_equals, has_unsupported })
        })
    }

    /// The routes of one table that are for a single address.
    pub(super) fn hosts(&self, table: RouteTable) -> impl Iterator<Item = &Route> {
        let families = self.prefixes[table as usize].iter();
        families.flat_map(|prefixes| prefixes.by_prefix.values().flatten()).filter(|route| {
            let host_bits = if route.destination.is_ipv4() { 32 } else { 128 };
            route.prefix_len == host_bits
        })
    }
}

impl Prefixes {
    fn forget_empty(&mut self) {
        self.by_prefix.retain(|_, routes| !routes.is_empty());
        self.lengths.retain(|length| self.by_prefix.keys().any(|(other, _)| other == length));
    }
}

/// Which of the routes of one prefix another takes the place of: the first of its metric. IPv4 keeps types of service
/// apart (`net/ipv4/fib_trie.c`, `fib_table_insert`), IPv6 those with a gateway (`net/ipv6/ip6_fib.c`, `fib6_add_rt2node`).
fn replaced(routes: &[Route], route: &Route) -> Option<usize> {
    let is_rival = |other: &Route| other.metric == route.metric;
    let has_gateway = |route: &Route| route.gateway.is_some() || route.is_multipath;
    let is_alike = |other: &Route| {
        let has_as_much = route.destination.is_ipv4() || has_gateway(other) == has_gateway(route);
        is_rival(other) && other.is_unsupported == route.is_unsupported && has_as_much
    };
    routes.iter().position(is_alike).or_else(|| routes.iter().position(is_rival))
}

/// Whether two routes of one prefix are the same one, as RTM_DELROUTE means it.
fn is_same(a: &Route, b: &Route) -> bool {
    let identity = |route: &Route| (route.kind, route.metric, route.ifindex, route.gateway, route.is_unsupported);
    identity(a) == identity(b)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn route(destination: u32, prefix_len: u8, ifindex: u32, metric: u32) -> Route {
        let destination = IpAddr::V4(Ipv4Addr::from_bits(destination));
        Route { metric, ..Route::on_link(destination, prefix_len, ifindex) }
    }

    /// The definition: all routes looked at.
    fn slow(routes: &[Route], destination: Address) -> Option<&Route> {
        let matches = |route: &&Route| {
            Address::from(route.destination).masked(route.prefix_len) == destination.masked(route.prefix_len)
        };
        let best = |route: &&Route| (std::cmp::Reverse(route.prefix_len), route.metric);
        routes.iter().filter(matches).min_by_key(best)
    }

    fn any_routes() -> impl Strategy<Value = Vec<Route>> {
        // Few bits, so that prefixes nest and meet.
        let destination = (0..8_u32, 0..8_u32).prop_map(|(high, low)| high << 29 | low);
        let one = (destination, prop_oneof![0..5_u8, 28..33_u8], 1..4_u32, 0..3_u32)
            .prop_map(|(destination, len, ifindex, metric)| route(destination, len, ifindex, metric));
        proptest::collection::vec(one, 0..30)
    }

    proptest! {
        #[test]
        fn route_found_is_that_of_the_longest_prefix(
            routes in any_routes(), gone in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
            high in 0..8_u32, low in 0..8_u32,
        ) {
            let mut table = Routes::new(KeyedHash::new(1));
            let mut kept: Vec<Route> = Vec::new();
            for route in routes {
                let masked = |route: &Route| Address::from(route.destination).masked(route.prefix_len);
                let known = |other: &Route| {
                    is_same(other, &route) && (other.prefix_len, masked(other)) == (route.prefix_len, masked(&route))
                };
                table.add(route.clone(), false);
                if !kept.iter().any(known) {
                    kept.push(route);
                }
            }
            for index in gone {
                if !kept.is_empty() {
                    let route = kept.remove(index.index(kept.len()));
                    prop_assert!(table.remove(&route));
                    prop_assert!(!table.remove(&route));
                }
            }
            let destination = Address::v4(Ipv4Addr::from_bits(high << 29 | low));
            let found = table.find(RouteTable::Main, destination, |_| true);
            let key = |route: &Route| (route.prefix_len, route.metric, route.ifindex);
            prop_assert_eq!(found.map(|found| key(found.route)), slow(&kept, destination).map(key));
        }
    }

    #[test]
    fn equal_metrics_found_are_said_to_be_equals() {
        let mut table = Routes::new(KeyedHash::new(1));
        for (ifindex, metric) in [(1, 10), (2, 10), (3, 5)] {
            table.add(route(0, 0, ifindex, metric), false);
        }
        let any = Address::v4(Ipv4Addr::LOCALHOST);
        let found = table.find(RouteTable::Main, any, |_| true).unwrap();
        assert_eq!((found.route.ifindex, found.has_equals), (3, false));
        let found = table.find(RouteTable::Main, any, |route| route.ifindex != 3).unwrap();
        assert_eq!((found.route.ifindex, found.has_equals), (1, true));
        table.add(route(0, 0, 9, 5), true);
        assert_eq!(table.find(RouteTable::Main, any, |_| true).unwrap().route.ifindex, 9);
    }
}

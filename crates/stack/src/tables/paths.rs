//! Path MTUs of single destinations, as routers reported them to the kernel.
//!
//! The kernel keeps such an MTU beside the route, for one destination (`struct fib_nh_exception`, `struct rt6_exception`), and
//! sends no notification. So the caller asks for it once per destination, and again after an ICMP message. Nearly
//! all datagrams are too short for it to matter: every path carries [`sure_bytes`], and shorter packets need no question.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::address::Address;
use crate::hash::KeyedHash;

/// Destinations that are cached. Beyond that all entries are dropped and asked for again.
const DESTINATIONS_MOST: usize = 1 << 16;
/// The least MTU that the kernel believes: `net.ipv4.route.min_pmtu` as it is by default (`DEFAULT_MIN_PMTU`), and that of IPv6.
const LEAST_BYTES_V4: u32 = 552;
const LEAST_BYTES_V6: u32 = 1280;

/// What the kernel answered about the path to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The longest packet that the path carries, bytes; `None`: no router reported one.
    pub mtu_bytes: Option<u32>,
    /// It is less than the kernel believes, so routers may fragment (`fnhe_mtu_locked`).
    pub is_mtu_locked: bool,
}

impl Path {
    /// The longest packet that is sent without a question, bytes: every path carries it.
    #[must_use]
    pub fn sure_bytes(destination: IpAddr) -> u32 {
        sure_bytes(destination.into())
    }
}

/// The same.
pub(crate) const fn sure_bytes(destination: Address) -> u32 {
    if destination.is_v4() { LEAST_BYTES_V4 } else { LEAST_BYTES_V6 }
}

/// By interface and destination.
#[derive(Debug)]
pub(super) struct Paths {
    known: HashMap<(u32, Address), Path, KeyedHash>,
    /// The destination that a send needs the path MTU of.
    wanted: Option<(u32, Address)>,
}

impl Paths {
    pub(super) fn new(hash: KeyedHash) -> Paths {
        Paths { known: HashMap::with_hasher(hash), wanted: None }
    }

    pub(super) fn get(&self, ifindex: u32, destination: Address) -> Option<Path> {
        self.known.get(&(ifindex, destination)).copied()
    }

    pub(super) const fn want(&mut self, ifindex: u32, destination: Address) {
        self.wanted = Some((ifindex, destination));
    }

    pub(super) const fn take_wanted(&mut self) -> Option<(u32, Address)> {
        self.wanted.take()
    }

    #[inline]
    pub(super) const fn has_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// `true`: flows that cached the former answer, or none, are out of date.
    pub(super) fn learn(&mut self, ifindex: u32, destination: Address, path: Option<Path>) -> bool {
        let key = (ifindex, destination);
        let Some(path) = path else { return self.known.remove(&key).is_some() };
        let is_full = self.known.len() >= DESTINATIONS_MOST && !self.known.contains_key(&key);
        if is_full {
            self.known.clear();
        }
        let before = self.known.insert(key, path);
        is_full || before.unwrap_or_default() != path
    }

    /// Routes changed: reports about the old ones do not hold for the new ones.
    pub(super) fn routes_changed(&mut self) {
        self.known.retain(|_, path| *path == Path::default());
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_learned_make_flows_wrong_where_they_say_something_new() {
        let mut paths = Paths::new(KeyedHash::new(1));
        let there = Address(7);
        let narrow = Path { mtu_bytes: Some(1400), is_mtu_locked: false };
        assert!(!paths.learn(2, there, Some(Path::default())), "no smaller MTU, as was assumed");
        assert!(paths.learn(2, there, Some(narrow)));
        assert!(!paths.learn(2, there, Some(narrow)));
        assert_eq!((paths.get(2, there), paths.get(3, there)), (Some(narrow), None));
        paths.routes_changed();
        assert_eq!(paths.get(2, there), None);
        assert!(!paths.learn(2, there, None) && paths.learn(2, there, Some(narrow)) && paths.learn(2, there, None));
    }

    #[test]
    fn more_destinations_than_are_remembered_all_are_asked_for_anew() {
        let mut paths = Paths::new(KeyedHash::new(1));
        for number in 0..DESTINATIONS_MOST {
            assert!(!paths.learn(2, Address(number as u128), Some(Path::default())));
        }
        assert!(paths.learn(2, Address(u128::MAX), Some(Path::default())), "flows hold what is forgotten");
        assert_eq!(paths.known.len(), 1);
    }
}

//! Which endpoint a datagram is for: the rules of Linux (`net/ipv4/udp.c`, `net/ipv6/udp.c`, 6.x).
//!
//! ```text
//!  unicast                          group, broadcast: each that matches
//!    only endpoint of its port?  -> score it
//!    connected, four values alike  -> first match        connected, four values alike
//!    bound to the destination      -> best score         bound to the destination
//!    bound to no address           -> best score         bound to no address
//! ```
//!
//! Each step is one hash lookup in a bucket that holds more than one endpoint only where endpoints share their address,
//! by SO_REUSEPORT or SO_REUSEADDR. Buckets are in the order of the kernel's chains: the newest first, but an unconnected
//! IPv6 endpoint with SO_REUSEPORT last; among equals the first wins. The step for connected endpoints is that of 6.13
//! (`udp4_lib_lookup4`); before, one of a SO_REUSEPORT group could get what is for a connected endpoint.
//!
//! Not done: BPF programs (SO_ATTACH_REUSEPORT_*, sk_lookup), VRF devices, SO_INCOMING_CPU.

use std::collections::HashMap;

use crate::address::{Address, Family};
use crate::hash::KeyedHash;

use super::endpoint::{Endpoint, Key};
use super::group::Groups;
use super::slab::Slab;

/// The fields of a datagram that decide which endpoint gets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) ifindex: u32,
}

type Bucket = Vec<u32>;

#[derive(Debug)]
pub(crate) struct Demux {
    hash: KeyedHash,
    /// By local port: endpoints there are, and the last one that came. Zeroed pages until used.
    ports: Vec<Port>,
    /// (local, remote, local port, remote port).
    connected: HashMap<(Address, Address, u32), Bucket, KeyedHash>,
    /// (local, local port); also endpoints connected to a host and no port, or whose local address is a group.
    bound: HashMap<(Address, u16), Bucket, KeyedHash>,
    pub(crate) groups: Groups,
}

#[derive(Clone, Copy, Debug, Default)]
struct Port {
    endpoints: u32,
    /// The endpoint, when there is one.
    only: u32,
}

/// Where the tables keep an endpoint.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Connected((Address, Address, u32)),
    Bound([Option<(Address, u16)>; 2]),
}

fn place(key: &Key) -> Place {
    let is_full = key.is_connected() && key.remote_port != 0 && !key.local.is_any() && !key.local.is_multicast();
    if is_full {
        return Place::Connected((key.local, key.remote, ports(key.local_port, key.remote_port)));
    }
    let is_dual = key.local == Address::ANY_V6 && !key.v6_only;
    let second = is_dual.then_some((Address::ANY_V4, key.local_port));
    Place::Bound([Some((key.local, key.local_port)), second])
}

const fn ports(local: u16, remote: u16) -> u32 {
    (local as u32) << 16 | remote as u32
}

impl Demux {
    pub(crate) fn new(hash: KeyedHash) -> Demux {
        Demux {
            hash,
            ports: vec![Port::default(); 1 << 16],
            connected: HashMap::with_hasher(hash),
            bound: HashMap::with_hasher(hash),
            groups: Groups::default(),
        }
    }

    pub(crate) fn insert(&mut self, index: u32, endpoint: &Endpoint) {
        let key = &endpoint.key;
        let goes_last = endpoint.options.reuse_port && key.family == Family::V6;
        match place(key) {
            Place::Connected(key) => self.connected.entry(key).or_default().insert(0, index),
            Place::Bound(keys) => keys.into_iter().flatten().for_each(|key| {
                let bucket = self.bound.entry(key).or_default();
                bucket.insert(if goes_last { bucket.len() } else { 0 }, index);
            }),
        }
        let port = &mut self.ports[usize::from(key.local_port)];
        port.endpoints += 1;
        port.only = index;
    }

    pub(crate) fn remove(&mut self, index: u32, key: &Key, endpoints: &Slab) {
        fn take<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Bucket, KeyedHash>, key: K, index: u32) {
            if let Some(bucket) = map.get_mut(&key) {
                bucket.retain(|other| *other != index);
                if bucket.is_empty() {
                    map.remove(&key);
                }
            }
        }
        match place(key) {
            Place::Connected(key) => take(&mut self.connected, key, index),
            Place::Bound(keys) => keys.into_iter().flatten().for_each(|key| take(&mut self.bound, key, index)),
        }
        let port = &mut self.ports[usize::from(key.local_port)];
        port.endpoints -= 1;
        if port.endpoints == 1 {
            port.only = endpoints.on_port(key.local_port).find(|other| *other != index).unwrap_or(0);
        }
    }

    /// The one endpoint that a unicast datagram is for.
    #[inline(always)]
    pub(crate) fn unicast(&self, incoming: &Incoming, endpoints: &Slab) -> Option<u32> {
        let port = self.ports[usize::from(incoming.destination_port)];
        match port.endpoints {
            0 => None,
            1 => {
                let key = endpoints.key(port.only)?;
                score(key, incoming).map(|_| port.only)
            }
            _ => self.among_many(incoming, endpoints),
        }
    }

    #[inline(never)]
    fn among_many(&self, incoming: &Incoming, endpoints: &Slab) -> Option<u32> {
        let Incoming { source, destination, source_port, destination_port, .. } = *incoming;
        let connected = self.connected.get(&(destination, source, ports(destination_port, source_port)));
        let is_match = |index: &&u32| endpoints.key(**index).is_some_and(|key| score(key, incoming).is_some());
        if let Some(index) = connected.and_then(|bucket| bucket.iter().find(is_match)) {
            return Some(*index);
        }
        let any = if destination.is_v4() { Address::ANY_V4 } else { Address::ANY_V6 };
        [destination, any].into_iter().find_map(|local| {
            let bucket = self.bound.get(&(local, destination_port))?;
            self.best(bucket, incoming, endpoints)
        })
    }

    /// `udp4_lib_lookup2`, `udp6_lib_lookup2`.
    fn best(&self, bucket: &[u32], incoming: &Incoming, endpoints: &Slab) -> Option<u32> {
        let mut best = None;
        let mut best_score = -1;
        for index in bucket {
            let Some(endpoint) = endpoints.at(*index) else { continue };
            let Some(score) = score(&endpoint.key, incoming).filter(|score| *score > best_score) else { continue };
            best = Some(*index);
            best_score = score;
            if endpoint.key.is_connected() || endpoint.group == 0 {
                continue;
            }
            let chosen = self.groups.choose(endpoint.group, self.flow_hash(incoming), endpoints);
            best = chosen.or(best);
            if !self.groups.has_connected(endpoint.group) {
                return best;
            }
        }
        best
    }

    fn flow_hash(&self, incoming: &Incoming) -> u32 {
        let Incoming { source, destination, source_port, destination_port, .. } = *incoming;
        self.hash.spread((source, destination, ports(destination_port, source_port)))
    }

    /// All endpoints that a group or broadcast datagram may be for, before they are asked about their memberships.
    #[inline]
    pub(crate) fn group(&self, incoming: &Incoming, endpoints: &Slab, mut visit: impl FnMut(u32)) {
        let Incoming { source, destination, source_port, destination_port: port, .. } = *incoming;
        if self.ports[usize::from(port)].endpoints == 0 {
            return;
        }
        let any = if destination.is_v4() { Address::ANY_V4 } else { Address::ANY_V6 };
        // One that is bound to a broadcast address may be connected too.
        let connected = self.connected.get(&(destination, source, ports(port, source_port)));
        let bound = [destination, any].map(|local| self.bound.get(&(local, port)));
        for bucket in [connected].into_iter().chain(bound).flatten() {
            for index in bucket {
                if endpoints.key(*index).is_some_and(|key| score(key, incoming).is_some()) {
                    visit(*index);
                }
            }
        }
    }

    /// Whether a bind would be refused with EADDRINUSE: `udp_lib_lport_inuse`.
    pub(crate) fn conflicts(&self, wanted: &Endpoint, endpoints: &Slab) -> bool {
        if self.ports[usize::from(wanted.key.local_port)].endpoints == 0 {
            return false;
        }
        let conflict = |index: u32| {
            let Some(other) = endpoints.at(index) else { return false };
            let may_share = (other.options.reuse_address && wanted.options.reuse_address)
                || (other.options.reuse_port && wanted.options.reuse_port);
            let same_device = other.key.device == 0 || wanted.key.device == 0 || other.key.device == wanted.key.device;
            !may_share && same_device && overlap(&other.key, &wanted.key)
        };
        endpoints.on_port(wanted.key.local_port).any(conflict)
    }
}

/// Whether some datagram could be for both, their ports being equal (`inet_rcv_saddr_equal` with wildcards).
fn overlap(a: &Key, b: &Key) -> bool {
    [Family::V4, Family::V6].into_iter().any(|family| {
        a.takes(family) && b.takes(family) && (a.local.is_any() || b.local.is_any() || a.local == b.local)
    })
}

/// How well an endpoint matches; `None`: not at all. `compute_score` of both families: connected beats bound to a device
/// beats an endpoint of the datagram's own family.
#[inline]
fn score(key: &Key, incoming: &Incoming) -> Option<i32> {
    let family = incoming.destination.family();
    let is_local = key.local_port == incoming.destination_port
        && key.takes(family)
        && (key.local == incoming.destination || key.local.is_any());
    let is_remote = (key.remote.is_any() || key.remote == incoming.source)
        && (key.remote_port == 0 || key.remote_port == incoming.source_port);
    let is_device = key.device == 0 || key.device == incoming.ifindex;
    if !(is_local && is_remote && is_device) {
        return None;
    }
    let own_family = i32::from(key.family == family);
    let matches = [!key.remote.is_any(), key.remote_port != 0, key.device != 0];
    Some(own_family + 4 * matches.into_iter().map(i32::from).sum::<i32>())
}

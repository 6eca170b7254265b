//! What the stack knows of the host: ports, links, addresses, routes, neighbours, groups.
//!
//! All of it comes from the kernel, by [`Update`]s; the kernel stays the one that resolves neighbours, learns routes and
//! joins groups on the wire. Every change that can make a cached next hop wrong raises the generation, and a flow whose
//! generation is another resolves anew: a send costs one comparison.

mod paths;
mod resolve;
mod routes;
mod source;
#[cfg(test)]
mod tests;
mod update;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use nearwire_wire::MacAddress;

pub use paths::Path;
use paths::Paths;
pub(crate) use paths::sure_bytes;
pub(crate) use resolve::{NextHop, Query};
pub use update::{InterfaceAddress, Link, LinkKind, Neighbour, NeighbourState, Route, RouteKind, RouteTable, Update};

use crate::address::{Address, Family};
use crate::hash::KeyedHash;
use routes::Routes;

/// A port of ours, by the order in which they were attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId(pub(crate) u32);

/// What a port takes off the stack's hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// It completes a UDP checksum of which the pseudo-header sum is in the field.
    pub send_checksum: bool,
}

#[derive(Clone, Copy, Debug)]
struct AttachedPort {
    ifindex: u32,
    offers: Offers,
    is_attached: bool,
    /// Of the link, for the receive path: no lookup.
    mac: MacAddress,
    is_up: bool,
}

#[derive(Clone, Copy, Debug)]
struct NeighbourEntry {
    mac: MacAddress,
    state: NeighbourState,
    /// Some flow rests on it.
    is_used: bool,
    is_confirmation_asked: bool,
}

/// What an address that is known is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Own,
    Broadcast,
}

/// A bit that depends on all of an address.
#[inline]
const fn filter_bit(address: Address) -> u64 {
    let half = (address.0 >> 64) as u64 ^ address.0 as u64;
    1 << (half.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// What an IP destination is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestinationClass {
    Own,
    Broadcast,
    Group,
    Other,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Tables {
    generation: u64,
    ports: Vec<AttachedPort>,
    links: HashMap<u32, Link, KeyedHash>,
    /// (parent, VLAN id) to interface.
    vlans: HashMap<(u32, u16), u32, KeyedHash>,
    addresses: Vec<InterfaceAddress>,
    /// Own and broadcast addresses with their interface, 0 for those that are good on any: all but link-local IPv6.
    known: HashMap<(u32, Address), Known, KeyedHash>,
    /// The first own address of each family: that of most packets, known by one comparison.
    likely_own: [Address; 2],
    /// A bit for each known address, by [`filter_bit`]: most other addresses are distinguished without a lookup.
    known_filter: u64,
    routes: Routes,
    neighbours: HashMap<(u32, Address), NeighbourEntry, KeyedHash>,
    /// Groups that the kernel or others joined.
    groups: HashSet<(u32, Address), KeyedHash>,
    /// Groups that endpoints joined, and how many did.
    endpoint_groups: HashMap<(u32, Address), u32, KeyedHash>,
    paths: Paths,
    /// The caller answers questions about paths; otherwise a path without an entry is assumed to carry what interface and route allow.
    asks_paths: bool,
    has_policy_rules: bool,
    stale_used: Vec<(u32, Address)>,
}

impl Tables {
    pub(crate) fn new(hash: KeyedHash, asks_paths: bool) -> Tables {
        let mut tables = Tables {
            // Flows start at 0: nothing resolved yet.
            generation: 1,
            ports: Vec::new(),
            links: HashMap::with_hasher(hash),
            vlans: HashMap::with_hasher(hash),
            addresses: Vec::new(),
            known: HashMap::with_hasher(hash),
            likely_own: [Address::ANY_V4, Address::ANY_V6],
            known_filter: 0,
            routes: Routes::new(hash),
            neighbours: HashMap::with_hasher(hash),
            groups: HashSet::with_hasher(hash),
            endpoint_groups: HashMap::with_hasher(hash),
            paths: Paths::new(hash),
            asks_paths,
            has_policy_rules: false,
            stale_used: Vec::new(),
        };
        tables.refresh_own();
        tables
    }

    /// Changes whenever a next hop may have changed.
    #[inline]
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn attach_port(&mut self, ifindex: u32, offers: Offers) -> PortId {
        let (mac, is_up) = (MacAddress::default(), false);
        self.ports.push(AttachedPort { ifindex, offers, is_attached: true, mac, is_up });
        self.refresh_ports();
        self.generation += 1;
        PortId((self.ports.len() - 1) as u32)
    }

    pub(crate) fn detach_port(&mut self, port: PortId) {
        if let Some(port) = self.ports.get_mut(port.0 as usize) {
            port.is_attached = false;
        }
        self.refresh_ports();
        self.generation += 1;
    }

    /// The interface a port is on.
    pub(crate) fn interface_of(&self, port: PortId) -> Option<u32> {
        self.ports.get(port.0 as usize).filter(|port| port.is_attached).map(|port| port.ifindex)
    }

    /// Takes one event in.
    pub(crate) fn update(&mut self, update: Update) {
        if self.apply(update) {
            self.generation += 1;
        }
    }

    /// Takes a whole new picture in: what is not in it is gone. Ports and what endpoints joined stay.
    pub(crate) fn resync(&mut self, hash: KeyedHash, updates: impl IntoIterator<Item = Update>) {
        let fresh = Tables::new(hash, self.asks_paths);
        let old = std::mem::replace(self, fresh);
        self.generation = old.generation + 1;
        self.ports = old.ports;
        self.endpoint_groups = old.endpoint_groups;
        for update in updates {
            self.apply(update);
        }
        self.refresh_ports();
    }

    /// Neighbours that are in use though stale, each once. The kernel does not see our frames, so whoever feeds the
    /// tables asks it to confirm these (RTM_NEWNEIGH with NTF_USE).
    pub(crate) fn take_stale_neighbour(&mut self) -> Option<(u32, IpAddr)> {
        self.stale_used.pop().map(|(ifindex, address)| (ifindex, address.to_ip()))
    }

    /// The way that a send wanted to know of: interface index and destination.
    pub(crate) fn take_path_question(&mut self) -> Option<(u32, IpAddr)> {
        self.paths.take_wanted().map(|(ifindex, destination)| (ifindex, destination.to_ip()))
    }

    /// Whether [`Tables::take_path_question`] has one.
    #[inline]
    pub(crate) const fn has_path_question(&self) -> bool {
        self.paths.has_wanted()
    }

    /// Cached path MTUs may be out of date: all are asked for again.
    pub(crate) fn forget_paths(&mut self) {
        self.paths.forget();
        self.generation += 1;
    }

    /// What is known of the ways to a destination, by interface.
    pub(crate) fn paths_to(&self, destination: IpAddr) -> impl Iterator<Item = (u32, Path)> {
        // By interface, of which there are few; of destinations there may be thousands.
        let path = move |ifindex: &u32| Some((*ifindex, self.paths.get(*ifindex, destination.into())?));
        self.links.keys().filter_map(path)
    }

    /// `true`: a next hop may have changed.
    fn apply(&mut self, update: Update) -> bool {
        match update {
            Update::NewLink(link) => self.new_link(link),
            Update::DelLink { ifindex } => self.del_link(ifindex),
            Update::NewAddress(address) => {
                let same =
                    |other: &InterfaceAddress| (other.ifindex, other.address) == (address.ifindex, address.address);
                match self.addresses.iter().position(same) {
                    Some(at) => self.addresses[at] = address,
                    None => self.addresses.push(address),
                }
                self.refresh_own();
            }
            Update::DelAddress { ifindex, address } => {
                self.addresses.retain(|other| (other.ifindex, other.address) != (ifindex, address));
                self.routes_lost_with_address(ifindex, address);
                self.refresh_own();
            }
            Update::NewRoute { route, replaces } => {
                self.routes.add(route, replaces);
                self.paths.routes_changed();
                self.refresh_own();
            }
            Update::DelRoute(route) => {
                self.routes.remove(&route);
                self.paths.routes_changed();
                self.refresh_own();
            }
            Update::NewNeighbour(neighbour) => return self.new_neighbour(&neighbour),
            Update::DelNeighbour { ifindex, address } => {
                return self.neighbours.remove(&(ifindex, address.into())).is_some_and(|entry| entry.is_used);
            }
            Update::NewGroup { ifindex, group } => return self.groups.insert((ifindex, group.into())),
            Update::DelGroup { ifindex, group } => return self.groups.remove(&(ifindex, group.into())),
            Update::Path { ifindex, destination, path } => return self.paths.learn(ifindex, destination.into(), path),
            Update::PolicyRules { present } => self.has_policy_rules = present,
        }
        true
    }

    fn new_link(&mut self, link: Link) {
        self.vlans.retain(|_, ifindex| *ifindex != link.ifindex);
        if let LinkKind::Vlan { parent, vlan_id, .. } = link.kind {
            self.vlans.insert((parent, vlan_id), link.ifindex);
        }
        if !link.is_up {
            // For IPv4 the kernel sends no message (`net/ipv4/fib_frontend.c`, `fib_disable_ip`). Local routes stay as long
            // as the address does.
            self.routes.remove_where(|route| route.ifindex == link.ifindex && route.kind != RouteKind::Local);
            self.refresh_own();
        }
        self.links.insert(link.ifindex, link);
        self.refresh_ports();
    }

    fn del_link(&mut self, ifindex: u32) {
        self.links.remove(&ifindex);
        self.vlans.retain(|(parent, _), vlan| *parent != ifindex && *vlan != ifindex);
        self.addresses.retain(|address| address.ifindex != ifindex);
        self.neighbours.retain(|(at, _), _| *at != ifindex);
        self.groups.retain(|(at, _)| *at != ifindex);
        self.routes.remove_where(|route| route.ifindex == ifindex);
        self.refresh_own();
        self.refresh_ports();
    }

    /// What an address takes with it without a message of the kernel: the last IPv4 address of an interface all its
    /// IPv4 routes (`net/ipv4/fib_frontend.c`, `fib_inetaddr_event`), and an address that is nowhere else the IPv4 routes
    /// of the main table that prefer it (`fib_sync_down_addr`). IPv6 routes only stop to prefer it (`net/ipv6/route.c`,
    /// `fib6_remove_prefsrc`).
    fn routes_lost_with_address(&mut self, ifindex: u32, address: IpAddr) {
        let is_elsewhere = self.addresses.iter().any(|other| other.address == address);
        if address.is_ipv4() {
            let is_here = |other: &InterfaceAddress| other.ifindex == ifindex && other.address.is_ipv4();
            let was_last = !self.addresses.iter().any(is_here);
            self.routes.remove_where(|route| {
                let is_followed = !is_elsewhere && route.table == RouteTable::Main;
                let lost_preferred = is_followed && route.preferred_source == Some(address);
                lost_preferred || (was_last && route.ifindex == ifindex && route.destination.is_ipv4())
            });
        } else if !is_elsewhere {
            self.routes.forget_preferred_source(address);
        }
    }

    fn new_neighbour(&mut self, neighbour: &Neighbour) -> bool {
        let key = (neighbour.ifindex, Address::from(neighbour.address));
        let fresh =
            NeighbourEntry { mac: neighbour.mac, state: neighbour.state, is_used: false, is_confirmation_asked: false };
        let Some(old) = self.neighbours.insert(key, fresh) else {
            // Flows may have failed for want of it.
            return true;
        };
        let is_same = old.state.is_usable() == neighbour.state.is_usable() && old.mac == neighbour.mac;
        let became_stale = neighbour.state == NeighbourState::Stale && old.state != NeighbourState::Stale;
        if is_same && !(became_stale && old.is_used) {
            if let Some(entry) = self.neighbours.get_mut(&key) {
                entry.is_used = old.is_used;
                entry.is_confirmation_asked = old.is_confirmation_asked && neighbour.state == NeighbourState::Stale;
            }
            return false;
        }
        old.is_used || !old.state.is_usable()
    }

    fn refresh_ports(&mut self) {
        for port in &mut self.ports {
            let link = self.links.get(&port.ifindex);
            port.mac = link.map(|link| link.mac).unwrap_or_default();
            port.is_up = port.is_attached && link.is_some_and(|link| link.is_up);
        }
    }

    fn refresh_own(&mut self) {
        self.known.clear();
        let limited = std::iter::once(Address::v4(Ipv4Addr::BROADCAST));
        let of_addresses = self.addresses.iter().filter_map(|address| address.broadcast.map(Address::v4));
        let routes = self.routes.hosts(RouteTable::Local).filter(|route| route.kind == RouteKind::Broadcast);
        let of_routes = routes.map(|route| Address::from(route.destination));
        for broadcast in limited.chain(of_addresses).chain(of_routes) {
            self.known.insert((0, broadcast), Known::Broadcast);
        }
        for address in self.addresses.iter().filter(|address| !address.is_tentative) {
            let own = Address::from(address.address);
            self.known.insert((if own.is_link_local_v6() { address.ifindex } else { 0 }, own), Known::Own);
        }
        for (family, likely) in [Family::V4, Family::V6].into_iter().zip(&mut self.likely_own) {
            let known = self.addresses.iter().map(|address| (address, Address::from(address.address)));
            let mut own = known.filter(|(address, own)| !address.is_tentative && !own.is_link_local_v6());
            let any = if family == Family::V4 { Address::ANY_V4 } else { Address::ANY_V6 };
            *likely = own.find(|(_, own)| own.family() == family).map_or(any, |(_, own)| own);
        }
        self.known_filter = self.known.keys().fold(0, |filter, (_, address)| filter | filter_bit(*address));
    }

    #[inline]
    fn known(&self, ifindex: u32, address: Address) -> Option<Known> {
        if self.known_filter & filter_bit(address) == 0 {
            return None;
        }
        self.known.get(&(if address.is_link_local_v6() { ifindex } else { 0 }, address)).copied()
    }

    fn is_own(&self, ifindex: u32, address: Address) -> bool {
        self.known(ifindex, address) == Some(Known::Own)
    }

    fn is_own_anywhere(&self, address: Address) -> bool {
        if address.is_link_local_v6() {
            return self.known.keys().any(|(_, known)| *known == address);
        }
        self.is_own(0, address)
    }

    fn is_broadcast(&self, address: Address) -> bool {
        self.known(0, address) == Some(Known::Broadcast)
    }

    /// What the destination of a packet that came in on `ifindex` is.
    #[inline]
    pub(crate) fn class(&self, ifindex: u32, destination: Address) -> DestinationClass {
        if self.likely_own[destination.family() as usize] == destination && !destination.is_any() {
            return DestinationClass::Own;
        }
        if destination.is_multicast() {
            return DestinationClass::Group;
        }
        match self.known(ifindex, destination) {
            Some(Known::Own) => DestinationClass::Own,
            Some(Known::Broadcast) => DestinationClass::Broadcast,
            None => DestinationClass::Other,
        }
    }

    /// Whether no packet may come from this address over the wire.
    #[inline]
    pub(crate) fn is_martian_v4(&self, ifindex: u32, source: Address, destination: Address) -> bool {
        let to_limited_broadcast = destination == Address::v4(Ipv4Addr::BROADCAST);
        source::is_martian_v4(source.to_v4(), to_limited_broadcast) || self.known(ifindex, source).is_some()
    }

    #[inline]
    pub(crate) fn is_joined(&self, ifindex: u32, group: Address) -> bool {
        let key = (ifindex, group);
        self.endpoint_groups.contains_key(&key) || self.groups.contains(&key)
    }

    pub(crate) fn endpoint_joined(&mut self, ifindex: u32, group: Address) {
        *self.endpoint_groups.entry((ifindex, group)).or_default() += 1;
        self.generation += 1;
    }

    pub(crate) fn endpoint_left(&mut self, ifindex: u32, group: Address) {
        if let Some(count) = self.endpoint_groups.get_mut(&(ifindex, group)) {
            *count -= 1;
            if *count == 0 {
                self.endpoint_groups.remove(&(ifindex, group));
            }
        }
        self.generation += 1;
    }

    /// Interface index and hardware address of a port that is up.
    #[inline]
    pub(crate) fn receiving(&self, port: PortId) -> Option<(u32, MacAddress)> {
        self.ports.get(port.0 as usize).filter(|port| port.is_up).map(|port| (port.ifindex, port.mac))
    }

    /// The VLAN interface above `ifindex`, when it is up.
    pub(crate) fn vlan_above(&self, ifindex: u32, vlan_id: u16) -> Option<(u32, MacAddress)> {
        let link = self.links.get(self.vlans.get(&(ifindex, vlan_id))?)?;
        link.is_up.then_some((link.ifindex, link.mac))
    }
}

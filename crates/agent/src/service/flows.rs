//! The flows that are open, and what becomes of them when a further socket asks for the same.
//!
//! The kernel lets two sockets have one address in two cases: both have `SO_REUSEPORT` and one user; or both have `SO_REUSEADDR`, and the one
//! bound last gets the datagrams. Of the former those that are bound alike are a group, among which it divides datagrams, as the steering
//! table does among their shares. A connected one gets what its peer sends: its flow is exact, and others' bound flows beside it are no
//! conflict. It also lets two processes have one socket. A flow whose socket
//! was closed ends when the kernel says so ([`crate::closed`]); should the next socket be faster, the flow must not keep it from its port.
//!
//! What is sent to a multicast group comes to every socket at the port, so no port divides it: with such a flow, sockets of several
//! programs at the port are the kernel's.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::bound::BoundSocket;
use crate::message::{Addresses, Cause};
use crate::shadow::Shadow;

/// A flow that a program has, or wants.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) program: u32,
    pub(super) uid: u32,
    pub(super) share: u32,
    pub(super) ifindex: u32,
    pub(super) addresses: Addresses,
    pub(super) shadow: Shadow,
    /// The kernel has its frames until others at its address have their flows ([`super::strangers`]).
    pub(super) is_held: bool,
}

impl Flow {
    /// Whether the kernel could give a datagram of the flow to this socket. Interfaces do not count: a socket that is bound to a VLAN
    /// interface gets frames of the device below it.
    pub(super) fn meets(&self, socket: &BoundSocket) -> bool {
        let local = socket.local.ip().to_canonical();
        let (own, is_both) = (self.addresses.local.ip(), self.addresses.both_families);
        let is_of_both = socket.local.is_ipv6() && local.is_unspecified() && !socket.v6_only;
        let is_family = own.is_ipv4() == local.is_ipv4() || is_both || is_of_both;
        let is_peer = match (self.addresses.remote, socket.remote) {
            // Connected, it gets what its peer sends instead of all that are not.
            (Some(_), None) => false,
            (Some(own), Some(other)) => (own.ip(), own.port()) == (other.ip().to_canonical(), other.port()),
            (None, _) => true,
        };
        socket.local.port() == self.addresses.local.port()
            && is_family
            && (own == local || own.is_unspecified() || local.is_unspecified())
            && is_peer
    }

    /// Whether flows of two programs at a port, whose sockets may share it, cannot be steered as the kernel divides datagrams.
    fn conflicts(&self, other: &Flow) -> bool {
        match (self.addresses.remote, other.addresses.remote) {
            (None, None) => {
                let is_group = self.shadow.is_alike(&other.shadow) && self.uid == other.uid;
                let is_copied = [self, other].iter().any(|flow| flow.addresses.local.ip().is_multicast());
                overlap(&self.shadow.addresses, &other.shadow.addresses) && (!is_group || is_copied)
            }
            (Some(_), Some(_)) => self.addresses == other.addresses,
            _ => false,
        }
    }
}

/// Why a flow ends without its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Another program uses the socket.
    SocketShared,
    /// Another socket has the address.
    AddressShared,
}

impl Why {
    /// `pid` is the other program's process.
    pub(super) fn cause(self, pid: u32) -> Cause {
        match self {
            Why::SocketShared => Cause::SocketShared { pid },
            Why::AddressShared => Cause::AddressShared { pid },
        }
    }
}

/// Why a flow is not opened: the other program, and what it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) program: u32,
    pub(super) why: Why,
}

/// What becomes of a flow that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is opened, and these, whose sockets must be closed, are ended.
    Open { stale: Vec<(u32, Why)> },
    /// It is the kernel's, and so are these.
    Kernel { others: Vec<(u32, Why)>, cause: Conflict },
    /// The program has it.
    OpenAlready { flow: u32 },
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    by_number: BTreeMap<u32, Flow>,
    /// Numbers of the flows of one address on one interface.
    by_address: HashMap<(u32, Addresses), Vec<u32>>,
    /// The same for all addresses of a port.
    by_port: HashMap<(u32, u16), Vec<u32>>,
    by_cookie: HashMap<u64, Vec<u32>>,
    by_share: HashMap<u32, Vec<u32>>,
    /// Those whose sockets may share their address, by port.
    shared: BTreeMap<u16, Vec<u32>>,
    last: u32,
}

/// The next number for something that a program opens. They come again after 2^32; one that is in use is passed over.
pub(super) fn number_after<T>(last: u32, in_use: &BTreeMap<u32, T>) -> u32 {
    let mut number = last.wrapping_add(1).max(1);
    while in_use.contains_key(&number) {
        number = number.wrapping_add(1).max(1);
    }
    number
}

impl Flows {
    pub(super) fn get(&self, flow: u32) -> Option<&Flow> {
        self.by_number.get(&flow)
    }

    pub(super) fn of_share(&self, share: u32) -> Vec<u32> {
        self.by_share.get(&share).cloned().unwrap_or_default()
    }

    pub(super) fn of_socket(&self, cookie: u64) -> Vec<u32> {
        self.by_cookie.get(&cookie).cloned().unwrap_or_default()
    }

    /// The sockets of flows.
    pub(super) fn cookies(&self) -> impl Iterator<Item = u64> {
        self.by_cookie.keys().copied()
    }

    pub(super) fn count(&self, share: u32) -> usize {
        self.by_share.get(&share).map_or(0, Vec::len)
    }

    pub(super) fn insert(&mut self, flow: Flow) -> u32 {
        self.last = number_after(self.last, &self.by_number);
        self.put_in(self.last, flow);
        self.last
    }

    /// Whether a share has a flow of the same addresses at its port.
    pub(super) fn has_same(&self, flow: &Flow) -> bool {
        let of_address = self.by_address.get(&(flow.ifindex, flow.addresses));
        let mut open = self.numbers(of_address).filter(|(_, other)| !other.is_held);
        open.any(|(_, other)| other.share == flow.share)
    }

    /// Whether a flow at the port is open, and not held, for a socket that is bound to the same address.
    pub(super) fn has_open_beside(&self, flow: &Flow) -> bool {
        let bound = |flow: &Flow| (flow.shadow.addresses.local, flow.shadow.is_ipv6, flow.shadow.ifindex);
        let of_port = self.numbers(self.by_port.get(&(flow.ifindex, flow.addresses.local.port())));
        let mut open = of_port.filter(|(_, other)| !other.is_held && other.addresses.remote.is_none());
        open.any(|(_, other)| bound(other) == bound(flow))
    }

    /// Whether there is a flow of the same addresses on its interface.
    pub(super) fn has_address(&self, flow: &Flow) -> bool {
        self.by_address.contains_key(&(flow.ifindex, flow.addresses))
    }

    /// The flows of these addresses that are not held.
    pub(super) fn open_of(&self, ifindex: u32, addresses: &Addresses) -> impl Iterator<Item = &Flow> {
        let of_address = self.numbers(self.by_address.get(&(ifindex, *addresses)));
        of_address.map(|(_, flow)| flow).filter(|flow| !flow.is_held)
    }

    /// The flows of a socket on an interface that are not held.
    pub(super) fn open_on(&self, cookie: u64, ifindex: u32) -> impl Iterator<Item = &Flow> {
        let of_socket = self.numbers(self.by_cookie.get(&cookie)).map(|(_, flow)| flow);
        of_socket.filter(move |flow| flow.ifindex == ifindex && !flow.is_held)
    }

    /// The bound flows at a port whose sockets may share it, one of each address on each interface.
    pub(super) fn bound_at(&self, port: u16) -> Vec<&Flow> {
        let mut known = HashSet::new();
        let bound = self.numbers(self.shared.get(&port)).map(|(_, flow)| flow);
        bound.filter(|flow| flow.addresses.remote.is_none() && known.insert((flow.ifindex, flow.addresses))).collect()
    }

    /// The flows of the same addresses that are held.
    pub(super) fn held_beside(&self, flow: &Flow) -> Vec<u32> {
        let of_address = self.numbers(self.by_address.get(&(flow.ifindex, flow.addresses)));
        of_address.filter(|(_, other)| other.is_held).map(|(number, _)| number).collect()
    }

    pub(super) fn has_socket(&self, cookie: u64) -> bool {
        self.by_cookie.contains_key(&cookie)
    }

    /// The ports at which there are sockets that may share their address.
    pub(super) fn shared_ports(&self) -> Vec<u16> {
        self.shared.keys().copied().collect()
    }

    /// The flows of these sockets.
    pub(super) fn shared(&self) -> Vec<u32> {
        self.shared.values().flatten().copied().collect()
    }

    /// Those at a port.
    pub(super) fn shared_at(&self, port: u16) -> impl Iterator<Item = (u32, &Flow)> {
        self.numbers(self.shared.get(&port))
    }

    /// Under a number that is free.
    pub(super) fn put_in(&mut self, number: u32, flow: Flow) {
        self.by_address.entry((flow.ifindex, flow.addresses)).or_default().push(number);
        self.by_port.entry((flow.ifindex, flow.addresses.local.port())).or_default().push(number);
        self.by_cookie.entry(flow.shadow.cookie).or_default().push(number);
        self.by_share.entry(flow.share).or_default().push(number);
        if flow.shadow.may_share() {
            self.shared.entry(flow.addresses.local.port()).or_default().push(number);
        }
        self.by_number.insert(number, flow);
    }

    pub(super) fn take_out(&mut self, number: u32) -> Option<Flow> {
        let flow = self.by_number.remove(&number)?;
        leave(&mut self.by_address, &(flow.ifindex, flow.addresses), number);
        leave(&mut self.by_port, &(flow.ifindex, flow.addresses.local.port()), number);
        leave(&mut self.by_cookie, &flow.shadow.cookie, number);
        leave(&mut self.by_share, &flow.share, number);
        if let Some(numbers) = self.shared.get_mut(&flow.addresses.local.port()) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.shared.remove(&flow.addresses.local.port());
            }
        }
        Some(flow)
    }

    /// What becomes of a flow that a program wants for its socket.
    pub(super) fn judge(&self, wanted: &Flow) -> Verdict {
        let of_socket = || self.numbers(self.by_cookie.get(&wanted.shadow.cookie));
        let is_same = |flow: &Flow| (flow.ifindex, flow.addresses) == (wanted.ifindex, wanted.addresses);
        if let Some((flow, _)) = of_socket().find(|(_, flow)| flow.program == wanted.program && is_same(flow)) {
            return Verdict::OpenAlready { flow };
        }
        let others: Vec<_> = of_socket().filter(|(_, flow)| flow.program != wanted.program).collect();
        if let Some((_, first)) = others.first() {
            let cause = Conflict { program: first.program, why: Why::SocketShared };
            return Verdict::Kernel {
                others: others.iter().map(|(flow, _)| (*flow, Why::SocketShared)).collect(),
                cause,
            };
        }
        let is_other = |(_, flow): &(u32, &Flow)| flow.shadow.cookie != wanted.shadow.cookie;
        let of_port = self.numbers(self.by_port.get(&(wanted.ifindex, wanted.addresses.local.port())));
        let others = of_port.filter(is_other);
        if !wanted.shadow.may_share() {
            // Bound alone: the kernel would not have bound it while another socket had the address.
            let stale = others.filter(|(_, flow)| overlap(&flow.addresses, &wanted.addresses));
            return Verdict::Open { stale: stale.map(|(flow, _)| (flow, Why::AddressShared)).collect() };
        }
        // Among its own sockets the program decides as the kernel does.
        let others = others.filter(|(_, flow)| flow.program != wanted.program && wanted.conflicts(flow));
        let others: Vec<_> = others.collect();
        let Some((_, first)) = others.first() else { return Verdict::Open { stale: Vec::new() } };
        let cause = Conflict { program: first.program, why: Why::AddressShared };
        Verdict::Kernel { others: others.iter().map(|(flow, _)| (*flow, Why::AddressShared)).collect(), cause }
    }

    fn numbers<'a>(&'a self, numbers: Option<&'a Vec<u32>>) -> impl Iterator<Item = (u32, &'a Flow)> {
        let flow = |number: &u32| self.by_number.get(number).map(|flow| (*number, flow));
        numbers.into_iter().flatten().filter_map(flow)
    }
}

/// Whether two sockets with these local addresses could get the same datagram.
fn overlap(a: &Addresses, b: &Addresses) -> bool {
    let (one, other) = (a.local.ip(), b.local.ip());
    if one.is_ipv4() != other.is_ipv4() {
        return a.both_families || b.both_families;
    }
    one == other || one.is_unspecified() || other.is_unspecified()
}

/// Takes a number from those of a key.
pub(super) fn leave<K: std::hash::Hash + Eq, N: PartialEq>(map: &mut HashMap<K, Vec<N>>, key: &K, number: N) {
    if let Some(numbers) = map.get_mut(key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            map.remove(key);
        }
    }
}

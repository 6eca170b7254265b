//! The flows that are open, and what becomes of them when a further socket asks for the same.
//!
//! The kernel lets two sockets have one address in two cases: both have `SO_REUSEPORT` and one user, a group among which it divides
//! datagrams; or both have `SO_REUSEADDR`, and the one bound last gets them. It also lets two processes have one socket. A flow whose socket
//! was closed ends when the kernel says so ([`crate::closed`]); should the next socket be faster, the flow must not keep it from its port.

use std::collections::{BTreeMap, HashMap};

use crate::message::{Addresses, Cause, FlowOwner};
use crate::shadow::Shadow;

/// A flow that a program has, or wants.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) program: u32,
    pub(super) uid: u32,
    pub(super) share: u32,
    pub(super) ifindex: u32,
    pub(super) addresses: Addresses,
    pub(super) owner: FlowOwner,
    pub(super) shadow: Shadow,
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
    last: u32,
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

    pub(super) fn all(&self) -> Vec<u32> {
        self.by_number.keys().copied().collect()
    }

    pub(super) fn count(&self, share: u32) -> usize {
        self.by_share.get(&share).map_or(0, Vec::len)
    }

    pub(super) fn insert(&mut self, flow: Flow) -> u32 {
        // Numbers come again after 2^32 flows; one that is in use is passed over.
        self.last = self.last.wrapping_add(1).max(1);
        while self.by_number.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1).max(1);
        }
        self.put_in(self.last, flow);
        self.last
    }

    /// Whether a share has a flow of the same addresses.
    pub(super) fn has_same(&self, flow: &Flow) -> bool {
        let of_address = self.by_address.get(&(flow.ifindex, flow.addresses));
        self.numbers(of_address).any(|(_, other)| (other.share, other.owner) == (flow.share, flow.owner))
    }

    /// Under a number that is free.
    pub(super) fn put_in(&mut self, number: u32, flow: Flow) {
        self.by_address.entry((flow.ifindex, flow.addresses)).or_default().push(number);
        self.by_port.entry((flow.ifindex, flow.addresses.local.port())).or_default().push(number);
        self.by_cookie.entry(flow.shadow.cookie).or_default().push(number);
        self.by_share.entry(flow.share).or_default().push(number);
        self.by_number.insert(number, flow);
    }

    pub(super) fn take_out(&mut self, number: u32) -> Option<Flow> {
        let flow = self.by_number.remove(&number)?;
        leave(&mut self.by_address, &(flow.ifindex, flow.addresses), number);
        leave(&mut self.by_port, &(flow.ifindex, flow.addresses.local.port()), number);
        leave(&mut self.by_cookie, &flow.shadow.cookie, number);
        leave(&mut self.by_share, &flow.share, number);
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
        if !wanted.shadow.reuse_address && !wanted.shadow.reuse_port {
            // Bound alone: the kernel would not have bound it while another socket had the address.
            let of_port = self.numbers(self.by_port.get(&(wanted.ifindex, wanted.addresses.local.port())));
            let stale = of_port.filter(is_other).filter(|(_, flow)| overlap(&flow.addresses, &wanted.addresses));
            return Verdict::Open { stale: stale.map(|(flow, _)| (flow, Why::AddressShared)).collect() };
        }
        // Among its own sockets the program decides as the kernel does.
        let group = |flow: &Flow| {
            flow.program == wanted.program
                || flow.shadow.reuse_port && wanted.shadow.reuse_port && flow.uid == wanted.uid
        };
        let of_address = self.numbers(self.by_address.get(&(wanted.ifindex, wanted.addresses)));
        let others: Vec<_> = of_address.filter(is_other).filter(|(_, flow)| !group(flow)).collect();
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

fn leave<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Vec<u32>>, key: &K, number: u32) {
    if let Some(numbers) = map.get_mut(key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            map.remove(key);
        }
    }
}

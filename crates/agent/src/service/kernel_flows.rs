//! Exact flows that are the kernel's: those of connected sockets without a flow, beside bound flows of shares.
//!
//! The kernel gives what its peer sends to a connected socket, and to none of those at its port that are not connected. A bound flow would take
//! it from a connected socket that has no flow of its own: of a program that is not accelerated, one that several programs use, one that went
//! back to the kernel. So an exact flow with the kernel as its owner stands beside each bound flow that such a socket is met by. It costs one
//! entry of the table and is never wrong: whatever the kernel gets, it gives to the right socket. So it may come early and go late.
//!
//! The agent learns of such sockets from their programs ([`Request::Announce`](crate::message::Request::Announce)), from flows that end while their
//! sockets stay, and from the kernel, whenever that is asked who is bound to a port ([`super::strangers`]). They go with the socket.
//!
//! A user can have many connected sockets and few programs. Those beyond the limits get no entry, and the bound flows that would take what is
//! theirs end instead.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::flows::Flow;
use super::{Judge, ProgramId, Service};
use crate::bound::BoundSocket;
use crate::message::{Addresses, Cause, Limited};
use crate::ports::{FlowOwner, Ports};
use crate::shadow::Shadow;

/// An eighth of the exact flows that an interface's table takes of a family.
const OF_USER_MOST: u32 = 1 << 13;
/// Half of them, for all users.
const MOST: u32 = 1 << 15;
/// Of a user without programs: as many as a rule gives flows by default.
const OF_STRANGER_MOST: u32 = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KernelFlows {
    /// By cookie.
    sockets: HashMap<u64, Known>,
    /// Their cookies, by local port.
    at_port: HashMap<u16, Vec<u64>>,
    /// The cookies for which each stands, by interface and addresses.
    standing: HashMap<(u32, Addresses), Vec<u64>>,
    of_user: HashMap<u32, u32>,
}

/// A socket with an entry at least.
#[derive(Debug, Clone)]
struct Known {
    socket: BoundSocket,
    addresses: Addresses,
    /// Indices of the interfaces on which its flow stands.
    ifindexes: Vec<u32>,
}

/// The exact flow of a connected socket. `None`: it is not connected, or to a host and no port.
pub(super) fn exact(socket: &BoundSocket) -> Option<Addresses> {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let remote = socket.remote.filter(|remote| remote.port() != 0).map(plain)?;
    Some(Addresses { local: plain(socket.local), remote: Some(remote), both_families: false })
}

/// Whose peer is an address of this host: its datagrams pass no interface.
#[derive(Default)]
pub(super) struct LocalPeers(HashMap<IpAddr, bool>);

impl LocalPeers {
    pub(super) fn has(&mut self, ports: &impl Ports, socket: &BoundSocket) -> bool {
        let Some(remote) = socket.remote else { return false };
        let address = remote.ip().to_canonical();
        *self.0.entry(address).or_insert_with(|| ports.has_address(address, socket.ifindex))
    }
}

/// The interfaces on which one of these bound flows meets a socket.
fn interfaces(bound: &[&Flow], socket: &BoundSocket) -> Vec<u32> {
    let mut ifindexes: Vec<u32> = bound.iter().filter(|flow| flow.meets(socket)).map(|flow| flow.ifindex).collect();
    ifindexes.sort_unstable();
    ifindexes.dedup();
    ifindexes
}

/// What the kernel would say of a socket with a flow.
fn bound_as(shadow: &Shadow, uid: u32) -> BoundSocket {
    let Shadow { cookie, addresses: Addresses { local, remote, .. }, ifindex, .. } = *shadow;
    BoundSocket { cookie, inode: 0, uid, local, remote, ifindex, v6_only: false }
}

impl KernelFlows {
    /// The sockets with an entry, by cookie.
    pub(super) fn sockets(&self) -> impl Iterator<Item = u64> {
        self.sockets.keys().copied()
    }

    fn at(&self, port: u16) -> Vec<u64> {
        self.at_port.get(&port).cloned().unwrap_or_default()
    }

    fn has(&self, cookie: u64, ifindex: u32) -> bool {
        self.sockets.get(&cookie).is_some_and(|known| known.ifindexes.contains(&ifindex))
    }

    /// The sockets for which a flow stands.
    fn cookies(&self, ifindex: u32, addresses: &Addresses) -> &[u64] {
        self.standing.get(&(ifindex, *addresses)).map(Vec::as_slice).unwrap_or_default()
    }

    fn enter(&mut self, socket: &BoundSocket, addresses: Addresses, ifindex: u32) {
        let known = self.sockets.entry(socket.cookie).or_insert_with(|| {
            self.at_port.entry(addresses.local.port()).or_default().push(socket.cookie);
            Known { socket: *socket, addresses, ifindexes: Vec::new() }
        });
        known.ifindexes.push(ifindex);
        self.standing.entry((ifindex, addresses)).or_default().push(socket.cookie);
        *self.of_user.entry(socket.uid).or_default() += 1;
    }

    /// Its flow, where no other socket wants it.
    fn leave(&mut self, cookie: u64, ifindex: u32) -> Option<Addresses> {
        let known = self.sockets.get_mut(&cookie)?;
        let at = known.ifindexes.iter().position(|other| *other == ifindex)?;
        known.ifindexes.swap_remove(at);
        let (addresses, uid, is_last) = (known.addresses, known.socket.uid, known.ifindexes.is_empty());
        if is_last {
            self.sockets.remove(&cookie);
            super::flows::leave(&mut self.at_port, &addresses.local.port(), cookie);
        }
        if let Some(count) = self.of_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.of_user.remove(&uid);
            }
        }
        super::flows::leave(&mut self.standing, &(ifindex, addresses), cookie);
        (!self.standing.contains_key(&(ifindex, addresses))).then_some(addresses)
    }
}

impl<P: Ports, J: Judge> Service<P, J> {
    /// A user's programs, or others of his, have so many at most.
    fn kernel_flows_most(&self, uid: u32) -> u32 {
        let of_user = self.programs.values().filter(|program| program.caller.uid == uid);
        of_user.map(|program| program.allowance.flows).max().unwrap_or(OF_STRANGER_MOST).min(OF_USER_MOST)
    }

    fn one_more_kernel_flow(&self, uid: u32) -> Result<(), Cause> {
        let most = self.kernel_flows_most(uid);
        let of_user = self.kernel_flows.of_user.get(&uid).copied().unwrap_or(0);
        super::at_most(u64::from(of_user) + 1, most.into(), Limited::Flows {})?;
        let all: u32 = self.kernel_flows.of_user.values().sum();
        super::at_most(u64::from(all) + 1, MOST.into(), Limited::Flows {})
    }

    pub(super) fn is_paused(&self, flow: &Flow) -> bool {
        self.shares.get(&flow.share).is_some_and(|share| share.is_paused)
    }

    /// Whether frames of a socket go to a share of an interface's port.
    fn is_served_on(&self, cookie: u64, ifindex: u32) -> bool {
        self.flows.open_on(cookie, ifindex).any(|flow| !self.is_paused(flow))
    }

    /// Has the kernel get what is for a connected socket that has no flow on an interface, and that a bound flow meets there.
    fn leave_to_kernel(&mut self, socket: &BoundSocket, ifindex: u32) -> Result<(), Cause> {
        let Some(addresses) = exact(socket) else { return Ok(()) };
        let is_known = |known: &Known| known.addresses == addresses;
        if self.kernel_flows.sockets.get(&socket.cookie).is_some_and(|known| !is_known(known)) {
            self.forget_kernel_flows(socket.cookie);
        }
        if self.kernel_flows.has(socket.cookie, ifindex) {
            return Ok(());
        }
        if self.flows.open_of(ifindex, &addresses).any(|flow| !self.is_paused(flow)) {
            // Another socket with the same peer has it, until it is found to be one of two.
            return Ok(());
        }
        self.one_more_kernel_flow(socket.uid)?;
        if self.kernel_flows.cookies(ifindex, &addresses).is_empty() {
            self.ports.open_flow(ifindex, &addresses, FlowOwner::Kernel)?;
        }
        self.kernel_flows.enter(socket, addresses, ifindex);
        Ok(())
    }

    /// A program told of a socket: where it is connected and without a flow, the kernel gets what is for it.
    pub(super) fn note_connection(&mut self, id: ProgramId, shadow: &Shadow) {
        self.forget_other_kernel_flows(shadow);
        let Some(uid) = self.uid_of(id).filter(|_| shadow.addresses.remote.is_some()) else { return };
        let socket = bound_as(shadow, uid);
        let mut local = LocalPeers::default();
        for ifindex in interfaces(&self.flows.bound_at(socket.local.port()), &socket) {
            let is_wanted = !self.is_served_on(socket.cookie, ifindex) && !local.has(&self.ports, &socket);
            if is_wanted && self.leave_to_kernel(&socket, ifindex).is_err() {
                self.strangers.look_now(self.now);
            }
        }
    }

    /// What the kernel said of the sockets at a port. Those that are connected and can have no entry.
    pub(super) fn follow_connected(
        &mut self,
        port: u16,
        sockets: &[BoundSocket],
        local: &mut LocalPeers,
    ) -> HashSet<u64> {
        let now: HashMap<u64, Addresses> =
            sockets.iter().filter_map(|socket| Some((socket.cookie, exact(socket)?))).collect();
        for cookie in self.kernel_flows.at(port) {
            if self.kernel_flows.sockets.get(&cookie).is_some_and(|known| now.get(&cookie) != Some(&known.addresses)) {
                self.forget_kernel_flows(cookie);
            }
        }
        let bound = self.flows.bound_at(port);
        let is_to_be = |socket: &BoundSocket, ifindex: u32| {
            !self.kernel_flows.has(socket.cookie, ifindex) && !self.is_served_on(socket.cookie, ifindex)
        };
        let connected = sockets.iter().filter(|socket| now.contains_key(&socket.cookie));
        let new = connected.flat_map(|socket| {
            let ifindexes = interfaces(&bound, socket).into_iter();
            ifindexes.filter(|ifindex| is_to_be(socket, *ifindex)).map(|ifindex| (*socket, ifindex)).collect::<Vec<_>>()
        });
        let mut refused = HashSet::new();
        for (socket, ifindex) in new.collect::<Vec<_>>() {
            if !local.has(&self.ports, &socket) && self.leave_to_kernel(&socket, ifindex).is_err() {
                refused.insert(socket.cookie);
            }
        }
        refused
    }

    /// A bound flow is about to be opened: connected sockets that it meets get their entries before. Whether all did.
    pub(super) fn leave_beside(&mut self, wanted: &Flow, bound: &[BoundSocket], local: &mut LocalPeers) -> bool {
        let mut all = true;
        for socket in bound.iter().filter(|socket| exact(socket).is_some() && wanted.meets(socket)) {
            let is_own = socket.cookie == wanted.shadow.cookie || self.is_served_on(socket.cookie, wanted.ifindex);
            let is_there = is_own || self.kernel_flows.has(socket.cookie, wanted.ifindex);
            if !is_there && !local.has(&self.ports, socket) {
                all &= self.leave_to_kernel(socket, wanted.ifindex).is_ok();
            }
        }
        all
    }

    /// Has a share's port get a flow. What the kernel had of it for the same socket, goes over.
    pub(super) fn give_to_share(&mut self, flow: &Flow) -> Result<(), Cause> {
        let owner = FlowOwner::Share(flow.share);
        match self.kernel_flows.cookies(flow.ifindex, &flow.addresses) {
            [] => self.ports.open_flow(flow.ifindex, &flow.addresses, owner),
            [cookie] if *cookie == flow.shadow.cookie => {
                self.ports.move_flow(flow.ifindex, &flow.addresses, FlowOwner::Kernel, owner)?;
                self.kernel_flows.leave(flow.shadow.cookie, flow.ifindex);
                Ok(())
            }
            // Another socket with the same peer, and the kernel prefers one of them.
            _ => Err(Cause::Stranger {}),
        }
    }

    /// Takes a flow from a share's port. What others' bound flows would get instead is the kernel's, unless the socket is closed.
    pub(super) fn take_from_share(&mut self, flow: &Flow, is_closed: bool) {
        let owner = FlowOwner::Share(flow.share);
        let socket = bound_as(&flow.shadow, flow.uid);
        let bound = self.flows.bound_at(flow.addresses.local.port());
        let is_met = flow.addresses.remote.is_some() && interfaces(&bound, &socket).contains(&flow.ifindex);
        let is_wanted = is_met && !is_closed && !LocalPeers::default().has(&self.ports, &socket);
        if !is_wanted || self.one_more_kernel_flow(flow.uid).is_err() {
            return self.ports.close_flow(flow.ifindex, &flow.addresses, owner);
        }
        if self.ports.move_flow(flow.ifindex, &flow.addresses, owner, FlowOwner::Kernel).is_ok() {
            self.kernel_flows.enter(&socket, flow.addresses, flow.ifindex);
        } else {
            self.ports.close_flow(flow.ifindex, &flow.addresses, owner);
        }
    }

    /// A bound flow was taken out: what it met and no other does needs no entry.
    pub(super) fn end_kernel_flows_beside(&mut self, ended: &Flow) {
        if ended.addresses.remote.is_some() || self.flows.has_address(ended) {
            return;
        }
        let port = ended.addresses.local.port();
        let bound = self.flows.bound_at(port);
        let is_met = |cookie: &u64| {
            let known = self.kernel_flows.sockets.get(cookie);
            known.is_some_and(|known| interfaces(&bound, &known.socket).contains(&ended.ifindex))
        };
        let over: Vec<u64> = self.kernel_flows.at(port).into_iter().filter(|cookie| !is_met(cookie)).collect();
        for cookie in over {
            self.end_kernel_flow(cookie, ended.ifindex);
        }
    }

    /// It was closed, or is connected to somebody else.
    pub(super) fn forget_kernel_flows(&mut self, cookie: u64) {
        let ifindexes = self.kernel_flows.sockets.get(&cookie).map(|known| known.ifindexes.clone());
        for ifindex in ifindexes.unwrap_or_default() {
            self.end_kernel_flow(cookie, ifindex);
        }
    }

    /// A socket that was read again may be connected to somebody else than before.
    pub(super) fn forget_other_kernel_flows(&mut self, shadow: &Shadow) {
        let is_other = |known: &Known| {
            (known.addresses.local, known.addresses.remote) != (shadow.addresses.local, shadow.addresses.remote)
        };
        if self.kernel_flows.sockets.get(&shadow.cookie).is_some_and(is_other) {
            self.forget_kernel_flows(shadow.cookie);
        }
    }

    fn end_kernel_flow(&mut self, cookie: u64, ifindex: u32) {
        if let Some(addresses) = self.kernel_flows.leave(cookie, ifindex) {
            self.ports.close_flow(ifindex, &addresses, FlowOwner::Kernel);
        }
    }
}

//! Ports without interfaces, for tests and simulations: they keep what they were told, and a share's descriptor is of an empty file.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearwire_frames::steering::ExactFlow;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{Finished, FlowOwner, Opened, Ports, Wanted};
use crate::message::{Addresses, Cause, Text};
use crate::shadow::is_own;

/// What the ports were told; clones are the same ports, so that a test can look while an agent has them.
#[derive(Debug, Clone)]
pub struct InMemoryPorts {
    state: Arc<Mutex<State>>,
    news: Arc<OwnedFd>,
    finishes: Arc<OwnedFd>,
}

/// See [`InMemoryPorts::hold`].
#[derive(Debug)]
pub struct Hold<'a> {
    _state: MutexGuard<'a, State>,
}

#[derive(Debug, Default)]
struct State {
    interfaces: Vec<String>,
    shares: BTreeMap<u32, Wanted>,
    /// With the index of the interface.
    flows: Vec<(u32, Addresses, FlowOwner)>,
    /// With the index of the interface and the share.
    connections: Vec<(u32, ExactFlow, u32)>,
    /// Connections that are listened for, and whether a frame came.
    hearing: Vec<(u32, ExactFlow, bool)>,
    /// Connections whose far end was told that they are no more.
    ended: Vec<ExactFlow>,
    lost: Vec<(u32, Cause)>,
    are_peers_elsewhere: bool,
    /// Opening takes until [`InMemoryPorts::finish`], and so does asking for times.
    is_slow: bool,
    unfinished: Vec<Unfinished>,
    finished: Vec<Finished>,
}

#[derive(Debug)]
enum Unfinished {
    Share(Wanted),
    Times(u32),
}

impl State {
    fn open_share(&mut self, wanted: &Wanted) -> Result<Opened, Cause> {
        let place = self.interfaces.iter().position(|name| *name == wanted.interface);
        let interface = Text::cut(&wanted.interface);
        let ifindex = place.ok_or(Cause::InterfaceGone { interface })? as u32 + 1;
        let refused = |error: std::io::Error| Cause::Port { words: Text::cut(&error.to_string()) };
        let memory = memfd_create("share", MemfdFlags::CLOEXEC).map_err(|errno| refused(errno.into()))?;
        let mut memory = std::fs::File::from(memory);
        let description = format!("share {} of {}", wanted.share, wanted.interface).into_bytes();
        memory.write_all(&description).map_err(refused)?;
        self.shares.insert(wanted.share, wanted.clone());
        let memory_bytes = wanted.memory_bytes.min(wanted.memory_most_bytes);
        Ok(Opened { description, descriptors: vec![memory.into()], memory_bytes, ifindex, carrier_within_ms: 0 })
    }

    fn want_times(&self, share: u32) -> Result<(), Cause> {
        self.shares.get(&share).map(drop).ok_or(Cause::NoSuchShare { share })
    }
}

impl InMemoryPorts {
    /// With these interfaces, whose indices are 1, 2 and so on.
    ///
    /// # Panics
    /// No descriptor is left.
    #[must_use]
    pub fn new(interfaces: &[&str]) -> InMemoryPorts {
        let interfaces = interfaces.iter().map(ToString::to_string).collect();
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor is left");
        let state = Arc::new(Mutex::new(State { interfaces, ..State::default() }));
        InMemoryPorts { state, news: Arc::new(event()), finishes: Arc::new(event()) }
    }

    /// To open a share, and to ask for times, takes until [`InMemoryPorts::finish`] from now on, as with a driver that sets itself up anew.
    pub fn be_slow(&self) {
        self.state().is_slow = true;
    }

    /// How much was begun and is not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.state().unfinished.len()
    }

    /// What was begun is done.
    pub fn finish(&self) {
        let mut state = self.state();
        for begun in std::mem::take(&mut state.unfinished) {
            let finished = match begun {
                Unfinished::Share(wanted) => Finished::Share(wanted.share, state.open_share(&wanted)),
                Unfinished::Times(share) => Finished::Times(share, state.want_times(share)),
            };
            state.finished.push(finished);
        }
        drop(state);
        // The counter cannot overflow here.
        let _ = rustix::io::write(&*self.finishes, &1u64.to_ne_bytes());
    }

    /// The connections that are open, with the share.
    #[must_use]
    pub fn connections(&self) -> Vec<(ExactFlow, u32)> {
        self.state().connections.iter().map(|(_, flow, share)| (*flow, *share)).collect()
    }

    /// A frame comes of all connections that are listened for; how many they are.
    pub fn hear(&self) -> usize {
        let mut state = self.state();
        state.hearing.iter_mut().for_each(|(.., is_heard)| *is_heard = true);
        state.hearing.len()
    }

    /// The connections whose far end was told that they are no more.
    #[must_use]
    pub fn ended_connections(&self) -> Vec<ExactFlow> {
        self.state().ended.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shares that are open.
    #[must_use]
    pub fn shares(&self) -> Vec<u32> {
        self.state().shares.keys().copied().collect()
    }

    /// The flows of shares that are open, with the share.
    #[must_use]
    pub fn flows(&self) -> Vec<(u32, Addresses)> {
        let of_share = |(_, ends, owner): &(u32, Addresses, FlowOwner)| match owner {
            FlowOwner::Share(share) => Some((*share, *ends)),
            FlowOwner::Kernel => None,
        };
        self.state().flows.iter().filter_map(of_share).collect()
    }

    /// The exact flows that are the kernel's.
    #[must_use]
    pub fn kernel_flows(&self) -> Vec<Addresses> {
        let state = self.state();
        let of_kernel = state.flows.iter().filter(|(.., owner)| *owner == FlowOwner::Kernel);
        of_kernel.map(|(_, ends, _)| *ends).collect()
    }

    /// Keeps whoever calls the ports waiting until it is dropped: an agent reads nothing meanwhile.
    #[must_use]
    pub fn hold(&self) -> Hold<'_> {
        Hold { _state: self.state() }
    }

    /// No address is this host's from now on, so that sockets in one namespace are peers on a wire.
    pub fn have_peers_elsewhere(&self) {
        self.state().are_peers_elsewhere = true;
    }

    /// Has an interface go, with what is on it.
    pub fn remove(&self, interface: &str) {
        let mut state = self.state();
        state.interfaces.retain(|name| name != interface);
        let gone: Vec<u32> =
            state.shares.values().filter(|wanted| wanted.interface == interface).map(|wanted| wanted.share).collect();
        let cause = Cause::InterfaceGone { interface: Text::cut(interface) };
        state.lost.extend(gone.into_iter().map(|share| (share, cause.clone())));
        drop(state);
        // The counter cannot overflow here.
        let _ = rustix::io::write(&*self.news, &1u64.to_ne_bytes());
    }
}

impl Ports for InMemoryPorts {
    /// Sockets of a test are all its own, and those of a child that it starts for a moment.
    fn holders_of(&self, _: u64) -> Vec<u32> {
        Vec::new()
    }

    fn open_share(&mut self, wanted: &Wanted) -> Result<Option<Opened>, Cause> {
        let mut state = self.state();
        if state.is_slow {
            state.unfinished.push(Unfinished::Share(wanted.clone()));
            return Ok(None);
        }
        state.open_share(wanted).map(Some)
    }

    fn close_share(&mut self, share: u32) {
        let mut state = self.state();
        let is_it = |begun: &mut Unfinished| matches!(begun, Unfinished::Share(wanted) if wanted.share == share);
        let was_begun = state.unfinished.extract_if(.., is_it).count() > 0;
        let is_of_it = |finished: &mut Finished| matches!(finished, Finished::Share(of, _) if *of == share);
        let was_finished = state.finished.extract_if(.., is_of_it).count() > 0;
        let was_open = state.shares.remove(&share).is_some();
        assert!(was_open || was_begun || was_finished, "share {share} is open");
        state.flows.retain(|(.., owner)| *owner != FlowOwner::Share(share));
    }

    fn open_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) -> Result<(), Cause> {
        let mut state = self.state();
        match owner {
            FlowOwner::Share(share) => assert!(state.shares.contains_key(&share), "share {share} is open"),
            FlowOwner::Kernel => assert!(flow.remote.is_some(), "{flow:?} is exact"),
        }
        let is_same = |open: &(u32, Addresses, FlowOwner)| (open.0, open.1) == (ifindex, *flow);
        let is_open = |open: &&(u32, Addresses, FlowOwner)| is_same(open) && (flow.remote.is_some() || open.2 == owner);
        assert!(state.flows.iter().find(is_open).is_none(), "{flow:?} is not open: {:?}", state.flows);
        state.flows.push((ifindex, *flow, owner));
        Ok(())
    }

    fn open_connection(&mut self, ifindex: u32, flow: ExactFlow, share: u32) -> Result<bool, Cause> {
        self.state().connections.push((ifindex, flow, share));
        Ok(true)
    }

    fn close_connection(&mut self, ifindex: u32, flow: ExactFlow, share: u32) {
        self.state().connections.retain(|open| *open != (ifindex, flow, share));
    }

    fn hear_connection(&mut self, ifindex: u32, flow: ExactFlow) -> Result<(), Cause> {
        self.state().hearing.push((ifindex, flow, false));
        Ok(())
    }

    fn has_heard(&self, ifindex: u32, flow: ExactFlow) -> Option<bool> {
        Some(self.state().hearing.contains(&(ifindex, flow, true)))
    }

    fn stop_hearing(&mut self, ifindex: u32, flow: ExactFlow) {
        self.state().hearing.retain(|(of, heard, _)| (*of, *heard) != (ifindex, flow));
    }

    fn end_connection(&mut self, flow: ExactFlow) {
        self.state().ended.push(flow);
    }

    fn move_flow(&mut self, ifindex: u32, flow: &Addresses, from: FlowOwner, to: FlowOwner) -> Result<(), Cause> {
        self.close_flow(ifindex, flow, from);
        self.open_flow(ifindex, flow, to)
    }

    fn close_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) {
        let mut state = self.state();
        let place = state.flows.iter().position(|open| *open == (ifindex, *flow, owner));
        state.flows.remove(place.unwrap_or_else(|| panic!("{owner:?} has {flow:?}")));
    }

    fn want_times(&mut self, share: u32) -> Result<bool, Cause> {
        let mut state = self.state();
        if state.is_slow {
            state.unfinished.push(Unfinished::Times(share));
            return Ok(false);
        }
        state.want_times(share).map(|()| true)
    }

    fn has_address(&self, address: IpAddr, ifindex: u32) -> bool {
        !self.state().are_peers_elsewhere && is_own(address, ifindex)
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.news.as_fd())
    }

    fn finishes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.finishes.as_fd())
    }

    fn take_finished(&mut self) -> Vec<Finished> {
        let mut counter = [0; 8];
        // Nothing to read is nothing new.
        let _ = rustix::io::read(&*self.finishes, &mut counter);
        std::mem::take(&mut self.state().finished)
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        let mut counter = [0; 8];
        // Nothing to read is nothing new.
        let _ = rustix::io::read(&*self.news, &mut counter);
        std::mem::take(&mut self.state().lost)
    }
}

//! AF_XDP ports: one for each interface that programs have shares of, open as long as there is one.
//!
//! The agent has the port's first share, with no flow, and never reads from it. Each program's share is handed over
//! ([`XdpPort::hand_over`]), and taken back when the program is gone ([`XdpPort::recover`]). All shares of a port have its packet memory in
//! common; they are of one user, which the agent sees to.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearwire_frames::PortError;
use nearwire_frames::engine_port::locks_generic_rings;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{
    Overflow, Side, Steer, TimesWanted, XdpConfig, XdpMode, XdpPort, candidates, fill_frames as ring_frames,
};
use nearwire_frames::steering::{Owner, SteeringTable};
use nearwire_sys::bpf::program_name;
use nearwire_sys::netlink::add_membership;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::{FlowOwner, Opened, Ports, Wanted};
use crate::message::{Addresses, Cause, Text};

/// Shares of a port, the agent's among them: 64 programs, and some that have several engines. Each has send buffers in packet memory,
/// 10 MiB for all of them.
const SHARES: u32 = 80;
const TX_FRAMES: u32 = 64;
/// Receive buffers of all queues where the program does not say how much memory it wants.
const MEMORY_BYTES: u64 = 16 << 20;
const FILL_FRAMES_LEAST: u32 = 256;
const FILL_FRAMES_MOST: u32 = 4096;
/// A program that does not read keeps its ring's buffers from the others. Shorter rings would give bursts to the kernel; how much of its ring a share
/// may fill, so that all together leave some, the port decides when it is handed over.
const RINGS_FILL: u32 = 16;
/// `RTNLGRP_LINK`.
const LINK_NEWS: u32 = 1;
/// The kernel ends a killed agent's connections and its name before its programs on interfaces. So long after its start, an agent waits
/// for those of the last one to go.
const PREDECESSOR_ENDS_WITHIN: Duration = Duration::from_secs(2);
const PREDECESSOR_ASKED_FOR_EVERY: Duration = Duration::from_millis(2);
/// Names of our programs begin so.
const OWN_PROGRAM: &str = "nw_";

/// The ports of the calling thread's network namespace.
#[derive(Debug)]
pub struct XdpPorts {
    ports: BTreeMap<String, Held>,
    /// Interface and number of each share.
    shares: BTreeMap<u32, (String, u32)>,
    links: OwnedFd,
    /// Until then the agent's predecessor may still be there.
    young_until: Instant,
}

#[derive(Debug)]
struct Held {
    port: XdpPort,
    ifindex: u32,
}

fn refused(error: &PortError) -> Cause {
    Cause::Port { words: Text::cut(&error.to_string()) }
}

impl XdpPorts {
    /// Without ports.
    ///
    /// # Errors
    /// The kernel does not tell of links.
    pub fn new() -> io::Result<XdpPorts> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let links = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&links, &SocketAddrNetlink::new(0, 0))?;
        add_membership(&links, LINK_NEWS)?;
        let young_until = Instant::now() + PREDECESSOR_ENDS_WITHIN;
        Ok(XdpPorts { ports: BTreeMap::new(), shares: BTreeMap::new(), links, young_until })
    }

    /// The table of an interface that there is a share of.
    fn table_of(&self, ifindex: u32) -> Result<SteeringTable, Cause> {
        let is_on = |(name, number): &(String, u32)| {
            let held = self.ports.get(name).filter(|held| held.ifindex == ifindex)?;
            held.port.steering_of(*number)
        };
        self.shares.values().find_map(is_on).ok_or(Cause::OtherInterface { ifindex })
    }

    fn owner_of(&self, owner: FlowOwner) -> Result<Owner, Cause> {
        match owner {
            FlowOwner::Share(share) => {
                let (_, number) = self.shares.get(&share).ok_or(Cause::NoSuchShare { share })?;
                Ok(Owner::Share(*number))
            }
            FlowOwner::Kernel => Ok(Owner::Kernel),
        }
    }

    /// Waits until the last agent's program is off an interface.
    fn await_predecessor(&self, interface: &str) {
        let program = || InterfaceFacts::read(interface).ok()?.program;
        let is_own = |id| program_name(id).is_ok_and(|name| name.starts_with(OWN_PROGRAM));
        while Instant::now() < self.young_until && program().is_some_and(|program| is_own(program.program_id)) {
            std::thread::sleep(PREDECESSOR_ASKED_FOR_EVERY);
        }
    }

    /// Closes a port that nobody has a share of.
    fn settle(&mut self, interface: &str) {
        if !self.shares.values().any(|(name, _)| name == interface) {
            self.ports.remove(interface);
        }
    }
}

impl Held {
    fn open(wanted: &Wanted) -> Result<Held, Cause> {
        let facts = InterfaceFacts::read(&wanted.interface).map_err(|error| refused(&error))?;
        let mut first = None;
        for config in ways(&facts) {
            match XdpPort::open(&sized(config, &facts, wanted.memory_bytes)) {
                Ok(port) => return Ok(Held { port, ifindex: facts.ifindex }),
                Err(error) => first = first.or(Some(refused(&error))),
            }
        }
        Err(first.unwrap_or(Cause::InterfaceGone { interface: Text::cut(&wanted.interface) }))
    }

    /// Whether only one socket of a queue may get frames.
    fn takes_one_share(&self) -> bool {
        self.port.config().mode == XdpMode::Generic && !locks_generic_rings()
    }
}

/// The ways to open an interface, the likely fastest first, but last those by which only one share could get frames.
fn ways(facts: &InterfaceFacts) -> Vec<XdpConfig> {
    let mut ways: Vec<_> = candidates(facts, Side::Near, Steer::Filters).into_iter().map(|way| way.config).collect();
    // One socket a queue is what the port has in any case.
    ways.dedup_by_key(|config| (config.mode, config.busy_poll_us));
    if !locks_generic_rings() {
        ways.sort_by_key(|config| config.mode == XdpMode::Generic);
    }
    ways
}

fn sized(config: XdpConfig, facts: &InterfaceFacts, memory_bytes: u64) -> XdpConfig {
    let memory_bytes = if memory_bytes == 0 { MEMORY_BYTES } else { memory_bytes };
    let frames = memory_bytes / u64::from(facts.rx_queues.max(1)) / u64::from(config.frame_size_bytes);
    let frames = u32::try_from(frames).unwrap_or(u32::MAX).clamp(FILL_FRAMES_LEAST, FILL_FRAMES_MOST);
    let fill_frames = 1 << frames.ilog2();
    let fill_frames = match config.mode {
        // The device receives into them: never fewer than its ring takes.
        XdpMode::ZeroCopy => ring_frames(facts, config.mode, fill_frames),
        XdpMode::NativeCopy | XdpMode::Generic => fill_frames,
    };
    let queues = facts.rx_queues.max(1);
    XdpConfig {
        rx_queues: (0..queues).collect(),
        tx_queue: config.tx_queue.min(queues - 1),
        separate_tx_socket: false,
        shares: SHARES,
        hands_over: true,
        overflow: Overflow::Kernel,
        fill_frames,
        // The agent's own share has no flows.
        rx_ring_slots: 16,
        share_ring_slots: (fill_frames / RINGS_FILL).max(16),
        tx_frames: TX_FRAMES,
        prepared_frames: 0,
        // To collapse small pages takes the kernel 6 to 30 ms a queue, which the first program's first call waits for.
        huge_pages: false,
        ..config
    }
}

/// The memory of a port's queues: every second descriptor, as far as there are pairs.
fn memory_bytes(descriptors: &[OwnedFd]) -> u64 {
    let memory = descriptors.chunks_exact(2).map(|pair| &pair[0]);
    let size =
        |memory: &OwnedFd| rustix::fs::fstat(memory).map_or(0, |facts| u64::try_from(facts.st_size).unwrap_or(0));
    memory.map(size).sum()
}

impl Ports for XdpPorts {
    fn open_share(&mut self, wanted: &Wanted) -> Result<Opened, Cause> {
        let name = &wanted.interface;
        let is_new = !self.ports.contains_key(name);
        if is_new {
            self.await_predecessor(name);
            self.ports.insert(name.clone(), Held::open(wanted)?);
        }
        let held = self.ports.get_mut(name).ok_or(Cause::NoSuchShare { share: wanted.share })?;
        let ifindex = held.ifindex;
        if held.takes_one_share() && self.shares.values().any(|(of, _)| of == name) {
            let words = format!(
                "{name} is in generic mode, in which this kernel does not lock the fill ring that programs share (before Linux 6.15), \
                 and a program has it"
            );
            return Err(Cause::Port { words: Text::cut(&words) });
        }
        let handed = match held.port.hand_over() {
            Ok(handed) => handed,
            Err(error) => {
                self.settle(name);
                return Err(refused(&error));
            }
        };
        let memory_bytes = if is_new { memory_bytes(&handed.fds) } else { 0 };
        self.shares.insert(wanted.share, (name.clone(), handed.number));
        Ok(Opened { description: handed.description, descriptors: handed.fds, memory_bytes, ifindex })
    }

    fn close_share(&mut self, share: u32) {
        let Some((interface, number)) = self.shares.remove(&share) else { return };
        if let Some(held) = self.ports.get_mut(&interface) {
            // What the kernel refuses to take out of the maps is taken out before the number is another's.
            let _ = held.port.recover(number);
        }
        self.settle(&interface);
    }

    fn open_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) -> Result<(), Cause> {
        let (table, owner) = (self.table_of(ifindex)?, self.owner_of(owner)?);
        let filters = flow.filters();
        for (at, filter) in filters.iter().enumerate() {
            if let Err(error) = table.add_for(*filter, owner) {
                // Those that were added are taken out again; one that the kernel refuses goes with the share.
                filters[..at].iter().for_each(|filter| drop(table.remove_for(*filter, owner)));
                return Err(refused(&error));
            }
        }
        Ok(())
    }

    fn move_flow(&mut self, ifindex: u32, flow: &Addresses, from: FlowOwner, to: FlowOwner) -> Result<(), Cause> {
        let table = self.table_of(ifindex)?;
        let (from, to) = (self.owner_of(from)?, self.owner_of(to)?);
        let filters = flow.filters();
        for (at, filter) in filters.iter().enumerate() {
            if let Err(error) = table.move_for(*filter, from, to) {
                filters[..at].iter().for_each(|filter| drop(table.move_for(*filter, to, from)));
                return Err(refused(&error));
            }
        }
        Ok(())
    }

    fn close_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) {
        let (Ok(table), Ok(owner)) = (self.table_of(ifindex), self.owner_of(owner)) else { return };
        // What the kernel refuses to take out goes with the share, or the port.
        flow.filters().into_iter().for_each(|filter| drop(table.remove_for(filter, owner)));
    }

    fn want_times(&mut self, share: u32) -> Result<(), Cause> {
        let (name, _) = self.shares.get(&share).ok_or(Cause::NoSuchShare { share })?;
        let held = self.ports.get_mut(name).ok_or(Cause::NoSuchShare { share })?;
        held.port.want_times(TimesWanted::Kernel);
        held.port.no_kernel_times().map_or(Ok(()), |error| Err(refused(error)))
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.links.as_fd())
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        let mut bytes = [0; 64];
        // What it says does not count, as links are looked at; some may have been lost.
        while !matches!(recv(&self.links, &mut bytes[..], RecvFlags::empty()), Err(errno) if errno != Errno::NOBUFS) {}
        let is_there = |name: &str, held: &Held| {
            InterfaceFacts::read(name).is_ok_and(|facts| facts.ifindex == held.ifindex && facts.up)
        };
        let lost: Vec<&String> =
            self.ports.iter().filter(|(name, held)| !is_there(name, held)).map(|(name, _)| name).collect();
        let of_lost = self.shares.iter().filter(|(_, (name, _))| lost.contains(&name));
        of_lost.map(|(share, (name, _))| (*share, Cause::InterfaceGone { interface: Text::cut(name) })).collect()
    }
}

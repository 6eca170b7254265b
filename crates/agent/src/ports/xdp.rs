//! AF_XDP ports: one for each interface that programs have shares of, open as long as there is one, or some seconds more (`thread`).
//!
//! The agent has the port's first share, with no flow, and never reads from it. Each program's share is handed over
//! ([`XdpPort::hand_over`](nearwire_frames::ports::xdp::XdpPort::hand_over)), and taken back when the program is gone
//! ([`XdpPort::recover`](nearwire_frames::ports::xdp::XdpPort::recover)). All shares of a port have its packet memory in common; they are of
//! one user, which the agent sees to.
//!
//! A thread for each interface has its port (`thread`), so that nobody else waits for a driver. Here is what the loop needs of the shares.

mod rest;
mod size;
mod thread;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nearwire_frames::engine_port::locks_generic_rings;
use nearwire_frames::ports::xdp::{XdpMode, XdpPort, await_carrier, prepare_memory};
use nearwire_frames::steering::{ExactFlow, Filter, Owner, SteeringTable};
use nearwire_frames::{Port, PortError};
use nearwire_sys::netlink::add_membership;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use self::thread::{Given, Held, PortThread, Teller, Told, What, why_no_shares};
use super::{Finished, FlowOwner, Opened, Ports, Wanted};
use crate::message::{Addresses, Cause, Text};
use crate::packet_path::PacketPath;
use crate::shadow::{ConnectedShadow, may_bind_to};

/// `RTNLGRP_LINK`.
const LINK_NEWS: u32 = 1;
/// The kernel ends a killed agent's connections and its name before its programs on interfaces. So long after its start, an agent waits
/// for those of the last one to go.
const PREDECESSOR_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The ports of the calling thread's network namespace.
#[derive(Debug)]
pub struct XdpPorts {
    /// By interface.
    threads: BTreeMap<String, PortThread>,
    next_thread: u32,
    shares: BTreeMap<u32, Share>,
    /// Interfaces of shares that are being opened.
    opening: BTreeMap<u32, String>,
    teller: Teller,
    told: Receiver<Told>,
    /// Interfaces whose port is served no more, with the reason.
    lost: Vec<(String, Cause)>,
    links: OwnedFd,
    packet_path: PacketPath,
    /// Until then the agent's predecessor may still be there.
    young_until: Instant,
}

#[derive(Debug)]
struct Share {
    interface: String,
    ifindex: u32,
    /// At the port.
    number: u32,
    table: SteeringTable,
}

fn refused(error: &PortError) -> Cause {
    Cause::Port { words: Text::cut(&error.to_string()) }
}

/// Opens a port on an interface of the calling thread's network namespace as an agent would, and a share of it for this process; closes both, and
/// says in which mode they were and what the share was.
///
/// # Errors
/// The port or the share cannot be opened, or the link does not come back.
pub fn try_share(interface: &str) -> Result<(XdpMode, String), PortError> {
    if let Some(words) = why_no_shares() {
        return Err(PortError::ShareRefused { interface: interface.to_owned(), words: words.to_owned() });
    }
    let mut held = Held::open(interface, 0, 0)?;
    let handed = held.port.hand_over()?;
    let share = XdpPort::from_handed(&handed.description, handed.fds)?;
    let mode = share.config().mode;
    await_carrier(interface, mode, held.port.link_is_due_within())?;
    Ok((mode, share.describe()))
}

/// Has a thread find what the first port needs, while the program that wants it starts: its packet memory, and what the kernel's types tell (5 MB that are
/// read and searched).
pub fn prepare() {
    let find = || {
        // Where it cannot be found now, the port looks itself.
        let _ = prepare_memory(size::PREPARED_BYTES);
        let _ = locks_generic_rings();
    };
    let _ = std::thread::Builder::new().name("nearwire-prepare".to_owned()).spawn(find);
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
        let (tells, told) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(XdpPorts {
            threads: BTreeMap::new(),
            next_thread: 0,
            shares: BTreeMap::new(),
            opening: BTreeMap::new(),
            teller: Teller { told: tells, bell },
            told,
            lost: Vec::new(),
            links,
            packet_path: PacketPath::default(),
            young_until: Instant::now() + PREDECESSOR_ENDS_WITHIN,
        })
    }

    /// One of the shares of an interface.
    fn share_on(&self, ifindex: u32) -> Option<&Share> {
        self.shares.values().find(|share| share.ifindex == ifindex)
    }

    /// The table of an interface that there is a share of.
    fn table_of(&self, ifindex: u32) -> Result<&SteeringTable, Cause> {
        self.share_on(ifindex).map(|share| &share.table).ok_or(Cause::OtherInterface { ifindex })
    }

    fn owner_of(&self, owner: FlowOwner) -> Result<Owner, Cause> {
        match owner {
            FlowOwner::Share(share) => {
                Ok(Owner::Share(self.shares.get(&share).ok_or(Cause::NoSuchShare { share })?.number))
            }
            FlowOwner::Kernel => Ok(Owner::Kernel),
        }
    }

    /// The thread of an interface.
    fn thread_of(&mut self, interface: &str) -> io::Result<&mut PortThread> {
        if !self.threads.contains_key(interface) {
            let thread = PortThread::start(self.next_thread, self.teller.clone(), self.young_until)?;
            self.next_thread += 1;
            self.threads.insert(interface.to_owned(), thread);
        }
        self.threads.get_mut(interface).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A thread has no port any more: it ends, where all it was asked for is done.
    fn idle(&mut self, number: u32, opens: u32) {
        self.threads.retain(|_, thread| thread.number != number || thread.opens != opens);
    }

    fn thread_on(&self, ifindex: u32) -> Option<&PortThread> {
        self.threads.get(&self.share_on(ifindex)?.interface)
    }

    /// Takes the flow of a connection from an owner.
    fn remove_exact(&self, ifindex: u32, flow: ExactFlow, owner: Owner) {
        if let Ok(table) = self.table_of(ifindex) {
            // What the kernel refuses to take out goes with the share, or the port.
            let _ = table.remove_for(Filter::Exact(flow), owner);
            self.flow_went(ifindex, table);
        }
    }

    /// An owner has a flow more. Where its port rests, the kernel has the flow's frames until the port is awake, as it has those of one that is held.
    fn flow_came(&self, ifindex: u32, owner: Owner) {
        if let (Owner::Share(_), Some(thread)) = (owner, self.thread_on(ifindex)) {
            thread.flow_came();
        }
    }

    fn flow_went(&self, ifindex: u32, table: &SteeringTable) {
        if let (Ok(true), Some(thread)) = (table.is_empty(), self.thread_on(ifindex)) {
            thread.flows_gone();
        }
    }

    /// The port of a thread is awake, or cannot be: then its shares are served no more.
    fn awake(&mut self, thread: u32, awake: Result<(), Cause>) -> Option<Finished> {
        let interface = self.name_of_thread(thread)?;
        let ifindex = self.shares.values().find(|share| share.interface == interface)?.ifindex;
        if let Err(cause) = &awake {
            self.lost.push((interface, cause.clone()));
        }
        Some(Finished::Awake(ifindex, awake))
    }

    fn name_of_thread(&self, number: u32) -> Option<String> {
        self.threads.iter().find(|(_, thread)| thread.number == number).map(|(name, _)| name.clone())
    }

    /// A share was opened, or not.
    fn opened(&mut self, thread: u32, share: u32, opened: Result<Given, Cause>) -> Option<Finished> {
        let Some(interface) = self.opening.remove(&share) else {
            // Nobody wants it any more.
            if let (Ok(given), Some(interface)) = (opened, self.name_of_thread(thread)) {
                self.threads[&interface].recover(given.number);
            }
            return None;
        };
        let opened = opened.map(|given| {
            let Given { number, table, opened } = given;
            let ifindex = opened.ifindex;
            self.shares.insert(share, Share { interface: interface.clone(), ifindex, number, table });
            opened
        });
        Some(Finished::Share(share, opened))
    }
}

impl Ports for XdpPorts {
    fn open_share(&mut self, wanted: &Wanted) -> Result<Option<Opened>, Cause> {
        let no_thread = |error: io::Error| Cause::Port { words: Text::cut(&format!("start a thread: {error}")) };
        self.thread_of(&wanted.interface).map_err(no_thread)?.open(wanted);
        self.opening.insert(wanted.share, wanted.interface.clone());
        Ok(None)
    }

    fn close_share(&mut self, share: u32) {
        self.opening.remove(&share);
        let Some(Share { interface, number, .. }) = self.shares.remove(&share) else { return };
        if let Some(thread) = self.threads.get(&interface) {
            thread.recover(number);
        }
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
        self.flow_came(ifindex, owner);
        Ok(())
    }

    fn leave_packet_path(&mut self, shadow: &ConnectedShadow) -> Result<(), Cause> {
        may_bind_to(shadow.flow.local_port)?;
        self.packet_path.leave(shadow)
    }

    fn open_connection(&mut self, ifindex: u32, flow: ExactFlow, share: u32) -> Result<bool, Cause> {
        let (table, owner) = (self.table_of(ifindex)?, self.owner_of(FlowOwner::Share(share))?);
        table.add_for(Filter::Exact(flow), owner).map_err(|error| refused(&error))?;
        let is_served = self.thread_on(ifindex).is_none_or(PortThread::flow_came);
        if !is_served {
            self.remove_exact(ifindex, flow, owner);
        }
        Ok(is_served)
    }

    fn close_connection(&mut self, ifindex: u32, flow: ExactFlow, share: u32) {
        if let Ok(owner) = self.owner_of(FlowOwner::Share(share)) {
            self.remove_exact(ifindex, flow, owner);
        }
    }

    fn hear_connection(&mut self, ifindex: u32, flow: ExactFlow) -> Result<(), Cause> {
        let added = self.table_of(ifindex)?.add_for(Filter::Exact(flow), Owner::Unheard);
        added.map_err(|error| refused(&error))?;
        // A port that rests is awake some ms later.
        self.thread_on(ifindex).map(PortThread::flow_came);
        Ok(())
    }

    fn has_heard(&self, ifindex: u32, flow: ExactFlow) -> Option<bool> {
        let is_awake = self.thread_on(ifindex).is_none_or(PortThread::is_awake);
        let has_heard = || self.table_of(ifindex).is_ok_and(|table| table.has_heard(flow).unwrap_or(false));
        is_awake.then(has_heard)
    }

    fn stop_hearing(&mut self, ifindex: u32, flow: ExactFlow) {
        self.remove_exact(ifindex, flow, Owner::Unheard);
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
        self.flow_came(ifindex, to);
        Ok(())
    }

    fn close_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) {
        let (Ok(table), Ok(owner)) = (self.table_of(ifindex), self.owner_of(owner)) else { return };
        // What the kernel refuses to take out goes with the share, or the port.
        flow.filters().into_iter().for_each(|filter| drop(table.remove_for(filter, owner)));
        self.flow_went(ifindex, table);
    }

    fn want_times(&mut self, share: u32) -> Result<bool, Cause> {
        let of_share = self.shares.get(&share).and_then(|share| self.threads.get(&share.interface));
        of_share.ok_or(Cause::NoSuchShare { share })?.want_times(share);
        Ok(false)
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.links.as_fd())
    }

    fn finishes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.teller.bell.as_fd())
    }

    fn take_finished(&mut self) -> Vec<Finished> {
        let mut counter = [0; 8];
        // Nothing to read is nothing new.
        let _ = rustix::io::read(&*self.teller.bell, &mut counter);
        let mut finished = Vec::new();
        while let Ok(Told { thread, what }) = self.told.try_recv() {
            match what {
                What::Opened { share, opened } => finished.extend(self.opened(thread, share, opened)),
                What::Times { share, done } => finished.push(Finished::Times(share, done)),
                What::Lost => {
                    let gone = |name: String| (name.clone(), Cause::InterfaceGone { interface: Text::cut(&name) });
                    self.lost.extend(self.name_of_thread(thread).map(gone));
                }
                What::Awake(awake) => finished.extend(self.awake(thread, awake)),
                What::Idle { opens } => self.idle(thread, opens),
            }
        }
        finished
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        let mut bytes = [0; 64];
        let mut is_news = false;
        // What it says does not count, as links are looked at; some may have been lost.
        while !matches!(recv(&self.links, &mut bytes[..], RecvFlags::empty()), Err(errno) if errno != Errno::NOBUFS) {
            is_news = true;
        }
        if is_news {
            self.threads.values().for_each(PortThread::look);
        }
        let lost = std::mem::take(&mut self.lost);
        let cause_of = |share: &Share| lost.iter().find(|(name, _)| *name == share.interface).map(|(_, cause)| cause);
        self.shares.iter().filter_map(|(number, share)| Some((*number, cause_of(share)?.clone()))).collect()
    }
}

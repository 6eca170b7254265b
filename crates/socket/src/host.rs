//! What an engine has of the machine that it runs on: ports on interfaces, and what the kernel knows of links, addresses,
//! routes and neighbours.
//!
//! [`ThisHost`] is the machine itself. A simulation passes in one of its own, with ports in memory and time of its own.

mod agent;
mod at_start;
mod home;
#[cfg(test)]
mod late_link;
mod port;
mod this;

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nearwire_agent::adoption::Privileged;
use nearwire_agent::give_back::{Ip, Received};
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::{EnginePort, FlowSocket, PortError};
use nearwire_stack::{Path, Update};
use nearwire_sys::descriptor::Descriptor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::{Agent, Config, Mode};
use crate::kernel_tables::{KernelTables, News, PathErrors, TablesError};
use crate::now::Clocks;

pub use at_start::AgentAtStart;
pub use home::Home;
pub(crate) use home::at_home;
pub use port::HostPort;
pub use this::ThisHost;
pub(crate) use this::{FILL_FRAMES, try_program};

/// What the kernel, or the device, does to segments of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Long ones are cut when they are sent (TSO, GSO).
    pub cuts: bool,
    /// Those that come are joined (GRO).
    pub joins: bool,
}

/// Tells one agent from another: the process.
pub type AgentPid = u32;

/// See the module.
pub trait Host: Clone + Debug + 'static {
    /// Its ports.
    type Port: EnginePort;
    /// Its tables.
    type Tables: Tables;

    /// The network namespace of the calling thread, in which an engine is opened now. `None`: threads are in one for ever.
    ///
    /// # Errors
    /// There is no descriptor for it.
    fn home(&self) -> io::Result<Option<Home>> {
        Ok(None)
    }

    /// Opens the tables, with a first picture of them.
    ///
    /// # Errors
    /// The kernel does not tell them.
    fn open_tables(&self) -> Result<(Self::Tables, Vec<Update>), TablesError>;

    /// What routers report about packets that were too long.
    fn open_path_errors(&self) -> PathErrors;

    /// What an interface is called.
    ///
    /// # Errors
    /// There is none of this index.
    fn interface_name(&self, ifindex: u32) -> io::Result<String>;

    /// How the kernel's path over an interface deals with long segments of TCP.
    fn offloads(&self, _name: &str) -> Offloads {
        Offloads::default()
    }

    /// What an interface is.
    ///
    /// # Errors
    /// There is none of this name, or the kernel does not report it.
    fn interface_facts(&self, name: &str) -> Result<InterfaceFacts, PortError>;

    /// Whether frames that come by an interface may have lost their VLAN tag, which the kernel keeps beside them then: an XDP
    /// program does not see it.
    fn hides_tags(&self, name: &str, is_veth: bool) -> bool;

    /// Whether the device stamps what it receives, for sockets of the kernel.
    fn stamps_received(&self, name: &str) -> bool;

    /// Opens a port on all RX queues of an interface.
    ///
    /// # Errors
    /// No way that is wanted can be had: why not the first.
    fn open_port(&self, facts: &InterfaceFacts, wanted: PortWanted) -> Result<Self::Port, PortError>;

    /// Begins to open a port, where that takes long, while the program does something else. Whether [`Host::open_port`] would not keep it waiting for long.
    fn begin_port(&self, _name: &str, _wanted: PortWanted) -> bool {
        true
    }

    /// Whether one that was begun is being opened still.
    fn is_port_awaited(&self, _name: &str, _wanted: PortWanted) -> bool {
        false
    }

    /// Whether an agent serves this process, as it is now. Its shares are opened when a call first uses a socket: the process may change its
    /// user until then, and a share is of one user.
    fn is_served_by_agent(&self, _wanted: PortWanted) -> bool {
        false
    }

    /// The agent that this process has, or had last.
    fn known_agent(&self) -> Option<AgentPid> {
        None
    }

    /// What is readable when the agent has said something; `None`: there is none.
    fn agent(&self) -> Option<Descriptor> {
        None
    }

    /// Says to the agent, where there is one, that the flows of a socket are wanted when it is first used, or never (`false`).
    fn announce(&self, _socket: FlowSocket, _is_to_be_used: bool) {}

    /// Has the agent send a datagram to the shadow it was for, as this process may not. Whether the kernel has it.
    fn give_back(&self, _shadow: Descriptor, _datagram: &Received<'_>) -> bool {
        false
    }

    /// Has the agent send a segment to the connection it was for, as this process may not.
    fn give_segment(&self, _shadow: Descriptor, _ip: Ip, _segment: &[u8]) {}

    /// Whether there is somebody who can have the kernel take a TCP connection: this process, or an agent.
    fn may_release(&self) -> bool {
        true
    }

    /// Does to a TCP connection what changes of its owner need; by the agent, where this process may not.
    ///
    /// # Errors
    /// Neither may.
    fn set_privileged(&self, shadow: Descriptor, asked: Privileged) -> io::Result<()> {
        asked.set(shadow)
    }

    /// This process is the child of a fork: what it had of other processes is its parent's.
    fn forked(&mut self) {}

    /// Lets others go on for so long, within a call.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Waits until there is something to read, for so long at most.
    fn await_readable(&self, shadow: Descriptor, within: Duration) {
        let within = Timespec::try_from(within).ok();
        let _ = poll(&mut [PollFd::from_borrowed_fd(shadow.as_fd(), PollFlags::IN)], within.as_ref());
    }

    /// A random number, which nobody outside the process knows: the key of the stack's hash tables.
    fn secret(&self) -> u64;

    /// The counter of [`Now::ticks`](crate::Now) as it stands. Sockets ask for it once a call, and where they wait a moment within one.
    fn ticks(&self) -> u64;

    /// What the clocks say.
    fn clocks(&self) -> Clocks;
}

/// How a port is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct PortWanted {
    /// How its sockets are attached.
    pub mode: Mode,
    /// For up to so many engines.
    pub engines_most: u32,
    /// Whether it may be a share of the agent's.
    pub agent: Agent,
}

impl PortWanted {
    /// As a program's configuration has it.
    pub(crate) fn of(config: &Config) -> PortWanted {
        let engines_most = config.engines.unwrap_or(crate::ENGINES_MOST as u32);
        PortWanted { mode: config.mode, engines_most, agent: config.agent }
    }
}

/// What the kernel knows of links, addresses, routes, neighbours and groups, as the stack wants it.
pub trait Tables {
    /// Readable when there is news.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Takes all news without waiting; each is handed to `apply`. After [`News::Lost`] some of it may have been handed over.
    ///
    /// # Errors
    /// The kernel refused to tell more.
    fn read(&mut self, apply: impl FnMut(Update)) -> Result<News, TablesError>;

    /// The whole picture. News that waited are in it and dropped.
    ///
    /// # Errors
    /// The kernel refused to tell it.
    fn snapshot(&mut self) -> Result<Vec<Update>, TablesError>;

    /// What is known of the way to a destination through an interface, and for how long that is good; `None`: until somebody
    /// says otherwise.
    ///
    /// # Errors
    /// There is no such way.
    fn path(&mut self, ifindex: u32, destination: IpAddr) -> Result<(Path, Option<Duration>), TablesError>;

    /// Asks for a neighbour that is in use though stale to be confirmed.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    fn use_neighbour(&mut self, ifindex: u32, address: IpAddr) -> Result<(), TablesError>;
}

impl Tables for KernelTables {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn read(&mut self, apply: impl FnMut(Update)) -> Result<News, TablesError> {
        KernelTables::read(self, apply)
    }

    fn snapshot(&mut self) -> Result<Vec<Update>, TablesError> {
        KernelTables::snapshot(self)
    }

    fn path(&mut self, ifindex: u32, destination: IpAddr) -> Result<(Path, Option<Duration>), TablesError> {
        KernelTables::path(self, ifindex, destination)
    }

    fn use_neighbour(&mut self, ifindex: u32, address: IpAddr) -> Result<(), TablesError> {
        KernelTables::use_neighbour(self, ifindex, address)
    }
}

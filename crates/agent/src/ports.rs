//! The seam to the ports: what the agent needs of them, whoever makes frames arrive.
//!
//! The agent decides who may have what, and tells a [`Ports`] of it; that one opens interfaces, attaches the program, owns the steering
//! table and packet memory, and says what a program needs to use its share.

pub mod in_memory;
pub mod xdp;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{BorrowedFd, OwnedFd};

use nearwire_frames::steering::{ExactFlow, Filter, FlowFilter, Transport};
use nearwire_wire::tcp::{self, TcpSegment};

use crate::bound::{BoundSocket, bound_to};
use crate::ended::question_of;
use crate::give_back::{GivenBack, Ip, Received, Sender};
use crate::holders::holders_of;
use crate::message::{Addresses, Cause, Text};
use crate::shadow::{ConnectedShadow, is_own};

/// A share that a program wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its number, which no other share of this agent has had.
    pub share: u32,
    /// The user. Shares of one user may have packet memory and rings in common, shares of two must not; the agent asks for no
    /// second user's share on an interface while the first has one.
    pub uid: u32,
    /// The interface, by name.
    pub interface: String,
    /// Packet memory that the program wants, in bytes.
    pub memory_bytes: u64,
    /// What the user may still have, in bytes: more must not be added.
    pub memory_most_bytes: u64,
}

/// A share that was opened.
#[derive(Debug)]
pub struct Opened {
    /// For the port's code in the program, at most [`DESCRIPTION_MOST_BYTES`](crate::message::DESCRIPTION_MOST_BYTES).
    pub description: Vec<u8>,
    /// What it speaks of, at most [`DESCRIPTORS_MOST`](crate::message::DESCRIPTORS_MOST).
    pub descriptors: Vec<OwnedFd>,
    /// Packet memory that this share added to what the user has, in bytes.
    pub memory_bytes: u64,
    /// The interface's index.
    pub ifindex: u32,
    /// How long the link may still be away, because its driver set itself up anew; the program waits for it.
    pub carrier_within_ms: u32,
}

/// What took longer than the call that began it.
#[derive(Debug)]
pub enum Finished {
    /// [`Ports::open_share`], of the share with this number.
    Share(u32, Result<Opened, Cause>),
    /// [`Ports::want_times`], of the share with this number.
    Times(u32, Result<(), Cause>),
    /// [`Ports::open_connection`] may be called again, of the interface with this index; or why not.
    Awake(u32, Result<(), Cause>),
}

/// Who gets the frames of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowOwner {
    /// The share with this number.
    Share(u32),
    /// The kernel, although a bound flow says a share: of exact flows alone.
    Kernel,
}

impl Addresses {
    /// What the steering table is to match.
    #[must_use]
    pub fn filters(&self) -> Vec<Filter> {
        let (transport, local_port) = (Transport::Udp, self.local.port());
        if let Some(remote) = self.remote {
            let (local, remote, remote_port) = (self.local.ip(), remote.ip(), remote.port());
            return vec![Filter::Exact(ExactFlow { transport, local, local_port, remote, remote_port })];
        }
        let filter = |address| Filter::Flow(FlowFilter { transport, address, port: local_port });
        let mut filters = vec![filter(self.local.ip())];
        if self.both_families {
            filters.push(filter(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        }
        filters
    }
}

/// The ports of a network namespace.
///
/// Every call comes from one thread. None waits for a program, a driver or the kernel's lock of all interfaces, as all programs wait for the agent:
/// what may take longer is begun, and [`Ports::take_finished`] has the end of it.
pub trait Ports {
    /// Opens a share; `None`: [`Finished::Share`] follows.
    ///
    /// # Errors
    /// Why not; nothing is left of it.
    fn open_share(&mut self, wanted: &Wanted) -> Result<Option<Opened>, Cause>;

    /// Takes a share back, also one that is still being opened, of which nothing follows then: its flows are the kernel's, what its program has
    /// not read is discarded, and its buffers and rings are free, in whatever state the program left them. The program may be dead, or still
    /// store into its rings.
    fn close_share(&mut self, share: u32);

    /// Has frames of a flow on an interface go to an owner, who does not have it, soon: the kernel may get some more. A bound flow of several
    /// shares is divided among them.
    ///
    /// # Errors
    /// Why not; nothing has changed.
    fn open_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) -> Result<(), Cause>;

    /// Gives a flow that one owner has to another, who does not have it: each frame goes to the one or the other.
    ///
    /// # Errors
    /// Why not; nothing has changed.
    fn move_flow(&mut self, ifindex: u32, flow: &Addresses, from: FlowOwner, to: FlowOwner) -> Result<(), Cause>;

    /// Takes a flow from an owner.
    fn close_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner);

    /// Packets of a connection are to pass by the kernel.
    ///
    /// # Errors
    /// They cannot: it changes them, or has to see them.
    fn leave_packet_path(&mut self, _shadow: &ConnectedShadow) -> Result<(), Cause> {
        Ok(())
    }

    /// Has frames of a connection on an interface go to a share. Whether it is done: if not, nothing has changed, and [`Finished::Awake`] follows.
    ///
    /// # Errors
    /// Why not, as that these ports never take one; nothing has changed.
    fn open_connection(&mut self, _ifindex: u32, _flow: ExactFlow, _share: u32) -> Result<bool, Cause> {
        Err(Cause::Port { words: Text::cut("connections are not taken here") })
    }

    /// Gives them to the kernel.
    fn close_connection(&mut self, _ifindex: u32, _flow: ExactFlow, _share: u32) {}

    /// Has frames of a connection that come by an interface noted, soon; the kernel gets them.
    ///
    /// # Errors
    /// Why not.
    fn hear_connection(&mut self, _ifindex: u32, _flow: ExactFlow) -> Result<(), Cause> {
        Err(Cause::Port { words: Text::cut("connections are not taken here") })
    }

    /// Whether one came since. `None`: they are not noted yet.
    fn has_heard(&self, _ifindex: u32, _flow: ExactFlow) -> Option<bool> {
        None
    }

    /// Has them noted no more.
    fn stop_hearing(&mut self, _ifindex: u32, _flow: ExactFlow) {}

    /// Has the far end of a connection that nobody has any more hear of that: it is sent a segment that it has to answer, and the kernel
    /// answers that by a reset (RFC 9293 section 3.10.7.1).
    fn end_connection(&mut self, flow: ExactFlow) {
        // What cannot be sent the far end finds out when it next sends.
        let _ = question_of(flow).map(|packet| Sender::default().send_packet(&packet, flow.remote));
    }

    /// Sends a segment to the connection of this host that it was for, as its far end did.
    ///
    /// # Errors
    /// It is of another connection, or the kernel refuses it.
    fn give_segment(&mut self, flow: ExactFlow, (ttl, tos): (u8, u8), segment: &[u8]) -> Result<(), Cause> {
        let ports = |segment: &TcpSegment<'_>| (segment.header.source_port, segment.header.destination_port);
        let is_its =
            TcpSegment::parse(segment).is_ok_and(|parsed| ports(&parsed) == (flow.remote_port, flow.local_port));
        let ip = Ip { source: flow.remote, destination: flow.local, ttl, tos, protocol: tcp::PROTOCOL };
        match is_its.then(|| Sender::default().send_segment(ip, segment)) {
            Some(GivenBack::Done) => Ok(()),
            Some(GivenBack::Refused | GivenBack::NotAllowed) | None => Err(Cause::NotGivenBack {}),
        }
    }

    /// Has frames of a share's port carry their times of arrival. Whether it is done: if not, [`Finished::Times`] follows.
    ///
    /// # Errors
    /// Why they cannot.
    fn want_times(&mut self, share: u32) -> Result<bool, Cause>;

    /// The sockets that are bound to a port, or to any, whoever has them.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn bound_to(&self, port: Option<u16>) -> io::Result<Vec<BoundSocket>> {
        bound_to(port)
    }

    /// All processes but the agent's that have a socket. Takes some milliseconds.
    fn holders_of(&self, inode: u64) -> Vec<u32> {
        holders_of(inode)
    }

    /// Whether this host has an address, so that what is sent to it passes no interface; `ifindex`: of the interface that a link-local one is of.
    fn has_address(&self, address: IpAddr, ifindex: u32) -> bool {
        is_own(address, ifindex)
    }

    /// Sends a datagram to a socket of this host, as its sender did.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn give_back(&mut self, datagram: &Received<'_>) -> Result<(), Cause> {
        match Sender::default().send(datagram) {
            GivenBack::Done => Ok(()),
            GivenBack::Refused | GivenBack::NotAllowed => Err(Cause::NotGivenBack {}),
        }
    }

    /// What is readable when [`Ports::take_lost`] has news.
    fn news(&self) -> Option<BorrowedFd<'_>>;

    /// What is readable when [`Ports::take_finished`] has something; `None`: never.
    fn finishes(&self) -> Option<BorrowedFd<'_>>;

    /// What took longer and is done.
    fn take_finished(&mut self) -> Vec<Finished>;

    /// The shares that are served no more, as their interface is gone, each with the reason. They are still to be closed.
    fn take_lost(&mut self) -> Vec<(u32, Cause)>;
}

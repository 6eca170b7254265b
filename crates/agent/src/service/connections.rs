//! The flows of TCP connections whose data programs carry, and of those that programs would carry if their frames came by the programs' ports.
//!
//! A connection has one socket, one program and one share, so nothing is compared with others'. When its socket is closed while the flow is
//! open, or its program is gone, the kernel knows nothing of the connection: its far end is told ([`Ports::end_connection`]). It is told
//! [`TOLD_TIMES`] times, as a far end need not answer at once (`tcp_invalid_ratelimit` of Linux is half a second), and the segment may be lost.
//!
//! [`Ports::end_connection`]: crate::ports::Ports::end_connection

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearwire_frames::steering::ExactFlow;
use nearwire_sys::tcp_repair::Repair;
use rustix::net::sockopt::socket_cookie;

use super::begun::BegunConnection;
use super::flows::number_after;
use super::{Asker, Judge, Outcome, ProgramId, Service, socket_of};
use crate::adoption::Privileged;
use crate::message::{Answer, Cause, Text};
use crate::ports::Ports;
use crate::shadow::{ConnectedShadow, is_tcp_of_namespace};

/// How often a far end is told, and so long apart: further connections of the same addresses are not harmed by it.
const TOLD_TIMES: u32 = 3;
const TOLD_EVERY: Duration = Duration::from_millis(600);
/// As much as a stack and the kernel have of a connection that is given back, with what the kernel accounts beside the bytes.
const BUFFER_MOST_BYTES: u32 = 16 << 20;

/// The flow of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    program: ProgramId,
    /// Where its frames go. `None`: to a port that the program has opened itself.
    place: Option<Place>,
    cookie: u64,
    flow: ExactFlow,
    owner: Owner,
}

/// Who has the data of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Its program.
    Program,
    /// The kernel: whether its frames come is listened for.
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    share: u32,
    ifindex: u32,
}

impl Connection {
    fn share(&self) -> Option<u32> {
        self.place.map(|place| place.share)
    }

    fn ifindex(&self) -> Option<u32> {
        self.place.map(|place| place.ifindex)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Connections {
    by_number: BTreeMap<u32, Connection>,
    last: u32,
    /// Far ends that are to be told again: when, and how often.
    ended: VecDeque<(Instant, u32, ExactFlow)>,
}

impl Connections {
    fn insert(&mut self, connection: Connection) -> u32 {
        self.last = number_after(self.last, &self.by_number);
        self.by_number.insert(self.last, connection);
        self.last
    }

    /// When a far end is to be told again.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.ended.front().map(|(due, ..)| *due)
    }

    /// How many a share has.
    pub(super) fn count(&self, share: u32) -> usize {
        self.by_number.values().filter(|connection| connection.share() == Some(share)).count()
    }

    /// How many of programs have their frames go to ports of the programs.
    pub(super) fn count_guarded(&self, is_counted: impl Fn(ProgramId) -> bool) -> usize {
        self.by_number
            .values()
            .filter(|connection| connection.place.is_none() && is_counted(connection.program))
            .count()
    }
}

impl<P: Ports, J: Judge> Service<P, J> {
    /// A program wants the frames of a connection. `None`: it has to wait for the port.
    pub(super) fn open_connection(
        &mut self,
        (program, request): Asker,
        share: u32,
        shadow: ConnectedShadow,
    ) -> Result<Option<Outcome>, Cause> {
        let ifindex = self.ifindex_for(program, share, shadow)?;
        let ConnectedShadow { cookie, flow, .. } = shadow;
        self.may_have_connection(program, shadow, Some(ifindex))?;
        self.ports.leave_packet_path(&shadow)?;
        if !self.ports.open_connection(ifindex, flow, share)? {
            self.begun.add_connection(BegunConnection { asker: (program, request), share, ifindex, shadow });
            return Ok(None);
        }
        let place = Some(Place { share, ifindex });
        let connection = Connection { program, place, cookie, flow, owner: Owner::Program };
        Ok(Some(Answer::ConnectionOpened { connection: self.connections.insert(connection) }.into()))
    }

    /// A program asks whether frames of a connection come by a share's port.
    pub(super) fn hear_connection(
        &mut self,
        program: ProgramId,
        share: u32,
        socket: Option<OwnedFd>,
    ) -> Result<Outcome, Cause> {
        let shadow = ConnectedShadow::read(socket_of(&socket)?, self.namespace)?;
        let ifindex = self.ifindex_for(program, share, shadow)?;
        let ConnectedShadow { cookie, flow, .. } = shadow;
        let place = Some(Place { share, ifindex });
        let wanted = Connection { program, place, cookie, flow, owner: Owner::Kernel };
        let found = self.connections.by_number.iter().find(|(_, other)| **other == wanted);
        if let Some(connection) = found.map(|(number, _)| *number) {
            return Ok(Answer::ConnectionHeard { connection, is_heard: self.ports.has_heard(ifindex, flow) }.into());
        }
        self.may_have_connection(program, shadow, Some(ifindex))?;
        self.ports.hear_connection(ifindex, flow)?;
        let connection = self.connections.insert(wanted);
        Ok(Answer::ConnectionHeard { connection, is_heard: self.ports.has_heard(ifindex, flow) }.into())
    }

    /// The interface of a share by which a connection may come.
    fn ifindex_for(&self, program: ProgramId, share: u32, shadow: ConnectedShadow) -> Result<u32, Cause> {
        let ifindex = self.own_share(program, share)?.ifindex;
        if shadow.ifindex != 0 && shadow.ifindex != ifindex {
            return Err(Cause::OtherInterface { ifindex: shadow.ifindex });
        }
        Ok(ifindex)
    }

    /// A program carries the data of a connection by a port of its own.
    pub(super) fn guard_connection(&mut self, program: ProgramId, socket: Option<OwnedFd>) -> Result<Outcome, Cause> {
        let shadow = ConnectedShadow::read(socket_of(&socket)?, self.namespace)?;
        self.may_have_connection(program, shadow, None)?;
        self.ports.leave_packet_path(&shadow)?;
        let ConnectedShadow { cookie, flow, .. } = shadow;
        let connection = Connection { program, place: None, cookie, flow, owner: Owner::Program };
        let connection = self.connections.insert(connection);
        Ok(Answer::ConnectionOpened { connection }.into())
    }

    fn may_have_connection(
        &mut self,
        program: ProgramId,
        shadow: ConnectedShadow,
        ifindex: Option<u32>,
    ) -> Result<(), Cause> {
        let ConnectedShadow { cookie, flow, .. } = shadow;
        let asker = self.program(program)?;
        self.one_more_flow(asker.caller.uid, asker.allowance.flows)?;
        // Another process has the socket too, or the connection of these addresses before it was closed and nobody said so yet.
        let is_same = |other: &Connection| other.ifindex() == ifindex && other.flow == flow;
        let others = self.connections.by_number.iter().find(|(_, other)| is_same(other));
        if let Some((number, other)) = others.map(|(number, other)| (*number, *other)) {
            if other.cookie == cookie && other.owner == Owner::Program {
                return Err(Cause::SocketShared { pid: self.program(other.program)?.caller.pid });
            }
            self.take_connection(number);
        }
        Ok(())
    }

    /// Does to a connection what changes of its owner need. A program may thaw what another agent has frozen for it, also where it has ended since, and else
    /// has this done to those whose flow it has.
    pub(super) fn set_privileged(
        &mut self,
        program: ProgramId,
        socket: Option<OwnedFd>,
        asked: Privileged,
    ) -> Result<Outcome, Cause> {
        let socket = socket_of(&socket)?;
        let refused = |error: io::Error| Cause::Port { words: Text::cut(&format!("{asked:?}: {error}")) };
        match asked {
            Privileged::Repair(Repair::Thaw | Repair::ThawSilently) => is_tcp_of_namespace(socket, self.namespace)?,
            Privileged::Repair(Repair::Freeze) | Privileged::Buffer { .. } => self.has_flow(program, socket)?,
            Privileged::Bind { local } => self.is_end_of_connection(program, socket, ExactFlow::local_end, local)?,
            Privileged::Connect { peer } => self.is_end_of_connection(program, socket, ExactFlow::remote_end, peer)?,
        }
        let within_limits = match asked {
            Privileged::Buffer { buffer, bytes } => Privileged::Buffer { buffer, bytes: bytes.min(BUFFER_MOST_BYTES) },
            Privileged::Repair(_) | Privileged::Bind { .. } | Privileged::Connect { .. } => asked,
        };
        within_limits.set(socket).map_err(refused)?;
        Ok(Answer::Done {}.into())
    }

    fn has_flow(&self, program: ProgramId, socket: BorrowedFd<'_>) -> Result<(), Cause> {
        let ConnectedShadow { cookie, flow, .. } = ConnectedShadow::read(socket, self.namespace)?;
        let has = self.flow_of_cookie(program, cookie).is_some();
        has.then_some(()).ok_or(Cause::OtherAddress { address: flow.local })
    }

    /// The socket is disconnected, so what was read from it when its flow was opened says which addresses it may have: no others.
    fn is_end_of_connection(
        &self,
        program: ProgramId,
        socket: BorrowedFd<'_>,
        end: fn(&ExactFlow) -> SocketAddr,
        asked: SocketAddr,
    ) -> Result<(), Cause> {
        is_tcp_of_namespace(socket, self.namespace)?;
        let flow = socket_cookie(socket).ok().and_then(|cookie| self.flow_of_cookie(program, cookie));
        let is_its = flow.is_some_and(|flow| end(&flow) == SocketAddr::new(asked.ip().to_canonical(), asked.port()));
        is_its.then_some(()).ok_or(Cause::OtherAddress { address: asked.ip() })
    }

    /// What a program has of the socket with a cookie.
    fn flow_of_cookie(&self, program: ProgramId, cookie: u64) -> Option<ExactFlow> {
        let is_its = |connection: &&Connection| {
            (connection.program, connection.cookie, connection.owner) == (program, cookie, Owner::Program)
        };
        self.connections.by_number.values().find(is_its).map(|connection| connection.flow)
    }

    /// The kernel has the connection from now on.
    pub(super) fn close_connection(&mut self, program: ProgramId, connection: u32) -> Result<Answer, Cause> {
        let is_own = self.connections.by_number.get(&connection).is_some_and(|found| found.program == program);
        if !is_own {
            return Err(Cause::NoSuchConnection { connection });
        }
        self.take_connection(connection);
        Ok(Answer::Done {})
    }

    /// The share of connections is closed. Where their program lives it takes them back from here, else nobody has them.
    pub(super) fn end_connections_of(&mut self, share: u32, is_program_gone: bool) {
        self.take_connections(|connection| connection.share() == Some(share), is_program_gone);
    }

    /// A program is gone, and the ports with it that it had opened itself.
    pub(super) fn end_guarded_connections_of(&mut self, program: ProgramId) {
        self.take_connections(|connection| connection.program == program && connection.place.is_none(), true);
    }

    /// The sockets of connections were closed.
    pub(super) fn end_connections_closed(&mut self, cookies: &[u64]) {
        if !self.connections.by_number.is_empty() {
            self.take_connections(|connection| cookies.contains(&connection.cookie), true);
        }
    }

    fn take_connections(&mut self, which: impl Fn(&Connection) -> bool, have_ended: bool) {
        let all = self.connections.by_number.iter().filter(|(_, connection)| which(connection));
        let numbers: Vec<u32> = all.map(|(number, _)| *number).collect();
        for number in numbers {
            let taken = self.take_connection(number);
            if let Some(connection) = taken.filter(|taken| have_ended && taken.owner == Owner::Program) {
                self.tell_end(connection.flow, TOLD_TIMES);
            }
        }
    }

    fn tell_end(&mut self, flow: ExactFlow, times: u32) {
        self.ports.end_connection(flow);
        if times > 1 {
            self.connections.ended.push_back((self.now + TOLD_EVERY, times - 1, flow));
        }
    }

    /// Tells far ends again whose time has come.
    pub(super) fn tell_ends_again(&mut self) {
        while let Some(&(_, times, flow)) = self.connections.ended.front().filter(|(due, ..)| *due <= self.now) {
            self.connections.ended.pop_front();
            self.tell_end(flow, times);
        }
    }

    fn take_connection(&mut self, number: u32) -> Option<Connection> {
        let connection = self.connections.by_number.remove(&number)?;
        if let Some(Place { share, ifindex }) = connection.place {
            match connection.owner {
                Owner::Program => self.ports.close_connection(ifindex, connection.flow, share),
                Owner::Kernel => self.ports.stop_hearing(ifindex, connection.flow),
            }
        }
        Some(connection)
    }
}

//! What the agent decides: who has which share and flow. No I/O but what [`Ports`] does, so tests run it in memory.

mod announced;
mod begun;
mod changes;
mod connections;
mod flows;
mod kernel_flows;
mod shared;
mod strangers;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use nearwire_sys::tcp_repair::Repair;

use self::announced::Announced;
use self::begun::{Begun, BegunShare};
use self::connections::Connections;
use self::flows::{Flow, Flows, Verdict, Why};
use self::kernel_flows::KernelFlows;
use self::shared::SharedSockets;
use self::strangers::Strangers;
use crate::adoption::{Buffer, Privileged};
use crate::give_back::Received;
use crate::message::{
    Answer, Cause, InterfaceName, Limited, MESSAGE_MOST_BYTES, ProgramName, ProgramStatus, Request, ShareStatus, Text,
    VERSION,
};
use crate::ports::{Opened, Ports, Wanted};
use crate::rights::Allowance;
use crate::shadow::{ConnectedShadow, Shadow};

/// Programs of all users, which hold a descriptor each.
pub const PROGRAMS_MOST: usize = 4096;

/// Who is at the other end of a connection, by the kernel's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Its process when it connected; 0 where that is in a namespace of processes that the agent does not see.
    pub pid: u32,
    /// Its effective user then.
    pub uid: u32,
    /// Its groups then.
    pub groups: Vec<u32>,
    /// It has shown that root started its program with `nearwire run` ([`Request::ShowPass`]).
    pub has_pass: bool,
}

/// The number of a connection, which no other has had.
pub type ProgramId = u32;

/// A program, and the number of its request.
pub type Asker = (ProgramId, u16);

/// What a request comes to.
#[derive(Debug)]
pub struct Outcome {
    /// For the asker.
    pub answer: Answer,
    /// Beside the answer.
    pub descriptors: Vec<OwnedFd>,
    /// Events for others.
    pub events: Vec<(ProgramId, Answer)>,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Outcome {
        Outcome { answer, descriptors: Vec::new(), events: Vec::new() }
    }
}

#[derive(Debug)]
struct Program {
    caller: Caller,
    name: ProgramName,
    allowance: Allowance,
}

#[derive(Debug)]
struct Share {
    program: ProgramId,
    interface: InterfaceName,
    ifindex: u32,
    /// What counts for its user: of the shares of a port, one has all its memory.
    memory_bytes: u64,
    /// The kernel has the frames of its flows.
    is_paused: bool,
}

/// How user identifiers come to what they may have.
pub trait Judge {
    /// What the caller may have.
    ///
    /// # Errors
    /// Nothing, and why.
    fn allowance(&self, caller: &Caller) -> Result<Allowance, Cause>;
}

/// Programs, their shares and flows.
#[derive(Debug)]
pub struct Service<P, J> {
    ports: P,
    judge: J,
    /// Cookie of the agent's network namespace.
    namespace: u64,
    /// Sees the programs of all users.
    own_uid: u32,
    programs: BTreeMap<ProgramId, Program>,
    shares: BTreeMap<u32, Share>,
    begun: Begun,
    flows: Flows,
    kernel_flows: KernelFlows,
    connections: Connections,
    announced: Announced,
    shared: SharedSockets,
    strangers: Strangers,
    next_share: u32,
    /// When something was last due, or could have been.
    now: Instant,
}

impl<P: Ports, J: Judge> Service<P, J> {
    /// Without programs, of an agent that starts now.
    pub fn new(ports: P, judge: J, namespace: u64, own_uid: u32, now: Instant) -> Self {
        let (programs, shares) = (BTreeMap::new(), BTreeMap::new());
        let (flows, announced, shared) = (Flows::default(), Announced::default(), SharedSockets::default());
        let (kernel_flows, strangers, next_share) = (KernelFlows::default(), Strangers::new(now), 1);
        Service {
            ports,
            judge,
            namespace,
            own_uid,
            programs,
            shares,
            begun: Begun::default(),
            flows,
            kernel_flows,
            connections: Connections::default(),
            announced,
            shared,
            strangers,
            next_share,
            now,
        }
    }

    /// The ports.
    pub fn ports(&self) -> &P {
        &self.ports
    }

    /// How many programs have said hello.
    #[must_use]
    pub fn programs(&self) -> usize {
        self.programs.len()
    }

    /// A program that connected says hello.
    ///
    /// # Errors
    /// It is not served: its connection ends.
    pub fn hello(&mut self, id: ProgramId, caller: Caller, version: u16, name: ProgramName) -> Result<Answer, Cause> {
        if version != VERSION {
            return Err(Cause::WrongVersion { agent: VERSION });
        }
        let allowance = self.judge.allowance(&caller)?;
        let of_user = self.programs.values().filter(|program| program.caller.uid == caller.uid).count();
        at_most(of_user as u64 + 1, allowance.programs.into(), Limited::Programs {})?;
        at_most(self.programs.len() as u64 + 1, PROGRAMS_MOST as u64, Limited::AllPrograms {})?;
        self.programs.insert(id, Program { caller, name, allowance });
        Ok(Answer::Welcome { version: VERSION })
    }

    /// A request of a program that has said hello, with its number. `None`: [`Service::take_finished`] has the answer later.
    pub fn handle(&mut self, id: ProgramId, number: u16, request: Request, socket: Option<OwnedFd>) -> Option<Outcome> {
        let done = match request {
            Request::OpenShare { interface, memory_bytes } => {
                self.open_share((id, number), interface, memory_bytes).transpose()?
            }
            Request::WantTimes { share } => self.want_times((id, number), share).transpose()?,
            Request::OpenConnection { share } => {
                let shadow = socket_of(&socket).and_then(|socket| ConnectedShadow::read(socket, self.namespace));
                shadow.and_then(|shadow| self.open_connection((id, number), share, shadow)).transpose()?
            }
            request => self.handle_at_once(id, request, socket),
        };
        Some(done.unwrap_or_else(|cause| Answer::Refused { cause }.into()))
    }

    fn handle_at_once(&mut self, id: ProgramId, request: Request, socket: Option<OwnedFd>) -> Result<Outcome, Cause> {
        match request {
            // The others have been seen to.
            Request::Hello { .. }
            | Request::ShowPass { .. }
            | Request::OpenShare { .. }
            | Request::WantTimes { .. }
            | Request::OpenConnection { .. } => Err(Cause::NotGreeted {}),
            Request::CloseShare { share } => self.with_own_share(id, share, Self::close_share),
            Request::OpenFlow { share, address } => self.open_flow(id, share, address, socket),
            Request::CloseFlow { flow } => self.close_flow(id, flow),
            Request::MoveFlow { flow, share } => self.move_flow(id, flow, share),
            Request::Pause { share } => self.with_own_share(id, share, Self::pause),
            Request::Resume { share } => self.resume(id, share),
            Request::Release {} => self.release(id, socket),
            Request::Announce { is_to_be_used } => self.announce(id, socket, is_to_be_used),
            Request::GiveBack { source, address, ttl, tos, payload } => {
                // The socket's port, which the kernel tells.
                let destination = SocketAddr::new(address, 0);
                self.give_back(id, socket, Received { source, destination, ttl, tos, payload: &payload })
            }
            Request::ShowConnection {} => self.show_connection(id, socket),
            // The server has seen to them.
            Request::Attend {} | Request::WantPass {} => Ok(Answer::Done {}.into()),
            Request::GiveSegment { ttl, tos, segment } => {
                let ConnectedShadow { flow, .. } = ConnectedShadow::read(socket_of(&socket)?, self.namespace)?;
                self.ports.give_segment(flow, (ttl, tos), &segment).map(|()| Answer::Done {}.into())
            }
            Request::Freeze {} => self.set_privileged(id, socket, Privileged::Repair(Repair::Freeze)),
            Request::Thaw { is_silent } => {
                let repair = if is_silent { Repair::ThawSilently } else { Repair::Thaw };
                self.set_privileged(id, socket, Privileged::Repair(repair))
            }
            Request::SetBuffer { is_send, bytes } => {
                let buffer = if is_send { Buffer::Send } else { Buffer::Receive };
                self.set_privileged(id, socket, Privileged::Buffer { buffer, bytes })
            }
            Request::BindConnection { local } => self.set_privileged(id, socket, Privileged::Bind { local }),
            Request::ConnectConnection { peer } => self.set_privileged(id, socket, Privileged::Connect { peer }),
            Request::GuardConnection {} => self.guard_connection(id, socket),
            Request::HearConnection { share } => self.hear_connection(id, share, socket),
            Request::CloseConnection { connection } => self.close_connection(id, connection).map(Outcome::from),
            Request::Forget { share } => self.with_own_share(id, share, Self::forget),
            Request::Status { from } => Ok(self.status(id, from).into()),
        }
    }

    /// A program's connection ended: all that it had is taken back. Who is to be told.
    pub fn gone(&mut self, id: ProgramId) -> Vec<(ProgramId, Answer)> {
        let shares: Vec<u32> = self.shares_of(id).map(|(number, _)| number).collect();
        shares.iter().for_each(|share| self.end_connections_of(*share, true));
        self.end_guarded_connections_of(id);
        shares.into_iter().for_each(|share| self.close_share(share));
        self.begun.program_gone(id).into_iter().for_each(|share| self.ports.close_share(share));
        self.announced.program_gone(id);
        self.programs.remove(&id);
        let Service { shared, announced, programs, ports, .. } = self;
        let left = shared.program_gone(id, |cookie, last| {
            let pid = programs.get(&last).map_or(0, |program| program.caller.pid);
            announced.reader_beside(&*ports, cookie, pid).is_some()
        });
        left.into_iter().map(|(cookie, (program, share))| (program, Answer::SocketAlone { share, cookie })).collect()
    }

    /// Sockets were closed: their flows end, without a word to their programs, who closed them.
    pub fn closed(&mut self, cookies: &[u64]) {
        self.strangers.forget_read();
        self.end_connections_closed(cookies);
        for cookie in cookies {
            self.announced.closed(*cookie);
            self.shared.forget(*cookie);
            self.forget_kernel_flows(*cookie);
            for flow in self.flows.of_socket(*cookie) {
                self.end_for(flow, true);
            }
        }
    }

    /// Sockets were closed of which the kernel had no room to tell: it is asked which are left. Programs are told of flows that end, because the
    /// kernel passes over a socket in a list if others are closed while it makes that. Where it does not answer, no flow can be left to its program.
    pub fn closed_unseen(&mut self) -> Vec<(ProgramId, Answer)> {
        let known: HashSet<u64> = self.sockets().collect();
        let bound: io::Result<HashSet<u64>> =
            self.ports.bound_to(None).map(|bound| bound.into_iter().map(|socket| socket.cookie).collect());
        let gone: Vec<u64> = match bound {
            Ok(bound) => known.into_iter().filter(|cookie| !bound.contains(cookie)).collect(),
            Err(_) => known.into_iter().collect(),
        };
        let cause = Cause::Port { words: Text::cut("the agent lost track of which sockets were closed") };
        let flows = gone.iter().flat_map(|cookie| self.flows.of_socket(*cookie));
        let owner =
            |flow: u32| Some((self.flows.get(flow)?.program, Answer::FlowRevoked { flow, cause: cause.clone() }));
        let told = flows.filter_map(owner).collect();
        self.closed(&gone);
        told
    }

    /// The cookies of all sockets that there is something of, some of them several times.
    fn sockets(&self) -> impl Iterator<Item = u64> {
        // Of connections the list of UDP sockets says nothing: their programs close them.
        let of_flows = self.flows.cookies().chain(self.kernel_flows.sockets());
        of_flows.chain(self.announced.sockets()).chain(self.shared.sockets())
    }

    /// Ends the shares that the ports lost, and says who is to be told.
    pub fn take_lost(&mut self) -> Vec<(ProgramId, Answer)> {
        let mut events = Vec::new();
        for (share, cause) in self.ports.take_lost() {
            // Closed since.
            let Some(program) = self.shares.get(&share).map(|share| share.program) else { continue };
            self.close_share(share);
            events.push((program, Answer::ShareRevoked { share, cause }));
        }
        events
    }

    fn program(&self, id: ProgramId) -> Result<&Program, Cause> {
        self.programs.get(&id).ok_or(Cause::NotGreeted {})
    }

    fn own_share(&self, id: ProgramId, share: u32) -> Result<&Share, Cause> {
        self.shares.get(&share).filter(|found| found.program == id).ok_or(Cause::NoSuchShare { share })
    }

    fn with_own_share(&mut self, id: ProgramId, share: u32, act: fn(&mut Self, u32)) -> Result<Outcome, Cause> {
        self.own_share(id, share)?;
        act(self, share);
        Ok(Answer::Done {}.into())
    }

    fn shares_of(&self, id: ProgramId) -> impl Iterator<Item = (u32, &Share)> {
        self.shares.iter().filter(move |(_, share)| share.program == id).map(|(number, share)| (*number, share))
    }

    fn uid_of(&self, id: ProgramId) -> Option<u32> {
        self.programs.get(&id).map(|program| program.caller.uid)
    }

    fn shares_of_user(&self, uid: u32) -> impl Iterator<Item = (u32, &Share)> {
        let is_of = move |(_, share): &(&u32, &Share)| self.uid_of(share.program) == Some(uid);
        self.shares.iter().filter(is_of).map(|(number, share)| (*number, share))
    }

    fn open_share(
        &mut self,
        (id, request): Asker,
        interface: InterfaceName,
        memory_bytes: u64,
    ) -> Result<Option<Outcome>, Cause> {
        let program = self.program(id)?;
        let (uid, allowance) = (program.caller.uid, &program.allowance);
        if !allowance.has_interface(interface.as_str()) {
            return Err(Cause::InterfaceNotAllowed { uid, interface });
        }
        let others = self.shares.values().filter(|share| share.interface == interface).map(|share| share.program);
        let others = others.chain(self.begun.on(&interface));
        let other = others.filter_map(|other| self.uid_of(other)).find(|other| *other != uid);
        if let Some(other) = other {
            return Err(Cause::InterfaceOfOtherUser { interface, uid: other });
        }
        let of_user = self.shares_of_user(uid);
        let (count, had_bytes) =
            of_user.fold((0, 0), |(count, bytes), (_, share)| (count + 1, bytes + share.memory_bytes));
        let begun = self.begun.shares().filter(|share| self.uid_of(share.asker.0) == Some(uid));
        let (begun, begun_bytes) =
            begun.fold((0, 0), |(count, bytes), share| (count + 1, bytes + share.inherited_bytes));
        let had_bytes = had_bytes + begun_bytes;
        at_most(count + begun + 1, allowance.shares.into(), Limited::Shares {})?;
        let memory_most_bytes = allowance.memory_bytes.saturating_sub(had_bytes);
        let share = self.next_share;
        let wanted = Wanted { share, uid, interface: interface.as_str().to_owned(), memory_bytes, memory_most_bytes };
        let begun = BegunShare { asker: (id, request), interface, inherited_bytes: 0 };
        match self.ports.open_share(&wanted)? {
            Some(opened) => {
                self.next_share += 1;
                self.take_share(share, &begun, opened).map(Some)
            }
            None => {
                self.next_share += 1;
                self.begun.add_share(share, begun);
                Ok(None)
            }
        }
    }

    /// Of a share that was opened.
    fn take_share(&mut self, share: u32, begun: &BegunShare, opened: Opened) -> Result<Outcome, Cause> {
        let (id, _) = begun.asker;
        let Opened { description, descriptors, memory_bytes, ifindex, carrier_within_ms } = opened;
        self.strangers.share_opened();
        let program = self.program(id)?;
        let most = program.allowance.memory_bytes;
        let had_bytes: u64 = self.shares_of_user(program.caller.uid).map(|(_, share)| share.memory_bytes).sum();
        let memory_bytes = memory_bytes + begun.inherited_bytes;
        if memory_bytes > most.saturating_sub(had_bytes) {
            self.ports.close_share(share);
            return Err(Cause::LimitReached { what: Limited::MemoryBytes {}, most });
        }
        let interface = begun.interface.clone();
        self.shares.insert(share, Share { program: id, interface, ifindex, memory_bytes, is_paused: false });
        let answer = Answer::ShareOpened { share, memory_bytes, description, carrier_within_ms };
        Ok(Outcome { answer, descriptors, events: Vec::new() })
    }

    /// With its flows.
    fn close_share(&mut self, share: u32) {
        self.end_connections_of(share, false);
        self.forget(share);
        if let Some(closed) = self.shares.remove(&share) {
            self.pass_on_memory(&closed);
        }
        self.ports.close_share(share);
    }

    /// The memory of a port stays until its last share is closed, and counts for its user as long. So what the first share added counts for
    /// another one from now on.
    fn pass_on_memory(&mut self, closed: &Share) {
        match self.shares.values_mut().find(|share| share.interface == closed.interface) {
            Some(other) => other.memory_bytes += closed.memory_bytes,
            None => self.begun.add_memory(&closed.interface, closed.memory_bytes),
        }
    }

    fn forget(&mut self, share: u32) {
        for flow in self.flows.of_share(share) {
            self.end(flow);
        }
    }

    /// Gives a flow's frames to the kernel.
    fn end(&mut self, flow: u32) -> Option<Flow> {
        self.end_for(flow, false)
    }

    fn end_for(&mut self, flow: u32, is_closed: bool) -> Option<Flow> {
        let ended = self.flows.take_out(flow)?;
        if ended.addresses.remote.is_none() && !is_closed {
            // Connected, its socket has what is left of it.
            self.note_connection(ended.program, &ended.shadow);
        }
        self.close_at_port(&ended, is_closed);
        self.end_kernel_flows_beside(&ended);
        self.note_change(&ended);
        Some(ended)
    }

    /// The kernel is asked soon who has the address of a flow that came or ended.
    fn note_change(&mut self, flow: &Flow) {
        if flow.shadow.may_share() {
            self.strangers.changed(self.now);
        }
    }

    /// Whether the port is to know of a flow that comes or goes. Several sockets of a program may be bound to one address (SO_REUSEPORT):
    /// its share has the flow while one of them is open.
    fn concerns_port(&self, flow: &Flow) -> bool {
        !self.is_paused(flow) && !flow.is_held && !self.flows.has_same(flow)
    }

    fn open_at_port(&mut self, flow: &Flow) -> Result<(), Cause> {
        if !self.concerns_port(flow) {
            return Ok(());
        }
        self.give_to_share(flow)
    }

    /// Of a flow that was taken out.
    fn close_at_port(&mut self, flow: &Flow, is_closed: bool) {
        if self.concerns_port(flow) {
            self.take_from_share(flow, is_closed);
        }
    }

    fn open_flow(
        &mut self,
        id: ProgramId,
        share: u32,
        address: Option<IpAddr>,
        socket: Option<OwnedFd>,
    ) -> Result<Outcome, Cause> {
        let program = self.program(id)?;
        let (uid, pid, most) = (program.caller.uid, program.caller.pid, program.allowance.flows);
        let ifindex = self.own_share(id, share)?.ifindex;
        let shadow = self.read(socket)?;
        if let Some(reader) = self.announced.reader_beside(&self.ports, shadow.cookie, pid) {
            self.shared.add(shadow.cookie, (id, share));
            return Err(Why::SocketShared.cause(reader));
        }
        if shadow.ifindex != 0 && shadow.ifindex != ifindex {
            return Err(Cause::OtherInterface { ifindex: shadow.ifindex });
        }
        let addresses = shadow.addresses_of(address, ifindex)?;
        self.forget_other_kernel_flows(&shadow);
        self.one_more_flow(uid, most)?;
        if let Some(other) = self.shared.user_beside(shadow.cookie, id) {
            self.shared.add(shadow.cookie, (id, share));
            return Err(Why::SocketShared.cause(self.program(other)?.caller.pid));
        }
        let mut wanted = Flow { program: id, uid, share, ifindex, addresses, shadow, is_held: false };
        let (revoked, refused) = match self.flows.judge(&wanted) {
            Verdict::Open { stale } => (stale, None),
            Verdict::Kernel { others, cause } => (others, Some(cause)),
            Verdict::OpenAlready { flow } => return Err(Cause::FlowOpenAlready { flow }),
        };
        let events = revoked.into_iter().filter_map(|(flow, why)| {
            let ended = self.end(flow)?;
            if why == Why::SocketShared {
                self.shared.add(ended.shadow.cookie, (ended.program, ended.share));
                self.shared.add(ended.shadow.cookie, (id, share));
            }
            Some((ended.program, Answer::FlowRevoked { flow, cause: why.cause(pid) }))
        });
        let events = events.collect();
        if let Some(why) = refused {
            if why.why == Why::SocketShared {
                self.announced.leave_to_kernel(&wanted.shadow, None);
            }
            let pid = self.programs.get(&why.program).map_or(0, |program| program.caller.pid);
            return Ok(Outcome {
                answer: Answer::Refused { cause: why.why.cause(pid) },
                descriptors: Vec::new(),
                events,
            });
        }
        let opened = self.is_to_be_held(&wanted).and_then(|is_held| {
            wanted.is_held = is_held;
            self.open_at_port(&wanted)
        });
        self.note_change(&wanted);
        let answer = match opened {
            Ok(()) => {
                self.announced.has_flow(wanted.shadow.cookie, pid);
                self.shared.forget(wanted.shadow.cookie);
                let shadow = wanted.shadow;
                let flow = self.flows.insert(wanted);
                // Held, or of a share that is paused.
                self.note_connection(id, &shadow);
                self.end_holds_beside(flow);
                Answer::FlowOpened { flow, addresses }
            }
            Err(cause) => Answer::Refused { cause },
        };
        Ok(Outcome { answer, descriptors: Vec::new(), events })
    }

    /// Sockets that are announced count as flows.
    fn one_more_flow(&self, uid: u32, most: u32) -> Result<(), Cause> {
        let of_share = |number| self.flows.count(number) + self.connections.count(number);
        let count: usize = self.shares_of_user(uid).map(|(number, _)| of_share(number)).sum();
        let of_user = |id: ProgramId| self.uid_of(id) == Some(uid);
        let count = count + self.connections.count_guarded(of_user) + self.announced.count(of_user);
        at_most(count as u64 + 1, most.into(), Limited::Flows {})
    }

    /// What the kernel says of a socket that came with a request. It is closed: a copy would hold the port.
    fn read(&self, socket: Option<OwnedFd>) -> Result<Shadow, Cause> {
        Shadow::read(socket_of(&socket)?, self.namespace)
    }

    fn close_flow(&mut self, id: ProgramId, flow: u32) -> Result<Outcome, Cause> {
        let is_own = self.flows.get(flow).is_some_and(|found| found.program == id);
        if !is_own {
            return Err(Cause::NoSuchFlow { flow });
        }
        self.end(flow);
        Ok(Answer::Done {}.into())
    }

    /// As many programs as fit into an answer, from a number on.
    fn status(&self, id: ProgramId, from: u32) -> Answer {
        let own = self.uid_of(id);
        let may_see =
            |program: &Program| own == Some(0) || own == Some(self.own_uid) || own == Some(program.caller.uid);
        let (mut programs, mut next, mut left_bytes) = (Vec::new(), None, MESSAGE_MOST_BYTES / 2);
        for (&other, program) in self.programs.range(from..).filter(|(_, program)| may_see(program)) {
            let status = self.status_of(other, program);
            // A name and a share take less than this.
            let len_bytes = 128 + status.shares.len() * 32;
            if len_bytes > left_bytes {
                next = Some(other);
                break;
            }
            left_bytes -= len_bytes;
            programs.push(status);
        }
        Answer::Programs { programs, next }
    }

    fn status_of(&self, id: ProgramId, program: &Program) -> ProgramStatus {
        const SHARES_SHOWN: usize = 64;
        let of_share = |(share, found): (u32, &Share)| ShareStatus {
            share,
            interface: found.interface.clone(),
            flows: self.flows.count(share) as u32,
        };
        ProgramStatus {
            pid: program.caller.pid,
            uid: program.caller.uid,
            name: program.name.clone(),
            memory_bytes: self.shares_of(id).map(|(_, share)| share.memory_bytes).sum(),
            shares: self.shares_of(id).take(SHARES_SHOWN).map(of_share).collect(),
        }
    }
}

fn socket_of(socket: &Option<OwnedFd>) -> Result<BorrowedFd<'_>, Cause> {
    socket.as_ref().map(AsFd::as_fd).ok_or(Cause::WrongDescriptors { found: 0, wanted: 1 })
}

fn at_most(wanted: u64, most: u64, what: Limited) -> Result<(), Cause> {
    if wanted > most { Err(Cause::LimitReached { what, most }) } else { Ok(()) }
}

/// A cause in the agent's own words.
pub(crate) fn malformed(words: &impl ToString) -> Cause {
    Cause::Malformed { words: Text::cut(&words.to_string()) }
}

#[cfg(test)]
mod tests;

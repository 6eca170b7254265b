//! Changes of flows that are open: paused and resumed, given to another share, left to the kernel.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::{Flow, Judge, Outcome, ProgramId, Service};
use crate::bound::BoundSocket;
use crate::give_back::Received;
use crate::message::{Addresses, Answer, Cause};
use crate::ports::{FlowOwner, Ports};
use crate::shadow::Shadow;

impl<P: Ports, J: Judge> Service<P, J> {
    /// One of the flows of each address that a share has, of those that are not held.
    fn flows_at_port(&self, share: u32) -> Vec<Flow> {
        let flows = self.flows.of_share(share);
        let mut found: Vec<_> = Vec::with_capacity(flows.len());
        let mut known = HashSet::new();
        for flow in flows.iter().filter_map(|flow| self.flows.get(*flow)).filter(|flow| !flow.is_held) {
            if known.insert(flow.addresses) {
                found.push(flow.clone());
            }
        }
        found
    }

    pub(super) fn pause(&mut self, share: u32) {
        let Some(found) = self.shares.get_mut(&share) else { return };
        if std::mem::replace(&mut found.is_paused, true) {
            return;
        }
        for flow in self.flows_at_port(share) {
            self.take_from_share(&flow, false);
        }
    }

    pub(super) fn resume(&mut self, id: ProgramId, share: u32) -> Result<Outcome, Cause> {
        self.own_share(id, share)?;
        let mut events = Vec::new();
        let was_paused =
            self.shares.get_mut(&share).is_some_and(|share| std::mem::replace(&mut share.is_paused, false));
        let flows = if was_paused { self.flows_at_port(share) } else { Vec::new() };
        for paused in flows {
            let Err(cause) = self.give_to_share(&paused) else { continue };
            for flow in self.flows.of_share(share) {
                if self.flows.get(flow).is_some_and(|found| found.addresses == paused.addresses) {
                    self.flows.take_out(flow);
                    events.push((id, Answer::FlowRevoked { flow, cause: cause.clone() }));
                }
            }
        }
        Ok(Outcome { answer: Answer::Done {}, descriptors: Vec::new(), events })
    }

    /// Who has a socket may leave it to the kernel, whichever program has its flows.
    pub(super) fn release(&mut self, id: ProgramId, socket: Option<OwnedFd>) -> Result<Outcome, Cause> {
        let pid = self.program(id)?.caller.pid;
        let shadow = self.read(socket)?;
        let events = self.leave_to_kernel_of(pid, &shadow, |_| true);
        Ok(Outcome { answer: Answer::Done {}, descriptors: Vec::new(), events })
    }

    /// A process reads a socket by the kernel: flows of it end, of those programs that `are_others` says. Who is to be told.
    fn leave_to_kernel_of(
        &mut self,
        pid: u32,
        shadow: &Shadow,
        are_others: impl Fn(ProgramId) -> bool,
    ) -> Vec<(ProgramId, Answer)> {
        let cookie = shadow.cookie;
        self.announced.leave_to_kernel(shadow, Some(pid));
        let of_socket = self.flows.of_socket(cookie);
        let of_others = |flow: &u32| self.flows.get(*flow).is_some_and(|flow| are_others(flow.program));
        let flows: Vec<u32> = of_socket.into_iter().filter(of_others).collect();
        let cause = Cause::SocketShared { pid };
        let ended = flows.into_iter().filter_map(|flow| {
            let Flow { program, share, .. } = self.end(flow)?;
            // It reads the socket still, so nobody else gets a flow of it.
            self.shared.add(cookie, (program, share));
            Some((program, Answer::FlowRevoked { flow, cause: cause.clone() }))
        });
        ended.collect()
    }

    pub(super) fn announce(
        &mut self,
        id: ProgramId,
        socket: Option<OwnedFd>,
        is_to_be_used: bool,
    ) -> Result<Outcome, Cause> {
        let program = self.program(id)?;
        let (uid, pid, most) = (program.caller.uid, program.caller.pid, program.allowance.flows);
        let shadow = self.read(socket)?;
        self.note_connection(id, &shadow);
        let mut events = Vec::new();
        if is_to_be_used {
            self.one_more_flow(uid, most)?;
            self.announced.add(shadow.cookie, id);
        } else {
            events = self.leave_to_kernel_of(pid, &shadow, |program| program != id);
        }
        // What is held beside it may be opened, or what is open given up.
        self.strangers.changed(self.now);
        Ok(Outcome { events, ..Answer::Done {}.into() })
    }

    pub(super) fn show_connection(&mut self, id: ProgramId, socket: Option<OwnedFd>) -> Result<Outcome, Cause> {
        self.program(id)?;
        let shadow = self.read(socket)?;
        self.note_connection(id, &shadow);
        Ok(Answer::Done {}.into())
    }

    pub(super) fn move_flow(&mut self, id: ProgramId, flow: u32, share: u32) -> Result<Outcome, Cause> {
        let ifindex = self.own_share(id, share)?.ifindex;
        let from = self.flows.get(flow).filter(|found| found.program == id).ok_or(Cause::NoSuchFlow { flow })?.clone();
        if from.ifindex != ifindex {
            return Err(Cause::OtherInterface { ifindex: from.ifindex });
        }
        if from.share == share {
            return Ok(Answer::Done {}.into());
        }
        let to = Flow { share, ..from.clone() };
        self.flows.take_out(flow);
        let moved = if self.concerns_port(&from) && self.concerns_port(&to) {
            let owners = [from.share, share].map(FlowOwner::Share);
            self.ports.move_flow(ifindex, &from.addresses, owners[0], owners[1])
        } else {
            self.open_at_port(&to).inspect(|()| self.close_at_port(&from, false))
        };
        let kept = if moved.is_ok() { to } else { from };
        self.flows.put_in(flow, kept);
        moved.map(|()| Answer::Done {}.into())
    }

    /// Sends a datagram once more to the socket it was for. No other socket may get it: who chooses the source of a datagram could speak to others in
    /// somebody's name.
    pub(super) fn give_back(
        &mut self,
        id: ProgramId,
        socket: Option<OwnedFd>,
        mut datagram: Received<'_>,
    ) -> Result<Outcome, Cause> {
        self.program(id)?;
        let shadow = self.read(socket)?;
        let Addresses { local, remote, both_families } = shadow.addresses;
        datagram.destination.set_port(local.port());
        let (own, to) = (local.ip().to_canonical(), datagram.destination.ip());
        let is_of_family = !to.is_unspecified() && (both_families || own.is_ipv4() == to.is_ipv4());
        let is_to_it =
            is_of_family && (own.is_unspecified() || own == to) && self.ports.has_address(to, shadow.ifindex);
        let is_same = |remote: SocketAddr| {
            (remote.ip().to_canonical(), remote.port()) == (datagram.source.ip().to_canonical(), datagram.source.port())
        };
        let bound = self.ports.bound_to(Some(local.port())).map_err(|_| Cause::NotGivenBack {})?;
        let made_by = bound.iter().find(|socket| socket.cookie == shadow.cookie).map(|socket| socket.uid);
        // Those of one group are of one user, and the kernel chooses among them.
        let is_alike = |socket: &BoundSocket| Some(socket.uid) == made_by && socket.remote.is_none();
        let is_alone = bound.iter().all(|socket| socket.cookie == shadow.cookie || is_alike(socket));
        if !is_to_it || !is_alone || !remote.is_none_or(is_same) {
            return Err(Cause::NotGivenBack {});
        }
        self.ports.give_back(&datagram)?;
        Ok(Answer::Done {}.into())
    }
}

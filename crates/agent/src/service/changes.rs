//! Changes of flows that are open: paused and resumed, given to another share, left to the kernel.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use super::{Flow, Judge, Outcome, ProgramId, Service};
use crate::message::{Addresses, Answer, Cause, FlowOwner};
use crate::ports::Ports;

impl<P: Ports, J: Judge> Service<P, J> {
    /// One of each address that a share has flows of which are not held.
    fn addresses_of_share(&self, share: u32) -> Vec<(Addresses, FlowOwner)> {
        let flows = self.flows.of_share(share);
        let mut found: Vec<_> = Vec::with_capacity(flows.len());
        let mut known = HashSet::new();
        for flow in flows.iter().filter_map(|flow| self.flows.get(*flow)).filter(|flow| !flow.is_held) {
            if known.insert((flow.addresses, flow.owner == FlowOwner::Share {})) {
                found.push((flow.addresses, flow.owner));
            }
        }
        found
    }

    pub(super) fn pause(&mut self, share: u32) {
        let Some(found) = self.shares.get_mut(&share) else { return };
        if std::mem::replace(&mut found.is_paused, true) {
            return;
        }
        for (addresses, owner) in self.addresses_of_share(share) {
            self.ports.close_flow(share, &addresses, owner);
        }
    }

    pub(super) fn resume(&mut self, id: ProgramId, share: u32) -> Result<Outcome, Cause> {
        self.own_share(id, share)?;
        let mut events = Vec::new();
        let was_paused =
            self.shares.get_mut(&share).is_some_and(|share| std::mem::replace(&mut share.is_paused, false));
        let flows = if was_paused { self.addresses_of_share(share) } else { Vec::new() };
        for (addresses, owner) in flows {
            let Err(cause) = self.ports.open_flow(share, &addresses, owner) else { continue };
            for flow in self.flows.of_share(share) {
                if self.flows.get(flow).is_some_and(|found| (found.addresses, found.owner) == (addresses, owner)) {
                    self.flows.take_out(flow);
                    events.push((id, Answer::FlowRevoked { flow, cause: cause.clone() }));
                }
            }
        }
        Ok(Outcome { answer: Answer::Done {}, descriptors: Vec::new(), events })
    }

    pub(super) fn want_times(&mut self, id: ProgramId, share: u32) -> Result<Outcome, Cause> {
        self.own_share(id, share)?;
        self.ports.want_times(share)?;
        Ok(Answer::Done {}.into())
    }

    /// Who has a socket may leave it to the kernel, whichever program has its flows.
    pub(super) fn release(&mut self, id: ProgramId, socket: Option<OwnedFd>) -> Result<Outcome, Cause> {
        let pid = self.program(id)?.caller.pid;
        let shadow = self.read(socket)?;
        self.announced.leave_to_kernel(shadow.cookie);
        self.shared.forget(shadow.cookie);
        let ended =
            self.flows.of_socket(shadow.cookie).into_iter().filter_map(|flow| Some((flow, self.end(flow)?.program)));
        let cause = Cause::SocketShared { pid };
        let events =
            ended.map(|(flow, program)| (program, Answer::FlowRevoked { flow, cause: cause.clone() })).collect();
        Ok(Outcome { answer: Answer::Done {}, descriptors: Vec::new(), events })
    }

    pub(super) fn announce(
        &mut self,
        id: ProgramId,
        socket: Option<OwnedFd>,
        is_to_be_used: bool,
    ) -> Result<Outcome, Cause> {
        let program = self.program(id)?;
        let (uid, most) = (program.caller.uid, program.allowance.flows);
        let shadow = self.read(socket)?;
        if is_to_be_used {
            self.one_more_flow(uid, most)?;
            self.announced.add(shadow.cookie, id);
        } else {
            self.announced.leave_to_kernel(shadow.cookie);
            self.shared.forget(shadow.cookie);
        }
        // What is held beside it may be opened, or what is open given up.
        self.strangers.changed(self.now);
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
            self.ports.move_flow(from.share, share, &from.addresses, from.owner)
        } else {
            self.open_at_port(&to).inspect(|()| self.close_at_port(&from))
        };
        let kept = if moved.is_ok() { to } else { from };
        self.flows.put_in(flow, kept);
        moved.map(|()| Answer::Done {}.into())
    }
}

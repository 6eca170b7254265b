//! Requests whose answer takes the ports longer: shares that are being opened, times that are being asked for, connections whose port rests.
//! Everybody else is answered meanwhile.

use std::collections::BTreeMap;

use super::{Asker, Judge, Outcome, ProgramId, Service};
use crate::message::{Answer, Cause, InterfaceName, Text};
use crate::ports::{Finished, Ports};
use crate::shadow::ConnectedShadow;

#[derive(Debug)]
pub(super) struct BegunShare {
    pub(super) asker: Asker,
    pub(super) interface: InterfaceName,
    /// Memory of the port that counted for a share that is closed.
    pub(super) inherited_bytes: u64,
}

/// A connection that waits for its port.
#[derive(Debug)]
pub(super) struct BegunConnection {
    pub(super) asker: Asker,
    pub(super) share: u32,
    pub(super) ifindex: u32,
    pub(super) shadow: ConnectedShadow,
}

/// By the number of the share.
#[derive(Debug, Default)]
pub(super) struct Begun {
    shares: BTreeMap<u32, BegunShare>,
    times: BTreeMap<u32, Asker>,
    connections: Vec<BegunConnection>,
}

impl Begun {
    pub(super) fn add_share(&mut self, share: u32, begun: BegunShare) {
        self.shares.insert(share, begun);
    }

    pub(super) fn add_connection(&mut self, begun: BegunConnection) {
        self.connections.push(begun);
    }

    pub(super) fn shares(&self) -> impl Iterator<Item = &BegunShare> {
        self.shares.values()
    }

    /// The programs that are to have a share on an interface.
    pub(super) fn on(&self, interface: &InterfaceName) -> impl Iterator<Item = ProgramId> {
        self.shares.values().filter(move |share| share.interface == *interface).map(|share| share.asker.0)
    }

    /// Memory counts for one that is being opened on the interface, if there is one.
    pub(super) fn add_memory(&mut self, interface: &InterfaceName, memory_bytes: u64) {
        if let Some(share) = self.shares.values_mut().find(|share| share.interface == *interface) {
            share.inherited_bytes += memory_bytes;
        }
    }

    /// The shares that nobody waits for any more.
    pub(super) fn program_gone(&mut self, id: ProgramId) -> Vec<u32> {
        self.times.retain(|_, asker| asker.0 != id);
        self.connections.retain(|connection| connection.asker.0 != id);
        let gone: Vec<_> = self.shares.extract_if(.., |_, share| share.asker.0 == id).collect();
        gone.iter().for_each(|(_, share)| self.add_memory(&share.interface, share.inherited_bytes));
        gone.into_iter().map(|(number, _)| number).collect()
    }
}

impl<P: Ports, J: Judge> Service<P, J> {
    pub(super) fn want_times(&mut self, asker: Asker, share: u32) -> Result<Option<Outcome>, Cause> {
        self.own_share(asker.0, share)?;
        if self.begun.times.contains_key(&share) {
            return Err(Cause::Port { words: Text::cut("times of this share are being asked for") });
        }
        if self.ports.want_times(share)? {
            return Ok(Some(Answer::Done {}.into()));
        }
        self.begun.times.insert(share, asker);
        Ok(None)
    }

    /// The answers to requests that took longer, with who asked.
    pub fn take_finished(&mut self) -> Vec<(Asker, Outcome)> {
        let finished = self.ports.take_finished();
        finished.into_iter().flat_map(|finished| self.answers(finished)).collect()
    }

    fn answers(&mut self, finished: Finished) -> Vec<(Asker, Outcome)> {
        let answer = |asker, done: Result<Outcome, Cause>| {
            (asker, done.unwrap_or_else(|cause| Answer::Refused { cause }.into()))
        };
        match finished {
            Finished::Share(share, opened) => {
                let Some(begun) = self.begun.shares.remove(&share) else { return Vec::new() };
                let done = opened.and_then(|opened| self.take_share(share, &begun, opened));
                vec![answer(begun.asker, done)]
            }
            Finished::Times(share, done) => {
                let asker = self.begun.times.remove(&share);
                asker.map(|asker| answer(asker, done.map(|()| Answer::Done {}.into()))).into_iter().collect()
            }
            Finished::Awake(ifindex, awake) => {
                let waiting = self.begun.connections.extract_if(.., |connection| connection.ifindex == ifindex);
                let waiting: Vec<_> = waiting.collect();
                let open = |BegunConnection { asker, share, shadow, .. }| {
                    let opened = awake.clone().and_then(|()| self.open_connection(asker, share, shadow));
                    Some(answer(asker, opened.transpose()?))
                };
                waiting.into_iter().filter_map(open).collect()
            }
        }
    }
}

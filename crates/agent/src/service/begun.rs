//! Requests whose answer takes the ports longer: shares that are being opened, times that are being asked for. Everybody else is answered meanwhile.

use std::collections::BTreeMap;

use super::{Asker, Judge, Outcome, ProgramId, Service};
use crate::message::{Answer, Cause, InterfaceName, Text};
use crate::ports::{Finished, Ports};

#[derive(Debug)]
pub(super) struct BegunShare {
    pub(super) asker: Asker,
    pub(super) interface: InterfaceName,
    /// Memory of the port that counted for a share that is closed.
    pub(super) inherited_bytes: u64,
}

/// By the number of the share.
#[derive(Debug, Default)]
pub(super) struct Begun {
    shares: BTreeMap<u32, BegunShare>,
    times: BTreeMap<u32, Asker>,
}

impl Begun {
    pub(super) fn add_share(&mut self, share: u32, begun: BegunShare) {
        self.shares.insert(share, begun);
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
        let answer = |finished| {
            let (asker, done) = match finished {
                Finished::Share(share, opened) => {
                    let begun = self.begun.shares.remove(&share)?;
                    (begun.asker, opened.and_then(|opened| self.take_share(share, &begun, opened)))
                }
                Finished::Times(share, done) => {
                    (self.begun.times.remove(&share)?, done.map(|()| Answer::Done {}.into()))
                }
            };
            Some((asker, done.unwrap_or_else(|cause| Answer::Refused { cause }.into())))
        };
        finished.into_iter().filter_map(answer).collect()
    }
}

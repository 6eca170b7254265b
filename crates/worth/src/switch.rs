//! Values of a host that are written and put back again and again, each time by way of a journal.
//!
//! What outlives this process is in the journal on disk before it is written, as for `nearwire tune apply`.

use nearwire_host::change::{ApplyError, ApplyOptions, Change, Host, Outcome, Reverted, apply, take_newest_back};
use nearwire_host::journal::{Block, Journal, unix_s};

use crate::run::{Switch, SwitchError};
use crate::unconfirmed;

/// In place of a profile in the plans of a measurement.
const PROFILE: &str = "tune measure";

/// Where it is noted what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In the journal of the host: the value outlives this process.
    OnDisk,
    /// In memory: the value goes with what it is a value of, an end of a virtual cable.
    InMemory,
}

/// One setting with all of its places.
#[derive(Clone, Debug)]
pub struct Placed {
    /// What is written.
    pub changes: Vec<Change>,
    /// Where it is noted what was found.
    pub keep: Keep,
}

/// Settings of a host.
pub struct JournalSwitch<'a> {
    host: &'a mut dyn Host,
    on_disk: Journal,
    in_memory: Journal,
    settings: Vec<Placed>,
    wanted: Vec<usize>,
    must_stop: &'a dyn Fn() -> bool,
    settle: &'a dyn Fn(&[Change]),
}

impl<'a> JournalSwitch<'a> {
    /// Settings by their places. `on_disk` is the journal of the host; `settle` waits until the host has got over such changes.
    ///
    /// # Errors
    /// What an earlier measurement that was killed has left cannot be put back.
    pub fn new(
        host: &'a mut dyn Host,
        on_disk: Journal,
        settings: Vec<Placed>,
        must_stop: &'a dyn Fn() -> bool,
        settle: &'a dyn Fn(&[Change]),
    ) -> Result<Self, SwitchError> {
        let in_memory = Journal::in_memory(on_disk.identity().clone());
        let on_disk = on_disk.without_history();
        let mut switch = Self { host, on_disk, in_memory, settings, wanted: Vec::new(), must_stop, settle };
        put_leftovers_back(switch.host, &mut switch.on_disk)?;
        Ok(switch)
    }

    fn put_back(&mut self) -> Result<(), SwitchError> {
        let wanted = std::mem::take(&mut self.wanted);
        let changes: Vec<Change> = wanted.iter().flat_map(|at| self.settings[*at].changes.clone()).collect();
        for journal in [&mut self.in_memory, &mut self.on_disk] {
            if journal.content().in_effect().last().is_some_and(is_ours) {
                take_back(self.host, journal)?;
            }
        }
        if !changes.is_empty() {
            (self.settle)(&changes);
        }
        Ok(())
    }

    fn write(&mut self, wanted: &[usize], keep: Keep) -> Result<Vec<Change>, SwitchError> {
        let of = wanted.iter().map(|at| &self.settings[*at]).filter(|placed| placed.keep == keep);
        let changes: Vec<Change> = of.flat_map(|placed| placed.changes.clone()).collect();
        if changes.is_empty() {
            return Ok(changes);
        }
        let journal = match keep {
            Keep::OnDisk => &mut self.on_disk,
            Keep::InMemory => &mut self.in_memory,
        };
        let options = ApplyOptions { must_stop: self.must_stop, ..unconfirmed::options(PROFILE) };
        apply(self.host, journal, changes.clone(), &options).map_err(refused)?;
        Ok(changes)
    }
}

impl Switch for JournalSwitch<'_> {
    fn set(&mut self, wanted: &[usize]) -> Result<(), SwitchError> {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        if wanted == self.wanted {
            return Ok(());
        }
        self.put_back()?;
        // What is in effect from the first write on is to be put back.
        self.wanted.clone_from(&wanted);
        let mut changes = Vec::new();
        for keep in [Keep::InMemory, Keep::OnDisk] {
            match self.write(&wanted, keep) {
                Ok(written) => changes.extend(written),
                Err(error) => {
                    self.put_back()?;
                    return Err(error);
                }
            }
        }
        if !changes.is_empty() {
            (self.settle)(&changes);
        }
        Ok(())
    }
}

impl Drop for JournalSwitch<'_> {
    fn drop(&mut self) {
        // Whoever wants to know what failed has called `set` before; the journal has it in any case.
        let _ = self.put_back();
    }
}

/// Puts back what a measurement that was killed left in this journal; whether there was anything. What `nearwire tune apply` wrote
/// stays.
///
/// # Errors
/// Not everything could be put back.
pub fn put_leftovers_back(host: &mut dyn Host, journal: &mut Journal) -> Result<bool, SwitchError> {
    let mut had_any = false;
    while journal.content().in_effect().last().is_some_and(is_ours) {
        take_back(host, journal)?;
        had_any = true;
    }
    Ok(had_any)
}

/// Whether a plan is one of a measurement.
fn is_ours(block: &Block) -> bool {
    block.profile.as_deref() == Some(PROFILE) && block.is_in_effect()
}

fn take_back(host: &mut dyn Host, journal: &mut Journal) -> Result<(), SwitchError> {
    let reverted = take_newest_back(host, journal, unix_s());
    let Reverted { back, is_complete, .. } =
        reverted.map_err(|error| SwitchError::NotBack { why: format!("{error}; nearwire tune revert tries again") })?;
    if is_complete {
        return Ok(());
    }
    let left = back.items.iter().filter_map(|(id, outcome)| match outcome {
        Outcome::Failed(error) => Some(format!("\n  {id}: {error}")),
        Outcome::Absent => Some(format!("\n  {id}: it is not there any more")),
        _ => None,
    });
    let left: String = left.collect();
    Err(SwitchError::NotBack {
        why: format!("not all values could be put back, nearwire tune revert tries again:{left}"),
    })
}

fn refused(error: ApplyError) -> SwitchError {
    let is_back =
        |back: &nearwire_host::change::PutBack| back.failed().next().is_none() && back.absent().next().is_none();
    match &error {
        ApplyError::Failed { back, .. } if !is_back(back) => SwitchError::NotBack { why: error.to_string() },
        _ => SwitchError::Refused { why: error.to_string() },
    }
}

#[cfg(test)]
mod tests;

//! Values of a host that are written and put back again and again, each time by way of a journal.
//!
//! What outlives this process is in the journal on disk before it is written, as for `nearwire tune apply`.

use nearwire_host::LatencyRequest;
use nearwire_host::change::{ApplyError, ApplyOptions, Change, Host, Outcome, Reverted, apply, take_newest_back};
use nearwire_host::journal::{Block, Journal, unix_s};

use crate::run::{Switch, SwitchError};
use crate::unconfirmed;

/// The command whose plans these are, which stands in place of a profile in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `nearwire tune measure`.
    TuneMeasure,
    /// `nearwire bench --vary`.
    BenchVary,
}

impl Command {
    const ALL: [Self; 2] = [Self::TuneMeasure, Self::BenchVary];

    const fn name(self) -> &'static str {
        match self {
            Self::TuneMeasure => "tune measure",
            Self::BenchVary => "bench --vary",
        }
    }
}

/// The setting of [`Placed::Request`].
const LATENCY: &str = "cpu.dma-latency-us";

/// Where it is noted what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In the journal of the host: the value outlives this process.
    OnDisk,
    /// In memory: the value goes with what it is a value of, an end of a virtual cable.
    InMemory,
}

/// How one setting gets its value.
#[derive(Clone, Debug)]
pub enum Placed {
    /// It is written at all of its places.
    Written {
        /// What is written.
        changes: Vec<Change>,
        /// Where it is noted what was found.
        keep: Keep,
    },
    /// This process asks that no CPU takes longer to wake up, microseconds, and holds the request as long as the value is
    /// wanted. It ends with the process, so that no journal has to know.
    Request(u32),
}

impl Placed {
    /// What is written.
    pub(crate) fn changes(&self) -> &[Change] {
        match self {
            Self::Written { changes, .. } => changes,
            Self::Request(_) => &[],
        }
    }
}

/// Settings of a host.
pub struct JournalSwitch<'a> {
    command: Command,
    host: Box<dyn Host>,
    on_disk: Journal,
    in_memory: Journal,
    settings: Vec<Placed>,
    wanted: Vec<usize>,
    /// What was read back when these were written.
    told: Vec<String>,
    kept: Vec<String>,
    requests: Vec<LatencyRequest>,
    must_stop: &'a dyn Fn() -> bool,
    settle: &'a dyn Fn(&[Change]),
}

impl<'a> JournalSwitch<'a> {
    /// Settings by their places. `on_disk` is the journal of the host, without what was left in it
    /// ([`put_leftovers_back`]); `settle` waits until the host has got over such changes.
    #[must_use]
    pub fn new(
        command: Command,
        host: impl Host + 'static,
        on_disk: Journal,
        settings: Vec<Placed>,
        must_stop: &'a dyn Fn() -> bool,
        settle: &'a dyn Fn(&[Change]),
    ) -> Self {
        let in_memory = Journal::in_memory(on_disk.identity().clone());
        Self {
            command,
            host: Box::new(host),
            on_disk: on_disk.without_history(),
            in_memory,
            settings,
            wanted: Vec::new(),
            told: Vec::new(),
            kept: Vec::new(),
            requests: Vec::new(),
            must_stop,
            settle,
        }
    }

    /// Gives exactly these settings, by their places, the wanted values. A line for each place says what was read back there and what was
    /// found.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn give(&mut self, wanted: &[usize]) -> Result<&[String], SwitchError> {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        if wanted == self.wanted {
            return Ok(&self.told);
        }
        self.put_back()?;
        // What is in effect from the first write on is to be put back.
        self.wanted.clone_from(&wanted);
        match self.write(&wanted) {
            Ok(changes) => self.settle(&changes),
            Err(error) => {
                self.put_back()?;
                return Err(error);
            }
        }
        Ok(&self.told)
    }

    /// Values that somebody else changed meanwhile, since this was asked last: they stay as they are.
    pub fn take_kept(&mut self) -> Vec<String> {
        std::mem::take(&mut self.kept)
    }

    fn put_back(&mut self) -> Result<(), SwitchError> {
        let wanted = std::mem::take(&mut self.wanted);
        self.told.clear();
        self.requests.clear();
        let mut result = Ok(());
        for journal in [&mut self.in_memory, &mut self.on_disk] {
            if journal.content().in_effect().last().is_some_and(is_ours) {
                match take_back(self.host.as_mut(), journal) {
                    Ok(kept) => self.kept.extend(kept),
                    // What is in the other journal goes back all the same.
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        let changes: Vec<Change> = wanted.iter().flat_map(|at| self.settings[*at].changes().to_vec()).collect();
        self.settle(&changes);
        result
    }

    fn settle(&self, changes: &[Change]) {
        if !changes.is_empty() {
            (self.settle)(changes);
        }
    }

    /// Writes all, and gives what was to be written.
    fn write(&mut self, wanted: &[usize]) -> Result<Vec<Change>, SwitchError> {
        let (mut in_memory, mut on_disk) = (Vec::new(), Vec::new());
        for at in wanted {
            match &self.settings[*at] {
                Placed::Written { changes, keep: Keep::InMemory } => in_memory.extend(changes.clone()),
                Placed::Written { changes, keep: Keep::OnDisk } => on_disk.extend(changes.clone()),
                Placed::Request(latency_us) => {
                    let (request, now_us) = held(*latency_us)?;
                    self.told.push(format!("{LATENCY} = {now_us}, held"));
                    self.requests.push(request);
                }
            }
        }
        let name = self.command.name();
        for (journal, changes) in [(&mut self.in_memory, &in_memory), (&mut self.on_disk, &on_disk)] {
            if changes.is_empty() {
                continue;
            }
            let options = ApplyOptions { must_stop: self.must_stop, ..unconfirmed::options(name) };
            let applied = apply(self.host.as_mut(), journal, changes.clone(), &options).map_err(refused)?;
            let as_found = changes.iter().filter(|change| change.is_as_wanted());
            self.told.extend(as_found.map(|change| format!("{} = {}, as found", change.id, change.found)));
            let written = applied.written.iter();
            self.told.extend(written.map(|(change, now)| format!("{} = {now}, found {}", change.id, change.found)));
        }
        in_memory.append(&mut on_disk);
        Ok(in_memory)
    }
}

impl Switch for JournalSwitch<'_> {
    fn set(&mut self, wanted: &[usize]) -> Result<(), SwitchError> {
        self.give(wanted).map(|_| ())
    }
}

impl Drop for JournalSwitch<'_> {
    fn drop(&mut self) {
        // Whoever wants to know what failed has called `set` before; the journal has it in any case.
        let _ = self.put_back();
    }
}

/// A request, and what is in effect with it.
fn held(latency_us: u32) -> Result<(LatencyRequest, u32), SwitchError> {
    let held = LatencyRequest::hold(latency_us).and_then(|request| {
        let now_us = request.in_effect_us()?;
        Ok((request, now_us))
    });
    held.map_err(|error| SwitchError::Refused { why: error.to_string() })
}

/// Puts back what a measurement of either command that was killed left in this journal; whether there was anything. What `nearwire tune apply` wrote
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
    let of = |command: Command| block.profile.as_deref() == Some(command.name());
    Command::ALL.into_iter().any(of) && block.is_in_effect()
}

/// Puts the newest plan back; says what somebody else changed meanwhile.
fn take_back(host: &mut dyn Host, journal: &mut Journal) -> Result<Vec<String>, SwitchError> {
    let reverted = take_newest_back(host, journal, unix_s());
    let Reverted { back, is_complete, .. } =
        reverted.map_err(|error| SwitchError::NotBack { why: format!("{error}; nearwire tune revert tries again") })?;
    let (mut kept, mut left) = (Vec::new(), String::new());
    for (id, outcome) in &back.items {
        match outcome {
            Outcome::Kept { now, .. } | Outcome::Permanent { now, .. } => kept.push(format!("{id} is {now}")),
            Outcome::Failed(error) => left += &format!("\n  {id}: {error}"),
            Outcome::Absent => left += &format!("\n  {id}: it is not there any more"),
            Outcome::AsFound | Outcome::Restored { .. } => {}
        }
    }
    if is_complete {
        return Ok(kept);
    }
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

//! All of a plan or none of it.

mod error;

use std::fmt;

use super::newest::{end_newest, is_back, put_newest_back};
use super::offline::leave_out;
use super::order::{may_move, put_in_order};
use super::put_back::After;
use super::{Change, Host, HostError, PutBack};
use crate::journal::{Journal, Progress, Record};
pub use error::{ApplyError, Attempt, AttemptError};

/// A write may move values that were written before it. Each round writes again what moved.
const ROUNDS: usize = 3;

/// How a plan is applied.
pub struct ApplyOptions<'a> {
    /// The time, seconds since 1970.
    pub unix_s: u64,
    /// The profile the changes come from.
    pub profile: Option<String>,
    /// Until when the plan has to be confirmed, seconds since 1970: a plan of a process that is killed must not look
    /// like one that is to stay.
    pub confirm_by_unix_s: Option<u64>,
    /// Whether a change that cannot be written may be left out, asked before anything is written.
    pub may_skip: &'a dyn Fn(&Change, &HostError) -> bool,
    /// Whether to stop and put everything back, asked before each write.
    pub must_stop: &'a dyn Fn() -> bool,
}

impl ApplyOptions<'_> {
    /// Nothing may be left out, nothing stops it.
    #[must_use]
    pub fn strict(unix_s: u64, profile: Option<String>) -> Self {
        Self { unix_s, profile, confirm_by_unix_s: None, may_skip: &|_, _| false, must_stop: &|| false }
    }
}

/// What an apply did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What was written, with what was read back.
    pub written: Vec<(Change, String)>,
    /// What was left out, and why.
    pub skipped: Vec<(Change, HostError)>,
    /// Values that moved with the others and could not be held: id, value before, value now.
    pub moved: Vec<(String, String, String)>,
}

impl fmt::Debug for ApplyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyOptions").field("unix_s", &self.unix_s).field("profile", &self.profile).finish()
    }
}

/// Writes a plan in the safe order, or puts back what was written of it.
///
/// Before the first write every place is tried for being writable and still having the value that
/// the plan found, and the whole plan is on disk. Changes that are as wanted are not written; they
/// are held where the others move them, and so are what a reset moves ([`Host::witnesses`]).
///
/// # Errors
/// See [`ApplyError`]. All but `Failed` mean that nothing was written.
pub fn apply(
    host: &mut dyn Host,
    journal: &mut Journal,
    changes: Vec<Change>,
    options: &ApplyOptions<'_>,
) -> Result<Applied, ApplyError> {
    if journal.content().is_interrupted() || journal.content().reverting.is_some() {
        return Err(ApplyError::BrokenOff);
    }
    let mut changes = without_duplicates(changes)?;
    let gone = leave_out(host, &mut changes);
    let (wanted, mut held): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| !change.is_as_wanted());
    let (wanted, mut skipped) = writable(host, wanted, options)?;
    skipped.extend(gone);
    if wanted.is_empty() {
        return Ok(Applied { skipped, ..Applied::default() });
    }
    for witness in host.witnesses(&wanted) {
        let key = witness.target.key();
        if !wanted.iter().chain(&held).any(|change| change.target.key() == key) {
            held.push(witness);
        }
    }
    let is_moved = |held: &Change| wanted.iter().any(|change| may_move(change, held));
    let mut plan: Vec<Change> = held.into_iter().filter(is_moved).collect();
    plan.extend(wanted);
    // Witnesses among them, which nobody asked for.
    leave_out(host, &mut plan);
    put_in_order(&mut plan);
    journal.begin(options.unix_s, options.profile.clone(), plan)?;
    let announced = options.confirm_by_unix_s.map_or(Ok(()), |unix_s| journal.append(Record::ConfirmBy { unix_s }));
    let announced = announced.map_err(|error| attempt("the time to confirm", error));
    let written = announced.and_then(|()| write_all(host, journal, options)).and_then(|()| {
        let moved = hold_all(host, journal)?;
        journal.append(Record::Complete).map_err(|error| attempt("the end of the plan", error))?;
        Ok(moved)
    });
    match written {
        Ok(moved) => Ok(Applied { written: effects(journal), skipped, moved }),
        Err(attempt) => {
            let back = roll_back(host, journal, options.unix_s);
            Err(ApplyError::Failed { attempt: Box::new(attempt), back })
        }
    }
}

fn without_duplicates(changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
    let mut kept: Vec<Change> = Vec::new();
    for change in changes {
        let key = change.target.key();
        match kept.iter().find(|known| known.target.key() == key) {
            None => kept.push(change),
            Some(known) if known.target.same(&known.wanted, &change.wanted) => {}
            Some(known) => {
                return Err(ApplyError::Conflict {
                    one: known.id.clone(),
                    other: change.id,
                    target: change.target.to_string(),
                    wanted_one: known.wanted.clone(),
                    wanted_other: change.wanted,
                });
            }
        }
    }
    Ok(kept)
}

type Skipped = Vec<(Change, HostError)>;

/// Tries every place without writing, and looks that nothing moved since the plan.
fn writable(
    host: &mut dyn Host,
    changes: Vec<Change>,
    options: &ApplyOptions<'_>,
) -> Result<(Vec<Change>, Skipped), ApplyError> {
    let (mut wanted, mut skipped, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let probed = match change.target.normal(&change.wanted) {
            Ok(_) if change.target.is_only_state(&change.found) => {
                let why = format!("it is {}, which nobody can change or put back while the host runs", change.found);
                Err(HostError::says("write", &change.target, why))
            }
            Ok(_) => host.probe(&change.target, &change.wanted),
            Err(error) => Err(HostError::says("write", &change.target, error.to_string())),
        };
        match probed.and_then(|()| host.read(&change.target)) {
            Ok(now) if change.target.same(&now, &change.found) => wanted.push(change),
            Ok(now) => return Err(ApplyError::Moved { id: change.id, found: change.found, now }),
            Err(error) if (options.may_skip)(&change, &error) => skipped.push((change, error)),
            Err(error) => problems.push((change.id, error)),
        }
    }
    if problems.is_empty() { Ok((wanted, skipped)) } else { Err(ApplyError::NotWritable { problems }) }
}

fn attempt(id: &str, error: impl Into<AttemptError>) -> Attempt {
    Attempt { id: id.to_owned(), error: error.into() }
}

fn write_all(host: &mut dyn Host, journal: &mut Journal, options: &ApplyOptions<'_>) -> Result<(), Attempt> {
    let plan = plan(journal);
    for change in plan.iter().filter(|change| !change.is_as_wanted()) {
        host.rehearse(&change.target).map_err(|error| attempt(&change.id, error))?;
    }
    for (at, change) in plan.iter().enumerate().filter(|(_, change)| !change.is_as_wanted()) {
        let failed = |error: AttemptError| attempt(&change.id, error);
        if (options.must_stop)() {
            return Err(failed(AttemptError::Stopped));
        }
        let now = host.read(&change.target).map_err(|error| failed(error.into()))?;
        let was_moved = plan[..at].iter().any(|earlier| !earlier.is_as_wanted() && may_move(earlier, change));
        if !was_moved && !change.target.same(&now, &change.found) {
            return Err(failed(AttemptError::Moved { found: change.found.clone(), now }));
        }
        journal.append(Record::Intent { change: at }).map_err(|error| failed(error.into()))?;
        if !change.target.same(&now, &change.wanted) {
            host.write(&change.target, &change.wanted).map_err(|error| failed(error.into()))?;
        }
        let effect = host.read(&change.target).map_err(|error| failed(error.into()))?;
        if !change.target.accepts(&change.wanted, &effect) {
            return Err(failed(no_effect(change, effect)));
        }
        journal.append(Record::Done { change: at, effect }).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

fn no_effect(change: &Change, now: String) -> AttemptError {
    AttemptError::NoEffect { found: change.found.clone(), wanted: change.wanted.clone(), now }
}

/// Looks at every value again and writes anew what other writes moved. A witness that cannot be
/// held is told of; a change that cannot be held fails.
fn hold_all(host: &mut dyn Host, journal: &mut Journal) -> Result<Vec<(String, String, String)>, Attempt> {
    let plan = plan(journal);
    let mut moved = Vec::new();
    for round in 0.. {
        moved.clear();
        let mut wrote = false;
        for (at, change) in plan.iter().enumerate() {
            let is_witness = change.is_as_wanted();
            let failed = |error: AttemptError| attempt(&change.id, error);
            let now = match host.read(&change.target) {
                Ok(now) if change.target.accepts(&change.wanted, &now) => continue,
                Ok(now) => now,
                // A queue that was given up took its values along.
                Err(error) if is_witness && error.is_absent() => continue,
                Err(error) => return Err(failed(error.into())),
            };
            let mut others = plan.iter().filter(|other| !other.is_as_wanted() && other.id != change.id);
            if !is_witness && (round >= ROUNDS || !others.any(|other| may_move(other, change))) {
                return Err(failed(no_effect(change, now)));
            }
            let refused = round >= ROUNDS || host.write(&change.target, &change.wanted).is_err();
            let effect = host.read(&change.target).map_err(|error| failed(error.into()))?;
            if refused && is_witness {
                moved.push((change.id.clone(), change.found.clone(), effect.clone()));
            } else {
                wrote = true;
            }
            journal.append(Record::Done { change: at, effect }).map_err(|error| failed(error.into()))?;
        }
        if !wrote {
            break;
        }
    }
    Ok(moved)
}

fn plan(journal: &Journal) -> Vec<Change> {
    let block = journal.content().blocks.last();
    block.map_or(Vec::new(), |block| block.entries.iter().map(|entry| entry.change.clone()).collect())
}

fn effects(journal: &Journal) -> Vec<(Change, String)> {
    let entries = journal.content().blocks.last().map_or(&[][..], |block| &block.entries);
    let written = entries.iter().filter(|entry| !entry.change.is_as_wanted());
    written
        .filter_map(|entry| match &entry.progress {
            Progress::Done(effect) => Some((entry.change.clone(), effect.clone())),
            Progress::Planned | Progress::Intended => None,
        })
        .collect()
}

/// Puts the newest plan back. The journal stays open when something of it could not be.
fn roll_back(host: &mut dyn Host, journal: &mut Journal, unix_s: u64) -> PutBack {
    let back = put_newest_back(host, journal, After::Failure);
    if is_back(&back) {
        // Without these two a revert finds every value as it was and ends the journal itself.
        let _ = end_newest(journal, unix_s);
    }
    back
}

//! Back to what was found before, and what is in effect now.

use std::path::PathBuf;

use thiserror::Error;

use super::put_back::{After, Item, Way, put_back, resolve};
use super::{Change, Host, HostError, Permanent, PutBack};
use crate::journal::{Block, Content, Damage, HostIdentity, Journal, JournalError, Progress, Record};

/// Why nothing was put back.
#[derive(Debug, Error)]
pub enum RevertError {
    /// No change is in effect.
    #[error("no change of nearwire is in effect: there is nothing to put back")]
    Nothing,
    /// Nothing of the journal is left but what was lost.
    #[error(
        "line {line} of {path} is damaged ({why}) and no other plan is left: put back what can still be read in it by \
         hand, then move the file away"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The journal cannot be used, or could not be ended after everything was put back.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What a revert did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// Each value.
    pub back: PutBack,
    /// Whether all is settled, so that the journal is closed. Otherwise a further revert tries the
    /// rest again.
    pub is_complete: bool,
    /// Lines of the journal that could not be read: values that only they tell of are not back.
    pub damaged: Vec<Damage>,
}

/// What a revert does with values that it cannot simply put back.
#[derive(Clone, Copy, Debug, Default)]
pub struct RevertOptions {
    /// Values whose device or file is gone count as settled.
    pub forget_absent: bool,
    /// Values that outlived a boot.
    pub permanent: Permanent,
}

/// Puts every value of the journal back to what was found before the first change of it, newest
/// first. A value that is neither ours nor the one found is kept, and so is one that is ours although
/// the host was booted since, unless the options say otherwise.
///
/// What is not there settles nothing, unless the host was booted since (values are gone with the
/// device) or the options say so.
///
/// # Errors
/// See [`RevertError`].
pub fn revert(
    host: &mut dyn Host,
    journal: &mut Journal,
    unix_s: u64,
    options: RevertOptions,
) -> Result<Reverted, RevertError> {
    let content = journal.content().clone();
    let blocks: Vec<&Block> = content.in_effect().collect();
    if let (true, Some(damage)) = (blocks.is_empty(), content.damaged.first()) {
        let Damage { line, why } = damage.clone();
        return Err(RevertError::Damaged { path: journal.path(), line, why });
    }
    if blocks.is_empty() {
        journal.close(unix_s)?;
        return Err(RevertError::Nothing);
    }
    let is_other_boot = blocks.iter().all(|block| block.host.is_other_boot(journal.identity()));
    let after = content.reverting.as_deref().map_or(After::Apply, After::BrokenRevert);
    let here = journal.identity().clone();
    let way = Way { blocks: &blocks, after, here: &here, permanent: options.permanent };
    let items = resolve(host, &way);
    let goals = items.iter().filter_map(Item::goal).collect();
    // A full disk must not keep the values in effect: they say themselves how far this came.
    let _ = journal.append(Record::Reverting { goals });
    let back = put_back(host, &way, items);
    let is_absent_settled = is_other_boot || options.forget_absent || back.absent().next().is_none();
    let is_permanent_settled = options.permanent != Permanent::Ask || back.permanent().next().is_none();
    let is_complete = back.failed().next().is_none() && is_absent_settled && is_permanent_settled;
    if is_complete {
        journal.close(unix_s)?;
    }
    Ok(Reverted { back, is_complete, damaged: content.damaged.clone() })
}

/// What is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Each value that was written, oldest first; of one that was written twice the newest.
    pub entries: Vec<StatusEntry>,
    /// Whether an apply or a revert was broken off: revert puts everything back.
    pub is_interrupted: bool,
    /// Whether the host was booted since, so that most values are gone by themselves.
    pub is_other_boot: bool,
    /// Lines of the journal that cannot be read.
    pub damaged: Vec<Damage>,
    /// Until when the newest plan has to be confirmed, seconds since 1970.
    pub confirm_by_unix_s: Option<u64>,
}

/// One value that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// The change.
    pub change: Change,
    /// When, seconds since 1970.
    pub unix_s: u64,
    /// From which profile.
    pub profile: Option<String>,
    /// What it is now.
    pub state: EntryState,
}

/// What a value that was written is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// As written.
    InEffect {
        /// What reads back.
        now: String,
    },
    /// As found before.
    AsFound,
    /// Somebody else changed it.
    Changed {
        /// To this.
        now: String,
    },
    /// It cannot be read.
    Unread(HostError),
}

/// What the journal says against what the host says.
#[must_use]
pub fn status(host: &mut dyn Host, content: &Content, identity: &HostIdentity) -> Status {
    let mut entries: Vec<StatusEntry> = Vec::new();
    for block in content.in_effect() {
        for entry in block.entries.iter().filter(|entry| !entry.change.is_as_wanted()) {
            let change = &entry.change;
            let effect = match &entry.progress {
                Progress::Planned => continue,
                Progress::Intended => &change.wanted,
                Progress::Done(effect) => effect,
            };
            let state = match host.read(&change.target) {
                Ok(now) if change.target.same(&now, effect) => EntryState::InEffect { now },
                Ok(now) if change.target.same(&now, &change.found) => EntryState::AsFound,
                Ok(now) => EntryState::Changed { now },
                Err(error) => EntryState::Unread(error),
            };
            let key = change.target.key();
            entries.retain(|known| known.change.target.key() != key);
            let (unix_s, profile) = (block.unix_s, block.profile.clone());
            entries.push(StatusEntry { change: change.clone(), unix_s, profile, state });
        }
    }
    let mut blocks = content.in_effect();
    Status {
        entries,
        is_interrupted: content.is_interrupted() || content.reverting.is_some(),
        is_other_boot: content.in_effect().next().is_some() && blocks.all(|block| block.host.is_other_boot(identity)),
        damaged: content.damaged.clone(),
        confirm_by_unix_s: content.in_effect().last().and_then(|block| block.confirm_by_unix_s),
    }
}

//! Values that were applied and that something wiped, written again.

use super::revert::{EntryState, status};
use super::{Change, Host, HostError, put_in_order};
use crate::journal::{Content, HostIdentity, Journal};

/// What became of a value that had drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is as applied again.
    Again {
        /// What it had become.
        drifted: String,
    },
    /// It could not be written, or the write had no effect.
    Refused(HostError),
}

/// What is in effect by the journal and is not as applied, with what it has become. It only reads.
///
/// Nobody asked to keep what waits for a confirmation or was left without one, nor what was applied before the host was
/// booted: the boot may have been the way back. An apply or revert that is unfinished holds nothing.
#[must_use]
pub fn drifted(host: &mut dyn Host, content: &Content, identity: &HostIdentity) -> Vec<(Change, String)> {
    let mut of_this_boot = content.clone();
    of_this_boot.blocks.retain(|block| !block.host.is_other_boot(identity));
    let is_unconfirmed = of_this_boot.in_effect().any(|block| block.confirm_by_unix_s.is_some());
    if is_unconfirmed || content.is_interrupted() || content.reverting.is_some() {
        return Vec::new();
    }
    status(host, &of_this_boot, identity)
        .entries
        .into_iter()
        .filter_map(|entry| match entry.state {
            EntryState::AsFound => Some((entry.change.clone(), entry.change.found)),
            // On, and by now others rely on it.
            EntryState::Changed { now } if entry.change.target.accepts(&entry.change.wanted, &now) => None,
            EntryState::Changed { now } => Some((entry.change, now)),
            EntryState::InEffect { .. } | EntryState::Unread(_) => None,
        })
        .collect()
}

/// Writes again what has [`drifted`]. The journal stays as it is: the value found before the first
/// change is still the one to put back. What cannot be read, such as the settings of a device that is
/// gone, is left for the next look.
pub fn hold(host: &mut dyn Host, journal: &Journal) -> Vec<(String, Held)> {
    let drifted = drifted(host, journal.content(), journal.identity());
    let mut ordered: Vec<Change> = drifted.iter().map(|(change, _)| change.clone()).collect();
    put_in_order(&mut ordered);
    let was = |id: &str| drifted.iter().find(|(change, _)| change.id == id).map(|(_, now)| now.clone());
    ordered
        .into_iter()
        .map(|change| {
            let held = match again(host, &change) {
                Ok(()) => Held::Again { drifted: was(&change.id).unwrap_or_default() },
                Err(error) => Held::Refused(error),
            };
            (change.id, held)
        })
        .collect()
}

fn again(host: &mut dyn Host, change: &Change) -> Result<(), HostError> {
    host.write(&change.target, &change.wanted)?;
    let effect = host.read(&change.target)?;
    if change.target.accepts(&change.wanted, &effect) {
        return Ok(());
    }
    let why = format!("wrote {}, and {effect} reads back", change.wanted);
    Err(HostError::says("write", &change.target, why))
}

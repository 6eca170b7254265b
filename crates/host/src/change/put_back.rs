//! Putting values back: what each target should become, then rounds of writes until all are so.

use super::order::may_move;
use super::{Change, Host, HostError, Target};
use crate::journal::{Block, BlockState, Entry, Progress};

/// Putting one value back may move another one that was put back before it. Each round writes what
/// is not yet right; chains of effects in a host are shorter than this.
const ROUNDS: usize = 4;

/// What became of putting values back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Each value with its id, in the order in which they were put back. Values that were to stay
    /// and did are not among them.
    pub items: Vec<(String, Outcome)>,
}

/// What became of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It already was what was found before.
    AsFound,
    /// It was written.
    Restored {
        /// The value until now.
        from: String,
        /// The value found before.
        to: String,
    },
    /// Somebody else changed it: it is neither what we wrote nor what we found.
    Kept {
        /// The value, which stays.
        now: String,
        /// What we found.
        found: String,
        /// What we wrote.
        ours: String,
    },
    /// The device or the file is not there.
    Absent,
    /// It could not be put back.
    Failed(HostError),
}

impl PutBack {
    /// The values that could not be put back.
    pub fn failed(&self) -> impl Iterator<Item = (&str, &HostError)> {
        self.items.iter().filter_map(|(id, outcome)| match outcome {
            Outcome::Failed(error) => Some((id.as_str(), error)),
            _ => None,
        })
    }

    /// The values whose device or file is not there.
    pub fn absent(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter(|(_, outcome)| *outcome == Outcome::Absent).map(|(id, _)| id.as_str())
    }
}

/// One target on its way back.
pub(super) struct Item {
    id: String,
    target: Target,
    found: String,
    ours: String,
    /// The value before anything was put back; `None` when the target was not there.
    first: Option<String>,
    pub(super) goal: Result<String, HostError>,
    /// Somebody else changed it, and it stays so.
    is_foreign: bool,
    /// Nothing of it was ever written, it was only to stay.
    is_witness: bool,
    error: Option<HostError>,
}

impl Item {
    pub(super) fn key(&self) -> String {
        self.target.key()
    }
}

/// When values are put back.
#[derive(Clone, Copy, Debug)]
pub(super) enum After<'a> {
    /// Right after a write failed: whatever was begun is ours, however the kernel rounded it.
    Failure,
    /// At any time after an apply.
    Apply,
    /// After a revert that was broken off, with what it was going to make of each target: from its
    /// first write on, other values may have moved.
    BrokenRevert(&'a [(String, String)]),
}

/// Decides what each target of these blocks (oldest first) should become. Nothing is written.
pub(super) fn resolve(host: &mut dyn Host, blocks: &[&Block], after: After<'_>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (newest, block) in blocks.iter().enumerate().rev() {
        for entry in block.entries.iter().rev() {
            let key = entry.change.target.key();
            if items.iter().any(|item| item.key() == key) {
                continue;
            }
            let links: Vec<_> = blocks[..=newest]
                .iter()
                .rev()
                .filter_map(|block| {
                    let at = block.entries.iter().position(|entry| entry.change.target.key() == key)?;
                    Some((*block, at))
                })
                .collect();
            items.push(item(host, &entry.change, &links, after));
        }
    }
    items
}

/// Follows one target through the blocks that wrote it, newest first.
fn item(host: &mut dyn Host, change: &Change, links: &[(&Block, usize)], after: After<'_>) -> Item {
    let target = change.target.clone();
    let oldest = links.last().map_or(change, |(block, at)| &block.entries[*at].change);
    let mut item = Item {
        id: change.id.clone(),
        found: oldest.found.clone(),
        ours: change.wanted.clone(),
        first: None,
        goal: Ok(oldest.found.clone()),
        is_foreign: false,
        is_witness: links.iter().all(|(block, at)| block.entries[*at].change.is_as_wanted()),
        error: None,
        target,
    };
    let now = match host.read(&item.target) {
        Ok(now) => now,
        // It may come back when other values are put back: queues do.
        Err(error) if error.is_absent() => return item,
        Err(error) => {
            item.goal = Err(error);
            return item;
        }
    };
    item.first = Some(now.clone());
    let mut value = now;
    for (block, at) in links {
        let found = &block.entries[*at].change.found;
        let is_found = item.target.same(&value, found);
        if !is_found && !is_ours(block, *at, &value, after) {
            item.is_foreign = true;
            break;
        }
        value.clone_from(found);
    }
    if let After::BrokenRevert(goals) = after
        && !item.is_foreign
        && let Some((_, goal)) = goals.iter().find(|(key, _)| *key == item.key())
    {
        item.is_foreign = !item.target.same(goal, &item.found);
        value.clone_from(goal);
    }
    item.goal = Ok(value);
    item
}

/// Whether a value is the work of this block: what it wrote, what it read back, or what its other
/// writes may have moved before it was finished.
fn is_ours(block: &Block, at: usize, value: &str, after: After<'_>) -> bool {
    let entry = &block.entries[at];
    let target = &entry.change.target;
    let is_written = match &entry.progress {
        Progress::Done(effect) => target.same(value, effect) || target.same(value, &entry.change.wanted),
        // The kernel may have made something else of it before the process ended.
        Progress::Intended => true,
        Progress::Planned => false,
    };
    let is_begun = |entry: &Entry| entry.progress != Progress::Planned;
    let may_have_moved = || {
        let mut others = block.entries.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, other)| is_begun(other) && may_move(&other.change, &entry.change))
    };
    let is_settled = block.state == BlockState::Complete && !matches!(after, After::BrokenRevert(_));
    let is_ours = is_written || is_begun(entry) && target.is_halfway(value);
    is_ours || matches!(after, After::Failure) && is_begun(entry) || !is_settled && may_have_moved()
}

/// Writes until every target has its goal or says why it cannot.
pub(super) fn put_back(host: &mut dyn Host, mut items: Vec<Item>) -> PutBack {
    for _ in 0..ROUNDS {
        let mut wrote = false;
        for item in &mut items {
            wrote |= step(host, item);
        }
        if !wrote {
            break;
        }
    }
    let outcomes = items.into_iter().filter_map(|item| {
        let id = item.id.clone();
        outcome(host, item).map(|outcome| (id, outcome))
    });
    PutBack { items: outcomes.collect() }
}

/// Writes one value if it is not right; whether anything was written.
fn step(host: &mut dyn Host, item: &mut Item) -> bool {
    let Ok(goal) = &item.goal else { return false };
    match host.read(&item.target) {
        Ok(now) if item.target.same(&now, goal) => {
            item.error = None;
            return false;
        }
        Ok(_) => {}
        Err(error) => {
            item.error = (!error.is_absent()).then_some(error);
            return false;
        }
    }
    match host.write(&item.target, goal) {
        Ok(()) => {
            item.error = None;
            true
        }
        Err(error) => {
            item.error = Some(error);
            false
        }
    }
}

fn outcome(host: &mut dyn Host, item: Item) -> Option<Outcome> {
    let goal = match item.goal {
        Ok(goal) => goal,
        Err(error) => return Some(Outcome::Failed(error)),
    };
    let now = match host.read(&item.target) {
        Ok(now) => now,
        Err(error) if error.is_absent() => return (!item.is_witness).then_some(Outcome::Absent),
        Err(error) => return Some(Outcome::Failed(error)),
    };
    if !item.target.same(&now, &goal) {
        let reads = || HostError::says("write", &item.target, format!("{goal} was written and {now} reads back"));
        return Some(Outcome::Failed(item.error.unwrap_or_else(reads)));
    }
    let was_right = item.first.as_ref().is_some_and(|first| item.target.same(first, &goal));
    match (item.is_foreign, was_right) {
        // Never ours, and still not.
        (_, true) if item.is_witness => None,
        (true, _) => Some(Outcome::Kept { now, found: item.found, ours: item.ours }),
        (false, true) => Some(Outcome::AsFound),
        (false, false) => {
            Some(Outcome::Restored { from: item.first.unwrap_or_else(|| "not there".to_owned()), to: goal })
        }
    }
}

//! Putting values back: what each target should become, then rounds of writes until all are so.

use super::order::may_move;
use super::{Change, Host, HostError};
use crate::journal::{Block, BlockState, Entry, HostIdentity, Progress};

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
    /// The host was booted since it was written, and it is as we wrote it all the same: somebody made it permanent.
    Permanent {
        /// The value, which stays unless [`Permanent::PutBack`] says otherwise.
        now: String,
        /// What we found.
        found: String,
    },
    /// The device, the file or its CPU is not there.
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

    /// The values that outlived a boot.
    pub fn permanent(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Permanent { .. })).map(|(id, _)| id.as_str())
    }

    /// The values whose device or file is not there.
    pub fn absent(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter(|(_, outcome)| *outcome == Outcome::Absent).map(|(id, _)| id.as_str())
    }
}

/// What to do with a value that is as we wrote it although the host was booted since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permanent {
    /// It stays and is named, and the journal stays open until somebody says what is meant.
    #[default]
    Ask,
    /// It stays and is forgotten.
    Keep,
    /// It is put back until the next boot like the others.
    PutBack,
}

/// Which plans are put back, and what is known of the time since.
pub(super) struct Way<'a> {
    /// The plans, oldest first.
    pub(super) blocks: &'a [&'a Block],
    pub(super) after: After<'a>,
    /// This host and boot.
    pub(super) here: &'a HostIdentity,
    pub(super) permanent: Permanent,
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

/// Who made a value what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Ours,
    /// Somebody else; it stays so.
    Stranger,
    /// Somebody who keeps it over boots; it stays so.
    Boot,
}

/// One target on its way back.
pub(super) struct Item<'a> {
    /// The newest change of it.
    change: &'a Change,
    /// The plans that wrote it, newest first, each with the number of the change.
    links: Vec<(&'a Block, usize)>,
    found: String,
    /// The value before anything was put back; `None` when it could not be read.
    first: Option<String>,
    /// What it is to become; `None` as long as it cannot be read.
    goal: Option<String>,
    maker: Maker,
    /// Nothing of it was ever written, it was only to stay.
    is_witness: bool,
    /// It had its goal at some time: what went away after that went with another value that was put back.
    was_reached: bool,
    error: Option<HostError>,
}

impl<'a> Item<'a> {
    /// What a revert makes of the target, by its key; of what outlived a boot that is not decided.
    pub(super) fn goal(&self) -> Option<(String, String)> {
        if self.maker == Maker::Boot {
            return None;
        }
        Some((self.change.target.key(), self.goal.clone()?))
    }

    /// A value of an earlier plan that went away with a later one. It is to be as it was when the later one began.
    pub(super) fn lost(entry: &'a Entry, effect: &str) -> Self {
        let (found, goal) = (entry.change.found.clone(), Some(effect.to_owned()));
        let (change, maker) = (&entry.change, Maker::Ours);
        Self {
            change,
            links: Vec::new(),
            found,
            first: None,
            goal,
            maker,
            is_witness: true,
            was_reached: false,
            error: None,
        }
    }

    /// Decides by the value now what the target should become. `was_moved` when a value that was put back just now
    /// may have moved this one.
    fn settle(&mut self, way: &Way<'_>, now: &str, was_moved: bool) {
        let target = &self.change.target;
        let mut value = now;
        for (block, at) in &self.links {
            let found = &block.entries[*at].change.found;
            if !target.same(value, found) && !is_ours(way, block, *at, value) {
                self.maker = Maker::Stranger;
                break;
            }
            value = found;
        }
        if self.maker == Maker::Stranger && was_moved {
            self.maker = Maker::Ours;
            value = &self.found;
        }
        if let After::BrokenRevert(goals) = way.after
            && self.maker == Maker::Ours
            && let Some((_, goal)) = goals.iter().find(|(key, _)| *key == target.key())
        {
            if !target.same(goal, &self.found) {
                self.maker = Maker::Stranger;
            }
            value = goal;
        }
        let is_older_boot = self.links.first().is_some_and(|(block, _)| block.host.is_other_boot(way.here));
        if is_older_boot && way.permanent != Permanent::PutBack && self.maker == Maker::Ours && !target.same(now, value)
        {
            self.maker = Maker::Boot;
            value = now;
        }
        self.goal = Some(value.to_owned());
    }
}

/// Decides what each target should become. Nothing is written.
pub(super) fn resolve<'a>(host: &mut dyn Host, way: &Way<'a>) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for (newest, block) in way.blocks.iter().enumerate().rev() {
        for entry in block.entries.iter().rev() {
            let key = entry.change.target.key();
            if items.iter().any(|item| item.change.target.key() == key) {
                continue;
            }
            let links: Vec<_> = way.blocks[..=newest]
                .iter()
                .rev()
                .filter_map(|block| {
                    let at = block.entries.iter().position(|entry| entry.change.target.key() == key)?;
                    Some((*block, at))
                })
                .collect();
            items.push(item(host, way, &entry.change, links));
        }
    }
    items
}

/// Follows one target through the plans that wrote it, newest first. What cannot be read may come back when other
/// values are put back: queues do, and CPUs.
fn item<'a>(host: &mut dyn Host, way: &Way<'_>, change: &'a Change, links: Vec<(&'a Block, usize)>) -> Item<'a> {
    let oldest = links.last().map_or(change, |(block, at)| &block.entries[*at].change);
    let is_witness = links.iter().all(|(block, at)| block.entries[*at].change.is_as_wanted());
    let found = oldest.found.clone();
    let (first, goal, maker) = (None, None, Maker::Ours);
    let mut item = Item { change, links, found, first, goal, maker, is_witness, was_reached: false, error: None };
    match host.read(&change.target) {
        Ok(now) => {
            item.settle(way, &now, false);
            item.first = Some(now);
        }
        Err(error) => item.error = Some(error),
    }
    item
}

/// Whether a value is the work of this plan: what it wrote, what it read back, or what other writes
/// may have moved before they were finished.
fn is_ours(way: &Way<'_>, block: &Block, at: usize, value: &str) -> bool {
    let entry = &block.entries[at];
    let target = &entry.change.target;
    let is_written = match &entry.progress {
        Progress::Done(effect) => target.same(value, effect) || target.same(value, &entry.change.wanted),
        // The kernel may have made something else of it before the process ended.
        Progress::Intended => true,
        Progress::Planned => false,
    };
    let is_begun = |entry: &Entry| entry.progress != Progress::Planned;
    let is_unsettled =
        |block: &Block| block.state != BlockState::Complete || matches!(way.after, After::BrokenRevert(_));
    let may_have_moved = || {
        let unsettled = way.blocks.iter().filter(|block| is_unsettled(block));
        let mut others = unsettled.flat_map(|block| &block.entries).filter(|other| is_begun(other));
        others.any(|other| other.change.id != entry.change.id && may_move(&other.change, &entry.change))
    };
    let is_ours = is_written || is_begun(entry) && target.is_halfway(value);
    is_ours || matches!(way.after, After::Failure) && is_begun(entry) || may_have_moved()
}

/// Writes until every target has its goal or says why it cannot.
pub(super) fn put_back(host: &mut dyn Host, way: &Way<'_>, mut items: Vec<Item<'_>>) -> PutBack {
    let mut written: Vec<&Change> = Vec::new();
    for _ in 0..ROUNDS {
        let mut wrote = false;
        for item in &mut items {
            if step(host, way, item, &written) {
                wrote = true;
                written.push(item.change);
            }
        }
        if !wrote {
            break;
        }
    }
    let outcomes = items.into_iter().filter_map(|item| {
        let id = item.change.id.clone();
        outcome(host, item).map(|outcome| (id, outcome))
    });
    PutBack { items: outcomes.collect() }
}

/// Writes one value if it is not right; whether anything was written.
fn step(host: &mut dyn Host, way: &Way<'_>, item: &mut Item<'_>, written: &[&Change]) -> bool {
    let target = &item.change.target;
    let now = match host.read(target) {
        Ok(now) => now,
        Err(error) => {
            item.error = Some(error);
            return false;
        }
    };
    if item.goal.is_none() {
        let was_moved = written.iter().any(|earlier| may_move(earlier, item.change));
        item.settle(way, &now, was_moved);
    }
    let Some(goal) = &item.goal else { return false };
    if target.same(&now, goal) {
        (item.was_reached, item.error) = (true, None);
        return false;
    }
    if target.is_only_state(goal) {
        item.error = Some(HostError::says("write", target, format!("{goal} was found, which nobody can write")));
        return false;
    }
    match host.write(target, goal) {
        Ok(()) => {
            item.was_reached |= host.read(target).is_ok_and(|now| target.same(&now, goal));
            item.error = None;
            true
        }
        Err(error) => {
            item.error = Some(error);
            false
        }
    }
}

fn outcome(host: &mut dyn Host, item: Item<'_>) -> Option<Outcome> {
    let target = &item.change.target;
    let now = match (host.read(target), &item.goal) {
        (Ok(now), _) => now,
        // It was right, and went with a CPU or queue that was put back after it.
        (Err(_), Some(goal)) if item.was_reached => goal.clone(),
        (Err(error), _) if error.is_absent() => return (!item.is_witness).then_some(Outcome::Absent),
        (Err(error), _) => return Some(Outcome::Failed(error)),
    };
    // Without a goal it came back after the last round.
    let goal = item.goal.unwrap_or_else(|| item.found.clone());
    if !target.same(&now, &goal) {
        let reads = || HostError::says("write", target, format!("{goal} was written and {now} reads back"));
        return Some(Outcome::Failed(item.error.unwrap_or_else(reads)));
    }
    let was_right = item.first.as_ref().is_some_and(|first| target.same(first, &goal));
    match (item.maker, was_right) {
        // Never ours, and still not.
        (_, true) if item.is_witness => None,
        (Maker::Stranger, _) => Some(Outcome::Kept { now, found: item.found, ours: item.change.wanted.clone() }),
        (Maker::Boot, _) => Some(Outcome::Permanent { now, found: item.found }),
        (Maker::Ours, true) => Some(Outcome::AsFound),
        (Maker::Ours, false) => {
            Some(Outcome::Restored { from: item.first.unwrap_or_else(|| "not there".to_owned()), to: goal })
        }
    }
}

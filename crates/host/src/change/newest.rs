//! The newest plan alone on its way back: it failed, or nobody confirmed it. What was applied before stays.

use super::order::may_move;
use super::put_back::{After, Item, Permanent, Way, put_back, resolve};
use super::{Host, Outcome, PutBack, Reverted};
use crate::journal::{Block, Journal, JournalError, Progress, Record};

/// Puts the newest plan alone back, whether it was written as a whole or broken off; what was applied before stays. Broken off
/// itself, it leaves a plan that a revert takes for unfinished.
///
/// # Errors
/// The journal could not be written after everything was back.
pub fn take_newest_back(host: &mut dyn Host, journal: &mut Journal, unix_s: u64) -> Result<Reverted, JournalError> {
    let back = put_newest_back(host, journal, After::Apply);
    let is_complete = is_back(&back);
    if is_complete {
        end_newest(journal, unix_s)?;
    }
    Ok(Reverted { back, is_complete, damaged: Vec::new() })
}

/// Puts the values of the newest plan back to what it found. The journal is not ended.
pub(super) fn put_newest_back(host: &mut dyn Host, journal: &mut Journal, after: After<'_>) -> PutBack {
    let content = journal.content().clone();
    let mut blocks: Vec<&Block> = content.in_effect().collect();
    let Some(newest) = blocks.pop() else { return PutBack::default() };
    let here = journal.identity().clone();
    let way = Way { blocks: &[newest], after, here: &here, permanent: Permanent::Ask };
    let mut items = resolve(host, &way);
    items.extend(lost(host, &blocks, newest));
    // A full disk must not keep the values in effect.
    let _ = journal.append(Record::TakingBack);
    put_back(host, &way, items)
}

/// Values of earlier plans that cannot be read now because the newest plan took them away, such as those of CPUs that
/// it took offline: they do not come back by themselves as they were.
fn lost<'a>(host: &mut dyn Host, earlier: &[&'a Block], newest: &Block) -> Vec<Item<'a>> {
    let mut seen: Vec<String> = newest.entries.iter().map(|entry| entry.change.target.key()).collect();
    let mut lost = Vec::new();
    for entry in earlier.iter().rev().flat_map(|block| &block.entries) {
        let key = entry.change.target.key();
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let mut begun = newest.entries.iter().filter(|entry| entry.progress != Progress::Planned);
        if let Progress::Done(effect) = &entry.progress
            && begun.any(|newer| may_move(&newer.change, &entry.change))
            && host.read(&entry.change.target).is_err()
        {
            lost.push(Item::lost(entry, effect));
        }
    }
    lost
}

/// Whether everything is as it was before.
pub(super) fn is_back(back: &PutBack) -> bool {
    back.items.iter().all(|(_, outcome)| !matches!(outcome, Outcome::Failed(_) | Outcome::Absent))
}

/// Notes that the newest plan is back, and ends the journal where nothing else is in effect.
pub(super) fn end_newest(journal: &mut Journal, unix_s: u64) -> Result<(), JournalError> {
    let noted = journal.append(Record::RolledBack);
    let content = journal.content();
    if content.blocks.len() == 1 || content.in_effect().next().is_none() {
        return journal.close(unix_s);
    }
    noted
}

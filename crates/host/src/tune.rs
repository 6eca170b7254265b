//! From what a profile wants to the changes that bring it about.
//!
//! finding -> [`Goal`] -> [`prepare()`] -> [`Change`]s for [`crate::change::apply`], and what only
//! a boot, the firmware or a person can bring about.

use crate::change::{Change, Host, HostError, Located, NotAtRunTime, Part, RootHost, Scope, Target, targets};
use crate::check::is_fulfilled;
use crate::setting::Risk;
use crate::{Goal, goal};

/// What to do for a list of goals.
#[derive(Debug, Default)]
pub struct Prepared {
    /// What can be written now; not yet in the order of writing, which [`crate::change::apply`]
    /// chooses.
    pub changes: Vec<Change>,
    /// Goals that are not written while the host runs.
    pub later: Vec<(Goal, NotAtRunTime)>,
    /// Places that could not be read, or that cannot have the wanted value.
    pub failed: Vec<(String, HostError)>,
    /// Goals that lower security and that nobody accepted: their ids.
    pub refused: Vec<String>,
}

/// Reads every place of every goal. A place whose value already fulfils the goal gets no change,
/// and a list of numbers keeps those that are better than wanted. `accepted` are the ids of
/// settings whose risk for security somebody accepts.
pub fn prepare(host: &mut RootHost, goals: &[Goal], accepted: &[String]) -> Prepared {
    let mut prepared = Prepared::default();
    for goal in goals {
        let lowers_security = goal.setting.risk.contains(&Risk::Security);
        if lowers_security && !accepted.iter().any(|id| id == goal.setting.id) {
            prepared.refused.push(goal.id());
            continue;
        }
        let interfaces: Vec<String> = goal.interface.iter().cloned().collect();
        let scope = Scope { interfaces: &interfaces, cpus: goal.cpus.clone() };
        match targets(host.root(), goal.setting, &scope) {
            Ok(places) => at_places(host, goal, places, &mut prepared),
            Err(why) => prepared.later.push((goal.clone(), why)),
        }
    }
    prepared
}

/// The changes of all places of a goal. What one place needs of another is changed only with it.
fn at_places(host: &mut RootHost, goal: &Goal, places: Vec<Located>, prepared: &mut Prepared) {
    let is_needed = |place: &Located| matches!(place.part, Part::Needed(_));
    let (needed, places): (Vec<_>, Vec<_>) = places.into_iter().partition(is_needed);
    let is_partition = places.iter().any(|place| matches!(place.target, Target::Partition { .. }));
    let failures_before = prepared.failed.len();
    let mut changes_of = |places: Vec<Located>| {
        let mut changes = Vec::new();
        for place in places {
            match one(host, goal, &place) {
                Ok(change) => changes.extend(change),
                Err(error) => prepared.failed.push((place.id, error)),
            }
        }
        changes
    };
    let changes = changes_of(places);
    if !changes.is_empty() {
        prepared.changes.extend(changes_of(needed));
        prepared.changes.extend(changes);
    } else if is_partition && prepared.failed.len() == failures_before && has_boot_isolation(host) {
        // The group isolates no CPU that it should not, so those that are too many are of the boot.
        prepared.later.push((goal.clone(), NotAtRunTime::IsolatedAtBoot { id: goal.setting.id }));
    }
}

fn has_boot_isolation(host: &RootHost) -> bool {
    host.root().text("/sys/devices/system/cpu/isolated").is_ok_and(|list| !list.is_empty())
}

/// The change of one place; `None` where nothing is to be written.
fn one(host: &mut RootHost, goal: &Goal, place: &Located) -> Result<Option<Change>, HostError> {
    let found = host.read(&place.target)?;
    if let Part::Needed(word) = place.part {
        let is_enough = place.target.accepts(word, &found);
        return if is_enough { Ok(None) } else { Change::plan(place, word, host).map(Some) };
    }
    if is_fulfilled(goal.setting, &goal.wanted, &found) {
        return Ok(None);
    }
    let value = goal::best(goal.setting, &goal.wanted, &found).unwrap_or_else(|| goal.value.clone());
    let change = Change::plan(place, &value, host)?;
    Ok((!change.is_as_wanted()).then_some(change))
}

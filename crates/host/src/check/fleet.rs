//! Several hosts checked by one profile: who differs from it, and in what hosts that should be alike are not.

use super::{Finding, Outcome};
use crate::Reading;
use crate::profile::Weight;

/// One host and its findings.
#[derive(Clone, Debug)]
pub struct Member {
    /// What the host is called.
    pub name: String,
    /// As [`super::check()`] gives them.
    pub findings: Vec<Finding>,
}

/// A value and the hosts that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What was found, for a person.
    pub found: String,
    /// What came of the wish there.
    pub outcome: Outcome,
    /// The hosts, by their places among the members.
    pub members: Vec<usize>,
}

/// One wish over all hosts.
#[derive(Clone, Debug)]
pub struct Row {
    /// The setting's id, with the interface in brackets.
    pub id: String,
    /// The wanted value, as of the first host that has the wish.
    pub wanted: String,
    /// How much the wish matters.
    pub weight: Weight,
    /// Each value once: first those that differ from the profile, then by how many hosts have them.
    pub groups: Vec<Group>,
}

impl Row {
    /// How many hosts differ from the profile.
    #[must_use]
    pub fn differing(&self) -> usize {
        self.groups.iter().filter(|group| group.outcome.is_difference()).map(|group| group.members.len()).sum()
    }

    /// Whether hosts that were judged have different values.
    #[must_use]
    pub fn is_unalike(&self) -> bool {
        let mut values = self.groups.iter().filter(|group| is_judged(&group.outcome)).map(|group| &group.found);
        let first = values.next();
        values.any(|value| Some(value) != first)
    }

    /// The group of a host, if its profile has the wish there.
    #[must_use]
    pub fn group_of(&self, member: usize) -> Option<&Group> {
        self.groups.iter().find(|group| group.members.contains(&member))
    }

    /// The hosts that were judged and have another value than this one.
    #[must_use]
    pub fn unlike(&self, baseline: usize) -> Vec<usize> {
        let Some(wanted) = self.group_of(baseline).filter(|group| is_judged(&group.outcome)) else { return Vec::new() };
        let others = self.groups.iter().filter(|group| is_judged(&group.outcome) && group.found != wanted.found);
        others.flat_map(|group| group.members.iter().copied()).collect()
    }
}

const fn is_judged(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Right | Outcome::Differs | Outcome::Owned(_) | Outcome::Waived(_) | Outcome::NotAdvised)
}

/// What some host differs in from the profile, the weightiest first and of these what most hosts differ in; then what all have as wanted and
/// not alike.
#[must_use]
pub fn rows(members: &[Member]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (member, Member { findings, .. }) in members.iter().enumerate() {
        for finding in findings {
            let id = finding.id();
            let row = match rows.iter().position(|row| row.id == id && row.weight == finding.wish.weight) {
                Some(at) => &mut rows[at],
                None => {
                    let (wanted, weight) = (finding.wanted.clone(), finding.wish.weight);
                    rows.push(Row { id, wanted, weight, groups: Vec::new() });
                    let last = rows.len() - 1;
                    &mut rows[last]
                }
            };
            // Of two wishes with conditions one counts on a host.
            if matches!(finding.outcome, Outcome::NotApplicable { .. }) || row.group_of(member).is_some() {
                continue;
            }
            let found = found(finding);
            match row
                .groups
                .iter_mut()
                .find(|group| group.found == found && group.outcome.name() == finding.outcome.name())
            {
                Some(group) => group.members.push(member),
                None => row.groups.push(Group { found, outcome: finding.outcome.clone(), members: vec![member] }),
            }
        }
    }
    rows.retain(|row| row.differing() > 0 || row.is_unalike());
    for row in &mut rows {
        row.groups.sort_by_key(|group| (!group.outcome.is_difference(), std::cmp::Reverse(group.members.len())));
    }
    rows.sort_by_key(|row| (row.differing() == 0, row.weight, std::cmp::Reverse(row.differing())));
    rows
}

fn found(finding: &Finding) -> String {
    match &finding.found {
        Reading::NeedsRoot => "only root may read it".to_owned(),
        // Hosts that lack it for different reasons are told together.
        Reading::Unknown { .. } => "not known".to_owned(),
        reading => reading.in_words(),
    }
}

//! Why a plan is not in effect.

use thiserror::Error;

use super::super::{HostError, Outcome, PutBack};
use crate::journal::JournalError;

/// Why a plan is not in effect.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// Two changes want different things of one place.
    #[error("{one} and {other} both want to write {target}: {wanted_one} and {wanted_other}; nothing was written")]
    Conflict {
        /// The first change.
        one: String,
        /// The second change.
        other: String,
        /// The place.
        target: String,
        /// What the first one wants.
        wanted_one: String,
        /// What the second one wants.
        wanted_other: String,
    },
    /// Some changes could not be written; none was.
    #[error("{} cannot be written, so nothing was:{}", count(problems.len()), list(problems))]
    NotWritable {
        /// Each change with what stands in its way.
        problems: Vec<(String, HostError)>,
    },
    /// A value is no longer what the plan found; nothing was written.
    #[error("{id} is {now} and was {found} when the plan was made; nothing was written, make the plan again")]
    Moved {
        /// The change.
        id: String,
        /// What the plan found.
        found: String,
        /// What is there now.
        now: String,
    },
    /// An earlier apply or revert was broken off, and nobody knows what is in effect.
    #[error(
        "an earlier change of this host was broken off, or its journal is damaged; nothing was written, revert it first"
    )]
    BrokenOff,
    /// The journal cannot be written; nothing was changed.
    #[error("{0}; nothing was written to the host")]
    Journal(#[from] JournalError),
    /// It began and failed; what was written is put back.
    #[error("{attempt}; {}", aftermath(back))]
    Failed {
        /// What failed.
        attempt: Box<Attempt>,
        /// What became of the values written before.
        back: PutBack,
    },
}

/// What failed while a plan was written.
#[derive(Debug, Error)]
#[error("{id}: {error}")]
pub struct Attempt {
    /// The change.
    pub id: String,
    /// What happened.
    pub error: AttemptError,
}

/// How a write can fail.
#[derive(Debug, Error)]
pub enum AttemptError {
    /// The host refused.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The host took it and did something else.
    #[error("wrote {wanted} over {found}, and {now} reads back")]
    NoEffect {
        /// The value before.
        found: String,
        /// What was asked for.
        wanted: String,
        /// What it is.
        now: String,
    },
    /// Somebody changed it in the meantime.
    #[error("it is {now} and was {found} when the plan was made: somebody else is changing this host")]
    Moved {
        /// What the plan found.
        found: String,
        /// What is there now.
        now: String,
    },
    /// The journal could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Stopped,
}

fn count(problems: usize) -> String {
    if problems == 1 { "one change".to_owned() } else { format!("{problems} changes") }
}

/// More of them say nothing new: a host has hundreds of CPUs and queues.
const LISTED_MAX: usize = 10;

fn list(problems: &[(String, HostError)]) -> String {
    let listed: String = problems.iter().take(LISTED_MAX).map(|(id, error)| format!("\n  {id}: {error}")).collect();
    match problems.len().saturating_sub(LISTED_MAX) {
        0 => listed,
        more => format!("{listed}\n  and {more} more"),
    }
}

fn aftermath(back: &PutBack) -> String {
    let failed = back.failed().map(|(id, error)| format!("\n  {id}: {error}"));
    let absent = back.absent().map(|id| format!("\n  {id}: it is not there any more"));
    let kept = back.items.iter().filter_map(|(id, outcome)| match outcome {
        Outcome::Kept { now, .. } => Some(format!("\n  {id}: somebody else made it {now}, which stays")),
        _ => None,
    });
    let left: String = failed.chain(absent).collect();
    match (left.is_empty(), kept.collect::<String>()) {
        (true, kept) if kept.is_empty() => "everything is as it was".to_owned(),
        (true, kept) => format!("everything is as it was, but for:{kept}"),
        (false, kept) => format!("not all could be put back, revert tries again:{left}{kept}"),
    }
}

//! The records of a journal.

use serde::{Deserialize, Serialize};

use super::HostIdentity;
use crate::change::Change;

/// The format of the lines. It grows when an older Nearwire would put back something wrong.
pub(super) const FORMAT: u32 = 1;

/// One line. Numbers of changes count within the plan before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// The first line.
    Header { format: u32, program: String },
    /// What is going to be written, with what was found.
    Plan { unix_s: u64, profile: Option<String>, host: HostIdentity, changes: Vec<Change> },
    /// A change is going to be written now.
    Intent { change: usize },
    /// It was written and reads back so.
    Done { change: usize, effect: String },
    /// The whole plan was written and verified.
    Complete,
    /// It goes back by itself at this time unless it is confirmed.
    ConfirmBy { unix_s: u64 },
    /// It was confirmed.
    Confirmed,
    /// The newest plan alone is going to be put back: nobody confirmed it.
    TakingBack,
    /// The newest plan alone was put back: it failed, or nobody confirmed it.
    RolledBack,
    /// All plans are going to be put back: targets by their keys, and the values they get.
    Reverting { goals: Vec<(String, String)> },
}

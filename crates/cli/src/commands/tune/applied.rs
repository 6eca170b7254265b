//! What is said of changes that were applied, or were not.

use std::fmt::Write as _;

use nearwire_host::change::{Applied, ApplyError};
use nearwire_sys::usage::interrupted;

use crate::exit::{self, Failure};

pub(super) fn done(applied: &Applied, journal: &str) -> String {
    let mut text = format!("\n{} written and read back.", applied.written.len());
    // Writing to a string cannot fail.
    let rounded = applied.written.iter().filter(|(change, effect)| !change.target.same(&change.wanted, effect));
    for (change, effect) in rounded {
        let _ = write!(text, "\n  {}: wanted {}, the host made it {effect}", change.id, change.wanted);
    }
    for (id, found, now) in &applied.moved {
        let _ = write!(text, "\n  {id} changed with the others: it was {found} and is {now}");
    }
    for (change, why) in &applied.skipped {
        let _ = write!(text, "\n  {} was left out: {}", change.id, why.cause);
    }
    let _ = writeln!(text, " To put everything back: nearwire tune revert{journal}");
    text
}

pub(super) fn failure(error: ApplyError) -> Failure {
    let code = match &error {
        ApplyError::Conflict { .. } => exit::USAGE,
        ApplyError::NotWritable { .. } | ApplyError::Journal(_) | ApplyError::BrokenOff => exit::CANNOT,
        ApplyError::Moved { .. } | ApplyError::Failed { .. } => exit::FAILED,
    };
    let code = if interrupted() { exit::INTERRUPTED } else { code };
    Failure { code, error: Some(error.into()) }
}

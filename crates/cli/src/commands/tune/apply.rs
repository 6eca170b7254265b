//! `nearwire tune apply`: writes all changes or none.

use std::fmt::Write as _;

use nearwire_host::change::{Applied, ApplyError, ApplyOptions, apply, put_in_order};
use nearwire_host::journal::HostIdentity;
use nearwire_sys::usage::{catch_every_interrupt, interrupted};

use super::{Planned, ask, at, guard, journal_directory, open_journal, plan, unix_s};
use crate::args::tune::ApplyArgs;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;

pub fn run(args: &ApplyArgs) -> Outcome {
    let source = &args.changes.selection.root;
    let directory = &journal_directory(&args.journal, source)?;
    let mut planned = Planned::make(&args.changes)?;
    let mut changes = std::mem::take(&mut planned.prepared.changes);
    put_in_order(&mut changes);
    output::print_of_host(&plan::text(&planned, &changes))?;
    if changes.is_empty() {
        return Ok(());
    }
    ask("Write these values?", args.yes)?;
    let profile = planned.selection.profile.name.clone();
    if let Some(within) = args.confirm {
        return guard::start(args, &profile, within, &changes);
    }
    // The journal has what is needed to put everything back, also after kill -9.
    catch_every_interrupt().or_exit(exit::FAILED)?;
    let identity = HostIdentity::of(planned.host.root());
    let mut journal = open_journal(directory, &identity)?;
    let options = ApplyOptions { must_stop: &interrupted, ..ApplyOptions::strict(unix_s(), Some(profile)) };
    let applied = apply(&mut planned.host, &mut journal, changes, &options).map_err(failure)?;
    output::print_of_host(&done(&applied, &at(directory, source)))
}

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

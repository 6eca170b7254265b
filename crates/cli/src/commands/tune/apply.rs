//! `nearwire tune apply`: writes all changes or none.

use std::fmt::Write as _;
use std::time::Duration;

use nearwire_host::change::confirm::{FileWatch, Verdict, keep_or_revert};
use nearwire_host::change::{Applied, ApplyError, ApplyOptions, apply, put_in_order};
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_sys::usage::{catch_interrupts, interrupted};

use super::{Planned, ask, at, journal_directory, open_journal, plan, unix_s};
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
    // A second Ctrl-C ends the process at once; the journal then has what is needed to put everything back.
    catch_interrupts().or_exit(exit::FAILED)?;
    let identity = HostIdentity::of(planned.host.root());
    let mut journal = open_journal(directory, &identity)?;
    let profile = Some(planned.selection.profile.name.clone());
    let options = ApplyOptions { must_stop: &interrupted, ..ApplyOptions::strict(unix_s(), profile) };
    let applied = apply(&mut planned.host, &mut journal, changes, &options).map_err(failure)?;
    output::print_of_host(&done(&applied, &at(directory, source)))?;
    match args.confirm {
        Some(within) => wait(&mut planned, &mut journal, within, &at(directory, source)),
        None => Ok(()),
    }
}

fn done(applied: &Applied, journal: &str) -> String {
    let mut text = format!("\n{} written and read back.", applied.written.len());
    // Writing to a string cannot fail.
    let rounded = applied.written.iter().filter(|(change, effect)| !change.target.same(&change.wanted, effect));
    for (change, effect) in rounded {
        let _ = write!(text, "\n  {}: wanted {}, the host made it {effect}", change.id, change.wanted);
    }
    for (id, found, now) in &applied.moved {
        let _ = write!(text, "\n  {id} changed with the others: it was {found} and is {now}");
    }
    let _ = writeln!(text, " To put everything back: nearwire tune revert{journal}");
    text
}

fn wait(planned: &mut Planned, journal: &mut Journal, within: Duration, place: &str) -> Outcome {
    let time = humantime::format_duration(within);
    output::print_of_host(&format!(
        "Everything is put back in {time} unless somebody runs: nearwire tune confirm{place}\n"
    ))?;
    let mut watch = FileWatch::new(journal, interrupted);
    match keep_or_revert(&mut planned.host, journal, &mut watch, within, unix_s()).or_exit(exit::FAILED)? {
        Verdict::Kept => output::print_of_host("Confirmed: the values stay.\n"),
        Verdict::TimedOut(reverted) => {
            output::print_of_host(&super::revert::text(&reverted))?;
            let error = anyhow::anyhow!("nobody confirmed within {time}, so everything was put back");
            Err(Failure { code: exit::FAILED, error: Some(error) })
        }
        Verdict::Ended(reverted) => {
            output::print_of_host(&super::revert::text(&reverted))?;
            Err(Failure::silent(exit::INTERRUPTED))
        }
    }
}

fn failure(error: ApplyError) -> Failure {
    let code = match &error {
        ApplyError::Conflict { .. } => exit::USAGE,
        ApplyError::NotWritable { .. } | ApplyError::Journal(_) | ApplyError::BrokenOff => exit::CANNOT,
        ApplyError::Moved { .. } | ApplyError::Failed { .. } => exit::FAILED,
    };
    let code = if interrupted() { exit::INTERRUPTED } else { code };
    Failure { code, error: Some(error.into()) }
}

//! `nearwire tune apply`: writes all changes or none.

use nearwire_host::change::{ApplyOptions, apply, put_in_order};
use nearwire_host::journal::HostIdentity;
use nearwire_sys::usage::{catch_every_interrupt, interrupted};

use super::applied::{done, failure};
use super::{Planned, at, guard, journal_directory, open_journal, plan, unix_s};
use crate::args::tune::ApplyArgs;
use crate::commands::ask::ask;
use crate::exit::{self, OrExit, Outcome};
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

//! `nearwire tune`: changes by a profile, and the way back.

mod apply;
mod export;
mod plan;
mod revert;
mod status;
mod watch;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nearwire_host::change::RootHost;
use nearwire_host::check::check;
use nearwire_host::journal::HostIdentity;
use nearwire_host::tune::{Prepared, prepare};
use nearwire_host::{Goal, catalogue};

use super::selection::Selection;
use crate::args::tune::{ChangesArgs, JournalArgs, TuneArgs, TuneCommand};
use crate::exit::{self, Failure, OrExit, Outcome};

pub fn run(args: &TuneArgs) -> Outcome {
    match &args.command {
        TuneCommand::Plan(args) => plan::run(args),
        TuneCommand::Apply(args) => apply::run(args),
        TuneCommand::Confirm(args) => confirm(args),
        TuneCommand::Status(args) => status::run(args),
        TuneCommand::Revert(args) => revert::run(args),
        TuneCommand::Export(args) => export::run(args),
        TuneCommand::Watch(args) => watch::run(args),
    }
}

/// What a profile wants of a host, and what of it can be written now.
struct Planned {
    selection: Selection,
    host: RootHost,
    prepared: Prepared,
    /// Differences that no value says how to mend, and those that another tool owns: id, advice.
    by_hand: Vec<(String, String)>,
}

impl Planned {
    fn make(args: &ChangesArgs) -> Result<Self, Failure> {
        known(&args.only)?;
        known(&args.i_accept_risk)?;
        let selection = Selection::open(&args.selection)?;
        let Selection { root, profile, interfaces, plan, .. } = &selection;
        let findings = check(root, profile, interfaces, plan.as_ref(), &[]);
        let is_meant = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
        let differing = findings.iter().filter(|finding| finding.outcome.is_difference());
        let (mut goals, mut by_hand) = (Vec::new(), Vec::new());
        for finding in differing.filter(|finding| is_meant(finding.wish.setting.id)) {
            match (&finding.outcome, finding.goal()) {
                (nearwire_host::check::Outcome::Owned(owner), _) => {
                    by_hand.push((finding.id(), format!("{} sets it: {}", owner.tool, owner.advice)));
                }
                (_, Some(goal)) => goals.push(goal),
                (_, None) => {
                    let first = finding.fixes().into_iter().next();
                    let advice = first.map_or_else(|| "nothing on this host changes it".to_owned(), |fix| fix.text);
                    by_hand.push((finding.id(), advice));
                }
            }
        }
        goals.extend(accepted(&selection, &args.i_accept_risk));
        let mut host = RootHost::new(super::host_root::open(&args.selection.root)?);
        let prepared = prepare(&mut host, &goals, &args.i_accept_risk);
        Ok(Self { selection, host, prepared, by_hand })
    }
}

/// Advice that lowers security and that somebody accepts: the profile has it among what it leaves
/// out, with the value it would have.
fn accepted(selection: &Selection, ids: &[String]) -> Vec<Goal> {
    let advice = selection.profile.left_out.iter().filter(|advice| ids.iter().any(|id| id == advice.setting.id));
    advice.filter_map(nearwire_host::profile::LeftOut::goal).collect()
}

/// Ids that the catalogue has.
fn known(ids: &[String]) -> Result<(), Failure> {
    match ids.iter().find(|id| catalogue::setting(id).is_none()) {
        None => Ok(()),
        Some(id) => Err(super::settings::unknown(id)),
    }
}

fn confirm(args: &JournalArgs) -> Outcome {
    let identity = HostIdentity::of(&nearwire_host::Root::live().or_exit(exit::CANNOT)?);
    nearwire_host::change::confirm::confirm(&args.journal, &identity).or_exit(exit::CANNOT)?;
    crate::output::print("Confirmed: the values stay.\n")
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A question on a terminal; without one the answer must have been given on the command line.
fn ask(question: &str, is_answered: bool) -> Outcome {
    use std::io::{IsTerminal, Write};
    if is_answered {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        let error = anyhow::anyhow!("{question} There is no terminal to answer on: --yes answers");
        return Err(Failure { code: exit::USAGE, error: Some(error) });
    }
    let mut out = std::io::stderr();
    let mut answer = String::new();
    let asked = write!(out, "{question} [y/N] ").and_then(|()| out.flush()).and_then(|()| input.read_line(&mut answer));
    asked.or_exit(exit::FAILED)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure { code: exit::INTERRUPTED, error: Some(anyhow::anyhow!("nothing was changed")) }),
    }
}

/// Where a journal is, for messages.
fn at(directory: &Path) -> String {
    if directory == Path::new(nearwire_host::journal::DEFAULT_DIRECTORY) {
        return String::new();
    }
    format!(" --journal {}", directory.display())
}

//! `nearwire tune`: changes settings by a profile, and puts them back.

mod applied;
mod apply;
mod export;
mod guard;
mod hold;
pub(super) mod in_use;
mod measure;
mod plan;
mod revert;
mod status;
mod verify;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nearwire_host::change::RootHost;
use nearwire_host::check::Finding;
use nearwire_host::journal::{DEFAULT_DIRECTORY, HostIdentity, Journal, JournalError, unix_s};
use nearwire_host::profile::Profile;
use nearwire_host::tune::{Prepared, prepare};
use nearwire_host::{Goal, Risk, catalogue};

use super::selection::Selection;
use crate::args::HostSource;
use crate::args::tune::{ChangesArgs, ConfirmArgs, JournalArgs, TuneArgs, TuneCommand};
use crate::exit::{self, Failure, OrExit, Outcome};

pub fn run(args: &TuneArgs) -> Outcome {
    match &args.command {
        TuneCommand::Plan(args) => plan::run(args),
        TuneCommand::Apply(args) => apply::run(args),
        TuneCommand::Guard(args) => guard::run(args),
        TuneCommand::Confirm(args) => confirm(args),
        TuneCommand::Status(args) => status::run(args),
        TuneCommand::Revert(args) => revert::run(args),
        TuneCommand::Export(args) => export::run(args),
        TuneCommand::Verify(args) => verify::run(args),
        TuneCommand::Hold(args) => hold::run(args),
        TuneCommand::Watch(args) => watch::run(args),
        TuneCommand::Measure(args) => measure::run(args),
    }
}

/// What a profile wants of a host, and which of it can be written now.
struct Planned {
    selection: Selection,
    host: RootHost,
    prepared: Prepared,
    /// Differences that no value of ours fixes, and those of settings that another tool owns: id, advice.
    by_hand: Vec<(String, String)>,
}

impl Planned {
    fn make(args: &ChangesArgs) -> Result<Self, Failure> {
        let (selection, findings) = checked(args)?;
        let in_use = if args.selection.nic.is_empty() { in_use::interfaces(&selection.root) } else { BTreeMap::new() };
        let (mut goals, by_hand) = sort_out(&findings, &in_use);
        goals.extend(accepted(&selection, &args.i_accept_risk));
        let mut host = RootHost::new(selection.root.untraced());
        let prepared = prepare(&mut host, &goals, &args.i_accept_risk);
        Ok(Self { selection, host, prepared, by_hand })
    }
}

/// Values to bring about, and differences that no value of ours fixes, those of settings that another tool owns and
/// those of interfaces in use: id, advice.
fn sort_out(findings: &[Finding], in_use: &BTreeMap<String, String>) -> (Vec<Goal>, Vec<(String, String)>) {
    let (mut goals, mut by_hand) = (Vec::new(), Vec::new());
    for finding in findings.iter().filter(|finding| finding.outcome.is_difference()) {
        let interface = finding.interface.as_deref();
        if let Some((name, why)) = interface.and_then(|interface| in_use.get_key_value(interface)) {
            by_hand.push((finding.id(), format!("{why}, so it is left alone; --nic {name} changes it")));
            continue;
        }
        match (&finding.outcome, finding.goal()) {
            (nearwire_host::check::Outcome::Owned(owner), _) => {
                by_hand.push((finding.id(), format!("{} sets it: {}", owner.tool, owner.advice)));
            }
            (_, Some(goal)) => goals.push(goal),
            (_, None) => {
                let explained = || format!("nearwire settings {} explains it", finding.wish.setting.id);
                let advice = finding.fixes().into_iter().next().map_or_else(explained, |fix| fix.text);
                by_hand.push((finding.id(), advice));
            }
        }
    }
    (goals, by_hand)
}

/// The selection, and the findings about the settings that `--only` names.
fn checked(args: &ChangesArgs) -> Result<(Selection, Vec<Finding>), Failure> {
    let selection = Selection::open(&args.selection)?;
    meant(args, &selection.profile)?;
    let (mut findings, _) = selection.check(&[]);
    findings.retain(|finding| args.only.is_empty() || args.only.iter().any(|id| id == finding.wish.setting.id));
    Ok((selection, findings))
}

/// Goals of advice that lowers security and that the user accepts. The profile lists it among what it leaves out, with its value.
fn accepted(selection: &Selection, ids: &[String]) -> Vec<Goal> {
    let advice = selection.profile.left_out.iter().filter(|advice| ids.iter().any(|id| id == advice.setting.id));
    advice.filter_map(nearwire_host::profile::LeftOut::goal).collect()
}

/// Fails for an id that changes nothing here: a typing mistake must not look like a host without differences.
fn meant(args: &ChangesArgs, profile: &Profile) -> Outcome {
    for id in args.only.iter().chain(&args.i_accept_risk) {
        known(id)?;
    }
    let is_wished = |id: &str| profile.wishes.iter().any(|wish| wish.setting.id == id);
    let is_left_out = |id: &str| profile.left_out.iter().any(|advice| advice.setting.id == id);
    let name = &profile.name;
    if let Some(id) = args.only.iter().find(|id| !is_wished(id) && !args.i_accept_risk.contains(id)) {
        return Err(usage(match is_left_out(id) {
            true => {
                format!("profile {name} leaves {id} alone on purpose: nearwire check --profile {name} --json says why")
            }
            false => {
                format!("profile {name} has no wish for {id}; nearwire check --profile {name} --all shows what it has")
            }
        }));
    }
    let is_risky = |id: &str| catalogue::setting(id).is_some_and(|setting| setting.risk.contains(&Risk::Security));
    match args.i_accept_risk.iter().find(|id| !is_risky(id) && !is_left_out(id)) {
        Some(id) => Err(usage(format!("{id} does not lower security, so there is no risk to accept: leave it out"))),
        None => Ok(()),
    }
}

/// Fails for an id that the catalogue does not have.
fn known(id: &str) -> Outcome {
    if catalogue::setting(id).is_some() {
        return Ok(());
    }
    let whole = id.split('[').next().unwrap_or(id);
    if catalogue::setting(whole).is_none() {
        return Err(super::settings::unknown(whole));
    }
    Err(usage(format!(
        "{id} is a part of the setting {whole}: name {whole}, and the interface, if it has one, with --nic"
    )))
}

fn journal_failure(error: JournalError) -> Failure {
    Failure { code: exit::CANNOT, error: Some(error.into()) }
}

fn usage(message: String) -> Failure {
    Failure { code: exit::USAGE, error: Some(anyhow::anyhow!(message)) }
}

/// The directory of a host's journal. For a copy of a host's files it must be named, as the journal of this host is not that of the
/// copy.
fn journal_directory(args: &JournalArgs, of: &HostSource) -> Result<PathBuf, Failure> {
    if of.snapshot.is_some() {
        return Err(usage("a snapshot cannot be changed: unpack it, and name the directory with --sysroot".to_owned()));
    }
    match (&args.journal, of.is_live()) {
        (Some(directory), _) => Ok(directory.clone()),
        (None, true) => Ok(PathBuf::from(DEFAULT_DIRECTORY)),
        (None, false) => {
            Err(usage("with --sysroot the journal needs a directory of its own: name it with --journal".to_owned()))
        }
    }
}

/// Opens a journal to change the host. Retries for a moment where the journal is in use: `nearwire tune watch` opens it for each
/// check.
fn open_journal(directory: &Path, identity: &HostIdentity) -> Result<Journal, Failure> {
    const LOOK_MAX: Duration = Duration::from_millis(500);
    const PAUSE: Duration = Duration::from_millis(20);
    let start = Instant::now();
    loop {
        match Journal::open(directory, identity.clone()) {
            Err(JournalError::Busy { .. }) if start.elapsed() < LOOK_MAX => std::thread::sleep(PAUSE),
            opened => return opened.map_err(journal_failure),
        }
    }
}

fn confirm(args: &ConfirmArgs) -> Outcome {
    let directory = journal_directory(&args.journal, &args.root)?;
    let identity = HostIdentity::of(&super::host_root::open(&args.root)?);
    nearwire_host::change::confirm::confirm(&directory, &identity).or_exit(exit::CANNOT)?;
    crate::output::print("Confirmed: the values stay.\n")
}

/// The options that name a journal and its host, for the commands in messages.
fn at(directory: &Path, of: &HostSource) -> String {
    let copy = of.sysroot.as_ref().map_or_else(String::new, |copy| format!(" --sysroot {}", copy.display()));
    if directory == Path::new(DEFAULT_DIRECTORY) {
        return copy;
    }
    format!("{copy} --journal {}", directory.display())
}

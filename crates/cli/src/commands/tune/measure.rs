//! `nearwire tune measure`: what each change is worth on this host.

mod candidates;
mod command;
mod html;
mod json;
mod text;

use std::time::Duration;

use nearwire_bench::bed::TestBed;
use nearwire_bench::paths::PathId;
use nearwire_host::Root;
use nearwire_host::change::RootHost;
use nearwire_host::journal::{HostIdentity, Journal};
use nearwire_lab::{Namespace, VirtualCableOptions};
use nearwire_report::{ensure_writable, write_text};
use nearwire_sys::tsc::{Clock, monotonic_raw_ns};
use nearwire_sys::usage::{catch_every_interrupt, interrupted};
use nearwire_worth::cable_host::{CableHost, await_links};
use nearwire_worth::noise::{noise_of, noise_summary};
use nearwire_worth::result::Measured;
use nearwire_worth::run::{Schedule, measure};
use nearwire_worth::store::{self, Kind};
use nearwire_worth::subject::Subject;
use nearwire_worth::subject::path::{PathOptions, Paths, PathsError};
use nearwire_worth::switch::{Command, JournalSwitch, put_leftovers_back};
use nearwire_worth::verdict::Strictness;

use super::{journal_directory, open_journal, unix_s, usage};
use crate::args::tune::MeasureArgs;
use crate::args::{CableArg, CpuPair};
use crate::commands::ask::ask;
use crate::commands::bench::{cell_failure, cpus, lay};
use crate::commands::progress::Progress;
use crate::exit::{self, Failure, OrExit, Outcome};
use crate::output;
use candidates::Candidates;

/// How long each CPU is watched for what interrupts it.
const NOISE_WINDOW: Duration = Duration::from_millis(200);
const QUESTION: &str = "Write these values in turns, and put them back?";
/// Runs of a setting in a round.
const RUNS_OF_ROUND: u32 = 4;
/// Passes over the combinations of settings: six repetitions of what each pass tells of each pair.
const PASSES: usize = 6;

/// What was measured where, for tables, pages and files.
struct Told<'a> {
    profile: &'a str,
    /// The cable in words; none of a command's own network.
    cable: Option<String>,
    kind: Kind,
    measured: Measured,
    /// Settings that differ and were not measured, and why.
    left: &'a [(String, String)],
}

impl Told<'_> {
    /// What it was measured on.
    fn on(&self) -> String {
        on_words(self.cable.as_deref())
    }
}

/// What is measured on, behind "on".
fn on_words(cable: Option<&str>) -> String {
    cable.map_or_else(|| "this host".to_owned(), |cable| format!("the cable {cable}"))
}

pub fn run(args: &MeasureArgs) -> Outcome {
    if !args.selection.root.is_live() {
        return Err(usage("a copy of a host's files cannot be measured: run it on the host itself".to_owned()));
    }
    for file in args.json.iter().chain(&args.html) {
        ensure_writable(file).or_exit(exit::USAGE)?;
    }
    if !rustix::process::geteuid().is_root() {
        return Err(anyhow::anyhow!("settings of this host are written and put back: run as root"))
            .or_exit(exit::CANNOT);
    }
    // The journal has what is needed to put everything back, also after kill -9.
    catch_every_interrupt().or_exit(exit::FAILED)?;
    let journal = journal(args)?;
    if !args.command.is_empty() {
        return command::run(args, journal);
    }
    let (cpus, _) = cpus(args.cpus, &args.cable)?;
    let bed = lay(&args.cable, args.token.as_deref(), VirtualCableOptions::default(), cpus)?;
    let (bed, measured) = on(args, bed, journal, cpus);
    let taken_up = bed.map_or(Ok(()), TestBed::take_up).or_exit(exit::FAILED);
    measured.and(taken_up)
}

/// The journal of this host, without what an earlier measurement left.
fn journal(args: &MeasureArgs) -> Result<Journal, Failure> {
    let directory = journal_directory(&args.journal, &args.selection.root)?;
    let mut host = RootHost::new(Root::live().or_exit(exit::CANNOT)?);
    let mut journal = open_journal(&directory, &HostIdentity::of(host.root()))?;
    if put_leftovers_back(&mut host, &mut journal).or_exit(exit::FAILED)? {
        output::note("What an earlier measurement had left was put back.");
    }
    let content = journal.content();
    if content.is_interrupted() || content.reverting.is_some() {
        let why = "an earlier change of this host was broken off, or its journal is damaged; put it back first: nearwire tune revert";
        return Err(anyhow::anyhow!(why)).or_exit(exit::CANNOT);
    }
    Ok(journal)
}

/// Everything on a test bed, which comes back to be taken up.
fn on(args: &MeasureArgs, bed: TestBed, journal: Journal, pair: Option<CpuPair>) -> (Option<TestBed>, Outcome) {
    let prepared = CableHost::new(&bed).or_exit(exit::CANNOT).and_then(|mut host| {
        let candidates = Candidates::find(args, Some(&bed), &mut host)?;
        output::print_of_host(&text::before(args, &candidates, &on_words(Some(&bed.detail))))?;
        Ok((host, candidates))
    });
    let (host, candidates) = match prepared {
        Ok((_, candidates)) if candidates.settings.is_empty() => return (Some(bed), Ok(())),
        Ok(prepared) => prepared,
        Err(failure) => return (Some(bed), Err(failure)),
    };
    if let Err(failure) = ask(QUESTION, args.yes) {
        return (Some(bed), Err(failure));
    }
    let (cable, kind) = (bed.detail.clone(), kind(&bed));
    let within = |(interface, namespace): (String, Option<Namespace>)| Some((interface, namespace?));
    let ends: Vec<_> = bed.ends_here().into_iter().filter_map(within).collect();
    let mut paths = match Paths::new(bed, Clock::calibrate(), &path_options(args, pair.map(|cpus| cpus.initiator))) {
        Ok(paths) => paths,
        Err(error) => return (None, Err(paths_failure(error))),
    };
    let watched: Vec<u32> = pair.into_iter().flat_map(|cpus| [cpus.initiator, cpus.responder]).collect();
    let measured = rounds(args, &candidates, (host, journal), &mut paths.subjects, &ends, &watched);
    let told = measured.map(|measured| Told {
        profile: &candidates.profile,
        cable: Some(cable),
        kind,
        measured,
        left: &candidates.left,
    });
    (paths.into_bed(), told.and_then(|told| tell(args, &told)))
}

fn path_options(args: &MeasureArgs, cpu_initiator: Option<u32>) -> PathOptions {
    let default = ["udp/block", "udp/spin"].iter().filter_map(|name| name.parse::<PathId>().ok());
    let paths = if args.paths.is_empty() { default.collect() } else { args.paths.clone() };
    let run_ns = args.time.as_nanos() as u64 / u64::from(args.rounds * RUNS_OF_ROUND);
    PathOptions { paths, size_bytes: args.size, run_ns, cpu_initiator }
}

fn rounds(
    args: &MeasureArgs,
    candidates: &Candidates,
    (host, journal): (CableHost, Journal),
    subjects: &mut [Box<dyn Subject>],
    ends: &[(String, Namespace)],
    watched: &[u32],
) -> Result<Measured, Failure> {
    let noise_before = noise(watched);
    let settle = |changes: &[nearwire_host::change::Change]| await_links(ends, changes);
    let placed = candidates.placed.clone();
    let mut switch = JournalSwitch::new(Command::TuneMeasure, host, journal, placed, &interrupted, &settle);
    let schedule = Schedule {
        rounds: args.rounds as usize,
        passes: if args.no_pairs { 0 } else { PASSES },
        seed: args.seed.unwrap_or_else(monotonic_raw_ns),
        strictness: Strictness::default(),
    };
    let mut progress = Progress::new(args.quiet);
    let settings = &candidates.settings;
    let mut measured = measure(settings, &mut switch, subjects, schedule, &mut progress, &interrupted);
    progress.finish();
    let kept = switch.take_kept().into_iter();
    measured
        .notes
        .extend(kept.map(|value| format!("Somebody else changed a value that was measured: {value}, and stays so.")));
    if let Some((before, after)) = noise_before.filter(|_| !measured.interrupted).zip(noise(watched)) {
        measured.notes.push(format!("What interrupts these CPUs anyway: before, {before}; after, {after}."));
    }
    Ok(measured)
}

/// What interrupts CPUs while nothing is measured, in words.
fn noise(cpus: &[u32]) -> Option<String> {
    let rates = noise_of(&Root::live().ok()?, &Clock::calibrate(), cpus, NOISE_WINDOW).ok()?;
    (!rates.is_empty()).then(|| noise_summary(&rates))
}

/// Prints, writes and keeps the result. A failure of one does not stop the others, so that no measurement is lost.
fn tell(args: &MeasureArgs, told: &Told<'_>) -> Outcome {
    let printed = output::print_of_host(&text::after(told));
    let json = args.json.as_ref().map_or(Ok(()), |file| write_text(file, &json::page(told)).or_exit(exit::FAILED));
    let html = args.html.as_ref().map_or(Ok(()), |file| write_text(file, &html::page(told)).or_exit(exit::FAILED));
    let kept = match told.measured.interrupted {
        true => Ok(()),
        false => {
            let directory = args.results.clone().unwrap_or_else(|| store::DEFAULT_DIRECTORY.into());
            store::keep(&directory, &told.kind, &told.measured, unix_s()).or_exit(exit::FAILED)
        }
    };
    printed.and(json).and(html).and(kept)?;
    match &told.measured.failure {
        Some(why) => Err(anyhow::anyhow!(why.clone())).or_exit(exit::FAILED),
        None if told.measured.interrupted => Err(Failure::silent(exit::INTERRUPTED)),
        None => Ok(()),
    }
}

/// What the result depends on.
fn kind(bed: &TestBed) -> Kind {
    let (name, driver) = match &bed.local.interface {
        Some(interface) => (interface.name.clone(), interface.driver.clone()),
        None => (String::new(), "none".to_owned()),
    };
    let of = || Root::live_of_this_network().or_else(|_| Root::live()).map(|root| Kind::of(&root, &name, &driver));
    let unknown = || Kind {
        cpu: "unknown".to_owned(),
        driver: driver.clone(),
        nic: "unknown".to_owned(),
        kernel: "unknown".to_owned(),
    };
    bed.enter(of).ok().and_then(Result::ok).unwrap_or_else(unknown)
}

fn paths_failure(error: PathsError) -> Failure {
    match error {
        PathsError::Cell(error) => cell_failure(error),
        error => Failure { code: exit::FAILED, error: Some(error.into()) },
    }
}

/// Whether the far end is another host, whose settings stay as they are.
fn is_to_another_host(cable: &CableArg) -> bool {
    matches!(cable, CableArg::Host(_))
}

#[cfg(test)]
mod tests;

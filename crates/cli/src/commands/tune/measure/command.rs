//! `nearwire tune measure -- COMMAND`: a command of the user's in place of paths.

use std::time::{Duration, Instant};

use nearwire_host::journal::Journal;
use nearwire_lab::interface_facts;
use nearwire_sys::affinity::allowed_cpus;
use nearwire_worth::cable_host::CableHost;
use nearwire_worth::store::Kind;
use nearwire_worth::subject::command::{UserCommand, Wanted};
use nearwire_worth::subject::{Subject, SubjectError};

use super::candidates::Candidates;
use super::{QUESTION, RUNS_OF_ROUND, Told, on_words, rounds, tell, text};
use crate::args::tune::MeasureArgs;
use crate::commands::ask::ask;
use crate::exit::{self, OrExit, Outcome};
use crate::output;

/// CPUs that are watched for what interrupts them, of all that the command may run on.
const WATCHED_MOST: usize = 16;

/// Measures by the command, on this host and its own network.
pub fn run(args: &MeasureArgs, journal: Journal) -> Outcome {
    let mut host = CableHost::alone().or_exit(exit::CANNOT)?;
    let candidates = Candidates::find(args, None, &mut host)?;
    output::print_of_host(&text::before(args, &candidates, &on_words(None)))?;
    if candidates.settings.is_empty() {
        return Ok(());
    }
    ask(QUESTION, args.yes)?;
    let mut command = UserCommand::new(args.command.clone(), args.time_limit, wanted(args));
    // Before anything is written: a command that tells nothing is an error of the user's, and the first run is often a slow one.
    let begun = Instant::now();
    command.run().map_err(failure)?;
    let latency = command.latency();
    if !args.quiet {
        let runs = args.rounds * RUNS_OF_ROUND * candidates.settings.len() as u32;
        let takes = humantime::format_duration(Duration::from_secs((begun.elapsed() * runs).as_secs().max(1)));
        output::note(&format!(
            "{runs} runs of the command take about {takes}, and combinations of settings some more."
        ));
    }
    let kind = kind(args, &mut host);
    let watched: Vec<u32> = allowed_cpus().into_iter().take(WATCHED_MOST).collect();
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(command)];
    let mut measured = rounds(args, &candidates, (host, journal), &mut subjects, &[], &watched)?;
    measured.notes.extend(latency.map(|latency| format!("Latency is {latency}.")));
    let told = Told { profile: &candidates.profile, cable: None, kind, measured, left: &candidates.left };
    tell(args, &told)
}

fn wanted(args: &MeasureArgs) -> Wanted {
    match (&args.figure, args.reader) {
        (Some(expression), _) => {
            Wanted::Expression { expression: expression.clone(), more_is_better: args.more_is_better }
        }
        (None, Some(reader)) => Wanted::Of(reader),
        (None, None) => Wanted::Recognised,
    }
}

/// The results are of the first interface that was named, or of none.
fn kind(args: &MeasureArgs, host: &mut CableHost) -> Kind {
    let interface = args.selection.nic.first().map_or("", String::as_str);
    let driver = interface_facts(interface).ok().and_then(|facts| facts.driver).unwrap_or_else(|| "none".to_owned());
    Kind::of(host.host().root(), interface, &driver)
}

fn failure(error: SubjectError) -> exit::Failure {
    let code = match error {
        SubjectError::Start { .. } | SubjectError::NoFigure { .. } => exit::USAGE,
        SubjectError::Failed { .. } => exit::FAILED,
    };
    exit::Failure { code, error: Some(error.into()) }
}

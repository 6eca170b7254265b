//! What each command does, one file each.

mod agent;
mod ask;
mod bench;
mod capture;
mod check;
mod compare;
mod dataplane;
mod environment;
mod host_root;
mod lend;
mod paths;
mod plan;
mod port;
mod progress;
mod report;
mod responder;
mod run;
mod selection;
mod settings;
mod snapshot;
mod status;
mod tune;

use crate::args::Command;
use crate::exit::Outcome;

/// Runs what was typed.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Bench(args) => bench::run(&args),
        Command::Paths(args) => paths::run(&args),
        Command::Responder(args) => responder::run(&args),
        Command::Lend(args) => lend::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Settings(args) => settings::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Port(args) => port::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Dataplane(args) => dataplane::topology::run(&args),
        Command::Generate(args) => dataplane::generate::run(&args),
        Command::Sink(args) => dataplane::sink::run(&args),
        Command::Forward(args) => dataplane::forward::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Status(args) => status::run(&args),
    }
}

//! What commands mean, one file each.

mod bench;
mod capture;
mod compare;
mod environment;
mod lend;
mod paths;
mod port;
mod progress;
mod report;
mod responder;
mod settings;

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
        Command::Port(args) => port::run(&args),
        Command::Capture(args) => capture::run(&args),
    }
}

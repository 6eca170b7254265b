//! The `nearwire` command: the command line (`args`), what each command does (`commands`), exit codes (`exit`), output (`output`).
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let result = match args::Command::parse_or_usage() {
        Ok(command) => commands::run(command),
        Err(usage) => return usage,
    };
    output::end(result)
}

impl args::Command {
    /// Parses the command line. Wrong usage ends with 2, help and version with 0.
    fn parse_or_usage() -> Result<args::Command, ExitCode> {
        match args::Nearwire::try_parse_from(args::with_topology(std::env::args_os().collect())) {
            Ok(nearwire) => Ok(nearwire.command),
            Err(error) => {
                // If printing fails too, the exit code is all that can be reported.
                let _ = error.print();
                Err(ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 }))
            }
        }
    }
}

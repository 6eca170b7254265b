//! `nearwire run` and `nearwire status`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use nearwire_socket::config::{self, Profile};

const ABOUT: &str = "Runs a program whose network traffic bypasses the kernel's network stack: its UDP sockets and its TCP \
connections. The program is not changed: a library is preloaded into it. Sockets that cannot be accelerated stay with the kernel and work as before; \
nearwire status shows which, and why.";

/// What stands below the options: examples, variables, exit codes.
fn after_help() -> String {
    let variables: Vec<String> = config::variables().collect();
    let variables = variables.join(", ");
    format!(
        "Examples:
  nearwire run -- sockperf server --ip 10.0.0.1
  nearwire run --profile shared --config nearwire.toml -- ./feed-handler
  nearwire run --dry-run -- ./feed-handler

Configuration: profile, then file (--config or NEARWIRE_CONFIG), then variables ({variables}), then options; what comes later \
overrides what comes before. docs/run.md describes the file.

Exit codes: those of the program; 2 wrong usage or configuration, 3 the program cannot be preloaded, or with --strict: \
a precondition is not met, its sockets cannot be reached, or packet filters would be bypassed; 126 the program cannot be executed, 127 it was not found."
    )
}

#[derive(Debug, Args)]
#[command(about = "Run a program with its sockets past the kernel", long_about = ABOUT, after_help = after_help())]
pub struct RunArgs {
    /// A preset: latency spins while it waits; throughput spins too, and sends several datagrams with one kick; shared spins
    /// for 50 us, then sleeps; sleep never spins
    #[arg(long, value_name = "P", value_parser = PossibleValuesParser::new(Profile::ALL.iter().map(|profile| profile.name)))]
    pub profile: Option<String>,
    /// The configuration file, instead of the one that NEARWIRE_CONFIG names
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Refuse to run if a precondition is not met, and let calls fail on sockets that cannot be accelerated
    #[arg(long)]
    pub strict: bool,
    /// With --strict, run although packet filters (nftables, iptables, tc, BPF, IPsec) are in place: accelerated traffic
    /// bypasses them
    #[arg(long)]
    pub past_filters: bool,
    /// Let the program open its ports itself, and start no agent
    #[arg(long)]
    pub no_agent: bool,
    /// Print what would be done, and do nothing; the exit code is 3 if the program would be refused
    #[arg(long)]
    pub dry_run: bool,
    /// Print the library's counters when the program ends
    #[arg(long)]
    pub stats: bool,
    /// Print nothing but errors on standard error
    #[arg(long)]
    pub quiet: bool,
    /// The library to preload, if it is not beside this command
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The process [default: all that run under `nearwire run`]
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

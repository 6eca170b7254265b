//! `nearwire run` and `nearwire status`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use nearwire_socket::config::Profile;

const ABOUT: &str = "Runs a program with its UDP sockets past the kernel's network stack. The program is not changed: a library is \
preloaded into it. What cannot be accelerated stays with the kernel and works as before; nearwire status says which and why.";

const EXAMPLES: &str = "Examples:
  nearwire run -- sockperf server --ip 10.0.0.1
  nearwire run --profile shared --config nearwire.toml -- ./feed-handler
  nearwire run --dry-run -- ./feed-handler

Configuration: profile, then file (--config or NEARWIRE_CONFIG), then variables (NEARWIRE_SPIN, NEARWIRE_INTERFACES, \
NEARWIRE_MODE, NEARWIRE_STRICT, NEARWIRE_STATS, NEARWIRE_SEND_COALESCING, NEARWIRE_PAST_FILTERS, NEARWIRE_AGENT), then options; what comes later \
counts more. docs/run.md has the file's form.

Exit codes: those of the program; 2 wrong usage or configuration, 3 the program cannot be preloaded, or with --strict: \
a precondition is not met, its sockets cannot be reached, or packet filters would be passed by, 126 the program cannot be executed, 127 it was not found.";

#[derive(Debug, Args)]
#[command(about = "Run a program with its UDP sockets past the kernel", long_about = ABOUT, after_help = EXAMPLES)]
pub struct RunArgs {
    /// A preset: latency spins while it waits, throughput does and sends many datagrams at a time, shared spins 50 us and
    /// sleeps then, sleep never spins
    #[arg(long, value_name = "P", value_parser = PossibleValuesParser::new(Profile::ALL.iter().map(|profile| profile.name)))]
    pub profile: Option<String>,
    /// The configuration file, instead of the one that NEARWIRE_CONFIG names
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Refuse where a precondition is not met, and let calls fail on sockets that cannot be accelerated
    #[arg(long)]
    pub strict: bool,
    /// With --strict, run although packet filters (nftables, iptables, tc, BPF, IPsec) would have touched the traffic, which
    /// passes by them when it is accelerated
    #[arg(long)]
    pub past_filters: bool,
    /// Have the program open its ports itself, and start no agent
    #[arg(long)]
    pub no_agent: bool,
    /// Print what would be done, and do nothing; the exit code is 3 where the program would be refused
    #[arg(long)]
    pub dry_run: bool,
    /// Let the library print its counters when the program ends
    #[arg(long)]
    pub stats: bool,
    /// Say nothing on standard error that is no error
    #[arg(long)]
    pub quiet: bool,
    /// The library, where it is not beside this command
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The process; all that nearwire runs without it
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

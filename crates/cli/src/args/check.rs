//! `nearwire check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::HostSource;
use super::values::some_time;

/// Built-in profiles, for help texts.
pub const PROFILES: &str = "Built-in profiles: latency, raw-frame, socket-bypass, busy-poll, mpi, nfv, bulk, and what each paper \
prints to the letter: as-printed/exanic, as-printed/vma, as-printed/busy-poll, as-printed/usnic, as-printed/opennfp. \
docs/profiles.md tells what is in them and how to write one.";

/// What is checked, and against what; `nearwire tune` has the same.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// The built-in profile, or a file whose name ends in .toml [default: socket-bypass]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// An interface whose settings count; all that have a device where none is named
    #[arg(long, value_name = "IFACE")]
    pub nic: Vec<String>,
    /// The plan that says which CPUs are whose (nearwire plan --json); without it, CPUs that are isolated now count as
    /// the program's
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub root: HostSource,
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES)]
pub struct CheckArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Measure what no file tells; loads one CPU at a time
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', conflicts_with_all = ["sysroot", "snapshot"])]
    pub probe: Vec<Probe>,
    /// How long each CPU is watched for noise; what comes less often than that is not seen
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = some_time, requires = "probe")]
    pub probe_time: Duration,
    /// CPUs to probe: those that are isolated, or all if none is, where none is named
    #[arg(long, value_name = "LIST", requires = "probe")]
    pub probe_cpus: Option<String>,
    /// Tell every wish in full, also those that are fulfilled or do not count here
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A probe of `nearwire_host::probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// What keeps a spinning thread from running, and for how long
    Noise,
    /// How fast each memory node copies
    Memory,
    /// The clock that a busy CPU reaches
    Clock,
}

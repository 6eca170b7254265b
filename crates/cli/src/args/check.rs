//! `nearwire check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use nearwire_host::profile::Weight;

use super::HostSource;
use super::values::{exit_code, some_time, weight};

/// Built-in profiles, for help texts.
pub const PROFILES: &str = "Built-in profiles: latency, raw-frame, socket-bypass, busy-poll, mpi, nfv, bulk, and what each paper \
prints to the letter: as-printed/exanic, as-printed/vma, as-printed/busy-poll, as-printed/usnic, as-printed/opennfp. \
docs/profiles.md lists what is in them and says how to write one.";

/// What is checked, and against which profile; `nearwire tune` has the same options.
#[derive(Clone, Debug, Args)]
pub struct SelectionArgs {
    /// The built-in profile, or a file whose name ends in .toml [default: socket-bypass]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// An interface whose settings are checked [default: all that have a device]
    #[arg(long, value_name = "IFACE")]
    pub nic: Vec<String>,
    /// The plan that says what each CPU is for (nearwire plan --json); without it, the CPUs that are isolated now are
    /// taken as the program's
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Differences that were accepted, with reason, owner and last day (docs/tuning.md); they do not count
    #[arg(long, value_name = "FILE")]
    pub waivers: Option<PathBuf>,
    #[command(flatten)]
    pub root: HostSource,
}

impl SelectionArgs {
    /// The name of the profile.
    pub fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or(nearwire_host::profile::DEFAULT)
    }
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES)]
pub struct CheckArgs {
    /// Snapshots or archives of several hosts: a table of what differs, by setting and host
    #[arg(value_name = "SNAPSHOT", conflicts_with_all = ["sysroot", "snapshot", "probe", "all", "plan"])]
    pub hosts: Vec<PathBuf>,
    /// A snapshot of the host that the others should be like: what they have otherwise is told too
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub baseline: Option<PathBuf>,
    /// Also write the table as one HTML page
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Measure what no file contains; loads one CPU at a time
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', conflicts_with_all = ["sysroot", "snapshot"])]
    pub probe: Vec<Probe>,
    /// How long each CPU is watched for noise; what occurs less often than that is not seen
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = some_time, requires = "probe")]
    pub probe_time: Duration,
    /// CPUs to probe [default: the isolated ones, or all where none is isolated]
    #[arg(long, value_name = "LIST", requires = "probe")]
    pub probe_cpus: Option<String>,
    /// Leave out what differs and weighs less: it is not shown and does not count for the exit code
    #[arg(long, value_name = "WEIGHT", value_parser = weight, default_value = "low")]
    pub min_weight: Weight,
    /// Exit codes by the worst difference, 1 for a weight that is not named; 0, 1 and 5 to 125, as the others say how the command failed
    #[arg(long, value_name = "WEIGHT=CODE", value_delimiter = ',', value_parser = exit_code)]
    pub exit_code: Vec<(Weight, u8)>,
    /// The directory of what nearwire tune measure found, which is shown and sorted by [default: /var/lib/nearwire/worth]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sysroot", "snapshot", "hosts"])]
    pub results: Option<PathBuf>,
    /// Show every wish in full, also those that are fulfilled or do not apply here
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A probe of `nearwire_host::probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// What interrupts a spinning thread, and for how long
    Noise,
    /// How fast each memory node copies
    Memory,
    /// The clock frequency that a busy CPU reaches
    Clock,
}

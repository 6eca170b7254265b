//! `nearwire tune`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use super::check::{PROFILES, SelectionArgs};
use super::values::{MicrosecondsArg, some_time};

const APPLY: &str = "Writes what differs from the profile and can be written while the host runs. The values found \
before are on disk before the first write; each effect is read back, and on any failure everything goes back. \
nearwire tune revert puts all of it back at any time, also after a crash.";

const EXPORT: &str = "Files for what differs from the profile, and for what nearwire tune apply wrote. They are printed, or \
written below a directory; none is put in place. What a form cannot hold is named with the reason.";

const WATCH: &str = "Stays in the foreground, looks at what nearwire tune apply wrote, and writes again what a link \
that came up, a reset driver or a new device wiped. Each such value is reported with who may have changed it. Ctrl-C \
ends it and leaves the values in place.";

const HOLD: &str = "Asks on /dev/cpu_dma_latency that no CPU takes longer than this to wake up, and keeps asking: until \
Ctrl-C, or as long as a program runs, whose exit code is passed on. The kernel follows the smallest request of all \
programs; what is in effect is read back and told. Needs root.";

const JOURNAL: &str =
    "The directory of the journal [default: /var/lib/nearwire/journal; a copy of a host's files has none]";

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Show the changes in their order; nothing is written
    Plan(PlanArgs),
    /// Write them, with the way back on disk first
    #[command(long_about = APPLY)]
    Apply(ApplyArgs),
    /// Keep what was applied with --confirm
    Confirm(ConfirmArgs),
    /// Show what is in effect, and what somebody changed since
    Status(StatusArgs),
    /// Put back every value that was found before
    Revert(RevertArgs),
    /// Print or write the files that keep the values over a boot
    #[command(long_about = EXPORT)]
    Export(ExportArgs),
    /// Hold all CPUs out of deep idle states, in the foreground or while a program runs
    #[command(long_about = HOLD)]
    Hold(HoldArgs),
    /// Hold what was applied: links, drivers and devices that come back lose settings
    #[command(long_about = WATCH)]
    Watch(WatchArgs),
}

/// Which changes.
#[derive(Debug, Args)]
pub struct ChangesArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Only these settings of the profile, by id
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub only: Vec<String>,
    /// Also follow advice that lowers security, for this setting: it is never part of a profile
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub i_accept_risk: Vec<String>,
}

/// Where the journal is.
#[derive(Debug, Args)]
pub struct JournalArgs {
    #[arg(long, value_name = "DIR", help = JOURNAL)]
    pub journal: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES)]
pub struct PlanArgs {
    #[command(flatten)]
    pub changes: ChangesArgs,
    /// Print a commented shell script that does the same
    #[arg(long, conflicts_with = "json")]
    pub script: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub changes: ChangesArgs,
    #[command(flatten)]
    pub journal: JournalArgs,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Put everything back after this long unless nearwire tune confirm says otherwise
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub confirm: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct ConfirmArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    #[command(flatten)]
    pub root: super::HostSource,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    #[command(flatten)]
    pub root: super::HostSource,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RevertArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    #[command(flatten)]
    pub root: super::HostSource,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Give up values whose device or file is gone
    #[arg(long)]
    pub forget_absent: bool,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    /// How often everything is looked at; links that come up are looked at once they do
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = some_time)]
    pub interval: Duration,
}

#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The longest wake-up to accept, in whole microseconds; 0us keeps CPUs from sleeping at all
    #[arg(long, value_name = "DURATION", default_value = "2us")]
    pub latency: MicrosecondsArg,
    /// The program to run meanwhile, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES, group(clap::ArgGroup::new("form").required(true).multiple(true)))]
pub struct ExportArgs {
    #[command(flatten)]
    pub changes: ChangesArgs,
    #[command(flatten)]
    pub journal: JournalArgs,
    /// The kernel's command line, for GRUB; other boot loaders in comments
    #[arg(long, group = "form")]
    pub grub: bool,
    /// /etc/sysctl.d
    #[arg(long, group = "form")]
    pub sysctl: bool,
    /// Units, tmpfiles.d, .link files and presets of systemd
    #[arg(long, group = "form")]
    pub systemd: bool,
    /// Rules of udev
    #[arg(long, group = "form")]
    pub udev: bool,
    /// A profile of tuned
    #[arg(long, group = "form")]
    pub tuned_profile: bool,
    /// A playbook of Ansible
    #[arg(long, group = "form")]
    pub ansible: bool,
    /// Every wish of the profile that a file can hold, also those that are fulfilled without
    #[arg(long)]
    pub all: bool,
    /// Write the files below this directory; / puts them in place
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Show the files to the tools that will read them, where these are installed
    #[arg(long)]
    pub validate: bool,
}

//! `nearwire tune`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use nearwire_bench::paths::PathId;
use nearwire_worth::subject::readers::{Expression, Reader, reader};

use super::check::{PROFILES, SelectionArgs};
use super::values::{CableArg, CpuPair, MicrosecondsArg, some_time};

const APPLY: &str = "Writes the settings that differ from the profile and can be written while the host runs. The present \
values are saved to disk before the first write; each effect is read back, and after any failure everything is put back. \
nearwire tune revert puts everything back at any time, also after a crash. Without --nic, the interfaces that carry the \
default route, your own connection or network storage are left alone.";

const EXPORT: &str = "Makes files for the settings that differ from the profile, and for those that nearwire tune apply wrote. The files \
are printed, or written below a directory; none is installed. A setting that a format cannot hold is listed with the reason.";

const VERIFY: &str = "Looks after a boot whether each value that nearwire tune export wrote is in force. A value that is not is named with \
what was found and the likely cause: its file is not installed, a later file overrides it, the boot loader was not updated, a unit is not \
enabled. Without DIR the files are those in /etc of the host. Ends with 1 where a value is not in force or the next boot loses it.";

const WATCH: &str = "Stays in the foreground, reads what nearwire tune apply wrote, and writes a value again when a link \
that came up, a reset driver or a new device has lost it. Each such value is reported with what may have changed it. \
Values that nobody confirmed, and those of before the last boot, are left alone. Ctrl-C ends it and leaves the values in place.";

const HOLD: &str = "Requests on /dev/cpu_dma_latency that no CPU takes longer than this to wake up, and holds the request until \
Ctrl-C, or while a program runs, whose exit code is passed on. The kernel follows the smallest request of all \
programs; the value in effect is read back and printed. Needs root.";

const MEASURE: &str = "Measures what each setting that differs from the profile changes on this host: runs with the value found and with the value \
wanted take turns, and each setting gets its change of the latencies and of the CPU time of a message, with an interval and a verdict. Settings that \
have an effect, or that are known to depend on each other, are then measured in combinations. Values are written and put back by way of the \
journal, as by nearwire tune apply: after a crash nearwire tune revert puts everything back, and so does the next measurement. Settings of interfaces are \
measured at the ends of the cable. With a command of your own in place of paths, what it prints has the figures, and settings of this \
host and of the interfaces named by --nic are measured. Needs root.";

const JOURNAL: &str =
    "The directory of the journal [default: /var/lib/nearwire/journal; a copy of a host's files has none]";

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Show the changes in the order in which they would be written; nothing is written
    Plan(PlanArgs),
    /// Write the changes, after the present values were saved to disk
    #[command(long_about = APPLY)]
    Apply(ApplyArgs),
    /// Write a plan given on standard input and guard it: what apply --confirm starts in a session of its own
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Keep what was applied with --confirm
    Confirm(ConfirmArgs),
    /// Show what is in effect, and what was changed since
    Status(StatusArgs),
    /// Put back every value that was found before
    Revert(RevertArgs),
    /// Print or write the files that keep the values over a boot
    #[command(long_about = EXPORT)]
    Export(ExportArgs),
    /// Look whether what was exported is in force, as after a boot
    #[command(long_about = VERIFY)]
    Verify(VerifyArgs),
    /// Measure what each change is worth on this host; everything is put back
    #[command(long_about = MEASURE)]
    Measure(Box<MeasureArgs>),
    /// Keep all CPUs out of deep idle states, in the foreground or while a program runs
    #[command(long_about = HOLD)]
    Hold(HoldArgs),
    /// Keep what was applied in effect: links, drivers and devices that come back lose settings
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
    /// Also write this setting, which lowers security: such advice is never part of a profile
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
    /// Print a shell script with comments that does the same
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
    /// Put these values back after this long unless nearwire tune confirm says otherwise, also when the terminal or
    /// connection is gone by then
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub confirm: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct GuardArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    #[command(flatten)]
    pub root: super::HostSource,
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
    /// Forget values whose device or file is gone
    #[arg(long)]
    pub forget_absent: bool,
    /// What to do with values that are still as written although the host was booted since: somebody made them permanent
    #[arg(long, value_enum, value_name = "WHAT")]
    pub permanent: Option<PermanentArg>,
}

/// What to do with values that outlived a boot.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PermanentArg {
    /// Leave them as they are and forget that they were found otherwise
    Keep,
    /// Put them back, until the next boot
    Revert,
}

#[derive(Debug, Args)]
#[command(after_help = PROFILES)]
pub struct MeasureArgs {
    /// Paths to measure on, as in udp/spin [default: udp/block udp/spin]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathId>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Only these settings of the profile, by id
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub only: Vec<String>,
    #[command(flatten)]
    pub journal: JournalArgs,
    /// The cable: 'virtual', two interfaces IF0:IF1 of this host that a cable joins, or the HOST:PORT of a responder
    #[arg(long, value_name = "CABLE", default_value = "virtual")]
    pub cable: CableArg,
    /// Token that the responder on the other host printed
    #[arg(long, env = "NEARWIRE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// CPUs of initiator and responder [default: from this host's topology]
    #[arg(long, value_name = "A,B")]
    pub cpus: Option<CpuPair>,
    /// Size: payload bytes of udp and tcp paths, whole frame without FCS of frame paths
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub size: u32,
    /// Rounds, in each of which every setting has two runs with the value found and two with the value wanted
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub rounds: u32,
    /// Measuring time of each setting, over all rounds and paths
    #[arg(long, value_name = "DURATION", default_value = "7s", value_parser = some_time)]
    pub time: Duration,
    /// Leave out the combinations of settings
    #[arg(long)]
    pub no_pairs: bool,
    /// Seed of all orders; without it a random seed is used and recorded
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the result as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// The directory of results that nearwire check shows [default: /var/lib/nearwire/worth]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Print no progress line and no notes on standard error
    #[arg(long)]
    pub quiet: bool,
    /// What COMMAND prints is the output of this tool [default: recognised by it]: sockperf, netperf, redis-benchmark, iperf3, wrk, pgbench, fio
    #[arg(long, value_name = "TOOL", value_parser = reader, requires = "command", conflicts_with = "figure")]
    pub reader: Option<&'static Reader>,
    /// The figure of COMMAND is what the only group of this regular expression matches in its output
    #[arg(long, value_name = "REGEX", value_parser = Expression::new, requires = "command")]
    pub figure: Option<Expression>,
    /// Of the figure more is better, not less
    #[arg(long, requires = "figure")]
    pub more_is_better: bool,
    /// How long a run of COMMAND may take
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = some_time)]
    pub time_limit: Duration,
    /// A command to measure by in place of paths, run once for each value and round: what it prints has the figures
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["paths", "cable", "token", "cpus", "size", "time"])]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The directory that nearwire tune export --output wrote [default: the files that are installed]
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub root: super::HostSource,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub journal: JournalArgs,
    /// How often everything is read; a link that comes up is noticed at once
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = some_time)]
    pub interval: Duration,
}

#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The longest accepted wake-up time, in whole microseconds; 0us keeps CPUs from sleeping at all
    #[arg(long, value_name = "DURATION", default_value = "2us")]
    pub latency: MicrosecondsArg,
    /// The program to run, with its arguments
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
    /// Include every wish of the profile that a file can hold, also those that are fulfilled now
    #[arg(long)]
    pub all: bool,
    /// Write the files below this directory; / installs them
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Let the tools that will read the files check them, where these are installed
    #[arg(long)]
    pub validate: bool,
}

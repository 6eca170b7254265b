//! The command line, one file for each command. What a command does is in `commands`.

pub mod agent;
pub mod bench;
pub mod check;
pub mod dataplane;
pub mod plan;
mod ports;
pub mod run;
mod snapshot;
mod source;
pub mod tune;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use ports::{CaptureArgs, FlowArg, PortArgs};
pub use snapshot::SnapshotArgs;
pub use source::HostSource;
pub use values::{CableArg, CpuPair, ListenArg};

/// Network latency near the wire: measure it, tune hosts for it, and run programs with it.
#[derive(Debug, Parser)]
#[command(name = "nearwire", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = EXIT_CODES)]
pub struct Nearwire {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a comparison or check found a difference, 2 wrong usage or unusable input, \
3 the host cannot do it, 4 it failed while running, 130 interrupted.";

/// `bench --topology` is `dataplane --topology`: what stands between generator and sink has options of its own.
pub fn with_topology(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_topology =
        |word: &OsString| word.to_str().is_some_and(|word| word == "--topology" || word.starts_with("--topology="));
    if words.get(1).is_some_and(|word| word == "bench") && words.iter().skip(2).any(is_topology) {
        words[1] = "dataplane".into();
    }
    words
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the latency of every path that this host can run, or of the named ones
    Bench(Box<bench::BenchArgs>),
    /// List every path and whether this host can run it; if not, why, and what to do
    Paths(PathsArgs),
    /// Answer an initiator on another host
    Responder(ResponderArgs),
    /// Lend two interfaces over standard input: the process that gives the interfaces of a loopback cable back
    #[command(hide = true)]
    Lend(LendArgs),
    /// Compare two records cell by cell: faster, slower, no difference or cannot tell
    Compare(CompareArgs),
    /// Make an HTML page of records
    Report(ReportArgs),
    /// Explain the settings of a host, and show their values here
    Settings(SettingsArgs),
    /// Check the settings of a host against a profile; nothing is changed
    Check(check::CheckArgs),
    /// Plan what each CPU, NIC queue, interrupt and memory node is used for
    Plan(Box<plan::PlanArgs>),
    /// Change the settings of this host by a profile, and put them back
    Tune(Box<tune::TuneArgs>),
    /// Put all that settings are read from into one file, to examine it elsewhere
    Snapshot(SnapshotArgs),
    /// Show an interface: its driver, features, queues and dropped frames
    Port(PortArgs),
    /// Write the frames of an interface to a file that Wireshark reads
    Capture(CaptureArgs),
    Dataplane(Box<dataplane::DataplaneArgs>),
    Generate(dataplane::GenerateArgs),
    Sink(dataplane::SinkArgs),
    Forward(dataplane::ForwardArgs),
    Run(run::RunArgs),
    Agent(agent::AgentArgs),
    /// Show which sockets of programs under `nearwire run` are accelerated, and why the others are not
    Status(run::StatusArgs),
}

#[derive(Debug, Args)]
pub struct PathsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ResponderArgs {
    /// Address to listen on, with the TCP port if it is not 7700
    #[arg(long, value_name = "ADDR[:PORT]", required_unless_present = "control_stdin")]
    pub listen: Option<ListenArg>,
    /// Token that initiators must present; without it, a random one is made and printed
    #[arg(long, env = "NEARWIRE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// End after this long without an initiator
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    pub timeout: std::time::Duration,
    /// End after the first experiment
    #[arg(long)]
    pub once: bool,
    /// Use standard input as the control connection: an initiator starts its own responder in the far namespace with this
    #[arg(long, hide = true)]
    pub control_stdin: bool,
}

#[derive(Debug, Args)]
pub struct LendArgs {
    pub near: String,
    pub far: String,
}

/// What `nearwire compare` answers to a script.
const GATE: &str = "Exit codes: 0 no difference is shown, 1 something differs: a figure with all figures taken together, a cell of A that B \
     has not, or a cell that only one side answers; with --conclusive 3 when nothing differs and not everything can be told. \
     A difference in either direction is one.";

#[derive(Debug, Args)]
#[command(after_help = GATE)]
pub struct CompareArgs {
    /// The record to compare with
    #[arg(value_name = "A.json")]
    pub a: PathBuf,
    /// The record to judge
    #[arg(value_name = "B.json")]
    pub b: PathBuf,
    /// Least difference of a latency or CPU time that counts, per cent; "no difference" rules out larger ones
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    pub threshold: f64,
    /// The same for CPU times of records that have one for the whole run, and so no interval
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    pub cpu_threshold: f64,
    /// Difference of lost messages that "no difference" rules out, per cent of the messages; any difference that is shown counts
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, value_parser = percent)]
    pub loss_threshold: f64,
    /// Confidence level of each interval, and of the answer for all figures together
    #[arg(long, value_name = "0..1", default_value_t = 0.95, value_parser = confidence)]
    pub confidence: f64,
    /// Exit code 3 when nothing differs and not everything can be told
    #[arg(long)]
    pub conclusive: bool,
}

/// Nothing that compares with no number: a threshold of NaN would let everything pass.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of per cent from 0 is needed, as in 3 or 0.5".to_owned()),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(confidence) if (0.5..=0.9999).contains(&confidence) => Ok(confidence),
        _ => Err("a number from 0.5 to 0.9999 is needed, as in 0.95".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Records to show
    #[arg(required = true, value_name = "FILE")]
    pub records: Vec<PathBuf>,
    /// Where to write the page
    #[arg(short, long, value_name = "FILE.html")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct SettingsArgs {
    #[arg(
        value_name = "ID",
        help = "The setting to explain, as in cpu.governor or nic.mtu[eth0]; without it, all are listed"
    )]
    pub id: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the present value of every setting; this is the default for another host than this one, without ID
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub host: HostSource,
}

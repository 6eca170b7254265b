//! `nearwire bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearwire_bench::cells::Rates;
use nearwire_bench::paths::{AskedMode, PathId, RxMode, TxMode};
use nearwire_bench::workloads::load::Arrivals;
use nearwire_frames::fault::FaultConfig;
use nearwire_report::render::Format;
use nearwire_worth::vary::Vary;

use super::tune::JournalArgs;
use super::values::{rates, some_time};
use super::{CableArg, CpuPair};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Paths to measure, as in udp/spin; without any, every path this host can run
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathId>,
    /// Measure udp/sockets too: UDP through the library of `nearwire run`, which shows what the library costs
    #[arg(long)]
    pub through_sockets: bool,
    /// Sizes: payload bytes of udp and tcp paths, whole frame without FCS of frame paths
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [64, 256, 1024])]
    pub size: Vec<u32>,
    /// Interleaved rounds each cell is measured in; more when a round would exceed half a second
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Measuring time of each cell, over all rounds
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = some_time)]
    pub time: Duration,
    /// Messages of each cell, over all rounds, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The cable: 'virtual', two interfaces IF0:IF1 of this host that a cable joins, or the HOST:PORT of a responder
    #[arg(long, value_name = "CABLE", default_value = "virtual")]
    pub cable: CableArg,
    /// MTU of the virtual cable; other cables have the MTU of their interfaces
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub mtu: u32,
    /// Token that the responder on the other host printed
    #[arg(long, env = "NEARWIRE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// CPUs of initiator and responder; the same CPU twice is allowed, with a warning. Default: from this host's topology
    #[arg(long, value_name = "A,B")]
    pub cpus: Option<CpuPair>,
    /// How frame/xdp sends: 'frame' copies each frame, 'prepared' sends a resident frame again
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_values = ["frame", "prepared"])]
    pub tx: Vec<TxArg>,
    /// How frame/xdp receives: 'frame' copies each frame, 'in-place' reads it in packet memory
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_values = ["frame", "in-place"])]
    pub rx: Vec<RxArg>,
    /// IP versions of udp and tcp paths
    #[arg(long, value_name = "4|6", value_delimiter = ',', default_values_t = [4],
          value_parser = ip_version)]
    pub ip: Vec<u8>,
    /// Traffic pattern: ping-pong has one message out at a time; load sends by a schedule, whatever comes back;
    /// stream sends one way, as fast as the path takes messages; forward needs frame paths and
    /// a cable with two pairs (virtual)
    #[arg(long, value_name = "WORKLOAD", default_value = "ping-pong")]
    pub workload: WorkloadArg,
    /// load: messages a second, as in 10k,50k,0.2M; 'sweep': ten rates up to what each path carries [default: 10k]
    #[arg(long, value_name = "N,N…|sweep", value_parser = rates)]
    pub rate: Option<Rates>,
    /// load: how messages are spread over time: poisson, as many independent users send; fixed; or bursts=N, so many at once
    /// [default: poisson]
    #[arg(long, value_name = "SPREAD")]
    pub arrivals: Option<Arrivals>,
    /// Seed of the order of cells in each round; without it a random seed is used and recorded
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Messages at the start of each round that are not counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub warm_up: u64,
    /// Minimum time of that warm-up
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = humantime::parse_duration)]
    pub warm_up_time: Duration,
    /// An answer that takes longer than this counts as lost. The default is longer than TCP waits to send again (200ms)
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = some_time)]
    pub timeout: Duration,
    /// Busy-poll paths: microseconds that a receive polls before it sleeps
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    pub busy_poll: u32,
    /// Busy-poll paths: packets in one poll
    #[arg(long, value_name = "PACKETS", default_value_t = 8)]
    pub busy_poll_budget: u16,
    /// Frame paths: put frames on this VLAN
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// frame/xdp, udp/bypass and tcp/bypass: the mode of AF_XDP; without it, the fastest mode of a short measurement
    #[arg(long, value_name = "MODE")]
    pub xdp: Option<XdpArg>,
    /// Frame paths: faults that the initiator's port makes, as in loss=10%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=20us;
    /// on=send or on=both instead of on=receive, the default
    #[arg(long, value_name = "FAULTS")]
    pub fault: Option<FaultConfig>,
    /// Measure every cell under each of these values of a setting that can be written while the host runs, in turns
    /// within each round; values have no commas. A setting of interfaces is varied at both ends of the cable. What was
    /// found is put back at the end; may be given again for all combinations
    #[arg(long, value_name = "ID=V1,V2…")]
    pub vary: Vec<Vary>,
    /// With --vary: do not ask before values of this host are written
    #[arg(long, requires = "vary")]
    pub yes: bool,
    #[command(flatten)]
    pub journal: JournalArgs,
    /// Write the record as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write every round trip as CSV
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// What to print: table, csv, json, or the output format of another tool: exanic, sockperf, netpipe
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// table: print quantiles with their 95 % intervals
    #[arg(long)]
    pub intervals: bool,
    /// Print no progress line and no notes on standard error
    #[arg(long)]
    pub quiet: bool,
}

fn ip_version(text: &str) -> Result<u8, String> {
    match text {
        "4" => Ok(4),
        "6" => Ok(6),
        _ => Err(format!("'{text}' is not an IP version; give 4 or 6")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TxArg {
    Frame,
    Prepared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RxArg {
    Frame,
    InPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    PingPong,
    Forward,
    Load,
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdpArg {
    ZeroCopy,
    Native,
    Generic,
}

impl From<XdpArg> for AskedMode {
    fn from(arg: XdpArg) -> AskedMode {
        match arg {
            XdpArg::ZeroCopy => AskedMode::ZeroCopy,
            XdpArg::Native => AskedMode::Native,
            XdpArg::Generic => AskedMode::Generic,
        }
    }
}

impl From<TxArg> for TxMode {
    fn from(arg: TxArg) -> TxMode {
        match arg {
            TxArg::Frame => TxMode::Frame,
            TxArg::Prepared => TxMode::Prepared,
        }
    }
}

impl From<RxArg> for RxMode {
    fn from(arg: RxArg) -> RxMode {
        match arg {
            RxArg::Frame => RxMode::Frame,
            RxArg::InPlace => RxMode::InPlace,
        }
    }
}

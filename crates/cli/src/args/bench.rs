//! `nearwire bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearwire_bench::experiment::Workload;
use nearwire_bench::paths::{AskedMode, PathId, RxMode, TxMode};
use nearwire_frames::fault::FaultConfig;
use nearwire_report::render::Format;

use super::values::some_time;
use super::{CableArg, CpuPair};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Paths to measure, as in udp/spin; without any, every path this host can run
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathId>,
    /// Measure udp/sockets too: UDP through the library of `nearwire run`, which shows what it adds
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
    /// Where the wire is: 'virtual', two interfaces IF0:IF1 that a cable joins, or a responder's HOST:PORT
    #[arg(long, value_name = "CABLE", default_value = "virtual")]
    pub cable: CableArg,
    /// MTU of the virtual cable; others have that of their interfaces
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub mtu: u32,
    /// Token that the responder on the other host printed
    #[arg(long, env = "NEARWIRE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// CPUs of initiator and responder; the same twice is legal and labelled. Default: from this host's topology
    #[arg(long, value_name = "A,B")]
    pub cpus: Option<CpuPair>,
    /// How frame/xdp sends: by copy, or a resident frame again
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_values = ["frame", "prepared"])]
    pub tx: Vec<TxArg>,
    /// How frame/xdp receives: by copy, or where the frame lies
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_values = ["frame", "in-place"])]
    pub rx: Vec<RxArg>,
    /// IP versions of udp and tcp paths
    #[arg(long, value_name = "4|6", value_delimiter = ',', default_values_t = [4],
          value_parser = ip_version)]
    pub ip: Vec<u8>,
    /// Traffic pattern; forward needs frame paths and a cable with two pairs (virtual)
    #[arg(long, value_name = "WORKLOAD", default_value = "ping-pong")]
    pub workload: WorkloadArg,
    /// Seed of the order of cells in each round; random, and recorded, without it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Messages before each round's samples count
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub warm_up: u64,
    /// Least time of that warm-up
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = humantime::parse_duration)]
    pub warm_up_time: Duration,
    /// An answer later than this is lost
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = some_time)]
    pub timeout: Duration,
    /// Busy-poll paths: microseconds a receive polls before it sleeps
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    pub busy_poll: u32,
    /// Busy-poll paths: packets in one poll
    #[arg(long, value_name = "PACKETS", default_value_t = 8)]
    pub busy_poll_budget: u16,
    /// Frame paths: put frames on this VLAN
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// frame/xdp and udp/bypass: the mode of AF_XDP, instead of the fastest of a short measurement
    #[arg(long, value_name = "MODE")]
    pub xdp: Option<XdpArg>,
    /// Frame paths: faults around the initiator's port, as in loss=10%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=20us;
    /// on=send or on=both where on=receive is not wanted
    #[arg(long, value_name = "FAULTS")]
    pub fault: Option<FaultConfig>,
    /// Write the record as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write every round trip as CSV
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// What to print: table, csv, json, or what readers of another tool's output expect: exanic, sockperf, netpipe
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// No progress line and no notes on standard error
    #[arg(long)]
    pub quiet: bool,
}

fn ip_version(text: &str) -> Result<u8, String> {
    match text {
        "4" => Ok(4),
        "6" => Ok(6),
        _ => Err(format!("'{text}' is no IP version; give 4 or 6")),
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

impl From<WorkloadArg> for Workload {
    fn from(arg: WorkloadArg) -> Workload {
        match arg {
            WorkloadArg::PingPong => Workload::PingPong,
            WorkloadArg::Forward => Workload::Forward,
        }
    }
}

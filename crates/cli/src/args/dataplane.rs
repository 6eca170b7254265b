//! `nearwire dataplane`, `nearwire generate`, `nearwire sink` and `nearwire forward`, and the traffic of generators.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearwire_dataplane::device::DeviceId;
use nearwire_dataplane::function::FunctionKind;
use nearwire_dataplane::topology::Topology;
use nearwire_dataplane::traffic::Sizes;
use nearwire_wire::MacAddress;

use super::CpuPair;
use super::values::{frame_rate, some_time};

/// What a generator sends.
#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// IP version of the frames
    #[arg(long, value_name = "4|6", default_value = "4")]
    pub ip: IpArg,
    /// Flows that frames belong to in turn: they differ in addresses and source port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub flows: u32,
    /// Put frames on this VLAN
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IpArg {
    #[value(name = "4")]
    V4,
    #[value(name = "6")]
    V6,
}

/// What sends or receives frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortArg {
    /// AF_XDP
    Xdp,
    /// AF_PACKET
    Packet,
}

/// Where a command may work: RFC 6815 keeps tests from networks that are in use.
const NOT_HERE: &str = "The interface is the test's alone: one with the default route is refused. Frames have the addresses that \
are set aside for benchmarks, 198.18.0.0/15 and 2001:2::/48 (RFC 2544, RFC 5180), and go to UDP port 7.";

/// Send numbered frames through a device under test
#[derive(Debug, Args)]
#[command(after_help = NOT_HERE)]
pub struct GenerateArgs {
    /// The interface to send by
    #[arg(value_name = "IFACE")]
    pub interface: String,
    /// Hardware address to send to: the router's, or that of the interface where `nearwire sink` runs
    #[arg(long, value_name = "MAC", required_unless_present = "sink")]
    pub to: Option<MacAddress>,
    /// Count here what comes back by this interface, with latencies; without it, run `nearwire sink` where the frames arrive
    #[arg(long, value_name = "IFACE")]
    pub sink: Option<String>,
    /// Frames a second, as in 100k or 1.5M; 'max': as many as it can
    #[arg(long, value_name = "N|max", default_value = "10k", value_parser = frame_rate)]
    pub rate: f64,
    /// Size of frames in bytes without FCS; a sequence as in 60+590+1514, 'imix', or letters of RFC 6985 as in genome:aaag
    /// [default: the shortest, 60 of IPv4 and 78 of IPv6]
    #[arg(long, value_name = "SIZES")]
    pub size: Option<Sizes>,
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = some_time)]
    pub time: Duration,
    /// What sends: AF_XDP, or AF_PACKET where a driver has trouble with that
    #[arg(long, value_name = "PORT", default_value = "xdp")]
    pub port: PortArg,
    /// CPU to spin on
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// With --sink: CPU for the sink, which takes turns with the generator otherwise
    #[arg(long, value_name = "CPU", requires = "sink")]
    pub sink_cpu: Option<u32>,
    /// Print no line a second on standard error
    #[arg(long)]
    pub quiet: bool,
}

/// Count the frames of `nearwire generate`: lost, doubled, reordered, corrupted, and how long they took
#[derive(Debug, Args)]
#[command(after_help = NOT_HERE)]
pub struct SinkArgs {
    /// The interface where the frames arrive
    #[arg(value_name = "IFACE")]
    pub interface: String,
    /// The generator runs on this host: tell latencies too, which need one clock
    #[arg(long)]
    pub same_host: bool,
    /// End after this long; without it, when the generator ends
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub time: Option<Duration>,
    /// What receives: AF_XDP, or AF_PACKET where a driver has trouble with that
    #[arg(long, value_name = "PORT", default_value = "xdp")]
    pub port: PortArg,
    /// CPU to spin on
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Print no line a second on standard error
    #[arg(long)]
    pub quiet: bool,
}

const DATAPLANE: &str = "`nearwire bench --topology TOPOLOGY` is the same command.\n\n\
A guest's kernel is vmlinux or vmlinuz in the directory that NEARWIRE_GUEST_KERNEL names, with its modules in lib/modules; \
crates/lab/emulated-host/fetch-kernel in Nearwire's source makes one. QEMU and busybox must be installed.";

/// Where `nearwire forward` may work, and what it takes.
const FORWARDS: &str = "Both interfaces are the command's alone: one with the default route is refused (RFC 6815), and the kernel gets none of \
their frames as long as it runs over AF_XDP. A router answers no ARP and sends no ICMP: it forwards by the routes and the neighbours that the \
kernel has when it begins. A bridge has no spanning tree: it tells of a loop, and does not break it.";

/// Forward frames between two interfaces: a device under test of its own, also inside a guest
#[derive(Debug, Args)]
#[command(after_help = FORWARDS)]
pub struct ForwardArgs {
    /// The interfaces
    #[arg(value_name = "IFACE", num_args = 2, required = true)]
    pub interfaces: Vec<String>,
    /// What becomes of frames: io (they leave as they came), mac-swap (with swapped addresses), l2 (a learning bridge), l3 (a router)
    #[arg(long, value_name = "FUNCTION", default_value = "l2")]
    pub function: FunctionKind,
    /// What receives and sends: AF_XDP, or AF_PACKET where a driver has trouble with that
    #[arg(long, value_name = "PORT", default_value = "xdp")]
    pub port: PortArg,
    /// CPU to spin on
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// End after this long; without it, Ctrl-C ends it
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub time: Option<Duration>,
    /// Print no line a second on standard error
    #[arg(long)]
    pub quiet: bool,
}

/// Measure what devices under test carry: frames a second, loss and latency, by the topologies of the OpenNFP deck
#[derive(Debug, Args)]
#[command(after_help = DATAPLANE)]
pub struct DataplaneArgs {
    /// What stands between generator and sink: port-port (a cable alone), port-host-port (a function in the host), port-vm-port (a guest of
    /// QEMU with two NICs; by KVM where /dev/kvm can be opened), port-host, host-port (a program on a host takes or sends datagrams), host-host
    /// (two programs on hosts, a function in the middle)
    #[arg(long, value_name = "TOPOLOGY")]
    pub topology: Topology,
    /// Devices under test, as function/engine: io, mac-swap, l2 and l3 of our forwarder over xdp and packet; l2/kernel is the
    /// kernel's bridge, l3/kernel its routing; in a guest guest-xdp, guest-packet and guest-kernel [default: l2/xdp,l2/kernel; of
    /// port-vm-port l2/guest-xdp,l2/guest-kernel]
    #[arg(long, value_name = "DEVICE,…", value_delimiter = ',')]
    pub device: Vec<DeviceId>,
    /// Sizes of frames in bytes without FCS, a cell each; a sequence as in 60+590+1514, 'imix', or letters of RFC 6985 as in
    /// genome:aaag [default: 64,128,256,512,1024,1280,1514]
    #[arg(long, value_name = "SIZES,…", value_delimiter = ',')]
    pub size: Vec<Sizes>,
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// How throughput is searched: mlrsearch (RFC 9971) for no loss (NDR) and half a per cent (PDR), or rfc2544
    #[arg(long, value_name = "METHOD", default_value = "mlrsearch")]
    pub method: MethodArg,
    /// Length of a trial [default: 50ms; of rfc2544 60s]
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub trial: Option<Duration>,
    /// mlrsearch: trials that decide over a rate, of which fewer than half may fail
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: u32,
    /// mlrsearch: how close the bounds of a rate are to be, per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = width)]
    pub width: f64,
    /// mlrsearch: one goal more, no loss above half a per cent and a percentile of latency, as in p99=50us
    #[arg(long, value_name = "pN=DURATION")]
    pub latency_goal: Option<LatencyGoal>,
    /// Two devices, one after the other
    #[arg(long)]
    pub dual: bool,
    /// CPUs of generator with sink, and of the device. Default: from this host's topology
    #[arg(long, value_name = "A,B")]
    pub cpus: Option<CpuPair>,
    /// CPU of the second device [default: one that no other part has, or the first's]
    #[arg(long, value_name = "CPU", requires = "dual")]
    pub second_cpu: Option<u32>,
    /// What generator and sink use
    #[arg(long, value_name = "PORT", default_value = "xdp")]
    pub port: PortArg,
    /// MTU of the virtual cables
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=9000))]
    pub mtu: u32,
    /// Write the record as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: DataplaneFormat,
    /// Print no notes on standard error
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    Mlrsearch,
    Rfc2544,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataplaneFormat {
    Table,
    Csv,
    Json,
}

/// `p99=50us`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyGoal {
    pub percentile: f64,
    pub at_most_ns: u64,
}

impl FromStr for LatencyGoal {
    type Err = String;

    fn from_str(text: &str) -> Result<LatencyGoal, String> {
        let wrong = || format!("'{text}' is no bound of latency; give a percentile and a time, as in p99=50us");
        let (percentile, time) = text.strip_prefix('p').and_then(|rest| rest.split_once('=')).ok_or_else(wrong)?;
        let percentile = percentile.parse().ok().filter(|percentile| (1.0..100.0).contains(percentile));
        let time = humantime::parse_duration(time).ok().filter(|time| !time.is_zero());
        match (percentile, time) {
            (Some(percentile), Some(time)) => Ok(LatencyGoal { percentile, at_most_ns: time.as_nanos() as u64 }),
            _ => Err(wrong()),
        }
    }
}

fn width(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.01..=50.0).contains(&percent) => Ok(percent),
        _ => Err("a number of per cent from 0.01 to 50 is needed, as in 2".to_owned()),
    }
}

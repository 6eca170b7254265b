//! `nearwire generate` and `nearwire sink`, and the traffic of generators.

use std::time::Duration;

use clap::{Args, ValueEnum};
use nearwire_dataplane::traffic::Sizes;
use nearwire_wire::MacAddress;

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

//! `nearwire port` and `nearwire capture`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
pub struct PortArgs {
    /// The interface [default: all but the loopback interface]
    #[arg(value_name = "IFACE")]
    pub interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The interface
    #[arg(value_name = "IFACE", required_unless_present = "pid", conflicts_with = "pid")]
    pub interface: Option<String>,
    /// Instead of an interface, a process that runs under `nearwire run`: the frames that its accelerated sockets receive
    /// and send, which a capture of the interface does not see. Frames that the kernel handles for it (loopback, sockets that
    /// are not accelerated) are not captured
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// With --pid, capture a process although it has a seccomp filter of its own. A filter that kills the process for
    /// memfd_create, ftruncate, fallocate, fcntl, fstat, mmap, munmap or flock kills it when the capture begins
    #[arg(long, requires = "pid")]
    pub despite_seccomp: bool,
    /// Where to write the frames, as pcapng
    #[arg(short, visible_short_alias = 'w', long, value_name = "FILE.pcapng")]
    pub output: PathBuf,
    /// End after this many frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this long; Ctrl-C ends a capture at any time, and the file is complete
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// Only UDP packets to this port, of one address or of all; may be given several times
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub udp: Vec<FlowArg>,
    /// Only TCP packets to this port, of one address or of all; may be given several times
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub tcp: Vec<FlowArg>,
    /// Only frames of this EtherType, behind up to two VLAN tags; may be given several times
    #[arg(long, value_name = "HEX", value_parser = ether_type)]
    pub ether_type: Vec<u16>,
    /// Leave out frames that this host sends
    #[arg(long)]
    pub inbound: bool,
    /// Keep this many bytes of each frame, from its start
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..))]
    pub snaplen: Option<u16>,
    /// Frames that may wait to be written, a power of two; frames that find no room are dropped and counted. With --pid,
    /// memory of 2 KiB for each: more short frames fit
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub ring: u32,
}

/// The destination of packets: a port of one address, or of every address of both IP versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowArg {
    pub addresses: Vec<IpAddr>,
    pub port: u16,
}

impl FromStr for FlowArg {
    type Err = String;

    fn from_str(text: &str) -> Result<FlowArg, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(FlowArg { addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()], port });
        }
        match text.parse::<SocketAddr>() {
            Ok(address) => Ok(FlowArg { addresses: vec![address.ip()], port: address.port() }),
            Err(_) => Err(format!("'{text}' is not a port like 7000, 192.0.2.1:7000 or [2001:db8::1]:7000")),
        }
    }
}

fn ether_type(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u16::from_str_radix(digits, 16).map_err(|_| format!("'{text}' is not an EtherType like 0x88b5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_typed_is_a_port_of_all_addresses_or_of_one() {
        assert_eq!("7000".parse::<FlowArg>().unwrap().addresses.len(), 2);
        let one = "[::1]:7".parse::<FlowArg>().unwrap();
        assert_eq!((one.addresses, one.port), (vec![Ipv6Addr::LOCALHOST.into()], 7));
        for wrong in ["", "70000", "host:1", "1.2.3.4"] {
            assert!(wrong.parse::<FlowArg>().unwrap_err().contains("is not a port"), "{wrong}");
        }
        assert_eq!(ether_type("0x88b5"), ether_type("88B5"));
        ether_type("x").unwrap_err();
    }
}

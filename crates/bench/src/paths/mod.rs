//! Paths: how an application reaches the wire. One file a path; the engine knows only the [`Path`] seam.
//!
//! Adding one: a file here, a row in [`ALL`], an arm in [`with_path`].

mod block;
mod busy_poll;
mod bypass;
mod epoll;
mod epoll_busy_poll;
mod frame;
mod frame_packet;
pub mod frame_xdp;
mod id;
mod socket;
mod spin;
mod tcp_bypass;
mod udp_bypass;
mod udp_sockets;

use std::net::IpAddr;

use nearwire_frames::PortError;
use nearwire_frames::fault::FaultConfig;
use nearwire_frames::ports::packet::PacketPort;
use nearwire_frames::ports::xdp::XdpPort;
use nearwire_wire::MacAddress;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, EndpointError};
use crate::workloads::AnyWorkload;
use frame::{Faulty, FramePath};
pub use frame_xdp::{AskedMode, XdpChoice};
pub use id::{ALL, How, PathId, UnknownPath, What};
use tcp_bypass::TcpBypassPath;
use udp_bypass::UdpBypassPath;
use udp_sockets::UdpSocketsPath;

/// How a frame path sends (`exanic_perf_test -T`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TxMode {
    /// Each frame is copied into the port and sent.
    Frame,
    /// A resident frame is patched and sent again.
    Prepared,
}

/// How a frame path receives (`exanic_perf_test -R`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RxMode {
    /// The frame is copied out of the port.
    Frame,
    /// The frame is looked at where it lies.
    InPlace,
}

impl TxMode {
    /// The word used on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TxMode::Frame => "frame",
            TxMode::Prepared => "prepared",
        }
    }
}

impl RxMode {
    /// The word used on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RxMode::Frame => "frame",
            RxMode::InPlace => "in-place",
        }
    }
}

/// Everything both ends must agree on for one cell. The initiator makes it and sends it to the responder: nothing is
/// ever set on one side only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Which path.
    pub path: PathId,
    /// Frame paths only.
    pub tx: TxMode,
    /// Frame paths only.
    pub rx: RxMode,
    /// Payload of `udp/…` and `tcp/…`, whole frame without FCS of frame paths.
    pub size_bytes: u32,
    /// 4 or 6; frame paths ignore it.
    pub ip_version: u8,
    /// How long the initiator waits for an answer.
    pub timeout_ns: u64,
    /// Busy-poll paths: how long a receive polls before it sleeps.
    pub busy_poll_us: u32,
    /// Busy-poll paths: packets in one poll.
    pub busy_poll_budget_packets: u16,
    /// Whether busy-poll paths attach a program that passes everything, which is what gives packets on veth a NAPI id.
    pub pass_program: bool,
    /// Marks this experiment's frames; others are ignored.
    pub token: u32,
    /// `frame/xdp`, `udp/bypass`, `tcp/bypass`: the layout of sockets and the mode of the program.
    pub xdp: Option<XdpChoice>,
    /// The same: the only mode that may be used.
    pub xdp_mode: Option<AskedMode>,
    /// The traffic pattern.
    pub workload: AnyWorkload,
    /// VLAN id of frame paths.
    pub vlan: Option<u16>,
    /// Faults around the initiator's port; frame paths, `udp/bypass` and `tcp/bypass` only.
    #[serde(with = "optional_text")]
    pub fault: Option<FaultConfig>,
    /// Seed of the faults.
    pub fault_seed: u64,
}

/// One end of the cable as its own process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalEnd {
    /// Which end.
    pub role: Role,
    /// Own addresses that the peer can reach, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// The peer's.
    pub peer_addresses: Vec<IpAddr>,
    /// Interface on the cable; none when frames cannot be sent here.
    pub interface: Option<EndInterface>,
    /// Interface of the second cable, for the forward workload.
    pub second_interface: Option<EndInterface>,
}

/// An interface on a cable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndInterface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    #[serde(with = "text")]
    pub mac: MacAddress,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Queues in each direction.
    pub queues: u32,
    /// Driver or link kind, as in `veth`.
    pub driver: String,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Stamps, sends first.
    Initiator,
    /// Answers.
    Responder,
}

impl LocalEnd {
    /// Own and peer's address of a family.
    fn addresses(&self, ip_version: u8) -> Result<(IpAddr, IpAddr), PathError> {
        let of = |addresses: &[IpAddr]| addresses.iter().copied().find(|a| a.is_ipv4() == (ip_version == 4));
        match (of(&self.addresses), of(&self.peer_addresses)) {
            (Some(own), Some(peer)) => Ok((own, peer)),
            _ => Err(PathError::NoAddress { ip_version }),
        }
    }

    fn interface(&self) -> Result<&EndInterface, PathError> {
        self.interface.as_ref().ok_or(PathError::NoInterface)
    }
}

/// What an open end tells its peer so that it can connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAddress {
    /// UDP or TCP port.
    pub port: Option<u16>,
    /// Hardware address that frames are to be sent to.
    #[serde(with = "optional_text")]
    pub mac: Option<MacAddress>,
}

/// A path at one end: opened first on both ends, then connected to the other.
///
/// Order: the responder opens and tells its address; the initiator opens and connects; the responder connects.
pub trait Path: Sized {
    /// What the workload then uses.
    type Endpoint: Endpoint;

    /// Makes sockets or ports.
    ///
    /// # Errors
    /// This host, end or size cannot do it.
    fn open(setup: &Setup, local: &LocalEnd) -> Result<Self, PathError>;

    /// What the peer needs to know.
    fn address(&self) -> EndAddress;

    /// Joins the peer.
    ///
    /// # Errors
    /// The peer could not be reached.
    fn connect(self, peer: &EndAddress) -> Result<Self::Endpoint, PathError>;
}

/// Something to do with a path that is only known at run time.
pub trait PathVisitor {
    /// What comes out.
    type Output;
    /// Does it, with the path's type known.
    fn visit<P: Path>(self) -> Self::Output;
}

/// Calls `visitor` with the type that implements `path`. `with_faults`: paths over a port get one that can have
/// faults; the kernel's sockets cannot, and ignore it.
pub fn with_path<V: PathVisitor>(path: PathId, with_faults: bool, visitor: V) -> V::Output {
    match path.how {
        How::Block => visitor.visit::<socket::SocketPath<block::Block>>(),
        How::Spin => visitor.visit::<socket::SocketPath<spin::Spin>>(),
        How::BusyPoll => visitor.visit::<socket::SocketPath<busy_poll::BusyPoll>>(),
        How::Epoll => visitor.visit::<socket::SocketPath<epoll::Epoll>>(),
        How::EpollBusyPoll => visitor.visit::<socket::SocketPath<epoll_busy_poll::EpollBusyPoll>>(),
        How::Packet if with_faults => visitor.visit::<FramePath<Faulty<PacketPort>>>(),
        How::Xdp if with_faults => visitor.visit::<FramePath<Faulty<XdpPort>>>(),
        How::Packet => visitor.visit::<FramePath<PacketPort>>(),
        How::Xdp => visitor.visit::<FramePath<XdpPort>>(),
        How::Bypass if path.what == What::Tcp && with_faults => visitor.visit::<TcpBypassPath<Faulty<XdpPort>>>(),
        How::Bypass if path.what == What::Tcp => visitor.visit::<TcpBypassPath<XdpPort>>(),
        How::Bypass if with_faults => visitor.visit::<UdpBypassPath<Faulty<XdpPort>>>(),
        How::Bypass => visitor.visit::<UdpBypassPath<XdpPort>>(),
        How::Sockets => visitor.visit::<UdpSocketsPath>(),
    }
}

/// Why a path could not be opened or connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The cable has no addresses of this family.
    #[error("IPv{ip_version} over this cable: one end has no IPv{ip_version} address; use the other family")]
    NoAddress {
        /// 4 or 6.
        ip_version: u8,
    },
    /// The end has no interface for frames.
    #[error("frames over this cable: this end has no Ethernet interface towards the other; use a udp or tcp path")]
    NoInterface,
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The peer did not say what is needed to reach it.
    #[error("the other end did not give its {missing}; both ends must be the same version of nearwire")]
    NoPeerAddress {
        /// What is missing.
        missing: &'static str,
    },
    /// The frame cannot be made.
    #[error("make a measuring frame: {source}")]
    Frame {
        /// What is wrong with it.
        source: nearwire_wire::measuring::WriteError,
    },
    /// The way that was measured as the fastest at the other end does not exist at this one.
    #[error(
        "open {interface} as '{label}': this end has no such way, it has: {known}; both ends must be the same version of \
         nearwire and have a way in common, which --xdp generic always is"
    )]
    UnknownWay {
        /// The label asked for.
        label: String,
        /// The interface.
        interface: String,
        /// Labels that this end has.
        known: String,
    },
    /// The mode that was asked for.
    #[error(
        "open {interface} in {mode} mode: driver {driver} does not have it, as the kernel says (or an attempt since the last \
         boot showed); take --xdp native or --xdp generic"
    )]
    NoSuchMode {
        /// The mode asked for.
        mode: AskedMode,
        /// The interface.
        interface: String,
        /// The interface's driver.
        driver: String,
    },
    /// The stack has no room for the address.
    #[error(transparent)]
    Bind(#[from] nearwire_stack::BindError),
    /// The stack cannot reach the peer.
    #[error(transparent)]
    Connect(#[from] nearwire_stack::ConnectError),
    /// The connection could not be taken from the kernel.
    #[error("carry the connection past the kernel: {0}; take tcp/spin, which is the kernel's")]
    Carry(#[from] nearwire_socket::tcp::CarryError),
    /// The socket stays with the kernel.
    #[error("accelerate the socket: {reason}; take udp/spin, which is the kernel's")]
    NotAccelerated {
        /// Why.
        reason: nearwire_socket::Reason,
    },
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An endpoint failed while connecting.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl PathError {
    /// For `map_err` after a system call.
    pub fn io<E: Into<std::io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> PathError {
        move |error| PathError::Io { doing: doing.into(), source: error.into() }
    }
}

/// For values that are written as people write them.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The same where there may be none.
mod optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::PingPong;

    /// What tests that look at something else leave as it is.
    pub(super) fn setup() -> Setup {
        Setup {
            path: PathId { what: What::Frame, how: How::Xdp },
            tx: TxMode::Frame,
            rx: RxMode::InPlace,
            size_bytes: 64,
            ip_version: 4,
            timeout_ns: 10_000_000,
            busy_poll_us: 0,
            busy_poll_budget_packets: 0,
            pass_program: false,
            token: 7,
            xdp: None,
            xdp_mode: None,
            workload: AnyWorkload::PingPong(PingPong {}),
            vlan: None,
            fault: None,
            fault_seed: 1,
        }
    }
}

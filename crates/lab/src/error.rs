//! What can go wrong with a cable.

use std::io;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A cable that could not be laid, used or taken up. The message says what was tried, on what,
/// what was found and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The kernel refused a new network namespace.
    #[error("create a network namespace: {source}; {}", privilege_advice(source))]
    CreateNamespace {
        /// `EPERM` without `CAP_SYS_ADMIN`, `ENOSPC` at `user.max_net_namespaces`.
        source: io::Error,
    },
    /// The kernel refused to move a thread into a namespace, or to let it come back.
    #[error("enter a network namespace: {source}; {}", entry_advice(source))]
    EnterNamespace {
        /// What setns(2) said.
        source: io::Error,
    },
    /// No netlink socket, or no answer on it.
    #[error("{action}: netlink: {source}")]
    NetlinkSocket {
        /// What the exchange was for.
        action: String,
        /// What the socket call said.
        source: io::Error,
    },
    /// The kernel refused a netlink request.
    #[error("{action}: {source}{}; {}", kernel_says(detail), request_advice(source))]
    Refused {
        /// What was tried, on what.
        action: String,
        /// The errno of the answer.
        source: io::Error,
        /// The kernel's own words (extended acknowledgement), or empty.
        detail: String,
    },
    /// A netlink answer that does not parse.
    #[error("{action}: the kernel's answer does not parse: {reason}; please report this")]
    Unintelligible {
        /// What the exchange was for.
        action: String,
        /// Where parsing stopped.
        reason: String,
    },
    /// No interface of that name in the namespace of the caller.
    #[error("interface {interface}: not found; existing interfaces: {}", list(existing))]
    MissingInterface {
        /// The name that was asked for.
        interface: String,
        /// The names there are.
        existing: Vec<String>,
    },
    /// Both ends of a loopback cable were given the same interface.
    #[error("loopback cable {interface}:{interface}: both ends are the same interface; name two")]
    SameInterface {
        /// The interface named twice.
        interface: String,
    },
    /// `lo` cannot be an end of a cable.
    #[error(
        "loopback cable: {interface} is the loopback interface, which leads to no wire; \
         name two network ports, or use the virtual cable"
    )]
    LoopbackInterface {
        /// The interface.
        interface: String,
    },
    /// Moving this interface would cut the host off.
    #[error(
        "loopback cable: {interface} carries the {family} default route (table {table}); moving \
         it would cut this host off; choose another interface or remove the route first"
    )]
    DefaultRoute {
        /// The interface.
        interface: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// Number of the routing table (254 is `main`).
        table: u32,
    },
    /// The interface belongs to a bridge, bond or the like.
    #[error(
        "loopback cable: {interface} is a port of {controller}; release it first \
         (ip link set {interface} nomaster)"
    )]
    Enslaved {
        /// The interface.
        interface: String,
        /// The bridge, bond, team or VRF that holds it.
        controller: String,
    },
    /// Someone's XDP program handles this interface's traffic.
    #[error(
        "loopback cable: {interface} has XDP program {program_id} attached; moving it would take \
         the traffic from that program; detach it first (bpftool net; \
         ip link set {interface} xdp off)"
    )]
    XdpAttached {
        /// The interface.
        interface: String,
        /// Kernel id of the program.
        program_id: u32,
    },
    /// The kernel does not let this interface change its namespace.
    #[error(
        "loopback cable: {interface} ({kind}) cannot change its network namespace (the driver \
         pins it); name a physical port instead"
    )]
    PinnedToNamespace {
        /// The interface.
        interface: String,
        /// Kind or driver, `unknown` when the kernel does not tell.
        kind: String,
    },
    /// Something about the interface would be lost by moving it.
    #[error(
        "loopback cable: {interface} {found}, which could not be put back after the measurement; \
         {advice}"
    )]
    NotRevertible {
        /// The interface.
        interface: String,
        /// What was found, as a verb phrase.
        found: String,
        /// What to do.
        advice: String,
    },
    /// An interface stays without carrier.
    #[error(
        "{interface}: no carrier {waited_ms} ms after it was brought up; check that a cable is \
         plugged in, that the other end is up, and that both ends agree on speed (ethtool \
         {interface})"
    )]
    NoCarrier {
        /// The interface.
        interface: String,
        /// How long it was given, in milliseconds.
        waited_ms: u64,
    },
    /// The kernel took an address but does not receive for it.
    #[error(
        "{interface}: the kernel does not deliver to {address} {waited_ms} ms after it was added; \
         is the machine overloaded? try again"
    )]
    AddressNotReady {
        /// The interface.
        interface: String,
        /// The address.
        address: IpAddr,
        /// How long it was given, in milliseconds.
        waited_ms: u64,
    },
    /// Both ends have carrier but no frame arrives.
    #[error(
        "loopback cable: frames from {near} did not reach {far} within {waited_ms} ms; connect \
         the two ports to each other, or to ports of one switch in the same VLAN"
    )]
    NotConnected {
        /// The sending interface.
        near: String,
        /// The interface that heard nothing.
        far: String,
        /// How long was tried, in milliseconds.
        waited_ms: u64,
    },
    /// A probe socket inside a cable failed.
    #[error("probe the cable between {near} and {far}: {source}")]
    Probe {
        /// The sending interface.
        near: String,
        /// The receiving interface.
        far: String,
        /// What the socket call said.
        source: io::Error,
    },
    /// No route to an address.
    #[error("find the interface towards {address}: {source}; add a route or check the address")]
    NoRoute {
        /// The address.
        address: IpAddr,
        /// `ENETUNREACH` or `EHOSTUNREACH`.
        source: io::Error,
    },
    /// An interface is back but not quite as it was, or is not back.
    #[error("put {interface} back as it was: {}", failures.join("; "))]
    PutBack {
        /// The interface.
        interface: String,
        /// Each thing that could not be restored and why.
        failures: Vec<String>,
    },
    /// The name of an interface was given to another one while it was away.
    #[error(
        "another interface has taken the name {interface}; it came back as {present}, down and \
         without addresses; free the name and rename it (ip link set {present} name {interface})"
    )]
    NameTaken {
        /// The name it had.
        interface: String,
        /// The name it has.
        present: String,
    },
    /// A first error, and a second while cleaning up after it.
    #[error("{first}; cleaning up after that also failed: {then}")]
    Twice {
        /// What went wrong first.
        first: Box<LabError>,
        /// What went wrong then.
        then: Box<LabError>,
    },
    /// An option of a cable is out of range.
    #[error("lay a virtual cable with {option} {value}: allowed is {allowed}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value that was asked for.
        value: u32,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A file of the kernel's settings could not be written.
    #[error("write {path}: {source}; run as root, with /proc/sys and /sys writable")]
    Write {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process that lends the interfaces of a loopback cable could not, or was lost.
    #[error("{why}")]
    Guardian {
        /// Whose turn it is.
        kind: LabErrorKind,
        /// In its own words, or what the connection to it said.
        why: String,
    },
}

/// Whose turn it is to do something about an error. Programs map it to their exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabErrorKind {
    /// What was asked for is not usable: name something else.
    UnusableInput,
    /// This host, or this user on it, cannot do it.
    HostCannot,
    /// It failed while being done.
    Failed,
}

impl LabError {
    /// Whether the input, the host or the moment is to blame.
    #[must_use]
    pub fn kind(&self) -> LabErrorKind {
        match self {
            Self::Twice { first, .. } => first.kind(),
            Self::Guardian { kind, .. } => *kind,
            Self::CreateNamespace { .. } | Self::EnterNamespace { .. } | Self::Write { .. } => LabErrorKind::HostCannot,
            Self::Refused { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied
                    || source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                LabErrorKind::HostCannot
            }
            Self::MissingInterface { .. }
            | Self::SameInterface { .. }
            | Self::LoopbackInterface { .. }
            | Self::DefaultRoute { .. }
            | Self::Enslaved { .. }
            | Self::XdpAttached { .. }
            | Self::PinnedToNamespace { .. }
            | Self::NotRevertible { .. }
            | Self::NoRoute { .. }
            | Self::Option { .. } => LabErrorKind::UnusableInput,
            Self::NetlinkSocket { .. }
            | Self::Refused { .. }
            | Self::Unintelligible { .. }
            | Self::NoCarrier { .. }
            | Self::AddressNotReady { .. }
            | Self::NotConnected { .. }
            | Self::Probe { .. }
            | Self::NameTaken { .. }
            | Self::PutBack { .. } => LabErrorKind::Failed,
        }
    }

    /// The errno of a refused netlink request.
    pub(crate) fn refused_errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

fn privilege_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => "it needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root, or in a user namespace",
        Some(libc::ENOSPC) => "raise the sysctl user.max_net_namespaces",
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        _ => "check that /proc is mounted and that the kernel has CONFIG_NET_NS",
    }
}

fn entry_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "it needs CAP_SYS_ADMIN there and here: run as root, or in a user namespace that has \
             a network namespace of its own (unshare --user --map-root-user --net)"
        }
        _ => privilege_advice(error),
    }
}

fn request_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "it needs CAP_NET_ADMIN: run as root",
        Some(libc::EOPNOTSUPP) => "this kernel lacks the feature",
        Some(libc::EBUSY) => "something else is using it",
        _ => "the kernel's log may say more (dmesg)",
    }
}

fn kernel_says(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

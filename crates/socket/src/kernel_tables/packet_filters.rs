//! What the kernel would do to packets on their way and does not do to those that bypass its stack: rules of nftables and
//! iptables, filters of traffic control, BPF programs of interfaces and control groups, IPsec policies.
//!
//! Only what could touch a datagram that a socket of this host sends or receives counts: chains at hooks that such datagrams pass,
//! with at least one rule or a policy that drops. Whether a rule fits a certain socket is not judged.
//!
//! All of it is asked by netlink, bpf(2) and getsockopt(2), in the network namespace of the calling thread. It takes milliseconds:
//! it is for commands, and not for what a program waits for.

mod groups_of_control;
mod interfaces;
mod iptables;
mod netlink;
mod nftables;
mod policies;

use std::fmt;
use std::io;

/// What would have touched packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketFilter {
    /// A base chain of nftables.
    Nftables {
        /// Family and name, as `nft list table` takes them.
        table: String,
        /// Its name.
        chain: String,
        /// Where packets come to it.
        hook: &'static str,
        /// How many rules it has.
        rules: u32,
        /// What no rule decides is dropped.
        drops: bool,
    },
    /// A chain of a table of the older iptables.
    Iptables {
        /// `iptables` or `ip6tables`.
        tool: &'static str,
        /// Its name.
        table: String,
        /// Its name.
        chain: &'static str,
        /// What no rule decides is dropped.
        drops: bool,
    },
    /// Filters of `tc filter` at a `clsact` or `ingress` discipline.
    TrafficControl {
        /// Its name.
        interface: String,
        /// `ingress` or `egress`.
        way: &'static str,
    },
    /// BPF programs attached to an interface by tcx.
    Tcx {
        /// Its name.
        interface: String,
        /// `ingress` or `egress`.
        way: &'static str,
        /// How many.
        programs: u32,
    },
    /// BPF programs of a control group.
    ControlGroup {
        /// Its path, as in `/proc/PID/cgroup`.
        group: String,
        /// What they are run for.
        hook: &'static str,
        /// How many.
        programs: u32,
    },
    /// IPsec policies.
    Policies {
        /// How many.
        count: u32,
    },
}

impl fmt::Display for PacketFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drop = |drops: &bool| if *drops { ", policy drop" } else { "" };
        let s = |count: &u32| if *count == 1 { "" } else { "s" };
        match self {
            Self::Nftables { table, chain, hook, rules, drops } => {
                write!(f, "nftables: chain {chain} of table {table} at {hook}: {rules} rule{}{}", s(rules), drop(drops))
            }
            Self::Iptables { tool, table, chain, drops } => {
                write!(f, "{tool}: chain {chain} of table {table} has rules{}", drop(drops))
            }
            Self::TrafficControl { interface, way } => write!(f, "tc: filters at the {way} of {interface}"),
            Self::Tcx { interface, way, programs } => {
                write!(f, "BPF (tcx): {programs} program{} at the {way} of {interface}", s(programs))
            }
            Self::ControlGroup { group, hook, programs } => {
                write!(f, "BPF of the control group {group}: {programs} program{} for {hook}", s(programs))
            }
            Self::Policies { count } => write!(f, "IPsec: {count} polic{}", if *count == 1 { "y" } else { "ies" }),
        }
    }
}

impl PacketFilter {
    /// One word for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Nftables { .. } => "nftables",
            Self::Iptables { .. } => "iptables",
            Self::TrafficControl { .. } => "tc",
            Self::Tcx { .. } => "tcx",
            Self::ControlGroup { .. } => "cgroup",
            Self::Policies { .. } => "ipsec",
        }
    }
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketFilters {
    /// What would have touched packets.
    pub found: Vec<PacketFilter>,
    /// What could not be asked, and why, in words.
    pub unknown: Vec<String>,
}

impl PacketFilters {
    /// Of the calling thread's network namespace, and of the control group of a process.
    #[must_use]
    pub fn read(pid: u32) -> PacketFilters {
        let mut all = PacketFilters::default();
        all.take("nftables", nftables::read());
        all.take("iptables", iptables::read());
        all.take("the filters of interfaces", interfaces::read());
        all.take("the programs of the control group", groups_of_control::read(pid));
        all.take("the policies of IPsec", policies::read());
        all
    }

    fn take(&mut self, what: &str, read: io::Result<Vec<PacketFilter>>) {
        match read {
            Ok(found) => self.found.extend(found),
            Err(error) => self.unknown.push(format!("{what} cannot be asked for: {error}")),
        }
    }
}

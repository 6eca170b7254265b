//! Why there is no plan.

use thiserror::Error;

use crate::CpuSet;

/// Why a request cannot be met on a host.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing says which CPUs are online.
    #[error(
        "no list of online CPUs: /sys/devices/system/cpu/online, the directories cpuN/topology beside it and the lines \
         of /proc/cpuinfo are all missing, and nothing can be planned without one of them"
    )]
    NoCpus,
    /// No interface of this name.
    #[error("no interface {interface} on this host; there are {}", list(existing))]
    UnknownInterface {
        /// The name.
        interface: String,
        /// The names there are.
        existing: Vec<String>,
    },
    /// No node of this number, or one without CPUs.
    #[error("{who}: node {node} has no online CPUs; nodes with CPUs: {}", list(existing))]
    UnknownNode {
        /// Who was to be there.
        who: String,
        /// The node.
        node: u32,
        /// The nodes that have CPUs.
        existing: Vec<u32>,
    },
    /// Two guests of one name.
    #[error("two guests are named {name}; give each a name of its own")]
    SameName {
        /// The name.
        name: String,
    },
    /// The node has fewer free CPUs than were asked for.
    #[error(
        "{who} needs {wanted_cpus} CPUs ({rule}), but {} has {free_cores} free cores with {} CPUs ({free}) of {cores} \
         cores with {cpus} CPUs; {advice}", place(*node), free.len()
    )]
    NotEnoughCpus {
        /// Who asked.
        who: String,
        /// How many CPUs were asked for.
        wanted_cpus: u32,
        /// How they are counted.
        rule: &'static str,
        /// Where; anywhere for `None`.
        node: Option<u32>,
        /// Cores there that nobody owns.
        free_cores: usize,
        /// Their CPUs.
        free: CpuSet,
        /// All cores there.
        cores: usize,
        /// Their CPUs.
        cpus: usize,
        /// What can be done.
        advice: &'static str,
    },
    /// The node has less memory than its guests need.
    #[error(
        "guests on node {node} need {wanted_mib} MiB, but it has {total_mib} MiB, of which {kept_mib} stay with the \
         OS; give them less, or put one on another node (--guest NAME:VCPUS:MEM@NODE)"
    )]
    NotEnoughMemory {
        /// The node.
        node: u32,
        /// What the guests need together.
        wanted_mib: u64,
        /// What the node has.
        total_mib: u64,
        /// What the OS keeps.
        kept_mib: u64,
    },
}

impl PlanError {
    /// Whether the request is wrong by itself, and not only too much for this host.
    #[must_use]
    pub fn is_request(&self) -> bool {
        matches!(self, Self::UnknownInterface { .. } | Self::UnknownNode { .. } | Self::SameName { .. })
    }
}

fn place(node: Option<u32>) -> String {
    node.map_or_else(|| "this host".to_owned(), |node| format!("node {node}"))
}

fn list<T: ToString>(names: &[T]) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

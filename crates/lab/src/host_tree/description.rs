//! The keys of a description.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A whole description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub machine: MachineKeys,
    pub kernel: KernelKeys,
    #[serde(default)]
    pub nic: Vec<NicKeys>,
    #[serde(default)]
    pub services: ServiceKeys,
    #[serde(default)]
    pub process: Vec<ProcessKeys>,
    /// Path and text of files that no key gives, or that differ from what the keys give.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Path and target of symbolic links.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// Files that the kernel shows and lets nobody write.
    #[serde(default)]
    pub read_only: BTreeMap<String, bool>,
    /// Paths this host does not have though its base does.
    #[serde(default)]
    pub absent: Vec<String>,
}

/// How CPUs are numbered over packages.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Numbering {
    /// All cores of a package, then those of the next.
    Block,
    /// One core of each package in turn: with two, one has the even and one the odd numbers.
    OddEven,
}

/// Where a core's further threads are numbered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Siblings {
    /// After the first threads of all cores: the sibling of n is n + cores.
    AfterAll,
    /// Next to each other: the sibling of 2n is 2n + 1.
    Adjacent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineKeys {
    pub vendor: String,
    pub product: String,
    pub packages: u32,
    pub cores_per_package: u32,
    pub threads_per_core: u32,
    pub numbering: Numbering,
    pub siblings: Siblings,
    /// The memory node of each package.
    pub package_nodes: Vec<u32>,
    /// Memory of each node; a node that no package names has no CPUs.
    pub node_memory_mib: Vec<u64>,
    /// Possible and present but not online.
    #[serde(default)]
    pub offline: Vec<u32>,
    pub cpu: CpuKeys,
    pub idle: IdleKeys,
    /// Memory modules; without it the firmware's tables are not there.
    pub modules: Option<ModuleKeys>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleKeys {
    pub slots: u32,
    pub filled: u32,
    pub rated_mts: u16,
    pub configured_mts: u16,
    pub configured_mv: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuKeys {
    pub model_name: String,
    pub family: u32,
    pub model: u32,
    pub stepping: u32,
    pub flags: String,
    /// What a core runs at while nothing is to be done.
    pub idle_khz: u64,
    pub min_khz: u64,
    pub base_khz: u64,
    pub max_khz: u64,
    pub scaling_driver: String,
    pub scaling_governor: String,
    /// Level 3 cache of each package.
    pub l3_kib: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdleKeys {
    pub driver: String,
    pub governor: String,
    pub states: Vec<IdleState>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdleState {
    pub name: String,
    pub exit_us: u32,
    pub residency_us: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelKeys {
    pub release: String,
    pub version: String,
    pub command_line: String,
    /// Lines of the configuration in `/boot`.
    pub config: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceKeys {
    #[serde(default)]
    pub installed: Vec<String>,
    #[serde(default)]
    pub enabled: Vec<String>,
    #[serde(default)]
    pub running: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessKeys {
    pub pid: u32,
    pub comm: String,
    /// Bound to this CPU; free to run on all without it.
    pub cpu: Option<u32>,
    #[serde(default)]
    pub is_kernel: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NicKeys {
    pub name: String,
    pub driver: String,
    /// Which of the device's ports, from 0; two interfaces may share a device.
    #[serde(default)]
    pub port: u32,
    /// `vendor:device`, hexadecimal.
    pub id: String,
    /// The functions from the root port to the device.
    pub pci: Vec<String>,
    /// -1: the firmware does not say.
    pub numa_node: i32,
    /// Where it is not the CPUs of the node, or all for -1.
    pub local_cpulist: Option<String>,
    /// Speed and width of the link of each function of `pci`, as it is and as it could be.
    pub links: Vec<LinkKeys>,
    pub max_payload_bytes: u32,
    pub max_read_request_bytes: u32,
    pub rx_queues: u32,
    pub tx_queues: u32,
    #[serde(default)]
    pub irqs: Vec<IrqKeys>,
    /// Virtual functions the device can have; none are made.
    pub vfs_max: Option<u32>,
    pub speed_mbps: u32,
    pub mtu_bytes: u32,
    /// What the kernel answers about it, by the words of `docs/snapshots.md`; what is left out the driver does not have.
    /// Without it there is no recording, so that everything which needs one is unknown.
    pub answers: Option<toml::Table>,
    /// The interface with the same answers.
    pub answers_of: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkKeys {
    pub speed: String,
    pub width: u32,
    pub max_speed: String,
    pub max_width: u32,
}

/// One interrupt, or several whose names count up in place of `{}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IrqKeys {
    pub first: u32,
    #[serde(default = "one")]
    pub count: u32,
    pub name: String,
    /// CPUs they may go to; the local ones without it.
    pub affinity: Option<String>,
    /// The CPU all of them go to; in turn over the affinity without it.
    pub effective: Option<u32>,
}

fn one() -> u32 {
    1
}

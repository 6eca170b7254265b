//! Which CPUs share what, and which two suit the two ends of a ping-pong.

mod choice;

use std::collections::BTreeMap;

use crate::{CpuSet, Root};

pub use choice::{CpuPair, choose_cpus};

/// One online CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The core's number, unique in its package only; `None` when the kernel does not say.
    pub core: Option<u32>,
    /// The package's number; `None` when the kernel does not say.
    pub package: Option<u32>,
    /// The CPUs of the same core, itself included.
    pub siblings: CpuSet,
    /// Whether the scheduler leaves it alone (`isolcpus=` or an isolated cpuset partition).
    pub is_isolated: bool,
    /// Its memory node; `None` when the kernel has no nodes.
    pub node: Option<u32>,
}

/// The online CPUs of a host, in order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
    not_copied: CpuSet,
}

impl Topology {
    /// Reads it from sysfs. What cannot be read is left out: a host whose list of online CPUs is
    /// missing has no CPUs here.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let list = |path: &str| -> CpuSet {
            let text = root.read(path).unwrap_or_default();
            CpuSet::from_list(&text).unwrap_or_default()
        };
        let online = list("/sys/devices/system/cpu/online");
        let isolated: CpuSet = list("/sys/devices/system/cpu/isolated")
            .iter()
            .chain(list("/sys/fs/cgroup/cpuset.cpus.isolated").iter())
            .collect();
        let nodes = nodes(root);
        let cpu = |id| {
            let topology = format!("/sys/devices/system/cpu/cpu{id}/topology");
            // The kernel gives -1 for what it does not know.
            let number = |file: &str| root.read(&format!("{topology}/{file}")).ok()?.parse().ok();
            let siblings = list(&format!("{topology}/thread_siblings_list"));
            Cpu {
                id,
                core: number("core_id"),
                package: number("physical_package_id"),
                siblings: siblings.iter().chain([id]).collect(),
                is_isolated: isolated.contains(id),
                node: nodes.get(&id).copied(),
            }
        };
        let not_copied = if root.is_whole() { CpuSet::default() } else { without_directory(root, &online) };
        Self { cpus: online.iter().map(cpu).collect(), not_copied }
    }

    /// A topology of known CPUs, for tests and for callers with other sources.
    #[must_use]
    pub fn of(mut cpus: Vec<Cpu>) -> Self {
        cpus.sort_by_key(|cpu| cpu.id);
        Self { cpus, not_copied: CpuSet::default() }
    }

    /// The online CPUs.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The online CPUs of a copy that has directories of others only: what is said of their core and
    /// siblings means nothing. `sos report` copies 64 CPUs, in the order of letters.
    #[must_use]
    pub fn not_copied(&self) -> &CpuSet {
        &self.not_copied
    }

    /// The CPU of this number, if it is online.
    #[must_use]
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        let at = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(at)
    }

    /// Whether two CPUs run on one physical core: the same CPU or its siblings.
    #[must_use]
    pub fn share_core(&self, a: u32, b: u32) -> bool {
        a == b || self.cpu(a).is_some_and(|cpu| cpu.siblings.contains(b))
    }
}

/// The CPUs without a directory, if some have one.
fn without_directory(root: &Root, online: &CpuSet) -> CpuSet {
    let has = |id: &u32| root.has(&format!("/sys/devices/system/cpu/cpu{id}"));
    let (with, without): (Vec<u32>, Vec<u32>) = online.iter().partition(has);
    if with.is_empty() { CpuSet::default() } else { without.into_iter().collect() }
}

/// The node of each CPU.
fn nodes(root: &Root) -> BTreeMap<u32, u32> {
    const NODES: &str = "/sys/devices/system/node";
    let mut node_of = BTreeMap::new();
    for name in root.list(NODES).unwrap_or_default() {
        let Some(node) = name.strip_prefix("node").and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let text = root.read(&format!("{NODES}/{name}/cpulist")).unwrap_or_default();
        let cpus = CpuSet::from_list(&text).unwrap_or_default();
        node_of.extend(cpus.iter().map(|cpu| (cpu, node)));
    }
    node_of
}

#[cfg(test)]
mod tests;

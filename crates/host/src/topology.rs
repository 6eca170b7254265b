//! Which CPUs share what, and which two suit the two ends of a ping-pong.

mod choice;
mod read;

use crate::{CpuSet, Root};

pub use choice::{CpuPair, choose_cpus};

/// One online CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The lowest CPU of its package, by the kernel's list of them. On s390 the package's own number
    /// is unique in its book only, and some firmware gives no number at all.
    pub package_first: Option<u32>,
    /// The lowest CPU of its book, and of its drawer, which hold packages of s390 and books; `None` elsewhere.
    pub book_first: Option<u32>,
    /// See `book_first`.
    pub drawer_first: Option<u32>,
    /// The lowest CPU under the same last-level cache; `None` when no cache is shared by several
    /// cores, or the kernel lists no caches.
    pub cache_first: Option<u32>,
    /// Whether another kind of core on this host is faster.
    pub is_slow: bool,
    /// How high the firmware ranks its core among those of the host, where cores of one kind reach different frequencies; the
    /// scale is the firmware's own. 0 where nothing ranks them.
    pub rank: u32,
}

/// The online CPUs of a host, in order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
    not_copied: CpuSet,
}

impl Topology {
    /// Reads it from sysfs. Where the list of online CPUs was not copied, the directories of the CPUs
    /// are counted, then the lines of `/proc/cpuinfo`.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        read::topology(root)
    }

    /// The CPUs that the scheduler leaves alone (`isolcpus=` or an isolated cpuset partition), without the rest.
    pub(crate) fn isolated(root: &Root) -> CpuSet {
        read::isolated(root)
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

    /// The CPUs that go offline when SMT is switched off: all but the first online one of each core.
    #[must_use]
    pub fn smt_siblings(&self) -> CpuSet {
        self.threads_beyond(1)
    }

    /// The online threads of each core but so many of the first ones, which the kernel keeps when it takes the others offline
    /// (`topology_is_primary_thread`, `include/linux/topology.h`).
    #[must_use]
    pub fn threads_beyond(&self, left: usize) -> CpuSet {
        let before =
            |cpu: &Cpu| cpu.siblings.iter().filter(|other| *other < cpu.id && self.cpu(*other).is_some()).count();
        self.cpus.iter().filter(|cpu| before(cpu) >= left).map(|cpu| cpu.id).collect()
    }

    /// Whether two CPUs run on one physical core: the same CPU or its siblings.
    #[must_use]
    pub fn share_core(&self, a: u32, b: u32) -> bool {
        a == b || self.cpu(a).is_some_and(|cpu| cpu.siblings.contains(b))
    }
}

#[cfg(test)]
mod tests;

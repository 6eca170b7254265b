//! The plan: which CPUs, NIC queues, interrupts and memory nodes belong to the OS, the interrupts,
//! the application, the pollers and the guests.
//!
//! [`HostFacts::read`] looks at a host, [`Request`] says what is wanted, [`Plan::make`] allocates.
//! A plan is data: it can be saved, read back, checked against a host ([`Plan::fits`]), and gives the
//! words and lines that carry it out ([`Plan::derived`]). It changes nothing itself.
//!
//! Rules, each with its reason in the plan itself:
//!
//! * no CPU has two owners ("CRITICAL - Do not use the same CPU for more than one task", `OpenNFP`
//!   deck, page 16);
//! * CPU 0's core stays with the OS;
//! * an application or interrupt CPU's hyperthread sibling is idle; pollers and guests get both
//!   siblings of a core, and nobody else does;
//! * the NIC's memory node is preferred, and `-1` is an unknown node, not node 0;
//! * an application's and interrupts' CPUs are of the fastest kind of cores and, as far as there are enough, under one
//!   last-level cache; of those the application gets the ones that the firmware ranks highest;
//! * CPU numbers mean nothing: which CPUs share a core, package or node is read, not computed.

mod allocate;
mod conclude;
mod derive;
mod error;
mod facts;
mod file;
mod floor;
mod guest;
mod nic;
mod request;
mod svg;
mod text;

use serde::{Deserialize, Serialize};

use crate::CpuSet;

pub use derive::{Derived, FileLine, GuestLines, Prefix};
pub use error::PlanError;
pub use facts::{HostFacts, IrqFacts, NicFacts, NodeFacts};
pub use file::PlanFileError;
pub use request::{GuestRequest, GuestRequestError, Request};

/// The `schema` of every plan.
pub const SCHEMA: &str = "nearwire-plan";
/// The version this program writes and reads. A new optional field keeps it; a changed meaning
/// raises it.
pub const VERSION: u32 = 1;

/// Who owns what on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// The CPUs the plan is about.
    pub host: PlannedHost,
    /// What was asked for, defaults filled in.
    pub asked: Asked,
    /// The owners. Every online CPU is in exactly one share.
    pub shares: Vec<Share>,
    /// The NICs, in the order they were named.
    pub nics: Vec<PlannedNic>,
    /// The guests, in the order they were named.
    pub guests: Vec<PlannedGuest>,
    /// What the reader should know beside the allocation, one sentence each.
    pub notes: Vec<String>,
}

/// The host as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedHost {
    /// The cores in order of their lowest CPU.
    pub cores: Vec<PlannedCore>,
    /// CPUs that were offline, or that the plan leaves to be taken offline with SMT: nobody's.
    pub offline: CpuSet,
    /// Memory nodes.
    pub nodes: Vec<PlannedNode>,
    /// Words that stand before the CPUs in `isolcpus=` of the running kernel: `managed_irq,domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolcpus_flags: Option<String>,
}

/// A physical core with its online CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCore {
    /// The online hyperthreads; one without hyper-threading.
    pub cpus: CpuSet,
    /// The package, if the kernel says.
    pub package: Option<u32>,
    /// The memory node, if the kernel has nodes.
    pub node: Option<u32>,
    /// The lowest CPU under the same last-level cache, if the kernel lists caches that cores share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_first: Option<u32>,
    /// The lowest CPU of the same book, and of the same drawer, which are what s390 has above packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub book_first: Option<u32>,
    /// See `book_first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawer_first: Option<u32>,
    /// Whether another kind of core on the host is faster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_slow: bool,
    /// How high the firmware ranks it among cores of one kind; 0 where nothing ranks them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rank: u32,
}

impl PlannedCore {
    /// Drawer, book and package: the numbers of packages repeat in each book.
    fn place(&self) -> (Option<u32>, Option<u32>, Option<u32>) {
        (self.drawer_first, self.book_first, self.package)
    }
}

fn is_zero(rank: &u32) -> bool {
    *rank == 0
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its number.
    pub node: u32,
    /// Its online CPUs; none for a node of memory only.
    pub cpus: CpuSet,
    /// Its memory, if known.
    pub memory_bytes: Option<u64>,
}

/// What a plan was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// CPUs for the application's latency-critical threads.
    pub app_cpus: u32,
    /// CPUs for interrupts on each node that has a NIC; 0: they go to the OS.
    pub irq_cpus: u32,
    /// CPUs for pollers: a DPDK dataplane, Open vSwitch PMD threads, virtio relays.
    pub poller_cpus: u32,
    /// CPUs for the OS; all that nobody asks for where it is absent.
    pub os_cpus: Option<u32>,
}

/// CPUs with one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Whose they are.
    #[serde(flatten)]
    pub owner: Owner,
    /// Which.
    pub cpus: CpuSet,
    /// Why these, in one sentence.
    pub why: String,
}

/// Who can own CPUs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "owner", rename_all = "kebab-case")]
pub enum Owner {
    /// The operating system and everything that is not named.
    Os,
    /// The NICs' interrupts.
    Irq,
    /// The application's latency-critical threads.
    App,
    /// Threads that poll queues for others.
    Poller,
    /// One guest's virtual CPUs.
    Guest {
        /// Its name.
        guest: String,
    },
    /// Nobody: a hyperthread beside a CPU that must not be slowed down.
    IdleSibling,
    /// Nobody yet: kept away from the OS, which got as many as were asked for.
    Spare,
}

impl Owner {
    /// The owner as tables and pictures print it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Os => "OS",
            Self::Irq => "interrupts",
            Self::App => "application",
            Self::Poller => "pollers",
            Self::Guest { guest } => guest,
            Self::IdleSibling => "idle siblings",
            Self::Spare => "spare",
        }
    }

    /// Whether the scheduler is to leave its CPUs alone. Not those of interrupts: the kernel and
    /// irqbalance keep interrupts away from isolated CPUs.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        !matches!(self, Self::Os | Self::Irq)
    }
}

/// A NIC: where it is and where its queues interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedNic {
    /// Name of the interface.
    pub interface: String,
    /// Its driver, if it has a device.
    pub driver: Option<String>,
    /// Its address on the bus.
    pub bus_address: Option<String>,
    /// The memory node it is on, if that is known.
    pub node: Option<u32>,
    /// The node whose CPUs and memory serve it.
    pub served_by_node: Option<u32>,
    /// Why that node, in one sentence.
    pub why: String,
    /// Why its interrupts go where they go, in one sentence.
    pub irq_why: String,
    /// Its interrupts, each to one CPU.
    pub irqs: Vec<PlannedIrq>,
}

/// An interrupt of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedIrq {
    /// The queue, if it is one's; others tell of link changes and errors.
    pub queue: Option<u32>,
    /// Its number, which changes when the driver makes its queues anew.
    pub irq: u32,
    /// Its name in `/proc/interrupts`; empty when the interface is down.
    pub name: String,
    /// The CPU it goes to.
    pub cpu: u32,
}

/// A guest: its virtual CPUs and memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedGuest {
    /// Its name.
    pub name: String,
    /// The CPU of each virtual CPU.
    pub vcpus: Vec<VcpuPin>,
    /// Virtual CPUs that share a core, as the guest should be told.
    pub threads_per_core: u32,
    /// CPUs for the threads that emulate its devices: the OS's.
    pub emulator_cpus: CpuSet,
    /// The node of its CPUs and memory, if the kernel has nodes.
    pub node: Option<u32>,
    /// Its memory.
    pub memory_bytes: u64,
    /// Size of the pages its memory is made of.
    pub page_bytes: u64,
    /// How many of them, all on the node.
    pub pages: u64,
    /// Why these pages, in one sentence.
    pub memory_why: String,
}

/// One virtual CPU on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuPin {
    /// Number in the guest.
    pub vcpu: u32,
    /// Number on the host.
    pub cpu: u32,
}

impl Plan {
    /// The CPUs of the OS.
    #[must_use]
    pub fn housekeeping(&self) -> CpuSet {
        self.cpus_where(|owner| *owner == Owner::Os)
    }

    /// The CPUs that the NICs' queues interrupt: their own, or some of the OS where they have none.
    #[must_use]
    pub fn irq(&self) -> CpuSet {
        let own = self.cpus_where(|owner| *owner == Owner::Irq);
        let targets = self.nics.iter().flat_map(|nic| &nic.irqs).filter(|irq| irq.queue.is_some());
        targets.map(|irq| irq.cpu).chain(own.iter()).collect()
    }

    /// The CPUs of the application.
    #[must_use]
    pub fn app(&self) -> CpuSet {
        self.cpus_where(|owner| *owner == Owner::App)
    }

    /// The CPUs of the pollers.
    #[must_use]
    pub fn poller(&self) -> CpuSet {
        self.cpus_where(|owner| *owner == Owner::Poller)
    }

    /// The CPUs that the scheduler is to leave alone: of the application, pollers and guests, and
    /// idle ones.
    #[must_use]
    pub fn isolated(&self) -> CpuSet {
        self.cpus_where(Owner::is_isolated)
    }

    /// The owner of a CPU, if it was online.
    #[must_use]
    pub fn owner(&self, cpu: u32) -> Option<&Owner> {
        self.shares.iter().find(|share| share.cpus.contains(cpu)).map(|share| &share.owner)
    }

    /// The memory node of a CPU.
    #[must_use]
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.host.cores.iter().find(|core| core.cpus.contains(cpu))?.node
    }

    fn cpus_where(&self, of: impl Fn(&Owner) -> bool) -> CpuSet {
        self.shares.iter().filter(|share| of(&share.owner)).flat_map(|share| share.cpus.iter()).collect()
    }
}

/// `CPU 1` or `CPUs 0,24`.
fn in_words(cpus: &CpuSet) -> String {
    format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
}

#[cfg(test)]
mod tests;

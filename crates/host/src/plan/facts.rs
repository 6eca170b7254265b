//! What a plan needs to know of a host.

use std::collections::BTreeMap;

use super::PlanError;
use crate::environment::is_interface;
use crate::read::Nic;
use crate::read::interrupts::{handler, irq_names, printable, queue_of};
use crate::setting::NicFact;
use crate::topology::Topology;
use crate::{CpuSet, Reading, Root, interfaces};

const NODES: &str = "/sys/devices/system/node";
const INTERFACES: &str = "/sys/class/net";

/// A host as plans see it. All fields are open so that a test can describe a host directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The online CPUs.
    pub topology: Topology,
    /// The offline ones.
    pub offline: CpuSet,
    /// Memory nodes by number; empty when the kernel has none.
    pub nodes: BTreeMap<u32, NodeFacts>,
    /// The NICs that were asked about, in that order.
    pub nics: Vec<NicFacts>,
    /// Sizes of huge pages the processor has, bytes, ascending.
    pub page_bytes: Vec<u64>,
    /// Whether the kernel knows `nohz_full=`; `None` where a copy does not say.
    pub has_nohz_full: Option<bool>,
    /// The command line of the running kernel, if it is known.
    pub command_line: Option<String>,
}

/// A memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its memory, if known.
    pub memory_bytes: Option<u64>,
    /// Distance to each node, as the firmware gives it: 10 is itself.
    pub distances: Vec<u32>,
}

/// A NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicFacts {
    /// Name of the interface.
    pub interface: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Its address on the bus.
    pub bus_address: Option<String>,
    /// Its memory node; `None` when the firmware does not say, which the kernel prints as -1.
    pub node: Option<u32>,
    /// What a bridge above it says of its own node, where the device does not.
    pub upstream_node: Option<u32>,
    /// The CPUs the kernel calls local to it.
    pub local_cpus: CpuSet,
    /// Its interrupts.
    pub irqs: Vec<IrqFacts>,
    /// A copy of the host has nothing of it but what `/proc/interrupts` names.
    pub is_not_copied: bool,
}

/// An interrupt of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IrqFacts {
    /// Its number.
    pub irq: u32,
    /// Its name in `/proc/interrupts`; empty when no driver has asked for it.
    pub name: String,
    /// The queue it is for, by its name.
    pub queue: Option<u32>,
}

impl HostFacts {
    /// Reads them.
    ///
    /// # Errors
    /// Nothing says which CPUs are online, or one of the interfaces is not there.
    pub fn read(root: &Root, nics: &[String]) -> Result<Self, PlanError> {
        let topology = Topology::read(root);
        if topology.cpus().is_empty() {
            return Err(PlanError::NoCpus);
        }
        // A copy without interfaces cannot tell a wrong name from a right one.
        let are_known = root.is_live() || root.list(INTERFACES).is_ok();
        let is_known = |nic: &str| is_interface(root, nic) || root.has(&format!("{INTERFACES}/{nic}"));
        if let Some(unknown) = nics.iter().find(|nic| are_known && !is_known(nic)) {
            let existing = interfaces(root).unwrap_or_default();
            return Err(PlanError::UnknownInterface { interface: unknown.clone(), existing });
        }
        let offline = root.read("/sys/devices/system/cpu/offline").unwrap_or_default();
        // The file goes up to the highest number the kernel could have; present CPUs are what is meant.
        let present = root.read("/sys/devices/system/cpu/present").ok().and_then(|text| CpuSet::from_list(&text).ok());
        let is_present = |cpu: &u32| present.as_ref().is_none_or(|present| present.contains(*cpu));
        let names = irq_names(&root.read("/proc/interrupts").unwrap_or_default());
        Ok(Self {
            topology,
            offline: CpuSet::from_list(&offline).unwrap_or_default().iter().filter(is_present).collect(),
            nodes: nodes(root),
            nics: nics.iter().map(|name| nic(root, name, &names)).collect(),
            command_line: root.read("/proc/cmdline").ok(),
            page_bytes: page_sizes(root),
            has_nohz_full: match root.read("/sys/devices/system/cpu/nohz_full") {
                Ok(_) => Some(true),
                Err(Reading::Unsupported) => Some(false),
                Err(_) => None,
            },
        })
    }
}

fn nodes(root: &Root) -> BTreeMap<u32, NodeFacts> {
    let names = root.list(NODES).unwrap_or_default();
    let numbered = names.into_iter().filter_map(|name| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        let meminfo = root.read(&format!("{NODES}/{name}/meminfo")).unwrap_or_default();
        let total = meminfo.lines().find_map(|line| line.split_once("MemTotal:")?.1.split_whitespace().next());
        let distances = root.read(&format!("{NODES}/{name}/distance")).unwrap_or_default();
        let facts = NodeFacts {
            memory_bytes: total.and_then(|kb| kb.parse::<u64>().ok()?.checked_mul(1024)),
            distances: distances.split_whitespace().map_while(|distance| distance.parse().ok()).collect(),
        };
        Some((node, facts))
    });
    numbered.collect()
}

fn page_sizes(root: &Root) -> Vec<u64> {
    let pools = root.list(&format!("{NODES}/node0/hugepages")).or_else(|_| root.list("/sys/kernel/mm/hugepages"));
    let size = |pool: String| {
        let kb: u64 = pool.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        kb.checked_mul(1024).filter(|bytes| *bytes > 0)
    };
    let mut sizes: Vec<u64> = pools.unwrap_or_default().into_iter().filter_map(size).collect();
    sizes.sort_unstable();
    sizes
}

fn nic(root: &Root, name: &str, irq_names: &BTreeMap<u32, String>) -> NicFacts {
    let nic = Nic::open(root, name);
    let value = |fact| match nic.read(fact) {
        Reading::Value(value) => Some(printable(&value)),
        _ => None,
    };
    let number = |text: String| text.parse::<u32>().ok();
    let upstream = nic.pci_path().unwrap_or_default().into_iter().rev().skip(1);
    let mut upstream_nodes =
        upstream.filter_map(|(_, directory)| number(root.read(&format!("{directory}/numa_node")).ok()?));
    let local_cpus = value(NicFact::Device("local_cpulist")).unwrap_or_default();
    let bus_address = value(NicFact::BusInfo);
    let irqs = nic.own_or_named_irqs().unwrap_or_default().into_iter().map(|irq| {
        let name = irq_names.get(&irq).cloned().or_else(|| handler(root, irq)).unwrap_or_default();
        IrqFacts { irq, queue: queue_of(&name), name }
    });
    NicFacts {
        interface: name.to_owned(),
        driver: value(NicFact::Driver),
        is_not_copied: bus_address.is_none() && !is_interface(root, name),
        bus_address,
        // The kernel's -1 is no u32.
        node: value(NicFact::Device("numa_node")).and_then(number),
        upstream_node: upstream_nodes.next(),
        local_cpus: CpuSet::from_list(&local_cpus).unwrap_or_default(),
        irqs: irqs.collect(),
    }
}

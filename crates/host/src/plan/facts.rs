//! What a plan needs to know of a host.

use std::collections::BTreeMap;

use super::PlanError;
use crate::read::Nic;
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
        let is_copied = |nic: &str| root.has(&format!("/sys/class/net/{nic}/ifindex"));
        // A copy without interfaces cannot tell a wrong name from a right one.
        let are_known = root.is_live() || root.list(INTERFACES).is_ok();
        if let Some(unknown) =
            nics.iter().find(|nic| are_known && !is_copied(nic) && !root.has(&format!("{INTERFACES}/{nic}")))
        {
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
    let mut irqs = nic.irqs().unwrap_or_default();
    if irqs.is_empty() && !root.is_live() {
        // Copies lack the directory of the device's interrupts more often than the table of all.
        irqs = named_for(name, bus_address.as_deref(), irq_names);
    }
    let irqs = irqs.into_iter().map(|irq| {
        let name = irq_names.get(&irq).cloned().or_else(|| handler(root, irq)).unwrap_or_default();
        IrqFacts { irq, queue: queue_of(&name), name }
    });
    NicFacts {
        interface: name.to_owned(),
        driver: value(NicFact::Driver),
        bus_address,
        is_not_copied: !root.has(&format!("{INTERFACES}/{name}/ifindex")),
        // The kernel's -1 is no u32.
        node: value(NicFact::Device("numa_node")).and_then(number),
        upstream_node: upstream_nodes.next(),
        local_cpus: CpuSet::from_list(&local_cpus).unwrap_or_default(),
        irqs: irqs.collect(),
    }
}

/// The name by the directory that the kernel makes for who handles the interrupt (`register_handler_proc` of
/// `kernel/irq/proc.c`): the table of all is longer than is read where there are many CPUs and interrupts.
fn handler(root: &Root, irq: u32) -> Option<String> {
    const FILES: [&str; 7] = [
        "affinity_hint",
        "effective_affinity",
        "effective_affinity_list",
        "node",
        "smp_affinity",
        "smp_affinity_list",
        "spurious",
    ];
    let names = root.list(&format!("/proc/irq/{irq}")).ok()?;
    names.iter().find(|name| !FILES.contains(&name.as_str())).map(|name| printable(name))
}

/// The interrupts whose names have the interface or its device's address in them, as a word of its own.
fn named_for(interface: &str, bus_address: Option<&str>, irq_names: &BTreeMap<u32, String>) -> Vec<u32> {
    let is_word = |name: &str, word: &str| {
        let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
        name.match_indices(word).any(|(at, found)| {
            is_edge(name[..at].chars().next_back()) && is_edge(name[at + found.len()..].chars().next())
        })
    };
    let words: Vec<&str> =
        [Some(interface), bus_address].into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let is_its = |name: &String| words.iter().any(|word| is_word(name, word));
    irq_names.iter().filter(|(_, name)| is_its(name)).map(|(irq, _)| *irq).collect()
}

/// A tree may come from a stranger, and this goes to a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// The name at the end of each numbered line. A shared interrupt has several; the last will do.
fn irq_names(interrupts: &str) -> BTreeMap<u32, String> {
    let mut lines = interrupts.lines();
    let columns = lines.next().unwrap_or_default().split_whitespace().count();
    let named = lines.filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        // The counts, the chip and its number of the interrupt come before the names.
        let name = rest.split_whitespace().skip(columns + 1).last()?;
        Some((number.trim().parse().ok()?, printable(name)))
    });
    named.collect()
}

/// The queue in an interrupt's name as drivers give it: `eth0-TxRx-3`, `eth0-rx-3`, `mlx4-3@0000:05:00.0`,
/// `mlx5_comp3@pci:0000:05:00.0`, `virtio0-input.3`, `gve-ntfy-blk3`. Names without a number behind
/// such a mark, and those of mailboxes, are of no queue.
fn queue_of(name: &str) -> Option<u32> {
    const OTHERS: [&str; 9] = ["async", "config", "control", "misc", "mbox", "mgmnt", "fdir", "event", "aeq"];
    let own = name.split('@').next().unwrap_or_default();
    if OTHERS.iter().any(|word| own.contains(word)) {
        return None;
    }
    let before = own.trim_end_matches(|c: char| c.is_ascii_digit());
    const MARKS: [&str; 8] = ["-", ".", "comp", "blk", "-rx", "-tx", "TxRx", "_q"];
    let is_marked = MARKS.iter().any(|mark| before.ends_with(mark));
    is_marked.then(|| own[before.len()..].parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_found_in_names_of_many_drivers() {
        let names = [
            ("enp5s0np0-rxtx-3", Some(3)),
            ("eth0-TxRx-11", Some(11)),
            ("i40e-eth0-TxRx-2", Some(2)),
            ("mlx4-5@0000:05:00.0", Some(5)),
            ("mlx5_comp7@pci:0000:05:00.0", Some(7)),
            ("virtio0-input.1", Some(1)),
            ("eth0-Tx-Rx-0", Some(0)),
            ("gve-ntfy-blk4@pci:0000:00:04.0", Some(4)),
            ("ibmvnic-30000003-rx2", Some(2)),
            ("mana_q5@pci:7870:00:00.0", Some(5)),
            ("mlx5_async0@pci:0000:05:00.0", None),
            ("mlx4-async@pci:0000:05:00.0", None),
            ("i40e-0000:3b:00.0:fdir-TxRx-0", None),
            ("ice-0000:3b:00.0:misc", None),
            ("virtio0-config", None),
            ("eth0", None),
            ("exanic0", None),
            ("", None),
        ];
        for (name, queue) in names {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn interrupt_table_read_names_each() {
        let table = "           CPU0       CPU1\n  0:         42          0 IO-APIC   2-edge      timer\n \
                     66:          0          9 IR-PCI-MSIX-0000:05:00.0    2-edge      eth0-rx-0\n\
                     67:          0          0 PCI-MSIX\nLOC: 5 5 Local timer interrupts\n";
        let names = irq_names(table);
        assert_eq!(names.get(&66).map(String::as_str), Some("eth0-rx-0"));
        assert_eq!(names.get(&0).map(String::as_str), Some("timer"));
        assert_eq!(names.len(), 2);
    }
}

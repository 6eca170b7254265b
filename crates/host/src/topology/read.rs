//! Reading which CPUs there are and what they share.
//!
//! Sources: `Documentation/admin-guide/cputopology.rst`, `Documentation/ABI/stable/sysfs-devices-node`,
//! `drivers/base/arch_topology.c` (`cpu_capacity`), `arch/x86/events/core.c` (`cpu_core`, `cpu_atom`),
//! `Documentation/admin-guide/pm/amd-pstate.rst` (preferred cores), `Documentation/admin-guide/acpi/cppc_sysfs.rst` of Linux
//! 6.18.

use std::collections::BTreeMap;

use super::{Cpu, Topology};
use crate::{CpuSet, Root};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
/// Cores whose capacity is at least this part of the largest are of the fast kind: cores of one kind
/// differ by a few percent where the firmware prefers some of them.
const FAST_PART: (u32, u32) = (4, 5);
/// Units that count events of one kind of x86 core each, the fast kind first.
const CORE_KINDS: [&str; 3] = ["/sys/devices/cpu_core", "/sys/devices/cpu_atom", "/sys/devices/cpu_lowpower"];
/// Where some vendors' kernels list the CPUs of each kind, and how the fast kind is called there.
const TYPES: &str = "/sys/devices/system/cpu/types";
const FAST_TYPE: &str = "intel_core";
/// Files of a CPU that rank its core, the one that follows heat and age first. The scale is not one of speed: of two cores that
/// differ by 5 % in frequency one may have 166 and the other 236.
const RANKS: [&str; 4] =
    ["cpufreq/amd_pstate_prefcore_ranking", "cpufreq/amd_pstate_highest_perf", "cpu_capacity", ASKED_RANK];
/// The kernel asks the CPU itself for this one, which interrupts it: it is not read where there are many.
const ASKED_RANK: &str = "acpi_cppc/highest_perf";
const ASKED_CPUS_MAX: usize = 64;
/// What `sos report` keeps of `lscpu`.
const LSCPU: &str = "/sos_commands/processor/lscpu";

pub(super) fn topology(root: &Root) -> Topology {
    let online = online(root);
    let isolated = isolated(root);
    let nodes = nodes(root, &online);
    let slow = slow(root, &online);
    let ranks = ranks(root, &online);
    // Only s390 has books; elsewhere no CPU is asked for its own.
    let has_books = online.iter().next().is_some_and(|id| root.has(&format!("{CPUS}/cpu{id}/topology/book_id")));
    let cpu = |id| {
        let topology = format!("{CPUS}/cpu{id}/topology");
        // The kernel gives -1 for what it does not know.
        let number = |file: &str| root.read(&format!("{topology}/{file}")).ok()?.parse().ok();
        // Each list had another name until Linux 5.5, and is a mask where only that was copied.
        let set = |names: [&str; 2]| {
            let lists = names.iter().find_map(|name| self::list(root, &format!("{topology}/{name}_list")));
            lists.or_else(|| names.iter().find_map(|name| mask(root, &format!("{topology}/{name}"))))
        };
        let first = |names| set(names).and_then(|cpus: CpuSet| cpus.iter().next());
        let siblings: CpuSet = set(["core_cpus", "thread_siblings"]).unwrap_or_default().iter().chain([id]).collect();
        Cpu {
            id,
            core: number("core_id"),
            package: number("physical_package_id"),
            package_first: first(["package_cpus", "core_siblings"]),
            book_first: if has_books { first(["book_cpus", "book_siblings"]) } else { None },
            drawer_first: if has_books { first(["drawer_cpus", "drawer_siblings"]) } else { None },
            cache_first: cache_first(root, id, &siblings),
            is_isolated: isolated.contains(id),
            is_slow: slow.contains(id),
            rank: ranks.get(&id).copied().unwrap_or(0),
            node: nodes.get(&id).copied(),
            siblings,
        }
    };
    let not_copied = if root.is_whole() { CpuSet::default() } else { without_directory(root, &online) };
    Topology { cpus: online.iter().map(cpu).collect(), not_copied }
}

/// The CPUs that the scheduler leaves alone, by either way.
pub(super) fn isolated(root: &Root) -> CpuSet {
    let ways = [format!("{CPUS}/isolated"), "/sys/fs/cgroup/cpuset.cpus.isolated".to_owned()];
    ways.iter().flat_map(|path| list(root, path).unwrap_or_default().iter().collect::<Vec<_>>()).collect()
}

/// A list of CPUs in a file; `None` where the file is missing or odd.
fn list(root: &Root, path: &str) -> Option<CpuSet> {
    CpuSet::from_list(&root.read(path).ok()?).ok()
}

fn mask(root: &Root, path: &str) -> Option<CpuSet> {
    CpuSet::from_mask(&root.read(path).ok()?).ok()
}

/// The online CPUs, by whichever file tells.
fn online(root: &Root) -> CpuSet {
    let ways: [fn(&Root) -> Option<CpuSet>; 4] = [
        |root| list(root, &format!("{CPUS}/online")),
        with_topology,
        in_cpuinfo,
        |root| CpuSet::from_list(&lscpu(root, "On-line CPU(s) list")?).ok(),
    ];
    ways.into_iter().find_map(|way| way(root).filter(|cpus| !cpus.is_empty())).unwrap_or_default()
}

/// The kernel takes the directory `topology` of a CPU away while it is offline (`topology_remove_dev` of
/// `drivers/base/topology.c`); a copy of an older kernel's files says it in `online`.
fn with_topology(root: &Root) -> Option<CpuSet> {
    let names = root.list(CPUS).ok()?;
    let numbers = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
    let is_online = |id: &u32| {
        let is_off = root.read(&format!("{CPUS}/cpu{id}/online")).is_ok_and(|text| text == "0");
        !is_off && root.has(&format!("{CPUS}/cpu{id}/topology"))
    };
    Some(numbers.filter(is_online).collect())
}

/// `processor : 3`, and on s390 `processor 3: version = ...`.
fn in_cpuinfo(root: &Root) -> Option<CpuSet> {
    let text = root.read("/proc/cpuinfo").ok()?;
    let number = |line: &str| {
        let (name, value) = line.strip_prefix("processor")?.split_once(':')?;
        let name = name.trim();
        if name.is_empty() { value.trim().parse().ok() } else { name.parse().ok() }
    };
    // A text from a stranger must not fill the memory; `CpuSet` refuses such numbers in lists.
    let cpus: Vec<u32> = text.lines().filter_map(number).collect();
    CpuSet::from_list(&cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")).ok()
}

/// A field of the output of `lscpu`, as far as `sos report` kept it.
fn lscpu(root: &Root, field: &str) -> Option<String> {
    let text = root.read(LSCPU).ok()?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = fields.filter(|(name, _)| name.trim() == field).map(|(_, value)| value.trim().to_owned());
    values.next()
}

/// The lowest CPU under the last-level cache of a CPU, if several cores share that.
fn cache_first(root: &Root, id: u32, siblings: &CpuSet) -> Option<u32> {
    let caches = format!("{CPUS}/cpu{id}/cache");
    let indices = root.list(&caches).ok()?;
    let level = |index: &String| {
        let level = root.read(&format!("{caches}/{index}/level")).ok()?;
        Some((level.parse::<u32>().ok()?, index.clone()))
    };
    let (_, last) = indices.iter().filter(|name| name.starts_with("index")).filter_map(level).max()?;
    let shared = list(root, &format!("{caches}/{last}/shared_cpu_list"))
        .or_else(|| mask(root, &format!("{caches}/{last}/shared_cpu_map")))?;
    let is_shared = shared.iter().any(|cpu| !siblings.contains(cpu));
    if is_shared { shared.iter().next() } else { None }
}

/// The CPUs of slower kinds of cores, by the capacity that the scheduler counts with, else by the units that count
/// events of each kind.
fn slow(root: &Root, online: &CpuSet) -> CpuSet {
    let capacity = |id: u32| Some((id, root.read(&format!("{CPUS}/cpu{id}/cpu_capacity")).ok()?.parse::<u32>().ok()?));
    let capacities: Vec<(u32, u32)> = online.iter().filter_map(capacity).collect();
    let largest = capacities.iter().map(|(_, capacity)| *capacity).max().unwrap_or(0);
    let (part, whole) = FAST_PART;
    let is_slow = |capacity: u32| u64::from(capacity) * u64::from(whole) < u64::from(largest) * u64::from(part);
    let by_capacity: CpuSet =
        capacities.into_iter().filter(|(_, capacity)| is_slow(*capacity)).map(|(id, _)| id).collect();
    if !by_capacity.is_empty() {
        return by_capacity;
    }
    let mut kinds = CORE_KINDS.map(|unit| list(root, &format!("{unit}/cpus")).unwrap_or_default()).to_vec();
    if kinds.iter().all(CpuSet::is_empty) {
        kinds = types(root);
    }
    let mut kinds = kinds.into_iter().filter(|cpus| !cpus.is_empty());
    // With one kind online none is slower than another.
    let fastest = kinds.next().unwrap_or_default();
    kinds.flat_map(|cpus| cpus.iter().collect::<Vec<_>>()).filter(|cpu| !fastest.contains(*cpu)).collect()
}

/// The CPUs of each kind that is listed, the fast kind first.
fn types(root: &Root) -> Vec<CpuSet> {
    let mut names = root.list(TYPES).unwrap_or_default();
    names.sort_by_key(|name| !name.starts_with(FAST_TYPE));
    names.iter().filter_map(|name| list(root, &format!("{TYPES}/{name}/cpulist"))).collect()
}

/// The rank of each CPU by the first file that CPUs have, if it differs among them.
fn ranks(root: &Root, online: &CpuSet) -> BTreeMap<u32, u32> {
    let rank = |id: u32, file: &str| root.read(&format!("{CPUS}/cpu{id}/{file}")).ok()?.parse::<u32>().ok();
    let Some(first) = online.iter().next() else { return BTreeMap::new() };
    let is_few = !root.is_live() || online.len() <= ASKED_CPUS_MAX;
    let mut files = RANKS.into_iter().filter(|file| is_few || *file != ASKED_RANK);
    let Some(file) = files.find(|file| rank(first, file).is_some()) else { return BTreeMap::new() };
    let ranks: BTreeMap<u32, u32> = online.iter().filter_map(|id| Some((id, rank(id, file)?))).collect();
    let lowest = ranks.values().min();
    if lowest == ranks.values().max() { BTreeMap::new() } else { ranks }
}

/// The CPUs without a directory, if some have one.
fn without_directory(root: &Root, online: &CpuSet) -> CpuSet {
    let has = |id: &u32| root.has(&format!("{CPUS}/cpu{id}"));
    let (with, without): (Vec<u32>, Vec<u32>) = online.iter().partition(has);
    if with.is_empty() { CpuSet::default() } else { without.into_iter().collect() }
}

/// The node of each CPU: by the node's list or mask, else by the link in the CPU's directory, else by `lscpu`.
fn nodes(root: &Root, online: &CpuSet) -> BTreeMap<u32, u32> {
    let mut node_of = BTreeMap::new();
    for node in node_numbers(root) {
        let directory = format!("{NODES}/node{node}");
        let cpus = list(root, &format!("{directory}/cpulist")).or_else(|| mask(root, &format!("{directory}/cpumap")));
        node_of.extend(cpus.unwrap_or_default().iter().map(|cpu| (cpu, node)));
    }
    if node_of.is_empty() {
        node_of.extend(online.iter().filter_map(|cpu| Some((cpu, linked_node(root, cpu)?))));
    }
    if node_of.is_empty() {
        let text = root.read(LSCPU).unwrap_or_default();
        for (field, cpus) in text.lines().filter_map(|line| line.split_once(':')) {
            let node = field.trim().strip_prefix("NUMA node").and_then(|rest| rest.strip_suffix(" CPU(s)"));
            let Some(node) = node.and_then(|node| node.parse::<u32>().ok()) else { continue };
            let cpus = CpuSet::from_list(cpus).unwrap_or_default();
            node_of.extend(cpus.iter().map(|cpu| (cpu, node)));
        }
    }
    node_of
}

/// The numbers of the nodes that have a directory.
fn node_numbers(root: &Root) -> impl Iterator<Item = u32> {
    let names = root.list(NODES).unwrap_or_default();
    names.into_iter().filter_map(|name| name.strip_prefix("node")?.parse().ok())
}

fn linked_node(root: &Root, cpu: u32) -> Option<u32> {
    let names = root.list(&format!("{CPUS}/cpu{cpu}")).ok()?;
    names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok())
}

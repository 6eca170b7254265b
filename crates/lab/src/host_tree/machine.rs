//! CPUs, packages and memory nodes: their numbers and their files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::HostTreeError;
use super::description::{MachineKeys, ModuleKeys, Numbering, Siblings};
use super::tree::Tree;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// A CPU and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub package: u32,
    pub core: u32,
    pub node: u32,
}

/// A machine with its CPUs numbered.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    keys: &'a MachineKeys,
    /// All present CPUs, offline ones too.
    places: BTreeMap<u32, Place>,
}

impl<'a> Machine<'a> {
    pub fn of(keys: &'a MachineKeys) -> Result<Self, HostTreeError> {
        let contradiction = |reason: String| Err(HostTreeError::Contradiction { reason });
        if keys.package_nodes.len() != keys.packages as usize {
            return contradiction(format!(
                "{} packages, package_nodes names {}",
                keys.packages,
                keys.package_nodes.len()
            ));
        }
        let nodes = keys.node_memory_mib.len();
        if let Some(node) = keys.package_nodes.iter().find(|node| **node as usize >= nodes) {
            return contradiction(format!("a package is on node {node}, node_memory_mib has {nodes} nodes"));
        }
        let mut places = BTreeMap::new();
        for package in 0..keys.packages {
            for core in 0..keys.cores_per_package {
                for thread in 0..keys.threads_per_core {
                    let node = keys.package_nodes[package as usize];
                    places.insert(number(keys, package, core, thread), Place { package, core, node });
                }
            }
        }
        match keys.offline.iter().find(|cpu| !places.contains_key(cpu)) {
            Some(cpu) => contradiction(format!("CPU {cpu} is offline and not there")),
            None => Ok(Self { keys, places }),
        }
    }

    fn is_online(&self, cpu: u32) -> bool {
        !self.keys.offline.contains(&cpu)
    }

    pub fn online(&self) -> Vec<u32> {
        self.places.keys().copied().filter(|cpu| self.is_online(*cpu)).collect()
    }

    /// The online CPUs of a node; none for a node that has none, or that is not there.
    pub fn on_node(&self, node: i32) -> Vec<u32> {
        let is_there = |cpu: &u32| i32::try_from(self.places[cpu].node) == Ok(node);
        self.online().into_iter().filter(is_there).collect()
    }

    fn alike(&self, of: impl Fn(Place) -> (u32, u32), place: Place) -> Vec<u32> {
        self.online().into_iter().filter(|cpu| of(self.places[cpu]) == of(place)).collect()
    }

    /// Highest number of all present CPUs and one more: the width of a mask.
    pub fn cpu_ids(&self) -> u32 {
        self.places.keys().next_back().map_or(1, |last| last + 1)
    }

    pub fn mask(&self, cpus: &[u32]) -> String {
        let groups = self.cpu_ids().div_ceil(32);
        let mut words = vec![0_u32; groups as usize];
        for cpu in cpus {
            words[(cpu / 32) as usize] |= 1 << (cpu % 32);
        }
        words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
    }

    pub fn memory_mib(&self) -> u64 {
        self.keys.node_memory_mib.iter().sum()
    }

    /// Writes the files of CPUs and nodes.
    pub fn files(&self, tree: &mut Tree) {
        self.cpu_lists(tree);
        for (cpu, place) in &self.places {
            self.cpu_files(*cpu, *place, tree);
        }
        self.node_files(tree);
        tree.text("/proc/cpuinfo", self.cpuinfo());
        tree.texts("/sys/class/dmi/id", [("sys_vendor", &self.keys.vendor), ("product_name", &self.keys.product)]);
        if let Some(modules) = &self.keys.modules {
            module_files(modules, tree);
        }
    }

    fn cpu_lists(&self, tree: &mut Tree) {
        let all: Vec<u32> = self.places.keys().copied().collect();
        let offline = list(&self.keys.offline);
        tree.texts(
            CPUS,
            [
                ("online", list(&self.online())),
                ("offline", offline),
                ("possible", list(&all)),
                ("present", list(&all)),
                ("isolated", String::new()),
                // The text of a list that was never set.
                ("nohz_full", "(null)".to_owned()),
            ],
        );
        let has_siblings = self.keys.threads_per_core > 1;
        let control = if has_siblings { "on" } else { "notsupported" };
        tree.texts(
            &format!("{CPUS}/smt"),
            [("active", u32::from(has_siblings).to_string().as_str()), ("control", control)],
        );
        tree.texts(
            &format!("{CPUS}/cpuidle"),
            [("current_driver", &self.keys.idle.driver), ("current_governor", &self.keys.idle.governor)],
        );
        match self.keys.cpu.scaling_driver.as_str() {
            // The second is the name of the first where it does not choose the frequency itself.
            driver @ ("intel_pstate" | "intel_cpufreq") => {
                let status = if driver == "intel_pstate" { "active" } else { "passive" };
                let keys = &self.keys.cpu;
                let min_perf_pct = (keys.min_khz * 100 / keys.max_khz.max(1)).to_string();
                tree.texts(
                    &format!("{CPUS}/intel_pstate"),
                    [("no_turbo", "0"), ("status", status), ("max_perf_pct", "100"), ("min_perf_pct", &min_perf_pct)],
                );
            }
            _ => tree.text(&format!("{CPUS}/cpufreq/boost"), "1"),
        }
    }

    fn cpu_files(&self, cpu: u32, place: Place, tree: &mut Tree) {
        let directory = format!("{CPUS}/cpu{cpu}");
        if cpu != 0 {
            tree.text(&format!("{directory}/online"), u32::from(self.is_online(cpu)));
        }
        if !self.is_online(cpu) {
            // The kernel takes the rest away with the CPU.
            return;
        }
        tree.link(&format!("{directory}/node{}", place.node), &format!("{NODES}/node{}", place.node));
        let siblings = self.alike(|place| (place.package, place.core), place);
        let package = self.alike(|place| (place.package, 0), place);
        tree.texts(
            &format!("{directory}/topology"),
            [
                ("core_id", place.core.to_string()),
                ("physical_package_id", place.package.to_string()),
                ("thread_siblings", self.mask(&siblings)),
                ("thread_siblings_list", list(&siblings)),
                ("core_siblings_list", list(&package)),
            ],
        );
        tree.texts(
            &format!("{directory}/cache/index3"),
            [
                ("level", "3".to_owned()),
                ("size", format!("{}K", self.keys.cpu.l3_kib)),
                ("shared_cpu_list", list(&package)),
            ],
        );
        self.power_files(&directory, cpu, tree);
    }

    fn power_files(&self, directory: &str, cpu: u32, tree: &mut Tree) {
        let keys = &self.keys.cpu;
        tree.texts(
            &format!("{directory}/cpufreq"),
            [
                ("scaling_driver", keys.scaling_driver.clone()),
                ("scaling_governor", keys.scaling_governor.clone()),
                ("scaling_min_freq", keys.min_khz.to_string()),
                ("scaling_max_freq", keys.max_khz.to_string()),
                ("scaling_cur_freq", keys.idle_khz.to_string()),
                ("cpuinfo_min_freq", keys.min_khz.to_string()),
                ("cpuinfo_max_freq", keys.max_khz.to_string()),
                ("affected_cpus", cpu.to_string()),
                ("freqdomain_cpus", cpu.to_string()),
            ],
        );
        if keys.scaling_driver == "intel_pstate" {
            tree.text(&format!("{directory}/cpufreq/base_frequency"), keys.base_khz);
        }
        tree.texts(&format!("{directory}/power"), [("energy_perf_bias", "6"), ("pm_qos_resume_latency_us", "0")]);
        tree.text(&format!("{directory}/thermal_throttle/core_throttle_count"), "0");
        for (at, state) in self.keys.idle.states.iter().enumerate() {
            tree.texts(
                &format!("{directory}/cpuidle/state{at}"),
                [
                    ("name", state.name.clone()),
                    ("latency", state.exit_us.to_string()),
                    ("residency", state.residency_us.to_string()),
                    ("disable", "0".to_owned()),
                    ("usage", "0".to_owned()),
                    ("time", "0".to_owned()),
                ],
            );
        }
    }

    fn node_files(&self, tree: &mut Tree) {
        let nodes: Vec<u32> = (0..).take(self.keys.node_memory_mib.len()).collect();
        let with_cpus: Vec<u32> =
            nodes.iter().copied().filter(|node| self.places.values().any(|place| place.node == *node)).collect();
        tree.texts(
            NODES,
            [
                ("online", list(&nodes)),
                ("possible", list(&nodes)),
                ("has_cpu", list(&with_cpus)),
                ("has_memory", list(&nodes)),
            ],
        );
        for (node, memory_mib) in nodes.iter().zip(&self.keys.node_memory_mib) {
            let directory = format!("{NODES}/node{node}");
            let cpus = self.on_node(i32::try_from(*node).unwrap_or(-1));
            let distances = nodes.iter().map(|other| if other == node { "10" } else { "21" });
            let total_kb = memory_mib * 1024;
            let free_kb = total_kb - total_kb / 16;
            tree.texts(
                &directory,
                [
                    ("cpulist", list(&cpus)),
                    ("cpumap", self.mask(&cpus)),
                    ("distance", distances.collect::<Vec<_>>().join(" ")),
                    (
                        "meminfo",
                        format!("Node {node} MemTotal:       {total_kb} kB\nNode {node} MemFree:        {free_kb} kB"),
                    ),
                ],
            );
            for pool in self.huge_page_pools() {
                let files = [("nr_hugepages", "0"), ("free_hugepages", "0"), ("surplus_hugepages", "0")];
                tree.texts(&format!("{directory}/hugepages/{pool}"), files);
            }
        }
    }

    /// Pages of 1 GiB are there if the processor has them.
    fn huge_page_pools(&self) -> &'static [&'static str] {
        let has_1g = self.keys.cpu.flags.split(' ').any(|flag| flag == "pdpe1gb");
        if has_1g { &["hugepages-2048kB", "hugepages-1048576kB"] } else { &["hugepages-2048kB"] }
    }

    fn cpuinfo(&self) -> String {
        let mut text = String::new();
        let keys = &self.keys.cpu;
        for cpu in self.online() {
            let place = self.places[&cpu];
            let mhz = keys.idle_khz / 1000;
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: {}\n\
                 stepping\t: {}\nmicrocode\t: 0x1c\ncpu MHz\t\t: {mhz}.000\ncache size\t: {} KB\nphysical id\t: {}\n\
                 core id\t\t: {}\ncpu cores\t: {}\nflags\t\t: {}\n\n",
                keys.family,
                keys.model,
                keys.model_name,
                keys.stepping,
                keys.l3_kib,
                place.package,
                place.core,
                self.keys.cores_per_package,
                keys.flags,
            );
        }
        text
    }
}

/// Structures of type 17 (DMTF DSP0134, 7.18), as much of them as settings are read from.
fn module_files(keys: &ModuleKeys, tree: &mut Tree) {
    const LENGTH: u8 = 0x28;
    const SIZE_MIB: u16 = 8192;
    for slot in 0..keys.slots {
        let mut module = vec![0; usize::from(LENGTH)];
        (module[0], module[1]) = (17, LENGTH);
        if slot < keys.filled {
            let fields =
                [(0x0c, SIZE_MIB), (0x15, keys.rated_mts), (0x20, keys.configured_mts), (0x26, keys.configured_mv)];
            for (at, value) in fields {
                module[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
        tree.bytes(&format!("/sys/firmware/dmi/entries/17-{slot}/raw"), module);
    }
}

fn number(keys: &MachineKeys, package: u32, core: u32, thread: u32) -> u32 {
    let first = match keys.numbering {
        Numbering::Block => package * keys.cores_per_package + core,
        Numbering::OddEven => core * keys.packages + package,
    };
    match keys.siblings {
        Siblings::AfterAll => first + thread * keys.packages * keys.cores_per_package,
        Siblings::Adjacent => first * keys.threads_per_core + thread,
    }
}

/// Numbers in order as the kernel prints a list: `0-3,8`.
pub(super) fn list(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let in_words = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(in_words).collect::<Vec<_>>().join(",")
}

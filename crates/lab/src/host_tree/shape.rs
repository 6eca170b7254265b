//! Shapes of machines: which CPUs, nodes and caches there are, and in which files the kernel says it.
//!
//! A [`Shape`] is a few keys of `hosts/shapes.toml`, made into the files that `lscpu --sysroot` reads too: its answer is
//! what a reader of these files can be held against.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::machine::list;
use super::tree::Tree;
use super::{HostTree, HostTreeError};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
const SHAPES: &str = include_str!("../../hosts/shapes.toml");

/// One machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// What tests call it.
    pub name: String,
    /// The kernel's source or documentation that its files follow.
    pub follows: String,
    arch: Arch,
    packages: u32,
    /// Cores of each package with all threads.
    cores: u32,
    #[serde(default = "one")]
    threads: u32,
    /// Whether the threads of a core have neighbouring numbers.
    #[serde(default)]
    is_adjacent: bool,
    /// Cores of a slower kind, with one thread, numbered behind or before the others.
    #[serde(default)]
    slow_cores: u32,
    #[serde(default)]
    is_slow_first: bool,
    /// Whether the slower cores are outside the last-level cache.
    #[serde(default)]
    is_slow_uncached: bool,
    /// `cpu_capacity` of the slower cores; the others have 1024.
    slow_capacity: Option<u32>,
    /// Whether each kind of core has a unit that counts its events.
    #[serde(default)]
    has_units: bool,
    /// The rank of each core with all threads by the firmware of AMD, the first core first.
    #[serde(default)]
    ranks: Vec<u32>,
    /// CPUs that are offline, as a list, and whether all but the first thread of each core are.
    #[serde(default)]
    offline: String,
    #[serde(default)]
    is_smt_off: bool,
    /// What the kernel gives for the packages; their numbers without it.
    #[serde(default)]
    package_ids: Vec<i32>,
    /// Packages in a book and books in a drawer.
    books: Option<(u32, u32)>,
    /// Nodes with CPUs, which have equal shares of the cores in order.
    #[serde(default)]
    nodes: Vec<u32>,
    #[serde(default)]
    memory_only: Vec<u32>,
    /// Nodes with CPUs and no memory.
    #[serde(default)]
    memoryless: Vec<u32>,
    /// Cores that share a level 2 cache; 0: no such cache is listed.
    #[serde(default = "one")]
    l2: u32,
    /// Cores that share a level 3 cache; 0: there is none.
    #[serde(default)]
    l3: u32,
    /// What the copy lacks, or has in an older form.
    #[serde(default)]
    style: Vec<Style>,
    /// What tells a guest from a machine: `yes` or `no`; empty where nothing says.
    #[serde(default)]
    pub is_guest: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Arch {
    X86,
    Arm64,
    Power,
    S390,
    Riscv,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Style {
    /// The list of online CPUs was not copied.
    NoOnline,
    /// Sets are masks only.
    Masks,
    /// Texts end in NUL behind the line end.
    Nul,
    /// Numbers have blanks before the line end. Sets have not: `lscpu` of util-linux 2.38 ends with a fault there.
    Blanks,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    cpu: u32,
    /// Over all packages.
    core: u32,
    package: u32,
    is_slow: bool,
}

fn one() -> u32 {
    1
}

/// All shapes.
///
/// # Errors
/// The description is damaged.
pub fn shapes() -> Result<Vec<Shape>, HostTreeError> {
    #[derive(Deserialize)]
    struct Shapes {
        shape: Vec<Shape>,
    }
    let Shapes { shape } = toml::from_str(SHAPES).map_err(|source| HostTreeError::Text { source })?;
    Ok(shape)
}

impl Shape {
    /// The files.
    #[must_use]
    pub fn tree(&self) -> HostTree {
        let mut tree = Tree::default();
        let places = self.places();
        let present: Vec<u32> = sorted(places.iter().map(|place| place.cpu));
        let online = self.online(&places);
        let last = present.last().copied().unwrap_or(0);
        tree.text("/proc/cpuinfo", self.cpuinfo(&online));
        for (name, cpus) in [("possible", &present), ("present", &present), ("online", &online)] {
            if name != "online" || !self.has(Style::NoOnline) {
                self.put_list(&mut tree, &format!("{CPUS}/{name}"), list(cpus));
            }
        }
        self.put(&mut tree, &format!("{CPUS}/kernel_max"), last.max(255).to_string());
        for place in &places {
            let is_online = online.binary_search(&place.cpu).is_ok();
            if place.cpu != 0 {
                self.put(&mut tree, &format!("{CPUS}/cpu{}/online", place.cpu), u32::from(is_online).to_string());
            }
            if is_online {
                self.cpu_files(*place, &places, &online, last, &mut tree);
            }
        }
        self.node_files(&places, &online, last, &mut tree);
        if self.has_units {
            let of = |is_slow| sorted(places.iter().filter(|place| place.is_slow == is_slow).map(|place| place.cpu));
            self.put_list(&mut tree, "/sys/devices/cpu_core/cpus", list(&of(false)));
            self.put_list(&mut tree, "/sys/devices/cpu_atom/cpus", list(&of(true)));
        }
        for (path, text) in &self.files {
            tree.text(path, text);
        }
        HostTree { tree }
    }

    fn has(&self, style: Style) -> bool {
        self.style.contains(&style)
    }

    /// A number.
    fn put(&self, tree: &mut Tree, path: &str, text: String) {
        let blanks = if self.has(Style::Blanks) { "  " } else { "" };
        self.put_list(tree, path, text + blanks);
    }

    fn put_list(&self, tree: &mut Tree, path: &str, text: String) {
        let end = if self.has(Style::Nul) { "\n\0" } else { "\n" };
        tree.bytes(path, format!("{text}{end}").into_bytes());
    }

    /// A set of CPUs as the kernel has it: a mask, and a list beside it.
    fn put_set(&self, tree: &mut Tree, path: &str, list_name: &str, cpus: &[u32], last: u32) {
        self.put_list(tree, path, mask(cpus, last));
        if !self.has(Style::Masks) {
            self.put_list(tree, list_name, list(cpus));
        }
    }

    /// The CPUs in the order of their cores.
    fn places(&self) -> Vec<Place> {
        let fast = self.packages * self.cores;
        let first_fast = if self.is_slow_first { self.slow_cores } else { 0 };
        let mut places = Vec::new();
        for core in 0..fast {
            for thread in 0..self.threads {
                let number = if self.is_adjacent { core * self.threads + thread } else { core + thread * fast };
                let package = core / self.cores;
                places.push(Place { cpu: first_fast + number, core: first_fast + core, package, is_slow: false });
            }
        }
        for slow in 0..self.slow_cores {
            let (cpu, core) = if self.is_slow_first { (slow, slow) } else { (fast * self.threads + slow, fast + slow) };
            places.push(Place { cpu, core, package: 0, is_slow: true });
        }
        places.sort_by_key(|place| (place.core, place.cpu));
        places
    }

    fn online(&self, places: &[Place]) -> Vec<u32> {
        let offline = numbers(&self.offline);
        let is_first = |place: &Place| {
            let of_core = places.iter().filter(|other| other.core == place.core);
            of_core.map(|other| other.cpu).min() == Some(place.cpu)
        };
        let is_online = |place: &&Place| !offline.contains(&place.cpu) && (!self.is_smt_off || is_first(place));
        sorted(places.iter().filter(is_online).map(|place| place.cpu))
    }

    fn cpu_files(&self, place: Place, places: &[Place], online: &[u32], last: u32, tree: &mut Tree) {
        let alike = |same: &dyn Fn(&Place) -> bool| {
            sorted(
                places
                    .iter()
                    .filter(|other| same(other) && online.binary_search(&other.cpu).is_ok())
                    .map(|other| other.cpu),
            )
        };
        let topology = format!("{CPUS}/cpu{}/topology", place.cpu);
        let id =
            usize::try_from(place.package).ok().and_then(|at| self.package_ids.get(at).or(self.package_ids.last()));
        let id = id.map_or_else(|| place.package.to_string(), i32::to_string);
        self.put(tree, &format!("{topology}/physical_package_id"), id);
        self.put(
            tree,
            &format!("{topology}/core_id"),
            if self.slow_cores > 0 { place.core } else { place.core % self.cores }.to_string(),
        );
        let threads = alike(&|other| other.core == place.core);
        let package = alike(&|other| other.package == place.package);
        let mut set = |name: &str, cpus: &[u32]| {
            self.put_set(tree, &format!("{topology}/{name}"), &format!("{topology}/{name}_list"), cpus, last);
        };
        set("thread_siblings", &threads);
        set("core_siblings", &package);
        if let Some((packages, books)) = self.books {
            let book = |other: &Place| other.package / packages;
            set("book_siblings", &alike(&|other| book(other) == book(&place)));
            set("drawer_siblings", &alike(&|other| book(other) / books == book(&place) / books));
            self.put(tree, &format!("{topology}/book_id"), (book(&place) % books).to_string());
            self.put(tree, &format!("{topology}/drawer_id"), (book(&place) / books).to_string());
        }
        if let Some(capacity) = self.slow_capacity {
            let capacity = if place.is_slow { capacity } else { 1024 };
            self.put(tree, &format!("{CPUS}/cpu{}/cpu_capacity", place.cpu), capacity.to_string());
        }
        if let Some(rank) = usize::try_from(place.core).ok().and_then(|core| self.ranks.get(core)) {
            let cpufreq = format!("{CPUS}/cpu{}/cpufreq", place.cpu);
            self.put(tree, &format!("{cpufreq}/amd_pstate_prefcore_ranking"), rank.to_string());
        }
        let first_fast = if self.is_slow_first { self.slow_cores } else { 0 };
        let under = |size: u32| {
            move |place: &Place| (place.is_slow, (place.core - if place.is_slow { 0 } else { first_fast }) / size)
        };
        let mut caches = vec![("Data", 1, threads.clone()), ("Instruction", 1, threads)];
        if self.l2 > 0 {
            // Slow cores share theirs by four.
            let size = if place.is_slow && self.l2 == 1 { 4 } else { self.l2 };
            caches.push(("Unified", 2, alike(&|other| under(size)(other) == under(size)(&place))));
        }
        if self.l3 > 0 && !(place.is_slow && self.is_slow_uncached) {
            let is_under = |other: &Place| {
                !(other.is_slow && self.is_slow_uncached)
                    && (self.slow_cores > 0 || other.core / self.l3 == place.core / self.l3)
            };
            caches.push(("Unified", 3, alike(&is_under)));
        }
        for (index, (kind, level, cpus)) in caches.into_iter().enumerate() {
            let cache = format!("{CPUS}/cpu{}/cache/index{index}", place.cpu);
            self.put(tree, &format!("{cache}/level"), level.to_string());
            self.put(tree, &format!("{cache}/type"), kind.to_owned());
            self.put(tree, &format!("{cache}/size"), format!("{}K", 32 << (3 * level)));
            self.put_set(tree, &format!("{cache}/shared_cpu_map"), &format!("{cache}/shared_cpu_list"), &cpus, last);
        }
    }

    fn node_files(&self, places: &[Place], online: &[u32], last: u32, tree: &mut Tree) {
        let count = u32::try_from(self.nodes.len()).unwrap_or(0);
        let total = self.packages * self.cores + self.slow_cores;
        for (at, node) in (0..).zip(&self.nodes) {
            let there = places
                .iter()
                .filter(|place| place.core * count / total == at && online.binary_search(&place.cpu).is_ok());
            self.one_node(*node, &sorted(there.map(|place| place.cpu)), last, tree);
        }
        for node in &self.memory_only {
            self.one_node(*node, &[], last, tree);
        }
        if count > 0 {
            let all = sorted(self.nodes.iter().chain(&self.memory_only).copied());
            self.put_list(tree, &format!("{NODES}/online"), list(&all));
        }
    }

    fn one_node(&self, node: u32, cpus: &[u32], last: u32, tree: &mut Tree) {
        let directory = format!("{NODES}/node{node}");
        let total_kb = if self.memoryless.contains(&node) { 0 } else { 64 << 20 };
        self.put_set(tree, &format!("{directory}/cpumap"), &format!("{directory}/cpulist"), cpus, last);
        tree.text(&format!("{directory}/meminfo"), format!("Node {node} MemTotal:       {total_kb} kB"));
    }

    /// As far as `lscpu` needs it to know CPUs of one model.
    fn cpuinfo(&self, online: &[u32]) -> String {
        let line = |cpu: &u32| match self.arch {
            Arch::X86 => format!(
                "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: X\nstepping\t: 7\nflags\t\t: fpu{}\n\n",
                if self.is_guest == "yes" { " hypervisor" } else { "" }
            ),
            Arch::Arm64 => format!(
                "processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
            ),
            Arch::Power => {
                format!("processor\t: {cpu}\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n\n")
            }
            Arch::S390 => format!("processor {cpu}: version = 00,  identification = 0133E8,  machine = 8561\n"),
            Arch::Riscv => {
                format!("processor\t: {cpu}\nhart\t\t: {cpu}\nmodel name\t: Spacemit(R) X60\nisa\t\t: rv64imafdcv\n\n")
            }
        };
        let all: String = online.iter().map(line).collect();
        match self.arch {
            Arch::S390 => format!(
                "vendor_id       : IBM/S390\n# processors    : {}\nfeatures\t: esan3 zarch\n{all}",
                online.len()
            ),
            Arch::Power => {
                let platform = if self.is_guest == "yes" { "pSeries" } else { "PowerNV" };
                format!("{all}timebase\t: 512000000\nplatform\t: {platform}\n")
            }
            _ => all,
        }
    }
}

fn sorted(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The numbers of a list, `0-3,8`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn mask(cpus: &[u32], last: u32) -> String {
    let mut words = vec![0_u32; (last / 32 + 1) as usize];
    for cpu in cpus {
        words[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

//! Machines of many shapes, read here and by `lscpu`, and planned.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use nearwire_host::plan::{HostFacts, Owner, Plan, Request};
use nearwire_host::topology::{Cpu, Topology, choose_cpus};
use nearwire_host::{CpuSet, Root, catalogue, read_settings};
use nearwire_lab::host_tree::{Shape, scratch_directory, shapes};

/// What `lscpu` says of one online CPU.
struct Row {
    cpu: u32,
    core: u32,
    socket: u32,
    node: Option<u32>,
    /// Of all caches, the innermost first; those that are listed for none are not there.
    caches: Vec<Option<u32>>,
}

fn lscpu(directory: &Path) -> Vec<Row> {
    let output = Command::new("lscpu")
        .arg("--sysroot")
        .arg(directory)
        .arg("--parse=CPU,CORE,SOCKET,NODE,CACHE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let fields: Vec<Option<u32>> = line.split(',').map(|field| field.parse().ok()).collect();
        // A column without a name stands before those of the caches.
        let caches = fields.get(5..).unwrap_or_default().to_vec();
        Row { cpu: fields[0].unwrap(), core: fields[1].unwrap(), socket: fields[2].unwrap(), node: fields[3], caches }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

fn written(shape: &Shape) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    shape.tree().write(directory.path()).unwrap();
    directory
}

/// The CPUs that have the same key, group by group.
fn groups<K: Ord>(keys: impl IntoIterator<Item = (u32, K)>) -> BTreeSet<CpuSet> {
    let mut groups: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (cpu, key) in keys {
        groups.entry(key).or_default().push(cpu);
    }
    groups.into_values().map(|cpus| cpus.into_iter().collect()).collect()
}

fn value(root: &Root, id: &str) -> Option<String> {
    let readings = read_settings(root, &[catalogue::setting(id).unwrap()], &[]);
    readings[0].1.as_value().map(str::to_owned)
}

/// The groups of CPUs under the last cache that several cores share.
fn under_caches(rows: &[Row]) -> BTreeSet<CpuSet> {
    let last = |row: &Row| {
        let level = row.caches.iter().rposition(Option::is_some)?;
        Some((level, row.caches[level]))
    };
    let all = groups(rows.iter().filter_map(|row| Some((row.cpu, last(row)?))));
    let core_of: BTreeMap<u32, u32> = rows.iter().map(|row| (row.cpu, row.core)).collect();
    all.into_iter().filter(|cpus| cpus.iter().map(|cpu| core_of[&cpu]).collect::<BTreeSet<_>>().len() > 1).collect()
}

#[test]
fn every_shape_read_has_the_cpus_cores_packages_nodes_and_caches_of_lscpu() {
    let shapes = shapes().unwrap();
    assert!(shapes.len() >= 25, "{}", shapes.len());
    for shape in &shapes {
        let name = &shape.name;
        let directory = written(shape);
        let rows = lscpu(directory.path());
        let root = Root::directory(directory.path()).unwrap();
        let topology = Topology::read(&root);
        let cpus = topology.cpus();
        let of = |key: fn(&Cpu) -> Option<u32>| groups(cpus.iter().filter_map(|cpu| Some((cpu.id, key(cpu)?))));
        let expected = |key: fn(&Row) -> Option<u32>| groups(rows.iter().filter_map(|row| Some((row.cpu, key(row)?))));
        assert_eq!(
            cpus.iter().map(|cpu| cpu.id).collect::<Vec<_>>(),
            rows.iter().map(|row| row.cpu).collect::<Vec<_>>(),
            "{name}"
        );
        assert_eq!(of(|cpu| cpu.siblings.iter().next()), expected(|row| Some(row.core)), "{name}: cores");
        assert_eq!(of(|cpu| cpu.package_first), expected(|row| Some(row.socket)), "{name}: packages");
        assert_eq!(of(|cpu| cpu.node), expected(|row| row.node), "{name}: nodes");
        assert!(cpus.iter().zip(&rows).all(|(cpu, row)| cpu.node == row.node), "{name}: nodes' numbers");
        assert_eq!(of(|cpu| cpu.cache_first), under_caches(&rows), "{name}: caches");
        let count = |key: fn(&Row) -> u32| rows.iter().map(key).collect::<BTreeSet<_>>().len().to_string();
        assert_eq!(value(&root, "cpu.cores"), Some(count(|row| row.core)), "{name}");
        assert_eq!(value(&root, "cpu.packages"), Some(count(|row| row.socket)), "{name}");
        assert_eq!(value(&root, "cpu.threads"), Some(rows.len().to_string()), "{name}");
        assert!(!shape.follows.is_empty(), "{name}");
    }
}

/// The groups of CPUs that `lscpu` says are in one book, or in one drawer.
fn of_lscpu(directory: &Path, column: &str) -> BTreeSet<CpuSet> {
    let parse = format!("--parse=CPU,{column}");
    let output = Command::new("lscpu").arg("--sysroot").arg(directory).arg(parse).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let (cpu, of) = line.split_once(',')?;
        Some((cpu.parse::<u32>().ok()?, of.parse::<u32>().ok()?))
    };
    groups(text.lines().filter(|line| !line.starts_with('#')).filter_map(row))
}

#[test]
fn every_shape_read_has_the_books_and_drawers_of_lscpu() {
    for shape in shapes().unwrap() {
        let directory = written(&shape);
        let topology = Topology::read(&Root::directory(directory.path()).unwrap());
        let of =
            |key: fn(&Cpu) -> Option<u32>| groups(topology.cpus().iter().filter_map(|cpu| Some((cpu.id, key(cpu)?))));
        assert_eq!(of(|cpu| cpu.book_first), of_lscpu(directory.path(), "BOOK"), "{}", shape.name);
        assert_eq!(of(|cpu| cpu.drawer_first), of_lscpu(directory.path(), "DRAWER"), "{}", shape.name);
    }
}

#[test]
fn plan_of_s390_stays_in_a_book_and_counts_its_packages_once() {
    let plan = planned(&named("s390-books"), &Request { app_cpus: Some(7), ..Request::default() });
    assert!(
        plan.to_text().starts_with("Plan: 64 CPUs, 32 cores, 8 packages, 4 books, 2 drawers"),
        "{}",
        plan.to_text()
    );
    // A package has four cores; the second half comes from the other package of the same book.
    let core = |cpu| plan.host.cores.iter().find(|core| core.cpus.contains(cpu)).unwrap();
    let books: BTreeSet<_> = plan.app().iter().map(|cpu| core(cpu).book_first).collect();
    assert_eq!(books.len(), 1, "{}", plan.app());
    let pair = choose_cpus(&Topology::read(&Root::directory(written(&named("s390-books")).path()).unwrap()), &[2, 18]);
    assert!(pair.explanation.contains("different packages"), "{}", pair.explanation);
}

#[test]
fn every_shape_is_told_from_a_guest() {
    for shape in shapes().unwrap() {
        let directory = written(&shape);
        let root = Root::directory(directory.path()).unwrap();
        assert_eq!(value(&root, "virtualisation.hypervisor-flag").as_deref(), Some(&*shape.is_guest), "{}", shape.name);
    }
}

fn planned(shape: &Shape, request: &Request) -> Plan {
    let directory = written(shape);
    let facts = HostFacts::read(&Root::directory(directory.path()).unwrap(), &[]).unwrap();
    Plan::make(&facts, request).unwrap_or_else(|error| panic!("{}: {error}", shape.name))
}

fn named(name: &str) -> Shape {
    shapes().unwrap().into_iter().find(|shape| shape.name == name).unwrap()
}

#[test]
fn every_shape_planned_without_an_interface_gives_the_application_fast_cores_under_one_cache() {
    for shape in shapes().unwrap() {
        let name = &shape.name;
        let plan = planned(&shape, &Request::default());
        // A host with one core has none to spare.
        assert_eq!(plan.app().len(), usize::from(name != "one-cpu"), "{name}");
        let owned: usize = plan.shares.iter().map(|share| share.cpus.len()).sum();
        assert_eq!(owned, plan.host.cores.iter().map(|core| core.cpus.len()).sum::<usize>(), "{name}");
        assert!(plan.notes.iter().any(|note| note.contains("--nic")), "{name}: {:?}", plan.notes);
        assert!(!plan.notes.iter().any(|note| note.contains("was built without")), "{name}: {:?}", plan.notes);
        let has_slow = plan.host.cores.iter().any(|core| core.is_slow);
        for cpu in plan.app().iter() {
            let core = plan.host.cores.iter().find(|core| core.cpus.contains(cpu)).unwrap();
            assert!(!core.is_slow, "{name}");
        }
        assert_eq!(has_slow, name.contains("hybrid") || name.contains("slow"), "{name}");
        assert!(plan.to_text().contains("Plan: ") && plan.to_svg().contains("<svg"), "{name}");
    }
}

#[test]
fn plan_of_a_processor_with_several_caches_keeps_interrupts_and_application_under_one() {
    let request = Request { node: Some(0), app_cpus: Some(6), irq_cpus: Some(2), ..Request::default() };
    let plan = planned(&named("epyc-l3-of-8-cores"), &request);
    let caches = |cpus: CpuSet| {
        let of = |cpu| plan.host.cores.iter().find(|core| core.cpus.contains(cpu)).unwrap().cache_first;
        cpus.iter().map(of).collect::<BTreeSet<_>>()
    };
    // The complex of CPU 0 has seven cores left, which are one too few.
    assert_eq!((plan.irq().to_string(), plan.app().to_string()), ("8-9".to_owned(), "10-15".to_owned()));
    assert_eq!(caches(plan.irq()), caches(plan.app()));
    let nine = planned(&named("epyc-l3-of-8-cores"), &Request { app_cpus: Some(9), ..Request::default() });
    let share = nine.shares.iter().find(|share| share.owner == Owner::App).unwrap();
    assert!(share.why.contains("under 2 caches, as no single one has enough"), "{}", share.why);
}

#[test]
fn plan_of_a_processor_with_preferred_cores_gives_the_application_the_ones_ranked_highest() {
    let shape = named("ryzen-preferred-cores");
    let plan = planned(&shape, &Request { app_cpus: Some(3), irq_cpus: Some(2), ..Request::default() });
    // The core of CPU 0 is the OS's, whatever its rank; 236, 236 and 226 of the same cache are the application's.
    assert_eq!((plan.app().to_string(), plan.irq().to_string()), ("1-3".to_owned(), "4,6".to_owned()));
    let share = plan.shares.iter().find(|share| share.owner == Owner::App).unwrap();
    assert!(share.why.contains("with the core that the firmware ranks highest, under one cache"), "{}", share.why);
    // Eight do not fit beside the OS under the better cache.
    let plan = planned(&shape, &Request { app_cpus: Some(8), irq_cpus: Some(0), ..Request::default() });
    assert_eq!(plan.app().to_string(), "8-15");
    let directory = written(&shape);
    let root = Root::directory(directory.path()).unwrap();
    assert!(value(&root, "cpu.preferred-rank").unwrap().starts_with("231 (0,16), 236 (1,3,17,19)"));
    assert_eq!(value(&root, "cpu.kind"), None);
}

#[test]
fn kinds_of_cores_are_told_of_hosts_that_have_several() {
    for (name, kinds) in [
        ("x86-hybrid", "fast (0-15), slow (16-23)"),
        ("x86-hybrid-by-types", "fast (0-7), slow (8-15)"),
        ("arm64-slow-cores-first", "slow (0-3), fast (4-7)"),
    ] {
        let directory = written(&named(name));
        assert_eq!(value(&Root::directory(directory.path()).unwrap(), "cpu.kind").as_deref(), Some(kinds), "{name}");
    }
}

#[test]
fn plan_of_a_host_with_a_node_without_memory_stays_with_the_memory() {
    let shape = named("power-node-without-memory");
    let plan = planned(&shape, &Request::default());
    assert_eq!(plan.app().iter().map(|cpu| plan.node_of(cpu)).collect::<Vec<_>>(), [Some(0)]);
    let forced = planned(&shape, &Request { node: Some(1), ..Request::default() });
    assert_eq!(forced.derived().prefixes[0].numactl, None);
}

#[test]
fn plan_with_smt_off_gives_no_second_thread_work() {
    let request = Request { poller_cpus: 4, app_cpus: Some(2), is_smt_off: true, ..Request::default() };
    let plan = planned(&named("x86-2-packages"), &request);
    assert!(plan.shares.iter().all(|share| share.cpus.iter().all(|cpu| cpu < 56)), "{:?}", plan.shares);
    assert_eq!(plan.host.offline.to_string(), "56-111");
    assert!(plan.derived().boot.iter().all(|word| !word.contains("56")), "{:?}", plan.derived().boot);
    let with = planned(&named("x86-2-packages"), &Request { is_smt_off: false, ..request });
    assert!(with.notes.iter().any(|note| note.contains("second threads of cores and have work")), "{:?}", with.notes);
}

#[test]
fn plan_of_a_kernel_with_flags_in_isolcpus_keeps_them_and_names_the_words() {
    let directory = written(&named("x86-2-packages"));
    std::fs::write(directory.path().join("proc/cmdline"), "ro isolcpus=managed_irq,domain,2-3 -- isolcpus=9\n")
        .unwrap();
    let facts = HostFacts::read(&Root::directory(directory.path()).unwrap(), &[]).unwrap();
    let plan = Plan::make(&facts, &Request::default()).unwrap();
    assert!(plan.derived().boot[0].starts_with("isolcpus=managed_irq,domain,"), "{:?}", plan.derived().boot);
    let note = plan.notes.iter().find(|note| note.contains("was started with")).unwrap();
    assert!(note.contains("isolcpus=managed_irq,domain,2-3:") && !note.contains("isolcpus=9"), "{note}");
}

/// An interface that a copy does not have is planned as far as the table of interrupts names it, and interrupts
/// without a name are not all given to CPU 0.
#[test]
fn interrupts_of_a_copy_planned_are_spread_over_the_cpus_for_them() {
    let directory = written(&named("x86-1-package-adjacent"));
    let row = |irq: u32, name: &str| format!(" {irq}: {} PCI-MSI {irq}-edge {name}\n", "0 ".repeat(16));
    let titles: String = (0..16).map(|cpu| format!(" CPU{cpu}")).collect();
    let table = format!("{titles}\n{}{}{}", row(40, "eth0-TxRx-0"), row(41, "eth0-TxRx-1"), row(42, "eth01-TxRx-0"));
    std::fs::write(directory.path().join("proc/interrupts"), table).unwrap();
    let nics = ["eth0".to_owned()];
    let facts = HostFacts::read(&Root::directory(directory.path()).unwrap(), &nics).unwrap();
    let request = Request { nics: nics.to_vec(), irq_cpus: Some(2), ..Request::default() };
    let plan = Plan::make(&facts, &request).unwrap();
    assert_eq!(plan.nics[0].irqs.iter().map(|irq| (irq.irq, irq.cpu)).collect::<Vec<_>>(), [(40, 2), (41, 4)]);
    assert!(plan.notes.iter().any(|note| note.contains("has no files of eth0")), "{:?}", plan.notes);

    // Where the table is cut off, the directory of the handler has the name.
    std::fs::write(directory.path().join("proc/interrupts"), format!("{titles}\n{}", row(40, "eth0-TxRx-0"))).unwrap();
    let device = directory.path().join("sys/class/net/eth0/device/msi_irqs");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.parent().unwrap().with_file_name("ifindex"), "2\n").unwrap();
    for irq in ["40", "41"] {
        std::fs::write(device.join(irq), "msix\n").unwrap();
    }
    std::fs::create_dir_all(directory.path().join("proc/irq/41/eth0-TxRx-1")).unwrap();
    std::fs::write(directory.path().join("proc/irq/41/smp_affinity"), "ffff\n").unwrap();
    let by_directory = HostFacts::read(&Root::directory(directory.path()).unwrap(), &nics).unwrap();
    assert_eq!(by_directory.nics[0].irqs, facts.nics[0].irqs);

    let mut unnamed = facts;
    for irq in &mut unnamed.nics[0].irqs {
        (irq.name, irq.queue) = (String::new(), None);
    }
    let plan = Plan::make(&unnamed, &request).unwrap();
    assert_eq!(plan.nics[0].irqs.iter().map(|irq| irq.cpu).collect::<Vec<_>>(), [2, 4]);
}

/// Online CPUs and nodes where only `/proc/cpuinfo`, or only what a report kept of `lscpu`, tells.
#[test]
fn host_without_files_of_cpus_is_read_from_what_else_tells() {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let read = || {
        let topology = Topology::read(&Root::directory(directory.path()).unwrap());
        topology.cpus().iter().map(|cpu| (cpu.id, cpu.node)).collect::<Vec<_>>()
    };
    assert_eq!(read(), []);
    write(
        "sos_commands/processor/lscpu",
        "On-line CPU(s) list:   0,2\nNUMA node0 CPU(s):   0\nNUMA node8 CPU(s):  2\n",
    );
    assert_eq!(read(), [(0, Some(0)), (2, Some(8))]);
    write("proc/cpuinfo", "vendor_id : IBM/S390\nprocessor 1: version = 00\nprocessor 3: version = 00\n");
    assert_eq!(read(), [(1, None), (3, None)]);
    write("sys/devices/system/cpu/cpu1/topology/core_id", "0\n");
    write("sys/devices/system/cpu/cpu3/online", "0\n");
    write("sys/devices/system/node/node2/cpumap", "00000002\n");
    assert_eq!(read(), [(1, Some(2))]);
    write("sys/devices/system/cpu/online", "0-1,3  \n\0");
    write("sys/devices/system/node/node2/cpulist", "1 \n");
    assert_eq!(read(), [(0, None), (1, Some(2)), (3, None)]);
}

/// Reading all settings of a large copy and planning it takes time in proportion to its CPUs.
#[test]
fn copy_of_1024_cpus_is_read_and_planned_soon() {
    let directory = written(&named("x86-1024-cpus"));
    let root = Root::directory(directory.path()).unwrap();
    let start = std::time::Instant::now();
    let settings: Vec<_> = catalogue::settings().collect();
    assert!(read_settings(&root, &settings, &[]).len() > 100);
    let facts = HostFacts::read(&root, &[]).unwrap();
    let plan = Plan::make(&facts, &Request { app_cpus: Some(32), irq_cpus: Some(8), ..Request::default() }).unwrap();
    assert_eq!(plan.app().len(), 32);
    // A second with optimisation on a host of its own; the rest is for a loaded test host.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    println!("{:?}", start.elapsed());
}

#[test]
fn processor_that_is_divided_into_nodes_is_told_and_a_plan_stays_in_the_node_that_is_named() {
    for (name, nodes, node, node_cpus) in [
        ("epyc-4-nodes-per-package", "4", 3, "48-63,176-191"),
        ("x86-2-nodes-under-one-cache", "2", 1, "16-31,48-63"),
        ("x86-2-packages", "1", 1, "28-55,84-111"),
    ] {
        let shape = named(name);
        let directory = written(&shape);
        let root = Root::directory(directory.path()).unwrap();
        assert_eq!(value(&root, "firmware.nodes-per-socket").as_deref(), Some(nodes), "{name}");
        let request = Request { node: Some(node), app_cpus: Some(4), irq_cpus: Some(2), ..Request::default() };
        let plan = planned(&shape, &request);
        let near = CpuSet::from_list(node_cpus).unwrap();
        let planned: Vec<u32> = plan.app().iter().chain(plan.irq().iter()).collect();
        assert_eq!(planned.len(), 6, "{name}");
        assert!(planned.iter().all(|cpu| near.contains(*cpu)), "{name}: {planned:?} not in {near}");
    }
}

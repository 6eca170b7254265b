//! Properties over made-up machines; the papers' hosts are in `tests/plan.rs` of this crate.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::topology::{Cpu, Topology};

/// A machine: packages, cores of each, threads of each, numbering, where siblings are, nodes of each package.
#[derive(Clone, Debug)]
struct Shape {
    packages: u32,
    cores: u32,
    threads: u32,
    odd_even: bool,
    adjacent: bool,
    nodes_per_package: u32,
    has_nodes: bool,
    offline: BTreeSet<u32>,
    nic_nodes: Vec<i32>,
    queues: u32,
}

impl Shape {
    fn facts(&self) -> HostFacts {
        let mut cpus = Vec::new();
        let mut offline = BTreeSet::new();
        for package in 0..self.packages {
            for core in 0..self.cores {
                let ids: Vec<u32> = (0..self.threads).map(|thread| self.number(package, core, thread)).collect();
                for id in &ids {
                    if self.offline.contains(id) {
                        offline.insert(*id);
                        continue;
                    }
                    let node = package * self.nodes_per_package + core * self.nodes_per_package / self.cores;
                    cpus.push(Cpu {
                        id: *id,
                        core: Some(core),
                        package: Some(package),
                        siblings: ids.iter().copied().filter(|id| !self.offline.contains(id)).collect(),
                        is_isolated: false,
                        node: self.has_nodes.then_some(node),
                        ..Cpu::default()
                    });
                }
            }
        }
        // One node more than has CPUs: memory only.
        let count = if self.has_nodes { self.packages * self.nodes_per_package + 1 } else { 0 };
        let node = |node| {
            let distances = (0..count).map(|other| if other == node { 10 } else { 20 + other }).collect();
            (node, NodeFacts { memory_bytes: Some(64 << 30), distances })
        };
        HostFacts {
            topology: Topology::of(cpus),
            offline: offline.into_iter().collect(),
            nodes: (0..count).map(node).collect(),
            nics: self.nic_nodes.iter().enumerate().map(|(at, node)| self.nic(at, *node)).collect(),
            page_bytes: vec![2 << 20, 1 << 30],
            has_nohz_full: Some(true),
            command_line: None,
        }
    }

    fn nic(&self, at: usize, node: i32) -> NicFacts {
        let first = 100 * (u32::try_from(at).unwrap() + 1);
        let irq = |queue| IrqFacts { irq: first + queue, name: format!("eth{at}-rx-{queue}"), queue: Some(queue) };
        let other = IrqFacts { irq: first + 90, name: format!("eth{at}"), queue: None };
        NicFacts {
            interface: format!("eth{at}"),
            node: u32::try_from(node).ok(),
            irqs: (0..self.queues).map(irq).chain([other]).collect(),
            ..NicFacts::default()
        }
    }

    fn number(&self, package: u32, core: u32, thread: u32) -> u32 {
        let first = if self.odd_even { core * self.packages + package } else { package * self.cores + core };
        if self.adjacent { first * self.threads + thread } else { first + thread * self.packages * self.cores }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let machine = (1..=4u32, 1..=16u32, 1..=4u32, any::<bool>(), any::<bool>(), 1..=2u32, any::<bool>());
    let rest = (proptest::collection::btree_set(1..64u32, 0..8), proptest::collection::vec(-1..9i32, 1..3), 0..12u32);
    (machine, rest).prop_map(
        |((packages, cores, threads, odd_even, adjacent, nodes, has_nodes), (offline, nic_nodes, queues))| Shape {
            packages,
            cores,
            threads,
            odd_even,
            adjacent,
            nodes_per_package: nodes.min(cores),
            has_nodes,
            offline,
            nic_nodes,
            queues,
        },
    )
}

fn requests() -> impl Strategy<Value = Request> {
    let guest = (1..=6u32, 1..=5u64).prop_map(|(vcpus, gib)| (vcpus, gib << 30));
    let counts = (
        proptest::option::of(0..4u32),
        proptest::option::of(0..3u32),
        0..5u32,
        proptest::option::of(1..6u32),
        proptest::collection::vec(guest, 0..3),
    );
    counts.prop_map(|(app_cpus, irq_cpus, poller_cpus, os_cpus, guests)| Request {
        nics: vec!["eth0".to_owned()],
        app_cpus,
        irq_cpus,
        poller_cpus,
        os_cpus,
        node: None,
        guests: guests
            .into_iter()
            .enumerate()
            .map(|(at, (vcpus, memory_bytes))| GuestRequest { name: format!("g{at}"), vcpus, memory_bytes, node: None })
            .collect(),
        is_smt_off: false,
    })
}

fn lists(derived: &Derived) -> Vec<String> {
    let boot = derived.boot.iter().filter_map(|word| Some(word.split_once('=')?.1.to_owned()));
    let irq = derived.irq.iter().map(|line| line.value.clone());
    let taskset = derived.prefixes.iter().filter_map(|prefix| Some(prefix.taskset.rsplit_once(' ')?.1.to_owned()));
    let slices = derived.slices.iter().filter_map(|line| Some(line.rsplit_once('=')?.1.to_owned()));
    let cpuset = derived.cpuset.iter().filter(|line| line.path.ends_with("cpuset.cpus")).map(|line| line.value.clone());
    boot.chain(irq).chain(taskset).chain(slices).chain(cpuset).collect()
}

/// What holds for every plan.
fn check(facts: &HostFacts, plan: &Plan) -> Result<(), TestCaseError> {
    let mut owners: BTreeMap<u32, &Owner> = BTreeMap::new();
    for share in &plan.shares {
        prop_assert!(!share.why.is_empty());
        for cpu in share.cpus.iter() {
            prop_assert!(owners.insert(cpu, &share.owner).is_none(), "CPU {} has two owners", cpu);
        }
    }
    let online: Vec<u32> = facts.topology.cpus().iter().map(|cpu| cpu.id).collect();
    prop_assert_eq!(owners.keys().copied().collect::<Vec<_>>(), online.clone());
    // CPU 0, or the lowest where it is offline, with all its siblings.
    let first = facts.topology.cpu(online[0]).unwrap();
    for cpu in first.siblings.iter() {
        prop_assert_eq!(owners[&cpu], &Owner::Os);
    }
    for cpu in facts.topology.cpus() {
        let beside = cpu.siblings.iter().filter(|id| *id != cpu.id).map(|id| owners[&id]);
        for other in beside {
            let fits = match owners[&cpu.id] {
                Owner::App | Owner::Irq => *other == Owner::IdleSibling,
                Owner::IdleSibling => true,
                owner => other == owner || *other == Owner::IdleSibling,
            };
            prop_assert!(fits, "{:?} beside {:?}", owners[&cpu.id], other);
        }
    }
    let isolated = plan.isolated();
    for nic in &plan.nics {
        prop_assert_eq!(nic.irqs.len(), facts.nics.iter().find(|of| of.interface == nic.interface).unwrap().irqs.len());
        for irq in &nic.irqs {
            prop_assert!(!isolated.contains(irq.cpu), "IRQ {} on isolated CPU {}", irq.irq, irq.cpu);
        }
        if facts.nics.iter().any(|of| of.interface == nic.interface && of.node.is_none()) && plan.host.nodes.len() > 2 {
            prop_assert_eq!(nic.node, None);
        }
    }
    for guest in &plan.guests {
        prop_assert!(guest.emulator_cpus.iter().all(|cpu| *owners[&cpu] == Owner::Os));
        prop_assert!(guest.pages * guest.page_bytes >= guest.memory_bytes);
        prop_assert!(guest.vcpus.iter().all(|pin| plan.node_of(pin.cpu) == guest.node));
    }
    for list in lists(&plan.derived()) {
        let parsed = CpuSet::from_list(&list);
        prop_assert!(
            parsed.is_ok_and(|cpus| !cpus.is_empty() && cpus.iter().all(|cpu| online.contains(&cpu))),
            "{}",
            list
        );
    }
    prop_assert!(plan.fits(&facts.topology).is_ok());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_machine_planned_keeps_the_rules_or_says_what_is_missing(shape in shapes(), request in requests()) {
        let facts = shape.facts();
        match Plan::make(&facts, &request) {
            Ok(plan) => {
                check(&facts, &plan)?;
                prop_assert_eq!(plan.app().len(), plan.asked.app_cpus as usize);
                prop_assert_eq!(plan.poller().len(), plan.asked.poller_cpus as usize);
                let vcpus: Vec<_> = plan.guests.iter().map(|guest| guest.vcpus.len()).collect();
                let wanted: Vec<_> = request.guests.iter().map(|guest| guest.vcpus as usize).collect();
                prop_assert_eq!(vcpus, wanted);
                let file = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(file.path(), plan.to_json()).unwrap();
                prop_assert_eq!(Plan::load(file.path()).unwrap(), plan.clone());
                prop_assert!(plan.to_svg().ends_with("</svg>\n"));
                prop_assert!(!plan.to_text().contains("none"), "{}", plan.to_text());
            }
            Err(PlanError::NotEnoughCpus { free_cores, wanted_cpus, .. }) => prop_assert!(free_cores < wanted_cpus as usize),
            Err(PlanError::NotEnoughMemory { .. }) => {}
            Err(PlanError::NoCpus) => prop_assert!(facts.topology.cpus().is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn any_text_loaded_is_a_plan_or_a_cause(text in ".{0,200}") {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        prop_assert!(Plan::load(file.path()).is_err());
    }
}

fn two_packages() -> Shape {
    Shape {
        packages: 2,
        cores: 4,
        threads: 2,
        odd_even: false,
        adjacent: true,
        nodes_per_package: 1,
        has_nodes: true,
        offline: BTreeSet::new(),
        nic_nodes: vec![1],
        queues: 4,
    }
}

fn plan(shape: &Shape, request: &Request) -> Plan {
    Plan::make(&shape.facts(), request).unwrap()
}

#[test]
fn defaults_planned_give_one_core_to_interrupts_and_one_to_the_application() {
    let plan = plan(&two_packages(), &Request::default());
    // Package 1 has CPUs 8-15 in pairs.
    assert_eq!(plan.app().to_string(), "10");
    assert_eq!(plan.irq().to_string(), "8");
    assert_eq!(plan.isolated().to_string(), "9-11");
    assert_eq!(plan.housekeeping().to_string(), "0-7,12-15");
    assert_eq!(plan.derived().boot.join(" "), "isolcpus=9-11 nohz_full=9-11 rcu_nocbs=9-11 irqaffinity=0-8,12-15");
    assert_eq!(plan.derived().prefixes[0].numactl.as_deref(), Some("numactl --physcpubind=10 --membind=1"));
}

#[test]
fn nic_of_unknown_node_planned_is_not_taken_for_node_0() {
    let shape = Shape { nic_nodes: vec![-1], ..two_packages() };
    let first = plan(&shape, &Request::default());
    assert_eq!(first.nics[0].node, None);
    // Node 0 has CPU 0's core, which is not free.
    assert_eq!(first.nics[0].served_by_node, Some(1));
    assert!(first.nics[0].why.contains("unknown, not node 0"), "{}", first.nics[0].why);

    let mut facts = shape.facts();
    facts.nics[0].local_cpus = CpuSet::from_list("0-7").unwrap();
    let local = Plan::make(&facts, &Request::default()).unwrap();
    assert_eq!(local.nics[0].node, Some(0));
    facts.nics[0].upstream_node = Some(1);
    let upstream = Plan::make(&facts, &Request::default()).unwrap();
    assert_eq!(upstream.nics[0].node, Some(1));
    let forced = Plan::make(&facts, &Request { node: Some(0), ..Request::default() }).unwrap();
    assert_eq!((forced.nics[0].node, forced.nics[0].served_by_node), (None, Some(0)));
}

#[test]
fn nics_of_two_nodes_planned_keep_their_interrupts_and_follow_the_first() {
    let plan = plan(&Shape { nic_nodes: vec![1, 0], ..two_packages() }, &Request::default());
    let node_of_queues = |nic: &PlannedNic| plan.node_of(nic.irqs[0].cpu);
    assert_eq!((node_of_queues(&plan.nics[0]), node_of_queues(&plan.nics[1])), (Some(1), Some(0)));
    assert_eq!(plan.node_of(plan.app().iter().next().unwrap()), Some(1));
    assert!(plan.notes.iter().any(|note| note.starts_with("eth1 is served by another node")), "{:?}", plan.notes);
}

#[test]
fn nic_on_a_node_without_cpus_planned_is_served_by_the_nearest() {
    let plan = plan(&Shape { nic_nodes: vec![2], ..two_packages() }, &Request::default());
    assert_eq!((plan.nics[0].node, plan.nics[0].served_by_node), (Some(2), Some(0)));
}

#[test]
fn two_ports_of_one_device_planned_send_each_interrupt_to_one_cpu() {
    let mut facts = two_packages().facts();
    let other_port = NicFacts { interface: "eth0d1".to_owned(), ..facts.nics[0].clone() };
    facts.nics.push(other_port);
    let plan = Plan::make(&facts, &Request { irq_cpus: Some(2), ..Request::default() }).unwrap();
    assert_eq!(plan.nics[0].irqs, plan.nics[1].irqs);
    assert_eq!(plan.derived().irq.len(), 5);
}

#[test]
fn more_than_the_node_has_asked_is_an_error_that_counts() {
    let facts = two_packages().facts();
    let many = Plan::make(&facts, &Request { app_cpus: Some(5), irq_cpus: Some(0), ..Request::default() });
    let message = many.unwrap_err().to_string();
    for part in ["--app-cpus", "needs 5 CPUs", "node 1 has 4 free cores with 8 CPUs (8-15)", "--node"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let guest = GuestRequest { name: "big".to_owned(), vcpus: 2, memory_bytes: 64 << 30, node: None };
    let message =
        Plan::make(&facts, &Request { guests: vec![guest.clone()], ..Request::default() }).unwrap_err().to_string();
    assert!(message.contains("65536 MiB") && message.contains("4096 stay"), "{message}");
    let elsewhere = GuestRequest { node: Some(7), ..guest.clone() };
    let message =
        Plan::make(&facts, &Request { guests: vec![elsewhere], ..Request::default() }).unwrap_err().to_string();
    assert!(message.contains("guest big: node 7") && message.contains("0, 1"), "{message}");
    let twice = Request { guests: vec![guest.clone(), guest], ..Request::default() };
    assert!(matches!(Plan::make(&facts, &twice), Err(PlanError::SameName { .. })));
}

#[test]
fn plan_of_another_version_or_host_read_back_says_so() {
    let facts = two_packages().facts();
    let plan = Plan::make(&facts, &Request::default()).unwrap();
    let load = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Plan::load(file.path())
    };
    let text = plan.to_json();
    assert!(matches!(load("not json"), Err(PlanFileError::Shape { .. })));
    assert!(matches!(load("{}"), Err(PlanFileError::Shape { .. })));
    let newer = text.replacen("\"version\": 1", "\"version\": 2, \"more\": []", 1);
    assert!(matches!(load(&newer), Err(PlanFileError::OtherVersion { found: 2, .. })));
    let record = text.replacen("nearwire-plan", "nearwire-record", 1);
    assert!(matches!(load(&record), Err(PlanFileError::OtherSchema { .. })));
    let twice = text.replacen("\"0-7,12-15\"", "\"0-8,12-15\"", 1);
    assert!(matches!(load(&twice), Err(PlanFileError::Contradiction { .. })));
    let bell = text.replacen("the core of CPU 0", "\\u0007", 1);
    assert!(matches!(load(&bell), Err(PlanFileError::Contradiction { .. })));
    assert!(matches!(Plan::load("/nonexistent/plan.json"), Err(PlanFileError::Read { .. })));

    let smaller = Shape { packages: 1, ..two_packages() }.facts();
    let message = load(&text).unwrap().fits(&smaller.topology).unwrap_err().to_string();
    assert!(message.contains("CPUs 8-15") && message.contains("online: 0-7"), "{message}");
    let renumbered = Shape { adjacent: false, ..two_packages() }.facts();
    assert!(matches!(plan.fits(&renumbered.topology), Err(PlanFileError::OtherCores { .. })));
}

#[test]
fn guest_planned_tells_libvirt_its_pins_and_its_threads() {
    let guest = |vcpus| GuestRequest { name: "a".to_owned(), vcpus, memory_bytes: 1536 << 20, node: None };
    let even = plan(&two_packages(), &Request { guests: vec![guest(4)], ..Request::default() });
    let lines = &even.derived().guests[0];
    assert_eq!(lines.virsh[..2], ["virsh vcpupin a 0 8", "virsh vcpupin a 1 9"]);
    assert!(lines.xml.contains("<topology sockets='1' cores='2' threads='2'/>"), "{}", lines.xml);
    // 1.5 GiB is no whole number of GiB pages.
    assert_eq!((even.guests[0].page_bytes, even.guests[0].pages), (2 << 20, 768));
    assert_eq!(even.derived().boot_hugepages, ["hugepagesz=2M", "hugepages=1:768"]);
    let odd = plan(&two_packages(), &Request { guests: vec![guest(3)], ..Request::default() });
    assert_eq!(odd.guests[0].threads_per_core, 1);
    assert_eq!(odd.owner(11), Some(&Owner::IdleSibling));
}

#[test]
fn odd_names_drawn_are_escaped() {
    let mut facts = two_packages().facts();
    facts.nics[0].driver = Some("<script>&".to_owned());
    let svg = Plan::make(&facts, &Request::default()).unwrap().to_svg();
    assert!(svg.contains("&lt;script&gt;&amp;") && !svg.contains("<script>"));
}

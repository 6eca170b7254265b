//! Plans of the described hosts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use nearwire_host::Root;
use nearwire_host::plan::{HostFacts, Owner, Plan, PlanError, Request};
use nearwire_lab::host_tree::{HOSTS, HostTree, scratch_directory};

fn facts(tree: &HostTree, nics: &[&str]) -> Result<HostFacts, PlanError> {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    tree.write(directory.path()).unwrap();
    let nics: Vec<_> = nics.iter().map(|nic| (*nic).to_owned()).collect();
    HostFacts::read(&Root::directory(directory.path()).unwrap(), &nics)
}

fn plan(host: &str, nics: &[&str], request: &Request) -> Plan {
    Plan::make(&facts(&HostTree::named(host).unwrap(), nics).unwrap(), request).unwrap()
}

fn cpus(plan: &Plan, owner: &Owner) -> String {
    plan.shares.iter().find(|share| share.owner == *owner).unwrap().cpus.to_string()
}

/// The example of the `OpenNFP` deck, pages 29 to 32. Page 31 gives the OS (0,24), (1,25), "isolate
/// all except Host OS"; the virtio relay (2,26), (4,28); VM00 (8,32), (10,34); VM02 (12,36) and a
/// pair that is cut off in our copy; VM01 (16,40), (18,42); VM03 (20,44) and another such pair;
/// each of the four has 4 CPUs and 4 GB. Page 32 prints `isolcpus=2-23,26-47` and reserves 16384 pages
/// of 2 MB, which the kernel spreads evenly: 16 GB on the NIC's node, which is what the four need.
///
/// The deck goes along the CPU numbers VM00, VM02, VM01, VM03: that is the order asked for here.
#[test]
fn opennfp_host_planned_as_the_deck_asks_has_the_allocation_of_the_deck() {
    let guests = ["VM00:4:4G", "VM02:4:4G", "VM01:4:4G", "VM03:4:4G"].map(|guest| guest.parse().unwrap());
    let request = Request { os_cpus: Some(4), poller_cpus: 4, guests: guests.to_vec(), ..Request::default() };
    let plan = plan("opennfp", &["enp5s0np0"], &request);
    assert_eq!(cpus(&plan, &Owner::Os), "0-1,24-25");
    assert_eq!(cpus(&plan, &Owner::Poller), "2,4,26,28");
    let pins = |name: &str| {
        let guest = plan.guests.iter().find(|guest| guest.name == name).unwrap();
        guest.vcpus.iter().map(|pin| (pin.vcpu, pin.cpu)).collect::<Vec<_>>()
    };
    assert_eq!(pins("VM00"), [(0, 8), (1, 32), (2, 10), (3, 34)]);
    assert_eq!(pins("VM01"), [(0, 16), (1, 40), (2, 18), (3, 42)]);
    assert_eq!(pins("VM02"), [(0, 12), (1, 36), (2, 14), (3, 38)]);
    assert_eq!(pins("VM03"), [(0, 20), (1, 44), (2, 22), (3, 46)]);
    assert_eq!(plan.guests.len(), 4);
    let derived = plan.derived();
    assert!(derived.boot.contains(&"isolcpus=2-23,26-47".to_owned()), "{:?}", derived.boot);

    // All on the NIC's node, with memory of that node.
    let bytes: u64 = plan.guests.iter().map(|guest| guest.pages * guest.page_bytes).sum();
    assert_eq!(bytes, 16384 * (2 << 20) / 2);
    assert!(plan.guests.iter().all(|guest| guest.node == Some(0)));
    // Page 24: interrupts on CPUs that are not isolated, here the OS's of the NIC's node; page 25:
    // spread equally.
    assert_eq!(plan.irq().to_string(), "0,24");
    let on = |cpu| plan.nics[0].irqs.iter().filter(|irq| irq.queue.is_some() && irq.cpu == cpu).count();
    assert_eq!((on(0), on(24)), (4, 4));
    let emulators = plan.guests.iter().map(|guest| guest.emulator_cpus.to_string());
    assert!(emulators.into_iter().all(|cpus| cpus == "0,24"));
}

/// The guide's command line: `isolcpus=2,3 ... irqaffinity=0,1` on four CPUs.
#[test]
fn exanic_host_planned_isolates_the_cpus_of_the_guide() {
    let request = Request { app_cpus: Some(2), irq_cpus: Some(1), ..Request::default() };
    let plan = plan("exanic", &["enp1s0", "enp1s0d1"], &request);
    assert_eq!(plan.isolated().to_string(), "2-3");
    assert_eq!(plan.derived().boot.join(" "), "isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1");
    assert_eq!(plan.irq().to_string(), "1");
    // -1, and one node: known to be the only one, not known to be the NIC's.
    assert_eq!((plan.nics[0].node, plan.nics[0].served_by_node), (None, Some(0)));
    assert_eq!(plan.derived().irq.len(), 1);
}

/// "Both sets of cores should be on the same CPU NUMA node as the network device", on separate
/// cores (Busy Poll Sockets, tuning).
#[test]
fn busy_poll_host_planned_puts_interrupts_and_application_on_the_nics_node() {
    let plan = plan("busy-poll", &["enp129s0f0"], &Request::default());
    let of = |cpus: nearwire_host::CpuSet| cpus.iter().map(|cpu| plan.node_of(cpu)).collect::<Vec<_>>();
    assert_eq!(of(plan.irq()), [Some(1)]);
    assert_eq!(of(plan.app()), [Some(1)]);
    assert!(plan.irq().iter().all(|cpu| !plan.app().contains(cpu)));
    let words = "16 queues for CPU 8: ethtool -L enp129s0f0 combined 1";
    assert!(plan.notes.iter().any(|note| note.contains(words)), "{:?}", plan.notes);
}

#[test]
fn every_described_host_planned_by_default_gives_a_picture_and_a_text() {
    for (name, _) in HOSTS {
        let tree = HostTree::named(name).unwrap();
        let nics = facts(&tree, &["?"]).unwrap_err();
        let PlanError::UnknownInterface { existing, .. } = nics else { panic!("{name}: {nics}") };
        let nics: Vec<_> = existing.iter().map(String::as_str).collect();
        let plan = plan(name, &nics, &Request::default());
        assert_eq!(plan.app().len(), 1, "{name}");
        assert!(plan.to_text().contains("isolcpus="), "{name}");
        assert!(plan.to_svg().contains(&format!("\u{b7} {}", plan.nics[0].driver.as_deref().unwrap())), "{name}");
    }
}

#[test]
fn host_without_node_directory_planned_has_no_nodes() {
    let mut tree = HostTree::named("opennfp").unwrap().without("/sys/devices/system/node");
    for (cpu, node) in (0..48).flat_map(|cpu| [(cpu, 0), (cpu, 1)]) {
        tree = tree.without(&format!("/sys/devices/system/cpu/cpu{cpu}/node{node}"));
    }
    let facts = facts(&tree, &["enp5s0np0"]).unwrap();
    let plan = Plan::make(&facts, &Request::default()).unwrap();
    assert_eq!(plan.nics[0].served_by_node, None);
    assert_eq!(plan.derived().prefixes[0].numactl, None);
    assert_eq!(plan.app().len(), 1);
}

#[test]
fn host_with_offline_siblings_planned_uses_what_is_online() {
    let tree = HostTree::parse(&HOSTS[1].1.replacen("packages = 2", "packages = 2\noffline = [0, 26, 27]", 1)).unwrap();
    let facts = facts(&tree, &["enp5s0np0"]).unwrap();
    assert_eq!(facts.offline.to_string(), "0,26-27");
    let plan = Plan::make(&facts, &Request { poller_cpus: 3, ..Request::default() }).unwrap();
    // CPU 0 is away: the lowest core that is there is the OS's.
    assert_eq!(plan.owner(1), Some(&Owner::Os));
    assert_eq!(plan.owner(25), Some(&Owner::Os));
    // CPU 2 has lost its sibling, so that the pollers need the next core too.
    assert_eq!(cpus(&plan, &Owner::Poller), "2,4,28");
}

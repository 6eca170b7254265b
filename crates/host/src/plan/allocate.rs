//! Who gets what: the order is OS, interrupts, application, pollers, guests.

use std::collections::{BTreeMap, BTreeSet};

use super::floor::{Floor, Wish};
use super::guest::{check_memory, pages};
use super::nic::{Dealer, Place, place};
use super::{
    Asked, GuestRequest, HostFacts, Owner, Plan, PlanError, PlannedGuest, PlannedHost, PlannedNic, PlannedNode,
    Request, SCHEMA, Share, VERSION, VcpuPin,
};
use crate::CpuSet;

const LESS: &str = "ask for fewer, or name another node with --node";
const LESS_GUEST: &str = "give guests fewer virtual CPUs, or put one on another node (--guest NAME:VCPUS:MEM@NODE)";

/// A plan while it is made.
struct Making<'a> {
    facts: &'a HostFacts,
    request: &'a Request,
    floor: Floor,
    places: Vec<Place>,
    shares: Vec<Share>,
    notes: Vec<String>,
}

impl Plan {
    /// Allocates.
    ///
    /// # Errors
    /// The host has not what is asked for, or the request contradicts itself.
    pub fn make(facts: &HostFacts, request: &Request) -> Result<Self, PlanError> {
        if facts.topology.cpus().is_empty() {
            return Err(PlanError::NoCpus);
        }
        let mut making = Making::begin(facts, request)?;
        making.give_os()?;
        making.place_nics();
        let home = making.home();
        let asked = making.fill_in(home);
        making.give_irq(asked.irq_cpus)?;
        making.give_app(asked.app_cpus, home)?;
        making.give_poller(asked.poller_cpus, home)?;
        let pins = making.give_guests(home)?;
        making.give_rest();
        let nics = making.nics(asked.irq_cpus);
        let guests = making.guests(&pins);
        check_memory(facts, &guests)?;
        making.note(&nics);
        Ok(making.finish(asked, nics, guests))
    }
}

impl<'a> Making<'a> {
    fn begin(facts: &'a HostFacts, request: &'a Request) -> Result<Self, PlanError> {
        let floor = Floor::of(facts);
        let existing = floor.nodes();
        let everybody = request.node.map(|node| ("--node".to_owned(), node));
        let guests = request.guests.iter().filter_map(|guest| Some((format!("guest {}", guest.name), guest.node?)));
        for (who, node) in everybody.into_iter().chain(guests) {
            if !existing.contains(&node) {
                return Err(PlanError::UnknownNode { who, node, existing });
            }
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = request.guests.iter().find(|guest| !names.insert(&guest.name)) {
            return Err(PlanError::SameName { name: twice.name.clone() });
        }
        Ok(Self { facts, request, floor, places: Vec::new(), shares: Vec::new(), notes: Vec::new() })
    }

    fn share(&mut self, owner: Owner, cpus: impl IntoIterator<Item = u32>, why: String) {
        let cpus: CpuSet = cpus.into_iter().collect();
        if !cpus.is_empty() {
            self.shares.push(Share { owner, cpus, why });
        }
    }

    /// CPU 0's core, then one core of each package in turn while more are asked for.
    fn give_os(&mut self) -> Result<(), PlanError> {
        let mut packages: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, core) in self.floor.cores.iter().enumerate().rev() {
            packages.entry((core.node, core.package)).or_default().push(at);
        }
        let mut queues: Vec<Vec<usize>> = packages.into_values().collect();
        // Cores are in order of their CPUs: the one of the lowest CPU is the first.
        queues.sort_by_key(|queue| queue.last().copied());
        let wanted = self.request.os_cpus.map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX).max(1));
        let mut given = 0;
        while given < wanted {
            if queues.iter().all(Vec::is_empty) {
                let wish = Wish { who: "the OS", cpus: self.request.os_cpus.unwrap_or(1), node: None, advice: LESS };
                return self.floor.take_whole(&Owner::Os, &wish, false).map(|_| ());
            }
            for queue in &mut queues {
                if given < wanted
                    && let Some(at) = queue.pop()
                {
                    let cpus: Vec<u32> = self.floor.cores[at].cpus.iter().collect();
                    given += cpus.len();
                    self.floor.give(cpus, &Owner::Os);
                }
            }
        }
        Ok(())
    }

    fn place_nics(&mut self) {
        let place_one = |nic| place(self.facts, &self.floor, nic, self.request.node);
        self.places = self.facts.nics.iter().map(place_one).collect();
    }

    /// The node of everything that belongs near the NIC: the first one named counts.
    fn home(&self) -> Option<u32> {
        let first = self.places.first().and_then(|place| place.served_by);
        let roomy = || {
            self.floor
                .nodes()
                .into_iter()
                .max_by_key(|node| (self.floor.free(Some(*node)).len(), std::cmp::Reverse(*node)))
        };
        self.request.node.or(first).or_else(roomy)
    }

    /// The nodes that have a NIC to serve.
    fn nic_nodes(&self) -> BTreeSet<Option<u32>> {
        self.places.iter().map(|place| place.served_by).collect()
    }

    fn fill_in(&mut self, home: Option<u32>) -> Asked {
        let Request { poller_cpus, os_cpus, .. } = *self.request;
        let is_nfv = poller_cpus > 0 || !self.request.guests.is_empty();
        let app_cpus = self.request.app_cpus.unwrap_or_else(|| {
            let count = u32::from(!is_nfv);
            let why = if is_nfv { "pollers and guests do the work" } else { "one thread that waits for the NIC" };
            self.notes.push(format!("{count} application CPUs by default: {why}; --app-cpus says otherwise."));
            count
        });
        let irq_cpus = self.request.irq_cpus.unwrap_or_else(|| {
            let free = |node| self.floor.free(node).len();
            let needed = usize::try_from(app_cpus).unwrap_or(usize::MAX);
            let nodes = self.nic_nodes();
            let has_room = nodes.iter().all(|node| {
                let others = if *node == home { needed } else { 0 };
                free(*node) > others
            });
            let (count, why) = match (is_nfv, has_room) {
                (true, _) => (0, "the OS takes the interrupts, which pollers do not wait for"),
                (false, true) => (1, "a core of their own keeps interrupts off the application"),
                (false, false) => (0, "there is no core to spare, so the OS takes the interrupts"),
            };
            self.notes.push(format!("{count} interrupt CPUs by default: {why}; --irq-cpus says otherwise."));
            count
        });
        Asked { app_cpus, irq_cpus, poller_cpus, os_cpus }
    }

    fn give_irq(&mut self, cpus: u32) -> Result<(), PlanError> {
        for node in self.nic_nodes() {
            let names: Vec<_> = self
                .facts
                .nics
                .iter()
                .zip(&self.places)
                .filter(|(_, place)| place.served_by == node)
                .map(|(nic, _)| nic.interface.clone())
                .collect();
            let who = format!("interrupts of {} (--irq-cpus)", names.join(", "));
            let wish = Wish { who: &who, cpus, node, advice: LESS };
            let taken = self.floor.take_alone(&Owner::Irq, &wish)?;
            let why = format!(
                "{} for the interrupts of {}{}; not isolated, because the kernel and irqbalance keep interrupts off isolated CPUs",
                cores(taken.len()),
                names.join(", "),
                on(node)
            );
            self.share(Owner::Irq, taken, why);
        }
        Ok(())
    }

    fn give_app(&mut self, cpus: u32, home: Option<u32>) -> Result<(), PlanError> {
        let wish = Wish { who: "the application (--app-cpus)", cpus, node: home, advice: LESS };
        let taken = self.floor.take_alone(&Owner::App, &wish)?;
        let why = format!("{}{} for threads that must not wait, one thread a CPU", cores(taken.len()), self.near(home));
        self.share(Owner::App, taken, why);
        Ok(())
    }

    fn give_poller(&mut self, cpus: u32, home: Option<u32>) -> Result<(), PlanError> {
        let wish = Wish { who: "pollers (--poller-cpus)", cpus, node: home, advice: LESS };
        let taken = self.floor.take_whole(&Owner::Poller, &wish, false)?;
        let why = format!(
            "whole cores{} for threads that poll without pause, so that only they share a core",
            self.near(home)
        );
        self.share(Owner::Poller, taken, why);
        Ok(())
    }

    fn give_guests(&mut self, home: Option<u32>) -> Result<Vec<Vec<u32>>, PlanError> {
        let mut pins = Vec::new();
        for guest in &self.request.guests {
            let GuestRequest { name, vcpus, node, .. } = guest;
            let node = node.or(home);
            let who = format!("guest {name}");
            let wish = Wish { who: &who, cpus: *vcpus, node, advice: LESS_GUEST };
            let owner = Owner::Guest { guest: name.clone() };
            let taken = self.floor.take_whole(&owner, &wish, true)?;
            let has_siblings = self.floor.cores.iter().any(|core| core.cpus.len() > 1);
            let siblings =
                if has_siblings { ", both siblings of each, so that no other guest shares them" } else { "" };
            let why = format!("whole cores{}{siblings}", self.near(node));
            self.share(owner, taken.iter().copied(), why);
            pins.push(taken);
        }
        Ok(pins)
    }

    /// What nobody asked for goes to the OS, unless it was told how much it gets.
    fn give_rest(&mut self) {
        let free = self.floor.cpus_of(&self.floor.free(None));
        let limited = self.request.os_cpus.is_some();
        self.floor.give(free.iter(), &if limited { Owner::Spare } else { Owner::Os });
        let owned = |owner: Owner| -> Vec<u32> {
            let all = self.floor.cores.iter().flat_map(|core| core.cpus.iter());
            all.filter(|cpu| self.floor.owner(*cpu) == Some(&owner)).collect()
        };
        let (os, idle, spare) = (owned(Owner::Os), owned(Owner::IdleSibling), owned(Owner::Spare));
        let first = self.floor.cores.first().map(|core| core.cpus.to_string()).unwrap_or_default();
        let why = if limited {
            format!(
                "the core of CPUs {first}, where the kernel starts its own work, then one core of each package in turn until there are as many as asked"
            )
        } else {
            format!("the core of CPUs {first}, where the kernel starts its own work, and all that nobody asks for")
        };
        let os: CpuSet = os.into_iter().collect();
        self.shares.insert(0, Share { owner: Owner::Os, cpus: os, why });
        self.share(
            Owner::IdleSibling,
            idle,
            "siblings of CPUs that must not wait: whatever ran here would slow them down".to_owned(),
        );
        self.share(
            Owner::Spare,
            spare,
            "asked for by nobody and kept from the OS, which has as many as asked".to_owned(),
        );
    }

    fn near(&self, node: Option<u32>) -> String {
        let nic = self.facts.nics.iter().zip(&self.places).find(|(_, place)| place.served_by == node);
        match (node, nic) {
            (Some(node), Some((nic, _))) => format!(" on node {node}, which serves {}", nic.interface),
            _ => on(node),
        }
    }

    /// Where a node's queues interrupt: its own CPUs for it, else the OS there, else the OS anywhere.
    fn targets(&self, node: Option<u32>) -> Vec<u32> {
        let owned = |owner: &Owner, node: Option<u32>| -> Vec<u32> {
            let there = self.floor.cores.iter().filter(|core| node.is_none() || core.node == node);
            let cpus = there.flat_map(|core| core.cpus.iter());
            cpus.filter(|cpu| self.floor.owner(*cpu) == Some(owner)).collect()
        };
        let choices = [owned(&Owner::Irq, node), owned(&Owner::Os, node), owned(&Owner::Os, None)];
        let mut targets = choices.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_default();
        // CPU 0 has enough to do: its core comes last.
        let burdened = self.floor.cores.first().map(|core| core.cpus.clone()).unwrap_or_default();
        targets.sort_by_key(|cpu| (burdened.contains(*cpu), *cpu));
        targets
    }

    fn nics(&self, irq_cpus: u32) -> Vec<PlannedNic> {
        let os = self.shares.first().and_then(|share| share.cpus.iter().next()).unwrap_or(0);
        let mut dealer = Dealer::default();
        let plan_one = |(nic, place): (&super::NicFacts, &Place)| {
            let targets = self.targets(place.served_by);
            let set: CpuSet = targets.iter().copied().collect();
            let whose = if irq_cpus > 0 { "their own CPUs" } else { "the OS's CPUs" };
            PlannedNic {
                interface: nic.interface.clone(),
                driver: nic.driver.clone(),
                bus_address: nic.bus_address.clone(),
                node: place.node,
                served_by_node: place.served_by,
                why: place.why.clone(),
                irq_why: format!(
                    "one CPU an interrupt, queues in turn over {whose} {set}, others to CPU {os} of the OS"
                ),
                irqs: dealer.deal(nic, place.served_by, &targets, os),
            }
        };
        self.facts.nics.iter().zip(&self.places).map(plan_one).collect()
    }

    fn guests(&self, pins: &[Vec<u32>]) -> Vec<PlannedGuest> {
        let plan_one = |(guest, cpus): (&GuestRequest, &Vec<u32>)| {
            let node = cpus.first().and_then(|cpu| self.facts.topology.cpu(*cpu)?.node);
            let (page_bytes, pages, memory_why) = pages(self.facts, guest.memory_bytes);
            PlannedGuest {
                name: guest.name.clone(),
                vcpus: (0..).zip(cpus).map(|(vcpu, cpu)| VcpuPin { vcpu, cpu: *cpu }).collect(),
                threads_per_core: self.threads_per_core(cpus),
                emulator_cpus: self.emulator_cpus(node),
                node,
                memory_bytes: guest.memory_bytes,
                page_bytes,
                pages,
                memory_why,
            }
        };
        self.request.guests.iter().zip(pins).map(plan_one).collect()
    }

    /// As many as every core of the guest has; 1 where its cores differ.
    fn threads_per_core(&self, cpus: &[u32]) -> u32 {
        let mine: CpuSet = cpus.iter().copied().collect();
        let cores = self.floor.cores.iter().map(|core| core.cpus.iter().filter(|cpu| mine.contains(*cpu)).count());
        let counts: BTreeSet<usize> = cores.filter(|count| *count > 0).collect();
        match counts.first() {
            Some(count) if counts.len() == 1 => u32::try_from(*count).unwrap_or(1),
            _ => 1,
        }
    }

    /// The OS's CPUs of the guest's node, or all it has.
    fn emulator_cpus(&self, node: Option<u32>) -> CpuSet {
        let os = self.shares.first().map(|share| share.cpus.clone()).unwrap_or_default();
        let there: CpuSet =
            os.iter().filter(|cpu| self.facts.topology.cpu(*cpu).is_some_and(|cpu| cpu.node == node)).collect();
        if there.is_empty() { os } else { there }
    }

    fn note(&mut self, nics: &[PlannedNic]) {
        for nic in nics {
            let name = &nic.interface;
            let queues: BTreeSet<_> = nic.irqs.iter().filter_map(|irq| irq.queue).collect();
            let targets: BTreeSet<_> = nic.irqs.iter().filter(|irq| irq.queue.is_some()).map(|irq| irq.cpu).collect();
            if nic.irqs.is_empty() {
                self.notes.push(format!("{name} has no interrupts of its own, so there is nothing to place for it."));
            } else if queues.is_empty() {
                self.notes.push(format!("No interrupt of {name} has the name of a queue: bring it up and plan again, or place its queues by hand."));
            } else if queues.len() > targets.len() {
                let (queues, targets) = (queues.len(), targets.len());
                self.notes.push(format!("{name} has {queues} queues for {targets} CPUs: ethtool -L {name} combined {targets} leaves one queue a CPU."));
            }
        }
        let isolated = self.shares.iter().filter(|share| share.owner.is_isolated()).flat_map(|share| share.cpus.iter());
        let isolated: CpuSet = isolated.collect();
        let now: CpuSet = self.facts.topology.cpus().iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.id).collect();
        if !now.is_empty() && now != isolated {
            self.notes.push(format!("CPUs {now} are isolated now; this plan isolates {isolated}."));
        }
        if !isolated.is_empty() && !self.facts.has_nohz_full {
            self.notes.push("This kernel was built without CONFIG_NO_HZ_FULL and ignores nohz_full=.".to_owned());
        }
    }

    fn finish(self, asked: Asked, nics: Vec<PlannedNic>, guests: Vec<PlannedGuest>) -> Plan {
        let node = |(node, facts): (&u32, &super::NodeFacts)| {
            let cpus = self.facts.topology.cpus().iter().filter(|cpu| cpu.node == Some(*node));
            PlannedNode { node: *node, cpus: cpus.map(|cpu| cpu.id).collect(), memory_bytes: facts.memory_bytes }
        };
        Plan {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            host: PlannedHost {
                nodes: self.facts.nodes.iter().map(node).collect(),
                offline: self.facts.offline.clone(),
                cores: self.floor.cores,
            },
            asked,
            shares: self.shares,
            nics,
            guests,
            notes: self.notes,
        }
    }
}

fn on(node: Option<u32>) -> String {
    node.map_or(String::new(), |node| format!(" on node {node}"))
}

fn cores(count: usize) -> String {
    if count == 1 { "a core of its own".to_owned() } else { format!("{count} cores, one CPU of each,") }
}

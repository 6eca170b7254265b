//! Who gets what: the order is OS, interrupts, application, pollers, guests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::floor::{Floor, Near, Wish};
use super::guest::check_memory;
use super::nic::{Place, place};
use super::{Asked, GuestRequest, HostFacts, Owner, Plan, PlanError, PlannedCore, Request, Share};
use crate::CpuSet;

const LESS: &str = "ask for fewer, or name another node with --node";
const LESS_GUEST: &str = "give guests fewer virtual CPUs, or put one on another node (--guest NAME:VCPUS:MEM@NODE)";

/// A plan while it is made.
pub(super) struct Making<'a> {
    pub facts: &'a HostFacts,
    pub request: &'a Request,
    pub floor: Floor,
    pub places: Vec<Place>,
    pub shares: Vec<Share>,
    pub notes: Vec<String>,
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
        making.give_irq(&asked, home)?;
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
        let floor = Floor::of(facts, request.is_smt_off);
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

    /// The lowest CPU's core, which is CPU 0's where that is online, then one core of each package in turn while more are
    /// asked for, slow cores and those of a low rank first.
    fn give_os(&mut self) -> Result<(), PlanError> {
        let mut packages: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, core) in self.floor.cores.iter().enumerate().rev() {
            packages.entry((core.node, core.place())).or_default().push(at);
        }
        let mut queues: Vec<Vec<usize>> = packages.into_values().collect();
        for queue in &mut queues {
            // The last one is taken first.
            let core = |at: &usize| &self.floor.cores[*at];
            queue.sort_by_key(|at| Reverse((*at != 0, *at != 0 && !core(at).is_slow, core(at).rank, *at)));
        }
        // Cores are in order of their CPUs: the one of the lowest CPU is the first.
        queues.sort_by_key(|queue| queue.iter().min().copied());
        let wanted = self.request.os_cpus.map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX).max(1));
        let mut given = 0;
        while given < wanted {
            if queues.iter().all(Vec::is_empty) {
                let cpus = self.request.os_cpus.unwrap_or(1);
                let wish = Wish { who: "the OS", cpus, node: None, advice: LESS, near: Near::Later(0) };
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
        // A node without memory would have all of it elsewhere.
        let has_memory = |node: &u32| self.facts.nodes.get(node).is_none_or(|facts| facts.memory_bytes != Some(0));
        let room = |node: &u32| (has_memory(node), self.floor.free(Some(*node)).len(), Reverse(*node));
        let roomy = || self.floor.nodes().into_iter().max_by_key(room);
        self.request.node.or(first).or_else(roomy)
    }

    /// The nodes that have a NIC to serve: that of the application where no NIC is named.
    fn nic_nodes(&self, home: Option<u32>) -> BTreeSet<Option<u32>> {
        if self.places.is_empty() {
            return BTreeSet::from([home]);
        }
        self.places.iter().map(|place| place.served_by).collect()
    }

    fn fill_in(&mut self, home: Option<u32>) -> Asked {
        let Request { poller_cpus, os_cpus, .. } = *self.request;
        let is_nfv = poller_cpus > 0 || !self.request.guests.is_empty();
        let app_cpus = self.request.app_cpus.unwrap_or_else(|| {
            let (count, why) = match () {
                () if is_nfv => (0, "pollers and guests do the work"),
                () if self.floor.free(home).is_empty() => (0, "there is no core beside the OS's"),
                () => (1, "one thread waits for the NIC"),
            };
            self.notes.push(format!(
                "CPUs for the application: {count} by default, because {why}; --app-cpus says otherwise."
            ));
            count
        });
        let irq_cpus = self.request.irq_cpus.unwrap_or_else(|| {
            let free = |node| self.floor.free(node).len();
            let needed = usize::try_from(app_cpus).unwrap_or(usize::MAX);
            let nodes = self.nic_nodes(home);
            let has_room = nodes.iter().all(|node| {
                let others = if *node == home { needed } else { 0 };
                free(*node) > others
            });
            let (count, why) = match (is_nfv, has_room) {
                _ if self.places.is_empty() => (0, "no interface is named (--nic)"),
                (true, _) => (0, "the OS takes the interrupts, which pollers do not wait for"),
                (false, true) => (1, "a core of their own keeps interrupts off the application"),
                (false, false) => (0, "there is no core to spare, so the OS takes the interrupts"),
            };
            self.notes
                .push(format!("CPUs for interrupts: {count} by default, because {why}; --irq-cpus says otherwise."));
            count
        });
        Asked { app_cpus, irq_cpus, poller_cpus, os_cpus }
    }

    fn give_irq(&mut self, asked: &Asked, home: Option<u32>) -> Result<(), PlanError> {
        for node in self.nic_nodes(home) {
            let names: Vec<_> = self
                .facts
                .nics
                .iter()
                .zip(&self.places)
                .filter(|(_, place)| place.served_by == node)
                .map(|(nic, _)| nic.interface.clone())
                .collect();
            let whose = if names.is_empty() { "any interface".to_owned() } else { names.join(", ") };
            let who = format!("interrupts of {whose} (--irq-cpus)");
            let later = if node == home { usize::try_from(asked.app_cpus).unwrap_or(usize::MAX) } else { 0 };
            let wish = Wish { who: &who, cpus: asked.irq_cpus, node, advice: LESS, near: Near::Later(later) };
            let taken = self.floor.take_alone(&Owner::Irq, &wish)?;
            let why = format!(
                "{} for the interrupts of {}{}; not isolated, because the kernel and irqbalance keep interrupts off isolated CPUs",
                cores(taken.len()),
                whose,
                on(node)
            );
            self.share(Owner::Irq, taken, why);
        }
        Ok(())
    }

    fn give_app(&mut self, cpus: u32, home: Option<u32>) -> Result<(), PlanError> {
        let wish = Wish { who: "the application (--app-cpus)", cpus, node: home, advice: LESS, near: Near::Irq };
        let taken = self.floor.take_alone(&Owner::App, &wish)?;
        let why = format!(
            "{}{}{} for threads that must not wait, one thread a CPU",
            cores(taken.len()),
            self.near(home),
            self.kind(&taken)
        );
        self.share(Owner::App, taken, why);
        Ok(())
    }

    fn give_poller(&mut self, cpus: u32, home: Option<u32>) -> Result<(), PlanError> {
        let wish = Wish { who: "pollers (--poller-cpus)", cpus, node: home, advice: LESS, near: Near::Irq };
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
            let wish = Wish { who: &who, cpus: *vcpus, node, advice: LESS_GUEST, near: Near::Irq };
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
        let first = self.floor.cores.first().and_then(|core| core.cpus.iter().next()).unwrap_or(0);
        let why = if limited {
            format!(
                "the core of CPU {first}, where the kernel starts its own work, then one core of each package in turn until there are as many as asked"
            )
        } else {
            format!("the core of CPU {first}, where the kernel starts its own work, and all that nobody asks for")
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

    /// What the reader may want to know of an application's cores on a host whose cores or caches differ.
    fn kind(&self, cpus: &[u32]) -> String {
        let mine = || self.floor.cores.iter().filter(|core| cpus.iter().any(|cpu| core.cpus.contains(*cpu)));
        let has_slow = self.floor.cores.iter().any(|core| core.is_slow);
        let speed = match (has_slow, mine().filter(|core| core.is_slow).count()) {
            (false, _) => String::new(),
            (true, 0) => ", of the faster kind".to_owned(),
            (true, slow) => format!(", {slow} of the slower kind, as no others are free"),
        };
        // Slower cores have lower ranks anyway.
        let ranks: BTreeSet<u32> = self.floor.cores.iter().filter(|core| !core.is_slow).map(|core| core.rank).collect();
        let rank = match mine().map(|core| core.rank).max() {
            _ if ranks.len() <= 1 => "",
            mine if mine.as_ref() == ranks.last() => ", with the core that the firmware ranks highest",
            _ => ", ranked highest by the firmware of those that are free there",
        };
        let cache = match count_caches(mine()) {
            _ if cpus.len() <= 1 || count_caches(self.floor.cores.iter()) <= 1 => String::new(),
            1 => ", under one cache".to_owned(),
            count => format!(", under {count} caches, as no single one has enough"),
        };
        speed + rank + &cache
    }

    fn near(&self, node: Option<u32>) -> String {
        let nic = self.facts.nics.iter().zip(&self.places).find(|(_, place)| place.served_by == node);
        match (node, nic) {
            (Some(node), Some((nic, _))) => format!(" on node {node} near {}", nic.interface),
            _ => on(node),
        }
    }
}

fn count_caches<'c>(cores: impl Iterator<Item = &'c PlannedCore>) -> usize {
    cores.map(|core| core.cache_first).collect::<BTreeSet<_>>().len()
}

fn on(node: Option<u32>) -> String {
    node.map_or(String::new(), |node| format!(" on node {node}"))
}

fn cores(count: usize) -> String {
    if count == 1 { "a core of its own".to_owned() } else { format!("{count} cores, one CPU of each,") }
}

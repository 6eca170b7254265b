//! What follows from the owners: interrupts, guests' pins and memory, notes.

use std::collections::BTreeSet;

use super::allocate::Making;
use super::guest::pages;
use super::nic::{Dealer, Place};
use super::{
    Asked, GuestRequest, Owner, Plan, PlannedGuest, PlannedHost, PlannedNic, PlannedNode, SCHEMA, VERSION, VcpuPin,
    in_words,
};
use crate::CpuSet;

impl Making<'_> {
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

    pub(super) fn nics(&self, irq_cpus: u32) -> Vec<PlannedNic> {
        let os = self.shares.first().and_then(|share| share.cpus.iter().next()).unwrap_or(0);
        let mut dealer = Dealer::default();
        let plan_one = |(nic, place): (&super::NicFacts, &Place)| {
            let targets = self.targets(place.served_by);
            let set: CpuSet = targets.iter().copied().collect();
            let whose = if irq_cpus > 0 { "what interrupts have of their own" } else { "the OS's" };
            PlannedNic {
                interface: nic.interface.clone(),
                driver: nic.driver.clone(),
                bus_address: nic.bus_address.clone(),
                node: place.node,
                served_by_node: place.served_by,
                why: place.why.clone(),
                irq_why: format!(
                    "one CPU an interrupt, queues in turn over {whose}, {}, others to CPU {os} of the OS",
                    in_words(&set)
                ),
                irqs: dealer.deal(nic, place.served_by, &targets, os),
            }
        };
        self.facts.nics.iter().zip(&self.places).map(plan_one).collect()
    }

    pub(super) fn guests(&self, pins: &[Vec<u32>]) -> Vec<PlannedGuest> {
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

    /// What the reader should know of what the plan could not choose.
    pub(super) fn note(&mut self, nics: &[PlannedNic]) {
        if let [first, others @ ..] = nics {
            for other in others.iter().filter(|other| other.served_by_node != first.served_by_node) {
                let (near, far) = (&first.interface, &other.interface);
                self.notes.push(format!(
                    "{far} is served by another node than {near}: its interrupts stay there, everything else is near {near}, \
                     which was named first."
                ));
            }
        }
        if nics.is_empty() {
            self.notes.push(
                "No interface is named (--nic): the node is the one with the most free cores, and no interrupt is placed.".to_owned(),
            );
        }
        for nic in self.facts.nics.iter().filter(|nic| nic.is_not_copied) {
            self.notes.push(format!(
                "The copy has no files of {} in /sys/class/net: its node is not known, and its interrupts only as far as /proc/interrupts names them.",
                nic.interface
            ));
        }
        for nic in nics {
            let name = &nic.interface;
            let queues: BTreeSet<_> = nic.irqs.iter().filter_map(|irq| irq.queue).collect();
            let targets: CpuSet = nic.irqs.iter().filter(|irq| irq.queue.is_some()).map(|irq| irq.cpu).collect();
            if nic.irqs.is_empty()
                && self.facts.nics.iter().any(|facts| facts.interface == *name && facts.is_not_copied)
            {
                self.notes
                    .push(format!("Which interrupts {name} has was not copied, so there is nothing to place for it."));
            } else if nic.irqs.is_empty() {
                self.notes.push(format!("{name} has no interrupts of its own, so there is nothing to place for it."));
            } else if queues.is_empty() {
                self.notes.push(format!("No interrupt of {name} has the name of a queue: bring it up and plan again, or place its queues by hand."));
            } else if queues.len() > targets.len() {
                let queues = queues.len();
                self.notes.push(format!(
                    "{name} has {queues} queues for {}: ethtool -L {name} combined {} leaves one queue a CPU.",
                    in_words(&targets),
                    targets.len()
                ));
            }
        }
        let isolated = self.shares.iter().filter(|share| share.owner.is_isolated()).flat_map(|share| share.cpus.iter());
        let isolated: CpuSet = isolated.collect();
        let now: CpuSet = self.facts.topology.cpus().iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.id).collect();
        if !now.is_empty() && now != isolated {
            self.notes.push(format!("CPUs {now} are isolated now; this plan isolates {isolated}."));
        }
        if !isolated.is_empty() {
            match self.facts.has_nohz_full {
                Some(true) => {}
                Some(false) => self
                    .notes
                    .push("This kernel was built without CONFIG_NO_HZ_FULL and ignores nohz_full=.".to_owned()),
                None => self.notes.push(
                    "Whether this kernel knows nohz_full= was not copied (/sys/devices/system/cpu/nohz_full)."
                        .to_owned(),
                ),
            }
        }
        self.note_smt();
        self.note_command_line();
    }

    /// Siblings with work, which SMT switched off would take away.
    fn note_smt(&mut self) {
        let gone = &self.floor.gone;
        if !gone.is_empty() {
            self.notes.push(format!("CPUs {gone} get no work: they go offline when SMT is off (cpu.smt, nosmt)."));
        }
        let second = self.floor.cores.iter().flat_map(|core| core.cpus.iter().skip(1));
        let works =
            |cpu: &u32| matches!(self.floor.owner(*cpu), Some(Owner::Poller | Owner::Guest { .. } | Owner::App));
        let working: CpuSet = second.filter(works).collect();
        if !working.is_empty() {
            self.notes.push(format!(
                "CPUs {working} are second threads of cores and have work: nosmt or cpu.smt=off would take them away; \
                 --smt-off plans without them."
            ));
        }
    }

    /// Words of the running kernel that the plan's words replace. Twice the same option counts in different ways: of two
    /// `isolcpus=` the kernel ignores one that differs (`housekeeping_setup` of `kernel/sched/isolation.c`).
    fn note_command_line(&mut self) {
        const OPTIONS: [&str; 4] = ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"];
        let Some(line) = &self.facts.command_line else { return };
        let is_ours = |word: &&str| word.split_once('=').is_some_and(|(option, _)| OPTIONS.contains(&option));
        let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "--").filter(is_ours).collect();
        if !words.is_empty() {
            let words: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
            self.notes.push(format!("The running kernel was started with {words}: the plan's words take their place."));
        }
    }

    /// `managed_irq,domain` of `isolcpus=managed_irq,domain,2-7`.
    fn isolcpus_flags(&self) -> Option<String> {
        let line = self.facts.command_line.as_deref()?;
        let words = line.split_whitespace().take_while(|word| *word != "--");
        let value = words.filter_map(|word| word.strip_prefix("isolcpus=")).last()?;
        crate::export::isolcpus_flags(value)
    }

    pub(super) fn finish(self, asked: Asked, nics: Vec<PlannedNic>, guests: Vec<PlannedGuest>) -> Plan {
        let node = |(node, facts): (&u32, &super::NodeFacts)| {
            let cores = self.floor.cores.iter().filter(|core| core.node == Some(*node));
            PlannedNode {
                node: *node,
                cpus: cores.flat_map(|core| core.cpus.iter()).collect(),
                memory_bytes: facts.memory_bytes,
            }
        };
        Plan {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            host: PlannedHost {
                nodes: self.facts.nodes.iter().map(node).collect(),
                offline: self.facts.offline.iter().chain(self.floor.gone.iter()).collect(),
                isolcpus_flags: self.isolcpus_flags(),
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

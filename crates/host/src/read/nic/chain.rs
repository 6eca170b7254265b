//! The chain that a received frame takes: flow rule, queue, interrupt, CPU. Each link may look right alone.

use std::collections::{BTreeMap, BTreeSet};

use nearwire_sys::ethtool::FlowRule;

use super::Nic;
use super::netlink_answers::owner;
use super::question::{FlowRules, Indirection};
use crate::read::interrupts::{handler, irq_names, queue_of};
use crate::topology::Topology;
use crate::{CpuSet, Reading};

/// What a whole chain reads as.
pub(super) const WHOLE: &str = "whole";
/// More faults, or rules, than these are counted only.
const TOLD: usize = 4;
/// In the names of interrupts that only tell that frames were sent.
const OF_SENDING: [&str; 2] = ["-tx-", "output"];

/// A queue that receives, and its interrupt.
struct Receiver {
    /// `rx-0 tx-0`.
    queue: String,
    number: u32,
    irq: u32,
}

/// What the CPU of an interrupt is compared with.
struct Places {
    near: CpuSet,
    isolated: CpuSet,
    kept: CpuSet,
}

/// Which queues the hash brings flows to; `None` where that is not known.
type Hashed = Option<BTreeSet<u32>>;

/// The rules that bring flows to a queue of this function.
type RulesOf<'a> = BTreeMap<u32, Vec<&'a FlowRule>>;

impl Nic<'_> {
    /// `whole`, or what is wrong: queues whose interrupts share a CPU, may go to several, or go to one that is the program's or far
    /// from the device, those first that a rule brings flows to; and flows that are brought to queues that do not receive.
    /// A queue that neither a rule nor the hash brings flows to disturbs nobody.
    pub(super) fn chain(&self) -> Reading {
        let receivers = match self.receivers() {
            Ok(receivers) => receivers,
            Err(reading) => return reading,
        };
        let rules = self.answer(&self.answers.flow_rules);
        let rules_of = rules.map_or_else(|_| RulesOf::new(), by_queue);
        let hashed = self.hashed(rules.ok());
        let mut faults = match self.faults_of(&receivers, &rules_of, &hashed) {
            Ok(faults) => faults,
            Err(reading) => return reading,
        };
        let is_there = |queue: &u32| receivers.iter().any(|receiver| receiver.number == *queue);
        faults.extend(rules_of.iter().filter(|(queue, _)| !is_there(queue)).map(|(queue, rules)| {
            (true, format!("{}: queue {queue} has no interrupt to receive by", in_words(rules)))
        }));
        let gone: CpuSet = hashed.iter().flatten().copied().filter(|queue| !is_there(queue)).collect();
        // Names of interrupts may count from another number than queues do.
        if !gone.is_empty() && self.receivers_by_kernel().is_ok() {
            faults
                .push((false, format!("the hash brings flows to queue {gone}, which has no interrupt to receive by")));
        }
        if receivers.len() > 1 && self.offload(&["rx-ntuple-filter"]).as_value() == Some("off") {
            faults.push((false, "no rule can bring a flow to a queue while ntuple is off".to_owned()));
        }
        // Sorting keeps the order of the queues.
        faults.sort_by_key(|(is_steered, _)| !is_steered);
        match rules {
            Err(Reading::NeedsRoot) if faults.is_empty() => Reading::NeedsRoot,
            Err(Reading::Unknown { why }) if faults.is_empty() => Reading::unknown(format!(
                "nothing is wrong with the queues, and the rules for flows are not known: {why}"
            )),
            _ if faults.is_empty() => Reading::value(WHOLE),
            _ => Reading::Value(first_of(faults.into_iter().map(|(_, fault)| fault).collect(), "; ", "; and ")),
        }
    }

    /// What is wrong with each queue, and whether a rule brings flows to it.
    fn faults_of(
        &self,
        receivers: &[Receiver],
        rules_of: &RulesOf<'_>,
        hashed: &Hashed,
    ) -> Result<Vec<(bool, String)>, Reading> {
        let near = self.device_file("local_cpulist").as_value().and_then(|list| CpuSet::from_list(list).ok());
        let places =
            Places { near: near.unwrap_or_default(), isolated: Topology::isolated(self.root), kept: self.kept.clone() };
        let mut faults = Vec::new();
        let mut queue_of_cpu = BTreeMap::new();
        for receiver in receivers {
            let rules = rules_of.get(&receiver.number);
            let is_hashed = hashed.as_ref().is_none_or(|hashed| hashed.contains(&receiver.number));
            if rules.is_none() && !is_hashed {
                continue;
            }
            let queue = &receiver.queue;
            let name = rules.map_or_else(|| queue.clone(), |rules| format!("{} to {queue}", in_words(rules)));
            let cpus = self.effective(receiver.irq)?;
            let mut told = match (cpus.len(), cpus.iter().next()) {
                (1, Some(cpu)) => {
                    let other = queue_of_cpu.insert(cpu, queue.clone());
                    let shared = other.map(|other| format!("{other} and {name} share CPU {cpu}"));
                    places.faults(&name, receiver.irq, cpu).into_iter().chain(shared).collect()
                }
                _ => vec![format!("{name}: interrupt {} may go to CPUs {cpus}", receiver.irq)],
            };
            faults.extend(told.drain(..).map(|fault| (rules.is_some(), fault)));
        }
        Ok(faults)
    }

    /// What the table of the hash says, unless tables count too that are not known: of groups that rules bring flows to.
    fn hashed(&self, rules: Option<&FlowRules>) -> Hashed {
        let table = self.answer(&self.answers.indirection).ok().filter(|table| !table.queues.is_empty())?;
        let is_known =
            |found: &FlowRules| found.rules.iter().all(|rule| found.group_queues(rule).is_some() || !is_of_group(rule));
        rules.is_none_or(is_known).then(|| table.queues.iter().copied().collect())
    }

    fn effective(&self, irq: u32) -> Result<CpuSet, Reading> {
        let path = format!("/proc/irq/{irq}/effective_affinity_list");
        CpuSet::from_list(&self.root.read(&path)?).map_err(|error| Reading::unknown(format!("{path}: {error}")))
    }

    /// The queues that receive, by what the kernel says, else by the names of their interrupts.
    fn receivers(&self) -> Result<Vec<Receiver>, Reading> {
        let by_kernel = self.receivers_by_kernel();
        match by_kernel {
            Err(Reading::Unknown { .. } | Reading::Unsupported) => {
                let named = self.receivers_by_name();
                if named.is_empty() { by_kernel } else { Ok(named) }
            }
            told => told,
        }
    }

    fn receivers_by_kernel(&self) -> Result<Vec<Receiver>, Reading> {
        let polling = self.answer(&self.answers.polling).map_err(Clone::clone)?;
        let mut receivers = Vec::new();
        for napi in &polling.instances {
            let numbers = napi.queues.iter().filter_map(|queue| queue.strip_prefix("rx-")?.parse().ok());
            let Some(number) = numbers.into_iter().next() else { continue };
            let queue = owner(napi);
            let Some(irq) = napi.irq.and_then(|irq| u32::try_from(irq).ok()) else {
                return Err(Reading::unknown(format!(
                    "the driver does not tell the interrupt of {queue}; see /proc/interrupts"
                )));
            };
            receivers.push(Receiver { queue, number, irq });
        }
        if receivers.is_empty() { Err(Reading::Unsupported) } else { Ok(receivers) }
    }

    /// The interrupts of the device whose names have a queue in them.
    fn receivers_by_name(&self) -> Vec<Receiver> {
        let irqs = self.own_or_named_irqs().unwrap_or_default();
        if irqs.is_empty() {
            return Vec::new();
        }
        let names = irq_names(&self.root.read("/proc/interrupts").unwrap_or_default());
        let receiver = |irq| {
            let name = names.get(&irq).cloned().or_else(|| handler(self.root, irq))?;
            let sends = OF_SENDING.iter().any(|word| name.contains(word));
            let number = queue_of(&name).filter(|_| !sends)?;
            Some(Receiver { queue: format!("rx-{number}"), number, irq })
        };
        irqs.into_iter().filter_map(receiver).collect()
    }
}

impl Places {
    fn faults(&self, name: &str, irq: u32, cpu: u32) -> Vec<String> {
        let is_far = !self.near.is_empty() && !self.near.contains(cpu);
        let far = is_far.then(|| format!("{name}: CPU {cpu} is not near the device"));
        let whose = match () {
            () if self.kept.contains(cpu) => Some("which the plan keeps for the program"),
            () if self.isolated.contains(cpu) => Some("which is isolated"),
            () => None,
        };
        let disturbs = whose.map(|whose| format!("{name}: interrupt {irq} goes to CPU {cpu}, {whose}"));
        disturbs.into_iter().chain(far).collect()
    }
}

fn is_of_group(rule: &FlowRule) -> bool {
    rule.to.rss_context.is_some()
}

fn by_queue(found: &FlowRules) -> RulesOf<'_> {
    let mut of = RulesOf::new();
    for rule in found.rules.iter().filter(|rule| rule.to.virtual_function.is_none()) {
        let of_group = found.group_queues(rule).into_iter().flatten();
        let queue = rule.to.queue.filter(|_| !is_of_group(rule));
        for queue in queue.into_iter().chain(of_group) {
            of.entry(queue).or_default().push(rule);
        }
    }
    of
}

/// `rule 7 (udp4 port 4321)`, and how many more.
fn in_words(rules: &[&FlowRule]) -> String {
    let Some(first) = rules.first() else { return "no rule".to_owned() };
    let more = if rules.len() > 1 { format!(" and {} more", rules.len() - 1) } else { String::new() };
    format!("rule {} ({}){more}", first.location, flow(first))
}

fn flow(rule: &FlowRule) -> String {
    rule.destination_port.map_or_else(|| rule.kind.clone(), |port| format!("{} port {port}", rule.kind))
}

/// The first of several texts, and how many more there are.
fn first_of(mut texts: Vec<String>, between: &str, before_more: &str) -> String {
    let more = texts.len().saturating_sub(TOLD);
    texts.truncate(TOLD);
    let told = texts.join(between);
    if more == 0 { told } else { format!("{told}{before_more}{more} more") }
}

/// `0-7` where each has as many places of the table as another, or one more; else `0-7, unevenly`.
pub(super) fn table(found: &Indirection) -> Reading {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    for queue in &found.queues {
        *places.entry(*queue).or_default() += 1;
    }
    let queues: CpuSet = places.keys().copied().collect();
    match (places.values().min(), places.values().max()) {
        (Some(least), Some(most)) if most - least > 1 => Reading::Value(format!("{queues}, unevenly")),
        (Some(_), _) => Reading::Value(queues.to_string()),
        (None, _) => Reading::Unsupported,
    }
}

/// `rule 7: udp4 port 4321 to queue 3`, or `none`.
pub(super) fn rules(found: &FlowRules) -> Reading {
    let group = |rule: &FlowRule, context: u32| match found.group_queues(rule) {
        Some(queues) => {
            format!("to the hash of group {context} (queue {})", queues.into_iter().collect::<CpuSet>())
        }
        None => format!("to the hash of group {context}"),
    };
    let one = |rule: &FlowRule| {
        let to = match (rule.to.queue, rule.to.virtual_function, rule.to.rss_context) {
            _ if rule.to.is_dropped => "dropped".to_owned(),
            (_, _, Some(context)) => group(rule, context),
            (Some(queue), Some(function), _) => format!("to queue {queue} of virtual function {function}"),
            (Some(queue), None, _) => format!("to queue {queue}"),
            (None, ..) => "to no queue".to_owned(),
        };
        format!("rule {}: {} {to}", rule.location, flow(rule))
    };
    if found.rules.is_empty() {
        return Reading::value("none");
    }
    Reading::Value(first_of(found.rules.iter().map(one).collect(), ", ", ", and "))
}

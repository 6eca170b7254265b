//! The chain that a received frame takes: flow rule, queue, interrupt, CPU. Each link may look right alone.

use std::collections::BTreeMap;

use super::Nic;
use super::netlink_answers::owner;
use crate::{CpuSet, Reading};

/// What a whole chain reads as.
const WHOLE: &str = "whole";
/// More faults than these are counted only.
const FAULTS_TOLD: usize = 4;

impl Nic<'_> {
    /// `whole`, or what is wrong: queues whose interrupts share a CPU, may go to several, or go to one far from the device.
    pub(super) fn chain(&self) -> Reading {
        let polling = match self.answer(&self.polling) {
            Ok(polling) => polling,
            Err(reading) => return reading.clone(),
        };
        let receives = |queues: &[String]| queues.iter().any(|queue| queue.starts_with("rx-"));
        let receivers: Vec<_> = polling.instances.iter().filter(|napi| receives(&napi.queues)).collect();
        if receivers.is_empty() {
            return Reading::Unsupported;
        }
        let near = self.device_file("local_cpulist").as_value().and_then(|list| CpuSet::from_list(list).ok());
        let mut faults = Vec::new();
        let mut queue_of = BTreeMap::new();
        for napi in &receivers {
            let queue = owner(napi);
            let Some(irq) = napi.irq else {
                return Reading::unknown(format!(
                    "the driver does not tell the interrupt of {queue}; see /proc/interrupts"
                ));
            };
            let path = format!("/proc/irq/{irq}/effective_affinity_list");
            let cpus = match self.root.read(&path).map(|text| CpuSet::from_list(&text)) {
                Ok(Ok(cpus)) => cpus,
                Ok(Err(error)) => return Reading::unknown(format!("{path}: {error}")),
                Err(reading) => return reading,
            };
            let mut one = cpus.iter();
            let (Some(cpu), None) = (one.next(), one.next()) else {
                faults.push(format!("{queue}: interrupt {irq} may go to CPUs {cpus}"));
                continue;
            };
            if near.as_ref().is_some_and(|near| !near.is_empty() && !near.contains(cpu)) {
                faults.push(format!("{queue}: CPU {cpu} is not near the device"));
            }
            if let Some(other) = queue_of.insert(cpu, queue.clone()) {
                faults.push(format!("{other} and {queue} share CPU {cpu}"));
            }
        }
        if receivers.len() > 1 && self.offload(&["rx-ntuple-filter"]).as_value() == Some("off") {
            faults.push("no rule can bring a flow to a queue while ntuple is off".to_owned());
        }
        let more = faults.len().saturating_sub(FAULTS_TOLD);
        faults.truncate(FAULTS_TOLD);
        match (faults.is_empty(), more) {
            (true, _) => Reading::value(WHOLE),
            (false, 0) => Reading::Value(faults.join("; ")),
            (false, more) => Reading::Value(format!("{}; and {more} more", faults.join("; "))),
        }
    }
}

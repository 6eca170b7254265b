//! What runs and interrupts where.

use std::collections::BTreeMap;

use super::HostFiles;
use super::condense::condense;
use crate::{CpuSet, Reading};

const IRQS: &str = "/proc/irq";
/// What everything about isolated CPUs says where there are none.
pub(crate) const NOTHING_ISOLATED: &str = "no CPU is isolated";

/// Interrupts that may go to isolated CPUs, with those CPUs: `30 on 2, 31 on 2-3`.
pub(crate) fn irqs_on_isolated(files: &HostFiles<'_>) -> Reading {
    let isolated = match isolated(files) {
        Ok(isolated) => isolated,
        Err(reading) => return reading,
    };
    let irqs = match affinities(files) {
        Ok(irqs) => irqs,
        Err(reading) => return reading,
    };
    let hits = irqs.into_iter().filter_map(|(irq, cpus)| {
        let shared: CpuSet = cpus.iter().filter(|&cpu| isolated.contains(cpu)).collect();
        (shared.iter().next().is_some()).then(|| format!("{irq} on {shared}"))
    });
    let hits: Vec<_> = hits.collect();
    Reading::Value(if hits.is_empty() { "none".to_owned() } else { hits.join(", ") })
}

/// How many interrupts go to each CPU in effect.
pub(crate) fn irqs_of_each_cpu(files: &HostFiles<'_>) -> Reading {
    let irqs = match affinities(files) {
        Ok(irqs) => irqs,
        Err(reading) => return reading,
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in irqs.iter().flat_map(|(_, cpus)| cpus.iter()) {
        *counts.entry(cpu).or_default() += 1;
    }
    files.each_online_cpu(|cpu| Reading::value(counts.get(&cpu).copied().unwrap_or(0)))
}

fn affinities(files: &HostFiles<'_>) -> Result<Vec<(String, CpuSet)>, Reading> {
    let entries = files.root().list(IRQS)?;
    let irqs = entries.into_iter().filter(|name| name.parse::<u32>().is_ok()).filter_map(|irq| {
        let text = files.root().read(&format!("{IRQS}/{irq}/effective_affinity_list")).ok()?;
        Some((irq, CpuSet::from_list(&text).ok()?))
    });
    let irqs: Vec<_> = irqs.collect();
    if irqs.is_empty() && !files.root().tells_absence() {
        return Err(files.root().absent_or_not_copied("the interrupts' effective affinities"));
    }
    Ok(irqs)
}

/// CPUs that the scheduler leaves alone, by either way.
fn isolated(files: &HostFiles<'_>) -> Result<CpuSet, Reading> {
    let cpus = files.topology().cpus();
    let isolated: CpuSet = cpus.iter().filter(|cpu| cpu.is_isolated).map(|cpu| cpu.id).collect();
    if cpus.is_empty() {
        return Err(Reading::unknown("no list of online CPUs"));
    }
    if isolated.iter().next().is_none() { Err(Reading::value(NOTHING_ISOLATED)) } else { Ok(isolated) }
}

/// How many threads of programs may run on each isolated CPU.
pub(crate) fn threads_on_isolated(files: &HostFiles<'_>) -> Reading {
    count_threads(files, |status, _| !is_kernel(status))
}

/// How many kernel threads that are not bound to one CPU may run on each isolated CPU. Rescuers of work queues are not
/// among them: they sleep until memory is short, and nobody can move them (`init_rescuer` in `kernel/workqueue.c`).
pub(crate) fn kernel_threads_on_isolated(files: &HostFiles<'_>) -> Reading {
    count_threads(files, |status, cpus| is_kernel(status) && !is_rescuer(status) && cpus.iter().nth(1).is_some())
}

fn is_rescuer(status: &str) -> bool {
    super::host_files::field_of(status, "Name").is_some_and(|name| name.starts_with("kworker/R-"))
}

fn count_threads(files: &HostFiles<'_>, counts: impl Fn(&str, &CpuSet) -> bool) -> Reading {
    let isolated = match isolated(files) {
        Ok(isolated) => isolated,
        Err(reading) => return reading,
    };
    let processes = match files.root().list("/proc") {
        Ok(entries) => entries.into_iter().filter(|name| name.parse::<u32>().is_ok()),
        Err(reading) => return reading,
    };
    let mut threads: BTreeMap<u32, usize> = isolated.iter().map(|cpu| (cpu, 0)).collect();
    for process in processes {
        for thread in files.root().list(&format!("/proc/{process}/task")).unwrap_or_default() {
            // A thread may end while it is looked at.
            let Ok(status) = files.root().read(&format!("/proc/{process}/task/{thread}/status")) else {
                continue;
            };
            let Some(cpus) = allowed(&status).filter(|cpus| counts(&status, cpus)) else {
                continue;
            };
            for (cpu, count) in &mut threads {
                *count += usize::from(cpus.contains(*cpu));
            }
        }
    }
    condense(threads.into_iter().map(|(cpu, count)| (cpu.to_string(), Reading::value(count))).collect())
}

fn allowed(status: &str) -> Option<CpuSet> {
    CpuSet::from_list(super::host_files::field_of(status, "Cpus_allowed_list")?).ok()
}

/// A kernel thread has no memory of its own.
fn is_kernel(status: &str) -> bool {
    super::host_files::field_of(status, "VmSize").is_none()
}

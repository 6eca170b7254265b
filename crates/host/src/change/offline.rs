//! CPUs that a plan takes offline, and what of the plan goes with them.

use super::form::Form;
use super::{Change, Host, HostError, Target};
use crate::CpuSet;

/// The switch of simultaneous multithreading (`kernel/cpu.c`).
pub(super) const SMT_CONTROL: &str = "/sys/devices/system/cpu/smt/control";

/// How many threads of a core stay online when the switch becomes this word; `None` where all do.
/// Kernels that can keep some of more than two threads take a number (`__store_smt_control`).
pub(super) fn threads_left(change: &Change) -> Option<usize> {
    match &change.target {
        Target::File { path, .. } if path == SMT_CONTROL && change.wanted == "off" => Some(1),
        Target::File { path, .. } if path == SMT_CONTROL => change.wanted.parse().ok(),
        _ => None,
    }
}

/// Takes out of a plan what belongs only to CPUs that the plan itself takes offline: their files cannot be read
/// (cpufreq) or are gone (`energy_perf_bias`), and an interrupt cannot be given to them. What was to be written is
/// returned with the reason. An interrupt stays in the plan as a witness: it has other CPUs while these are offline.
/// A set of CPUs that has others too is written without these: kernels drop CPUs that are offline from some sets
/// (`store_rps_map` of `net/core/net-sysfs.c`), so that what was written would not be what is read back.
pub(super) fn leave_out(host: &mut dyn Host, plan: &mut Vec<Change>) -> Vec<(Change, HostError)> {
    let mut leaving: Vec<(CpuSet, String)> = Vec::new();
    for change in plan.iter().filter(|change| !change.is_as_wanted()) {
        let cpus = host.cpus_taken_offline(change);
        if !cpus.is_empty() {
            leaving.push((cpus, format!("{} = {}", change.id, change.wanted)));
        }
    }
    if leaving.is_empty() {
        return Vec::new();
    }
    let all_gone: CpuSet = leaving.iter().flat_map(|(gone, _)| gone.iter()).collect();
    let mut skipped = Vec::new();
    plan.retain_mut(|change| {
        let cpus = cpus_of(change);
        let is_gone = |gone: &CpuSet| !cpus.is_empty() && cpus.iter().all(|cpu| gone.contains(cpu));
        let Some((_, by)) = leaving.iter().find(|(gone, _)| is_gone(gone)) else {
            if is_set_of_cpus(&change.target) && !change.is_as_wanted() && cpus.iter().any(|cpu| all_gone.contains(cpu))
            {
                change.wanted = cpus.iter().filter(|cpu| !all_gone.contains(*cpu)).collect::<CpuSet>().to_string();
            }
            return true;
        };
        if !change.is_as_wanted() {
            let why = format!("CPU {cpus} goes offline with {by} of the same plan");
            skipped.push((change.clone(), HostError::says("write", &change.target, why)));
        }
        let is_interrupt = matches!(change.target, Target::Irq { .. });
        if is_interrupt {
            change.wanted.clone_from(&change.found);
        }
        is_interrupt
    });
    skipped
}

/// The CPUs without which a change has no meaning: the one that it belongs to, or those that an interrupt, a partition or a
/// mask is to have.
fn cpus_of(change: &Change) -> CpuSet {
    let own = change.target.cpu();
    if own.is_none() && (is_set_of_cpus(&change.target) || matches!(change.target, Target::Irq { .. })) {
        return CpuSet::from_list(&change.wanted).unwrap_or_default();
    }
    own.into_iter().collect()
}

/// Whether the value is CPUs, of which some may go offline.
const fn is_set_of_cpus(target: &Target) -> bool {
    matches!(
        target,
        Target::Partition { .. }
            | Target::File { form: Form::CpuList | Form::CpuMask, .. }
            | Target::InterfaceFile { form: Form::CpuList | Form::CpuMask, .. }
    )
}

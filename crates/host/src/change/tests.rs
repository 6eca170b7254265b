//! Apply, revert and status on hosts in memory and on trees of files.

mod confirm;
mod engine;
mod partition;
mod places;
mod properties;
mod service;
mod threads;
mod tree;

use std::path::Path;

use tempfile::TempDir;

use super::simulated::MemoryHost;
use super::*;
use crate::journal::{HostIdentity, Journal};

const NOW: u64 = 1_790_000_000;

fn strict() -> ApplyOptions<'static> {
    ApplyOptions::strict(NOW, Some("raw-frame".into()))
}

pub(crate) fn identity() -> HostIdentity {
    HostIdentity { machine: Some("m".into()), boot: Some("b".into()), network: None, copy: None }
}

pub(crate) fn journal(directory: &Path) -> Journal {
    Journal::open(directory, identity()).unwrap()
}

/// In memory where there is such a file system: a journal waits for the disk at each record.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn device(interface: &str) -> Device {
    Device { interface: interface.to_owned(), place: None }
}

pub(crate) fn sysctl(name: &str) -> Target {
    Target::File { path: format!("/proc/sys/{}", name.replace('.', "/")), form: Form::Text }
}

pub(crate) fn smt() -> Target {
    Target::File { path: super::offline::SMT_CONTROL.into(), form: Form::Text }
}

pub(crate) fn of_cpu(cpu: u32, file: &str) -> Target {
    Target::File { path: format!("/sys/devices/system/cpu/cpu{cpu}/{file}"), form: Form::Text }
}

pub(crate) fn governor(cpu: u32) -> Target {
    of_cpu(cpu, "cpufreq/scaling_governor")
}

pub(crate) fn bias(cpu: u32) -> Target {
    of_cpu(cpu, "power/energy_perf_bias")
}

pub(crate) fn ring(interface: &str) -> Target {
    Target::Ethtool { device: device(interface), parameter: EthtoolParameter::Ring(RingField::Rx) }
}

pub(crate) fn coalesce(interface: &str, field: CoalesceField) -> Target {
    Target::Ethtool { device: device(interface), parameter: EthtoolParameter::Coalesce(field) }
}

pub(crate) fn vector(interface: &str, vector: usize) -> Target {
    Target::Irq { device: device(interface), vector }
}

pub(crate) fn change(id: &str, target: Target, found: &str, wanted: &str) -> Change {
    Change { id: id.to_owned(), target, found: found.to_owned(), wanted: wanted.to_owned() }
}

/// A host on which every change finds what its plan found.
pub(crate) fn host_of(changes: &[Change]) -> MemoryHost {
    let mut host = MemoryHost::default();
    for change in changes {
        host.set(&change.target, &change.found);
    }
    host
}

/// Three values that depend on each other: the ring resets the interrupts.
pub(crate) fn three() -> Vec<Change> {
    vec![
        change("nic.irq-affinity[eth4/vector0]", vector("eth4", 0), "0-3", "2"),
        change("nic.coalesce.rx-usecs[eth4]", coalesce("eth4", CoalesceField::RxUsecs), "50", "0"),
        change("nic.ring.rx[eth4]", ring("eth4"), "512", "1024"),
        change("vm.swappiness", sysctl("vm.swappiness"), "60", "0"),
    ]
}

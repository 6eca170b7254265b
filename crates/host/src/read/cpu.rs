//! Facts of the processors that need more than one file.

use std::collections::{BTreeMap, BTreeSet};

use super::{HostFiles, one_line};
use crate::topology::Cpu;
use crate::{CpuSet, Reading};

const CPU0_IDLE: &str = "/sys/devices/system/cpu/cpu0/cpuidle";

/// Processor packages with an online CPU: by the kernel's lists of their CPUs, as their numbers may repeat in another
/// book of s390 and are -1 where firmware gives none.
pub(crate) fn packages(files: &HostFiles<'_>) -> Reading {
    let cpus = files.topology().cpus();
    let key: fn(&Cpu) -> Option<u32> = match () {
        () if cpus.iter().any(|cpu| cpu.package_first.is_some()) => |cpu| cpu.package_first,
        () if cpus.iter().any(|cpu| cpu.package.is_some()) => |cpu| cpu.package,
        () if cpus.is_empty() || !files.root().tells_absence() => {
            return files.all_cpus().err().unwrap_or_else(|| Reading::unknown("the copy has no files of packages"));
        }
        () => return Reading::Unsupported,
    };
    count(files, key)
}

/// Physical cores with an online CPU.
pub(crate) fn cores(files: &HostFiles<'_>) -> Reading {
    count(files, |cpu| cpu.siblings.iter().next())
}

/// Online CPUs.
pub(crate) fn threads(files: &HostFiles<'_>) -> Reading {
    match files.topology().cpus().len() {
        0 => Reading::unknown("no list of online CPUs"),
        count => Reading::value(count),
    }
}

/// `fast` or `slow` for each CPU of a host with several kinds of cores.
pub(crate) fn kinds(files: &HostFiles<'_>) -> Reading {
    let cpus = files.topology().cpus();
    if cpus.is_empty() {
        return Reading::unknown("no list of online CPUs");
    }
    if cpus.iter().any(|cpu| cpu.is_slow) {
        return files.each_online_cpu(|cpu| {
            let is_slow = files.topology().cpu(cpu).is_some_and(|cpu| cpu.is_slow);
            Reading::value(if is_slow { "slow" } else { "fast" })
        });
    }
    files.root().absent_or_not_copied("what tells kinds of cores")
}

/// How many different answers the CPUs give.
fn count(files: &HostFiles<'_>, key: impl Fn(&Cpu) -> Option<u32>) -> Reading {
    let cpus = match files.all_cpus() {
        Ok(cpus) => cpus,
        Err(reading) => return reading,
    };
    Reading::value(cpus.iter().filter_map(key).collect::<BTreeSet<_>>().len())
}

/// Memory nodes with CPUs for each processor package; where packages differ, the most that one has.
pub(crate) fn nodes_per_package(files: &HostFiles<'_>) -> Reading {
    let cpus = match files.all_cpus() {
        Ok(cpus) => cpus,
        Err(reading) => return reading,
    };
    let mut nodes_of = BTreeMap::<u32, BTreeSet<u32>>::new();
    for cpu in cpus {
        if let (Some(package), Some(node)) = (cpu.package, cpu.node) {
            nodes_of.entry(package).or_default().insert(node);
        }
    }
    let most = nodes_of.values().map(BTreeSet::len).max();
    most.map_or_else(|| files.root().absent_or_not_copied("packages and nodes of CPUs"), Reading::value)
}

/// `on` or `off`, whichever driver has the switch.
pub(crate) fn turbo(files: &HostFiles<'_>) -> Reading {
    let switch = |path, on: &str| match files.line(path) {
        Reading::Value(value) => Reading::switch(value == on),
        other => other,
    };
    match switch("/sys/devices/system/cpu/intel_pstate/no_turbo", "0") {
        Reading::Unsupported | Reading::Unknown { .. } => switch("/sys/devices/system/cpu/cpufreq/boost", "1"),
        found => found,
    }
}

/// The names of the idle states, shallowest first, with their exit latencies.
pub(crate) fn idle_states(files: &HostFiles<'_>) -> Reading {
    let states = match idle_state_names(files) {
        Ok(states) => states,
        Err(reading) => return reading,
    };
    let described = states.iter().map(|(state, name)| match files.line(&format!("{CPU0_IDLE}/{state}/latency")) {
        Reading::Value(latency_us) => format!("{name} {latency_us} us"),
        _ => name.clone(),
    });
    Reading::Value(described.collect::<Vec<_>>().join(", "))
}

/// The time to leave the shallowest state in which a CPU does not poll, as the limit of a wake-up that lets this state in,
/// microseconds. A limit of 0 would mean none, so it is at least 1.
pub(crate) fn c1_exit_us(files: &HostFiles<'_>) -> Reading {
    let states = match idle_state_names(files) {
        Ok(states) => states,
        Err(reading) => return reading,
    };
    let Some((state, _)) = states.iter().find(|(_, name)| name != "POLL") else { return Reading::Unsupported };
    let path = format!("{CPU0_IDLE}/{state}/latency");
    match files.line(&path) {
        Reading::Value(latency_us) => match latency_us.parse::<u64>() {
            Ok(latency_us) => Reading::value(latency_us.max(1)),
            Err(error) => Reading::unknown(format!("{path}: {error}")),
        },
        other => other,
    }
}

/// The idle states that each CPU may not enter.
pub(crate) fn idle_states_disabled(files: &HostFiles<'_>) -> Reading {
    let states = match idle_state_names(files) {
        Ok(states) => states,
        Err(reading) => return reading,
    };
    files.each_cpu(|cpu| {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let is_disabled = |state: &str| {
            let disabled = files.line(&format!("{directory}/{state}/disable"));
            disabled.as_value().is_some_and(|value| value != "0")
        };
        match states.first().map(|(state, _)| files.line(&format!("{directory}/{state}/disable"))) {
            Some(Reading::NeedsRoot) => return Reading::NeedsRoot,
            Some(not_copied @ Reading::Unknown { .. }) if !files.root().tells_absence() => return not_copied,
            _ => {}
        }
        let disabled = states.iter().filter(|(state, _)| is_disabled(state));
        let names: Vec<_> = disabled.map(|(_, name)| name.as_str()).collect();
        Reading::value(if names.is_empty() { "none".to_owned() } else { names.join(" ") })
    })
}

/// (`state0`, its name) of CPU 0; the others have the same.
fn idle_state_names(files: &HostFiles<'_>) -> Result<Vec<(String, String)>, Reading> {
    let entries = files.root().list(CPU0_IDLE)?;
    let states = entries.into_iter().filter(|entry| entry.starts_with("state"));
    let named = states.filter_map(|state| match files.root().read(&format!("{CPU0_IDLE}/{state}/name")) {
        Ok(name) => Some(Ok((state, one_line(&name)))),
        Err(Reading::NeedsRoot) => Some(Err(Reading::NeedsRoot)),
        Err(_) => None,
    });
    named.collect()
}

/// The CPUs of isolated cpuset partitions. Before the kernel had a file of them all (Linux 6.8) each
/// partition below the top told its own.
pub(crate) fn isolated_by_partitions(files: &HostFiles<'_>) -> Reading {
    const TOP: &str = "/sys/fs/cgroup";
    let root = files.root();
    let all = root.read(&format!("{TOP}/cpuset.cpus.isolated"));
    let lists = match all {
        Ok(list) => vec![list],
        Err(Reading::Unsupported) if root.has(&format!("{TOP}/cpuset.cpus.effective")) => {
            let isolated = |group: &String| {
                let state = root.read(&format!("{TOP}/{group}/cpuset.cpus.partition"));
                state.is_ok_and(|state| state == "isolated")
            };
            let groups = root.list(TOP).unwrap_or_default().into_iter().filter(isolated);
            groups.filter_map(|group| root.read(&format!("{TOP}/{group}/cpuset.cpus.effective")).ok()).collect()
        }
        Err(reading) => return reading,
    };
    let mut cpus = BTreeSet::new();
    for list in lists {
        match CpuSet::from_list(&list) {
            Ok(some) => cpus.extend(some.iter()),
            Err(error) => return Reading::unknown(error.to_string()),
        }
    }
    Reading::value(CpuSet::from_iter(cpus))
}

/// What the kernel does about each known weakness of the processor: `name: state`, those that do
/// not affect it left out.
pub(crate) fn mitigations(files: &HostFiles<'_>) -> Reading {
    const DIRECTORY: &str = "/sys/devices/system/cpu/vulnerabilities";
    let names = match files.root().list(DIRECTORY) {
        Ok(names) => names,
        Err(reading) => return reading,
    };
    let found: Vec<_> = names.iter().map(|name| (name, files.line(&format!("{DIRECTORY}/{name}")))).collect();
    if found.iter().any(|(_, state)| *state == Reading::NeedsRoot) {
        return Reading::NeedsRoot;
    }
    let states = found.into_iter().filter_map(|(name, state)| match state {
        Reading::Value(state) if state == "Not affected" => None,
        Reading::Value(state) => Some(format!("{name}: {state}")),
        _ => Some(format!("{name}: unknown")),
    });
    let states: Vec<_> = states.collect();
    match (names.is_empty(), states.is_empty()) {
        (true, _) => files.root().absent_or_not_copied(DIRECTORY),
        (_, true) => Reading::value("not affected"),
        _ => Reading::Value(states.join(" | ")),
    }
}

/// Whether the processor can run guests, by the words of either maker.
pub(crate) fn virtualisation(files: &HostFiles<'_>) -> Reading {
    match (files.cpu_flag("vmx"), files.cpu_flag("svm")) {
        (Reading::Value(intel), Reading::Value(amd)) if intel == "no" && amd == "no" => Reading::Value(intel),
        (Reading::Value(_), _) => Reading::value("yes"),
        (other, _) => other,
    }
}

/// Whether every Intel unit that translates addresses of devices snoops the caches (bit C of the
/// extended capability register, VT-d specification 11.4.3).
pub(crate) fn translation_coherency(files: &HostFiles<'_>) -> Reading {
    const UNITS: &str = "/sys/class/iommu";
    let units = match files.root().list(UNITS) {
        Ok(units) => units,
        Err(reading) => return reading,
    };
    let mut are_coherent = Vec::new();
    for unit in units.iter().filter(|unit| unit.starts_with("dmar")) {
        let path = format!("{UNITS}/{unit}/intel-iommu/ecap");
        match files.root().read(&path).map(|text| u64::from_str_radix(text.trim(), 16)) {
            Ok(Ok(register)) => are_coherent.push(register & 1 == 1),
            Ok(Err(error)) => return Reading::unknown(format!("{path}: {error}")),
            Err(reading) => return reading,
        }
    }
    if are_coherent.is_empty() { Reading::Unsupported } else { Reading::switch(are_coherent.iter().all(|&is| is)) }
}

/// The longest wake-up that all CPUs accept, microseconds, as programs that hold the device open
/// ask for it.
pub(crate) fn dma_latency(files: &HostFiles<'_>) -> Reading {
    /// `PM_QOS_CPU_LATENCY_DEFAULT_VALUE` of `include/linux/pm_qos.h`.
    const NO_REQUEST_US: i32 = 2_000_000_000;
    if !files.root().is_whole() {
        return Reading::unknown("requests are read on a live host or from a snapshot only");
    }
    match files.root().read_device("/dev/cpu_dma_latency", 0).map(i32::from_ne_bytes) {
        Ok(NO_REQUEST_US) => Reading::value("no limit"),
        Ok(latency_us) => Reading::value(latency_us),
        Err(reading) => reading,
    }
}

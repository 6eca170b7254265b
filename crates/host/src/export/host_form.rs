//! The forms of settings of the host.

use super::command_line::huge_pages;
use super::form::{Form, UnitState};
use super::words;
use crate::setting::{Persist, ReadFrom};
use crate::{Goal, Setting};

/// Why no file keeps a setting that something else writes.
const NO_FILE: &[(&str, &str)] = &[
    (
        "cpu.idle.disabled",
        "the numbers of idle states differ between processors; cpu.pm-qos-resume-latency-us closes them by their latency",
    ),
    (
        "cpu.online",
        "which CPUs there are is not known when the file is written; boot.isolcpus or cpu.smt leave CPUs alone",
    ),
    ("irq.on-isolated", "it is the sum of all interrupts; irq.default-affinity and nic.irq-affinity write them"),
    ("irq.of-each-cpu", "it is the sum of all interrupts; irq.default-affinity and nic.irq-affinity write them"),
    ("service.default-target", "it is a link and no text: run systemctl set-default"),
    ("service.tuned.profile", "tuned writes the file itself: run tuned-adm profile"),
    ("service.cpuspeed", "the service is gone; cpu.governor writes the governor itself"),
    ("rdma.mlx4.softdep", "modprobe.d takes several lines of this kind, and which ones another file has is not known"),
];

/// The forms of a goal, but for the command line.
pub(super) fn forms(goal: &Goal) -> Result<Vec<Form>, String> {
    let (setting, value) = (goal.setting, goal.value.as_str());
    if let Some((_, why)) = NO_FILE.iter().find(|(id, _)| *id == setting.id) {
        return Err((*why).to_owned());
    }
    if goal.cpus.is_some() && !has_each_cpu(setting) {
        return Err("some CPUs are named, but the value is one for all of them".to_owned());
    }
    if let Some(form) = by_id(goal) {
        return form.map(|form| vec![form]);
    }
    let written = || words::written(setting, value).map_err(|error| error.to_string());
    let file = |path: String| Ok(vec![Form::Files(vec![(path, written()?)])]);
    match setting.read {
        ReadFrom::Sysctl(name) => Ok(vec![Form::Sysctl(name, written()?)]),
        ReadFrom::CpuMask(path) if path.starts_with("/proc/sys/") => Ok(vec![Form::Sysctl(setting.id, written()?)]),
        ReadFrom::Service(unit) => Ok(vec![Form::Unit(unit, unit_state(value)?)]),
        ReadFrom::ModuleParameter(module, parameter) => {
            let option = Form::Module(module, parameter, written()?);
            let path = format!("/sys/module/{module}/parameters/{parameter}");
            let file = is_file(setting).then(|| Form::Files(vec![(path, option_value(&option))]));
            Ok([Some(option), file].into_iter().flatten().collect())
        }
        _ if !is_file(setting) => Ok(Vec::new()),
        ReadFrom::File(path) | ReadFrom::Chosen(path) | ReadFrom::CpuList(path) | ReadFrom::CpuMask(path) => {
            file(path.to_owned())
        }
        ReadFrom::EachCpu(path) => Ok(vec![Form::Cpu(path, goal.cpus.clone(), written()?)]),
        ReadFrom::Each { directory, prefix, file: name } => {
            let entries = match &goal.cpus {
                Some(cpus) => cpus.iter().map(|cpu| cpu.to_string()).collect(),
                None => vec!["*".to_owned()],
            };
            let value = written()?;
            let path = |entry| (format!("{directory}/{prefix}{entry}/{name}"), value.clone());
            Ok(vec![Form::Files(entries.into_iter().map(path).collect())])
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether each CPU has a value of its own.
fn has_each_cpu(setting: &Setting) -> bool {
    match setting.read {
        ReadFrom::EachCpu(_) => true,
        ReadFrom::Each { prefix, .. } => matches!(prefix, "cpu" | "machinecheck"),
        _ => false,
    }
}

fn option_value(option: &Form) -> String {
    match option {
        Form::Module(_, _, value) => value.clone(),
        _ => String::new(),
    }
}

/// Whether a file that is written at boot keeps the setting.
fn is_file(setting: &Setting) -> bool {
    let is_file = |persist: &Persist| matches!(persist, Persist::TmpfilesD | Persist::SystemdUnit | Persist::UdevRule);
    setting.persist.iter().any(is_file)
}

/// Settings that are not one file with the value in it.
fn by_id(goal: &Goal) -> Option<Result<Form, String>> {
    let value = goal.value.as_str();
    let list = || words::list(value).map_err(|error| error.to_string());
    Some(match goal.setting.id {
        "cpu.turbo" => turbo(value),
        "cpu.dma-latency-us" => value
            .parse()
            .map(Form::Latency)
            .map_err(|_| format!("{value:?} is not a number of microseconds to ask for")),
        "cpu.isolated.cgroup" => words::cpus(value).map(Form::Partition).map_err(|error| error.to_string()),
        "irq.irqbalance" => unit_state(value).map(|state| Form::Unit("irqbalance.service", state)),
        "memory.huge-pages" => pools(value),
        "memory.lock-limit-bytes" => lock_limit(value),
        "service.irqbalance.banned-cpus" => {
            list().map(|cpus| Form::Environment("irqbalance.service", "IRQBALANCE_BANNED_CPULIST", cpus))
        }
        "service.cpu-affinity" => list().map(|cpus| Form::Manager("CPUAffinity", cpus)),
        _ => return None,
    })
}

/// Whichever driver has the switch; the other file is missing.
fn turbo(value: &str) -> Result<Form, String> {
    let is_on = words::switch(value).map_err(|error| error.to_string())?;
    let digit = |is_one| if is_one { "1" } else { "0" }.to_owned();
    Ok(Form::Files(vec![
        ("/sys/devices/system/cpu/intel_pstate/no_turbo".to_owned(), digit(!is_on)),
        ("/sys/devices/system/cpu/cpufreq/boost".to_owned(), digit(is_on)),
    ]))
}

fn pools(value: &str) -> Result<Form, String> {
    let pools = huge_pages(value).ok_or_else(|| format!("{value:?} does not say node, size and count"))?;
    let file = |(node, size_kb, count)| {
        let path = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{size_kb}kB/nr_hugepages");
        (path, format!("{count}"))
    };
    Ok(Form::Files(pools.into_iter().map(file).collect()))
}

fn lock_limit(value: &str) -> Result<Form, String> {
    let bytes = match value {
        "unlimited" => "infinity".to_owned(),
        _ => words::number(value).map_err(|error| error.to_string())?,
    };
    Ok(Form::Manager("DefaultLimitMEMLOCK", bytes))
}

/// What `stopped, disabled` and the other words for a unit ask for. A unit that is stopped and not
/// said to be enabled is disabled: a file cannot stop it in any other way.
fn unit_state(value: &str) -> Result<UnitState, String> {
    let has = |word| value.split(", ").any(|found| found == word);
    match () {
        () if has("masked") => Ok(UnitState::Masked),
        () if has("not installed") => Err("removing a package is the package manager's work".to_owned()),
        () if has("enabled") && !has("stopped") => Ok(UnitState::Enabled),
        () if has("disabled") && !has("running") => Ok(UnitState::Disabled),
        () if matches!(value, "not running" | "stopped") => Ok(UnitState::Disabled),
        () if value == "running" => Ok(UnitState::Enabled),
        () => Err(format!("{value:?} does not say whether the unit starts at boot")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_state_is_read_from_the_words_of_its_reading() {
        assert_eq!(unit_state("stopped, disabled"), Ok(UnitState::Disabled));
        assert_eq!(unit_state("running, enabled"), Ok(UnitState::Enabled));
        assert_eq!(unit_state("stopped, masked"), Ok(UnitState::Masked));
        assert_eq!(unit_state("not running"), Ok(UnitState::Disabled));
        for odd in ["", "stopped, enabled", "running, disabled", "not installed", "static", "running; reboot"] {
            assert!(unit_state(odd).is_err(), "{odd}");
        }
    }
}

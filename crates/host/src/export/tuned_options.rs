//! Which forms tuned 2.20 has options for, and which.

use super::command_line::Word;
use super::form::{Form, UnitState};

/// Files of each CPU that the plug-in `cpu` has options for.
pub(super) const CPU_OPTIONS: &[(&str, &str)] = &[
    ("cpufreq/scaling_governor", "governor"),
    ("cpufreq/energy_performance_preference", "energy_performance_preference"),
    ("power/energy_perf_bias", "energy_perf_bias"),
    ("power/pm_qos_resume_latency_us", "pm_qos_resume_latency_us"),
];

/// Files that the plug-in `vm` has options for.
pub(super) const VM_OPTIONS: &[(&str, &str)] = &[
    ("/sys/kernel/mm/transparent_hugepage/enabled", "transparent_hugepages"),
    ("/sys/kernel/mm/transparent_hugepage/defrag", "transparent_hugepage.defrag"),
];

/// Whether a profile can hold a form.
pub(super) fn has(form: &Form) -> bool {
    match form {
        // Only a word that tuned itself added can be taken out by it.
        Form::Word(Word { text, .. }) => text.is_some(),
        Form::Sysctl(..)
        | Form::Cpu(..)
        | Form::TunedNet(..)
        | Form::NicFile(..)
        | Form::NicQueues(..)
        | Form::Module(..)
        | Form::Latency(_) => true,
        Form::Files(files) => files.iter().all(|(path, _)| path.starts_with("/sys/")),
        Form::Unit(_, state) => *state != UnitState::Masked && !is_of_tuned(form),
        Form::Environment(_, name, _) => *name == "IRQBALANCE_BANNED_CPULIST",
        Form::Manager(option, _) => *option == "CPUAffinity",
        Form::Link(_) | Form::Ethtool(..) | Form::Qdisc(_) | Form::Interrupts(_) | Form::Partition(_) => false,
    }
}

/// Whether a form is about tuned's own service.
pub(super) fn is_of_tuned(form: &Form) -> bool {
    matches!(form, Form::Unit("tuned.service", _))
}

pub(super) fn named(options: &'static [(&str, &str)], file: &str) -> Option<&'static str> {
    options.iter().find(|(known, _)| *known == file).map(|(_, option)| *option)
}

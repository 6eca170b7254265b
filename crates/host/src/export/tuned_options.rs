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

/// Files that the plug-in `net` has options for.
pub(super) const NET_OPTIONS: &[(&str, &str)] = &[("mtu", "mtu"), ("tx_queue_len", "txqueuelen")];

/// Options of ethtool, the option of the plug-in `net` for them, and the words that it knows; all
/// where there are none.
pub(super) const NET_LISTS: &[(&str, &str, &[&str])] = &[
    ("-K", "features", &[]),
    ("-A", "pause", &["autoneg", "rx", "tx"]),
    ("-G", "ring", &["rx", "tx"]),
    ("-L", "channels", &["rx", "tx", "combined"]),
    (
        "-C",
        "coalesce",
        &[
            "adaptive-rx",
            "adaptive-tx",
            "rx-usecs",
            "rx-frames",
            "rx-usecs-irq",
            "tx-usecs",
            "tx-frames",
            "tx-frames-irq",
            "pkt-rate-low",
            "rx-usecs-low",
            "rx-usecs-high",
        ],
    ),
    ("-s", "wake_on_lan", &["wol"]),
];

/// Whether a profile can hold a form.
pub(super) fn has(form: &Form) -> bool {
    match form {
        // Only a word that tuned itself added can be taken out by it.
        Form::Word(Word { text, .. }) => text.is_some(),
        Form::Sysctl(..)
        | Form::Cpu(..)
        | Form::NicFile(..)
        | Form::NicQueues(..)
        | Form::Module(..)
        | Form::Latency(_) => true,
        Form::Files(files) => files.iter().all(|(path, _)| path.starts_with("/sys/")),
        Form::Ethtool(flag, words) => net_list(flag, words).is_some(),
        Form::Unit(_, state) => *state != UnitState::Masked && !is_of_tuned(form),
        Form::Environment(_, name, _) => *name == "IRQBALANCE_BANNED_CPULIST",
        Form::Manager(option, _) => *option == "CPUAffinity",
        Form::Link(_) | Form::Qdisc(_) | Form::Interrupts(_) | Form::Partition(_) => false,
    }
}

/// Whether a form is about tuned's own service.
pub(super) fn is_of_tuned(form: &Form) -> bool {
    matches!(form, Form::Unit("tuned.service", _))
}

fn net_list(flag: &str, words: &[String]) -> Option<&'static str> {
    let (_, option, known) = NET_LISTS.iter().find(|list| list.0 == flag)?;
    let is_known = known.is_empty() || words.first().is_some_and(|word| known.contains(&word.as_str()));
    is_known.then_some(*option)
}

pub(super) fn named(options: &'static [(&str, &str)], file: &str) -> Option<&'static str> {
    options.iter().find(|(known, _)| *known == file).map(|(_, option)| *option)
}

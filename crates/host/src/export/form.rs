//! The ways a goal can be kept over a boot.

use std::fmt;

use super::command_line::Word;
use crate::CpuSet;

/// One way to keep a goal. Texts in it are safe to write without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A word on the kernel's command line.
    Word(Word),
    /// A kernel parameter by its dotted name.
    Sysctl(&'static str, String),
    /// Files of the host with their text; paths may have `*`. Those that are missing do not matter.
    Files(Vec<(String, String)>),
    /// A file of each CPU, or of some, and its text.
    Cpu(&'static str, Option<CpuSet>, String),
    /// A file of an interface and its text.
    NicFile(&'static str, String),
    /// A file of each queue of a direction, and its text.
    NicQueues(&'static str, &'static str, String),
    /// Options of a `.link` file.
    Link(Vec<(&'static str, String)>),
    /// An option of the plug-in `net` of tuned, and its words or its one value.
    TunedNet(&'static str, Vec<String>),
    /// A call of ethtool: option, words behind the interface.
    Ethtool(&'static str, Vec<String>),
    /// The root queueing discipline.
    Qdisc(String),
    /// The CPUs for the interrupts of the interface.
    Interrupts(CpuSet),
    /// A unit that is to run or not.
    Unit(&'static str, UnitState),
    /// An option of systemd itself.
    Manager(&'static str, String),
    /// A variable in the environment of a service.
    Environment(&'static str, &'static str, String),
    /// An option of a kernel module: module, option, value.
    Module(&'static str, &'static str, String),
    /// CPUs that a cpuset partition takes from the scheduler.
    Partition(CpuSet),
    /// Microseconds that a process asks for on `/dev/cpu_dma_latency`.
    Latency(u32),
}

/// What a unit is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitState {
    /// Running, and started at boot.
    Enabled,
    /// Stopped, and not started at boot.
    Disabled,
    /// Stopped, and not to be started at all.
    Masked,
}

impl UnitState {
    /// The command of `systemctl` that brings it about.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Enabled => "enable",
            Self::Disabled => "disable",
            Self::Masked => "mask",
        }
    }
}

/// How one form stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Against {
    /// They are about different things.
    Other,
    /// They say the same thing.
    Same,
    /// They say different things about one.
    Contradicts,
}

impl Form {
    pub(super) fn against(&self, other: &Self) -> Against {
        if self == other {
            return Against::Same;
        }
        let is_one_place = match (self, other) {
            (Self::Word(a), Self::Word(b)) => a.option == b.option,
            (Self::Sysctl(a, _), Self::Sysctl(b, _))
            | (Self::NicFile(a, _), Self::NicFile(b, _))
            | (Self::Manager(a, _), Self::Manager(b, _)) => a == b,
            (Self::Files(a), Self::Files(b)) => a
                .iter()
                .any(|(path, _)| b.iter().any(|(other, _)| is_same_file(path, other) || is_same_file(other, path))),
            (Self::Cpu(a, cpus_a, value_a), Self::Cpu(b, cpus_b, value_b)) => {
                a == b && value_a != value_b && overlap(cpus_a.as_ref(), cpus_b.as_ref())
            }
            (Self::NicQueues(a, file_a, _), Self::NicQueues(b, file_b, _)) => a == b && file_a == file_b,
            (Self::Link(a), Self::Link(b)) => a.iter().any(|(option, _)| b.iter().any(|(other, _)| option == other)),
            (Self::Ethtool(a, words_a), Self::Ethtool(b, words_b)) => a == b && words_a.first() == words_b.first(),
            (Self::TunedNet(a, words_a), Self::TunedNet(b, words_b)) => {
                a == b && (words_a.len() == 1 || words_a.first() == words_b.first())
            }
            (Self::Unit(a, _), Self::Unit(b, _)) => a == b,
            (Self::Environment(a, name_a, _), Self::Environment(b, name_b, _))
            | (Self::Module(a, name_a, _), Self::Module(b, name_b, _)) => a == b && name_a == name_b,
            (Self::Qdisc(_), Self::Qdisc(_))
            | (Self::Interrupts(_), Self::Interrupts(_))
            | (Self::Partition(_), Self::Partition(_))
            | (Self::Latency(_), Self::Latency(_)) => true,
            _ => false,
        };
        if is_one_place { Against::Contradicts } else { Against::Other }
    }
}

/// Whether a path, perhaps with a `*`, is that of a file.
fn is_same_file(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => path.starts_with(start) && path.ends_with(end),
        None => pattern == path,
    }
}

/// `None` is all CPUs.
fn overlap(a: Option<&CpuSet>, b: Option<&CpuSet>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().any(|cpu| b.contains(cpu)),
        _ => true,
    }
}

impl fmt::Display for Form {
    /// What keeps it, as the end of "kept by".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word(_) => "the kernel's command line (grub)",
            Self::Sysctl(..) => "a kernel parameter (sysctl)",
            Self::Files(_) => "a file that is written at boot (systemd)",
            Self::Cpu(..) => "a file of each CPU (systemd, udev)",
            Self::NicFile(..) | Self::NicQueues(..) | Self::Ethtool(..) | Self::Qdisc(_) => {
                "a write when the interface appears (systemd, udev)"
            }
            Self::Link(_) => "a .link file (systemd)",
            Self::TunedNet(..) => "an option of tuned for interfaces (tuned-profile)",
            Self::Interrupts(_) => {
                "a service that follows the link, as interrupts are made anew each time it comes up (systemd)"
            }
            Self::Unit(..) => "the state of a unit (systemd)",
            Self::Manager(..) => "an option of systemd (systemd)",
            Self::Environment(..) => "the environment of a service (systemd)",
            Self::Module(..) => "an option of a kernel module (systemd)",
            Self::Partition(_) => "a cpuset partition (systemd)",
            Self::Latency(_) => "a process that holds the request (systemd)",
        })
    }
}

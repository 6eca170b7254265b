//! A wish: which value of a setting is wanted, why, and when the wish counts.

use std::fmt;

use crate::{CpuSet, Setting};

/// What a profile wants of one setting.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The setting.
    pub setting: &'static Setting,
    /// What its value should be.
    pub wanted: Wanted,
    /// Of a setting that each CPU has: only the CPUs of this group are judged.
    pub on: Option<CpuGroup>,
    /// Another setting that does the same: if its value is as wanted, the wish is met. What is
    /// wanted of it is said by [`Wish::alternative`].
    pub or: Option<&'static Setting>,
    /// What is wanted of that other setting, where it is not the same value.
    pub or_wanted: Option<Wanted>,
    /// Why the value is wanted, in one sentence.
    pub reason: String,
    /// Who says so: paper and place, or document.
    pub source: String,
    /// How much it matters.
    pub weight: Weight,
    /// When the wish counts; all of these must hold.
    pub when: Vec<Condition>,
    /// What to do, where the setting's own commands are not the best advice.
    pub fix: Option<String>,
    /// What a current kernel makes of the printed value; [`Verdict::Holds`] where nothing is said.
    pub verdict: Verdict,
    /// The verdict in a sentence, where it is not [`Verdict::Holds`].
    pub today: Option<String>,
    /// The value as the source prints it, where that says more than what is wanted.
    pub printed: Option<String>,
}

impl Wish {
    /// The other setting that can meet the wish, and what is wanted of it.
    #[must_use]
    pub fn alternative(&self) -> Option<(&'static Setting, &Wanted)> {
        Some((self.or?, self.or_wanted.as_ref().unwrap_or(&self.wanted)))
    }
}

/// What a current kernel makes of a printed recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It does what the paper says.
    Holds,
    /// It changes nothing any more.
    NoEffect,
    /// The kernel or driver refuses it.
    Rejected,
    /// What the host has by itself is better.
    BelowDefault,
    /// It costs more than it gives.
    Harmful,
}

impl Verdict {
    /// Every verdict with its name in profiles and output.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("holds", Self::Holds),
        ("no-effect", Self::NoEffect),
        ("rejected", Self::Rejected),
        ("below-default", Self::BelowDefault),
        ("harmful", Self::Harmful),
    ];

    /// Whether the printed value should not be put in place today.
    #[must_use]
    pub const fn is_against(self) -> bool {
        !matches!(self, Self::Holds)
    }

    /// The verdict as profiles write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::NoEffect => "no-effect",
            Self::Rejected => "rejected",
            Self::BelowDefault => "below-default",
            Self::Harmful => "harmful",
        }
    }
}

/// How much a wish matters. The weightiest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// Microseconds, or a tail that cannot be explained without it.
    High,
    /// Often seen in measurements.
    Medium,
    /// Little, rarely, or disputed.
    Low,
}

impl Weight {
    /// Every weight with its name in profiles.
    pub const NAMES: [(&'static str, Self); 3] = [("high", Self::High), ("medium", Self::Medium), ("low", Self::Low)];

    /// The weight as profiles write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// The wanted value. Limits are one-sided on purpose: a value that is better than the limit is
/// right and is never lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This value.
    Equal(String),
    /// This or more. Lists of numbers are compared number by number, versions such as that of
    /// `kernel.release` by the first number that differs; CPUs are counted.
    AtLeast(String),
    /// This or less.
    AtMost(String),
    /// One of these values.
    OneOf(Vec<String>),
    /// This word among the words of the value.
    Contains(String),
    /// None of these words among the words of the value.
    Lacks(Vec<String>),
    /// Nothing there: the setting is not set, the service not installed, the list empty.
    Absent,
    /// The value that another setting has.
    SameAs(&'static Setting),
    /// The value that another setting has, or more.
    AtLeastOf(&'static Setting),
    /// The value that another setting has, or less.
    AtMostOf(&'static Setting),
    /// CPUs in a relation to a group of CPUs.
    Cpus(CpuRelation, CpuGroup),
}

/// How a list of CPUs should lie to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuRelation {
    /// The same CPUs.
    Equal,
    /// No CPU outside the group.
    Within,
    /// All CPUs of the group, perhaps more.
    Cover,
    /// No CPU of the group.
    ApartFrom,
}

/// CPUs that a wish means without numbers, each with the word that profiles write for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuGroup {
    /// `${plan.isolated}`: those left alone for the program and the guests. Without a plan those
    /// that are isolated now.
    Isolated,
    /// `${plan.housekeeping}`: all others that are online.
    Housekeeping,
    /// `${plan.irq}`: those that interrupts of interfaces go to. Without a plan the housekeeping
    /// ones, of the interface's node if it has any.
    Irq,
    /// `${plan.app}`: those of the program. Without a plan the isolated ones.
    App,
    /// `${host.online}`.
    Online,
    /// `${nic.node}`: those of the interface's memory node.
    NicNode,
    /// These.
    List(CpuSet),
}

impl CpuGroup {
    /// Every group that has a word.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("${plan.isolated}", Self::Isolated),
        ("${plan.housekeeping}", Self::Housekeeping),
        ("${plan.irq}", Self::Irq),
        ("${plan.app}", Self::App),
        ("${host.online}", Self::Online),
        ("${nic.node}", Self::NicNode),
    ];
}

impl CpuGroup {
    /// The CPUs, where they are given by number.
    pub(crate) const fn list(&self) -> Option<&CpuSet> {
        match self {
            Self::List(cpus) => Some(cpus),
            _ => None,
        }
    }
}

impl CpuRelation {
    /// Whether the group itself is a value that fulfils the wish.
    pub(crate) const fn says_which(self) -> bool {
        !matches!(self, Self::ApartFrom)
    }
}

/// When a wish counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The kernel's version is this or later.
    KernelAtLeast(String),
    /// The host has this setting, whatever its value: the kernel has the feature.
    Has(&'static Setting),
    /// The interface has one of these drivers; for a setting of the host, some interface has.
    Driver(Vec<String>),
    /// The model name of the processor has this word.
    Cpu(String),
    /// The host is not a guest.
    BareMetal,
    /// The host is a guest.
    Guest,
    /// It has this many memory nodes or more.
    NodesAtLeast(u64),
    /// It has this many processors or more: a processor may have several memory nodes.
    PackagesAtLeast(u64),
    /// It has this many online CPUs or more.
    CpusAtLeast(u64),
    /// Some CPU is isolated, now or by the plan.
    Isolated,
    /// A plan of CPUs was given.
    Plan,
    /// The other condition does not hold. What is unknown stays unknown.
    Not(Box<Self>),
}

impl Wanted {
    /// The other setting that says how much is wanted.
    pub(crate) const fn limit_setting(&self) -> Option<&'static Setting> {
        match self {
            Self::SameAs(other) | Self::AtLeastOf(other) | Self::AtMostOf(other) => Some(*other),
            _ => None,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(value) => f.write_str(value),
            // Nothing is more.
            Self::AtLeast(value) if value == "unlimited" => f.write_str(value),
            Self::AtLeast(value) => write!(f, "at least {value}"),
            Self::AtMost(value) => write!(f, "at most {value}"),
            Self::OneOf(values) => f.write_str(&values.join(" or ")),
            Self::Contains(word) => write!(f, "with {word}"),
            Self::Lacks(words) => match &words[..] {
                [word] if word == "none" => f.write_str("anything but none"),
                [one, other] => write!(f, "neither {one} nor {other}"),
                words => write!(f, "without {}", words.join(", ")),
            },
            Self::Absent => f.write_str("none"),
            Self::SameAs(other) => write!(f, "the same as {}", other.id),
            Self::AtLeastOf(other) => write!(f, "at least {}", other.id),
            Self::AtMostOf(other) => write!(f, "at most {}", other.id),
            Self::Cpus(CpuRelation::Equal, group) => write!(f, "{group}"),
            Self::Cpus(CpuRelation::Within, group) => write!(f, "only {group}"),
            Self::Cpus(CpuRelation::Cover, group) => write!(f, "all of {group}"),
            Self::Cpus(CpuRelation::ApartFrom, group) => write!(f, "none of {group}"),
        }
    }
}

impl fmt::Display for CpuGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolated => f.write_str("the isolated CPUs"),
            Self::Housekeeping => f.write_str("the housekeeping CPUs"),
            Self::Irq => f.write_str("the CPUs for interrupts"),
            Self::App => f.write_str("the program's CPUs"),
            Self::Online => f.write_str("the online CPUs"),
            Self::NicNode => f.write_str("the CPUs of the interface's node"),
            Self::List(cpus) if cpus.iter().nth(1).is_none() => write!(f, "CPU {cpus}"),
            Self::List(cpus) => write!(f, "CPUs {cpus}"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KernelAtLeast(version) => write!(f, "Linux {version} or later"),
            Self::Has(setting) => write!(f, "a host that has {}", setting.id),
            Self::Driver(names) => write!(f, "driver {}", names.join(" or ")),
            Self::Cpu(word) => write!(f, "a processor of {word}"),
            Self::BareMetal => f.write_str("bare metal"),
            Self::Guest => f.write_str("a guest"),
            Self::NodesAtLeast(nodes) => write!(f, "at least {nodes} memory nodes"),
            Self::PackagesAtLeast(packages) => write!(f, "at least {packages} processors"),
            Self::CpusAtLeast(cpus) => write!(f, "at least {cpus} CPUs"),
            Self::Isolated => f.write_str("isolated CPUs"),
            Self::Plan => f.write_str("a plan of CPUs"),
            Self::Not(condition) => write!(f, "not {condition}"),
        }
    }
}

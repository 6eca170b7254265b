//! Where a value is written, and what its words mean there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ethtool::{EthtoolParameter, is_wake_word};
use super::form::{Form, WordError, switch};
use super::offline::SMT_CONTROL;
use super::{Device, LinkAttribute, partition};
use crate::Setting;

/// Where a value is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Target {
    /// A file of sysfs, procfs (sysctls too) or debugfs.
    File {
        /// The path on a live host.
        path: String,
        /// How it words its value.
        form: Form,
    },
    /// A file of an interface.
    InterfaceFile {
        /// The interface.
        device: Device,
        /// The path below `/sys/class/net/IF/`.
        file: String,
        /// How it words its value.
        form: Form,
    },
    /// The CPUs of one interrupt of a device.
    Irq {
        /// The interface.
        device: Device,
        /// Which of the device's vectors, from 0 in the order of their numbers: the numbers
        /// themselves change when the device is reset.
        vector: usize,
    },
    /// An attribute of a link.
    Link {
        /// The interface.
        device: Device,
        /// The attribute.
        attribute: LinkAttribute,
    },
    /// A parameter that ethtool writes.
    Ethtool {
        /// The interface.
        device: Device,
        /// The parameter.
        parameter: EthtoolParameter,
    },
    /// The CPUs that a control group isolates: a list, or `none` where there is no such group.
    Partition {
        /// The group's directory on a live host.
        path: String,
    },
    /// Whether a systemd unit runs: `running` or `stopped`.
    Service {
        /// The unit.
        unit: String,
    },
}

/// How far the effect may be from what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerance {
    Exact,
    /// Devices count in steps of their own: up to this much away, or an eighth.
    Steps(u64),
    /// Made larger, to the next power of two at most.
    RoundedUp,
}

/// Files whose number the kernel makes a power of two (`net/core/net-sysfs.c`,
/// `net/core/sysctl_net_core.c`).
const ROUNDED_UP: [&str; 2] = ["rps_flow_cnt", "rps_sock_flow_entries"];

/// What the switch of simultaneous multithreading says when it cannot be switched, and what that means
/// (`Documentation/ABI/testing/sysfs-devices-system-cpu`).
pub(super) const SMT_STATES: &[(&str, &str)] = &[
    ("notsupported", "the processor has one thread a core, or the firmware switched the others off"),
    ("notimplemented", "the kernel cannot switch threads on this architecture"),
    ("forceoff", "the kernel was booted with nosmt=force, or forceoff was written; only a boot takes it back"),
];

impl Target {
    /// The device it belongs to.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        match self {
            Self::InterfaceFile { device, .. }
            | Self::Irq { device, .. }
            | Self::Link { device, .. }
            | Self::Ethtool { device, .. } => Some(device),
            Self::File { .. } | Self::Partition { .. } | Self::Service { .. } => None,
        }
    }

    /// The CPU whose value it is; `None` where it belongs to several or to none.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        const OF_CPUS: [&str; 2] = ["/sys/devices/system/cpu/cpu", "/sys/devices/system/machinecheck/machinecheck"];
        let Self::File { path, .. } = self else { return None };
        let numbered = OF_CPUS.iter().find_map(|start| path.strip_prefix(start))?;
        numbered.split_once('/')?.0.parse().ok()
    }

    /// Whether a word is a state that this target can be in and nobody can put it into: such a value is neither
    /// written nor put back.
    #[must_use]
    pub fn is_only_state(&self, word: &str) -> bool {
        matches!(self, Self::File { path, .. } if path == SMT_CONTROL)
            && SMT_STATES.iter().any(|(state, _)| *state == word)
    }

    /// Whether it belongs to the network namespace in which it was looked up.
    #[must_use]
    pub fn is_of_network(&self) -> bool {
        match self {
            Self::File { path, .. } => path.starts_with("/proc/sys/net/"),
            target => target.device().is_some(),
        }
    }

    /// What tells it from other targets, also when its interface has another name now.
    #[must_use]
    pub fn key(&self) -> String {
        match self.device() {
            Some(device) => format!("{} {}", device.key(), self.within("IF")),
            None => self.to_string(),
        }
    }

    /// The one way to write a wanted word.
    ///
    /// # Errors
    /// It is none that the target can have.
    pub fn normal(&self, word: &str) -> Result<String, WordError> {
        let error = |wanted| Err(WordError { word: word.to_owned(), wanted });
        let number = |word: &str| word.trim().parse::<u32>().map(|number| number.to_string());
        if self.is_only_state(word.trim()) {
            return error("a value that can be written: it is a state of the kernel");
        }
        match self {
            Self::File { form, .. } | Self::InterfaceFile { form, .. } => form.normal(word),
            Self::Irq { .. } => match Form::CpuList.normal(word)?.as_str() {
                "none" => error("a set of CPUs with a member"),
                list => Ok(list.to_owned()),
            },
            Self::Partition { .. } => Form::CpuList.normal(word),
            Self::Link { .. } => number(word).or_else(|_| error("a number")),
            Self::Ethtool { parameter, .. } => match parameter {
                EthtoolParameter::Feature(_) if matches!(word, "off, requested" | "on, not requested") => {
                    Ok(word.to_owned())
                }
                parameter if parameter.is_switch() => {
                    switch(word).map_or_else(|| error("on or off"), |word| Ok(word.to_owned()))
                }
                parameter if parameter.is_number() => number(word).or_else(|_| error("a number")),
                EthtoolParameter::WakeOnLan => match switch(word) {
                    // The magic packet is what everybody means.
                    Some("on") => Ok("g".to_owned()),
                    Some(_) => Ok("off".to_owned()),
                    None if is_wake_word(word) => Ok(word.to_owned()),
                    None => error("off or letters of wake-on-LAN, pumbagsf"),
                },
                _ if matches!(word, "off" | "rx" | "tx" | "rx tx") => Ok(word.to_owned()),
                _ => error("one of off, rx, tx, rx tx"),
            },
            Self::Service { .. } => match word.split(',').next().unwrap_or_default().trim() {
                word @ ("running" | "stopped") => Ok(word.to_owned()),
                word => match switch(word) {
                    Some("on") => Ok("running".to_owned()),
                    Some(_) => Ok("stopped".to_owned()),
                    None => error("running or stopped"),
                },
            },
        }
    }

    /// Whether two words mean the same value here.
    #[must_use]
    pub fn same(&self, one: &str, other: &str) -> bool {
        one == other || matches!((self.normal(one), self.normal(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Whether an effect is what was asked for, as near as this target can come.
    #[must_use]
    pub fn accepts(&self, wanted: &str, effect: &str) -> bool {
        let is_used =
            matches!(self, Self::File { form: Form::Controller(_), .. }) && effect.starts_with("on, used by ");
        if self.same(wanted, effect) || is_used && wanted == "on" {
            return true;
        }
        let (Ok(wanted), Ok(effect)) = (wanted.parse::<u64>(), effect.parse::<u64>()) else { return false };
        match self.tolerance() {
            Tolerance::Exact => false,
            Tolerance::Steps(steps) => wanted > 0 && wanted.abs_diff(effect) <= steps.max(wanted / 8),
            Tolerance::RoundedUp => wanted > 0 && effect > wanted && effect <= wanted.next_power_of_two(),
        }
    }

    /// Whether a word is no value but what a write in several steps leaves when it is broken off:
    /// it is the work of whoever began the write.
    pub(super) fn is_halfway(&self, word: &str) -> bool {
        matches!(self, Self::Partition { .. }) && partition::is_halfway(word)
    }

    fn tolerance(&self) -> Tolerance {
        match self {
            // i40e and ice count in 2 us, ena and mlx5 in steps of the device.
            Self::Ethtool { parameter: EthtoolParameter::Coalesce(field), .. } if field.word().contains("usecs") => {
                Tolerance::Steps(2)
            }
            Self::Ethtool { parameter: EthtoolParameter::Ring(_), .. } => Tolerance::RoundedUp,
            Self::File { path: file, .. } | Self::InterfaceFile { file, .. }
                if ROUNDED_UP.iter().any(|end| file.ends_with(end)) =>
            {
                Tolerance::RoundedUp
            }
            _ => Tolerance::Exact,
        }
    }

    /// The target when its interface has this name.
    pub(super) fn within(&self, interface: &str) -> String {
        match self {
            Self::File { path, .. } | Self::Partition { path } => path.clone(),
            Self::InterfaceFile { file, .. } => format!("/sys/class/net/{interface}/{file}"),
            Self::Irq { vector, .. } => format!("interrupt vector {vector} of {interface}"),
            Self::Link { attribute, .. } => format!("{} of {interface}", attribute.word()),
            Self::Ethtool { parameter, .. } => format!("{} of {interface}", words(parameter)),
            Self::Service { unit } => unit.clone(),
        }
    }
}

fn words(parameter: &EthtoolParameter) -> String {
    let group = match parameter {
        EthtoolParameter::Coalesce(_) => "coalesce ",
        EthtoolParameter::Ring(_) => "ring ",
        EthtoolParameter::Channels(_) => "channels ",
        EthtoolParameter::PauseAutoneg => "pause ",
        EthtoolParameter::Feature(_) => "offload ",
        EthtoolParameter::Pause | EthtoolParameter::EnergyEfficient | EthtoolParameter::WakeOnLan => "",
    };
    format!("{group}{}", parameter.word())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.within(self.device().map_or("", |device| &device.interface)))
    }
}

/// Whether a value is what a device that counts in steps of its own makes of a wanted one.
pub(crate) fn is_rounded(setting: &Setting, wanted: &str, found: &str) -> bool {
    let parameters = setting.nic.ethtool.as_ref().map(EthtoolParameter::of).unwrap_or_default();
    let [parameter] = &parameters[..] else { return false };
    let device = Device { interface: String::new(), place: None };
    Target::Ethtool { device, parameter: parameter.clone() }.accepts(wanted, found)
}

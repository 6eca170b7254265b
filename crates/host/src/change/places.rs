//! Where each instance of a setting is written. Most follow from where it is read; the tables have
//! the rest.

mod finder;
mod table;

use thiserror::Error;

use super::offline::SMT_CONTROL;
use super::target::SMT_STATES;
use super::{Target, partition};
use crate::setting::Write;
use crate::{CpuSet, ReadFrom, Root, Setting};
use finder::Finder;
use table::{PLACES, Place};

/// Which instances are meant.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// The interfaces, of the calling thread's network namespace.
    pub interfaces: &'a [String],
    /// The CPUs, for what each CPU has; all that are online if none is named.
    pub cpus: Option<CpuSet>,
}

/// One instance of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The setting's id with the instance in brackets.
    pub id: String,
    /// Which part of the host or of the interface it is.
    pub part: Part,
    /// Where it is written.
    pub target: Target,
}

/// A part of a host or interface that has a value of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole host or interface.
    Whole,
    /// A CPU.
    Cpu(u32),
    /// An idle state of a CPU, by the processor's name for it.
    IdleState {
        /// The CPU.
        cpu: u32,
        /// The state's name: `C6`.
        state: String,
        /// The time to leave it, microseconds.
        exit_latency_us: Option<u64>,
    },
    /// A queue of an interface: `rx` or `tx`, number.
    Queue(&'static str, u32),
    /// An interrupt vector of an interface, from 0.
    Vector(usize),
    /// What another place of the setting needs to be this word, whatever the setting shall be. It is
    /// written only when that place is.
    Needed(&'static str),
    /// Anything else that has a name.
    Named(String),
}

impl Located {
    /// The word for this place when the setting shall have a value.
    #[must_use]
    pub fn wanted<'a>(&self, value: &'a str) -> &'a str {
        match self.part {
            Part::Needed(word) => word,
            _ => value,
        }
    }
}

/// Why a setting is not written while the host runs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotAtRunTime {
    /// Only another boot, the firmware, another machine or a program can change it.
    #[error("{id} is of the class {class}, which Nearwire does not write while the host runs")]
    Class {
        /// The setting.
        id: &'static str,
        /// The class as commands print it.
        class: &'static str,
    },
    /// It lasts as long as a process holds a device open.
    #[error(
        "{id} lasts only while a process holds /dev/cpu_dma_latency open: run {HOLD}, or {HOLD} -- PROGRAM for as long as \
         a program runs"
    )]
    NeedsHolder {
        /// The setting.
        id: &'static str,
    },
    /// The module reads it when it is loaded.
    #[error("{id} is read when the kernel module is loaded; the module must be loaded again")]
    NeedsReload {
        /// The setting.
        id: &'static str,
    },
    /// The kernel only shows it.
    #[error("{id}: the kernel shows it and lets nobody write it")]
    ReadOnly {
        /// The setting.
        id: &'static str,
    },
    /// It is in a state that nobody can change.
    #[error("{id} is {state} and cannot be changed while the host runs: {why}")]
    Fixed {
        /// The setting.
        id: &'static str,
        /// Its state.
        state: &'static str,
        /// What the state means.
        why: &'static str,
    },
    /// CPUs that were isolated at boot are given back by a boot only.
    #[error("{id}: these CPUs were isolated at boot; only a boot without isolcpus= gives them back")]
    IsolatedAtBoot {
        /// The setting.
        id: &'static str,
    },
    /// The host has no place for cpuset partitions.
    #[error(
        "{id} needs the cpuset controller of cgroup v2 at /sys/fs/cgroup, which this host does not have there; \
         isolcpus= isolates CPUs at boot"
    )]
    NoPartitions {
        /// The setting.
        id: &'static str,
    },
    /// Nearwire has no way to write it and put it back.
    #[error("{id} is not written by Nearwire: {why}")]
    NoWriter {
        /// The setting.
        id: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// This host, kernel or device does not have it.
    #[error("{id} does not exist on this host")]
    Absent {
        /// The setting.
        id: &'static str,
    },
}

/// The command that holds a request on `/dev/cpu_dma_latency`.
pub const HOLD: &str = "nearwire tune hold";

/// Where each instance of a setting is written.
///
/// # Errors
/// Why there is none.
pub fn targets(root: &Root, setting: &'static Setting, scope: &Scope<'_>) -> Result<Vec<Located>, NotAtRunTime> {
    let id = setting.id;
    let finder = Finder { root, setting, scope };
    if let Some(why) = setting.nic.not_at_run_time {
        return Err(NotAtRunTime::NoWriter { id, why });
    }
    let place = PLACES.iter().find(|(of, _)| *of == id).map(|(_, place)| place);
    let found = match (place, setting.write) {
        (Some(Place::None(why)), _) => return Err(NotAtRunTime::NoWriter { id, why }),
        (Some(Place::Partition), _) if !partition::is_possible(root) => return Err(NotAtRunTime::NoPartitions { id }),
        (Some(place), _) => finder.at(place),
        (None, Write::PmQos) => return Err(NotAtRunTime::NeedsHolder { id }),
        (None, Write::Service) => match setting.read {
            ReadFrom::Service(unit) => finder.at(&Place::Unit(unit)),
            _ => return Err(NotAtRunTime::NoWriter { id, why: "it is kept in a configuration file" }),
        },
        (None, Write::File | Write::Sysctl | Write::Irq | Write::Module | Write::Ethtool) => {
            finder.where_it_is_read()?
        }
        (None, class) => return Err(NotAtRunTime::Class { id, class: class.name() }),
    };
    let located = finder.writable(found)?;
    match located.iter().find_map(|located| fixed(root, &located.target)) {
        Some((state, why)) => Err(NotAtRunTime::Fixed { id, state, why }),
        None => Ok(located),
    }
}

/// The state of a target that nobody can change, and what it means.
fn fixed(root: &Root, target: &Target) -> Option<(&'static str, &'static str)> {
    let Target::File { path, .. } = target else { return None };
    let states = if path == SMT_CONTROL { SMT_STATES } else { return None };
    let now = root.text(path).ok()?;
    states.iter().find(|(state, _)| *state == now).copied()
}

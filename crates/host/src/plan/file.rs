//! A plan as a file.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::request::is_name;
use super::{Derived, Plan, SCHEMA, VERSION};
use crate::CpuSet;
use crate::topology::Topology;

/// A plan of the largest host has a few hundred kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a file is no plan, or not one for this host.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// It cannot be read.
    #[error("read the plan {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It is not JSON, or not of a plan's shape.
    #[error("{} is not a plan: {source}; nearwire plan --json writes one", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
    /// It says of itself that it is something else.
    #[error("{} says it is '{found}', not a plan ('{SCHEMA}')", path.display())]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// Its own word.
        found: String,
    },
    /// A version this program does not know.
    #[error("{} is a plan of version {found}; this program reads version {VERSION}: plan again", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It contradicts itself.
    #[error("the plan {} contradicts itself: {reason}; plan again", path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// It was made for a host with other CPUs.
    #[error(
        "the plan gives away CPUs {missing}, which are not online on this host (online: {online}); plan again here"
    )]
    OtherHost {
        /// The CPUs that are not there.
        missing: CpuSet,
        /// Those that are.
        online: CpuSet,
    },
    /// It was made for a host whose CPUs share cores in another way.
    #[error("the plan takes CPUs {cpus} for one core, and on this host they are not; plan again here")]
    OtherCores {
        /// The CPUs of a core in the plan.
        cpus: CpuSet,
    },
}

/// Texts of a plan go to a terminal, and in one that was made here each is a single line. What is
/// derived is not read.
fn has_control(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text.chars().any(char::is_control),
        serde_json::Value::Array(values) => values.iter().any(has_control),
        serde_json::Value::Object(fields) => fields.iter().any(|(key, value)| key != "derived" && has_control(value)),
        _ => false,
    }
}

/// What is written: the plan, and for readers that are no program of ours what follows from it.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    derived: Derived,
}

impl Plan {
    /// As JSON, with `derived` beside the plan's own fields. That one is not read back: it follows
    /// from the rest.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, texts and lists with text keys cannot fail to become JSON.
        let text = serde_json::to_string_pretty(&Written { plan: self, derived: self.derived() });
        text.unwrap_or_default() + "\n"
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// See [`PlanFileError`]. Whether the plan is for this host is [`Self::fits`]'s question.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PlanFileError> {
        let path = path.as_ref();
        let read = || {
            let mut text = String::new();
            std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|source| PlanFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, PlanFileError> {
        let path = || path.to_owned();
        let shape = |source| PlanFileError::Shape { path: path(), source };
        let value: serde_json::Value = serde_json::from_str(text).map_err(shape)?;
        if !value.is_object() {
            return Err(shape(serde::de::Error::custom("it is no JSON object")));
        }
        // Before anything else: another version may have another shape.
        match value.get("schema").and_then(|schema| schema.as_str()) {
            Some(found) if found != SCHEMA => {
                return Err(PlanFileError::OtherSchema { path: path(), found: found.to_owned() });
            }
            _ => {}
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(VERSION) => {
                return Err(PlanFileError::OtherVersion { path: path(), found });
            }
            _ => {}
        }
        if has_control(&value) {
            let reason = "a name in it has control characters".to_owned();
            return Err(PlanFileError::Contradiction { path: path(), reason });
        }
        let plan: Self = serde_json::from_value(value).map_err(shape)?;
        match plan.contradiction() {
            Some(reason) => Err(PlanFileError::Contradiction { path: path(), reason }),
            None => Ok(plan),
        }
    }

    /// Whether a host has the CPUs of this plan, and has them in the same cores.
    ///
    /// # Errors
    /// It has not.
    pub fn fits(&self, topology: &Topology) -> Result<(), PlanFileError> {
        let online: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let planned = self.host.cores.iter().flat_map(|core| core.cpus.iter());
        let missing: CpuSet = planned.filter(|cpu| !online.contains(*cpu)).collect();
        if !missing.is_empty() {
            return Err(PlanFileError::OtherHost { missing, online });
        }
        let is_core = |cpus: &CpuSet| cpus.iter().zip(cpus.iter().skip(1)).all(|(a, b)| topology.share_core(a, b));
        match self.host.cores.iter().find(|core| !is_core(&core.cpus)) {
            Some(core) => Err(PlanFileError::OtherCores { cpus: core.cpus.clone() }),
            None => Ok(()),
        }
    }

    /// What cannot be in a plan that was made here and left alone.
    fn contradiction(&self) -> Option<String> {
        let mut owned = BTreeSet::new();
        let twice = self.shares.iter().flat_map(|share| share.cpus.iter()).find(|cpu| !owned.insert(*cpu));
        if let Some(cpu) = twice {
            return Some(format!("CPU {cpu} has two owners"));
        }
        let there: BTreeSet<u32> = self.host.cores.iter().flat_map(|core| core.cpus.iter()).collect();
        if let Some(cpu) = owned.symmetric_difference(&there).next() {
            return Some(format!("CPU {cpu} has an owner and no core, or a core and no owner"));
        }
        let irqs = self.nics.iter().flat_map(|nic| nic.irqs.iter().map(|irq| irq.cpu));
        let emulators = self.guests.iter().flat_map(|guest| guest.emulator_cpus.iter());
        if let Some(cpu) = irqs.chain(emulators).find(|cpu| !there.contains(cpu)) {
            return Some(format!("something goes to CPU {cpu}, which is not in the plan's host"));
        }
        let flags = self.host.isolcpus_flags.as_deref();
        if let Some(flags) = flags.filter(|flags| crate::export::isolcpus_flags(flags).as_deref() != Some(*flags)) {
            return Some(format!("'{flags}' are no words of isolcpus="));
        }
        let guest = self.guests.iter().find(|guest| {
            let mine = super::Owner::Guest { guest: guest.name.clone() };
            !is_name(&guest.name) || guest.vcpus.iter().any(|pin| self.owner(pin.cpu) != Some(&mine))
        });
        guest.map(|guest| format!("guest '{}' has virtual CPUs on CPUs that are not its own", guest.name))
    }
}

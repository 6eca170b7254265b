//! What reads and writes: the seam between the engine and a host.

use std::fmt;

use rustix::io::Errno;
use thiserror::Error;

use super::{Change, Target};
use crate::CpuSet;

/// A host whose values can be read and written. The engine knows nothing else of it.
pub trait Host {
    /// The value now, in the target's words.
    ///
    /// # Errors
    /// What the host said.
    fn read(&mut self, target: &Target) -> Result<String, HostError>;

    /// Writes a word. Whether it had an effect is found out by reading.
    ///
    /// # Errors
    /// What the host said.
    fn write(&mut self, target: &Target, word: &str) -> Result<(), HostError>;

    /// Finds out whether a write of this word would be let through, without any write.
    ///
    /// # Errors
    /// What stands in the way.
    fn probe(&mut self, target: &Target, word: &str) -> Result<(), HostError>;

    /// Writes the value that is there again where only a write tells whether one is let through. Asked of the whole
    /// plan when it is on disk, before its first change.
    ///
    /// # Errors
    /// What stands in the way.
    fn rehearse(&mut self, _target: &Target) -> Result<(), HostError> {
        Ok(())
    }

    /// The CPUs that are online now and that this change takes offline.
    fn cpus_taken_offline(&mut self, _change: &Change) -> CpuSet {
        CpuSet::default()
    }

    /// The values that these changes may move and do not mean to, each wanted as it is found. The
    /// engine holds them and puts them back with the others.
    fn witnesses(&mut self, _changes: &[Change]) -> Vec<Change> {
        Vec::new()
    }
}

/// What a host said to a read or a write.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{action} {target}: {cause}{advice}")]
pub struct HostError {
    /// `read` or `write`.
    pub action: &'static str,
    /// The target, with the interface's name of the plan.
    pub target: String,
    /// The cause.
    pub cause: Cause,
    /// What it means here or what to do, behind `; `, or nothing.
    pub advice: &'static str,
}

/// Why a host did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What is to be read or written is not there.
    Absent,
    /// An error number of the kernel.
    Kernel(i32),
    /// A sentence of whoever was asked.
    Says(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it is not there"),
            Self::Kernel(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
            Self::Says(why) => f.write_str(why),
        }
    }
}

impl HostError {
    pub(super) fn kernel(action: &'static str, target: &Target, errno: Errno) -> Self {
        // The cpufreq files of a CPU that is offline stay, and say EBUSY (`show` of `drivers/cpufreq/cpufreq.c`).
        let is_offline = action == "read" && errno == Errno::BUSY && target.cpu().is_some();
        let absent = is_offline || matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO);
        let cause = if absent { Cause::Absent } else { Cause::Kernel(errno.raw_os_error()) };
        let advice = if action == "write" { advice(target, errno) } else { "" };
        Self { action, target: target.to_string(), cause, advice }
    }

    pub(super) fn says(action: &'static str, target: &Target, why: impl Into<String>) -> Self {
        Self { action, target: target.to_string(), cause: Cause::Says(why.into()), advice: "" }
    }

    pub(super) fn absent(action: &'static str, target: &Target) -> Self {
        Self { action, target: target.to_string(), cause: Cause::Absent, advice: "" }
    }

    /// Whether the target is not there at all.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.cause == Cause::Absent
    }
}

/// What an error number means for a target, where it means something of its own
/// (`kernel/irq/manage.c`, `kernel/irq/proc.c`, `drivers/cpufreq/`).
fn advice(target: &Target, errno: Errno) -> &'static str {
    match (target, errno) {
        (Target::Irq { .. }, Errno::IO) => "; the kernel chooses the CPUs of this interrupt itself (managed)",
        (Target::Irq { .. }, Errno::PERM) => "; this interrupt belongs to one CPU, or the write needs root",
        (Target::Irq { .. }, Errno::INVAL) => "; none of these CPUs is online",
        (_, Errno::ROFS) => "; mounted read-only, as in containers: run on the host itself",
        (_, Errno::ACCESS | Errno::PERM) => "; run as root on the host itself",
        (Target::Ethtool { .. }, Errno::INVAL | Errno::OPNOTSUPP) => {
            "; the driver does not take this value or combination"
        }
        (_, Errno::BUSY) => "; something else holds it, such as a governor or another tool",
        (_, Errno::INVAL | Errno::RANGE) => "; the kernel does not take this value",
        _ => "",
    }
}

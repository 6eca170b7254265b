//! Values written to a host: every one verified, every one put back on demand or on failure.
//!
//! ```text
//! setting, wanted value
//!    | places::targets        where each instance is written
//!    v
//! Change  id, target, found, wanted
//!    | apply                  probe all -> journal -> in order: read, write, read back
//!    v
//! journal on disk  ---------- revert, status
//! ```
//!
//! * [`targets`]: the places of a setting, or why it has none while the host runs;
//! * [`Change`]: one value of one place, its shell line and the inverse;
//! * [`Host`]: what reads and writes; [`RootHost`] is the live host or a tree of files;
//! * [`apply`]: writes a list of changes or none of them;
//! * [`revert`] and [`status`]: what the journal says against what the host says;
//! * [`confirm`]: a change that goes back by itself unless somebody confirms it.
//!
//! A value is written only while it is what was found before, the *effect* is read back, and what
//! somebody else changed in the meantime is kept and named.

mod apply;
pub mod confirm;
mod device;
mod ethtool;
mod form;
mod hold;
mod host;
mod link;
mod newest;
mod offline;
mod order;
mod partition;
mod places;
mod put_back;
mod revert;
mod root_host;
mod shell;
mod target;
mod witness;

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};

use crate::Setting;
use crate::catalogue;
use crate::setting::{Disruption, Risk};

pub use crate::setting::Stage;
pub use apply::{Applied, ApplyError, ApplyOptions, Attempt, AttemptError, apply};
pub use device::Device;
pub use ethtool::{ChannelField, CoalesceField, EthtoolParameter, RingField};
pub use form::{Form, WordError};
pub use hold::{Held, drifted, hold};
pub use host::{Cause, Host, HostError};
pub use link::{LinkAttribute, LinkEvents};
pub use newest::take_newest_back;
pub(crate) use order::rank;
pub use order::{put_in_order, stage};
pub use places::{HOLD, Located, NotAtRunTime, Part, Scope, targets};
pub use put_back::{Outcome, Permanent, PutBack};
pub use revert::{EntryState, RevertError, RevertOptions, Reverted, Status, StatusEntry, revert, status};
pub use root_host::RootHost;
pub use target::Target;
pub(crate) use target::is_rounded;

/// One value of one place: what was found there and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting's id with its instance in brackets: `cpu.governor[cpu2]`, `nic.mtu[eth4]`.
    pub id: String,
    /// Where it is written.
    pub target: Target,
    /// The value before, in the words of the target.
    pub found: String,
    /// The value wanted, in the words of the target. Equal to `found` in a *witness*: a value that
    /// another change may disturb and that is to stay.
    pub wanted: String,
}

impl Change {
    /// Reads what is found at a target and takes down what is wanted there.
    ///
    /// # Errors
    /// The wanted value is none that the target can have, or the target cannot be read.
    pub fn plan(located: &Located, wanted: &str, host: &mut dyn Host) -> Result<Self, HostError> {
        let target = located.target.clone();
        let wanted = target.normal(wanted).map_err(|error| HostError::says("write", &target, error.to_string()))?;
        let found = host.read(&target)?;
        Ok(Self { id: located.id.clone(), target, found, wanted })
    }

    /// As [`Self::plan`] of a parameter of ethtool, with what was read of it before in place of the
    /// question; `None` for other targets and for a value that the target cannot have.
    #[must_use]
    pub fn from_reading(located: &Located, wanted: &str, found: &str) -> Option<Self> {
        let target = located.target.clone();
        let is_whole = matches!(target, Target::Ethtool { .. }) && located.part == Part::Whole;
        let wanted = target.normal(wanted).ok().filter(|_| is_whole)?;
        Some(Self { id: located.id.clone(), target, found: found.to_owned(), wanted })
    }

    /// The row of the catalogue.
    #[must_use]
    pub fn setting(&self) -> Option<&'static Setting> {
        catalogue::setting(self.id.split('[').next().unwrap_or_default())
    }

    /// What the change interrupts.
    #[must_use]
    pub fn disruption(&self) -> Disruption {
        self.setting().map_or(Disruption::None, |setting| setting.disrupts)
    }

    /// What the change can harm.
    #[must_use]
    pub fn risk(&self) -> &'static [Risk] {
        self.setting().map_or(&[], |setting| setting.risk)
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_as_wanted(&self) -> bool {
        self.target.same(&self.found, &self.wanted)
    }

    /// The change as a command.
    #[must_use]
    pub fn command(&self) -> String {
        self.target.shell(&self.wanted)
    }

    /// The change as a line of shell, with the setting and the value found as a comment.
    #[must_use]
    pub fn shell(&self) -> String {
        format!("{}  # {}", self.command(), comment(&format!("{}, was {}", self.id, self.found)))
    }

    /// The line of shell that undoes it.
    #[must_use]
    pub fn inverse_shell(&self) -> String {
        format!("{}  # {}", self.target.shell(&self.found), comment(&format!("{}, as found", self.id)))
    }
}

/// In one line whatever a name has in it: what follows would be run.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

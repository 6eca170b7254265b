//! Parts of systemd units, and what is to be run once files are in place.

use std::fmt;

use super::form::UnitState;

/// Directory of the units that an administrator adds.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// A command for once the files are in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// A command, run once.
    Run(&'static str),
    /// A unit brought into a state.
    Unit(String, UnitState),
    /// The host boots again.
    Reboot,
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(command) => f.write_str(command),
            Self::Unit(unit, state) => write!(f, "systemctl {} --now {unit}", state.verb()),
            Self::Reboot => f.write_str("reboot"),
        }
    }
}

/// The unit that systemd makes of an interface (`systemd.device(5)`, `systemd-escape(1)`). The name
/// is a plain one, so that only the hyphen is escaped.
pub(super) fn device_unit(interface: &str) -> String {
    format!("sys-subsystem-net-devices-{}.device", interface.replace('-', "\\x2d"))
}

//! A value to bring about: what changes and exported files start from.

use crate::profile::Wanted;
use crate::setting::ReadFrom;
use crate::{CpuSet, Setting};

/// One setting and the value it should get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The setting.
    pub setting: &'static Setting,
    /// The interface, of a setting of interfaces.
    pub interface: Option<String>,
    /// Of a setting that each CPU has: the CPUs that get the value; all where `None`.
    pub cpus: Option<CpuSet>,
    /// The value, in the words that the setting is read in: `performance`, `off`, `2-3`, `not set`.
    pub value: String,
    /// Why, for the person who reads the files later.
    pub reason: String,
}

impl Goal {
    /// The setting's id, with the interface in brackets: `nic.mtu[eth0]`.
    #[must_use]
    pub fn id(&self) -> String {
        self.setting.instance(self.interface.as_deref())
    }
}

/// The one value to write, in the words that the setting is read in: the limit of a one-sided
/// wish, the first of several, `stopped, disabled` for a service that is to be gone. `None` where
/// the wish does not say what to write, or names CPUs without numbers.
pub(crate) fn value(setting: &Setting, wanted: &Wanted) -> Option<String> {
    match (wanted, setting.read) {
        (Wanted::Equal(value) | Wanted::AtLeast(value) | Wanted::AtMost(value), _) => Some(value.clone()),
        (Wanted::OneOf(values), _) => values.first().cloned(),
        (Wanted::Cpus(relation, group), _) if relation.says_which() => group.list().map(ToString::to_string),
        (Wanted::Lacks(words), ReadFrom::Service(_)) if words.iter().any(|word| word == "running") => {
            Some("stopped, disabled".to_owned())
        }
        (Wanted::Absent, ReadFrom::CommandLine(_)) => Some("not set".to_owned()),
        _ => None,
    }
}

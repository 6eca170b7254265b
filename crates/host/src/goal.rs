//! A value to bring about: what changes and exported files start from.

use crate::number::numbers;
use crate::profile::{LeftOut, Wanted};
use crate::setting::{ReadFrom, Value};
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
    /// What is wanted, with CPUs by number: a place of the setting may be right or better already.
    pub wanted: Wanted,
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

impl LeftOut {
    /// The value to bring about for somebody who accepts the risk.
    #[must_use]
    pub fn goal(&self) -> Option<Goal> {
        let wanted = self.wanted.clone()?;
        let value = value(self.setting, &wanted)?;
        let reason = format!("{} is printed, and the risk was accepted.", self.printed);
        Some(Goal { setting: self.setting, interface: None, cpus: None, value, wanted, reason })
    }
}

/// The value to write over one that was found, where the wish is one-sided and the value a list of
/// numbers: of each pair the better one, so that nothing that is good enough is lowered.
pub(crate) fn best(setting: &Setting, wanted: &Wanted, found: &str) -> Option<String> {
    let (limit, is_better): (&str, fn(f64, f64) -> bool) = match wanted {
        Wanted::AtLeast(limit) => (limit, |found, limit| found > limit),
        Wanted::AtMost(limit) => (limit, |found, limit| found < limit),
        _ => return None,
    };
    let (found_words, limit_words): (Vec<_>, Vec<_>) =
        (found.split_whitespace().collect(), limit.split_whitespace().collect());
    let (found, limit) = (numbers(setting, found)?, numbers(setting, limit)?);
    if found.len() != limit.len() || found_words.len() != found.len() || found.len() < 2 {
        return None;
    }
    let words =
        (0..found.len()).map(|at| if is_better(found[at], limit[at]) { found_words[at] } else { limit_words[at] });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The one value to write, in the words that the setting is read in: the limit of a one-sided
/// wish, the first of several, `stopped, disabled` for a service that is to be gone. `None` where
/// the wish does not say what to write, or names CPUs without numbers.
pub(crate) fn value(setting: &Setting, wanted: &Wanted) -> Option<String> {
    match (wanted, setting.read) {
        // How many CPUs does not say which.
        (Wanted::AtLeast(_) | Wanted::AtMost(_), _) if setting.value == Value::CpuList => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn better_numbers_of_a_list_are_kept() {
        let setting = catalogue::setting("net.ipv4.tcp_rmem").unwrap();
        let least = Wanted::AtLeast("8192 87380 4194304".to_owned());
        assert_eq!(best(setting, &least, "4096 131072 6291456").as_deref(), Some("8192 131072 6291456"));
        assert_eq!(best(setting, &Wanted::Equal("1".to_owned()), "4096 131072 6291456"), None);
        let one = catalogue::setting("vm.swappiness").unwrap();
        let isolated = catalogue::setting("cpu.isolated").unwrap();
        assert_eq!(value(isolated, &Wanted::AtLeast("1".to_owned())), None);
        assert_eq!(best(one, &Wanted::AtMost("10".to_owned()), "60"), None);
    }
}

//! What to do about a difference.

use super::Finding;
use crate::change::{Change, HOLD, NotAtRunTime, RootHost, Scope, targets};
use crate::setting::{Persist, Value, Write};

/// When a fix takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// From the next boot or restart on.
    Boot,
    /// After work in the firmware's setup.
    Firmware,
    /// After work by hand that no file and no menu stands for.
    Hand,
}

impl When {
    /// The word for it in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Boot => "boot",
            Self::Firmware => "setup",
            Self::Hand => "do",
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// When it takes effect.
    pub when: When,
    /// The command, the line of a file or the entry of a menu.
    pub text: String,
}

impl Finding {
    /// What to do about a difference; nothing for other outcomes.
    #[must_use]
    pub fn fixes(&self) -> Vec<Fix> {
        if !self.outcome.is_difference() {
            return Vec::new();
        }
        let fix = |when| move |text: String| Fix { when, text };
        let mut fixes: Vec<Fix> = self.wish.fix.iter().cloned().map(fix(When::Hand)).collect();
        let setting = self.wish.setting;
        fixes.extend(setting.persist.iter().filter_map(|form| self.kept_by(*form)).map(fix(When::Boot)));
        let menu = setting.menu.iter().map(|menu| format!("{} menu: {}", menu.vendor.name(), menu.words));
        fixes.extend(menu.map(fix(When::Firmware)));
        if fixes.is_empty() {
            fixes.extend(by_hand(setting.write).map(|text| Fix { when: When::Hand, text: text.to_owned() }));
        }
        fixes
    }

    /// The first command that mends the difference at once, and how many more there are; `None`
    /// where nothing mends it while the host runs.
    pub fn now(&self, host: &mut RootHost) -> Option<(String, usize)> {
        let goal = self.goal()?;
        let interfaces: Vec<String> = goal.interface.iter().cloned().collect();
        let scope = Scope { interfaces: &interfaces, cpus: goal.cpus.clone() };
        let places = match targets(host.root(), goal.setting, &scope) {
            Ok(places) => places,
            Err(NotAtRunTime::NeedsHolder { .. }) => return Some((format!("{HOLD} --latency {}us", goal.value), 0)),
            Err(_) => return None,
        };
        let changes = places.iter().filter_map(|place| Change::plan(place, place.wanted(&goal.value), host).ok());
        let commands: Vec<_> = changes.filter(|change| !change.is_as_wanted()).map(|change| change.command()).collect();
        let more = commands.len().checked_sub(1)?;
        commands.into_iter().next().map(|first| (first, more))
    }

    /// The line that keeps the wanted value, where it can be written out.
    fn kept_by(&self, form: Persist) -> Option<String> {
        let value = match (self.wish.setting.value, self.value.as_deref()) {
            (Value::Switch, Some("on")) => Some("1"),
            (Value::Switch, Some("off")) => Some("0"),
            (_, value) => value,
        };
        match (form, value) {
            (Persist::FirmwareMenu, _) => None,
            (Persist::CommandLine(words), Some("not set" | "0")) if !words.contains('=') => {
                Some(format!("without {words} on the kernel's command line"))
            }
            (Persist::CommandLine(words), None) if words.ends_with("=LIST") => {
                Some(format!("{words} on the kernel's command line; nearwire plan chooses the list"))
            }
            (Persist::CommandLine(words), Some("not set")) => {
                Some(format!("without {} on the kernel's command line", words.split('=').next().unwrap_or(words)))
            }
            (Persist::CommandLine(words), Some(value)) if words.ends_with("=LIST") => {
                Some(format!("{} on the kernel's command line", words.replace("LIST", value)))
            }
            (Persist::CommandLine(words), _) => Some(format!("{words} on the kernel's command line")),
            (Persist::SysctlD, Some(value)) => {
                Some(format!("{} = {value} in a file of /etc/sysctl.d", self.wish.setting.id))
            }
            (form, _) => Some(form.to_string()),
        }
    }
}

/// What is left to do for a class that neither a file nor a menu keeps.
const fn by_hand(class: Write) -> Option<&'static str> {
    match class {
        Write::Hardware => Some("change the hardware or the slot"),
        Write::OtherDevice => Some("configure the other device"),
        Write::Application => Some("start or configure the program so"),
        Write::Firmware => Some("look for it in the firmware's setup"),
        Write::KernelBuild => Some("use a kernel that is built with it"),
        _ => None,
    }
}

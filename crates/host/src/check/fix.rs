//! What to do about a difference.

use super::Finding;
use crate::change::{Change, HOLD, NotAtRunTime, RootHost, Scope, targets};
use crate::export::link_options;
use crate::profile::Wanted;
use crate::setting::{Persist, ReadFrom, Value, Write};

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
        fixes.extend(self.kept().into_iter().map(fix(When::Boot)));
        let menu = self.menus.iter().map(|menu| format!("{} menu: {}", menu.vendor.name(), menu.words));
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
        let changes = places.iter().filter_map(|place| match Change::plan(place, place.wanted(&goal.value), host) {
            Ok(change) => Some(change),
            Err(_) if host.root().is_live() => None,
            // Of a copy nobody can be asked, but what was answered is known.
            Err(_) => Change::from_reading(place, place.wanted(&goal.value), self.found.as_value()?),
        });
        let commands: Vec<_> = changes.filter(|change| !change.is_as_wanted()).map(|change| change.command()).collect();
        let more = commands.len().checked_sub(1)?;
        commands.into_iter().next().map(|first| (first, more))
    }

    /// The lines that keep the wanted value. Forms that only have a name are left out beside one that can be written out.
    fn kept(&self) -> Vec<String> {
        let forms = self.wish.setting.kept_by();
        let lines: Vec<_> = forms.filter_map(|form| Some((form, self.kept_by(form)?))).collect();
        let is_bare = |(form, line): &&(Persist, String)| {
            matches!(form, Persist::TmpfilesD | Persist::UdevRule | Persist::SystemdUnit) && *line == form.to_string()
        };
        let has_line = lines.iter().any(|line| !is_bare(&line));
        lines.iter().filter(|line| !has_line || !is_bare(line)).map(|(_, line)| line.clone()).collect()
    }

    /// The line that keeps the wanted value, where it can be written out.
    fn kept_by(&self, form: Persist) -> Option<String> {
        let value = match (self.wish.setting.value, self.value.as_deref()) {
            (Value::Switch, Some("on")) => Some("1"),
            (Value::Switch, Some("off")) => Some("0"),
            (_, value) => value,
        };
        let setting = self.wish.setting;
        match (form, value, setting.read) {
            (Persist::FirmwareMenu, ..) => None,
            (Persist::CommandLine(words), ..) => Some(self.on_command_line(words, value)),
            (Persist::SysctlD, Some(value), ReadFrom::Sysctl(name)) => {
                Some(format!("{name} = {value} in a file of /etc/sysctl.d"))
            }
            // The sysctl behind it has another name and form.
            (Persist::SysctlD, _, read) if !matches!(read, ReadFrom::Sysctl(_)) => None,
            (Persist::TmpfilesD, Some(value), ReadFrom::File(path) | ReadFrom::Chosen(path)) => {
                Some(format!("w {path} - - - - {value} in a file of /etc/tmpfiles.d"))
            }
            // Lines of this kind may have patterns in the path, see tmpfiles.d(5).
            (Persist::TmpfilesD, Some(value), ReadFrom::EachCpu(file)) if self.cpus.is_none() => {
                Some(format!("w /sys/devices/system/cpu/cpu[0-9]*/{file} - - - - {value} in a file of /etc/tmpfiles.d"))
            }
            (Persist::TmpfilesD, Some(value), ReadFrom::Each { directory, prefix, file }) if self.cpus.is_none() => {
                Some(format!("w {directory}/{prefix}*/{file} - - - - {value} in a file of /etc/tmpfiles.d"))
            }
            (Persist::ModprobeD(_), Some(value), ReadFrom::ModuleParameter(module, parameter)) => {
                Some(format!("options {module} {parameter}={value} in a file of /etc/modprobe.d"))
            }
            (Persist::ServiceEnablement, Some("stopped, disabled"), ReadFrom::Service(unit)) => {
                Some(format!("systemctl disable --now {unit}"))
            }
            (Persist::LinkFile(option), ..) => {
                let options = self.value.as_deref().map(|value| link_options(setting, value).unwrap_or_default());
                let said = options.unwrap_or_default().into_iter().find(|(name, _)| *name == option);
                Some(match said {
                    Some((_, value)) => format!("{option}={value} in a .link file of systemd"),
                    None => form.to_string(),
                })
            }
            _ => Some(form.to_string()),
        }
    }

    /// The words of a command line, with the wanted value in place of the one that stands for all.
    fn on_command_line(&self, words: &str, value: Option<&str>) -> String {
        let name = words.split('=').next().unwrap_or(words);
        let line = match (value, self.wish.setting.read) {
            // What is there is unwanted, and no word is wanted in its place.
            (None, ReadFrom::CommandLine(option)) if matches!(self.wish.wanted, Wanted::Lacks(_) | Wanted::Absent) => {
                let found = self.found.as_value().unwrap_or_default();
                return format!("without {option}={found} on the kernel's command line");
            }
            (Some("not set"), _) => return format!("without {name} on the kernel's command line"),
            (Some("0"), _) if !words.contains('=') => {
                return format!("without {words} on the kernel's command line");
            }
            (None, _) if words.ends_with("=LIST") => {
                return format!("{words} on the kernel's command line; nearwire plan chooses the list");
            }
            (Some(value), _) if words.ends_with("=LIST") => words.replace("LIST", value),
            (Some(value), _) if words.ends_with("=MODE") => words.replace("MODE", value),
            (Some(value), ReadFrom::CommandLine(_)) if words.ends_with("=COUNT") => words.replace("COUNT", value),
            (Some(value), ReadFrom::CommandLine(option))
                if self.wish.setting.value != Value::Switch && words.contains('=') =>
            {
                format!("{option}={value}")
            }
            _ => words.to_owned(),
        };
        format!("{line} on the kernel's command line")
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

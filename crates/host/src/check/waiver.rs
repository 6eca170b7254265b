//! Differences that somebody has accepted, and until when.
//!
//! ```toml
//! [[waiver]]
//! setting = "vm.swappiness"
//! value = "60"                     # another value is a difference again
//! reason = "the database's vendor asks for it"
//! owner = "dba@example.com"
//! until = 2027-03-31               # the last day
//! # interface = "eth0"             # of a setting of interfaces; without it all of them
//! ```

use std::path::Path;
use std::time::SystemTime;

use super::judge::is_fulfilled;
use super::{Finding, Outcome};
use crate::Setting;
use crate::profile::table::{Source, Table};
use crate::profile::{Problem, ProfileError, Wanted, text_of_file};

/// A day, `2027-03-31`. Days compare as their texts do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(String);

impl Day {
    /// The day of a time, UTC.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        Self(humantime::format_rfc3339(time).to_string().chars().take("2027-03-31".len()).collect())
    }

    fn parse(text: &str) -> Option<Self> {
        let is_day = humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).is_ok();
        is_day.then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One difference that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// The setting.
    pub setting: &'static Setting,
    /// The interface; `None`: all that have the value.
    pub interface: Option<String>,
    /// The value that is accepted.
    pub value: String,
    /// Why it is.
    pub reason: String,
    /// Who decided so.
    pub owner: String,
    /// The last day.
    pub until: Day,
    /// The line of its file, from 1.
    pub line: usize,
}

/// The waivers of a file.
#[derive(Clone, Debug, Default)]
pub struct Waivers {
    file: String,
    waivers: Vec<Waiver>,
}

impl Waivers {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line of it is wrong.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        Self::parse(&path.to_string_lossy(), &text_of_file(path)?)
    }

    /// Waivers of this text; `file` is what messages call it.
    ///
    /// # Errors
    /// A line of it is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let source = Source { file, text };
        let parsed = source.parse()?;
        let top = Table::new(&source, parsed.get_ref(), parsed.span());
        top.only(&["waiver"])?;
        let waivers = top.tables("waiver")?.iter().map(waiver).collect::<Result<_, _>>()?;
        Ok(Self { file: file.to_owned(), waivers })
    }

    /// Takes accepted differences out of the findings of a check. Waivers that ended, or accept another value, become notes of the finding.
    /// Returns those that nothing differs for any more, for a person.
    #[must_use]
    pub fn apply(&self, findings: &mut [Finding], today: &Day) -> Vec<String> {
        let mut unused = Vec::new();
        for waiver in &self.waivers {
            let mut is_used = false;
            for finding in findings.iter_mut().filter(|finding| waiver.is_for(finding)) {
                is_used |= finding.outcome.is_difference();
                waiver.apply(finding, today);
            }
            if !is_used {
                unused.push(format!("{}:{}: {}", self.file, waiver.line, waiver.setting.id));
            }
        }
        unused
    }
}

impl Waiver {
    fn is_for(&self, finding: &Finding) -> bool {
        let is_interface = self.interface.is_none() || self.interface == finding.interface;
        finding.wish.setting == self.setting && is_interface
    }

    fn apply(&self, finding: &mut Finding, today: &Day) {
        if !finding.outcome.is_difference() {
            return;
        }
        let accepted = Wanted::Equal(self.value.clone());
        let found = finding.found.as_value().unwrap_or_default();
        let Self { owner, until, value, .. } = self;
        let note = if !is_fulfilled(self.setting, &accepted, found) {
            format!("{owner} waived {value} until {until}, not {found}")
        } else if *today > *until {
            format!("{owner} waived it until {until}")
        } else {
            finding.outcome = Outcome::Waived(Box::new(self.clone()));
            return;
        };
        finding.note = Some(finding.note.take().map_or(note.clone(), |other| format!("{other}; {note}")));
    }
}

fn waiver(table: &Table<'_>) -> Result<Waiver, ProfileError> {
    table.only(&["setting", "interface", "value", "reason", "owner", "until"])?;
    let setting = table.required_setting()?;
    let interface = table.find("interface").map(|found| table.text_of("interface", found)).transpose()?;
    if let Some(found) = table.find("interface").filter(|_| !setting.is_of_interfaces()) {
        return Err(table.bad("interface", found, format!("none: {} is not of an interface", setting.id)));
    }
    let expected = "a day such as 2027-03-31";
    let Some(until) = table.find("until") else {
        return Err(table.error(Problem::Missing { key: "until", expected: expected.to_owned() }));
    };
    let text = until.get_ref().as_datetime().map(ToString::to_string);
    let text = text.or_else(|| until.get_ref().as_str().map(str::to_owned)).unwrap_or_default();
    Ok(Waiver {
        setting,
        interface,
        value: table.text("value", "the value that is accepted, as the check prints it")?,
        reason: table.text("reason", "a sentence that says why")?,
        owner: table.text("owner", "who decided so")?,
        until: Day::parse(&text).ok_or_else(|| table.bad("until", until, expected))?,
        line: table.line(),
    })
}

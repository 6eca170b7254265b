//! What `ethtool` and `ip` printed about an interface, as `sos report` keeps it: the answers of the kernel in other words.
//!
//! Formats: `ethtool.c`, `rxclass.c` and `netlink/*.c` of ethtool 3.5 to 6.15; `ip/ipaddress.c` of iproute2. Newer versions
//! print more lines, and `n/a` where the driver lacks a value. Names of files: `sos/report/plugins/networking.py`.

mod links;
mod text;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::question::{FlowRules, Question, from_fields};
use crate::{Reading, Root};
use text::{Lines, Row};

/// Where `sos` puts them.
const DIRECTORY: &str = "/sos_commands/networking";
/// All interfaces, with details. Older versions of `sos` have only the second.
const LINKS: [&str; 2] = ["ip_-s_-d_link", "ip_-d_address"];

/// How an output becomes an answer.
enum Form {
    /// A line for each field.
    Rows(&'static [Row]),
    /// In a way of its own.
    Own(fn(&Lines<'_>) -> Option<Map<String, Value>>),
}

/// An answer (as [`Question::KEY`] names it), the option of ethtool that prints it, and how it is read.
struct Output {
    key: &'static str,
    option: &'static str,
    form: Form,
}

const fn rows(key: &'static str, option: &'static str, rows: &'static [Row]) -> Output {
    Output { key, option, form: Form::Rows(rows) }
}

const fn own(key: &'static str, option: &'static str, form: fn(&Lines<'_>) -> Option<Map<String, Value>>) -> Output {
    Output { key, option, form: Form::Own(form) }
}

const OUTPUTS: [Output; 19] = [
    rows("driver", "-i", text::DRIVER),
    rows("rings", "-g", text::RINGS),
    rows("rings-netlink", "-g", text::MORE_RINGS),
    rows("coalesce", "-c", text::COALESCE),
    rows("coalesce-netlink", "-c", text::MORE_COALESCE),
    rows("channels", "-l", text::CHANNELS),
    rows("pause", "-a", text::PAUSE),
    rows("fec", "--show-fec", text::FEC),
    own("link-settings", "", text::link_settings),
    own("wake-on-lan", "", text::wake_on_lan),
    own("timestamping", "-T", text::timestamping),
    own("eee", "--show-eee", text::energy_efficient),
    own("rss-hash", "-x", text::hash_function),
    own("rss-table", "-x", text::indirection),
    own("module", "-m", text::module),
    own("features", "-k", text::features),
    own("private-flags", "--show-priv-flags", text::private_flags),
    own("flow-rules", "-n", text::flow_rules),
    own("ena", "-S", text::ena),
];

/// The outputs about one interface.
pub(super) struct Outputs<'a> {
    root: &'a Root,
    name: &'a str,
}

impl<'a> Outputs<'a> {
    /// Those of a copy that has some, of whichever interface.
    pub(super) fn open(root: &'a Root, name: &'a str) -> Option<Self> {
        root.has(DIRECTORY).then_some(Self { root, name })
    }

    pub(super) fn answer<T: Question>(&self) -> Result<T, Reading> {
        let Some(output) = OUTPUTS.iter().find(|output| output.key == T::KEY) else {
            return Err(Reading::unknown("only the live kernel can be asked: sos does not gather it"));
        };
        let path = self.path(output.option);
        let text = self.root.read(&path)?;
        let lines = Lines::of(&text);
        let answer = match output.form {
            Form::Rows(rows) => lines.fields(rows).map_err(|what| Reading::unknown(format!("{path}: {what}")))?,
            Form::Own(form) => form(&lines),
        };
        let mut answer = answer.ok_or_else(|| lines.refusal(&path))?;
        if T::KEY == FlowRules::KEY {
            answer.insert("rss-contexts".to_owned(), json!(self.tables_of_groups(&answer)));
        }
        T::from_json(&answer).map_err(|what| Reading::unknown(format!("{path}: {what}")))
    }

    /// The description of the link, from that of all.
    pub(super) fn link<T: DeserializeOwned>(&self) -> Result<T, Reading> {
        let fields = links::link(&self.links()?, self.name);
        from_fields(&fields.ok_or_else(|| self.no_link())?).map_err(Reading::unknown)
    }

    /// The tables of the groups that rules bring flows to, where somebody let `sos` run `ethtool -x IF context N`: it does so
    /// only when told to.
    fn tables_of_groups(&self, rules: &Map<String, Value>) -> BTreeMap<u64, Value> {
        let rules = rules.get("rules").and_then(Value::as_array).into_iter().flatten();
        let table = |context: u64| {
            let text = self.root.read(&format!("{}_context_{context}", self.path("-x"))).ok()?;
            Some((context, text::indirection(&Lines::of(&text))?.remove("queues")?))
        };
        rules.filter_map(|rule| table(rule.get("rss-context")?.as_u64()?)).collect()
    }

    /// What a file in the interface's directory in sysfs would say.
    pub(super) fn file(&self, file: &str) -> Result<String, Reading> {
        let links = self.links()?;
        let fields = links::link(&links, self.name).ok_or_else(|| self.no_link())?;
        let not_told =
            || Reading::unknown(format!("{} has no copy of {file} of {}", self.root.place().display(), self.name));
        match fields.get(file) {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => Err(not_told()),
        }
    }

    /// Interfaces above this one and below it.
    pub(super) fn neighbours(&self) -> Result<(Vec<String>, Vec<String>), Reading> {
        links::neighbours(&self.links()?, self.name).ok_or_else(|| self.no_link())
    }

    /// Whether the version of ethtool that was used answered, and prints no line of this name.
    pub(super) fn lacks_line(&self, option: &str, label: &str) -> bool {
        self.root.read(&self.path(option)).is_ok_and(|text| Lines::of(&text).is_without(label))
    }

    fn links(&self) -> Result<String, Reading> {
        let found = LINKS.iter().map(|file| self.root.read(&format!("{DIRECTORY}/{file}")));
        let mut lacks = Vec::new();
        for text in found {
            match text {
                Ok(text) => return Ok(text),
                Err(lack) => lacks.push(lack),
            }
        }
        Err(lacks.swap_remove(0))
    }

    fn no_link(&self) -> Reading {
        Reading::unknown(format!("{DIRECTORY}/{} does not name {}", LINKS[0], self.name))
    }

    /// `sos` makes the name of a file of the command: what is odd in it becomes `_`.
    fn path(&self, option: &str) -> String {
        let is_kept = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name: String = self.name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
        let between = if option.is_empty() { "" } else { "_" };
        format!("{DIRECTORY}/ethtool{between}{option}_{name}")
    }
}

#[cfg(test)]
mod tests;

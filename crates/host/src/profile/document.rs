//! The text of a profile: keys and values with the line of each, so that a mistake is shown where
//! it was made.

use super::table::{Source, Table, Without};
use super::value::{self, OPERATORS};
use super::{Condition, LeftOut, Problem, ProfileError, Verdict, Wanted, Weight, Wish};
use crate::Setting;
use crate::setting::Risk;

/// One file, not yet joined with what it extends.
pub(super) struct Document {
    pub purpose: String,
    pub extends: Vec<Base>,
    pub without: Vec<Without>,
    pub wishes: Vec<Wish>,
    pub left_out: Vec<LeftOut>,
}

/// One profile that a file extends, and where it says so.
pub(super) struct Base {
    pub name: String,
    pub line: usize,
}

/// Settings that can lower security and of which a profile may want the safe value.
const SAFE: [(&str, bool); 1] = [("firmware.execute-disable", true)];

impl Document {
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let source = Source { file, text };
        let parsed = source.parse()?;
        let top = Table::new(&source, parsed.get_ref(), parsed.span());
        top.only(&["purpose", "extends", "without", "wish", "left-out"])?;
        let base = |item| Ok(Base { name: top.text_of("extends", item)?, line: source.line(&item.span()) });
        let extends = top.items("extends").into_iter().map(base).collect::<Result<Vec<_>, _>>()?;
        let tables = top.tables("wish")?;
        let own = tables.iter().map(wish).collect::<Result<Vec<_>, _>>()?;
        for (at, table) in tables.iter().enumerate() {
            let (earlier, this) = (&own[..at], &own[at]);
            if earlier.iter().any(|other| other.setting == this.setting && always_count_together(other, this)) {
                return Err(table.error(Problem::WantedTwice { id: this.setting.id }));
            }
        }
        Ok(Self {
            purpose: top.text("purpose", "a sentence that says what the profile is for")?,
            extends,
            without: top.without()?,
            wishes: own,
            left_out: top.tables("left-out")?.iter().map(left_out).collect::<Result<_, _>>()?,
        })
    }
}

impl Document {
    /// Whether wishes that others have of a setting do not count.
    pub(super) fn replaces(&self, id: &str) -> bool {
        self.without.iter().any(|without| without.id == id) || self.wishes.iter().any(|own| own.setting.id == id)
    }

    /// Whether it says anything about a setting.
    pub(super) fn speaks_of(&self, id: &str) -> bool {
        self.replaces(id) || self.left_out.iter().any(|own| own.setting.id == id)
    }
}

fn wish(table: &Table<'_>) -> Result<Wish, ProfileError> {
    let others =
        ["setting", "on", "or", "reason", "source", "weight", "when", "unless", "fix", "verdict", "today", "printed"];
    table.only(&[&others[..], &OPERATORS].concat())?;
    let setting = table.required_setting()?;
    let wanted = value::wanted(table, setting)?;
    if lowers_security(setting, &wanted) {
        return Err(table.error(Problem::LowersSecurity { id: setting.id }));
    }
    let verdict = table.word("verdict", &Verdict::NAMES, Verdict::Holds)?;
    let today = today(table, verdict)?;
    let (or, or_wanted) = alternative(table, setting, &wanted)?.unzip();
    let unless = conditions(table, "unless")?.into_iter().map(|condition| Condition::Not(Box::new(condition)));
    Ok(Wish {
        setting,
        wanted,
        on: table.find("on").map(|found| value::group(table, "on", found)).transpose()?,
        or,
        or_wanted: or_wanted.flatten(),
        reason: table.text("reason", "a sentence that says why")?,
        source: table.text("source", "the paper or document that says so")?,
        weight: table.word("weight", &Weight::NAMES, Weight::Medium)?,
        when: conditions(table, "when")?.into_iter().chain(unless).collect(),
        fix: optional(table, "fix")?,
        verdict,
        today,
        printed: optional(table, "printed")?,
    })
}

fn optional(table: &Table<'_>, key: &str) -> Result<Option<String>, ProfileError> {
    table.find(key).map(|found| table.text_of(key, found)).transpose()
}

/// Whether one of two wishes counts whenever the other does because it has no conditions.
fn always_count_together(one: &Wish, other: &Wish) -> bool {
    one.when.is_empty() || other.when.is_empty()
}

/// The sentence that says why a verdict is not [`Verdict::Holds`].
fn today(table: &Table<'_>, verdict: Verdict) -> Result<Option<String>, ProfileError> {
    match (verdict, table.find("today")) {
        (Verdict::Holds, None) => Ok(None),
        (Verdict::Holds, Some(found)) => Err(table.bad("today", found, "a verdict beside it that is not \"holds\"")),
        _ => table.text("today", "a sentence that says what a current kernel makes of it").map(Some),
    }
}

/// The setting of `or`, and what is wanted of it if that is not the same: a text is the setting, a
/// table says both.
fn alternative(
    table: &Table<'_>,
    setting: &Setting,
    wanted: &Wanted,
) -> Result<Option<(&'static Setting, Option<Wanted>)>, ProfileError> {
    let Some(found) = table.find("or") else { return Ok(None) };
    let (other, own) = if let Some(keys) = found.get_ref().as_table() {
        let or = Table::new(table.source, keys, found.span());
        or.only(&[&["setting"], &OPERATORS[..]].concat())?;
        let other = or.required_setting()?;
        (other, Some(value::wanted(&or, other)?))
    } else {
        let other = table.setting_of("or", found)?;
        if other.value != setting.value {
            let expected =
                format!("a setting whose value is {}, or {{ setting = ID, OPERATOR = VALUE }}", setting.value);
            return Err(table.bad("or", found, expected));
        }
        (other, None)
    };
    if lowers_security(other, own.as_ref().unwrap_or(wanted)) {
        return Err(table.error_at(found, Problem::LowersSecurity { id: other.id }));
    }
    Ok(Some((other, own)))
}

fn lowers_security(setting: &Setting, wanted: &Wanted) -> bool {
    let is_safe = SAFE.iter().any(|(id, is_on)| *id == setting.id && *wanted == value::switch(*is_on));
    setting.risk.contains(&Risk::Security) && !is_safe
}

fn left_out(table: &Table<'_>) -> Result<LeftOut, ProfileError> {
    table.only(&["setting", "printed", "reason", "source", "equal"])?;
    let setting = table.required_setting()?;
    Ok(LeftOut {
        setting,
        wanted: table.find("equal").map(|_| value::wanted(table, setting)).transpose()?,
        printed: table.text("printed", "what is advised")?,
        reason: table.text("reason", "a sentence that says why it is not wanted")?,
        source: optional(table, "source")?,
    })
}

fn conditions(table: &Table<'_>, key: &str) -> Result<Vec<Condition>, ProfileError> {
    let Some(found) = table.find(key) else { return Ok(Vec::new()) };
    let Some(keys) = found.get_ref().as_table() else {
        return Err(table.bad(key, found, "a table such as { host = \"bare-metal\" }"));
    };
    let when = Table::new(table.source, keys, found.span());
    when.only(&[
        "kernel-at-least",
        "has",
        "driver",
        "cpu",
        "host",
        "nodes-at-least",
        "packages-at-least",
        "cpus-at-least",
        "isolated",
        "plan",
    ])?;
    let mut conditions = Vec::new();
    for (key, found) in keys {
        let key = key.get_ref().as_ref();
        conditions.push(match key {
            "kernel-at-least" => match when.text_of(key, found)? {
                version if value::is_version(&version) => Condition::KernelAtLeast(version),
                _ => return Err(when.bad(key, found, "a version such as \"6.12\"")),
            },
            "has" => Condition::Has(when.setting_of(key, found)?),
            "driver" => match when.list(key)? {
                names if names.is_empty() => return Err(when.bad(key, found, "texts in quotes")),
                names => Condition::Driver(names),
            },
            "cpu" => Condition::Cpu(when.text_of(key, found)?),
            "nodes-at-least" => Condition::NodesAtLeast(when.count_of(key, found)?),
            "packages-at-least" => Condition::PackagesAtLeast(when.count_of(key, found)?),
            "cpus-at-least" => Condition::CpusAtLeast(when.count_of(key, found)?),
            "host" => match found.get_ref().as_str() {
                Some("bare-metal") => Condition::BareMetal,
                Some("guest") => Condition::Guest,
                _ => return Err(when.bad(key, found, "\"bare-metal\" or \"guest\"")),
            },
            _ if found.get_ref().as_bool() != Some(true) => return Err(when.bad(key, found, "true")),
            "isolated" => Condition::Isolated,
            _ => Condition::Plan,
        });
    }
    Ok(conditions)
}

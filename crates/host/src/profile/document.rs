//! The text of a profile: keys and values with the line of each, so that a mistake is shown where
//! it was made.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{self, OPERATORS};
use super::{Condition, LeftOut, Problem, ProfileError, Verdict, Wanted, Weight, Wish};
use crate::setting::Risk;
use crate::{Setting, catalogue};

/// One file, not yet joined with what it extends.
pub(super) struct Document {
    pub purpose: String,
    pub extends: Option<Base>,
    pub without: Vec<Without>,
    pub wishes: Vec<Wish>,
    pub left_out: Vec<LeftOut>,
}

/// What a file extends, and where it says so.
pub(super) struct Base {
    pub name: String,
    pub line: usize,
}

/// A setting whose inherited wishes do not count, and where the file says so.
pub(super) struct Without {
    pub id: &'static str,
    pub line: usize,
}

/// Settings that can lower security and of which a profile may want the safe value.
const SAFE: [(&str, bool); 1] = [("firmware.execute-disable", true)];

impl Document {
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let source = Source { file, text };
        let parsed = DeTable::parse(text).map_err(|error| {
            let message = error.message().to_owned();
            source.error(&error.span().unwrap_or(0..0), Problem::Syntax { message })
        })?;
        let top = Table::new(&source, parsed.get_ref(), parsed.span());
        top.only(&["purpose", "extends", "without", "wish", "left-out"])?;
        let extends = top.find("extends").map(|value| {
            let name = top.text_of("extends", value)?;
            Ok(Base { name, line: source.line(&value.span()) })
        });
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
            extends: extends.transpose()?,
            without: top.without()?,
            wishes: own,
            left_out: top.tables("left-out")?.iter().map(left_out).collect::<Result<_, _>>()?,
        })
    }
}

fn wish(table: &Table<'_>) -> Result<Wish, ProfileError> {
    let others = ["setting", "on", "or", "reason", "source", "weight", "when", "unless", "fix", "verdict", "today"];
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
        fix: table.find("fix").map(|found| table.text_of("fix", found)).transpose()?,
        verdict,
        today,
    })
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
    table.only(&["setting", "printed", "reason", "equal"])?;
    let setting = table.required_setting()?;
    Ok(LeftOut {
        setting,
        wanted: table.find("equal").map(|_| value::wanted(table, setting)).transpose()?,
        printed: table.text("printed", "what is advised")?,
        reason: table.text("reason", "a sentence that says why it is not wanted")?,
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

/// A text and what to call it.
pub(super) struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn error(&self, span: &Range<usize>, problem: Problem) -> ProfileError {
        ProfileError::Text { file: self.file.to_owned(), line: self.line(span), problem }
    }
}

/// A value with the place where it stands.
pub(super) type Found<'a> = Spanned<DeValue<'a>>;

/// One table of the text.
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    keys: &'a DeTable<'a>,
    at: Range<usize>,
}

impl<'a> Table<'a> {
    fn new(source: &'a Source<'a>, keys: &'a DeTable<'a>, at: Range<usize>) -> Self {
        Self { source, keys, at }
    }

    pub(super) fn error(&self, problem: Problem) -> ProfileError {
        self.source.error(&self.at, problem)
    }

    /// The error that the value of a key is not what it should be.
    pub(super) fn bad(&self, key: &str, found: &Found<'_>, expected: impl Into<String>) -> ProfileError {
        let words = self.source.text.get(found.span()).unwrap_or_default();
        let problem = Problem::Value { key: key.to_owned(), found: words.to_owned(), expected: expected.into() };
        self.source.error(&found.span(), problem)
    }

    /// An error about the value of a key.
    pub(super) fn error_at(&self, found: &Found<'_>, problem: Problem) -> ProfileError {
        self.source.error(&found.span(), problem)
    }

    /// That it has no other keys than these.
    fn only(&self, known: &[&str]) -> Result<(), ProfileError> {
        match self.keys.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let problem = Problem::UnknownKey { key: key.get_ref().to_string(), expected: known.join(", ") };
                Err(self.source.error(&key.span(), problem))
            }
        }
    }

    pub(super) fn find(&self, key: &str) -> Option<&'a Found<'a>> {
        self.keys.get(key)
    }

    fn text(&self, key: &'static str, expected: &str) -> Result<String, ProfileError> {
        match self.find(key) {
            Some(found) => self.text_of(key, found),
            None => Err(self.error(Problem::Missing { key, expected: expected.to_owned() })),
        }
    }

    fn text_of(&self, key: &str, found: &Found<'_>) -> Result<String, ProfileError> {
        let text = found.get_ref().as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.bad(key, found, "text in quotes"))
    }

    /// One of some words with meanings, or what counts without the key.
    fn word<T: Copy>(&self, key: &str, words: &[(&'static str, T)], otherwise: T) -> Result<T, ProfileError> {
        let Some(found) = self.find(key) else { return Ok(otherwise) };
        let word = found.get_ref().as_str().unwrap_or_default();
        let known = words.iter().find(|(known, _)| *known == word).map(|(_, meaning)| *meaning);
        let expected = || words.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| self.bad(key, found, format!("one of {}", expected())))
    }

    fn count_of(&self, key: &str, found: &Found<'_>) -> Result<u64, ProfileError> {
        let number = found.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        number.ok_or_else(|| self.bad(key, found, "a number"))
    }

    /// Texts in a list; a single text is a list of one.
    pub(super) fn list(&self, key: &str) -> Result<Vec<String>, ProfileError> {
        let Some(found) = self.find(key) else { return Ok(Vec::new()) };
        match found.get_ref().as_array() {
            Some(items) => items.iter().map(|item| self.text_of(key, item)).collect(),
            None => Ok(vec![self.text_of(key, found)?]),
        }
    }

    /// The tables of `[[key]]`.
    fn tables(&self, key: &'static str) -> Result<Vec<Table<'a>>, ProfileError> {
        let Some(found) = self.find(key) else { return Ok(Vec::new()) };
        let wrong = || self.bad(key, found, format!("tables that begin with [[{key}]]"));
        let items = found.get_ref().as_array().ok_or_else(wrong)?;
        let table = |item: &'a Found<'a>| {
            let keys = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(Table::new(self.source, keys, item.span()))
        };
        items.iter().map(table).collect()
    }

    fn required_setting(&self) -> Result<&'static Setting, ProfileError> {
        match self.find("setting") {
            Some(found) => self.setting_of("setting", found),
            None => Err(self.error(Problem::Missing { key: "setting", expected: "the id of a setting".to_owned() })),
        }
    }

    pub(super) fn setting_of(&self, key: &str, found: &Found<'_>) -> Result<&'static Setting, ProfileError> {
        let id = self.text_of(key, found)?;
        catalogue::setting(&id).ok_or_else(|| self.error_at(found, unknown(&id)))
    }

    /// Ids of settings in a list; a single one is a list of one.
    fn without(&self) -> Result<Vec<Without>, ProfileError> {
        const KEY: &str = "without";
        let Some(found) = self.find(KEY) else { return Ok(Vec::new()) };
        let one = |item| Ok(Without { id: self.setting_of(KEY, item)?.id, line: self.source.line(&item.span()) });
        match found.get_ref().as_array() {
            Some(items) => items.iter().map(one).collect(),
            None => Ok(vec![one(found)?]),
        }
    }
}

fn unknown(id: &str) -> Problem {
    let ids: Vec<_> = catalogue::near(id).iter().take(4).map(|setting| setting.id).collect();
    let near = if ids.is_empty() { String::new() } else { format!(" (near it: {})", ids.join(", ")) };
    Problem::UnknownSetting { id: id.to_owned(), near }
}

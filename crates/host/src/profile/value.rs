//! What a wish wants, and whether that fits the kind of the setting's value.

use toml::de::DeValue;

use super::table::{Found, Table};
use super::{CpuGroup, CpuRelation, Problem, ProfileError, Wanted};
use crate::setting::Value;
use crate::{CpuSet, Setting};

/// The keys that say what is wanted; a wish has exactly one.
pub(super) const OPERATORS: [&str; 14] = [
    "equal",
    "at-least",
    "at-most",
    "one-of",
    "contains",
    "lacks",
    "absent",
    "same-as",
    "at-least-of",
    "at-most-of",
    "cpus-equal",
    "cpus-within",
    "cpus-cover",
    "cpus-apart-from",
];

/// Words that the kernel gives where a number would be.
const WORDS_FOR_NUMBERS: [&str; 4] = ["n/a", "unlimited", "no limit", "max"];

/// `on` or `off`.
pub(super) fn switch(is_on: bool) -> Wanted {
    Wanted::Equal(on_or_off(is_on))
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

pub(super) fn wanted(table: &Table<'_>, setting: &'static Setting) -> Result<Wanted, ProfileError> {
    let given: Vec<_> = OPERATORS.into_iter().filter_map(|key| Some((key, table.find(key)?))).collect();
    let [(key, found)] = given[..] else {
        let keys: Vec<_> = given.iter().map(|(key, _)| *key).collect();
        let found = if keys.is_empty() { "none".to_owned() } else { keys.join(" and ") };
        return Err(table.error(Problem::WantedOnce { found, expected: OPERATORS.join(", ") }));
    };
    if !fits(key, setting.value) {
        let problem = Problem::WrongOperator {
            key,
            id: setting.id,
            value: setting.value.to_string(),
            expected: fitting(setting.value),
        };
        return Err(table.error_at(found, problem));
    }
    let one = || scalar(table, key, found, setting);
    Ok(match key {
        "equal" => Wanted::Equal(one()?),
        "at-least" => Wanted::AtLeast(one()?),
        "at-most" => Wanted::AtMost(one()?),
        "one-of" => {
            let items = found.get_ref().as_array().filter(|items| !items.is_empty());
            let items = items.ok_or_else(|| table.bad(key, found, "a list of values"))?;
            Wanted::OneOf(items.iter().map(|item| scalar(table, key, item, setting)).collect::<Result<_, _>>()?)
        }
        "contains" => Wanted::Contains(one_word(table, key, found, setting)?),
        "lacks" => Wanted::Lacks(words(table, key, found, setting)?),
        "absent" if found.get_ref().as_bool() == Some(true) => Wanted::Absent,
        "absent" => return Err(table.bad(key, found, "true")),
        "same-as" => Wanted::SameAs(table.setting_of(key, found)?),
        "at-least-of" => Wanted::AtLeastOf(table.setting_of(key, found)?),
        "at-most-of" => Wanted::AtMostOf(table.setting_of(key, found)?),
        "cpus-equal" => Wanted::Cpus(CpuRelation::Equal, group(table, key, found)?),
        "cpus-within" => Wanted::Cpus(CpuRelation::Within, group(table, key, found)?),
        "cpus-cover" => Wanted::Cpus(CpuRelation::Cover, group(table, key, found)?),
        _ => Wanted::Cpus(CpuRelation::ApartFrom, group(table, key, found)?),
    })
}

/// Whether an operator has a meaning for values of this kind.
fn fits(key: &str, value: Value) -> bool {
    match key {
        "at-least" | "at-most" => matches!(value, Value::Number(_) | Value::CpuList | Value::Text),
        "at-least-of" | "at-most-of" => matches!(value, Value::Number(_) | Value::Text),
        "contains" | "lacks" => matches!(value, Value::Text | Value::Word(_)),
        "one-of" => !matches!(value, Value::Switch),
        key if key.starts_with("cpus-") => value == Value::CpuList,
        _ => true,
    }
}

const fn fitting(value: Value) -> &'static str {
    match value {
        Value::Text => "equal, at-least, at-most, one-of, contains, lacks, absent, same-as, at-least-of or at-most-of",
        Value::Switch => "equal, absent or same-as",
        Value::Number(_) => "equal, at-least, at-most, one-of, absent, same-as, at-least-of or at-most-of",
        Value::CpuList => "equal, at-least, at-most, one-of, absent, same-as or cpus-...",
        Value::Word(_) => "equal, one-of, contains, lacks, absent or same-as",
    }
}

/// A word that can be among those of the setting's value.
fn one_word(table: &Table<'_>, key: &str, found: &Found<'_>, setting: &Setting) -> Result<String, ProfileError> {
    let word = found.get_ref().as_str().filter(|word| !word.is_empty() && !word.contains(' '));
    let word = word.ok_or_else(|| table.bad(key, found, "one word in quotes"))?;
    match setting.value {
        Value::Word(known) if !known.iter().any(|known| known.split(' ').any(|known| is_word(known, word))) => {
            Err(table.bad(key, found, format!("a word of {}", known.join(", "))))
        }
        _ => Ok(word.to_owned()),
    }
}

/// Such words in a list; a single one is a list of one.
fn words(table: &Table<'_>, key: &str, found: &Found<'_>, setting: &Setting) -> Result<Vec<String>, ProfileError> {
    match found.get_ref().as_array() {
        Some(items) if items.is_empty() => Err(table.bad(key, found, "words in quotes")),
        Some(items) => items.iter().map(|item| one_word(table, key, item, setting)).collect(),
        None => Ok(vec![one_word(table, key, found, setting)?]),
    }
}

/// A value in the words that the setting is read in.
fn scalar(table: &Table<'_>, key: &str, found: &Found<'_>, setting: &Setting) -> Result<String, ProfileError> {
    let bad = |expected: String| Err(table.bad(key, found, expected));
    let value = found.get_ref();
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        _ => None,
    };
    let counts_cpus = setting.value == Value::CpuList && key.starts_with("at-");
    match (setting.value, number, value.as_str(), value.as_bool()) {
        (Value::Switch, _, _, Some(is_on)) => Ok(on_or_off(is_on)),
        (Value::Switch, ..) => bad("true or false".to_owned()),
        (Value::Number(_) | Value::Text, Some(number), ..) => Ok(number),
        (Value::Number(_), _, Some(word), _) if WORDS_FOR_NUMBERS.contains(&word) => Ok(word.to_owned()),
        (Value::Number(""), ..) => bad("a number".to_owned()),
        (Value::Number(unit), ..) => bad(format!("a number ({unit})")),
        (Value::CpuList, Some(number), ..) if counts_cpus => Ok(number),
        (Value::CpuList, ..) if counts_cpus => bad("a number of CPUs".to_owned()),
        (Value::CpuList, _, Some(list), _) => match CpuSet::from_list(list) {
            Ok(cpus) => Ok(cpus.to_string()),
            Err(error) => bad(format!("a CPU list such as \"0-3,8\" ({error})")),
        },
        (Value::CpuList, ..) => bad("a CPU list in quotes".to_owned()),
        (Value::Text, _, Some(text), _) if key.starts_with("at-") => match text {
            text if is_version(text.split(' ').next().unwrap_or_default()) => Ok(text.to_owned()),
            _ => bad("a number, numbers with spaces between, or a version".to_owned()),
        },
        (Value::Text, _, Some(text), _) if !text.is_empty() => Ok(text.to_owned()),
        (Value::Text, ..) => bad("text in quotes, or a number".to_owned()),
        (Value::Word(words), number, text, _) => {
            let word = number.as_deref().or(text).unwrap_or_default();
            if words.iter().any(|known| is_word(known, word)) {
                return Ok(word.to_owned());
            }
            bad(format!("one of {}", words.join(", ")))
        }
    }
}

/// Whether a text is a number or numbers with dots between.
pub(super) fn is_version(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a word is the known one; `ratelimit:N` stands for every number.
fn is_word(known: &str, word: &str) -> bool {
    match known.strip_suffix(":N") {
        Some(stem) => word.strip_prefix(stem).is_some_and(|rest| rest.starts_with(':')),
        None => known == word,
    }
}

pub(super) fn group(table: &Table<'_>, key: &str, found: &Found<'_>) -> Result<CpuGroup, ProfileError> {
    let words = CpuGroup::NAMES.map(|(word, _)| word).join(", ");
    let bad = || table.bad(key, found, format!("a CPU list in quotes or one of {words}"));
    let text = found.get_ref().as_str().ok_or_else(bad)?;
    if let Some((_, group)) = CpuGroup::NAMES.into_iter().find(|(word, _)| *word == text) {
        return Ok(group);
    }
    match CpuSet::from_list(text) {
        Ok(cpus) if !cpus.is_empty() => Ok(CpuGroup::List(cpus)),
        _ => Err(bad()),
    }
}

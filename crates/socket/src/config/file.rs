//! The text of a configuration file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{self, KEYS};
use super::{Config, ConfigError, Place, Prefix, Problem, Role, Rule, Use};

const RULE_KEYS: [&str; 6] = ["use", "program", "role", "local", "remote", "port"];

type Found<'a> = Spanned<DeValue<'a>>;

struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: &Range<usize>, problem: Problem) -> ConfigError {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        ConfigError { place: Place::File { name: self.name.to_owned(), line }, problem }
    }

    fn bad(&self, key: &str, found: &Found<'_>, expected: &str) -> ConfigError {
        let words = self.text.get(found.span()).unwrap_or_default().to_owned();
        let problem = Problem::Value { key: key.to_owned(), found: words, expected: expected.to_owned() };
        self.error(&found.span(), problem)
    }

    /// A value as the text that a variable would have.
    fn text_of(&self, key: &str, found: &Found<'_>) -> Result<String, ConfigError> {
        match found.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(is_on) => Ok(is_on.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            DeValue::Array(items) => {
                let texts: Result<Vec<_>, _> = items.iter().map(|item| self.text_of(key, item)).collect();
                Ok(texts?.join(","))
            }
            _ => Err(self.bad(key, found, "text in quotes, a number, true or false, or a list")),
        }
    }
}

/// Reads a text over a configuration and gives the keys at the top that it sets.
pub(super) fn read(config: &mut Config, name: &str, text: &str) -> Result<Vec<&'static str>, ConfigError> {
    let source = Source { name, text };
    let mut set = Vec::new();
    let parsed = DeTable::parse(text).map_err(|error| {
        let message = error.message().to_owned();
        source.error(&error.span().unwrap_or(0..0), Problem::Syntax { message })
    })?;
    for (key, found) in parsed.get_ref() {
        match key.get_ref().as_ref() {
            "rule" => {
                let rules = rules(&source, found)?;
                config.rules.splice(0..0, rules);
            }
            other => {
                let Some(known) = KEYS.iter().find(|known| **known == other) else {
                    let expected = format!("{}, rule", KEYS.join(", "));
                    return Err(source.error(&key.span(), Problem::UnknownKey { key: other.to_owned(), expected }));
                };
                let text = source.text_of(known, found)?;
                value::set(config, known, &text).map_err(|problem| source.error(&found.span(), problem))?;
                set.push(*known);
            }
        }
    }
    Ok(set)
}

fn rules(source: &Source<'_>, found: &Found<'_>) -> Result<Vec<Rule>, ConfigError> {
    let wrong = || source.bad("rule", found, "tables that begin with [[rule]]");
    let items = found.get_ref().as_array().ok_or_else(wrong)?;
    items.iter().map(|item| rule(source, item.get_ref().as_table().ok_or_else(wrong)?, &item.span())).collect()
}

fn rule(source: &Source<'_>, keys: &DeTable<'_>, at: &Range<usize>) -> Result<Rule, ConfigError> {
    let mut to = None;
    let mut rule = Rule::all(Use::Kernel);
    for (key, found) in keys {
        let key_text = key.get_ref().as_ref();
        if !RULE_KEYS.contains(&key_text) {
            let problem = Problem::UnknownKey { key: key_text.to_owned(), expected: RULE_KEYS.join(", ") };
            return Err(source.error(&key.span(), problem));
        }
        let text = source.text_of(key_text, found)?;
        let bad = |expected| source.bad(key_text, found, expected);
        let prefix = || text.parse::<Prefix>().map_err(|()| bad("an address or a prefix such as 10.0.0.0/8"));
        match key_text {
            "use" => {
                to = Some(match text.as_str() {
                    "kernel" => Use::Kernel,
                    "nearwire" => Use::Nearwire,
                    _ => return Err(bad("\"kernel\" or \"nearwire\"")),
                });
            }
            "program" if text.is_empty() || text.contains('/') => {
                return Err(bad("the name of an executable, without directories"));
            }
            "program" => rule.program = Some(text),
            "role" => {
                rule.role = Some(match text.as_str() {
                    "client" => Role::Client,
                    "server" => Role::Server,
                    _ => return Err(bad("\"client\" or \"server\"")),
                });
            }
            "local" => rule.local = Some(prefix()?),
            "remote" => rule.remote = Some(prefix()?),
            _ => rule.ports = ports(&text).ok_or_else(|| bad("ports such as 53 or \"53,5000-5010\""))?,
        }
    }
    match to {
        Some(to) => Ok(Rule { to, ..rule }),
        None => Err(source.error(at, Problem::RuleWithoutUse)),
    }
}

fn ports(text: &str) -> Option<Vec<(u16, u16)>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u16>().ok();
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some((first, last))
    };
    text.split(',').map(range).collect()
}

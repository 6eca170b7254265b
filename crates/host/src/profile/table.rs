//! Tables of the text of a profile or of waivers, whose values know the line they stand in.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problem, ProfileError};
use crate::{Setting, catalogue};

/// A setting whose inherited wishes do not count, and where the file says so.
pub(crate) struct Without {
    pub id: &'static str,
    pub line: usize,
}

/// A text and what to call it.
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// The text as a table.
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'a>>, ProfileError> {
        DeTable::parse(self.text).map_err(|error| {
            let message = error.message().to_owned();
            self.error(&error.span().unwrap_or(0..0), Problem::Syntax { message })
        })
    }

    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    pub(crate) fn error(&self, span: &Range<usize>, problem: Problem) -> ProfileError {
        ProfileError::Text { file: self.file.to_owned(), line: self.line(span), problem }
    }
}

/// A value with the place where it stands.
pub(crate) type Found<'a> = Spanned<DeValue<'a>>;

/// One table of the text.
pub(crate) struct Table<'a> {
    pub source: &'a Source<'a>,
    keys: &'a DeTable<'a>,
    at: Range<usize>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(source: &'a Source<'a>, keys: &'a DeTable<'a>, at: Range<usize>) -> Self {
        Self { source, keys, at }
    }

    pub(crate) fn error(&self, problem: Problem) -> ProfileError {
        self.source.error(&self.at, problem)
    }

    /// The line where it begins, from 1.
    pub(crate) fn line(&self) -> usize {
        self.source.line(&self.at)
    }

    /// The error that the value of a key is not what it should be.
    pub(crate) fn bad(&self, key: &str, found: &Found<'_>, expected: impl Into<String>) -> ProfileError {
        let words = self.source.text.get(found.span()).unwrap_or_default();
        let problem = Problem::Value { key: key.to_owned(), found: words.to_owned(), expected: expected.into() };
        self.source.error(&found.span(), problem)
    }

    /// An error about the value of a key.
    pub(crate) fn error_at(&self, found: &Found<'_>, problem: Problem) -> ProfileError {
        self.source.error(&found.span(), problem)
    }

    /// That it has no other keys than these.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ProfileError> {
        match self.keys.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let problem = Problem::UnknownKey { key: key.get_ref().to_string(), expected: known.join(", ") };
                Err(self.source.error(&key.span(), problem))
            }
        }
    }

    pub(crate) fn find(&self, key: &str) -> Option<&'a Found<'a>> {
        self.keys.get(key)
    }

    pub(crate) fn text(&self, key: &'static str, expected: &str) -> Result<String, ProfileError> {
        match self.find(key) {
            Some(found) => self.text_of(key, found),
            None => Err(self.error(Problem::Missing { key, expected: expected.to_owned() })),
        }
    }

    pub(crate) fn text_of(&self, key: &str, found: &Found<'_>) -> Result<String, ProfileError> {
        let text = found.get_ref().as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.bad(key, found, "text in quotes"))
    }

    /// One of some words with meanings, or what counts without the key.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&'static str, T)],
        otherwise: T,
    ) -> Result<T, ProfileError> {
        let Some(found) = self.find(key) else { return Ok(otherwise) };
        let word = found.get_ref().as_str().unwrap_or_default();
        let known = words.iter().find(|(known, _)| *known == word).map(|(_, meaning)| *meaning);
        let expected = || words.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| self.bad(key, found, format!("one of {}", expected())))
    }

    pub(crate) fn count_of(&self, key: &str, found: &Found<'_>) -> Result<u64, ProfileError> {
        let number = found.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        number.ok_or_else(|| self.bad(key, found, "a number"))
    }

    /// The values in a list; a single one is a list of one.
    pub(crate) fn items(&self, key: &str) -> Vec<&'a Found<'a>> {
        match self.find(key) {
            None => Vec::new(),
            Some(found) => found.get_ref().as_array().map_or_else(|| vec![found], |items| items.iter().collect()),
        }
    }

    /// Texts in a list; a single text is a list of one.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>, ProfileError> {
        self.items(key).into_iter().map(|item| self.text_of(key, item)).collect()
    }

    /// The tables of `[[key]]`.
    pub(crate) fn tables(&self, key: &'static str) -> Result<Vec<Table<'a>>, ProfileError> {
        let Some(found) = self.find(key) else { return Ok(Vec::new()) };
        let wrong = || self.bad(key, found, format!("tables that begin with [[{key}]]"));
        let items = found.get_ref().as_array().ok_or_else(wrong)?;
        let table = |item: &'a Found<'a>| {
            let keys = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(Table::new(self.source, keys, item.span()))
        };
        items.iter().map(table).collect()
    }

    pub(crate) fn required_setting(&self) -> Result<&'static Setting, ProfileError> {
        match self.find("setting") {
            Some(found) => self.setting_of("setting", found),
            None => Err(self.error(Problem::Missing { key: "setting", expected: "the id of a setting".to_owned() })),
        }
    }

    pub(crate) fn setting_of(&self, key: &str, found: &Found<'_>) -> Result<&'static Setting, ProfileError> {
        let id = self.text_of(key, found)?;
        catalogue::setting(&id).ok_or_else(|| self.error_at(found, unknown(&id)))
    }

    /// Ids of settings in a list; a single one is a list of one.
    pub(crate) fn without(&self) -> Result<Vec<Without>, ProfileError> {
        const KEY: &str = "without";
        let one =
            |item: &Found<'_>| Ok(Without { id: self.setting_of(KEY, item)?.id, line: self.source.line(&item.span()) });
        self.items(KEY).into_iter().map(one).collect()
    }
}

fn unknown(id: &str) -> Problem {
    let ids: Vec<_> = catalogue::near(id).iter().take(4).map(|setting| setting.id).collect();
    let near = if ids.is_empty() { String::new() } else { format!(" (near it: {})", ids.join(", ")) };
    Problem::UnknownSetting { id: id.to_owned(), near }
}

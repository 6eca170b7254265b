//! What is left of a configuration with a mistake.
//!
//! `nearwire run` refuses it and says what is wrong. A variable that comes later, from a script around the program or because the library is
//! preloaded by hand, is met by the library alone, which prints nothing: nothing is accelerated then, the status page has the mistake, and
//! a program that is `strict` is refused.

use std::io;

use super::{Config, value};

const STRICT_VARIABLE: &str = "NEARWIRE_STRICT";

impl Config {
    /// The configuration of a process: of the file that it names, with its text or why that cannot be read, and of its variables. Where there is
    /// a mistake, what it says, and a configuration that has `strict` alone.
    #[must_use]
    pub fn of_process(
        file: Option<(&str, io::Result<String>)>,
        variables: &[(String, String)],
    ) -> (Self, Option<String>) {
        let pairs = || variables.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let (name, text) = match &file {
            Some((name, Ok(text))) => (*name, Some(text.as_str())),
            Some((name, Err(error))) => return (only_strict("", pairs()), Some(format!("{name}: {error}"))),
            None => ("", None),
        };
        match Self::read(text.map(|text| (name, text)), pairs()) {
            Ok(config) => (config, None),
            Err(mistake) => (only_strict(text.unwrap_or_default(), pairs()), Some(mistake.to_string())),
        }
    }
}

/// The variable counts more than the file. A value that it cannot have was meant to switch it on, since it is
/// off without being set.
fn only_strict<'a>(text: &str, mut variables: impl Iterator<Item = (&'a str, &'a str)>) -> Config {
    let mut config = Config { strict: text.lines().any(sets_strict), ..Config::default() };
    if let Some((_, text)) = variables.find(|(name, _)| *name == STRICT_VARIABLE)
        && value::set(&mut config, "strict", text).is_err()
    {
        config.strict = true;
    }
    config
}

/// Line by line, since the text as a whole may not be TOML.
fn sets_strict(line: &str) -> bool {
    let without_spaces: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
    without_spaces.starts_with("strict=true")
}

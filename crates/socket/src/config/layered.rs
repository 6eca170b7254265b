//! A configuration put together of layers, which remembers where each value came from.

use std::fmt;

use super::value::{self, KEYS};
use super::{Config, ConfigError, Place, Problem, Profile, file};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A profile.
    Profile(&'static str),
    /// A file, by its name.
    File(String),
    /// A variable of the environment, by its name.
    Variable(String),
    /// An option of the command line.
    Option(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::File(name) | Self::Variable(name) => f.write_str(name),
            Self::Option(name) => f.write_str(name),
        }
    }
}

/// A configuration and the origin of all that it has. A layer counts more than those before it.
#[derive(Clone, Debug)]
pub struct Layered {
    config: Config,
    /// One for each of [`KEYS`].
    origins: [Origin; KEYS.len()],
    /// One for each rule.
    rule_origins: Vec<Origin>,
}

impl Default for Layered {
    fn default() -> Self {
        let config = Config::default();
        let rule_origins = config.rules.iter().map(|_| Origin::Default).collect();
        Self { config, origins: [const { Origin::Default }; KEYS.len()], rule_origins }
    }
}

impl Layered {
    /// Puts a profile over what there is.
    ///
    /// # Errors
    /// A mistake in the profile's text.
    pub fn profile(&mut self, profile: Profile) -> Result<(), ConfigError> {
        let set = file::read(&mut self.config, profile.name, profile.text)?;
        self.note(&set, &Origin::Profile(profile.name));
        Ok(())
    }

    /// Puts the text of a file, called `name` in messages, over what there is.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn file(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let set = file::read(&mut self.config, name, text)?;
        self.note(&set, &Origin::File(name.to_owned()));
        Ok(())
    }

    /// Puts variables over what there is. Those that do not begin with `NEARWIRE_` and those that mean something else
    /// are left alone.
    ///
    /// # Errors
    /// The first mistake, with the variable's name.
    pub fn variables<'a>(&mut self, variables: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), ConfigError> {
        for (name, text) in variables {
            let Some(key) = name.strip_prefix("NEARWIRE_").filter(|_| !Config::OTHER_VARIABLES.contains(&name)) else {
                continue;
            };
            let place = || Place::Variable { name: name.to_owned() };
            let key = key.to_ascii_lowercase();
            let Some(known) = KEYS.iter().find(|known| **known == key) else {
                let problem = Problem::UnknownKey { key, expected: KEYS.join(", ") };
                return Err(ConfigError { place: place(), problem });
            };
            value::set(&mut self.config, known, text).map_err(|problem| ConfigError { place: place(), problem })?;
            self.note(&[known], &Origin::Variable(name.to_owned()));
        }
        Ok(())
    }

    /// Sets a key at the top by an option of the command line, which stands for the value.
    ///
    /// # Errors
    /// The key has no such value.
    pub fn option(&mut self, option: &'static str, key: &'static str, text: &str) -> Result<(), ConfigError> {
        let place = Place::Variable { name: option.to_owned() };
        value::set(&mut self.config, key, text).map_err(|problem| ConfigError { place, problem })?;
        self.note(&[key], &Origin::Option(option));
        Ok(())
    }

    /// What comes out.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What comes out, alone.
    #[must_use]
    pub fn into_config(self) -> Config {
        self.config
    }

    /// Every value in the form of a file, with its origin: `("spin = \"50us\"", Profile("shared"))`, and every rule with its
    /// number.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, &Origin)> {
        let values = KEYS.iter().map(|key| match (*key, self.config.interfaces.is_empty()) {
            ("interfaces", true) => "interfaces: all".to_owned(),
            (key, _) => format!("{key} = {}", self.config.toml_value(key)),
        });
        let rules = self.config.rules.iter().enumerate().map(|(at, rule)| format!("rule {}: {rule}", at + 1));
        values.zip(&self.origins).chain(rules.zip(&self.rule_origins)).collect()
    }

    /// The variables that a program needs beside the file: values that it did not set and that are no defaults.
    #[must_use]
    pub fn beside_the_file(&self) -> Vec<(String, String)> {
        let is_beside = |origin: &Origin| !matches!(origin, Origin::Default | Origin::File(_));
        let keys = KEYS.iter().zip(&self.origins).filter(|(_, origin)| is_beside(origin));
        keys.map(|(key, _)| (value::variable(key), self.config.value(key))).collect()
    }

    fn note(&mut self, set: &[&str], origin: &Origin) {
        for (at, key) in KEYS.iter().enumerate() {
            if set.contains(key) {
                self.origins[at] = origin.clone();
            }
        }
        // A layer's rules stand before those of the layers below it.
        let new = self.config.rules.len() - self.rule_origins.len();
        self.rule_origins.splice(0..0, std::iter::repeat_n(origin.clone(), new));
    }
}

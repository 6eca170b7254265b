//! Mistakes in a configuration.

use std::fmt;

use thiserror::Error;

/// A mistake and where it is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a file.
    File {
        /// The file's name.
        name: String,
        /// Line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Variable {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable { name } => f.write_str(name),
        }
    }
}

/// What is wrong with a value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The text is not TOML.
    #[error("not TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// The key has no meaning.
    #[error("no key '{key}'; expected one of {expected}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Those there are.
        expected: String,
    },
    /// The value is not what the key wants.
    #[error("{key} = {found}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// What stands there.
        found: String,
        /// What the key wants.
        expected: String,
    },
    /// A rule does not say what to use.
    #[error("a rule without 'use': expected use = \"kernel\" or use = \"nearwire\"")]
    RuleWithoutUse,
}

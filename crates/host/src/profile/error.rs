//! What can be wrong with a profile.

use std::path::PathBuf;

use thiserror::Error;

/// Why there is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// No built-in profile has the name.
    #[error("no profile '{name}'; there are {} and files, whose names end in .toml", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in ones.
        known: Vec<&'static str>,
    },
    /// A file could not be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The text of a profile is not right.
    #[error("{file}:{line}: {problem}")]
    Text {
        /// The file, or the name of a built-in profile.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        problem: Problem,
    },
}

/// What is wrong with one line of a profile.
#[derive(Debug, Error)]
pub enum Problem {
    /// The bytes of a file are no text.
    #[error("not UTF-8: expected a text")]
    NotText,
    /// It is not TOML.
    #[error("not TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// A key that profiles do not have.
    #[error("no key '{key}' here; expected {expected}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Those there are.
        expected: String,
    },
    /// A key is missing.
    #[error("'{key}' is missing: expected {expected}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What belongs there.
        expected: String,
    },
    /// The value does not fit the key.
    #[error("{key} = {found}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// No setting has the id.
    #[error("no setting '{id}'{near}; nearwire settings lists them all")]
    UnknownSetting {
        /// The id.
        id: String,
        /// Ids that may be meant, with words around.
        near: String,
    },
    /// The key has no meaning for this setting.
    #[error("{key} does not fit {id}, whose value is {value}: expected {expected}")]
    WrongOperator {
        /// The key.
        key: &'static str,
        /// The setting.
        id: &'static str,
        /// What the setting's value looks like.
        value: String,
        /// The keys that fit.
        expected: &'static str,
    },
    /// More or less than one key says what is wanted.
    #[error("a wish has exactly one of {expected}; found {found}")]
    WantedOnce {
        /// What is there.
        found: String,
        /// The keys that say what is wanted.
        expected: String,
    },
    /// Two wishes of one file for one setting, one of them without conditions.
    #[error("{id} is wanted twice: expected one wish, or conditions in both that cannot hold together")]
    WantedTwice {
        /// The setting.
        id: &'static str,
    },
    /// A setting is left out that is not inherited.
    #[error("without = \"{id}\": expected a setting of which {base} wants something")]
    NotInherited {
        /// The setting.
        id: &'static str,
        /// What is extended.
        base: String,
    },
    /// The wish would lower security.
    #[error("{id} can lower security, so no profile may want it; list it under [[left-out]] instead")]
    LowersSecurity {
        /// The setting.
        id: &'static str,
    },
    /// The profile extends itself, perhaps through others.
    #[error("extends = \"{name}\": a profile cannot extend itself: {circle}")]
    Circle {
        /// The profile.
        name: String,
        /// The profiles on the way, with arrows between.
        circle: String,
    },
    /// Two profiles that it extends want different things.
    #[error(transparent)]
    Conflict(Box<Conflict>),
    /// What it extends cannot be had.
    #[error("extends = \"{name}\": {source}")]
    Extends {
        /// The profile.
        name: String,
        /// Why not.
        source: Box<ProfileError>,
    },
}

/// Two profiles that a third one extends want different things of a setting.
#[derive(Debug, Error)]
#[error(
    "extends = \"{other}\": of {id}, {one} wants {one_wants} and {other} wants {other_wants}; say here what is wanted by a \
     [[wish]], or leave it out by without = [\"{id}\"]"
)]
pub struct Conflict {
    /// The setting.
    pub id: &'static str,
    /// The profile that was named first.
    pub one: String,
    /// What it wants.
    pub one_wants: String,
    /// The other one.
    pub other: String,
    /// What that wants.
    pub other_wants: String,
}

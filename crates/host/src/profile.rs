//! Profiles: tables of wanted values for a purpose, each value with its reason and source.
//!
//! A profile is a TOML file:
//!
//! ```toml
//! purpose = "Programs that wait for data in poll"
//! extends = "latency"                  # a built-in name or a file, or a list of them; their wishes count too
//! without = ["cpu.smt"]                # ids of inherited wishes that do not count
//!
//! [[wish]]
//! setting = "net.core.busy_poll"
//! at-least = 50
//! reason = "poll looks into the queue of the device itself."
//! source = "Intel, Busy Poll, Enabling"
//! weight = "high"                      # high, medium or low
//! when = { host = "bare-metal" }       # optional: it counts if all of these hold
//! unless = { driver = "mana" }         # optional: and none of these
//! ```
//!
//! [`guide`] says the same in words, with every built-in profile.
//!
//! A wish says what is wanted with exactly one of `equal`, `at-least`, `at-most`, `one-of`,
//! `contains`, `lacks`, `absent`, `same-as`, `cpus-equal`, `cpus-within`, `cpus-cover` and
//! `cpus-apart-from`; see [`Wanted`]. `[[left-out]]` names advice that is printed somewhere and is
//! not a wish, with the reason, and with `equal` the value that `--i-accept-risk` brings about. A profile's own wishes replace inherited ones of the same setting;
//! inherited advice counts as long as the profile itself says nothing about the setting. Of several profiles that are
//! extended, none counts more than another: where two want different things of a setting, the one that extends them must
//! decide, by a wish or by `without`.

mod document;
mod error;
mod extends;
pub mod guide;
pub(crate) mod table;
mod value;
mod wish;

use std::path::Path;

use crate::Setting;

pub use error::{Conflict, Problem, ProfileError};
pub use wish::{Condition, CpuGroup, CpuRelation, Verdict, Wanted, Weight, Wish};

/// Wanted values for one purpose.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its built-in name, or the path of its file as it was given.
    pub name: String,
    /// What it is for, in one sentence.
    pub purpose: String,
    /// The profiles whose wishes it builds on.
    pub extends: Vec<String>,
    /// The wishes, inherited ones first.
    pub wishes: Vec<Wish>,
    /// Printed advice that is no wish, inherited one first.
    pub left_out: Vec<LeftOut>,
}

/// Advice that a profile does not follow.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The setting.
    pub setting: &'static Setting,
    /// What is advised.
    pub printed: String,
    /// Why it is not a wish.
    pub reason: String,
    /// Who advises it.
    pub source: Option<String>,
    /// The value that would follow the advice, for advice that lowers security: somebody may accept
    /// the risk.
    pub wanted: Option<Wanted>,
}

/// The profile that is checked when none is named.
pub const DEFAULT: &str = "socket-bypass";
/// Why it is that one.
pub const DEFAULT_REASON: &str = "it holds what programs with ordinary sockets need, and what the other profiles for \
                                  latency share";

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),*]
    };
}

/// The built-in profiles: name, text.
const BUILT_IN: [(&str, &str); 12] = built_in![
    "latency",
    "raw-frame",
    "socket-bypass",
    "busy-poll",
    "mpi",
    "nfv",
    "bulk",
    "as-printed/exanic",
    "as-printed/vma",
    "as-printed/busy-poll",
    "as-printed/usnic",
    "as-printed/opennfp",
];

/// The names of the built-in profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl Profile {
    /// The built-in profile of this name, or that of a file, whose name ends in `.toml`.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        extends::find(name, None, &mut Vec::new())
    }

    /// A profile of this text; `file` is what messages call it.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        extends::resolve(file, text, None, &mut vec![file.to_owned()])
    }
}

/// The text of a file, of a profile or of waivers.
pub(crate) fn text_of_file(path: &Path) -> Result<String, ProfileError> {
    let bytes = std::fs::read(path).map_err(|source| ProfileError::Read { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        ProfileError::Text { file: path.to_string_lossy().into_owned(), line, problem: Problem::NotText }
    })
}

#[cfg(test)]
mod tests;

//! Profiles: tables of wanted values for a purpose, each value with its reason and source.
//!
//! A profile is a TOML file:
//!
//! ```toml
//! purpose = "Programs that wait for data in poll"
//! extends = "latency"                  # a built-in name or a file; its wishes count too
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
//! inherited advice counts as long as the profile itself says nothing about the setting.

mod document;
mod error;
pub mod guide;
pub(crate) mod table;
mod value;
mod wish;

use std::path::{Path, PathBuf};

use crate::Setting;

pub use error::{Problem, ProfileError};
pub use wish::{Condition, CpuGroup, CpuRelation, Verdict, Wanted, Weight, Wish};

use document::Document;

/// Wanted values for one purpose.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its built-in name, or the path of its file as it was given.
    pub name: String,
    /// What it is for, in one sentence.
    pub purpose: String,
    /// The profile whose wishes it builds on.
    pub extends: Option<String>,
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
        find(name, None, 0)
    }

    /// A profile of this text; `file` is what messages call it.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        resolve(file, text, None, 0)
    }
}

/// `beside` is the directory that paths of `extends` start from, `depth` how many profiles extend
/// this one.
fn find(name: &str, beside: Option<&Path>, depth: usize) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return resolve(name, text, None, depth);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        return Err(ProfileError::Unknown { name: name.to_owned(), known: names().collect() });
    }
    let path = beside.map_or_else(|| PathBuf::from(name), |directory| directory.join(name));
    resolve(&path.to_string_lossy(), &text_of_file(&path)?, path.parent(), depth)
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

fn resolve(file: &str, text: &str, directory: Option<&Path>, depth: usize) -> Result<Profile, ProfileError> {
    let document = Document::parse(file, text)?;
    let at = |line, problem| ProfileError::Text { file: file.to_owned(), line, problem };
    let mut profile = Profile {
        name: file.to_owned(),
        purpose: document.purpose.clone(),
        extends: document.extends.as_ref().map(|base| base.name.clone()),
        wishes: Vec::new(),
        left_out: Vec::new(),
    };
    if let Some(base) = &document.extends {
        let name = || base.name.clone();
        if depth == DEPTH_MAX {
            return Err(at(base.line, Problem::Circle { name: name() }));
        }
        let inherited = find(&base.name, directory, depth + 1).map_err(|error| match error {
            circle @ ProfileError::Text { problem: Problem::Circle { .. }, .. } => circle,
            source => at(base.line, Problem::Extends { name: name(), source: Box::new(source) }),
        })?;
        let is_unknown = |id| inherited.wishes.iter().all(|wish| wish.setting.id != id);
        if let Some(without) = document.without.iter().find(|without| is_unknown(without.id)) {
            return Err(at(without.line, Problem::NotInherited { id: without.id, base: name() }));
        }
        inherit(&mut profile, inherited, &document);
    } else if let Some(without) = document.without.first() {
        let base = "a profile that this one extends".to_owned();
        return Err(at(without.line, Problem::NotInherited { id: without.id, base }));
    }
    profile.wishes.extend(document.wishes);
    profile.left_out.extend(document.left_out);
    Ok(profile)
}

/// What of a base counts in a profile that says nothing itself about the same setting.
fn inherit(profile: &mut Profile, base: Profile, document: &Document) {
    let says = |id: &str| {
        document.without.iter().any(|without| without.id == id)
            || document.wishes.iter().any(|own| own.setting.id == id)
            || document.left_out.iter().any(|own| own.setting.id == id)
    };
    let is_replaced = |wish: &Wish| {
        let id = wish.setting.id;
        document.without.iter().any(|without| without.id == id)
            || document.wishes.iter().any(|own| own.setting.id == id)
    };
    profile.wishes.extend(base.wishes.into_iter().filter(|wish| !is_replaced(wish)));
    profile.left_out.extend(base.left_out.into_iter().filter(|advice| !says(advice.setting.id)));
}

/// More profiles than this that extend one another are a circle.
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests;

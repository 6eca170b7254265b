//! Described hosts: a short text made into a directory of `/proc`, `/sys`, `/etc` and `/boot` files.
//!
//! A test of what is read from a host needs the files of that host. A [`HostTree`] is written from
//! a TOML text of some fifty lines: the machine in a few keys, its network interfaces, the kernel,
//! and any file that differs from what the keys give. What a distribution sets stands once, in
//! `hosts/debian-13.toml`; each host names it as its base and overrides what it likes.
//!
//! The hosts of the papers are built in: [`HOSTS`].

mod answers;
mod description;
mod machine;
mod nic;
mod pci;
mod shape;
mod system;
mod tree;

use std::path::{Path, PathBuf};

use description::Description;
pub use shape::{Shape, shapes};
use tree::Tree;

/// The built-in hosts: name and description. Each is one that a paper was measured on, as a
/// distribution leaves it before anybody tunes it.
pub const HOSTS: [(&str, &str); 5] = [
    ("exanic", include_str!("../hosts/exanic.toml")),
    ("opennfp", include_str!("../hosts/opennfp.toml")),
    ("vma", include_str!("../hosts/vma.toml")),
    ("usnic", include_str!("../hosts/usnic.toml")),
    ("busy-poll", include_str!("../hosts/busy-poll.toml")),
];

/// What hosts can name as `base`.
const BASES: [(&str, &str); 1] = [("debian-13", include_str!("../hosts/debian-13.toml"))];

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostTreeError {
    /// No built-in host has this name.
    #[error("no built-in host '{name}'; there are {}", names(&HOSTS))]
    UnknownHost {
        /// The name.
        name: String,
    },
    /// The base named by a description is not there.
    #[error("a host's base is '{name}', which is none of {}", names(&BASES))]
    UnknownBase {
        /// The name.
        name: String,
    },
    /// The text is not TOML, or not a description of a host.
    #[error("read the description of a host: {source}")]
    Text {
        /// Where and what.
        source: toml::de::Error,
    },
    /// The keys contradict each other.
    #[error("the description of a host: {reason}")]
    Contradiction {
        /// What is wrong.
        reason: String,
    },
    /// A file or link could not be made.
    #[error("write {path} of a host's tree: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// The files of a described host, in memory.
#[derive(Clone, Debug)]
pub struct HostTree {
    tree: Tree,
}

impl HostTree {
    /// One of [`HOSTS`].
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Self, HostTreeError> {
        match HOSTS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text),
            None => Err(HostTreeError::UnknownHost { name: name.to_owned() }),
        }
    }

    /// From the text of a description.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key, or contradicts itself.
    pub fn parse(text: &str) -> Result<Self, HostTreeError> {
        let mut own: toml::Table = toml::from_str(text).map_err(|source| HostTreeError::Text { source })?;
        let base = match own.remove("base") {
            Some(toml::Value::String(name)) => base(&name)?,
            Some(other) => return Err(HostTreeError::UnknownBase { name: format!("{other:?}") }),
            None => toml::Table::new(),
        };
        let description: Description = over(base, own).try_into().map_err(|source| HostTreeError::Text { source })?;
        Self::of(&description)
    }

    fn of(description: &Description) -> Result<Self, HostTreeError> {
        let mut tree = Tree::default();
        let machine = machine::Machine::of(&description.machine)?;
        machine.files(&mut tree);
        system::files(description, &machine, &mut tree);
        nic::files(&description.nic, &machine, &mut tree)?;
        answers::files(&description.nic, &description.kernel, &mut tree)?;
        // Last, because they override.
        for (path, text) in &description.files {
            tree.text(path, text);
        }
        for (path, target) in &description.links {
            tree.link(path, target);
        }
        for (path, _) in description.read_only.iter().filter(|(_, is_read_only)| **is_read_only) {
            tree.read_only(path);
        }
        for path in &description.absent {
            tree.remove(path);
        }
        Ok(Self { tree })
    }

    /// The same host with one file's text replaced or added; the path is as on a live host.
    #[must_use]
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.tree.text(path, text);
        self
    }

    /// The same host without what is at or below a path.
    #[must_use]
    pub fn without(mut self, path: &str) -> Self {
        self.tree.remove(path);
        self
    }

    /// Writes the files into a directory that is there.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub fn write(&self, directory: &Path) -> Result<(), HostTreeError> {
        self.tree.write(directory)
    }
}

/// Where to make a temporary directory for a tree: thousands of small files, which are a matter of
/// milliseconds in memory and of seconds on a busy disk.
#[must_use]
pub fn scratch_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match rustix::fs::access(memory, rustix::fs::Access::WRITE_OK) {
        Ok(()) if memory.is_dir() => memory.to_owned(),
        _ => std::env::temp_dir(),
    }
}

fn base(name: &str) -> Result<toml::Table, HostTreeError> {
    match BASES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => toml::from_str(text).map_err(|source| HostTreeError::Text { source }),
        None => Err(HostTreeError::UnknownBase { name: name.to_owned() }),
    }
}

/// The base with the host's own keys over it, table by table.
fn over(mut base: toml::Table, own: toml::Table) -> toml::Table {
    for (key, value) in own {
        let merged = match (base.remove(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => toml::Value::Table(over(below, above)),
            (_, value) => value,
        };
        base.insert(key, merged);
    }
    base
}

fn names(of: &[(&str, &str)]) -> String {
    of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;

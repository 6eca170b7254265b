//! A snapshot: everything that settings are read from, in one archive, to be looked at elsewhere.
//!
//! The archive holds plain files with the content of the live ones. Which ones is not written down
//! anywhere: every setting is read, and what was looked at is copied, so a snapshot is complete by
//! construction. What a file cannot hold is in `/nearwire`: what the kernel answered about
//! interfaces, which paths were looked at and had nothing, what could not be read and why.
//!
//! What identifies the machine is left out: see [`identifiers`] and [`redaction`].

mod identifiers;
mod layout;
mod needs;
mod pack;
mod redaction;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;
use thiserror::Error;

use crate::read::{Nic, RECORDINGS, clock};
use crate::root::{FORMAT, LOOKED_AT, MANIFEST};
use crate::{Reading, Root};
use identifiers::Identifiers;
use layout::Layout;

/// Why there is no snapshot.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The host has no such interface.
    #[error("no interface {name}; there are: {known}")]
    NoInterface {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// What is at the path is no file that may be replaced.
    #[error("{path} is there and is no regular file: it is not replaced")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("write {path}: {source}; nothing is left of it")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The archive does not unpack to what was packed.
    #[error("pack the snapshot: {source}")]
    Pack {
        /// What went wrong.
        source: io::Error,
    },
}

/// A snapshot in memory.
#[derive(Debug)]
pub struct Snapshot {
    packed: Vec<u8>,
    files: usize,
    interfaces: Vec<String>,
    needs_root: Vec<String>,
}

impl Snapshot {
    /// Takes one: of these interfaces, or of all and the loopback interface when none is named.
    ///
    /// # Errors
    /// A named interface does not exist, or packing failed. What cannot be read is no error: the
    /// snapshot says so.
    pub fn take(root: &Root, interfaces: &[String]) -> Result<Self, SnapshotError> {
        let quiet = root.untraced();
        let identifiers = Identifiers::of(&quiet);
        let mut left_out = Vec::new();
        let interfaces = choose(&quiet, interfaces, &identifiers, &mut left_out)?;
        let traced = root.traced();
        needs::look_at_everything(&traced, &interfaces);
        let mut layout = Layout::of(&quiet, traced.take_looks(), &identifiers);
        for name in &interfaces {
            let answers = format!("{:#}\n", json!(Nic::open(&quiet, name).answers()));
            layout.add_file(&format!("{RECORDINGS}/{name}.json"), identifiers.scrub(&answers).into_bytes());
        }
        let clocks = format!("{:#}\n", json!(clock::answers(&quiet)));
        layout.add_file(clock::RECORDING, clocks.into_bytes());
        left_out.append(&mut layout.left_out);
        let needs_root = layout.needs_root();
        let manifest = json!({
            "format": FORMAT,
            "tool": concat!("nearwire ", env!("CARGO_PKG_VERSION")),
            "taken": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            "kernel": quiet.read("/proc/sys/kernel/osrelease").ok(),
            "interfaces": &interfaces,
            "needs-root": &needs_root,
            "left-out": left_out,
        });
        let looked_at = format!("{:#}\n", json!(layout.looked_at(&quiet)));
        for (path, text) in [(LOOKED_AT, looked_at), (MANIFEST, format!("{manifest:#}\n"))] {
            layout.add_file(path, identifiers.scrub(&text).into_bytes());
        }
        let packed = pack::pack(&layout.entries).map_err(|source| SnapshotError::Pack { source })?;
        Ok(Self { packed, files: layout.count_files(), interfaces, needs_root })
    }

    /// Writes it to a file, which is replaced only when all of it is on disk.
    ///
    /// # Errors
    /// It cannot be written, or is something else than a file. Nothing is left then.
    pub fn write(&self, path: &Path) -> Result<(), SnapshotError> {
        if path.symlink_metadata().is_ok_and(|kind| !kind.is_file()) {
            return Err(SnapshotError::NotAFile { path: path.to_owned() });
        }
        pack::replace(path, &self.packed).map_err(|source| SnapshotError::Write { path: path.to_owned(), source })
    }

    /// The length of the archive, bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.packed.len()
    }

    /// How many files are in it.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    /// The interfaces in it.
    #[must_use]
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// The paths that only a privileged user could have read.
    #[must_use]
    pub fn needs_root(&self) -> &[String] {
        &self.needs_root
    }
}

/// The interfaces to look at. One whose name has its address in it cannot be described.
fn choose(
    root: &Root,
    wanted: &[String],
    identifiers: &Identifiers,
    left_out: &mut Vec<serde_json::Value>,
) -> Result<Vec<String>, SnapshotError> {
    let mut known = crate::interfaces(root).unwrap_or_default();
    if root.has("/sys/class/net/lo") {
        known.push("lo".to_owned());
    }
    if let Some(name) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(SnapshotError::NoInterface { name: name.clone(), known: known.join(" ") });
    }
    let mut chosen: Vec<String> = if wanted.is_empty() { known } else { wanted.to_vec() };
    chosen.sort();
    chosen.dedup();
    let before = chosen.len();
    chosen.retain(|name| !identifiers.is_in(name));
    if chosen.len() < before {
        let what = format!("{} interfaces", before - chosen.len());
        left_out.push(json!({"what": what, "why": "their names identify the machine"}));
    }
    Ok(chosen)
}

/// Whether a reading says that only a privileged user may have it.
fn is_for_root(reading: &Reading) -> bool {
    *reading == Reading::NeedsRoot
}

#[cfg(test)]
mod tests;

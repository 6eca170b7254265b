//! Files and links of a host, gathered before they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::HostTreeError;

#[derive(Clone, Debug)]
enum Entry {
    Bytes(Vec<u8>),
    Link(String),
    Directory,
}

/// By path without the slash at its beginning. A later entry of the same path replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<String, Entry>,
    read_only: BTreeSet<String>,
}

impl Tree {
    /// A text file; the line end that every file of the kernel has is added where it is missing.
    pub fn text(&mut self, path: &str, text: impl ToString) {
        let mut text = text.to_string();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        self.bytes(path, text.into_bytes());
    }

    /// Text files of one directory.
    pub fn texts<T: ToString>(&mut self, directory: &str, files: impl IntoIterator<Item = (&'static str, T)>) {
        for (file, text) in files {
            self.text(&format!("{directory}/{file}"), text);
        }
    }

    pub fn bytes(&mut self, path: &str, bytes: Vec<u8>) {
        self.entries.insert(key(path), Entry::Bytes(bytes));
    }

    /// A link to a path of the tree, written as relative to where it is: the tree can be moved.
    pub fn link(&mut self, path: &str, target: &str) {
        let up = "../".repeat(key(path).matches('/').count());
        self.entries.insert(key(path), Entry::Link(format!("{up}{}", key(target))));
    }

    pub fn directory(&mut self, path: &str) {
        self.entries.insert(key(path), Entry::Directory);
    }

    /// The file gets the mode of one that nobody may write.
    pub fn read_only(&mut self, path: &str) {
        self.read_only.insert(key(path));
    }

    /// Takes out what is at or below a path.
    pub fn remove(&mut self, path: &str) {
        let (path, below) = (key(path), format!("{}/", key(path)));
        self.entries.retain(|entry, _| *entry != path && !entry.starts_with(&below));
    }

    pub fn write(&self, directory: &Path) -> Result<(), HostTreeError> {
        for (name, entry) in &self.entries {
            let path = directory.join(name);
            let parent = path.parent().unwrap_or(directory);
            let written = fs::create_dir_all(parent).and_then(|()| match entry {
                Entry::Bytes(bytes) if self.read_only.contains(name) => {
                    fs::write(&path, bytes)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o444))
                }
                Entry::Bytes(bytes) => fs::write(&path, bytes),
                Entry::Link(target) => symlink(target, &path),
                Entry::Directory => fs::create_dir_all(&path),
            });
            written.map_err(|source| HostTreeError::Write { path, source })?;
        }
        Ok(())
    }
}

fn key(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

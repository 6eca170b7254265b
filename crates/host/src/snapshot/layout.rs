//! The files, directories and links of a snapshot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::identifiers::Identifiers;
use super::{is_for_root, redaction};
use crate::root::{DeviceBytes, FILE_BYTES_MAX, Lack, LookedAt, Looks, NOT_COPIED, Seen, to_hex};
use crate::{Reading, Root};

/// As many links as the kernel follows in one path.
const LINKS_MAX: u32 = 40;

/// What is at a path of the archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Directory,
    File(Vec<u8>),
    Link(String),
}

/// What goes into the archive.
pub(super) struct Layout<'r> {
    root: &'r Root,
    identifiers: &'r Identifiers,
    /// By path without links, as on the host.
    pub entries: BTreeMap<String, Entry>,
    /// Names that were seen in directories.
    names: BTreeSet<String>,
    targets: BTreeMap<String, Option<String>>,
    looked_at: LookedAt,
    /// What is not in it on purpose, and why.
    pub left_out: Vec<Value>,
}

impl<'r> Layout<'r> {
    /// Lays out what was looked at. The root is asked for the links on the way only.
    pub(super) fn of(root: &'r Root, looks: Looks, identifiers: &'r Identifiers) -> Self {
        let mut layout = Self {
            root,
            identifiers,
            entries: BTreeMap::new(),
            names: BTreeSet::new(),
            targets: BTreeMap::new(),
            looked_at: LookedAt {
                of_a_copy: !root.is_whole(),
                of_a_selection: !root.tells_absence(),
                ..LookedAt::default()
            },
            left_out: Vec::new(),
        };
        for (path, seen) in looks {
            layout.add(&path, seen);
        }
        layout.add_names();
        layout.remove_identifying();
        layout
    }

    pub(super) fn add_file(&mut self, path: &str, bytes: Vec<u8>) {
        let mut directory = path;
        while let Some((parent, _)) = directory.rsplit_once('/') {
            directory = parent;
            if !directory.is_empty() {
                self.entries.entry(directory.to_owned()).or_insert(Entry::Directory);
            }
        }
        self.entries.insert(path.to_owned(), Entry::File(bytes));
    }

    pub(super) fn count_files(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry, Entry::File(_))).count()
    }

    pub(super) fn needs_root(&self) -> Vec<String> {
        let devices = self.looked_at.devices.iter().filter(|(_, answers)| {
            answers.values().any(|answer| answer.lack.as_ref().is_some_and(|lack| lack.needs_root))
        });
        let files = self.looked_at.unread.iter().chain(&self.looked_at.unlisted);
        let files = files.filter(|(_, lack)| lack.needs_root).map(|(path, _)| path.clone());
        files.chain(devices.map(|(path, _)| path.clone())).collect()
    }

    /// What files cannot say.
    pub(super) fn looked_at(&mut self, root: &Root) -> &LookedAt {
        self.looked_at.coarse_clock_resolution_ns = root.coarse_clock_resolution_ns();
        &self.looked_at
    }

    fn add(&mut self, path: &str, seen: Seen) {
        let is_unsupported = |lack: &Option<Reading>| *lack == Some(Reading::Unsupported);
        let may_be_absent = seen.is_absent || is_unsupported(&seen.unread) || is_unsupported(&seen.unlisted);
        if may_be_absent && seen.file.is_none() && seen.names.is_none() && !self.root.has(path) {
            self.looked_at.absent.insert(self.top_of_absence(path).to_owned());
            return;
        }
        if let Some(target) = seen.target
            && let Some(real) = self.resolve(path, false)
        {
            self.entries.insert(real, Entry::Link(target));
        }
        match (seen.file, seen.unread) {
            (Some((bytes, limit_bytes)), _) => self.add_bytes(path, bytes, limit_bytes),
            (None, Some(reading)) if self.is_certain(&reading) => {
                self.looked_at.unread.insert(path.to_owned(), Lack::of(&reading));
                self.add_name(path);
            }
            _ => {}
        }
        match (seen.names, seen.unlisted) {
            (Some(names), _) => self.add_directory(path, names),
            (None, Some(reading)) if self.is_certain(&reading) => {
                self.looked_at.unlisted.insert(path.to_owned(), Lack::of(&reading));
                self.add_name(path);
            }
            _ => {}
        }
        if seen.is_there {
            self.add_name(path);
        }
        for (offset, answer) in seen.device {
            let answer = match answer {
                Ok(bytes) => DeviceBytes { bytes: Some(to_hex(&bytes)), lack: None },
                Err(reading) if self.is_certain(&reading) => {
                    DeviceBytes { bytes: None, lack: Some(Lack::of(&reading)) }
                }
                Err(_) => continue,
            };
            self.looked_at.devices.entry(path.to_owned()).or_default().insert(format!("{offset:#x}"), answer);
        }
    }

    /// Whether a reading is of the host, and not of a copy that lacks something.
    fn is_certain(&self, reading: &Reading) -> bool {
        self.root.is_whole() || is_for_root(reading)
    }

    fn add_bytes(&mut self, path: &str, bytes: Vec<u8>, limit_bytes: u64) {
        let Some(real) = self.resolve(path, true) else { return };
        if bytes.len() as u64 == limit_bytes && limit_bytes < FILE_BYTES_MAX {
            self.looked_at.first_bytes.insert(path.to_owned(), limit_bytes);
        }
        let Some(bytes) = redaction::redacted(&real, bytes, self.identifiers) else {
            let why = format!("{path} was left out of the snapshot: it identifies the machine");
            self.left_out.push(json!({"what": path, "why": "it identifies the machine"}));
            self.looked_at.unread.insert(path.to_owned(), Lack { error: Some(why), ..Lack::default() });
            return;
        };
        match self.entries.get(&real) {
            // By another path more of it was read.
            Some(Entry::File(known)) if known.len() > bytes.len() => {}
            _ => {
                self.entries.insert(real, Entry::File(bytes));
            }
        }
    }

    fn add_directory(&mut self, path: &str, names: Vec<String>) {
        self.looked_at.listed.insert(path.to_owned());
        let Some(real) = self.resolve(path, true) else { return };
        self.names.extend(names.into_iter().map(|name| format!("{real}/{name}")));
        if !real.is_empty() {
            self.entries.entry(real).or_insert(Entry::Directory);
        }
    }

    /// Something is there; what, was not looked at.
    fn add_name(&mut self, path: &str) {
        let Some(real) = self.resolve(path, true) else { return };
        if self.root.list(&real).is_ok() && !real.is_empty() {
            self.entries.entry(real).or_insert(Entry::Directory);
        } else {
            self.names.insert(real);
        }
    }

    fn add_names(&mut self) {
        for name in std::mem::take(&mut self.names) {
            self.entries.entry(name).or_insert_with(|| Entry::Link(NOT_COPIED.to_owned()));
        }
    }

    /// Leaves out names and links that identify the machine.
    fn remove_identifying(&mut self) {
        let identifiers = self.identifiers;
        let before = self.entries.len();
        self.entries.retain(|path, entry| {
            let is_target = matches!(entry, Entry::Link(target) if identifiers.is_in(target));
            !is_target && !identifiers.is_in(path)
        });
        if self.entries.len() < before {
            let what = format!("{} entries", before - self.entries.len());
            self.left_out.push(json!({"what": what, "why": "their names identify the machine"}));
        }
        let keep = |path: &String| !identifiers.is_in(path);
        self.looked_at.absent.retain(keep);
        self.looked_at.listed.retain(keep);
        self.looked_at.unread.retain(|path, _| keep(path));
        self.looked_at.unlisted.retain(|path, _| keep(path));
        self.looked_at.first_bytes.retain(|path, _| keep(path));
    }

    /// The uppermost directory on a path that is not there.
    fn top_of_absence<'p>(&self, path: &'p str) -> &'p str {
        if !self.root.is_whole() {
            return path;
        }
        let mut top = path;
        while let Some((parent, _)) = top.rsplit_once('/') {
            if parent.is_empty() || self.root.has(parent) {
                break;
            }
            top = parent;
        }
        top
    }

    /// The path without links, and without the last one if that is followed; the links and
    /// directories on the way are laid out.
    fn resolve(&mut self, path: &str, follows_last: bool) -> Option<String> {
        let mut links_left = LINKS_MAX;
        let mut at = String::new();
        let mut rest: Vec<String> = parts(path).rev().map(str::to_owned).collect();
        while let Some(part) = rest.pop() {
            if part == ".." {
                at.truncate(at.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{at}/{part}");
            match self.target(&here) {
                Some(target) if follows_last || !rest.is_empty() => {
                    links_left = links_left.checked_sub(1)?;
                    if target.starts_with('/') {
                        at.clear();
                    }
                    rest.extend(parts(&target).rev().map(str::to_owned));
                    self.entries.insert(here, Entry::Link(target));
                }
                _ => {
                    if !rest.is_empty() {
                        self.entries.entry(here.clone()).or_insert(Entry::Directory);
                    }
                    at = here;
                }
            }
        }
        Some(at)
    }

    fn target(&mut self, path: &str) -> Option<String> {
        if let Some(known) = self.targets.get(path) {
            return known.clone();
        }
        let target = self.root.link_target(path).ok();
        self.targets.insert(path.to_owned(), target.clone());
        target
    }
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

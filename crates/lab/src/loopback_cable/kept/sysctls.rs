//! The sysctls of one interface: `/proc/sys/net/*/{conf,neigh}/INTERFACE/*`.

use std::fs;
use std::path::{Path, PathBuf};

/// Where an interface has sysctls.
const FOLDERS: [&str; 4] = ["ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"];

/// Paths and contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sysctls {
    values: Vec<(PathBuf, String)>,
}

impl Sysctls {
    /// Reads all that can be read, in the namespace of the calling thread. Some are write-only or
    /// refuse to be read while unset (`stable_secret`).
    pub(super) fn read(interface: &str) -> Self {
        let mut values: Vec<(PathBuf, String)> = FOLDERS
            .iter()
            .map(|folder| Path::new("/proc/sys/net").join(folder).join(interface))
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter_map(|path| {
                let value = fs::read_to_string(&path).ok()?;
                Some((path, value))
            })
            .collect();
        values.sort_unstable();
        Self { values }
    }

    /// Writes those that differ now, in the namespace of the calling thread. Returns the ones that
    /// could not be written, in words.
    pub(super) fn restore(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (path, value) in &self.values {
            if fs::read_to_string(path).is_ok_and(|now| now == *value) {
                continue;
            }
            if let Err(error) = fs::write(path, value) {
                failures.push(format!("write '{}' to {}: {error}", value.trim_end(), path.display()));
            }
        }
        failures
    }
}

//! Results that are kept: one file for each kind of host (processor, driver and device of the interface, kernel), so that `nearwire check` can tell what
//! a setting was worth on this one.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nearwire_host::{Root, catalogue, read_settings};
use serde::{Deserialize, Serialize};

use crate::result::{Measured, OnSubject, Worth};

/// Where results are unless somebody says otherwise; beside the journal.
pub const DEFAULT_DIRECTORY: &str = "/var/lib/nearwire/worth";

/// The version of the files; it grows when a field changes its meaning.
const FORMAT: u32 = 1;

/// What a result depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// The processor's model.
    pub cpu: String,
    /// The interface's driver.
    pub driver: String,
    /// The interface's device, `vendor:device`; `virtual` without one.
    pub nic: String,
    /// The kernel's release.
    pub kernel: String,
}

impl Kind {
    /// Of this host with an interface, seen in the calling thread's network namespace.
    #[must_use]
    pub fn of(root: &Root, interface: &str, driver: &str) -> Self {
        let (cpu, kernel) = host(root);
        Self { cpu, driver: driver.to_owned(), nic: device(root, interface), kernel }
    }

    fn file(&self, directory: &Path) -> PathBuf {
        let name = format!("{}_{}_{}_{}.json", self.cpu, self.driver, self.nic, self.kernel);
        let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        directory.join(name.chars().map(safe).collect::<String>())
    }
}

/// The device of an interface, `vendor:device`; `virtual` without one.
#[must_use]
pub fn device(root: &Root, interface: &str) -> String {
    let id = |file: &str| {
        let text = root.read(&format!("/sys/class/net/{interface}/device/{file}")).ok();
        text.map(|text| text.trim().trim_start_matches("0x").to_owned()).filter(|text| !text.is_empty())
    };
    let both = id("vendor").zip(id("device"));
    both.map_or_else(|| "virtual".to_owned(), |(vendor, device)| format!("{vendor}:{device}"))
}

/// Processor and kernel.
fn host(root: &Root) -> (String, String) {
    let settings: Vec<_> = ["cpu.model", "kernel.release"].into_iter().filter_map(catalogue::setting).collect();
    let readings: BTreeMap<String, _> = read_settings(root, &settings, &[]).into_iter().collect();
    let value = |id: &str| readings.get(id).and_then(|reading| reading.as_value()).unwrap_or("unknown").to_owned();
    (value("cpu.model"), value("kernel.release"))
}

/// What is known of one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// When it was measured, seconds since 1970.
    pub unix_s: u64,
    /// The value without.
    pub from: String,
    /// The value with.
    pub to: String,
    /// On each path.
    pub on: Vec<OnSubject>,
}

impl Known {
    /// As a result.
    #[must_use]
    pub fn worth(&self, id: &str) -> Worth {
        let candidate = crate::result::Candidate { id: id.to_owned(), from: self.from.clone(), to: self.to.clone() };
        Worth { candidate, on: self.on.clone(), failure: None }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    format: u32,
    kind: Kind,
    /// By id without instance.
    settings: BTreeMap<String, Known>,
}

/// Why results are not kept.
#[derive(Debug, thiserror::Error)]
#[error("{action} {path}: {source}; the results are not kept for nearwire check")]
pub struct StoreError {
    /// What was tried.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

/// Adds results to those of the same kind of host; a setting that was measured before is replaced.
///
/// # Errors
/// The directory or file cannot be written.
pub fn keep(directory: &Path, kind: &Kind, measured: &Measured, unix_s: u64) -> Result<(), StoreError> {
    let disk = |action, path: &Path| {
        let path = path.to_owned();
        move |source| StoreError { action, path, source }
    };
    let path = kind.file(directory);
    let mut settings = read(&path).filter(|file| file.kind == *kind).map(|file| file.settings).unwrap_or_default();
    let whole = measured.settings.iter().filter(|worth| worth.failure.is_none() && !worth.on.is_empty());
    for Worth { candidate, on, .. } in whole {
        let id = candidate.id.split('[').next().unwrap_or_default().to_owned();
        let (from, to) = (candidate.from.clone(), candidate.to.clone());
        settings.insert(id, Known { unix_s, from, to, on: on.clone() });
    }
    if settings.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(disk("create", directory))?;
    let text = serde_json::to_string_pretty(&File { format: FORMAT, kind: kind.clone(), settings })
        .map_err(|error| disk("write", &path)(error.into()))?;
    let new = path.with_extension("new");
    fs::write(&new, text).map_err(disk("write", &new))?;
    fs::rename(&new, &path).map_err(disk("name", &path))
}

fn read(path: &Path) -> Option<File> {
    serde_json::from_slice::<File>(&fs::read(path).ok()?).ok().filter(|file| file.format == FORMAT)
}

/// What is known of settings on a host with this processor and kernel.
#[derive(Clone, Debug, Default)]
pub struct Store {
    files: Vec<(Kind, BTreeMap<String, Known>)>,
}

impl Store {
    /// Reads what a directory has for this host. What cannot be read is not known.
    #[must_use]
    pub fn open(directory: &Path, root: &Root) -> Self {
        let Ok(entries) = fs::read_dir(directory) else { return Self::default() };
        let (cpu, kernel) = host(root);
        let read = entries.flatten().filter_map(|entry| read(&entry.path()));
        let here = read.filter(|file| file.kind.cpu == cpu && file.kind.kernel == kernel);
        Self { files: here.map(|file| (file.kind, file.settings)).collect() }
    }

    /// What is known of a setting: of one of interfaces with this driver and [`device()`] only, as another device of the same driver may
    /// differ; of others on whatever cable, the newest.
    #[must_use]
    pub fn of(&self, id: &str, interface: Option<(&str, &str)>) -> Option<(&Kind, &Known)> {
        let fits = |kind: &Kind| interface.is_none_or(|(driver, nic)| kind.driver == driver && kind.nic == nic);
        let known = self.files.iter().filter(|(kind, _)| fits(kind));
        known.filter_map(|(kind, of)| Some((kind, of.get(id)?))).max_by_key(|(_, known)| known.unix_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Candidate;

    fn measured(id: &str, to: &str) -> Measured {
        let candidate = Candidate { id: id.to_owned(), from: "0".to_owned(), to: to.to_owned() };
        let on = vec![OnSubject { subject: "udp/spin".to_owned(), effects: Vec::new() }];
        Measured {
            format: 1,
            seed: 1,
            rounds: 8,
            subjects: vec!["udp/spin".to_owned()],
            settings: vec![Worth { candidate, on, failure: None }],
            pairs: Vec::new(),
            notes: Vec::new(),
            interrupted: false,
            failure: None,
        }
    }

    fn kind(driver: &str, kernel: &str) -> Kind {
        let (cpu, nic) = ("unknown".to_owned(), "8086:1572".to_owned());
        Kind { cpu, driver: driver.to_owned(), nic, kernel: kernel.to_owned() }
    }

    #[test]
    fn results_are_found_on_the_same_kind_of_host_and_by_driver_and_device() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("a/b");
        let empty = tempfile::tempdir().unwrap();
        let root = Root::directory(empty.path()).unwrap();
        assert!(Store::open(&store, &root).of("nic.rps-cpus", None).is_none());
        keep(&store, &kind("ice", "unknown"), &measured("nic.rps-cpus[eth0]", "1"), 5).unwrap();
        keep(&store, &kind("ice", "unknown"), &measured("vm.swappiness", "1"), 6).unwrap();
        keep(&store, &kind("ice", "6.1"), &measured("vm.stat_interval", "1"), 6).unwrap();
        keep(&store, &kind("mlx5_core", "unknown"), &measured("vm.swappiness", "2"), 7).unwrap();
        fs::write(store.join("broken.json"), "{").unwrap();
        let store = Store::open(&store, &root);
        let of = |driver, nic| store.of("nic.rps-cpus", Some((driver, nic))).map(|(_, known)| known.unix_s);
        assert_eq!(of("ice", "8086:1572"), Some(5));
        assert_eq!(of("mlx5_core", "8086:1572"), None);
        assert_eq!(of("ice", "8086:159b"), None, "another model with the same driver");
        assert_eq!(store.of("vm.swappiness", None).map(|(_, known)| known.to.as_str()), Some("2"));
        assert!(store.of("vm.stat_interval", None).is_none(), "of another kernel");
    }
}

//! Kernel modules: which are there, what they were told.

use super::{HostFiles, one_line};
use crate::Reading;

const MODULES: &str = "/sys/module";

/// A parameter as the module has it now.
pub(super) fn parameter(files: &HostFiles<'_>, module: &str, parameter: &str) -> Reading {
    match files.root().list(MODULES) {
        Ok(modules) if modules.iter().any(|name| name == module) => {
            match files.line(&format!("{MODULES}/{module}/parameters/{parameter}")) {
                // A parameter that only the loading sees has no file, nor has one of a newer module.
                Reading::Unknown { .. } if files.root().tells_absence() => Reading::Unsupported,
                found => found,
            }
        }
        Ok(_) => files.root().absent_or_not_copied(&format!("{MODULES}/{module}")),
        Err(reading) => reading,
    }
}

/// Those of these modules that are loaded or built in.
pub(super) fn present(files: &HostFiles<'_>, wanted: &[&str]) -> Reading {
    let modules = match files.root().list(MODULES) {
        Ok(modules) => modules,
        Err(reading) => return reading,
    };
    let found: Vec<_> = wanted.iter().filter(|name| modules.iter().any(|module| module == **name)).copied().collect();
    match found.is_empty() {
        true if !files.root().tells_absence() => files.root().absent_or_not_copied(&wanted.join(" or ")),
        true => Reading::value("none"),
        false => Reading::Value(found.join(" ")),
    }
}

/// The `softdep` lines of `/etc/modprobe.d` for the driver of `ConnectX-3`.
pub(crate) fn mlx4_softdep(files: &HostFiles<'_>) -> Reading {
    const DIRECTORY: &str = "/etc/modprobe.d";
    let entries = match files.root().list(DIRECTORY) {
        Ok(entries) => entries,
        Err(reading) => return reading,
    };
    let texts = entries
        .iter()
        .filter(|name| name.ends_with(".conf"))
        .filter_map(|name| files.root().read(&format!("{DIRECTORY}/{name}")).ok());
    let lines: Vec<_> = texts
        .flat_map(|text| text.lines().map(one_line).collect::<Vec<_>>())
        .filter_map(|line| line.strip_prefix("softdep mlx4_core ").map(str::to_owned))
        .collect();
    Reading::Value(if lines.is_empty() { "not set".to_owned() } else { lines.join(", ") })
}

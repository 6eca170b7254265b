//! The ways to read, each written once; the catalogue says which setting uses which.

pub(crate) mod clock;
mod condense;
pub(crate) mod counters;
pub(crate) mod cpu;
pub(crate) mod dmi;
mod host_files;
pub(crate) mod interrupts;
pub(crate) mod irqbalance;
pub(crate) mod kernel;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod module;
mod msr;
mod nic;
pub(crate) mod placement;
pub(crate) mod process;
pub(crate) mod rdma;
mod seen;
pub(crate) mod service;
pub(crate) mod virtualisation;

pub(crate) use condense::{condense, split};
pub use host_files::HostFiles;
pub(crate) use nic::{Nic, RECORDINGS};

use crate::{CpuSet, Reading};

/// Drivers leave empty what they do not have; some say `N/A`.
pub(crate) fn text(field: &str) -> Reading {
    match field.trim() {
        "" | "N/A" | "n/a" => Reading::Unsupported,
        text => Reading::value(text),
    }
}

/// White space made single, so that a reading is one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A CPU list or mask from a file as a list.
pub(crate) fn cpus(path: &str, text: &str, parse: fn(&str) -> Result<CpuSet, crate::CpuSetError>) -> Reading {
    match parse(text) {
        Ok(cpus) => Reading::value(cpus),
        Err(error) => Reading::unknown(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests;

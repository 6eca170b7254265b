//! Every setting's reading at once: the environment block of a record.

use std::collections::BTreeMap;

use crate::read::{HostFiles, Nic};
use crate::setting::ReadFrom;
use crate::{Reading, Root, catalogue};

/// Reads every setting of the catalogue. A setting of an interface has the interface's name in
/// brackets behind its id: `nic.driver[nw0]`.
///
/// Interfaces and the `net.*` sysctls are those of the calling thread's network namespace.
#[must_use]
pub fn environment(root: &Root, interfaces: &[String]) -> BTreeMap<String, Reading> {
    let mut readings = host_environment(root);
    readings.extend(interface_environment(root, interfaces));
    readings
}

/// Reads the settings that are not an interface's. Call it before the thread leaves the initial
/// network namespace: others do not show every `net.core` sysctl.
#[must_use]
pub fn host_environment(root: &Root) -> BTreeMap<String, Reading> {
    let files = HostFiles::new(root);
    let readings = catalogue::settings().filter_map(|setting| {
        let reading = files.read(setting.read)?;
        Some((setting.id.to_owned(), reading))
    });
    readings.collect()
}

/// Reads the settings of interfaces of the calling thread's network namespace.
#[must_use]
pub fn interface_environment(root: &Root, interfaces: &[String]) -> BTreeMap<String, Reading> {
    let mut readings = BTreeMap::new();
    for interface in interfaces {
        let nic = Nic::open(root, interface);
        for setting in catalogue::settings() {
            if let ReadFrom::Nic(fact) = setting.read {
                readings.insert(format!("{}[{interface}]", setting.id), nic.read(fact));
            }
        }
    }
    readings
}

#[cfg(test)]
mod tests;

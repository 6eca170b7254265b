//! RDMA devices, by `/sys/class/infiniband`.

use std::collections::BTreeSet;

use super::condense::condense;
use super::{HostFiles, one_line};
use crate::{Reading, Root};

pub(super) const DEVICES: &str = "/sys/class/infiniband";

/// The kinds of addresses of each Ethernet port, as the kernel words them: `IB/RoCE v1, RoCE v2`.
pub(crate) fn gid_types(files: &HostFiles<'_>) -> Reading {
    let root = files.root();
    let devices = match root.list(DEVICES) {
        Ok(devices) => devices,
        Err(reading) => return reading,
    };
    let mut of_ports = Vec::new();
    for device in devices {
        for port in root.list(&format!("{DEVICES}/{device}/ports")).unwrap_or_default() {
            let directory = format!("{DEVICES}/{device}/ports/{port}");
            match root.read(&format!("{directory}/link_layer")) {
                Ok(layer) if layer.trim() == "Ethernet" => {}
                Err(Reading::NeedsRoot) => return Reading::NeedsRoot,
                _ => continue,
            }
            let kinds = match gid_types_of(root, &directory) {
                Ok(kinds) => kinds,
                Err(reading) => return reading,
            };
            let kinds: BTreeSet<String> =
                kinds.iter().map(|kind| one_line(kind)).filter(|kind| !kind.is_empty()).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { Vec::from_iter(kinds).join(", ") };
            of_ports.push((format!("{device}/{port}"), Reading::Value(kinds)));
        }
    }
    condense(of_ports)
}

/// The kind of each address of the port with this directory. An entry without an address refuses to be read.
pub(super) fn gid_types_of(root: &Root, port: &str) -> Result<Vec<String>, Reading> {
    let types = format!("{port}/gid_attrs/types");
    let entries = root.list(&types)?;
    Ok(entries.iter().filter_map(|entry| root.read(&format!("{types}/{entry}")).ok()).collect())
}

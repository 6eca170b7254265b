//! RDMA devices, by `/sys/class/infiniband`.

use std::collections::BTreeSet;

use super::condense::condense;
use super::{HostFiles, one_line};
use crate::Reading;

const DEVICES: &str = "/sys/class/infiniband";

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
            let types = format!("{directory}/gid_attrs/types");
            let entries = match root.list(&types) {
                Ok(entries) => entries,
                Err(reading) => return reading,
            };
            // An entry without an address refuses to be read.
            let kinds = entries.iter().filter_map(|entry| root.read(&format!("{types}/{entry}")).ok());
            let kinds: BTreeSet<String> = kinds.map(|kind| one_line(&kind)).filter(|kind| !kind.is_empty()).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { Vec::from_iter(kinds).join(", ") };
            of_ports.push((format!("{device}/{port}"), Reading::Value(kinds)));
        }
    }
    condense(of_ports)
}

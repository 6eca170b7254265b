//! The environment of this host, as records have it.

use std::collections::BTreeMap;

use nearwire_host::{Reading, Root, host_environment, interface_environment};
use nearwire_report::record;

/// Every setting of the host and of these interfaces, in the network namespace of the calling thread.
pub fn whole(interfaces: &[String]) -> BTreeMap<String, record::Reading> {
    let mut readings = of_host();
    readings.extend(of_interfaces(interfaces));
    readings
}

/// The settings that do not belong to an interface. To be called in the host's own network namespace: others do not have every
/// sysctl.
pub fn of_host() -> BTreeMap<String, record::Reading> {
    Root::live().map(|root| in_record(host_environment(&root))).unwrap_or_default()
}

/// The settings of these interfaces, in the network namespace of the calling thread.
pub fn of_interfaces(interfaces: &[String]) -> BTreeMap<String, record::Reading> {
    Root::live().map(|root| in_record(interface_environment(&root, interfaces))).unwrap_or_default()
}

fn in_record(readings: BTreeMap<String, Reading>) -> BTreeMap<String, record::Reading> {
    let convert = |reading| match reading {
        Reading::Value(value) => record::Reading::Value { value },
        Reading::Unsupported => record::Reading::Unsupported,
        Reading::NeedsRoot => record::Reading::NeedsRoot,
        Reading::Unknown { why } => record::Reading::Unknown { why },
    };
    readings.into_iter().map(|(id, reading)| (id, convert(reading))).collect()
}

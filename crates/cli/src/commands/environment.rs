//! Environment of this host in the record's words.

use std::collections::BTreeMap;

use nearwire_host::{Reading, Root, environment};
use nearwire_report::record;

/// Reads every setting, those of these interfaces included, in the namespace of the calling thread.
pub fn read(interfaces: &[String]) -> BTreeMap<String, record::Reading> {
    match Root::live() {
        Ok(root) => environment(&root, interfaces).into_iter().map(|(id, reading)| (id, in_record(reading))).collect(),
        Err(_) => BTreeMap::new(),
    }
}

fn in_record(reading: Reading) -> record::Reading {
    match reading {
        Reading::Value(value) => record::Reading::Value { value },
        Reading::Unsupported => record::Reading::Unsupported,
        Reading::NeedsRoot => record::Reading::NeedsRoot,
        Reading::Unknown { why } => record::Reading::Unknown { why },
    }
}

//! Settings of both ends that the records do not share.

use std::collections::BTreeSet;

use crate::record::{Reading, Record};

/// One setting that differs between the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// `initiator` or `responder`.
    pub end: &'static str,
    /// Setting id.
    pub id: String,
    /// A's reading in words.
    pub a: String,
    /// B's reading in words.
    pub b: String,
}

pub(super) fn that_differ(a: &Record, b: &Record) -> Vec<SettingDifference> {
    let ends = [
        ("initiator", &a.environment.initiator, &b.environment.initiator),
        ("responder", &a.environment.responder, &b.environment.responder),
    ];
    let mut differences = Vec::new();
    for (end, of_a, of_b) in ends {
        let ids: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        for id in ids {
            let (in_a, in_b) = (of_a.get(id), of_b.get(id));
            if in_a != in_b {
                let (a, b) = (reading_text(in_a), reading_text(in_b));
                differences.push(SettingDifference { end, id: id.clone(), a, b });
            }
        }
    }
    differences
}

/// A reading in words.
pub(crate) fn reading_text(reading: Option<&Reading>) -> String {
    match reading {
        None => "not recorded".to_owned(),
        Some(Reading::Value { value }) if value.is_empty() => "(empty)".to_owned(),
        Some(Reading::Value { value }) => value.clone(),
        Some(Reading::Unsupported) => "unsupported".to_owned(),
        Some(Reading::NeedsRoot) => "needs root".to_owned(),
        Some(Reading::Unknown { why }) => format!("unknown ({why})"),
    }
}

//! Network interfaces: one table a part.

mod coalesce;
mod extended;
mod link;
mod napi;
mod offload;
mod pcie;
mod queues;

use crate::{Reading, Setting};

pub(super) const TABLES: [&[Setting]; 7] = [
    link::SETTINGS,
    queues::SETTINGS,
    coalesce::SETTINGS,
    offload::SETTINGS,
    napi::SETTINGS,
    extended::SETTINGS,
    pcie::SETTINGS,
];

/// Drivers leave empty what they do not have; some say `N/A`.
pub(crate) fn text(field: &str) -> Reading {
    match field.trim() {
        "" | "N/A" | "n/a" => Reading::Unsupported,
        text => Reading::value(text),
    }
}

//! Network interfaces: one table a part.

mod coalesce;
mod extended;
mod link;
mod napi;
mod offload;
mod pcie;
mod queues;

use crate::Setting;

pub(super) const TABLES: [&[Setting]; 7] = [
    link::SETTINGS,
    queues::SETTINGS,
    coalesce::SETTINGS,
    offload::SETTINGS,
    napi::SETTINGS,
    extended::SETTINGS,
    pcie::SETTINGS,
];

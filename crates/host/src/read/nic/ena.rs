//! What the driver of Amazon's ENA tells.
//!
//! Sources: `drivers/net/ethernet/amazon/ena/ena_ethtool.c` (Linux 6.18); the bits of `ena_srd_mode` by
//! Amazon's page on ENA Express.

use super::question::Ena;
use super::{Nic, Source};
use crate::Reading;

impl Nic<'_> {
    /// `off`, `tcp`, `udp` or `tcp udp`: what goes over several paths.
    pub(super) fn ena_express(&self) -> Reading {
        let is_printed = matches!(self.source, Ok(Source::Outputs(_)));
        if is_printed && self.driver_name().as_value().is_some_and(|driver| driver != Ena::DRIVER) {
            return Reading::Unsupported;
        }
        self.ask(&self.answers.ena, |found| match found.srd_mode {
            Some(0) => Reading::value("off"),
            Some(1) => Reading::value("tcp"),
            Some(2) => Reading::value("udp"),
            Some(3) => Reading::value("tcp udp"),
            Some(other) => Reading::unknown(format!("ena_srd_mode is {other}, which has no known meaning")),
            // Instances of a kind without it do not count it.
            None => Reading::Unsupported,
        })
    }
}

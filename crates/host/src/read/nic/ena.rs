//! What the driver of Amazon's ENA tells.
//!
//! Sources: `drivers/net/ethernet/amazon/ena/ena_ethtool.c` (Linux 6.18); the bits of `ena_srd_mode` by
//! Amazon's page on ENA Express.

use super::Nic;
use super::question::Ena;
use crate::Reading;

const DRIVER: &str = "ena";

impl Nic<'_> {
    /// `off`, `tcp`, `udp` or `tcp udp`: what goes over several paths.
    pub(super) fn ena_express(&self) -> Reading {
        let found = match self.answer(&self.ena) {
            Ok(found) => *found,
            Err(Reading::Unknown { .. }) if !self.root.is_live() => match self.ena_of_sos() {
                Ok(found) => found,
                Err(reading) => return reading,
            },
            Err(reading) => return reading.clone(),
        };
        match found.srd_mode {
            Some(0) => Reading::value("off"),
            Some(1) => Reading::value("tcp"),
            Some(2) => Reading::value("udp"),
            Some(3) => Reading::value("tcp udp"),
            Some(other) => Reading::unknown(format!("ena_srd_mode is {other}, which has no known meaning")),
            // Instances of a kind without it do not count it.
            None => Reading::Unsupported,
        }
    }

    fn ena_of_sos(&self) -> Result<Ena, Reading> {
        match self.driver_name() {
            Reading::Value(driver) if driver == DRIVER => {}
            Reading::Value(_) => return Err(Reading::Unsupported),
            other => return Err(other),
        }
        Ok(Ena::of_text(&self.root.read(&format!("/sos_commands/networking/ethtool_-S_{}", self.name))?))
    }
}

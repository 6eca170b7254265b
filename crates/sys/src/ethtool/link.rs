//! The link: speed, duplex, and what can stamp times on frames.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use super::layout::{GetLinkSettings, GetTimestamping};
use super::{EthtoolError, Interface};

/// Whether both directions may be used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// One at a time.
    Half,
    /// Both.
    Full,
}

/// Speed and duplex of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct LinkSettings {
    /// Megabits a second; `None` when the link is down or the device has no speed.
    pub speed_mbps: Option<u32>,
    /// `None` when not known.
    pub duplex: Option<Duplex>,
    /// Whether the two ends agree on it by themselves.
    #[serde(rename = "autonegotiation")]
    pub is_autonegotiated: bool,
}

bitflags! {
    /// Abilities to stamp times (`SOF_TIMESTAMPING_*`, `include/uapi/linux/net_tstamp.h`); the bits
    /// that say how stamps are asked for are kept but not named.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct SoTimestamping: u32 {
        /// The NIC stamps frames it sends.
        const TX_HARDWARE = 1 << 0;
        /// The driver stamps frames it hands to the NIC.
        const TX_SOFTWARE = 1 << 1;
        /// The NIC stamps frames it receives.
        const RX_HARDWARE = 1 << 2;
        /// The kernel stamps frames when they enter its stack.
        const RX_SOFTWARE = 1 << 3;
        /// Software stamps are reported.
        const SOFTWARE = 1 << 4;
        /// Hardware stamps are reported as they are.
        const RAW_HARDWARE = 1 << 6;
        const _ = !0;
    }
}

/// What an interface can stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Timestamping {
    /// Abilities.
    pub so_timestamping: SoTimestamping,
    /// The NIC's clock is `/dev/ptpN`; `None` when it has none.
    pub phc_index: Option<u32>,
    /// Bit n: `HWTSTAMP_TX_*` n can be chosen.
    pub tx_types: u32,
    /// Bit n: `HWTSTAMP_FILTER_*` n can be chosen.
    pub rx_filters: u32,
}

const SPEED_UNKNOWN: u32 = u32::MAX;
const DUPLEX_HALF: u8 = 0;
const DUPLEX_FULL: u8 = 1;

impl Interface {
    /// Speed and duplex (`ETHTOOL_GLINKSETTINGS`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn link_settings(&self) -> Result<LinkSettings, EthtoolError> {
        // Asked with a mask length of 0 the kernel answers with its own, negated, and nothing else.
        let offer: GetLinkSettings = self.ask(|_| {})?;
        let nwords = offer.link_mode_masks_nwords.saturating_neg().max(0);
        let found: GetLinkSettings = self.ask(|request: &mut GetLinkSettings| {
            request.link_mode_masks_nwords = nwords;
        })?;
        Ok(LinkSettings {
            speed_mbps: (found.speed != SPEED_UNKNOWN && found.speed != 0).then_some(found.speed),
            duplex: match found.duplex {
                DUPLEX_HALF => Some(Duplex::Half),
                DUPLEX_FULL => Some(Duplex::Full),
                _ => None,
            },
            is_autonegotiated: found.autoneg != 0,
        })
    }

    /// Timestamping abilities (`ETHTOOL_GET_TS_INFO`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn timestamping(&self) -> Result<Timestamping, EthtoolError> {
        let found: GetTimestamping = self.ask(|_| {})?;
        Ok(Timestamping {
            so_timestamping: SoTimestamping::from_bits_retain(found.so_timestamping),
            phc_index: u32::try_from(found.phc_index).ok(),
            tx_types: found.tx_types,
            rx_filters: found.rx_filters,
        })
    }
}

//! The physical side of an interface: flow control, power saving, error correction, module.

use serde::{Deserialize, Serialize};

use super::layout::{
    GetEnergyEfficient, GetFec, GetGroup, GetHash, GetIndirection, GetModuleInfo, GetPause, GetWakeOnLan,
    INDIRECTION_MAX,
};
use super::{EthtoolError, Interface};

/// Flow control by pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Pause {
    /// Whether both ends agree on it by themselves.
    pub autoneg: bool,
    /// Whether received pause frames stop the transmitter.
    pub rx: bool,
    /// Whether pause frames are sent.
    pub tx: bool,
}

/// Energy-efficient Ethernet (IEEE 802.3az).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EnergyEfficient {
    /// Whether it is switched on.
    #[serde(rename = "enabled")]
    pub is_enabled: bool,
    /// Whether both ends use it now.
    #[serde(rename = "active")]
    pub is_active: bool,
    /// Time without frames before the transmitter sleeps, microseconds.
    #[serde(rename = "tx-lpi-timer")]
    pub tx_lpi_timer_us: u32,
}

/// Forward error correction, as bits of `enum ethtool_fec_config_bits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Fec {
    /// In use; 0 when the driver cannot tell.
    pub active: u32,
    /// Configured.
    pub configured: u32,
}

impl Interface {
    /// Flow control (`ETHTOOL_GPAUSEPARAM`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn pause(&self) -> Result<Pause, EthtoolError> {
        let found: GetPause = self.ask(|_| {})?;
        Ok(Pause { autoneg: found.autoneg != 0, rx: found.rx_pause != 0, tx: found.tx_pause != 0 })
    }

    /// Energy-efficient Ethernet (`ETHTOOL_GEEE`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn energy_efficient(&self) -> Result<EnergyEfficient, EthtoolError> {
        let found: GetEnergyEfficient = self.ask(|_| {})?;
        Ok(EnergyEfficient {
            is_enabled: found.eee_enabled != 0,
            is_active: found.eee_active != 0,
            tx_lpi_timer_us: found.tx_lpi_timer,
        })
    }

    /// Forward error correction (`ETHTOOL_GFECPARAM`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn fec(&self) -> Result<Fec, EthtoolError> {
        let found: GetFec = self.ask(|_| {})?;
        Ok(Fec { active: found.active_fec, configured: found.fec })
    }

    /// The hash function that spreads flows to queues (`ETHTOOL_GRSSH`): bit 0 Toeplitz, bit 1
    /// XOR, bit 2 CRC32.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn hash_function(&self) -> Result<u8, EthtoolError> {
        let found: GetHash = self.ask(|_| {})?;
        Ok(found.hfunc)
    }

    /// The queue that each value of the hash goes to (`ETHTOOL_GRXFHINDIR`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn indirection(&self) -> Result<Vec<u32>, EthtoolError> {
        let found: GetIndirection = self.ask(|request: &mut GetIndirection| {
            request.size = u32::try_from(INDIRECTION_MAX).unwrap_or(u32::MAX);
        })?;
        let places = usize::try_from(found.size).unwrap_or(INDIRECTION_MAX).min(INDIRECTION_MAX);
        Ok(found.queues[..places].to_vec())
    }

    /// The queue that each value of the hash goes to, of flows that rules bring to this group of queues (`ETHTOOL_GRSSH` with a
    /// context).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn group_indirection(&self, rss_context: u32) -> Result<Vec<u32>, EthtoolError> {
        let sizes: GetHash = self.ask(|request: &mut GetHash| request.rss_context = rss_context)?;
        let places = usize::try_from(sizes.indir_size).unwrap_or(INDIRECTION_MAX).min(INDIRECTION_MAX);
        let found: GetGroup = self.ask(|request: &mut GetGroup| {
            request.rss_context = rss_context;
            request.indir_size = u32::try_from(places).unwrap_or(u32::MAX);
        })?;
        Ok(found.queues[..places].to_vec())
    }

    /// The events that wake the host, as bits `WAKE_*` (`ETHTOOL_GWOL`; needs `CAP_NET_ADMIN`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn wake_on_lan(&self) -> Result<u32, EthtoolError> {
        let found: GetWakeOnLan = self.ask(|_| {})?;
        Ok(found.wolopts)
    }

    /// The kind of the plugged module, `ETH_MODULE_*` (`ETHTOOL_GMODULEINFO`; needs
    /// `CAP_NET_ADMIN`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn module_kind(&self) -> Result<u32, EthtoolError> {
        let found: GetModuleInfo = self.ask(|_| {})?;
        Ok(found.kind)
    }
}

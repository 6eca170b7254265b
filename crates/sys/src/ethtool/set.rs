//! Changing an interface. Each command writes a whole structure, so each method reads it, lets the
//! caller change some of it and writes all of it back; what another program writes in between is
//! overwritten. The kernel may round a value or accept it without effect: read it back.

use super::layout::{
    FEATURES_MAX, GetChannels, GetCoalesce, GetEnergyEfficient, GetPause, GetRings, GetWakeOnLan, SetChannels,
    SetCoalesce, SetEnergyEfficient, SetFeatureBlock, SetFeatures, SetPause, SetRings, SetWakeOnLan,
};
use super::{Channels, Coalesce, EthtoolError, Interface, Pause, Rings};

impl Interface {
    /// Changes interrupt coalescing (`ETHTOOL_SCOALESCE`; needs `CAP_NET_ADMIN`).
    ///
    /// # Errors
    /// See [`EthtoolError`]; `EINVAL` and `EOPNOTSUPP` are the driver's word for a value or a
    /// combination that it does not take.
    pub fn set_coalesce(&self, change: impl FnOnce(&mut Coalesce)) -> Result<(), EthtoolError> {
        let mut raw: GetCoalesce = self.ask(|_| {})?;
        let mut wanted = Coalesce::from(&raw);
        change(&mut wanted);
        raw.rx_coalesce_usecs = wanted.rx_usecs;
        raw.rx_max_coalesced_frames = wanted.rx_frames;
        raw.tx_coalesce_usecs = wanted.tx_usecs;
        raw.tx_max_coalesced_frames = wanted.tx_frames;
        raw.rx_coalesce_usecs_irq = wanted.rx_usecs_irq;
        raw.rx_max_coalesced_frames_irq = wanted.rx_frames_irq;
        raw.tx_max_coalesced_frames_irq = wanted.tx_frames_irq;
        raw.stats_block_coalesce_usecs = wanted.stats_block_usecs;
        raw.rate_sample_interval = wanted.sample_interval_s;
        raw.pkt_rate_low = wanted.pkt_rate_low;
        raw.pkt_rate_high = wanted.pkt_rate_high;
        raw.rx_coalesce_usecs_low = wanted.rx_usecs_low;
        raw.rx_coalesce_usecs_high = wanted.rx_usecs_high;
        raw.use_adaptive_rx_coalesce = u32::from(wanted.adaptive_rx);
        raw.use_adaptive_tx_coalesce = u32::from(wanted.adaptive_tx);
        self.send(&mut SetCoalesce(raw))
    }

    /// Changes ring sizes (`ETHTOOL_SRINGPARAM`; needs `CAP_NET_ADMIN`). Most drivers reset the
    /// device. The largest sizes are the device's and are not written.
    ///
    /// # Errors
    /// See [`EthtoolError`]; `EINVAL` for more descriptors than the largest size.
    pub fn set_rings(&self, change: impl FnOnce(&mut Rings)) -> Result<(), EthtoolError> {
        let mut raw: GetRings = self.ask(|_| {})?;
        let mut wanted = Rings::from(&raw);
        change(&mut wanted);
        raw.rx_pending = wanted.rx;
        raw.tx_pending = wanted.tx;
        self.send(&mut SetRings(raw))
    }

    /// Changes the numbers of queues (`ETHTOOL_SCHANNELS`; needs `CAP_NET_ADMIN`). Most drivers
    /// reset the device and make its interrupts anew.
    ///
    /// # Errors
    /// See [`EthtoolError`]; `EINVAL` for more than the device has.
    pub fn set_channels(&self, change: impl FnOnce(&mut Channels)) -> Result<(), EthtoolError> {
        let mut raw: GetChannels = self.ask(|_| {})?;
        let mut wanted = Channels::from(&raw);
        change(&mut wanted);
        raw.rx_count = wanted.rx;
        raw.tx_count = wanted.tx;
        raw.other_count = wanted.other;
        raw.combined_count = wanted.combined;
        self.send(&mut SetChannels(raw))
    }

    /// Changes flow control (`ETHTOOL_SPAUSEPARAM`; needs `CAP_NET_ADMIN`). The link may go down
    /// for a while.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn set_pause(&self, change: impl FnOnce(&mut Pause)) -> Result<(), EthtoolError> {
        let mut raw: GetPause = self.ask(|_| {})?;
        let mut wanted = Pause { autoneg: raw.autoneg != 0, rx: raw.rx_pause != 0, tx: raw.tx_pause != 0 };
        change(&mut wanted);
        raw.autoneg = u32::from(wanted.autoneg);
        raw.rx_pause = u32::from(wanted.rx);
        raw.tx_pause = u32::from(wanted.tx);
        self.send(&mut SetPause(raw))
    }

    /// Switches energy-efficient Ethernet (`ETHTOOL_SEEE`; needs `CAP_NET_ADMIN`). The link may go
    /// down for a while.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn set_energy_efficient(&self, is_enabled: bool) -> Result<(), EthtoolError> {
        let mut raw: GetEnergyEfficient = self.ask(|_| {})?;
        raw.eee_enabled = u32::from(is_enabled);
        self.send(&mut SetEnergyEfficient(raw))
    }

    /// Chooses the events that wake the host, as bits `WAKE_*` (`ETHTOOL_SWOL`; needs
    /// `CAP_NET_ADMIN`). Some devices keep it without power.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn set_wake_on_lan(&self, events: u32) -> Result<(), EthtoolError> {
        let mut raw: GetWakeOnLan = self.ask(|_| {})?;
        raw.wolopts = events;
        self.send(&mut SetWakeOnLan(raw))
    }

    /// Asks for an offload by the kernel's name, on or off (`ETHTOOL_SFEATURES`; needs
    /// `CAP_NET_ADMIN`). The kernel takes the wish also where another setting keeps it without
    /// effect: `is_active` of [`Interface::features`] tells.
    ///
    /// # Errors
    /// See [`EthtoolError`]; `Unsupported` for a name that the kernel does not know.
    pub fn set_feature(&self, name: &str, is_on: bool) -> Result<(), EthtoolError> {
        let names = self.feature_names()?;
        let at = names.iter().position(|known| known == name && !name.is_empty());
        let Some(at) = at else {
            return Err(EthtoolError::Unsupported { interface: self.name().to_owned(), command: "SFEATURES" });
        };
        let word = at / u32::BITS as usize;
        let bit = 1 << (at % u32::BITS as usize);
        let mut blocks = [SetFeatureBlock { valid: 0, requested: 0 }; FEATURES_MAX / 32];
        blocks[word] = SetFeatureBlock { valid: bit, requested: if is_on { bit } else { 0 } };
        let size = u32::try_from(names.len().div_ceil(u32::BITS as usize)).unwrap_or(0);
        self.send(&mut SetFeatures { cmd: 0, size, blocks })
    }
}

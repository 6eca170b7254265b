//! Offloads: what the driver can do to frames, by the kernel's names.

use super::layout::{
    FEATURES_MAX, GetFeatures, GetFlags, GetGenericReceive, GetGenericSegmentation, GetPrivateFlags, GetSegmentation,
    GetStringSetInfo, GetStrings, STRING_SET_FEATURES, STRING_SET_PRIVATE_FLAGS, text,
};
use super::{EthtoolError, Interface};

/// `enum ethtool_flags` of `linux/ethtool.h`.
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// One offload of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The kernel's name: `rx-gro`, `tx-tcp-segmentation` (`net/ethtool/common.c`).
    pub name: String,
    /// Whether it is on: the effect, not the wish.
    pub is_active: bool,
    /// Whether somebody asked for it; may differ from `is_active` when another setting excludes it.
    pub is_requested: bool,
    /// Whether it can be switched (`[fixed]` in the output of ethtool when not).
    pub is_changeable: bool,
}

/// The offloads of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(Vec<Feature>);

impl Features {
    /// Every offload, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = &Feature> {
        self.0.iter()
    }

    /// The offload of this name; `None` when the kernel does not know it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.0.iter().find(|feature| feature.name == name)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().collect())
    }
}

/// The private flags of a driver: what it calls them, and whether each is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrivateFlags(Vec<(String, bool)>);

impl PrivateFlags {
    /// Every flag, in the driver's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(|(name, is_on)| (name.as_str(), *is_on))
    }

    /// Whether the flag of this name is on; `None` when the driver does not have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<bool> {
        self.iter().find(|(known, _)| *known == name).map(|(_, is_on)| is_on)
    }
}

impl FromIterator<(String, bool)> for PrivateFlags {
    fn from_iter<I: IntoIterator<Item = (String, bool)>>(flags: I) -> Self {
        Self(flags.into_iter().collect())
    }
}

impl Interface {
    /// Offloads (`ETHTOOL_GFEATURES`, with names by `ETHTOOL_GSTRINGS`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn features(&self) -> Result<Features, EthtoolError> {
        let names = self.feature_names()?;
        let blocks = names.len().div_ceil(u32::BITS as usize);
        let found: GetFeatures = self.ask(|request: &mut GetFeatures| {
            request.size = u32::try_from(blocks).unwrap_or(0);
        })?;
        let feature = |(at, name): (usize, String)| {
            let block = found.blocks[at / u32::BITS as usize];
            let bit = 1 << (at % u32::BITS as usize);
            Feature {
                name,
                is_active: block.active & bit != 0,
                is_requested: block.requested & bit != 0,
                is_changeable: block.available & bit != 0 && block.never_changed & bit == 0,
            }
        };
        let named = names.into_iter().enumerate();
        Ok(Features(named.filter(|(_, name)| !name.is_empty()).map(feature).collect()))
    }

    /// Whether the device takes VLAN tags out of the frames it receives (`rx-vlan-hw-parse`, by `ETHTOOL_GFLAGS`, whose answer
    /// is short).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn strips_vlan_tags(&self) -> Result<bool, EthtoolError> {
        let found: GetFlags = self.ask(|_| {})?;
        Ok(found.data & ETH_FLAG_RXVLAN != 0)
    }

    /// Whether the kernel gives the device, or the last step before it, long segments of TCP to cut (TSO, GSO).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn cuts_segments(&self) -> Result<bool, EthtoolError> {
        let by_device: GetSegmentation = self.ask(|_| {})?;
        let before: GetGenericSegmentation = self.ask(|_| {})?;
        Ok(by_device.data != 0 || before.data != 0)
    }

    /// Whether the kernel joins segments of TCP that the device received (GRO).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn joins_segments(&self) -> Result<bool, EthtoolError> {
        let found: GetGenericReceive = self.ask(|_| {})?;
        Ok(found.data != 0)
    }

    /// The driver's private flags (`ETHTOOL_GPFLAGS`, with names by `ETHTOOL_GSTRINGS`).
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn private_flags(&self) -> Result<PrivateFlags, EthtoolError> {
        let found: GetPrivateFlags = self.ask(|_| {})?;
        let names = self.names(STRING_SET_PRIVATE_FLAGS)?;
        // The answer has a bit for each of the first 32.
        let named = names.into_iter().enumerate().take(u32::BITS as usize);
        Ok(named.map(|(at, name)| (name, found.data & 1 << at != 0)).collect())
    }

    /// The names of all offloads the running kernel knows, at most [`FEATURES_MAX`]. Their number
    /// is fixed when the kernel is built, so it cannot grow between the two questions.
    pub(super) fn feature_names(&self) -> Result<Vec<String>, EthtoolError> {
        self.names(STRING_SET_FEATURES)
    }

    /// The names of a string set, at most [`FEATURES_MAX`].
    fn names(&self, string_set: u32) -> Result<Vec<String>, EthtoolError> {
        let info: GetStringSetInfo = self.ask(|request: &mut GetStringSetInfo| {
            request.sset_mask = 1 << string_set;
        })?;
        // A cleared mask says that there is no such set.
        let count = if info.sset_mask == 0 { 0 } else { info.data[0] };
        if count as usize > FEATURES_MAX {
            return Err(EthtoolError::TooManyFeatures {
                interface: self.name().to_owned(),
                found: count,
                limit: u32::try_from(FEATURES_MAX).unwrap_or(u32::MAX),
            });
        }
        let found: GetStrings = self.ask(|request: &mut GetStrings| {
            request.string_set = string_set;
            request.len = count;
        })?;
        let names = &found.data[..count as usize];
        Ok(names.iter().map(|name| text(name)).collect())
    }
}

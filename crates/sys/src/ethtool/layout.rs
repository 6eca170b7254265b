//! The kernel's structures, with the kernel's names (`include/uapi/linux/ethtool.h`,
//! `include/uapi/linux/if.h`). Those that end in an array of unknown length have it at its longest.

use super::{Channels, Coalesce, Rings};

/// Longest list of offloads that is understood. Linux 6.18 has 64.
pub(super) const FEATURES_MAX: usize = 256;
/// Bytes of one name in a string set (`ETH_GSTRING_LEN`).
pub(super) const STRING_BYTES: usize = 32;
/// Most counters of a driver that are read. The kernel writes as many as the driver has: their number is asked for first.
pub(super) const STATISTICS_MAX: usize = 4096;
/// The string set with the names of the driver's counters (`ETH_SS_STATS`).
pub(super) const STRING_SET_STATISTICS: u32 = 1;
/// The string set with the names of the driver's private flags (`ETH_SS_PRIV_FLAGS`).
pub(super) const STRING_SET_PRIVATE_FLAGS: u32 = 2;
/// The string set with the names of the offloads (`ETH_SS_FEATURES`).
pub(super) const STRING_SET_FEATURES: u32 = 4;
/// Three masks of at most 127 words: `link_mode_masks_nwords` is a signed byte.
pub(super) const LINK_MODE_WORDS_MAX: usize = 3 * 127;

/// Most rules for flows that are listed; devices have room for some hundreds to some thousands.
pub(super) const RULES_MAX: usize = 4096;

/// Longest table by which a hash chooses queues; those of Linux 6.18 have up to 2048 places.
pub(super) const INDIRECTION_MAX: usize = 4096;

/// A structure that `SIOCETHTOOL` takes and fills in.
///
/// # Safety
/// The type is `repr(C)`, consists of integers only (so that every byte pattern, zero included, is
/// valid), begins with the command number, and is at least as long as what the kernel reads and
/// writes when given `COMMAND` and the arguments that this module puts in.
pub(super) unsafe trait Request {
    /// Command number.
    const COMMAND: u32;
    /// Its name without `ETHTOOL_`.
    const NAME: &'static str;
    /// Where the command number goes.
    fn command(&mut self) -> &mut u32;
}

/// `struct ifreq` as `SIOCETHTOOL` uses it.
#[repr(C)]
pub(super) struct InterfaceRequest {
    pub name: [libc::c_char; libc::IFNAMSIZ],
    pub data: *mut libc::c_void,
    pub rest: [u8; Self::REST_BYTES],
}

impl InterfaceRequest {
    /// The union behind the name is longer than the pointer in it.
    pub const REST_BYTES: usize = size_of::<libc::ifreq>() - libc::IFNAMSIZ - size_of::<*mut libc::c_void>();
}

/// Text in a fixed field: up to the first NUL, odd bytes replaced.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

macro_rules! request {
    ($type:ident, $command:literal, $name:literal) => {
        // SAFETY: the structure below is repr(C), all integers, `cmd` first; its length is that of
        // the kernel's (tested), or the longest the command can fill.
        unsafe impl Request for $type {
            const COMMAND: u32 = $command;
            const NAME: &'static str = $name;
            fn command(&mut self) -> &mut u32 {
                &mut self.cmd
            }
        }
    };
}

request!(GetDriverInfo, 0x03, "GDRVINFO");
request!(GetWakeOnLan, 0x05, "GWOL");
request!(GetCoalesce, 0x0e, "GCOALESCE");
request!(GetRings, 0x10, "GRINGPARAM");
request!(GetPause, 0x12, "GPAUSEPARAM");
request!(GetStrings, 0x1b, "GSTRINGS");
request!(GetStatisticNames, 0x1b, "GSTRINGS");
request!(GetStatistics, 0x1d, "GSTATS");
request!(GetStringSetInfo, 0x37, "GSSET_INFO");
request!(GetSegmentation, 0x1e, "GTSO");
request!(GetGenericSegmentation, 0x23, "GGSO");
request!(GetFlags, 0x25, "GFLAGS");
request!(GetGenericReceive, 0x2b, "GGRO");
request!(GetPrivateFlags, 0x27, "GPFLAGS");
request!(CountRules, 0x2e, "GRXCLSRLCNT");
request!(GetRule, 0x2f, "GRXCLSRULE");
request!(GetRuleLocations, 0x30, "GRXCLSRLALL");
request!(GetIndirection, 0x38, "GRXFHINDIR");
request!(GetFeatures, 0x3a, "GFEATURES");
request!(GetChannels, 0x3c, "GCHANNELS");
request!(GetTimestamping, 0x41, "GET_TS_INFO");
request!(GetModuleInfo, 0x42, "GMODULEINFO");
request!(GetEnergyEfficient, 0x44, "GEEE");
request!(GetHash, 0x46, "GRSSH");
request!(GetGroup, 0x46, "GRSSH");
request!(GetLinkSettings, 0x4c, "GLINKSETTINGS");
request!(GetFec, 0x50, "GFECPARAM");

/// The command that writes what another one reads, with the same structure: the answer of the
/// first, changed, is the request of the second.
macro_rules! set_request {
    ($type:ident, $read:ident, $command:literal, $name:literal) => {
        #[repr(transparent)]
        pub(super) struct $type(pub $read);

        // SAFETY: as for the structure inside, which the kernel reads whole and at most writes
        // back to.
        unsafe impl Request for $type {
            const COMMAND: u32 = $command;
            const NAME: &'static str = $name;
            fn command(&mut self) -> &mut u32 {
                &mut self.0.cmd
            }
        }
    };
}

set_request!(SetWakeOnLan, GetWakeOnLan, 0x06, "SWOL");
set_request!(SetCoalesce, GetCoalesce, 0x0f, "SCOALESCE");
set_request!(SetRings, GetRings, 0x11, "SRINGPARAM");
set_request!(SetPause, GetPause, 0x13, "SPAUSEPARAM");
set_request!(SetChannels, GetChannels, 0x3d, "SCHANNELS");
set_request!(SetEnergyEfficient, GetEnergyEfficient, 0x45, "SEEE");
request!(SetFeatures, 0x3b, "SFEATURES");

/// `struct ethtool_set_features_block`: one bit an offload.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SetFeatureBlock {
    pub valid: u32,
    pub requested: u32,
}

/// `struct ethtool_sfeatures` with room for [`FEATURES_MAX`] offloads; the kernel reads `size`
/// blocks, which must be as many as it has.
#[repr(C)]
pub(super) struct SetFeatures {
    pub cmd: u32,
    pub size: u32,
    pub blocks: [SetFeatureBlock; FEATURES_MAX / 32],
}

/// `struct ethtool_value`, of `ETHTOOL_GFLAGS`.
#[repr(C)]
pub(super) struct GetFlags {
    pub cmd: u32,
    pub data: u32,
}

/// `struct ethtool_value`, of `ETHTOOL_GTSO`.
#[repr(C)]
pub(super) struct GetSegmentation {
    pub cmd: u32,
    pub data: u32,
}

/// The same of `ETHTOOL_GGSO`.
#[repr(C)]
pub(super) struct GetGenericSegmentation {
    pub cmd: u32,
    pub data: u32,
}

/// The same of `ETHTOOL_GGRO`.
#[repr(C)]
pub(super) struct GetGenericReceive {
    pub cmd: u32,
    pub data: u32,
}

/// `struct ethtool_value` for the driver's private flags.
#[repr(C)]
pub(super) struct GetPrivateFlags {
    pub cmd: u32,
    pub data: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
pub(super) struct GetDriverInfo {
    pub cmd: u32,
    pub driver: [u8; 32],
    pub version: [u8; 32],
    pub fw_version: [u8; 32],
    pub bus_info: [u8; 32],
    pub erom_version: [u8; 32],
    pub reserved2: [u8; 12],
    pub n_priv_flags: u32,
    pub n_stats: u32,
    pub testinfo_len: u32,
    pub eedump_len: u32,
    pub regdump_len: u32,
}

/// `struct ethtool_coalesce`.
#[repr(C)]
pub(super) struct GetCoalesce {
    pub cmd: u32,
    pub rx_coalesce_usecs: u32,
    pub rx_max_coalesced_frames: u32,
    pub rx_coalesce_usecs_irq: u32,
    pub rx_max_coalesced_frames_irq: u32,
    pub tx_coalesce_usecs: u32,
    pub tx_max_coalesced_frames: u32,
    pub tx_coalesce_usecs_irq: u32,
    pub tx_max_coalesced_frames_irq: u32,
    pub stats_block_coalesce_usecs: u32,
    pub use_adaptive_rx_coalesce: u32,
    pub use_adaptive_tx_coalesce: u32,
    pub pkt_rate_low: u32,
    pub rx_coalesce_usecs_low: u32,
    pub rx_max_coalesced_frames_low: u32,
    pub tx_coalesce_usecs_low: u32,
    pub tx_max_coalesced_frames_low: u32,
    pub pkt_rate_high: u32,
    pub rx_coalesce_usecs_high: u32,
    pub rx_max_coalesced_frames_high: u32,
    pub tx_coalesce_usecs_high: u32,
    pub tx_max_coalesced_frames_high: u32,
    pub rate_sample_interval: u32,
}

impl From<&GetCoalesce> for Coalesce {
    fn from(found: &GetCoalesce) -> Self {
        Self {
            rx_usecs: found.rx_coalesce_usecs,
            rx_frames: found.rx_max_coalesced_frames,
            tx_usecs: found.tx_coalesce_usecs,
            tx_frames: found.tx_max_coalesced_frames,
            rx_usecs_irq: found.rx_coalesce_usecs_irq,
            rx_frames_irq: found.rx_max_coalesced_frames_irq,
            tx_frames_irq: found.tx_max_coalesced_frames_irq,
            stats_block_usecs: found.stats_block_coalesce_usecs,
            sample_interval_s: found.rate_sample_interval,
            pkt_rate_low: found.pkt_rate_low,
            pkt_rate_high: found.pkt_rate_high,
            rx_usecs_low: found.rx_coalesce_usecs_low,
            rx_usecs_high: found.rx_coalesce_usecs_high,
            adaptive_rx: found.use_adaptive_rx_coalesce != 0,
            adaptive_tx: found.use_adaptive_tx_coalesce != 0,
        }
    }
}

/// `struct ethtool_ringparam`.
#[repr(C)]
pub(super) struct GetRings {
    pub cmd: u32,
    pub rx_max_pending: u32,
    pub rx_mini_max_pending: u32,
    pub rx_jumbo_max_pending: u32,
    pub tx_max_pending: u32,
    pub rx_pending: u32,
    pub rx_mini_pending: u32,
    pub rx_jumbo_pending: u32,
    pub tx_pending: u32,
}

impl From<&GetRings> for Rings {
    fn from(found: &GetRings) -> Self {
        Self { rx: found.rx_pending, rx_max: found.rx_max_pending, tx: found.tx_pending, tx_max: found.tx_max_pending }
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
pub(super) struct GetChannels {
    pub cmd: u32,
    pub max_rx: u32,
    pub max_tx: u32,
    pub max_other: u32,
    pub max_combined: u32,
    pub rx_count: u32,
    pub tx_count: u32,
    pub other_count: u32,
    pub combined_count: u32,
}

impl From<&GetChannels> for Channels {
    fn from(found: &GetChannels) -> Self {
        Self {
            rx: found.rx_count,
            rx_max: found.max_rx,
            tx: found.tx_count,
            tx_max: found.max_tx,
            other: found.other_count,
            combined: found.combined_count,
            combined_max: found.max_combined,
        }
    }
}

/// `struct ethtool_gstrings` with room for [`FEATURES_MAX`] names: the kernel writes as many as the
/// set has, whatever `len` says, so the length is asked for first (`GSSET_INFO`).
#[repr(C)]
pub(super) struct GetStrings {
    pub cmd: u32,
    pub string_set: u32,
    pub len: u32,
    pub data: [[u8; STRING_BYTES]; FEATURES_MAX],
}

/// `struct ethtool_gstrings` with room for [`STATISTICS_MAX`] names.
#[repr(C)]
pub(super) struct GetStatisticNames {
    pub cmd: u32,
    pub string_set: u32,
    pub len: u32,
    pub data: [[u8; STRING_BYTES]; STATISTICS_MAX],
}

/// `struct ethtool_stats` with room for [`STATISTICS_MAX`] counters.
#[repr(C)]
pub(super) struct GetStatistics {
    pub cmd: u32,
    pub n_stats: u32,
    pub data: [u64; STATISTICS_MAX],
}

/// `struct ethtool_sset_info` for one string set.
#[repr(C)]
pub(super) struct GetStringSetInfo {
    pub cmd: u32,
    pub reserved: u32,
    pub sset_mask: u64,
    pub data: [u32; 1],
    pub padding: u32,
}

/// `struct ethtool_get_features_block`: one bit an offload.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FeatureBlock {
    pub available: u32,
    pub requested: u32,
    pub active: u32,
    pub never_changed: u32,
}

/// `struct ethtool_gfeatures` with room for [`FEATURES_MAX`] offloads; the kernel writes `size`
/// blocks or fewer.
#[repr(C)]
pub(super) struct GetFeatures {
    pub cmd: u32,
    pub size: u32,
    pub blocks: [FeatureBlock; FEATURES_MAX / 32],
}

/// `struct ethtool_ts_info`.
#[repr(C)]
pub(super) struct GetTimestamping {
    pub cmd: u32,
    pub so_timestamping: u32,
    pub phc_index: i32,
    pub tx_types: u32,
    pub tx_reserved: [u32; 3],
    pub rx_filters: u32,
    pub rx_reserved: [u32; 3],
}

/// `struct ethtool_link_settings` with room for the longest masks.
#[repr(C)]
pub(super) struct GetLinkSettings {
    pub cmd: u32,
    pub speed: u32,
    pub duplex: u8,
    pub port: u8,
    pub phy_address: u8,
    pub autoneg: u8,
    pub mdio_support: u8,
    pub eth_tp_mdix: u8,
    pub eth_tp_mdix_ctrl: u8,
    pub link_mode_masks_nwords: i8,
    pub transceiver: u8,
    pub master_slave_cfg: u8,
    pub master_slave_state: u8,
    pub rate_matching: u8,
    pub reserved: [u32; 7],
    pub link_mode_masks: [u32; LINK_MODE_WORDS_MAX],
}

/// `struct ethtool_wolinfo`. The password is written back with the rest and never given out.
#[repr(C)]
pub(super) struct GetWakeOnLan {
    pub cmd: u32,
    pub supported: u32,
    pub wolopts: u32,
    pub sopass: [u8; 6],
    pub padding: [u8; 2],
}

/// `struct ethtool_pauseparam`.
#[repr(C)]
pub(super) struct GetPause {
    pub cmd: u32,
    pub autoneg: u32,
    pub rx_pause: u32,
    pub tx_pause: u32,
}

/// `struct ethtool_modinfo`.
#[repr(C)]
pub(super) struct GetModuleInfo {
    pub cmd: u32,
    pub kind: u32,
    pub eeprom_len: u32,
    pub reserved: [u32; 8],
}

/// `struct ethtool_eee`.
#[repr(C)]
pub(super) struct GetEnergyEfficient {
    pub cmd: u32,
    pub supported: u32,
    pub advertised: u32,
    pub lp_advertised: u32,
    pub eee_active: u32,
    pub eee_enabled: u32,
    pub tx_lpi_enabled: u32,
    pub tx_lpi_timer: u32,
    pub reserved: [u32; 2],
}

/// `struct ethtool_rxfh` without table and key: with both sizes 0 the kernel fills in the head
/// only.
#[repr(C)]
pub(super) struct GetHash {
    pub cmd: u32,
    pub rss_context: u32,
    pub indir_size: u32,
    pub key_size: u32,
    pub hfunc: u8,
    pub input_xfrm: u8,
    pub rsvd8: [u8; 2],
    pub rsvd32: u32,
}

/// `struct ethtool_rxfh` with room for a table, without key: the kernel wants the size that it told for [`GetHash`].
#[repr(C)]
pub(super) struct GetGroup {
    pub cmd: u32,
    pub rss_context: u32,
    pub indir_size: u32,
    pub key_size: u32,
    pub hfunc: u8,
    pub input_xfrm: u8,
    pub rsvd8: [u8; 2],
    pub rsvd32: u32,
    pub queues: [u32; INDIRECTION_MAX],
}

/// `struct ethtool_rxfh_indir`.
#[repr(C)]
pub(super) struct GetIndirection {
    pub cmd: u32,
    pub size: u32,
    pub queues: [u32; INDIRECTION_MAX],
}

/// `struct ethtool_rx_flow_spec`: what a rule matches, as bytes, and the queue.
#[repr(C)]
pub(super) struct FlowSpec {
    pub flow_type: u32,
    pub value: [u8; 52],
    pub value_extended: [u8; 20],
    pub mask: [u8; 52],
    pub mask_extended: [u8; 20],
    pub padding: u32,
    pub ring_cookie: u64,
    pub location: u32,
    pub padding_at_end: u32,
}

/// `struct ethtool_rxnfc` that asks how many rules there are.
#[repr(C)]
pub(super) struct CountRules {
    pub cmd: u32,
    pub flow_type: u32,
    pub data: u64,
    pub spec: FlowSpec,
    pub rule_count: u32,
    pub padding: u32,
}

/// `struct ethtool_rxnfc` that asks for the rule at a location.
#[repr(C)]
pub(super) struct GetRule {
    pub cmd: u32,
    pub flow_type: u32,
    pub data: u64,
    pub spec: FlowSpec,
    pub rss_context: u32,
    pub padding: u32,
}

/// `struct ethtool_rxnfc` with room for [`RULES_MAX`] locations: the kernel writes as many as `rule_count` allows.
#[repr(C)]
pub(super) struct GetRuleLocations {
    pub cmd: u32,
    pub flow_type: u32,
    pub data: u64,
    pub spec: FlowSpec,
    pub rule_count: u32,
    pub locations: [u32; RULES_MAX],
    pub padding: u32,
}

/// `struct ethtool_fecparam`.
#[repr(C)]
pub(super) struct GetFec {
    pub cmd: u32,
    pub active_fec: u32,
    pub fec: u32,
    pub reserved: u32,
}

//! The rules by which a device steers flows to its queues.
//!
//! Source: `struct ethtool_rxnfc` and `struct ethtool_rx_flow_spec` of `include/uapi/linux/ethtool.h`,
//! `ethtool_get_rxnfc` of `net/ethtool/ioctl.c` (Linux 6.18). A rule is given without the addresses that it matches.

use serde::{Deserialize, Serialize};

use super::layout::{CountRules, FlowSpec, GetRule, GetRuleLocations, RULES_MAX};
use super::{EthtoolError, Interface};

/// `RX_CLS_FLOW_DISC` and `RX_CLS_FLOW_WAKE`: what a rule says instead of a queue.
const DISCARD: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
/// `ETHTOOL_RX_FLOW_SPEC_RING` and `ETHTOOL_RX_FLOW_SPEC_RING_VF`.
const RING: u64 = 0xffff_ffff;
const FUNCTION: u64 = 0xff_0000_0000;
const FUNCTION_SHIFT: u32 = 32;
/// `FLOW_EXT`, `FLOW_MAC_EXT` and `FLOW_RSS` beside the type.
const FLAGS: u32 = 0xe000_0000;
const FLOW_RSS: u32 = 0x2000_0000;
/// `TCP_V4_FLOW` and so on, by their numbers.
const KINDS: [(u32, &str); 13] = [
    (0x01, "tcp4"),
    (0x02, "udp4"),
    (0x03, "sctp4"),
    (0x04, "ah4"),
    (0x05, "tcp6"),
    (0x06, "udp6"),
    (0x07, "sctp6"),
    (0x08, "ah6"),
    (0x0d, "ip4"),
    (0x0e, "ip6"),
    (0x12, "ether"),
    (0x0a, "esp4"),
    (0x0c, "esp6"),
];
/// Of these kinds the ports stand behind two addresses: of 4 bytes, of 16 bytes.
const WITH_PORTS: [(&[u32], usize); 2] = [(&[0x01, 0x02, 0x03], 8), (&[0x05, 0x06, 0x07], 32)];

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct FlowRule {
    /// Its place among the rules, which is its number for `ethtool -N IF delete`.
    pub location: u32,
    /// The kind of flow: `udp4`, or a number where the kind has no word here.
    pub kind: String,
    /// The destination port, where the rule names just one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Where frames go.
    #[serde(flatten)]
    pub to: FlowTarget,
}

/// Where a rule brings frames; all empty: to queues that a hash chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct FlowTarget {
    /// The queue, of this function where no other one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// The virtual function, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_function: Option<u32>,
    /// Nowhere: they are dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_dropped: bool,
    /// To the hash of a group of queues of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_context: Option<u32>,
    /// What is added to each queue of that group's table.
    #[serde(skip_serializing_if = "is_zero")]
    pub queue_offset: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Interface {
    /// The rules that steer flows (`ETHTOOL_GRXCLSRLALL`, `ETHTOOL_GRXCLSRULE`), at most [`RULES_MAX`] of them.
    ///
    /// # Errors
    /// See [`EthtoolError`].
    pub fn flow_rules(&self) -> Result<Vec<FlowRule>, EthtoolError> {
        let counted: CountRules = self.ask(|_| {})?;
        if counted.rule_count == 0 {
            return Ok(Vec::new());
        }
        let found: GetRuleLocations = self.ask(|request: &mut GetRuleLocations| {
            request.rule_count = u32::try_from(RULES_MAX).unwrap_or(u32::MAX);
        })?;
        let count = usize::try_from(found.rule_count).unwrap_or(RULES_MAX).min(RULES_MAX);
        let rule = |location: &u32| -> Result<FlowRule, EthtoolError> {
            let found: GetRule = self.ask(|request: &mut GetRule| request.spec.location = *location)?;
            Ok(rule_of(&found.spec, found.rss_context))
        };
        found.locations[..count].iter().map(rule).collect()
    }
}

pub(super) fn rule_of(spec: &FlowSpec, rss_context: u32) -> FlowRule {
    let kind = spec.flow_type & !FLAGS;
    let word = KINDS.iter().find(|(number, _)| *number == kind).map(|(_, word)| (*word).to_owned());
    let offset = WITH_PORTS.iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, addresses)| addresses + 2);
    let port = |fields: &[u8]| Some(u16::from_be_bytes([*fields.get(offset?)?, *fields.get(offset? + 1)?]));
    let to = match spec.ring_cookie {
        cookie if spec.flow_type & FLOW_RSS != 0 => FlowTarget {
            rss_context: Some(rss_context),
            queue_offset: u32::try_from(cookie & RING).unwrap_or_default(),
            ..FlowTarget::default()
        },
        DISCARD => FlowTarget { is_dropped: true, ..FlowTarget::default() },
        WAKE => FlowTarget::default(),
        cookie => FlowTarget {
            queue: u32::try_from(cookie & RING).ok(),
            virtual_function: u32::try_from((cookie & FUNCTION) >> FUNCTION_SHIFT).ok().filter(|number| *number > 0),
            ..FlowTarget::default()
        },
    };
    FlowRule {
        location: spec.location,
        kind: word.unwrap_or_else(|| format!("kind {kind:#x}")),
        destination_port: port(&spec.value).filter(|_| port(&spec.mask) == Some(u16::MAX)),
        to,
    }
}

//! What an interface is asked, and how the answers are written down.

use std::collections::{BTreeMap, BTreeSet};

use nearwire_sys::dcb::{self, Dcb};
use nearwire_sys::ethtool::{
    Channels, Coalesce, DriverInfo, EnergyEfficient, EthtoolError, Feature, Features, Fec, FlowRule, Interface,
    LinkSettings, Pause, PrivateFlags, Rings, Timestamping,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::netlink_answers::{Device, ModulePower, MoreCoalesce, MoreRings, Polling, of_error};
use super::reading;
use crate::Reading;

/// One question and its answer.
pub(super) trait Question: Sized {
    /// The answer's name in a recording.
    const KEY: &'static str;
    /// Asks the kernel.
    ///
    /// # Errors
    /// The reading that stands for the missing answer.
    fn ask(interface: &Interface) -> Result<Self, Reading>;
    /// The answer as it is recorded.
    fn to_json(&self) -> Value;
    /// The answer from a recording.
    ///
    /// # Errors
    /// What is wrong, with the key it is wrong at.
    fn from_json(answer: &Map<String, Value>) -> Result<Self, String>;
}

/// The hash function that spreads flows, as bits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HashFunction {
    pub bits: u8,
}

/// The queue that each value of the hash goes to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Indirection {
    pub queues: Vec<u32>,
}

/// The events that wake the host, as bits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WakeOnLan {
    pub events: u32,
}

/// The rules that steer flows to queues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct FlowRules {
    pub rules: Vec<FlowRule>,
    /// The tables of the groups that rules bring flows to, by their contexts; a group is left out where its table is not known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rss_contexts: BTreeMap<u32, Vec<u32>>,
}

impl FlowRules {
    fn of_interface(interface: &Interface) -> Result<Self, EthtoolError> {
        let rules = interface.flow_rules()?;
        let groups: BTreeSet<u32> = rules.iter().filter_map(|rule| rule.to.rss_context).collect();
        let table = |group: u32| Some((group, interface.group_indirection(group).ok()?));
        Ok(Self { rules, rss_contexts: groups.into_iter().filter_map(table).collect() })
    }

    /// The queues that a rule brings flows to by the hash of a group, where the table of the group is known.
    pub fn group_queues(&self, rule: &FlowRule) -> Option<BTreeSet<u32>> {
        let table = self.rss_contexts.get(&rule.to.rss_context?).filter(|table| !table.is_empty())?;
        Some(table.iter().map(|queue| queue.saturating_add(rule.to.queue_offset)).collect())
    }
}

/// What an ENA device tells among its counters, and nowhere else.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Ena {
    /// Bit 0: ENA Express is on; bit 1: for UDP too.
    pub srd_mode: Option<u64>,
}

impl Ena {
    /// Other drivers have thousands of counters, none of which is of this name.
    pub(super) const DRIVER: &str = "ena";
    pub(super) const SRD_MODE: &str = "ena_srd_mode";

    fn ask(interface: &Interface) -> Result<Self, Reading> {
        if interface.driver_info().map_err(reading)?.driver != Self::DRIVER {
            return Err(Reading::Unsupported);
        }
        let counters = interface.statistics().map_err(reading)?;
        Ok(Self { srd_mode: counters.iter().find(|(name, _)| name == Self::SRD_MODE).map(|(_, mode)| *mode) })
    }
}

/// The kind of the plugged module.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Module {
    pub kind: u32,
}

/// Answers that are written as their fields.
macro_rules! questions {
    ($($answer:ty, $key:literal, $ask:expr;)*) => {
        $(impl Question for $answer {
            const KEY: &'static str = $key;

            fn ask(interface: &Interface) -> Result<Self, Reading> {
                $ask(interface)
            }

            fn to_json(&self) -> Value {
                json!(self)
            }

            fn from_json(answer: &Map<String, Value>) -> Result<Self, String> {
                from_fields(answer)
            }
        })*
    };
}

/// Asks by `SIOCETHTOOL`.
fn by_ioctl<T>(ask: fn(&Interface) -> Result<T, EthtoolError>) -> impl Fn(&Interface) -> Result<T, Reading> {
    move |interface| ask(interface).map_err(reading)
}

questions! {
    DriverInfo, "driver", by_ioctl(Interface::driver_info);
    Rings, "rings", by_ioctl(Interface::rings);
    Coalesce, "coalesce", by_ioctl(Interface::coalesce);
    Channels, "channels", by_ioctl(Interface::channels);
    LinkSettings, "link-settings", by_ioctl(Interface::link_settings);
    Timestamping, "timestamping", by_ioctl(Interface::timestamping);
    Pause, "pause", by_ioctl(Interface::pause);
    EnergyEfficient, "eee", by_ioctl(Interface::energy_efficient);
    Fec, "fec", by_ioctl(Interface::fec);
    HashFunction, "rss-hash", by_ioctl(|interface| Ok(HashFunction { bits: interface.hash_function()? }));
    Indirection, "rss-table", by_ioctl(|interface| Ok(Indirection { queues: interface.indirection()? }));
    WakeOnLan, "wake-on-lan", by_ioctl(|interface| Ok(WakeOnLan { events: interface.wake_on_lan()? }));
    Module, "module", by_ioctl(|interface| Ok(Module { kind: interface.module_kind()? }));
    FlowRules, "flow-rules", by_ioctl(FlowRules::of_interface);
    Dcb, "dcb", |interface: &Interface| dcb::of_interface(interface.name()).map_err(|error| of_error("dcb", &error));
    Ena, "ena", Ena::ask;
    Polling, "napi", Polling::ask;
    Device, "netdev", Device::ask;
    MoreRings, "rings-netlink", MoreRings::ask;
    MoreCoalesce, "coalesce-netlink", MoreCoalesce::ask;
    ModulePower, "module-netlink", ModulePower::ask;
}

impl Question for Features {
    const KEY: &'static str = "features";

    fn ask(interface: &Interface) -> Result<Self, Reading> {
        interface.features().map_err(reading)
    }

    fn to_json(&self) -> Value {
        self.iter().map(|feature| (feature.name.clone(), Value::from(in_words(feature)))).collect()
    }

    fn from_json(answer: &Map<String, Value>) -> Result<Self, String> {
        answer.iter().map(|(name, state)| feature(name, state)).collect()
    }
}

impl Question for PrivateFlags {
    const KEY: &'static str = "private-flags";

    fn ask(interface: &Interface) -> Result<Self, Reading> {
        interface.private_flags().map_err(reading)
    }

    fn to_json(&self) -> Value {
        self.iter().map(|(name, is_on)| (name.to_owned(), Value::from(is_on))).collect()
    }

    fn from_json(answer: &Map<String, Value>) -> Result<Self, String> {
        let flag = |(name, is_on): (&String, &Value)| {
            let is_on = is_on.as_bool().ok_or_else(|| format!("{name}: neither true nor false"))?;
            Ok((name.clone(), is_on))
        };
        answer.iter().map(flag).collect()
    }
}

const FIXED: &str = "[fixed]";
const REQUESTED: [&str; 2] = ["[requested off]", "[requested on]"];

/// An offload in the words of `ethtool -k`: `on`, `off [fixed]`, `off [requested on]`.
fn in_words(feature: &Feature) -> String {
    let state = if feature.is_active { "on" } else { "off" };
    if !feature.is_changeable {
        format!("{state} {FIXED}")
    } else if feature.is_active != feature.is_requested {
        format!("{state} {}", REQUESTED[usize::from(feature.is_requested)])
    } else {
        state.to_owned()
    }
}

/// From those words; in a recording made by hand `true` and `false` will do.
fn feature(name: &str, state: &Value) -> Result<Feature, String> {
    let (state, note) = match state {
        Value::Bool(is_on) => (if *is_on { "on" } else { "off" }, ""),
        Value::String(words) => words.split_once(' ').unwrap_or((words, "")),
        _ => ("", ""),
    };
    let is_active = match state {
        "on" => true,
        "off" => false,
        _ => return Err(format!("{name}: neither \"on\" nor \"off\"")),
    };
    let is_requested = match REQUESTED.iter().position(|words| *words == note) {
        Some(wish) => wish == 1,
        None => is_active,
    };
    Ok(Feature { name: name.to_owned(), is_active, is_requested, is_changeable: note != FIXED })
}

/// Fields from an object; those that are left out are 0, false or empty, unknown ones are passed
/// over.
pub(super) fn from_fields<T: DeserializeOwned>(fields: &Map<String, Value>) -> Result<T, String> {
    let all = |fields: Map<String, Value>| serde_json::from_value(Value::Object(fields));
    all(fields.clone()).map_err(|error| {
        // The error does not say at which key, so each is tried alone.
        let alone = |(key, value): (&String, &Value)| {
            let result: Result<T, _> = all(Map::from_iter([(key.clone(), value.clone())]));
            result.err().map(|error| format!("{key}: {error}"))
        };
        fields.iter().find_map(alone).unwrap_or_else(|| error.to_string())
    })
}

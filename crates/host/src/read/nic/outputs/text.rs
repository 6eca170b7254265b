//! The lines of an output, and the table of each.

use serde_json::{Map, Value, json};

use super::super::question::Ena;
use crate::Reading;

/// A line `label: value`, or a word that stands in a line of its own.
struct Line<'t> {
    /// The last line before it that had no value: `Current hardware settings`.
    section: &'t str,
    label: String,
    value: &'t str,
    is_indented: bool,
}

/// An output, cut into lines.
pub(super) struct Lines<'t> {
    text: &'t str,
    lines: Vec<Line<'t>>,
}

/// One field of an answer.
pub(super) struct Row {
    /// Where the same label stands in several.
    section: Option<&'static str>,
    /// Its names; versions differ.
    labels: &'static [&'static str],
    key: &'static str,
    kind: Kind,
}

enum Kind {
    Count,
    /// As [`Self::Count`], of a line that older versions do not print.
    NewCount,
    /// `on` or `off`.
    Switch,
    /// As [`Self::Switch`], as the number of the kernel, of a line that older versions do not print.
    NewSwitch,
    Text,
    /// Words, each of which has a bit by its place.
    Bits(&'static [&'static str]),
    /// A word, by its place counted from 0; the first stands for what is no value.
    Choice(&'static [&'static str]),
}

const fn row(labels: &'static [&'static str], key: &'static str, kind: Kind) -> Row {
    Row { section: None, labels, key, kind }
}

const fn count(label: &'static [&'static str], key: &'static str) -> Row {
    row(label, key, Kind::Count)
}

const fn most(label: &'static [&'static str], key: &'static str) -> Row {
    Row { section: Some("Pre-set maximums"), ..count(label, key) }
}

const fn now(label: &'static [&'static str], key: &'static str) -> Row {
    now_of(label, key, Kind::Count)
}

const fn now_of(label: &'static [&'static str], key: &'static str, kind: Kind) -> Row {
    Row { section: Some("Current hardware settings"), ..row(label, key, kind) }
}

pub(super) const DRIVER: &[Row] = &[
    row(&["driver"], "driver", Kind::Text),
    row(&["version"], "version", Kind::Text),
    row(&["firmware-version"], "firmware-version", Kind::Text),
    row(&["bus-info"], "bus-info", Kind::Text),
];
pub(super) const RINGS: &[Row] =
    &[most(&["RX"], "rx-max"), most(&["TX"], "tx-max"), now(&["RX"], "rx"), now(&["TX"], "tx")];
pub(super) const MORE_RINGS: &[Row] = &[
    now_of(&["RX Buf Len"], "rx-buf-len", Kind::NewCount),
    now_of(&["CQE Size"], "cqe-size", Kind::NewCount),
    now_of(&["TX Push"], "tx-push", Kind::NewSwitch),
    now_of(&["RX Push"], "rx-push", Kind::NewSwitch),
    now_of(&["TX push buff len"], "tx-push-buf-len", Kind::NewCount),
    now_of(&["TCP data split"], "tcp-data-split", Kind::Choice(&["n/a", "off", "on"])),
];
pub(super) const CHANNELS: &[Row] = &[
    most(&["RX"], "rx-max"),
    most(&["TX"], "tx-max"),
    most(&["Combined"], "combined-max"),
    now(&["RX"], "rx"),
    now(&["TX"], "tx"),
    now(&["Other"], "other"),
    now(&["Combined"], "combined"),
];
pub(super) const COALESCE: &[Row] = &[
    row(&["Adaptive RX"], "adaptive-rx", Kind::Switch),
    row(&["Adaptive TX"], "adaptive-tx", Kind::Switch),
    count(&["stats-block-usecs"], "stats-block-usecs"),
    count(&["sample-interval"], "sample-interval"),
    count(&["pkt-rate-low"], "pkt-rate-low"),
    count(&["pkt-rate-high"], "pkt-rate-high"),
    count(&["rx-usecs"], "rx-usecs"),
    count(&["rx-frames"], "rx-frames"),
    count(&["rx-usecs-irq"], "rx-usecs-irq"),
    count(&["rx-frames-irq"], "rx-frames-irq"),
    count(&["tx-usecs"], "tx-usecs"),
    count(&["tx-frames"], "tx-frames"),
    count(&["tx-frames-irq"], "tx-frames-irq"),
    count(&["rx-usecs-low"], "rx-usecs-low"),
    count(&["rx-usecs-high"], "rx-usecs-high"),
];
pub(super) const MORE_COALESCE: &[Row] = &[
    row(&["CQE mode RX"], "use-cqe-mode-rx", Kind::NewSwitch),
    row(&["CQE mode TX"], "use-cqe-mode-tx", Kind::NewSwitch),
];
pub(super) const PAUSE: &[Row] = &[
    row(&["Autonegotiate"], "autoneg", Kind::Switch),
    row(&["RX"], "rx", Kind::Switch),
    row(&["TX"], "tx", Kind::Switch),
];
/// `enum ethtool_fec_config_bits`.
const ENCODINGS: &[&str] = &["none", "auto", "off", "rs", "baser", "llrs"];
pub(super) const FEC: &[Row] = &[
    row(&["Active FEC encoding", "Active FEC encodings"], "active", Kind::Bits(ENCODINGS)),
    row(&["Configured FEC encodings", "Supported/Configured FEC encodings"], "configured", Kind::Bits(ENCODINGS)),
];

/// The name of each group of offloads as ethtool has it, and of an offload of the kernel that is in it: a group of one has
/// only this name, and older versions print no other.
const GROUPS: [(&str, &str); 11] = [
    ("rx-checksumming", "rx-checksum"),
    ("tx-checksumming", "tx-checksum-ip-generic"),
    ("scatter-gather", "tx-scatter-gather"),
    ("tcp-segmentation-offload", "tx-tcp-segmentation"),
    ("generic-segmentation-offload", "tx-generic-segmentation"),
    ("generic-receive-offload", "rx-gro"),
    ("large-receive-offload", "rx-lro"),
    ("rx-vlan-offload", "rx-vlan-hw-parse"),
    ("tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple-filters", "rx-ntuple-filter"),
    ("receive-hashing", "rx-hashing"),
];

/// What a version prints of an ability, and its name in the kernel.
const ABILITIES: [(&str, &str); 6] = [
    ("hardware-transmit", "TX_HARDWARE"),
    ("software-transmit", "TX_SOFTWARE"),
    ("hardware-receive", "RX_HARDWARE"),
    ("software-receive", "RX_SOFTWARE"),
    ("software-system-clock", "SOFTWARE"),
    ("hardware-raw-clock", "RAW_HARDWARE"),
];

/// Letters of `Wake-on`, by their bits; `d` stands for none.
const WAKE: &str = "pumbagsf";
const HASH_FUNCTIONS: [&str; 3] = ["toeplitz", "xor", "crc32"];
/// Kinds of plugged modules (SFF-8024, table 4-1), as `ETH_MODULE_*` of the kernel.
const MODULES: [(&str, u32); 4] = [("0x03", 2), ("0x0c", 4), ("0x0d", 3), ("0x11", 3)];
const SFF_8436: u32 = 4;

/// What says why there is no answer.
const UNSUPPORTED: [&str; 4] = ["not supported", "No data available", "no stats available", "No private flags defined"];
/// The last line of the output without an option, so that what is not before it does not exist.
const LAST_OF_LINK: &str = "Link detected";
const NEEDS_ROOT: [&str; 2] = ["Operation not permitted", "Permission denied"];

/// Two values in a line: `Adaptive RX: off  TX: off`.
const SECOND: &str = "TX:";

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let mut section = "";
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let is_indented = line.starts_with([' ', '\t']);
            let mut push = |label: String, value: &'t str| lines.push(Line { section, label, value, is_indented });
            match line.split_once(':') {
                None => push(line.split_whitespace().next().unwrap_or_default().to_owned(), ""),
                Some((label, value)) => {
                    let label = label.trim();
                    match value.split_once(SECOND).filter(|_| label.ends_with("RX")) {
                        Some((first, second)) => {
                            push(label.to_owned(), first.trim());
                            push(label.replace("RX", "TX"), second.trim());
                        }
                        None => push(label.to_owned(), value.trim()),
                    }
                    if value.trim().is_empty() {
                        section = label;
                    }
                }
            }
        }
        Self { text, lines }
    }

    /// The value behind the first of these labels.
    pub(super) fn value(&self, section: Option<&str>, labels: &[&str]) -> Option<&'t str> {
        let is_meant = |line: &&Line<'_>| {
            labels.contains(&line.label.as_str()) && section.is_none_or(|section| line.section == section)
        };
        self.lines.iter().find(is_meant).map(|line| line.value)
    }

    /// What the rows of a table say; `None` if there is no line of any.
    ///
    /// # Errors
    /// A line that every version prints is missing, as in a text that was cut off, or its value is odd.
    pub(super) fn fields(&self, rows: &[Row]) -> Result<Option<Map<String, Value>>, String> {
        let values: Vec<_> = rows.iter().map(|row| (row, self.value(row.section, row.labels))).collect();
        if values.iter().all(|(_, value)| value.is_none()) {
            return Ok(None);
        }
        let mut fields = Map::new();
        for (row, value) in values {
            let label = row.labels[0];
            match value {
                None if row.kind.is_new() => {}
                None => return Err(format!("there is no line {label}")),
                Some("n/a") => {}
                Some(value) => {
                    let value = row.kind.read(value).ok_or_else(|| format!("odd value of {label}"))?;
                    fields.insert(row.key.to_owned(), value);
                }
            }
        }
        Ok(Some(fields))
    }

    /// Whether it is an answer, not a refusal in one or two lines, without a line of this name.
    pub(super) fn is_without(&self, label: &str) -> bool {
        self.lines.len() > 2 && self.value(None, &[label]).is_none()
    }

    /// Why there is no answer in the text.
    pub(super) fn refusal(&self, path: &str) -> Reading {
        let says = |words: &[&str]| words.iter().any(|words| self.text.contains(words));
        match () {
            () if says(&UNSUPPORTED) || self.value(None, &[LAST_OF_LINK]).is_some() => Reading::Unsupported,
            () if says(&NEEDS_ROOT) => Reading::NeedsRoot,
            () => Reading::unknown(format!("{path} has no answer in it")),
        }
    }

    fn names_in<'s>(&'s self, section: &'s str) -> impl Iterator<Item = (&'s str, &'t str)> {
        self.lines.iter().filter(move |line| line.section == section).map(|line| (line.label.as_str(), line.value))
    }
}

impl Kind {
    /// Whether older versions do not print it.
    const fn is_new(&self) -> bool {
        matches!(self, Self::NewCount | Self::NewSwitch | Self::Choice(_))
    }

    fn read(&self, value: &str) -> Option<Value> {
        let switch = || ["off", "on"].iter().position(|word| *word == value);
        let words = || value.split_whitespace().map(str::to_ascii_lowercase);
        match self {
            Self::Count | Self::NewCount => value.parse::<u32>().ok().map(Value::from),
            Self::Switch => switch().map(|at| Value::from(at == 1)),
            Self::NewSwitch => switch().map(Value::from),
            Self::Text => Some(Value::from(value)),
            Self::Bits(names) => {
                let bit = |word: String| names.iter().position(|name| *name == word).map(|at| 1_u32 << at);
                words().map(bit).sum::<Option<u32>>().map(Value::from)
            }
            Self::Choice(names) => names.iter().position(|name| *name == value).map(Value::from),
        }
    }
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Of the output without an option. A device without a speed has no such line.
pub(super) fn link_settings(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let speed = lines.value(None, &["Speed"])?;
    let autonegotiation = lines.value(None, &["Auto-negotiation"])?;
    let mut found = Map::from_iter([("autonegotiation".to_owned(), Value::from(autonegotiation.starts_with("on")))]);
    if let Some(speed) = speed.strip_suffix("Mb/s").and_then(|speed| speed.parse::<u32>().ok()) {
        found.insert("speed-mbps".to_owned(), Value::from(speed));
    }
    match lines.value(None, &["Duplex"])? {
        "Full" => drop(found.insert("duplex".to_owned(), Value::from("full"))),
        "Half" => drop(found.insert("duplex".to_owned(), Value::from("half"))),
        _ => {}
    }
    Some(found)
}

pub(super) fn wake_on_lan(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let letters = lines.value(None, &["Wake-on"])?;
    let bit = |letter| WAKE.find(letter).map_or(0, |at| 1_u32 << at);
    object(json!({ "events": letters.chars().map(bit).fold(0, |bits, bit| bits | bit) }))
}

pub(super) fn timestamping(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let clock = lines.value(None, &["PTP Hardware Clock", "Hardware timestamp provider index"])?;
    let has = |ability: &str| lines.names_in("Capabilities").any(|(name, _)| name == ability);
    let names: Vec<_> = ABILITIES.iter().filter(|(words, _)| has(words)).map(|(_, name)| *name).collect();
    let mut found = object(json!({ "so-timestamping": names.join(" | ") }))?;
    if let Ok(index) = clock.parse::<u32>() {
        found.insert("phc-index".to_owned(), Value::from(index));
    }
    Some(found)
}

/// A device that has no such modes says `not supported`.
pub(super) fn energy_efficient(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let state = lines.value(None, &["EEE status"])?;
    let (is_enabled, is_active) = match state.split_once(" - ") {
        Some(("enabled", state)) => (true, state == "active"),
        None if state == "disabled" => (false, false),
        _ => return None,
    };
    object(json!({ "enabled": is_enabled, "active": is_active }))
}

pub(super) fn hash_function(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let functions: Vec<_> = lines.names_in("RSS hash function").collect();
    let is_on = |name: &&str| functions.contains(&(*name, "on"));
    let bits = (0..).zip(HASH_FUNCTIONS).filter(|(_, name)| is_on(name)).fold(0, |bits, (at, _)| bits | 1_u8 << at);
    (!functions.is_empty()).then(|| object(json!({ "bits": bits })))?
}

/// Rows of eight queues, each behind the first place of its row, up to the key.
pub(super) fn indirection(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let title = lines.lines.iter().position(|line| line.label.starts_with("RX flow hash indirection table"))?;
    let rows = lines.lines[title + 1..].iter().take_while(|line| line.label.parse::<u32>().is_ok());
    let mut queues = Vec::new();
    for row in rows {
        // A row that is missing or cut off leaves a gap.
        if row.label.parse::<usize>().ok()? != queues.len() {
            return None;
        }
        for queue in row.value.split_whitespace() {
            queues.push(queue.parse::<u32>().ok()?);
        }
    }
    let has_end = lines.lines.iter().any(|line| line.label == "RSS hash key");
    (has_end && !queues.is_empty()).then(|| object(json!({ "queues": queues })))?
}

pub(super) fn module(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let identifier = lines.value(None, &["Identifier"])?.split_whitespace().next()?;
    let kind = MODULES.iter().find(|(number, _)| *number == identifier)?.1;
    let is_older = lines.value(None, &["Revision Compliance"]).is_some_and(|revision| revision.contains("8436"));
    object(json!({ "kind": if is_older { SFF_8436 } else { kind } }))
}

pub(super) fn features(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let states = lines.lines.iter().filter(|line| line.value.starts_with("on") || line.value.starts_with("off"));
    let mut found = Map::new();
    for line in states {
        let group = GROUPS.iter().find(|(group, _)| *group == line.label && !line.is_indented);
        let name = group.map_or(line.label.as_str(), |(_, name)| *name);
        found.insert(name.to_owned(), Value::from(line.value));
    }
    (!found.is_empty()).then_some(found)
}

pub(super) fn private_flags(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let flags = lines.lines.iter().filter_map(|line| {
        let is_on = ["off", "on"].iter().position(|word| *word == line.value)? == 1;
        Some((line.label.clone(), Value::from(is_on)))
    });
    let flags: Map<_, _> = flags.collect();
    (!flags.is_empty()).then_some(flags)
}

/// Of the counters of a driver.
pub(super) fn ena(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    lines.value(None, &["NIC statistics"])?;
    let mode = lines.value(None, &[Ena::SRD_MODE]).and_then(|mode| mode.parse::<u64>().ok());
    object(json!({ "srd-mode": mode }))
}

/// What `Rule Type` or `Flow Type` says, and the word of [`FlowRule`](nearwire_sys::ethtool::FlowRule).
const KINDS: [(&str, &str); 13] = [
    ("TCP over IPv4", "tcp4"),
    ("UDP over IPv4", "udp4"),
    ("SCTP over IPv4", "sctp4"),
    ("TCP over IPv6", "tcp6"),
    ("UDP over IPv6", "udp6"),
    ("SCTP over IPv6", "sctp6"),
    ("IPSEC AH over IPv4", "ah4"),
    ("IPSEC ESP over IPv4", "esp4"),
    ("IPSEC AH over IPv6", "ah6"),
    ("IPSEC ESP over IPv6", "esp6"),
    ("Raw IPv4", "ip4"),
    ("Raw IPv6", "ip6"),
    ("Raw Ethernet", "ether"),
];

/// Rules as `ethtool -n` prints them. Addresses are left out.
pub(super) fn flow_rules(lines: &Lines<'_>) -> Option<Map<String, Value>> {
    let total = lines.text.lines().find_map(|line| line.strip_prefix("Total ")?.strip_suffix(" rules"));
    let total: usize = total?.parse().ok()?;
    let mut actions = 0;
    let mut rules: Vec<Map<String, Value>> = Vec::new();
    for line in &lines.lines {
        match line.label.as_str() {
            "Filter" => {
                rules.push(Map::from_iter([("location".to_owned(), Value::from(line.value.parse::<u32>().ok()?))]));
            }
            "Action" => {
                target(line.value, rules.last_mut()?)?;
                actions += 1;
            }
            // Stands before the action.
            "RSS Context ID" => {
                rules.last_mut()?.insert("rss-context".to_owned(), Value::from(line.value.parse::<u32>().ok()?));
            }
            "Rule Type" | "Flow Type" => {
                let kind = KINDS.iter().find(|(words, _)| *words == line.value).map_or(line.value, |(_, word)| *word);
                rules.last_mut()?.insert("kind".to_owned(), Value::from(kind));
            }
            "Dest port" => {
                let port = line.value.strip_suffix(" mask: 0x0").and_then(|port| port.parse::<u16>().ok());
                if let Some(port) = port {
                    rules.last_mut()?.insert("destination-port".to_owned(), Value::from(port));
                }
            }
            _ => {}
        }
    }
    // A text that was cut off has fewer.
    (actions == total).then(|| object(json!({ "rules": rules })))?
}

fn target(action: &str, rule: &mut Map<String, Value>) -> Option<()> {
    let is_of_group = rule.contains_key("rss-context");
    let mut set = |key: &str, word: &str| {
        rule.insert(key.to_owned(), Value::from(word.parse::<u32>().ok()?));
        Some(())
    };
    let words: Vec<_> = action.split_whitespace().collect();
    match words.as_slice() {
        ["Drop"] => drop(rule.insert("is-dropped".to_owned(), Value::from(true))),
        ["Wake-on-LAN"] => {}
        // Before 6.14 the queue is what is added to each of the group.
        ["Direct", "to", "queue", queue] if is_of_group => set("queue-offset", queue)?,
        _ if is_of_group => {}
        ["Direct", "to", "queue", queue] => set("queue", queue)?,
        ["Direct", "to", "VF", function, "queue", queue] => {
            set("virtual-function", function)?;
            set("queue", queue)?;
        }
        ["Direct", "to", "RSS", "context", "id", context, rest @ ..] => {
            set("rss-context", context.trim_end_matches(','))?;
            if let ["(queue", "base", "offset:", offset] = rest {
                set("queue-offset", offset.trim_end_matches(')'))?;
            }
        }
        _ => return None,
    }
    Some(())
}

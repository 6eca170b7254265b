//! The forms of settings of interfaces: `.link` option, ethtool call, file.

use super::form::Form;
use super::words::{self, WordError};
use crate::setting::{LinkFact, NicFact, ReadFrom};
use crate::{Goal, Setting};

/// What a value looks like to ethtool and in a `.link` file.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    /// Microseconds; a `.link` file wants the unit.
    Microseconds,
    /// Megabits a second; a `.link` file wants bits.
    Megabits,
    Switch,
}

/// id, option of ethtool, its word, option of a `.link` file, kind.
type Row = (&'static str, &'static str, &'static str, Option<&'static str>, Kind);

/// What ethtool and `.link` files take as one value each. Adaptive coalescing comes first: while it
/// is on some drivers refuse fixed delays.
const ROWS: &[Row] = &[
    ("nic.speed-mbps", "-s", "speed", Some("BitsPerSecond"), Kind::Megabits),
    ("nic.autoneg", "-s", "autoneg", Some("AutoNegotiation"), Kind::Switch),
    ("nic.energy-efficient", "--set-eee", "eee", None, Kind::Switch),
    ("nic.pause.autoneg", "-A", "autoneg", Some("AutoNegotiationFlowControl"), Kind::Switch),
    ("nic.channels.rx", "-L", "rx", Some("RxChannels"), Kind::Number),
    ("nic.channels.tx", "-L", "tx", Some("TxChannels"), Kind::Number),
    ("nic.channels.combined", "-L", "combined", Some("CombinedChannels"), Kind::Number),
    ("nic.ring.rx", "-G", "rx", Some("RxBufferSize"), Kind::Number),
    ("nic.ring.tx", "-G", "tx", Some("TxBufferSize"), Kind::Number),
    ("nic.ring.tx-push", "-G", "tx-push", None, Kind::Switch),
    ("nic.ring.tx-push-bytes", "-G", "tx-push-buf-len", None, Kind::Number),
    ("nic.ring.rx-push", "-G", "rx-push", None, Kind::Switch),
    ("nic.ring.data-split", "-G", "tcp-data-split", None, Kind::Switch),
    ("nic.ring.completion-bytes", "-G", "cqe-size", None, Kind::Number),
    ("nic.ring.buffer-bytes", "-G", "rx-buf-len", None, Kind::Number),
    ("nic.coalesce.adaptive-rx", "-C", "adaptive-rx", Some("UseAdaptiveRxCoalesce"), Kind::Switch),
    ("nic.coalesce.adaptive-tx", "-C", "adaptive-tx", Some("UseAdaptiveTxCoalesce"), Kind::Switch),
    ("nic.coalesce.rx-usecs", "-C", "rx-usecs", Some("RxCoalesceSec"), Kind::Microseconds),
    ("nic.coalesce.rx-frames", "-C", "rx-frames", Some("RxMaxCoalescedFrames"), Kind::Number),
    ("nic.coalesce.tx-usecs", "-C", "tx-usecs", Some("TxCoalesceSec"), Kind::Microseconds),
    ("nic.coalesce.tx-frames", "-C", "tx-frames", Some("TxMaxCoalescedFrames"), Kind::Number),
    ("nic.coalesce.tx-frames-irq", "-C", "tx-frames-irq", Some("TxMaxCoalescedIrqFrames"), Kind::Number),
    ("nic.coalesce.rx-usecs-low", "-C", "rx-usecs-low", Some("RxCoalesceLowSec"), Kind::Microseconds),
    ("nic.coalesce.rx-usecs-high", "-C", "rx-usecs-high", Some("RxCoalesceHighSec"), Kind::Microseconds),
];

/// Offloads: id, names that ethtool takes, options of a `.link` file.
const OFFLOADS: &[(&str, &[&str], &[&str])] = &[
    ("nic.offload.rx-checksum", &["rx"], &["ReceiveChecksumOffload"]),
    ("nic.offload.tx-checksum", &["tx"], &["TransmitChecksumOffload"]),
    ("nic.offload.tso", &["tso"], &["TCPSegmentationOffload", "TCP6SegmentationOffload"]),
    ("nic.offload.gso", &["gso"], &["GenericSegmentationOffload"]),
    ("nic.offload.gro", &["gro"], &["GenericReceiveOffload"]),
    ("nic.offload.lro", &["lro"], &["LargeReceiveOffload"]),
    ("nic.offload.scatter-gather", &["sg"], &[]),
    ("nic.offload.rx-vlan", &["rxvlan"], &["ReceiveVLANCTAGHardwareAcceleration"]),
    ("nic.offload.tx-vlan", &["txvlan"], &["TransmitVLANCTAGHardwareAcceleration"]),
    ("nic.offload.vlan-stag", &["tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse"], &[]),
    ("nic.offload.ntuple", &["ntuple"], &["NTupleFilter"]),
    ("nic.offload.rxhash", &["rxhash"], &[]),
    ("nic.offload.gro-hw", &["rx-gro-hw"], &["GenericReceiveOffloadHardware"]),
    ("nic.offload.tx-nocache-copy", &["tx-nocache-copy"], &[]),
    ("nic.offload.loopback", &["loopback"], &[]),
    ("nic.offload.rx-fcs", &["rx-fcs"], &[]),
    ("nic.offload.hw-tc", &["hw-tc-offload"], &[]),
];

/// Why no file keeps a setting that something else writes.
const NO_FILE: &[(&str, &str)] = &[
    ("nic.carrier", "the cable and the device decide it"),
    ("nic.coalesce.per-queue", "which queue is meant is not said in the value"),
    ("nic.rss.indirection", "the table depends on the number of queues"),
    ("nic.devlink", "they belong to the device and have names of its own"),
];

/// A part of an id, and why no file keeps any setting of that part.
const NO_FILE_FAMILIES: &[(&str, &str)] = &[
    ("nic.private-flags.", "each driver has names of its own; a udev rule can run ethtool --set-priv-flags"),
    ("nic.napi.", "instances of NAPI are made anew with their queues, and no file of the system names them"),
    ("nic.pcie.", "it is in PCI configuration space, which the firmware writes"),
];

/// The forms of a goal.
pub(super) fn forms(goal: &Goal) -> Result<Vec<Form>, String> {
    let setting = goal.setting;
    let mut none = NO_FILE.iter().filter(|(id, _)| *id == setting.id);
    if let Some((_, why)) = none.next() {
        return Err((*why).to_owned());
    }
    let mut families = NO_FILE_FAMILIES.iter().filter(|(part, _)| setting.id.starts_with(part));
    match families.next() {
        // One of them has an option on the command line; see there.
        Some(_) if words::command_line_forms(setting).next().is_some() => Ok(Vec::new()),
        Some((_, why)) => Err((*why).to_owned()),
        None => made(setting, &goal.value).map_err(|error| error.to_string()),
    }
}

fn made(setting: &Setting, value: &str) -> Result<Vec<Form>, WordError> {
    if let Some(row) = ROWS.iter().find(|row| row.0 == setting.id) {
        return regular(row, value);
    }
    if let Some((_, names, options)) = OFFLOADS.iter().find(|row| row.0 == setting.id) {
        let is_on = words::switch(value)?;
        let words = names.iter().flat_map(|name| [(*name).to_owned(), on_off(is_on)]).collect();
        let options: Vec<_> = options.iter().map(|option| (*option, yes_no(is_on))).collect();
        return Ok(with_link(options, Form::Ethtool("-K", words)));
    }
    if let Some(forms) = by_id(setting, value) {
        return forms;
    }
    let written = words::written(setting, value)?;
    Ok(match setting.read {
        ReadFrom::Nic(NicFact::Link(LinkFact::Mtu)) => {
            with_link(vec![("MTUBytes", written.clone())], Form::NicFile("mtu", written))
        }
        ReadFrom::Nic(NicFact::Link(LinkFact::TxQueueLength)) => {
            with_link(vec![("TransmitQueueLength", written.clone())], Form::NicFile("tx_queue_len", written))
        }
        ReadFrom::Nic(NicFact::File(file)) => vec![Form::NicFile(file, written)],
        ReadFrom::Nic(NicFact::Device("sriov_numvfs")) => vec![Form::NicFile("device/sriov_numvfs", written)],
        ReadFrom::Nic(NicFact::Device("power/control")) => vec![Form::NicFile("device/power/control", written)],
        ReadFrom::Nic(NicFact::QueueMask(direction, file) | NicFact::QueueFile(direction, file)) => {
            vec![Form::NicQueues(direction, file, written)]
        }
        _ => Vec::new(),
    })
}

fn regular(&(_, flag, word, option, kind): &Row, value: &str) -> Result<Vec<Form>, WordError> {
    let (typed, linked) = match kind {
        Kind::Switch => {
            let is_on = words::switch(value)?;
            (on_off(is_on), yes_no(is_on))
        }
        Kind::Number | Kind::Microseconds | Kind::Megabits => {
            let number = words::number(value)?;
            if number.starts_with('-') {
                return Err(WordError::Number { value: number });
            }
            let unit = match kind {
                Kind::Microseconds => "us",
                Kind::Megabits => "M",
                Kind::Number | Kind::Switch => "",
            };
            (number.clone(), format!("{number}{unit}"))
        }
    };
    let options = option.map(|option| (option, linked)).into_iter().collect();
    Ok(with_link(options, Form::Ethtool(flag, vec![word.to_owned(), typed])))
}

/// The `.link` file first, where there is such an option: it is read before the link comes up.
fn with_link(options: Vec<(&'static str, String)>, other: Form) -> Vec<Form> {
    let link = (!options.is_empty()).then_some(Form::Link(options));
    link.into_iter().chain([other]).collect()
}

/// Settings whose value is not one word of ethtool.
fn by_id(setting: &Setting, value: &str) -> Option<Result<Vec<Form>, WordError>> {
    let ethtool =
        |flag, words: &[&str]| vec![Form::Ethtool(flag, words.iter().map(|word| (*word).to_owned()).collect())];
    Some(match setting.id {
        "nic.pause" => words::written(setting, value).map(|value| {
            let has = |word| value.split(' ').any(|found| found == word);
            let (rx, tx) = (has("rx"), has("tx"));
            let words = vec!["rx".to_owned(), on_off(rx), "tx".to_owned(), on_off(tx)];
            with_link(vec![("RxFlowControl", yes_no(rx)), ("TxFlowControl", yes_no(tx))], Form::Ethtool("-A", words))
        }),
        "nic.fec" => words::one_of(value, &["auto", "off", "rs", "baser", "llrs"])
            .map(|word| ethtool("--set-fec", &["encoding", &word])),
        "nic.wake-on-lan" => match words::switch(value) {
            Ok(false) => Ok(with_link(
                vec![("WakeOnLan", "off".to_owned())],
                Form::Ethtool("-s", vec!["wol".to_owned(), "d".to_owned()]),
            )),
            // Which frames wake the host is not said.
            _ => Err(WordError::Word { value: value.to_owned(), known: vec!["off"] }),
        },
        "nic.rss.hash-function" => words::written(setting, value).map(|word| ethtool("-X", &["hfunc", &word])),
        "nic.module.power-mode" => {
            words::written(setting, value).map(|word| ethtool("--set-module", &["power-mode-policy", &word]))
        }
        "nic.frame-preemption" => words::switch(value)
            .map(|is_on| ethtool("--set-mm", &["pmac-enabled", &on_off(is_on), "tx-enabled", &on_off(is_on)])),
        "nic.coalesce.completion-timer" => words::written(setting, value).map(|word| {
            let mode = on_off(word == "completion");
            ethtool("-C", &["cqe-mode-rx", &mode, "cqe-mode-tx", &mode])
        }),
        "nic.coalesce.rx-irq" => numbers(value, &["", " us, ", " frames"]).map(|found| {
            let link =
                vec![("RxCoalesceIrqSec", format!("{}us", found[0])), ("RxMaxCoalescedIrqFrames", found[1].clone())];
            with_link(link, ethtool("-C", &["rx-usecs-irq", &found[0], "rx-frames-irq", &found[1]]).remove(0))
        }),
        "nic.coalesce.packet-rates" => {
            numbers(value, &["", " to ", " packets/s, every ", " s, statistics every ", " us"]).map(|found| {
                let names = ["pkt-rate-low", "pkt-rate-high", "sample-interval", "stats-block-usecs"];
                let words: Vec<&str> =
                    names.into_iter().zip(&found).flat_map(|(name, number)| [name, number.as_str()]).collect();
                ethtool("-C", &words)
            })
        }
        "nic.qdisc" => words::word(value).map(|word| vec![Form::Qdisc(word)]),
        "nic.irq-affinity" => {
            words::list(value).and_then(|list| words::cpus(&list)).map(|cpus| vec![Form::Interrupts(cpus)])
        }
        // A queue number a bit, as with CPUs.
        "nic.xps-rxqs" => {
            words::cpus(value).map(|queues| vec![Form::NicQueues("tx", "xps_rxqs", words::mask(&queues))])
        }
        _ => return None,
    })
}

/// The numbers between fixed pieces of text.
fn numbers(value: &str, pieces: &[&str]) -> Result<Vec<String>, WordError> {
    let bad = || WordError::Number { value: value.to_owned() };
    let mut rest = value.strip_prefix(pieces[0]).ok_or_else(bad)?;
    let mut found = Vec::new();
    for piece in &pieces[1..] {
        let (number, after) = rest.split_once(piece).ok_or_else(bad)?;
        found.push(words::number(number)?);
        rest = after;
    }
    if rest.is_empty() { Ok(found) } else { Err(bad()) }
}

fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn yes_no(is_on: bool) -> String {
    if is_on { "yes" } else { "no" }.to_owned()
}

/// The place of an ethtool call among others: what resets the device comes before what a reset
/// would undo.
pub(super) fn rank(flag: &str, word: &str) -> (usize, usize) {
    const FLAGS: [&str; 11] =
        ["-s", "--set-module", "--set-fec", "--set-mm", "--set-eee", "-A", "-L", "-G", "-K", "-X", "-C"];
    let place = |known: usize| known;
    let flag_at = FLAGS.iter().position(|known| *known == flag).map_or(FLAGS.len(), place);
    (flag_at, ROWS.iter().position(|row| row.1 == flag && row.2 == word).map_or(ROWS.len(), place))
}

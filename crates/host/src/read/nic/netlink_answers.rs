//! What only generic netlink tells of an interface: the families `netdev` (polling, XDP) and
//! `ethtool` (the newer parameters).
//!
//! Source: `Documentation/netlink/specs/{netdev,ethtool}.yaml`, `include/uapi/linux/netdev.h`,
//! `include/uapi/linux/ethtool_netlink.h` (Linux 6.18).

use std::collections::BTreeMap;
use std::io;

use nearwire_sys::ethtool::Interface;
use nearwire_sys::generic_netlink::{Answers, Family, attribute, nest, number};
use nearwire_sys::netdev;
use serde::{Deserialize, Serialize};

use super::{Nic, Source, reading};
use crate::Reading;
use crate::read::condense::condense;
use crate::setting::NetlinkFact;

const QUEUE_GET: u8 = 10;
const QUEUE_ID: u16 = 1;
const QUEUE_IFINDEX: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI_ID: u16 = 4;
const QUEUE_TYPE_RX: u64 = 0;
const NAPI_GET: u8 = 11;
const NAPI_IFINDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ: u16 = 3;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NAPI_THREADED: u16 = 8;
const RINGS_GET: u8 = 15;
const COALESCE_GET: u8 = 19;
const MODULE_GET: u8 = 34;
const HEADER: u16 = 1;
const HEADER_DEV_INDEX: u16 = 1;

/// `enum netdev_xdp_act`, from bit 0.
const XDP_FEATURES: [&str; 7] = ["basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg"];

/// One NAPI instance. Its number is left out: it changes when queues are made anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Napi {
    /// The queues it polls: `rx-0`, `tx-0`.
    pub(super) queues: Vec<String>,
    pub(super) irq: Option<u64>,
    defer_hard_irqs: Option<u64>,
    gro_flush_timeout: Option<u64>,
    irq_suspend_timeout: Option<u64>,
    threaded: Option<u64>,
}

/// The NAPI instances of an interface (`napi-get` and `queue-get`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Polling {
    pub(super) instances: Vec<Napi>,
}

/// What the netdev family says of the device (`dev-get`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Device {
    xdp_features: Option<u64>,
}

/// The parameters of rings that the older interface lacks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct MoreRings {
    rx_buf_len: Option<u64>,
    tcp_data_split: Option<u64>,
    cqe_size: Option<u64>,
    tx_push: Option<u64>,
    rx_push: Option<u64>,
    tx_push_buf_len: Option<u64>,
}

/// The parameters of coalescing that the older interface lacks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct MoreCoalesce {
    use_cqe_mode_rx: Option<u64>,
    use_cqe_mode_tx: Option<u64>,
}

/// The plugged module's power.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct ModulePower {
    power_mode_policy: Option<u64>,
}

impl Polling {
    pub(super) fn ask(interface: &Interface) -> Result<Self, Reading> {
        let index = interface.index().map_err(reading)?.to_ne_bytes();
        let ask = || -> io::Result<Self> {
            let netdev = Family::open("netdev")?;
            let mut queues: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            // Kernels before 6.8 know no queues.
            for queue in netdev.ask(QUEUE_GET, Answers::Many, &attribute(QUEUE_IFINDEX, &index))? {
                let found = (number(&queue, QUEUE_NAPI_ID), number(&queue, QUEUE_ID));
                if let (Some(napi), Some(id)) = found {
                    let side = if number(&queue, QUEUE_TYPE) == Some(QUEUE_TYPE_RX) { "rx" } else { "tx" };
                    queues.entry(napi).or_default().push(format!("{side}-{id}"));
                }
            }
            let instances = netdev.ask(NAPI_GET, Answers::Many, &attribute(NAPI_IFINDEX, &index))?;
            let mut instances: Vec<_> = instances
                .iter()
                .map(|napi| Napi {
                    queues: number(napi, NAPI_ID).and_then(|id| queues.remove(&id)).unwrap_or_default(),
                    irq: number(napi, NAPI_IRQ),
                    defer_hard_irqs: number(napi, NAPI_DEFER_HARD_IRQS),
                    gro_flush_timeout: number(napi, NAPI_GRO_FLUSH_TIMEOUT),
                    irq_suspend_timeout: number(napi, NAPI_IRQ_SUSPEND_TIMEOUT),
                    threaded: number(napi, NAPI_THREADED),
                })
                .collect();
            // The kernel begins with the newest.
            instances.reverse();
            Ok(Self { instances })
        };
        ask().map_err(|error| of_error("netdev", &error))
    }
}

impl Device {
    pub(super) fn ask(interface: &Interface) -> Result<Self, Reading> {
        let features = netdev::xdp_features(interface.index().map_err(reading)?);
        let features = features.map_err(|error| of_error("netdev", &error))?;
        Ok(Self { xdp_features: Some(features.bits()) })
    }
}

impl MoreRings {
    pub(super) fn ask(interface: &Interface) -> Result<Self, Reading> {
        let found = ask_ethtool(interface, RINGS_GET)?;
        Ok(Self {
            rx_buf_len: number(&found, 10),
            tcp_data_split: number(&found, 11),
            cqe_size: number(&found, 12),
            tx_push: number(&found, 13),
            rx_push: number(&found, 14),
            tx_push_buf_len: number(&found, 15),
        })
    }
}

impl MoreCoalesce {
    pub(super) fn ask(interface: &Interface) -> Result<Self, Reading> {
        let found = ask_ethtool(interface, COALESCE_GET)?;
        Ok(Self { use_cqe_mode_tx: number(&found, 24), use_cqe_mode_rx: number(&found, 25) })
    }
}

impl ModulePower {
    pub(super) fn ask(interface: &Interface) -> Result<Self, Reading> {
        let found = ask_ethtool(interface, MODULE_GET)?;
        Ok(Self { power_mode_policy: number(&found, 2) })
    }
}

fn ask_ethtool(interface: &Interface, command: u8) -> Result<Vec<u8>, Reading> {
    let index = interface.index().map_err(reading)?.to_ne_bytes();
    let header = nest(HEADER, &attribute(HEADER_DEV_INDEX, &index));
    let answers = Family::open("ethtool").and_then(|family| family.ask(command, Answers::One, &header));
    let answers = answers.map_err(|error| of_error("ethtool", &error))?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// A family or command that the kernel lacks is a setting that it lacks.
pub(super) fn of_error(family: &str, error: &io::Error) -> Reading {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT) => Reading::Unsupported,
        Some(Errno::PERM | Errno::ACCESS) => Reading::NeedsRoot,
        _ => Reading::unknown(format!("netlink, {family}: {error}")),
    }
}

impl Nic<'_> {
    pub(super) fn netlink(&self, fact: NetlinkFact) -> Reading {
        match (self.netlink_answer(fact), line_of(fact), &self.source) {
            (Reading::Unsupported | Reading::Unknown { .. }, Some((option, label)), Ok(Source::Outputs(outputs)))
                if outputs.lacks_line(option, label) =>
            {
                Reading::unknown(format!("the ethtool that was used prints no line {label}"))
            }
            (reading, ..) => reading,
        }
    }

    fn netlink_answer(&self, fact: NetlinkFact) -> Reading {
        let count = |value: Option<u64>| value.map_or(Reading::Unsupported, Reading::value);
        let switch = |value: Option<u64>| value.map_or(Reading::Unsupported, |value| Reading::switch(value != 0));
        match fact {
            NetlinkFact::DeferHardIrqs => self.of_each_napi(|napi| count(napi.defer_hard_irqs)),
            NetlinkFact::GroFlushTimeout => self.of_each_napi(|napi| count(napi.gro_flush_timeout)),
            NetlinkFact::IrqSuspendTimeout => self.of_each_napi(|napi| count(napi.irq_suspend_timeout)),
            // `enum netdev_napi_threaded`; the last one came after Linux 6.18.
            NetlinkFact::Threaded => self.of_each_napi(|napi| match napi.threaded {
                Some(2) => Reading::value("busy-poll"),
                other => switch(other),
            }),
            NetlinkFact::NapiMap => self.ask(&self.answers.polling, map),
            NetlinkFact::Chain => self.chain(),
            NetlinkFact::XdpFeatures => self.ask(&self.answers.device, |device| xdp_features(device.xdp_features)),
            NetlinkFact::TxPush => self.ask(&self.answers.more_rings, |rings| switch(rings.tx_push)),
            NetlinkFact::TxPushBytes => self.ask(&self.answers.more_rings, |rings| count(rings.tx_push_buf_len)),
            NetlinkFact::RxPush => self.ask(&self.answers.more_rings, |rings| switch(rings.rx_push)),
            // 0: the driver does not say.
            NetlinkFact::DataSplit => self.ask(&self.answers.more_rings, |rings| match rings.tcp_data_split {
                Some(1) => Reading::switch(false),
                Some(2) => Reading::switch(true),
                _ => Reading::Unsupported,
            }),
            NetlinkFact::CompletionBytes => self.ask(&self.answers.more_rings, |rings| count(rings.cqe_size)),
            NetlinkFact::BufferBytes => self.ask(&self.answers.more_rings, |rings| count(rings.rx_buf_len)),
            NetlinkFact::CompletionTimer => {
                self.ask(&self.answers.more_coalesce, |found| match found.use_cqe_mode_rx {
                    Some(0) => Reading::value("event"),
                    Some(_) => Reading::value("completion"),
                    None => Reading::Unsupported,
                })
            }
            NetlinkFact::ModulePower => self.ask(&self.answers.module_power, |found| match found.power_mode_policy {
                Some(1) => Reading::value("high"),
                Some(2) => Reading::value("auto"),
                _ => Reading::Unsupported,
            }),
        }
    }

    fn of_each_napi(&self, of: impl Fn(&Napi) -> Reading) -> Reading {
        self.ask(&self.answers.polling, |polling| {
            condense(polling.instances.iter().map(|napi| (owner(napi), of(napi))).collect())
        })
    }
}

/// Where ethtool prints what older versions do not.
const fn line_of(fact: NetlinkFact) -> Option<(&'static str, &'static str)> {
    match fact {
        NetlinkFact::TxPush => Some(("-g", "TX Push")),
        NetlinkFact::TxPushBytes => Some(("-g", "TX push buff len")),
        NetlinkFact::RxPush => Some(("-g", "RX Push")),
        NetlinkFact::DataSplit => Some(("-g", "TCP data split")),
        NetlinkFact::CompletionBytes => Some(("-g", "CQE Size")),
        NetlinkFact::BufferBytes => Some(("-g", "RX Buf Len")),
        NetlinkFact::CompletionTimer => Some(("-c", "CQE mode RX")),
        _ => None,
    }
}

/// `rx-0 tx-0`, or how else to tell an instance from the others.
pub(super) fn owner(napi: &Napi) -> String {
    match (napi.queues.is_empty(), napi.irq) {
        (false, _) => napi.queues.join(" "),
        (true, Some(irq)) => format!("interrupt {irq}"),
        (true, None) => "no queue".to_owned(),
    }
}

/// `rx-0: interrupt 27, tx-0: interrupt 28`.
fn map(polling: &Polling) -> Reading {
    let of = |napi: &Napi| match (napi.queues.is_empty(), napi.irq) {
        (false, Some(irq)) => Some(format!("{}: interrupt {irq}", owner(napi))),
        (false, None) => Some(format!("{}: no interrupt known", owner(napi))),
        (true, _) => None,
    };
    let instances: Vec<_> = polling.instances.iter().filter_map(of).collect();
    if instances.is_empty() { Reading::Unsupported } else { Reading::Value(instances.join(", ")) }
}

fn xdp_features(bits: Option<u64>) -> Reading {
    let Some(bits) = bits else { return Reading::Unsupported };
    let words: Vec<_> = (0..).zip(XDP_FEATURES).filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, word)| word).collect();
    Reading::Value(if words.is_empty() { "none".to_owned() } else { words.join(" ") })
}

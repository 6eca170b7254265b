//! What to measure: cells, rounds and limits, with every default filled in.

use std::collections::BTreeMap;

use nearwire_frames::fault::FaultConfig;
use nearwire_report::record;

use crate::bed::TestBed;
use crate::paths::{AskedMode, PathId, RxMode, Setup, TxMode, What, XdpChoice};
use crate::workloads::{AnyWorkload, Load, PingPong};

/// Longest round. Longer wishes are met with more rounds: the more often cells take turns, the less a drifting machine
/// favours one of them.
pub const ROUND_NS_MAX: u64 = 500_000_000;

/// Most round trips in one round: the size of the sample buffer, 16 bytes each.
pub const ROUND_SAMPLES_MAX: u64 = 1 << 20;

/// One combination to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CellSpec {
    /// The path.
    pub path: PathId,
    /// Frame paths only.
    pub tx: Option<TxMode>,
    /// Frame paths only.
    pub rx: Option<RxMode>,
    /// Payload of socket paths, whole frame without FCS of frame paths.
    pub size_bytes: u32,
    /// Socket paths only.
    pub ip_version: Option<u8>,
    /// Messages a second; none for workloads without a rate.
    pub rate_per_second: Option<u64>,
}

impl CellSpec {
    /// As records name it.
    #[must_use]
    pub fn cell(&self) -> record::Cell {
        record::Cell {
            path: self.path.name().to_owned(),
            tx: self.tx.map(|tx| tx.name().to_owned()),
            rx: self.rx.map(|rx| rx.name().to_owned()),
            size_bytes: self.size_bytes,
            ip_version: self.ip_version,
            rate_per_second: self.rate_per_second,
            variation: BTreeMap::new(),
        }
    }

    /// For people: `udp/spin 64 B IPv4`, `frame/xdp 64 B tx prepared rx in-place`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{} {} B", self.path, self.size_bytes);
        if let Some(version) = self.ip_version {
            text += &format!(" IPv{version}");
        }
        if let (Some(tx), Some(rx)) = (self.tx, self.rx) {
            text += &format!(" tx {} rx {}", tx.name(), rx.name());
        }
        if let Some(rate_per_second) = self.rate_per_second {
            text += &format!(" {rate_per_second}/s");
        }
        text
    }
}

/// Smallest frame of the frame paths, without FCS.
pub const FRAME_BYTES_MIN: u32 = nearwire_wire::measuring::MEASURING_BYTES_MIN as u32;

/// Largest TCP message.
pub const TCP_BYTES_MAX: u32 = 1 << 20;

/// A size that a path cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{size_bytes} B on {path}: it carries {min_bytes} to {max_bytes} B here ({why}); choose another --size")]
pub struct SizeError {
    /// What was asked for.
    pub size_bytes: u32,
    /// On which path.
    pub path: PathId,
    /// Least size.
    pub min_bytes: u32,
    /// Greatest size.
    pub max_bytes: u32,
    /// Where the limits come from.
    pub why: String,
}

/// Checks a size against what a path carries over a cable with this MTU, and what the workload needs.
///
/// # Errors
/// [`SizeError`] with the limits.
pub fn check_size(
    path: PathId,
    size_bytes: u32,
    ip_version: u8,
    mtu_bytes: u32,
    workload: &AnyWorkload,
) -> Result<(), SizeError> {
    let least_bytes = workload.least_message_bytes();
    let headers_bytes = if ip_version == 6 { 48 } else { 28 };
    let (min_bytes, max_bytes, why) = match path.what {
        What::Udp => (
            least_bytes,
            mtu_bytes.saturating_sub(headers_bytes),
            format!("MTU {mtu_bytes} less {headers_bytes} B of headers"),
        ),
        What::Tcp => (least_bytes, TCP_BYTES_MAX, "one message".to_owned()),
        What::Frame => {
            (FRAME_BYTES_MIN, mtu_bytes + 14, format!("a frame without FCS, MTU {mtu_bytes} and 14 B of header"))
        }
    };
    if (min_bytes..=max_bytes).contains(&size_bytes) {
        return Ok(());
    }
    let why = if size_bytes < least_bytes {
        format!("{} tells messages apart by a number of {least_bytes} B; {why}", workload.name())
    } else {
        why
    };
    Err(SizeError { size_bytes, path, min_bytes, max_bytes, why })
}

/// How much of each cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Time over all rounds.
    TimeNs(u64),
    /// Messages over all rounds.
    Messages(u64),
}

/// An experiment.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What to measure.
    pub cells: Vec<CellSpec>,
    /// The traffic pattern. A cell with a rate has its own.
    pub workload: AnyWorkload,
    /// How much of each cell.
    pub amount: Amount,
    /// Least number of rounds; see [`Experiment::effective_rounds`].
    pub rounds: u32,
    /// Messages before each round's samples count.
    pub warm_up_messages: u64,
    /// Least time spent on them.
    pub warm_up_ns: u64,
    /// An answer later than this is lost.
    pub timeout_ns: u64,
    /// Seed of the order of cells.
    pub seed: u64,
    /// CPU of the initiator.
    pub cpu_initiator: Option<u32>,
    /// CPU of the responder.
    pub cpu_responder: Option<u32>,
    /// Busy-poll paths: how long a receive polls.
    pub busy_poll_us: u32,
    /// Busy-poll paths: packets in one poll.
    pub busy_poll_budget_packets: u16,
    /// VLAN id of frame paths.
    pub vlan: Option<u16>,
    /// Faults around the initiator's port, of paths that have one.
    pub fault: Option<FaultConfig>,
    /// `frame/xdp`, `udp/bypass`, `tcp/bypass`: the only mode that may be used.
    pub xdp_mode: Option<AskedMode>,
    /// Values of settings under which each cell is measured, by their ids; none: as the host is.
    pub variations: Vec<BTreeMap<String, String>>,
}

impl Default for Experiment {
    /// Half a second a cell in five rounds, nothing pinned, no cells yet.
    fn default() -> Experiment {
        Experiment {
            cells: Vec::new(),
            workload: AnyWorkload::PingPong(PingPong {}),
            amount: Amount::TimeNs(500_000_000),
            rounds: 5,
            warm_up_messages: 100,
            warm_up_ns: 10_000_000,
            timeout_ns: 300_000_000,
            seed: 0,
            cpu_initiator: None,
            cpu_responder: None,
            busy_poll_us: 50,
            busy_poll_budget_packets: 8,
            vlan: None,
            fault: None,
            xdp_mode: None,
            variations: Vec::new(),
        }
    }
}

impl Experiment {
    /// What both ends need to know for one round of a cell. `token` marks the experiment's frames.
    #[must_use]
    pub fn setup(&self, cell: &CellSpec, bed: &TestBed, token: u32, round: u32, xdp: Option<XdpChoice>) -> Setup {
        Setup {
            path: cell.path,
            tx: cell.tx.unwrap_or(TxMode::Frame),
            rx: cell.rx.unwrap_or(RxMode::InPlace),
            size_bytes: cell.size_bytes,
            ip_version: cell.ip_version.unwrap_or(4),
            timeout_ns: self.timeout_ns,
            busy_poll_us: self.busy_poll_us,
            busy_poll_budget_packets: self.busy_poll_budget_packets,
            pass_program: cell.path.is_busy_poll() && bed.needs_pass_program(),
            token,
            xdp,
            xdp_mode: self.xdp_mode,
            workload: self.workload_of(cell, round),
            vlan: self.vlan,
            fault: self.fault,
            fault_seed: self.seed ^ u64::from(round) << 32,
        }
    }

    fn workload_of(&self, cell: &CellSpec, round: u32) -> AnyWorkload {
        match self.workload {
            // Each round has other random times, and every cell of a round the same.
            AnyWorkload::Load(load) => AnyWorkload::Load(Load {
                rate_per_second: cell.rate_per_second.unwrap_or(load.rate_per_second),
                seed: self.seed ^ u64::from(round) << 32,
                ..load
            }),
            other => other,
        }
    }

    /// Rounds asked for, or more where a round would grow beyond [`ROUND_NS_MAX`] or [`ROUND_SAMPLES_MAX`].
    #[must_use]
    pub fn effective_rounds(&self) -> u32 {
        let rates = self.cells.iter().filter_map(|cell| cell.rate_per_second).chain(self.workload.rate_per_second());
        let rate_per_second = rates.max().unwrap_or(0);
        let needed = match self.amount {
            Amount::TimeNs(ns) => {
                // The time of its samples at the greatest rate, with room for what a random schedule has more.
                let samples_ns = (ROUND_SAMPLES_MAX / 4 * 3 * 1_000_000_000).checked_div(rate_per_second);
                ns.div_ceil(ROUND_NS_MAX.min(samples_ns.unwrap_or(u64::MAX)))
            }
            Amount::Messages(messages) => messages.div_ceil(ROUND_SAMPLES_MAX),
        };
        self.rounds.max(u32::try_from(needed).unwrap_or(u32::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING_PONG: AnyWorkload = AnyWorkload::PingPong(PingPong {});

    fn id(name: &str) -> PathId {
        name.parse().unwrap()
    }

    #[test]
    fn sizes_at_the_limits_pass_and_beyond_fail() {
        for (path, ip, least, most) in [
            ("udp/spin", 4, 1, 1472),
            ("udp/spin", 6, 1, 1452),
            ("udp/bypass", 4, 1, 1472),
            ("tcp/block", 4, 1, 1 << 20),
            ("tcp/bypass", 4, 1, 1 << 20),
            ("frame/xdp", 4, 60, 1514),
        ] {
            assert_eq!(check_size(id(path), least, ip, 1500, &PING_PONG), Ok(()));
            assert_eq!(check_size(id(path), most, ip, 1500, &PING_PONG), Ok(()));
            assert!(check_size(id(path), least - 1, ip, 1500, &PING_PONG).is_err());
            assert!(check_size(id(path), most + 1, ip, 1500, &PING_PONG).is_err());
        }
    }

    #[test]
    fn size_above_mtu_names_size_path_and_limits() {
        let text = check_size(id("udp/spin"), 9000, 4, 1500, &PING_PONG).unwrap_err().to_string();
        for word in ["9000", "udp/spin", "1472", "--size"] {
            assert!(text.contains(word), "{text}");
        }
    }
}

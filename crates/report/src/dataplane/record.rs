//! The record of a dataplane experiment, version 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::record::{Reading, Warning, exact};

/// Value of `schema`.
pub const SCHEMA: &str = "nearwire-dataplane";
/// Value of `schema_version` that this program writes.
pub const SCHEMA_VERSION: u64 = 1;

/// One experiment: devices under test in one topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataplaneRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u64,
    /// The program that wrote it.
    pub nearwire_version: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// The user ended it early; what is there is whole.
    pub interrupted: bool,
    /// As in `port-host-port`.
    pub topology: String,
    /// What the links are, in words, as in `virtual cables`.
    pub cable: String,
    /// How throughput was searched.
    pub method: Method,
    /// What was sent.
    pub traffic: Traffic,
    /// What a device has to keep to, in the order of the columns.
    pub goals: Vec<Goal>,
    /// One for each device and size, in the order of the experiment.
    pub cells: Vec<Cell>,
    /// Settings of the host.
    pub environment: BTreeMap<String, Reading>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<Warning>,
}

/// How the throughput of a device is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Several goals at once (draft-ietf-bmwg-mlrsearch).
    MlrSearch,
    /// RFC 2544, to the letter.
    Rfc2544,
}

/// What generators send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// 4 or 6.
    pub ip_version: u8,
    /// Flows that frames belong to in turn.
    pub flows: u32,
    /// VLAN, or none.
    pub vlan: Option<u16>,
}

/// What a device has to keep to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// As in `NDR`.
    pub name: String,
    /// Of the frames that were due, so many may be lost.
    pub loss_ratio: f64,
    /// A percentile of latency and what it may be; none: latency does not count.
    pub latency: Option<LatencyBound>,
    /// Length of the first trials.
    #[serde(deserialize_with = "exact")]
    pub initial_trial_ns: u64,
    /// Length of the trials that decide.
    #[serde(deserialize_with = "exact")]
    pub final_trial_ns: u64,
    /// Time of these that a decision takes.
    #[serde(deserialize_with = "exact")]
    pub duration_sum_ns: u64,
    /// Of that time, the part that may be in trials that do not keep to the goal.
    pub exceed_ratio: f64,
    /// The search ends when the bounds are so near each other, relative to the upper one.
    pub width: f64,
}

/// A bound of latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyBound {
    /// As in 99.
    pub percentile: f64,
    /// What it may be.
    #[serde(deserialize_with = "exact")]
    pub at_most_ns: u64,
}

/// One device with frames of one size or mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// As in `l2/xdp`; `wire` where nothing is in the middle.
    pub device: String,
    /// Sizes in bytes without FCS: one, a sequence as in `60+590+1514`, or `imix`.
    pub sizes: String,
    /// The mean of them.
    pub mean_bytes: f64,
    /// What the test bed is made of, from the generator to the sink.
    pub parts: Vec<Part>,
    /// One for each goal, in their order. Empty where the cell failed.
    pub throughput: Vec<Throughput>,
    /// Latency at rates below that of the last goal, least first.
    pub latency: Vec<LatencyAt>,
    /// RFC 2544 section 26.3: loss at rates from the maximum downwards.
    pub frame_loss: Vec<LossAt>,
    /// RFC 9004.
    pub back_to_back: Option<BackToBack>,
    /// RFC 2544 section 26.6: for how long nothing came when the device was reset.
    #[serde(deserialize_with = "exact_if_any")]
    pub reset_ns: Option<u64>,
    /// Every trial of the search, in order.
    pub trials: Vec<Trial>,
    /// Frames that the device dropped, by cause, where it tells.
    #[serde(deserialize_with = "exact_counts")]
    pub drops: BTreeMap<String, u64>,
    /// Why the cell has no figures.
    pub failure: Option<String>,
}

/// A part of a test bed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// As in `generator`, `forwarder l2`, `sink`.
    pub name: String,
    /// How it is done, as in `AF_XDP generic on nw0`.
    pub detail: String,
    /// The interfaces it has, from the generator's side to the sink's.
    pub interfaces: Vec<String>,
    /// CPUs that do its work; empty: any.
    pub cpus: Vec<u32>,
    /// Where it is: parts of one place share a namespace, a host or a guest.
    pub place: String,
}

/// What a device carries by one goal, frames a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The goal's name.
    pub goal: String,
    /// What the search found.
    pub state: State,
    /// Highest rate at which it keeps to the goal; none: it does at none that was tried.
    pub lower_fps: Option<f64>,
    /// Least rate at which it does not; none: it does at all that were tried.
    pub upper_fps: Option<f64>,
    /// Frames that were forwarded at the lower bound (conditional throughput).
    pub conditional_fps: Option<f64>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Between the bounds.
    Found,
    /// It keeps to the goal at the highest rate that was allowed: it carries at least that.
    AtLeast,
    /// It does not keep to the goal at the least rate.
    Lossy,
    /// Trials or time were used up: the bounds are as near as it came.
    NotConverged,
    /// The generator was too slow: the device carries at least the lower bound.
    GeneratorLimited,
}

/// Latency at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Of the last goal's lower bound, as in 0.5.
    pub share: f64,
    /// Frames a second.
    pub rate_fps: f64,
    /// Frames whose latency was measured.
    #[serde(deserialize_with = "exact")]
    pub frames: u64,
    /// Frames that were lost meanwhile.
    #[serde(deserialize_with = "exact")]
    pub lost_frames: u64,
    /// From when a frame was due to when the sink had it, one way; none where too few frames support it.
    pub p50_ns: Option<f64>,
    /// 99 %.
    pub p99_ns: Option<f64>,
    /// 99.9 %.
    pub p999_ns: Option<f64>,
    /// The greatest.
    pub max_ns: Option<f64>,
    /// RFC 5481: the 99.9 % above the least (PDV).
    pub pdv_p999_ns: Option<f64>,
    /// RFC 3393: the 99 % of the difference between consecutive frames (IPDV).
    pub ipdv_p99_ns: Option<f64>,
}

/// Loss at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossAt {
    /// Frames a second that were offered.
    pub rate_fps: f64,
    /// Of these, how many were lost.
    pub loss_ratio: f64,
}

/// Bursts at full rate of which nothing is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// Repetitions.
    pub repetitions: u32,
    /// The mean of the longest bursts, frames.
    pub mean_frames: f64,
    /// The shortest of them.
    #[serde(deserialize_with = "exact")]
    pub least_frames: u64,
    /// The longest of them.
    #[serde(deserialize_with = "exact")]
    pub most_frames: u64,
    /// Their standard deviation.
    pub deviation_frames: f64,
    /// RFC 9004 section 6.4: how long frames can wait in the device, corrected by what it forwards meanwhile.
    pub buffer_ns: Option<f64>,
}

/// One trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Frames a second that were offered; none: as many as the generator could.
    pub rate_fps: Option<f64>,
    /// For how long.
    #[serde(deserialize_with = "exact")]
    pub duration_ns: u64,
    /// Frames that were sent.
    #[serde(deserialize_with = "exact")]
    pub sent_frames: u64,
    /// Frames that were due and were not sent.
    #[serde(deserialize_with = "exact")]
    pub unsent_frames: u64,
    /// Frames that came back.
    #[serde(deserialize_with = "exact")]
    pub received_frames: u64,
    /// Frames that came again.
    #[serde(deserialize_with = "exact")]
    pub duplicated_frames: u64,
    /// Frames that came behind a later one.
    #[serde(deserialize_with = "exact")]
    pub reordered_frames: u64,
    /// Frames that were not as they were sent.
    #[serde(deserialize_with = "exact")]
    pub corrupted_frames: u64,
    /// Median latency.
    pub p50_ns: Option<f64>,
    /// 99 %.
    pub p99_ns: Option<f64>,
}

/// A number as [`exact`] takes it.
#[derive(Deserialize)]
struct Exact(#[serde(deserialize_with = "exact")] u64);

fn exact_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Exact>::deserialize(deserializer)?.map(|number| number.0))
}

fn exact_counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let counts = BTreeMap::<String, Exact>::deserialize(deserializer)?;
    Ok(counts.into_iter().map(|(name, number)| (name, number.0)).collect())
}

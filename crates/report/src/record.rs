//! The record: one experiment's result, as it is written to JSON and read back.
//!
//! A record explains itself: what was asked for, on which machine, with which clock, what came out and what
//! to doubt. Every latency of a run is what [`Experiment::latency`] says, in nanoseconds; a figure
//! that the sample count cannot support is `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The value of [`Record::schema`].
pub const SCHEMA: &str = "nearwire-record";
/// The version this crate writes and the newest it reads.
pub const SCHEMA_VERSION: u32 = 2;

/// One experiment's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of the program that wrote the record.
    pub nearwire_version: String,
    /// When the experiment began, UTC, RFC 3339 with seconds.
    pub started_at: String,
    /// The command line as typed.
    pub command: Vec<String>,
    /// True when the run was ended by Ctrl-C; what had been measured by then is in `runs`.
    pub interrupted: bool,
    /// What was asked for, with every default filled in.
    pub experiment: Experiment,
    /// The clock that stamped the samples.
    pub clock: Clock,
    /// Costs of this machine that have no network in them.
    pub machine: Machine,
    /// Environment of both ends, keyed by setting id.
    pub environment: Environment,
    /// One entry a cell.
    pub runs: Vec<Run>,
    /// Doubts about the experiment as a whole.
    pub warnings: Vec<Warning>,
}

/// The effective configuration of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// `ping-pong`, `forward`, `load` or `stream`.
    pub workload: String,
    /// What the latencies of all runs are.
    #[serde(default)]
    pub latency: Latency,
    /// `load`: how messages are spread over time, as in `poisson`; null for workloads without a schedule.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// `virtual`, `loopback` or `hosts`.
    pub cable: String,
    /// The cable in words: interfaces, drivers, MTU, speed.
    pub cable_detail: String,
    /// Number of interleaved rounds each cell was measured in.
    pub rounds: u32,
    /// Measured time wanted for each cell over all rounds; null when a count was asked for.
    pub time_ns: Option<u64>,
    /// Messages wanted for each cell over all rounds; null when a time was asked for.
    pub count: Option<u64>,
    /// Messages sent before each round's samples count.
    pub warm_up_messages: u64,
    /// Least time spent on those messages in each round.
    pub warm_up_ns: u64,
    /// How long a message may take before it counts as lost.
    pub timeout_ns: u64,
    /// CPU that the initiator is pinned to; null when not pinned.
    pub cpu_initiator: Option<u32>,
    /// CPU that the responder is pinned to; null when not pinned.
    pub cpu_responder: Option<u32>,
    /// How those two were chosen, in words; null when they were given.
    pub cpu_choice: Option<String>,
    /// Seed of the order of cells in each round.
    pub seed: u64,
    /// Injected faults in words; null when there were none.
    pub fault: Option<String>,
}

/// What a latency is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Latency {
    /// Half of the time from a message being sent to its answer: the convention of ping-pong.
    #[default]
    HalfRtt,
    /// From when a message was to be sent, by its schedule, to its answer: what a user of a service waits.
    ResponseTime,
    /// Nothing comes back: the workload measures rates.
    None,
}

impl Latency {
    /// How many of it make the whole round trip.
    #[must_use]
    pub const fn parts_of_rtt(self) -> f64 {
        match self {
            Latency::HalfRtt => 2.0,
            Latency::ResponseTime | Latency::None => 1.0,
        }
    }

    /// As titles have it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Latency::HalfRtt => "half RTT",
            Latency::ResponseTime => "response time",
            Latency::None => "one way",
        }
    }
}

/// The clock that stamped the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// `tsc` or `monotonic-raw`.
    pub source: String,
    /// Ticks a second.
    pub hz: u64,
    /// Median cost of one stamp.
    pub stamp_cost_ns: f64,
    /// Frequency found at the end against that at the start, parts per million.
    pub drift_ppm: f64,
    /// Why this source was taken.
    pub reason: String,
}

/// Costs of this machine that have no network in them, measured beside the samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// One-way hand-over between two blocked threads on the two CPUs: what every blocking path pays.
    pub wake_up_ns: Option<f64>,
    /// One-way cache-line transfer between the two CPUs, median of the probes; null when both ends share a CPU.
    pub cache_line_ns: Option<f64>,
    /// Lowest and highest probe.
    pub cache_line_range_ns: Option<(f64, f64)>,
    /// Scheduler tick of this kernel.
    pub tick_hz: Option<u32>,
    /// True when both ends ran on one machine (so one probe describes both).
    pub same_machine: bool,
}

/// Environment of both ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The end that stamps.
    pub initiator: BTreeMap<String, Reading>,
    /// The end that answers.
    pub responder: BTreeMap<String, Reading>,
}

/// What reading one setting gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Reading {
    /// The value as text in the kernel's own form.
    Value {
        /// The text.
        value: String,
    },
    /// This host has no such thing.
    Unsupported,
    /// It needs a privilege that the program did not have.
    NeedsRoot,
    /// It could not be read.
    Unknown {
        /// What was tried and what was found.
        why: String,
    },
}

/// What makes two runs the same cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// `what/how`, as in `udp/spin`.
    pub path: String,
    /// `frame` or `prepared`; null for socket paths.
    pub tx: Option<String>,
    /// `frame` or `in-place`; null for socket paths.
    pub rx: Option<String>,
    /// Payload of socket paths, whole frame without FCS of frame paths.
    pub size_bytes: u32,
    /// 4 or 6; null for frame paths.
    pub ip_version: Option<u8>,
    /// `load`: messages a second that were to be sent; null for workloads without a rate.
    #[serde(default)]
    pub rate_per_second: Option<u64>,
    /// The values of the settings that the experiment varied, by their ids; empty where it varied none.
    #[serde(default)]
    pub variation: BTreeMap<String, String>,
}

/// One cell's samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Round trips measured, warm-up excluded.
    #[serde(deserialize_with = "exact")]
    pub samples: u64,
    /// Messages that did not come back in time.
    #[serde(deserialize_with = "exact")]
    pub lost: u64,
    /// Answers that came again.
    #[serde(deserialize_with = "exact")]
    pub duplicated: u64,
    /// Answers that came after a later one, or after they had been counted as lost.
    #[serde(deserialize_with = "exact")]
    pub reordered: u64,
    /// Answers that were not what was sent (wrong length or content).
    #[serde(deserialize_with = "exact")]
    pub corrupted: u64,
    /// The headline quantiles of all messages sent, lost ones above all others; null where fewer than ten lie beyond,
    /// or where the quantile is that of a lost message.
    #[serde(alias = "half_rtt_ns")]
    pub latency_ns: Headline,
    /// All quantiles with intervals, ascending.
    pub quantiles: Vec<Quantile>,
    /// Mean of the latencies.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the latencies (Welford).
    pub standard_deviation_ns: Option<f64>,
    /// Round trips a second that took at least 10 us longer than the median one.
    pub slow_events_per_second: Option<f64>,
    /// True when quantiles come from a histogram with three significant digits, false when from every sample.
    pub from_histogram: bool,
    /// CPU time of the initiator's thread for one message, system time included.
    pub cpu_initiator_ns_per_message: Option<f64>,
    /// The same at the responder.
    pub cpu_responder_ns_per_message: Option<f64>,
    /// What the workload measures beside latency; empty for ping-pong.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// Why the figures are not what was asked for; null where they are.
    #[serde(default)]
    pub invalid: Option<String>,
    /// The rounds in the order in which they ran.
    pub rounds: Vec<Round>,
    /// The forwarder's own latency: frame seen to frame handed on. Null for other workloads.
    pub forwarder_ns: Option<Vec<Quantile>>,
    /// What the program chose for this cell, as in the AF_XDP mode, and why.
    pub notes: Vec<String>,
    /// Doubts about this cell.
    pub warnings: Vec<Warning>,
}

/// One figure of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Stable name, as in `answered-rate`.
    pub name: String,
    /// As in `messages/s` or `ns`.
    pub unit: String,
    /// What sort of figure it is.
    pub kind: MetricKind,
    /// Null where the samples cannot support it.
    pub value: Option<f64>,
}

/// What sort of figure a metric is, and so which of two is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// A time; less is better.
    Time,
    /// So many a second; more is better.
    Rate,
    /// A number of things; neither is better.
    Count,
}

impl Metric {
    /// A metric; `value` is `None` where the samples cannot support it.
    #[must_use]
    pub fn new(name: &str, unit: &str, kind: MetricKind, value: Option<f64>) -> Metric {
        Metric { name: name.to_owned(), unit: unit.to_owned(), kind, value }
    }
}

impl Run {
    /// Messages that were sent: those that were answered, or arrived, and those that were lost.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.samples + self.lost
    }

    /// Lost messages, percent of those sent; 0 where none was.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        self.lost as f64 * 100.0 / self.sent().max(1) as f64
    }

    /// Whether messages go one way and are counted where they arrive, so that there are no latencies.
    #[must_use]
    pub fn is_one_way(&self) -> bool {
        self.metric("received-rate").is_some()
    }

    /// A metric by its name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name)?.value
    }
}

/// The headline quantiles, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Least; null without samples.
    pub min: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p99_9: Option<f64>,
    /// 99.99 %.
    pub p99_99: Option<f64>,
    /// 99.999 %.
    pub p99_999: Option<f64>,
    /// Greatest of those that came back; null without samples.
    pub max: Option<f64>,
}

/// One quantile with its order-statistic interval (95 %).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Percent, 0 to 100.
    pub percent: f64,
    /// Nanoseconds; null when unsupported, or (with a support of ten or more) when it falls among the lost messages.
    pub value_ns: Option<f64>,
    /// Lower end of the interval.
    pub low_ns: Option<f64>,
    /// Upper end of the interval; null when the data cannot bound it.
    pub high_ns: Option<f64>,
    /// Messages beyond the quantile, lost ones included; below ten it is not supported.
    #[serde(deserialize_with = "exact")]
    pub support: u64,
}

impl Quantile {
    /// The line at exactly `percent` of a table of quantiles.
    #[must_use]
    pub fn at(quantiles: &[Quantile], percent: f64) -> Option<&Quantile> {
        quantiles.iter().find(|line| (line.percent - percent).abs() < 1e-9)
    }
}

/// One cell in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Round number, from 0.
    pub index: u32,
    /// Place in the round's random order, from 0.
    pub position: u32,
    /// When measuring began, since the experiment's start.
    #[serde(deserialize_with = "exact")]
    pub started_ns: u64,
    /// How long measuring took, warm-up excluded.
    #[serde(deserialize_with = "exact")]
    pub duration_ns: u64,
    /// Messages sent and ignored before.
    #[serde(deserialize_with = "exact")]
    pub warm_up_messages: u64,
    /// Time spent on them.
    #[serde(deserialize_with = "exact")]
    pub warm_up_ns: u64,
    /// Round trips measured.
    #[serde(deserialize_with = "exact")]
    pub samples: u64,
    /// Messages lost in the round.
    #[serde(deserialize_with = "exact")]
    pub lost: u64,
    /// Latency, ns; null when unsupported or among the lost messages.
    pub p50_ns: Option<f64>,
    /// Latency, ns; null when unsupported or among the lost messages.
    pub p99_ns: Option<f64>,
    /// Consecutive blocks of the round, for the block bootstrap.
    pub blocks: Vec<Block>,
    /// Steal time of the CPUs used, parts per million of the round.
    pub steal_ppm: f64,
    /// Voluntary context switches of the initiator's thread.
    pub voluntary_switches: u64,
    /// Involuntary ones.
    pub involuntary_switches: u64,
    /// The same at the responder.
    pub responder_voluntary_switches: u64,
    /// The same at the responder.
    pub responder_involuntary_switches: u64,
    /// CPU time of the initiator's thread for one message of the round; null in records of earlier builds.
    #[serde(default)]
    pub cpu_initiator_ns_per_message: Option<f64>,
    /// The same at the responder.
    #[serde(default)]
    pub cpu_responder_ns_per_message: Option<f64>,
    /// One-way cache-line transfer between the two CPUs, mean of the probes before and after.
    pub cache_line_ns: Option<f64>,
    /// Why the round is to be doubted: `steal`, `cache-line`, `migrated`.
    pub marks: Vec<String>,
}

/// A block of consecutive samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Samples in it.
    #[serde(deserialize_with = "exact")]
    pub samples: u64,
    /// Median latency, ns.
    pub p50_ns: f64,
    /// 99 % latency, ns; null when unsupported or among the block's share of the lost messages.
    pub p99_ns: Option<f64>,
}

/// A doubt in plain words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable name, as in `drift` or `shared-core`.
    pub code: String,
    /// What was seen.
    pub text: String,
    /// What to try.
    pub advice: String,
}

/// A count or duration that every reader of JSON holds exactly (RFC 8259, section 6). No measurement comes near; sums of
/// such numbers do not overflow.
pub(crate) fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    const MOST: u64 = 1 << 53;
    match u64::deserialize(deserializer)? {
        number if number <= MOST => Ok(number),
        number => Err(de::Error::custom(format_args!("{number} is more than any measurement gives"))),
    }
}

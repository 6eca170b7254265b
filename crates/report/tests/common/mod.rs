//! A record as a real machine might have written it, made from seeded random round trips, for tests that
//! look at its renderings. Nothing in it was measured.
#![allow(dead_code, reason = "each test file uses the part it needs")]

pub mod compared;
pub mod dataplane;
pub mod pages;
pub mod schema;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nearwire_report::record::{
    Cell, Clock, Environment, Experiment, Latency, Machine, Metric, MetricKind, Reading, Record, Round, Run, SCHEMA,
    SCHEMA_VERSION, Warning,
};
use nearwire_report::statistics::{Distribution, doubts, quantiles_of};

/// SplitMix64, so that the record is the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Round trips with a log-normal body and, for one in `tick_every`, 10 to 30 us of a timer tick.
pub fn round_trips(random: &mut Random, median_ns: f64, tick_every: f64, count: usize) -> Vec<u32> {
    let rtt = |random: &mut Random| {
        let body = 2.0 * median_ns * (0.045 * random.normal()).exp();
        let bump = if random.uniform() < 0.04 { median_ns * random.uniform() } else { 0.0 };
        let tick = if random.uniform() * tick_every < 1.0 {
            10_000.0 + 20_000.0 * random.uniform().powi(3) / random.uniform().sqrt()
        } else {
            0.0
        };
        (body + bump + tick) as u32
    };
    (0..count).map(|_| rtt(random)).collect()
}

struct Kind {
    path: &'static str,
    tx: Option<&'static str>,
    rx: Option<&'static str>,
    half_rtt_ns: f64,
    ns_per_byte: f64,
}

const fn socket(path: &'static str, half_rtt_ns: f64) -> Kind {
    Kind { path, tx: None, rx: None, half_rtt_ns, ns_per_byte: 0.12 }
}

const fn xdp(tx: &'static str, rx: &'static str, half_rtt_ns: f64) -> Kind {
    Kind { path: "frame/xdp", tx: Some(tx), rx: Some(rx), half_rtt_ns, ns_per_byte: 0.05 }
}

const KINDS: [Kind; 15] = [
    socket("udp/block", 36_700.0),
    socket("udp/spin", 1_950.0),
    socket("udp/busy-poll", 2_190.0),
    socket("udp/epoll", 38_100.0),
    socket("udp/epoll-busy-poll", 2_460.0),
    socket("tcp/block", 39_700.0),
    socket("tcp/spin", 2_940.0),
    socket("tcp/busy-poll", 2_470.0),
    socket("tcp/epoll", 41_200.0),
    socket("tcp/epoll-busy-poll", 2_810.0),
    Kind { path: "frame/packet", tx: Some("frame"), rx: Some("in-place"), half_rtt_ns: 668.0, ns_per_byte: 0.09 },
    xdp("frame", "frame", 655.0),
    xdp("frame", "in-place", 641.0),
    xdp("prepared", "frame", 638.0),
    xdp("prepared", "in-place", 629.0),
];

/// Every path at 64, 256 and 1024 bytes, ten rounds each.
pub fn sample_record() -> Record {
    static MADE: OnceLock<Record> = OnceLock::new();
    MADE.get_or_init(make_record).clone()
}

fn make_record() -> Record {
    let mut runs = Vec::new();
    for (order, kind) in KINDS.iter().enumerate() {
        for size_bytes in [64, 256, 1024] {
            runs.push(run(kind, size_bytes, order as u64 * 4096 + u64::from(size_bytes)));
        }
    }
    runs[1].lost = 3;
    for run in &mut runs {
        run.warnings.extend(doubts(run));
    }
    Record {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        nearwire_version: "0.1.0".to_owned(),
        started_at: "2026-03-14T15:09:26Z".to_owned(),
        command: ["nearwire", "bench", "--size", "64,256,1024", "--json", "out.json"].map(str::to_owned).to_vec(),
        interrupted: false,
        experiment: experiment(),
        clock: Clock {
            source: "tsc".to_owned(),
            hz: 2_600_000_000,
            stamp_cost_ns: 14.6,
            drift_ppm: 0.04,
            reason: "constant, does not stop in idle states, and the kernel trusts it".to_owned(),
        },
        machine: Machine {
            wake_up_ns: Some(35_200.0),
            cache_line_ns: Some(61.0),
            cache_line_range_ns: Some((56.0, 140.0)),
            tick_hz: Some(250),
            same_machine: true,
        },
        environment: environment(),
        runs,
        warnings: vec![Warning {
            code: "virtual-machine".to_owned(),
            text: "both ends run on virtual CPUs, which the host may move or stop at any time".to_owned(),
            advice: "compare cells of one experiment only; repeat on bare metal before quoting a figure".to_owned(),
        }],
    }
}

fn experiment() -> Experiment {
    Experiment {
        workload: "ping-pong".to_owned(),
        latency: Latency::HalfRtt,
        arrivals: None,
        cable: "virtual".to_owned(),
        cable_detail: "veth pair nw0-nw1 in two namespaces, MTU 1500, XDP native".to_owned(),
        rounds: 10,
        time_ns: Some(1_000_000_000),
        count: None,
        warm_up_messages: 1000,
        warm_up_ns: 5_000_000,
        timeout_ns: 100_000_000,
        cpu_initiator: Some(0),
        cpu_responder: Some(1),
        cpu_choice: Some("CPUs 0 and 1: two cores, package 0; not isolated".to_owned()),
        seed: 42,
        fault: None,
    }
}

fn run(kind: &Kind, size_bytes: u32, seed: u64) -> Run {
    let half_rtt_ns = kind.half_rtt_ns + kind.ns_per_byte * f64::from(size_bytes - 64);
    let per_round = match (half_rtt_ns > 10_000.0, size_bytes) {
        (true, _) => 300,
        (false, 64) => 12_000,
        (false, _) => 3_000,
    };
    // A 250 Hz tick on two CPUs hits a round trip in so many.
    let tick_every = 1e9 / (2.0 * half_rtt_ns) / 420.0;
    let mut random = Random(seed);
    let mut all = Distribution::new(1_000_000);
    let mut rounds = Vec::new();
    let mut measured_ns = 0;
    for index in 0..10u32 {
        let drift = if kind.path == "tcp/epoll-busy-poll" { 0.016 * f64::from(index) } else { 0.0 };
        let level = half_rtt_ns * (1.0 + drift + 0.006 * random.normal());
        let rtt_ns = round_trips(&mut random, level, tick_every.max(2.0), per_round);
        let duration_ns = rtt_ns.iter().map(|&rtt| u64::from(rtt)).sum();
        let figures = all.record_round(&rtt_ns, 0);
        // Above and below the run's figure, by a few thousandths.
        let cpu_ns = if half_rtt_ns < 10_000.0 { half_rtt_ns * 2.0 } else { 6_400.0 };
        let cpu_ns = cpu_ns * (1.0 + 0.002 * (f64::from(index * 7 % 10) - 4.5));
        let disturbed = index == 6 && kind.path == "tcp/spin" && size_bytes == 64;
        rounds.push(Round {
            index,
            position: ((u64::from(index) * 7 + seed) % 45) as u32,
            started_ns: u64::from(index) * 1_500_000_000,
            duration_ns,
            warm_up_messages: 1000,
            warm_up_ns: 5_000_000,
            samples: per_round as u64,
            lost: 0,
            p50_ns: figures.p50_ns,
            p99_ns: figures.p99_ns,
            blocks: figures.blocks,
            steal_ppm: if disturbed { 9_200.0 } else { 120.0 },
            voluntary_switches: 0,
            involuntary_switches: 2,
            responder_voluntary_switches: 0,
            responder_involuntary_switches: 1,
            cpu_initiator_ns_per_message: Some(cpu_ns),
            cpu_responder_ns_per_message: Some(cpu_ns),
            cache_line_ns: Some(61.0),
            marks: if disturbed { vec!["steal".to_owned()] } else { Vec::new() },
        });
        measured_ns += duration_ns;
    }
    let summary = all.summary(measured_ns);
    let spins = half_rtt_ns < 10_000.0;
    Run {
        cell: Cell {
            path: kind.path.to_owned(),
            tx: kind.tx.map(str::to_owned),
            rx: kind.rx.map(str::to_owned),
            size_bytes,
            ip_version: kind.tx.is_none().then_some(4),
            rate_per_second: None,
            variation: BTreeMap::new(),
        },
        samples: summary.samples,
        lost: 0,
        duplicated: 0,
        reordered: 0,
        corrupted: 0,
        latency_ns: summary.latency_ns,
        quantiles: summary.quantiles,
        mean_ns: summary.mean_ns,
        standard_deviation_ns: summary.standard_deviation_ns,
        slow_events_per_second: summary.slow_events_per_second,
        from_histogram: summary.from_histogram,
        cpu_initiator_ns_per_message: Some(if spins { half_rtt_ns * 2.0 } else { 6_400.0 }),
        cpu_responder_ns_per_message: Some(if spins { half_rtt_ns * 2.0 } else { 6_100.0 }),
        metrics: Vec::new(),
        invalid: None,
        rounds,
        forwarder_ns: None,
        notes: if kind.path == "frame/xdp" {
            vec!["generic mode, own TX socket: 0.63 us in the self-measurement, native 0.75 us".to_owned()]
        } else {
            Vec::new()
        },
        warnings: all.warnings(),
    }
}

/// The same record as a forwarding experiment with one cell.
pub fn forward_record() -> Record {
    let mut record = sample_record();
    record.experiment.workload = "forward".to_owned();
    record.runs.truncate(2);
    let mut own_ns: Vec<u32> = (0..20_000).map(|index| 180 + index % 97).collect();
    record.runs[1].forwarder_ns = Some(quantiles_of(&mut own_ns));
    record
}

/// A load of one path at four rates: it carries three of them, and is past its knee at the third; the generator missed its schedule at the
/// last.
pub fn load_record() -> Record {
    let mut record = sample_record();
    record.experiment.workload = "load".to_owned();
    (record.experiment.latency, record.experiment.arrivals) = (Latency::ResponseTime, Some("poisson".to_owned()));
    let one = record.runs.iter().find(|run| run.cell.path == "udp/spin" && run.cell.size_bytes == 64).unwrap().clone();
    record.runs = [(10_000, 1.0), (100_000, 1.5), (200_000, 5.0), (400_000, 40.0)].map(|at| at_rate(&one, at)).into();
    let last = record.runs.last_mut().unwrap();
    last.invalid =
        Some("only 310000 of 400000 messages a second could be sent: 9000 of 40000 did not leave in time".to_owned());
    record
}

fn at_rate(one: &Run, (rate_per_second, slower): (u64, f64)) -> Run {
    let mut run = one.clone();
    run.cell.rate_per_second = Some(rate_per_second);
    run.cpu_initiator_ns_per_message = None;
    let slower_beyond_p50 = |percent: f64, ns: f64| if percent > 50.0 { ns * slower } else { ns };
    for line in &mut run.quantiles {
        for value_ns in [&mut line.value_ns, &mut line.low_ns, &mut line.high_ns] {
            *value_ns = value_ns.map(|ns| slower_beyond_p50(line.percent, ns));
        }
    }
    let headline = &mut run.latency_ns;
    for value_ns in [&mut headline.p90, &mut headline.p99, &mut headline.p99_9, &mut headline.p99_99, &mut headline.max]
    {
        *value_ns = value_ns.map(|ns| ns * slower);
    }
    let metric = |name: &str, unit: &str, kind, value| Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        kind,
        value: Some(value),
    };
    run.metrics = vec![
        metric("answered-rate", "messages/s", MetricKind::Rate, rate_per_second as f64),
        metric("lateness-p99", "ns", MetricKind::Time, 850.0),
        metric("outstanding-most", "messages", MetricKind::Count, 3.0),
    ];
    run
}

fn environment() -> Environment {
    let value = |text: &str| Reading::Value { value: text.to_owned() };
    let common: [(&str, Reading); 14] = [
        ("kernel.release", value("6.18.44")),
        ("kernel.command-line", value("console=ttyS0 root=/dev/vda1 ro quiet")),
        ("kernel.clocksource", value("tsc")),
        ("kernel.preempt", value("none")),
        ("cpu.model", value("Intel(R) Xeon(R) Processor @ 2.60GHz")),
        ("cpu.hypervisor", value("KVM")),
        ("cpu.governor", Reading::Unsupported),
        ("cpu.idle-states", Reading::Unsupported),
        ("boot.isolcpus", value("")),
        ("boot.mitigations", Reading::NeedsRoot),
        ("net.core.busy_poll", value("0")),
        ("net.core.busy_read", value("0")),
        (
            "net.ipv4.tcp_low_latency",
            Reading::Unknown { why: "open /proc/sys/net/ipv4/tcp_low_latency: no such file".to_owned() },
        ),
        ("nic.driver", value("veth")),
    ];
    let initiator: BTreeMap<String, Reading> =
        common.iter().map(|(id, reading)| ((*id).to_owned(), reading.clone())).collect();
    let mut responder = initiator.clone();
    responder.insert("net.core.busy_read".to_owned(), value("50"));
    Environment { initiator, responder }
}

/// The record without its runs.
pub fn without_runs() -> Record {
    Record { runs: Vec::new(), ..sample_record() }
}

/// One run of the record.
pub fn small_run() -> Run {
    sample_record().runs.swap_remove(0)
}

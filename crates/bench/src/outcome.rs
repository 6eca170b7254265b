//! A cell's outcome while it grows over the rounds, and what is made of it at the end.

use std::collections::BTreeMap;

use nearwire_report::record::{self, Latency};
use nearwire_report::statistics::{Distribution, RoundFigures, quantiles_of};
use nearwire_sys::tsc::Clock;

use crate::endpoint::Remark;
use crate::experiment::CellSpec;
use crate::round::RoundResult;
use crate::workloads::{AnyWorkload, Responded, RoundOutcome, SampleBuffer, load, stream};

/// Largest ratio between the cache-line probes of a cell's rounds before they are said to mix two machines in one.
const CACHE_LINE_RATIO: f64 = 1.5;

/// What one cell has come to so far.
#[derive(Debug)]
pub struct CellOutcome {
    /// Which cell.
    pub spec: CellSpec,
    workload: AnyWorkload,
    /// The values of the settings that are varied.
    pub variation: BTreeMap<String, String>,
    /// Its latencies.
    distribution: Distribution,
    /// From when messages were to be sent to when they were; none without a schedule.
    lateness: Option<Distribution>,
    /// Its rounds.
    pub rounds: Vec<record::Round>,
    /// What was chosen for it.
    pub notes: Vec<String>,
    /// Why it was given up.
    pub failure: Option<String>,
    totals: Totals,
    remarks: Vec<(&'static str, Remark)>,
    /// Frames that a port had no room for, and in how many rounds, by end.
    dropped: BTreeMap<&'static str, (u64, u64)>,
    forward_ns: Option<Vec<u32>>,
}

/// What a round says by itself.
#[derive(Debug)]
pub struct RoundCounts {
    /// Of its latencies.
    pub figures: RoundFigures,
    /// Messages that came back, or, where they go one way, that came.
    pub samples: u64,
    /// Messages that did not.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Totals {
    samples: u64,
    sent: u64,
    unsent: u64,
    outstanding_most: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    cpu_initiator_ns: u64,
    responder_messages: u64,
    responder_unsent: u64,
    cpu_responder_ns: u64,
    measured_ns: u64,
    received_in_ns: u64,
}

impl Totals {
    fn add(&mut self, near: &RoundOutcome, far: &Responded) {
        self.sent += near.sent;
        self.unsent += near.unsent;
        self.outstanding_most = self.outstanding_most.max(near.outstanding_most);
        self.duplicated += near.duplicated + far.duplicated;
        self.reordered += near.reordered + far.reordered;
        self.corrupted += near.corrupted + far.corrupted;
        self.cpu_initiator_ns += near.usage.cpu_ns;
        self.responder_messages += far.messages;
        self.responder_unsent += far.unsent;
        self.cpu_responder_ns += far.cpu_ns;
        self.measured_ns += near.duration_ns;
        self.received_in_ns += far.received_in_ns;
    }
}

impl CellOutcome {
    /// Nothing yet; it will keep up to `exact_limit` samples as they are.
    #[must_use]
    pub fn new(
        spec: CellSpec,
        workload: AnyWorkload,
        variation: BTreeMap<String, String>,
        exact_limit: usize,
    ) -> CellOutcome {
        let (latency, has_schedule) = (workload.latency(), spec.rate_per_second.is_some());
        let exact_limit = exact_limit / (1 + usize::from(has_schedule));
        CellOutcome {
            spec,
            workload,
            variation,
            distribution: Distribution::of(latency, exact_limit),
            lateness: has_schedule.then(|| Distribution::of(latency, exact_limit)),
            rounds: Vec::new(),
            notes: Vec::new(),
            failure: None,
            totals: Totals::default(),
            remarks: Vec::new(),
            dropped: BTreeMap::new(),
            forward_ns: None,
        }
    }

    /// For people: `udp/spin 64 B IPv4 nic.offload.gro=on`.
    #[must_use]
    pub fn describe(&self) -> String {
        let values = self.variation.iter().map(|(id, value)| format!(" {id}={value}"));
        self.spec.describe() + &values.collect::<String>()
    }

    /// Adds what was chosen or found, each line once.
    pub fn note(&mut self, lines: &[String]) {
        for line in lines {
            if !self.notes.contains(line) {
                self.notes.push(line.clone());
            }
        }
    }

    /// Adds a round, and gives what it says by itself.
    pub fn add(&mut self, clock: Clock, buffer: &SampleBuffer, result: &RoundResult) -> RoundCounts {
        let (outcome, far) = (&result.outcome, &result.responder.outcome);
        self.add_remarks(result);
        if let Some(ns) = &far.forward_ns {
            self.forward_ns.get_or_insert_default().extend_from_slice(ns);
        }
        let (figures, answered) = self.add_samples(clock, buffer, outcome.lost);
        // What goes one way is counted at the far end.
        let (samples, lost) = match self.workload.latency() {
            Latency::None => (far.messages, outcome.sent.saturating_sub(far.messages)),
            Latency::HalfRtt | Latency::ResponseTime => (answered, outcome.lost),
        };
        self.totals.add(outcome, far);
        (self.totals.samples, self.totals.lost) = (self.totals.samples + samples, self.totals.lost + lost);
        RoundCounts { figures, samples, lost }
    }

    /// Adds a round's samples, and gives what they say by themselves and how many they are.
    fn add_samples(&mut self, clock: Clock, buffer: &SampleBuffer, lost: u64) -> (RoundFigures, u64) {
        let ns = |ticks: u32| clock.ns(u64::from(ticks)) as u32;
        let samples = buffer.samples();
        let latency_ns: Vec<u32> = samples.iter().map(|sample| ns(sample.received_after_ticks)).collect();
        if let Some(lateness) = &mut self.lateness {
            let late_ns: Vec<u32> = samples.iter().map(|sample| ns(sample.sent_after_ticks)).collect();
            lateness.record_round(&late_ns, 0);
        }
        (self.distribution.record_round(&latency_ns, lost), latency_ns.len() as u64)
    }

    fn add_remarks(&mut self, result: &RoundResult) {
        for (end, remarks) in [("initiator", &result.remarks), ("responder", &result.responder.remarks)] {
            for remark in remarks {
                if let Remark::Dropped(frames) = remark {
                    let dropped = self.dropped.entry(end).or_default();
                    *dropped = (dropped.0 + frames, dropped.1 + 1);
                } else if !self.remarks.iter().any(|known| known.0 == end && known.1 == *remark) {
                    self.remarks.push((end, remark.clone()));
                }
            }
        }
    }

    /// Makes the run of it. A cell that failed before its first round gives none, only a warning.
    #[must_use]
    pub fn finish(mut self, warnings: &mut Vec<record::Warning>) -> Option<record::Run> {
        if let Some(why) = &self.failure {
            warnings.push(record::Warning {
                code: "cell-failed".to_owned(),
                text: format!("{} was given up: {why}", self.describe()),
                advice: "see `nearwire paths` for what this host can run".to_owned(),
            });
        }
        if self.rounds.is_empty() {
            return None;
        }
        self.mark_cache_line();
        let totals = &self.totals;
        let summary = self.distribution.summary(totals.measured_ns);
        let (metrics, invalid) = self.metrics(&summary.quantiles);
        let has_latency = self.workload.latency() != Latency::None;
        let cpu_initiator_ns_per_message = self.cpu_initiator_ns_per_message(totals.cpu_initiator_ns, totals.sent);
        let mut run = record::Run {
            cell: record::Cell { variation: self.variation, ..self.spec.cell() },
            samples: totals.samples,
            lost: totals.lost,
            duplicated: totals.duplicated,
            reordered: totals.reordered,
            corrupted: totals.corrupted,
            latency_ns: summary.latency_ns,
            quantiles: summary.quantiles,
            mean_ns: summary.mean_ns,
            standard_deviation_ns: summary.standard_deviation_ns,
            slow_events_per_second: summary.slow_events_per_second,
            from_histogram: summary.from_histogram,
            cpu_initiator_ns_per_message,
            cpu_responder_ns_per_message: per_message(totals.cpu_responder_ns, totals.responder_messages),
            metrics,
            invalid,
            rounds: self.rounds,
            forwarder_ns: self.forward_ns.map(|mut ns| quantiles_of(&mut ns)),
            notes: self.notes,
            warnings: if has_latency { self.distribution.warnings() } else { Vec::new() },
        };
        for (end, remark) in self.remarks {
            match remark {
                Remark::Note(text) => run.notes.push(format!("{end}: {text}")),
                Remark::Doubt(doubt) => {
                    run.warnings.push(record::Warning { text: format!("{end}: {}", doubt.text), ..doubt });
                }
                Remark::Dropped(_) => {}
            }
        }
        run.warnings.extend(self.dropped.iter().map(|(end, (frames, rounds))| dropped(end, *frames, *rounds)));
        add_warnings(&mut run);
        if self.spec.rate_per_second.is_none() {
            run.warnings.extend(unsent("initiator", totals.unsent));
        }
        run.warnings.extend(unsent("responder", totals.responder_unsent));
        run.warnings.extend(nearwire_report::statistics::doubts(&run));
        Some(run)
    }

    /// CPU time of the initiator for one message. A generator that never sleeps uses its CPU whatever it sends.
    pub(crate) fn cpu_initiator_ns_per_message(&self, cpu_ns: u64, messages: u64) -> Option<f64> {
        if self.spec.rate_per_second.is_some() { None } else { per_message(cpu_ns, messages) }
    }

    /// What the workload measures beside latency, and why that is not what was asked for.
    fn metrics(&self, latency: &[record::Quantile]) -> (Vec<record::Metric>, Option<String>) {
        let totals = &self.totals;
        match self.workload {
            AnyWorkload::PingPong(_) | AnyWorkload::Forward(_) => (Vec::new(), None),
            AnyWorkload::Load(_) => {
                let of_load = load::metrics::Totals {
                    rate_per_second: self.spec.rate_per_second.unwrap_or_default(),
                    sent: totals.sent,
                    unsent: totals.unsent,
                    answered: totals.samples,
                    outstanding_most: totals.outstanding_most,
                    measured_ns: totals.measured_ns,
                };
                let lateness = self.lateness.as_ref().map(|lateness| lateness.summary(totals.measured_ns).quantiles);
                let lateness = lateness.unwrap_or_default();
                (of_load.metrics(&lateness), of_load.invalid(&lateness, latency))
            }
            AnyWorkload::Stream(_) => {
                let of_stream = stream::Totals {
                    size_bytes: self.spec.size_bytes,
                    sent: totals.sent,
                    sent_in_ns: totals.measured_ns,
                    received: totals.samples,
                    received_in_ns: totals.received_in_ns,
                    rounds: self.rounds.len() as u64,
                };
                (of_stream.metrics(), None)
            }
        }
    }

    /// Marks rounds whose cache-line distance is far from the cell's median: they ran on a different machine in all but
    /// name.
    fn mark_cache_line(&mut self) {
        let mut probes = self.rounds.iter().filter_map(|round| round.cache_line_ns).collect::<Vec<_>>();
        probes.sort_by(f64::total_cmp);
        let Some(median) = probes.get(probes.len() / 2).copied() else {
            return;
        };
        for round in &mut self.rounds {
            let far = |ns: f64| ns > median * CACHE_LINE_RATIO || ns * CACHE_LINE_RATIO < median;
            if round.cache_line_ns.is_some_and(far) {
                round.marks.push("cache-line".to_owned());
            }
        }
    }
}

fn dropped(end: &str, frames: u64, rounds: u64) -> record::Warning {
    record::Warning {
        code: "port-dropped".to_owned(),
        text: format!("{end}: the port dropped {frames} frames for want of room, in {rounds} rounds"),
        advice: "offer less, or keep other traffic off the cable".to_owned(),
    }
}

/// A queue that is full here is no loss on the wire.
fn unsent(end: &str, messages: u64) -> Option<record::Warning> {
    (messages > 0).then(|| record::Warning {
        code: "unsent".to_owned(),
        text: format!("{end}: {messages} messages did not get onto the wire, as a queue of this end was full"),
        advice: "look at the device's TX queue and its completions; keep other traffic off it".to_owned(),
    })
}

/// CPU time of one message; `None` where there was none.
pub(crate) fn per_message(cpu_ns: u64, messages: u64) -> Option<f64> {
    (messages > 0).then(|| cpu_ns as f64 / messages as f64)
}

fn add_warnings(run: &mut record::Run) {
    let marked = |mark: &str| run.rounds.iter().filter(|round| round.marks.iter().any(|m| m == mark)).count();
    let rounds = run.rounds.len();
    let (steal, line, migrated) = (marked("steal"), marked("cache-line"), marked("migrated"));
    let invalid = run.invalid.clone();
    let mut warn = |code: &str, text: String, advice: &str| {
        run.warnings.push(record::Warning { code: code.to_owned(), text, advice: advice.to_owned() });
    };
    if let Some(why) = invalid {
        warn("invalid", why, "offer less, or give both ends CPUs that nothing else uses (--cpus)");
    }
    if steal > 0 {
        warn(
            "steal",
            format!("the hypervisor took over 0.5 % of the CPUs' time in {steal} of {rounds} rounds"),
            "repeat when the host is quieter, or on dedicated CPUs",
        );
    }
    if line > 0 {
        warn(
            "cache-line",
            format!("the distance between the two CPUs changed in {line} of {rounds} rounds"),
            "compare only rounds of one distance; pin the virtual CPUs on the hypervisor",
        );
    }
    if migrated > 0 {
        warn(
            "migrated",
            format!("the initiator ran on another CPU than the one it was pinned to in {migrated} of {rounds} rounds"),
            "look for a tool that changes affinities, or CPU hot-plug",
        );
    }
}

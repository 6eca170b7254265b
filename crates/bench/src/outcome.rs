//! A cell's outcome while it grows over the rounds, and what is made of it at the end.

use std::collections::BTreeMap;

use nearwire_report::record;
use nearwire_report::statistics::{Distribution, quantiles_of};

use crate::endpoint::Remark;
use crate::experiment::CellSpec;
use crate::round::RoundResult;

/// Largest ratio between the cache-line probes of a cell's rounds before they are said to mix two machines in one.
const CACHE_LINE_RATIO: f64 = 1.5;

/// What one cell has come to so far.
#[derive(Debug)]
pub struct CellOutcome {
    /// Which cell.
    pub spec: CellSpec,
    /// The values of the settings that are varied.
    pub variation: BTreeMap<String, String>,
    /// Its round trips.
    pub distribution: Distribution,
    /// Its rounds.
    pub rounds: Vec<record::Round>,
    /// What was chosen for it.
    pub notes: Vec<String>,
    /// Why it was given up.
    pub failure: Option<String>,
    totals: Totals,
    remarks: Vec<(&'static str, Remark)>,
    forward_ns: Option<Vec<u32>>,
}

#[derive(Debug, Default)]
struct Totals {
    sent: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    cpu_initiator_ns: u64,
    responder_messages: u64,
    cpu_responder_ns: u64,
    measured_ns: u64,
}

impl CellOutcome {
    /// Nothing yet.
    #[must_use]
    pub fn new(spec: CellSpec, variation: BTreeMap<String, String>, distribution: Distribution) -> CellOutcome {
        CellOutcome {
            spec,
            variation,
            distribution,
            rounds: Vec::new(),
            notes: Vec::new(),
            failure: None,
            totals: Totals::default(),
            remarks: Vec::new(),
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

    /// Adds a round's counts.
    pub fn add(&mut self, result: &RoundResult) {
        let (outcome, responder, totals) = (&result.outcome, &result.responder, &mut self.totals);
        totals.sent += outcome.sent;
        totals.lost += outcome.lost;
        totals.duplicated += outcome.duplicated;
        totals.reordered += outcome.reordered;
        totals.corrupted += outcome.corrupted + responder.corrupted;
        totals.cpu_initiator_ns += outcome.usage.cpu_ns;
        totals.responder_messages += responder.messages;
        totals.cpu_responder_ns += responder.cpu_ns;
        totals.measured_ns += outcome.duration_ns;
        if let Some(ns) = &responder.forward_ns {
            self.forward_ns.get_or_insert_default().extend_from_slice(ns);
        }
        for (end, remarks) in [("initiator", &result.remarks), ("responder", &responder.remarks)] {
            for remark in remarks {
                let remark = (end, remark.clone());
                if !self.remarks.contains(&remark) {
                    self.remarks.push(remark);
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
        let mut run = record::Run {
            cell: record::Cell { variation: self.variation, ..self.spec.cell() },
            samples: self.distribution.len(),
            lost: totals.lost,
            duplicated: totals.duplicated,
            reordered: totals.reordered,
            corrupted: totals.corrupted,
            half_rtt_ns: summary.half_rtt_ns,
            quantiles: summary.quantiles,
            mean_ns: summary.mean_ns,
            standard_deviation_ns: summary.standard_deviation_ns,
            slow_events_per_second: summary.slow_events_per_second,
            from_histogram: summary.from_histogram,
            cpu_initiator_ns_per_message: per_message(totals.cpu_initiator_ns, totals.sent),
            cpu_responder_ns_per_message: per_message(totals.cpu_responder_ns, totals.responder_messages),
            rounds: self.rounds,
            forwarder_ns: self.forward_ns.map(|mut ns| quantiles_of(&mut ns)),
            notes: self.notes,
            warnings: self.distribution.warnings(),
        };
        for (end, remark) in self.remarks {
            match remark {
                Remark::Note(text) => run.notes.push(format!("{end}: {text}")),
                Remark::Doubt(doubt) => {
                    run.warnings.push(record::Warning { text: format!("{end}: {}", doubt.text), ..doubt });
                }
            }
        }
        add_warnings(&mut run);
        run.warnings.extend(nearwire_report::statistics::doubts(&run));
        Some(run)
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

/// CPU time of one message; `None` where there was none.
pub(crate) fn per_message(cpu_ns: u64, messages: u64) -> Option<f64> {
    (messages > 0).then(|| cpu_ns as f64 / messages as f64)
}

fn add_warnings(run: &mut record::Run) {
    let marked = |mark: &str| run.rounds.iter().filter(|round| round.marks.iter().any(|m| m == mark)).count();
    let rounds = run.rounds.len();
    let (steal, line, migrated) = (marked("steal"), marked("cache-line"), marked("migrated"));
    let mut warn = |code: &str, text: String, advice: &str| {
        run.warnings.push(record::Warning { code: code.to_owned(), text, advice: advice.to_owned() });
    };
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

//! Records for pages: of a stream, and of a machine that was disturbed for a while.

use nearwire_report::record::{Headline, Latency, Metric, MetricKind, Record};

use super::sample_record;

/// A stream of every path: rates, and no latencies.
pub fn stream_record() -> Record {
    let mut record = sample_record();
    record.experiment.workload = "stream".to_owned();
    record.experiment.latency = Latency::None;
    for (index, run) in record.runs.iter_mut().enumerate() {
        run.latency_ns = Headline::default();
        run.quantiles.clear();
        for round in &mut run.rounds {
            (round.p50_ns, round.p99_ns) = (None, None);
            round.blocks.clear();
        }
        let metric = |name: &str, unit: &str, value: f64| Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            kind: MetricKind::Rate,
            value: Some(value),
        };
        let rate = 1e6 / (1.0 + index as f64 * 0.3);
        run.metrics = vec![
            metric("sent-rate", "messages/s", rate * 1.01),
            metric("received-rate", "messages/s", rate),
            metric("received-bits", "bits/s", rate * 8.0 * f64::from(run.cell.size_bytes)),
        ];
    }
    record
}

/// Every cell takes half as long again in one round.
pub fn disturbed_record(round_index: u32) -> Record {
    let mut record = sample_record();
    let rounds = record.runs.iter_mut().flat_map(|run| &mut run.rounds);
    for block in rounds.filter(|round| round.index == round_index).flat_map(|round| &mut round.blocks) {
        block.p50_ns *= 1.5;
        block.p99_ns = block.p99_ns.map(|p99_ns| p99_ns * 1.5);
    }
    record
}

/// The same cells later, slower by this ratio.
pub fn slower_record(ratio: f64) -> Record {
    let mut record = sample_record();
    record.started_at = "2026-03-15T09:00:00Z".to_owned();
    for run in &mut record.runs {
        run.latency_ns.p50 = run.latency_ns.p50.map(|p50_ns| p50_ns * ratio);
        for round in &mut run.rounds {
            round.p50_ns = round.p50_ns.map(|p50_ns| p50_ns * ratio);
            round.blocks.iter_mut().for_each(|block| block.p50_ns *= ratio);
        }
    }
    record
}

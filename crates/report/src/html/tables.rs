//! The page's tables: figures of every cell, environment of both ends, configuration, facts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::anchors::Anchors;
use super::palette::family;
use super::svg::tick_label;
use super::words::{micro, micro_number};
use crate::compare::reading_text;
use crate::record::{Latency, Quantile, Record, Run};
use crate::render::units::{cell_name, count, gigabits, quantile, quantile_us};
use crate::statistics::is_lost;

/// Titles of the figures table after the path.
pub(super) const fn columns(latency: Latency) -> &'static [&'static str] {
    match latency {
        Latency::HalfRtt | Latency::ResponseTime => &LATENCIES,
        Latency::None => &THROUGHPUT,
    }
}

const THROUGHPUT: [&str; 9] =
    ["received", "lost", "sent/s", "received/s", "Gb/s", "doubled", "reordered", "CPU init.", "CPU resp."];
const LATENCIES: [&str; 12] =
    ["samples", "lost", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max", "slow/s", "CPU init.", "CPU resp."];

/// One cell of the figures table.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    text: String,
    /// The figure with its interval in words; empty when there is none.
    tip: String,
}

/// One row of the figures table.
#[derive(Debug, Serialize)]
pub(super) struct FigureRow {
    id: String,
    name: String,
    family: &'static str,
    figures: Vec<Figure>,
}

pub(super) fn figure_row(run: &Run, latency: Latency, anchors: &Anchors) -> FigureRow {
    let figures = if latency == Latency::None { throughput(run) } else { latencies(run) };
    FigureRow { id: anchors.id(run).to_owned(), name: cell_name(&run.cell), family: family(&run.cell.path), figures }
}

fn throughput(run: &Run) -> Vec<Figure> {
    let rate = |name: &str| run.metric(name).map_or_else(|| "–".to_owned(), |rate| count(rate as u64));
    let texts = [
        count(run.samples),
        count(run.lost),
        rate("sent-rate"),
        rate("received-rate"),
        gigabits(run).unwrap_or_else(|| "–".to_owned()),
        count(run.duplicated),
        count(run.reordered),
        micro_number(run.cpu_initiator_ns_per_message),
        micro_number(run.cpu_responder_ns_per_message),
    ];
    texts.into_iter().map(plain).collect()
}

fn latencies(run: &Run) -> Vec<Figure> {
    let half = &run.latency_ns;
    let name = format!("{} {} B", cell_name(&run.cell), run.cell.size_bytes);
    let with_interval = |percent: f64| {
        let text = quantile_us(run, percent).replace('-', "–");
        let words = quantile(run, percent).map(interval_words).filter(|words| !words.is_empty());
        let value = quantile(run, percent).and_then(|line| line.value_ns).map_or_else(|| text.clone(), micro);
        let tip = words.map(|words| format!("{name}, p{percent} {value}: {words}")).unwrap_or_default();
        Figure { text, tip }
    };
    let slow = run.slow_events_per_second;
    vec![
        plain(count(run.samples)),
        plain(count(run.lost)),
        plain(micro_number(half.min)),
        with_interval(50.0),
        with_interval(90.0),
        with_interval(99.0),
        with_interval(99.9),
        with_interval(99.99),
        plain(micro_number(half.max)),
        plain(slow.map_or_else(|| "–".to_owned(), |slow| format!("{slow:.0}"))),
        plain(micro_number(run.cpu_initiator_ns_per_message)),
        plain(micro_number(run.cpu_responder_ns_per_message)),
    ]
}

fn plain(text: String) -> Figure {
    Figure { text, tip: String::new() }
}

fn interval_words(line: &Quantile) -> String {
    match (line.value_ns, line.low_ns, line.high_ns) {
        _ if is_lost(line) => "so many messages were lost that this quantile is one of them".to_owned(),
        (None, ..) => format!("{} samples lie beyond, 10 are needed", line.support),
        (_, Some(low_ns), Some(high_ns)) => {
            format!("95 % interval {} to {}", micro(low_ns), micro(high_ns))
        }
        (_, Some(low_ns), None) => format!("95 % interval from {}, no upper end", micro(low_ns)),
        _ => String::new(),
    }
}

/// One setting of both ends.
#[derive(Debug, Serialize)]
pub(super) struct SettingRow {
    id: String,
    initiator: String,
    responder: String,
    differs: bool,
    /// True when neither end gave a value.
    muted: bool,
}

pub(super) fn settings(record: &Record) -> Vec<SettingRow> {
    let environment = &record.environment;
    let ids: BTreeSet<&String> = environment.initiator.keys().chain(environment.responder.keys()).collect();
    let valued =
        |reading: Option<&crate::record::Reading>| matches!(reading, Some(crate::record::Reading::Value { .. }));
    ids.into_iter()
        .map(|id| {
            let (here, there) = (environment.initiator.get(id), environment.responder.get(id));
            SettingRow {
                id: id.clone(),
                initiator: reading_text(here),
                responder: reading_text(there),
                differs: here != there,
                muted: !valued(here) && !valued(there),
            }
        })
        .collect()
}

/// A name with its value, and what to make of it.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    name: &'static str,
    value: String,
    note: String,
}

fn fact(name: &'static str, value: impl Into<String>, note: impl Into<String>) -> Fact {
    Fact { name, value: value.into(), note: note.into() }
}

/// Costs of the machine and qualities of the clock.
pub(super) fn facts(record: &Record) -> Vec<Fact> {
    let machine = &record.machine;
    let clock = &record.clock;
    let mut facts = Vec::new();
    if let Some(wake_up_ns) = machine.wake_up_ns {
        facts.push(fact("Wake-up", micro(wake_up_ns), "one way between the two CPUs; every blocking path pays it"));
    }
    if let Some(cache_line_ns) = machine.cache_line_ns {
        let range = machine
            .cache_line_range_ns
            .map(|(low_ns, high_ns)| format!(", {low_ns:.0} to {high_ns:.0} ns"))
            .unwrap_or_default();
        facts.push(fact("Cache line", micro(cache_line_ns), format!("one way between the two CPUs{range}")));
    }
    if let Some(tick_hz) = machine.tick_hz {
        facts.push(fact("Timer tick", format!("{tick_hz} Hz"), "interrupts either end this often; sets p99.9"));
    }
    let ghz = format!("{:.3} GHz; {}", clock.hz as f64 / 1e9, clock.reason);
    facts.push(fact("Clock", clock.source.clone(), ghz));
    facts.push(fact(
        "Stamp cost",
        format!("{:.1} ns", clock.stamp_cost_ns),
        "median of one stamp; two in each round trip",
    ));
    facts.push(fact(
        "Clock drift",
        format!("{:+.2} ppm", clock.drift_ppm),
        "frequency at the end against that at the start",
    ));
    let samples: u64 = record.runs.iter().map(|run| run.samples).sum();
    let lost: u64 = record.runs.iter().map(|run| run.lost).sum();
    let name = if record.experiment.latency == Latency::None { "Messages" } else { "Round trips" };
    facts.push(fact(name, count(samples), format!("{} lost", count(lost))));
    facts
}

/// The experiment's configuration, every default filled in.
pub(super) fn configuration(record: &Record) -> Vec<(&'static str, String)> {
    let experiment = &record.experiment;
    let cpu = |cpu: Option<u32>| cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    let asked = match (experiment.time_ns, experiment.count) {
        (Some(time_ns), _) => format!("{} for each cell", tick_label(time_ns as f64)),
        (None, Some(wanted)) => format!("{} messages for each cell", count(wanted)),
        (None, None) => "not stated".to_owned(),
    };
    let mut rows = vec![
        ("Command", record.command.join(" ")),
        ("Started", record.started_at.clone()),
        ("Nearwire", record.nearwire_version.clone()),
        ("Workload", experiment.workload.clone()),
        ("Cable", format!("{}: {}", experiment.cable, experiment.cable_detail)),
        ("Measured", asked),
        ("Rounds", format!("{}, interleaved in random order (seed {})", experiment.rounds, experiment.seed)),
        (
            "Warm-up",
            format!(
                "{} messages and {} in each round, excluded",
                count(experiment.warm_up_messages),
                tick_label(experiment.warm_up_ns as f64)
            ),
        ),
        ("Timeout", tick_label(experiment.timeout_ns as f64)),
        ("Initiator", cpu(experiment.cpu_initiator)),
        ("Responder", cpu(experiment.cpu_responder)),
    ];
    if let Some(choice) = &experiment.cpu_choice {
        rows.push(("CPUs chosen", choice.clone()));
    }
    if let Some(fault) = &experiment.fault {
        rows.push(("Injected faults", fault.clone()));
    }
    rows
}

/// How many settings differ between the ends.
pub(super) fn differing(settings: &[SettingRow]) -> usize {
    settings.iter().filter(|setting| setting.differs).count()
}

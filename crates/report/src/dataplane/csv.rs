//! Rows for spreadsheets and scripts, as RFC 4180 section 2 quotes them. Empty fields are what was not found.
//!
//! | column | of rows | meaning |
//! |---|---|---|
//! | `kind` | all | `throughput`: one row for each cell and goal; `latency`: one row for each cell and rate |
//! | `topology`, `ip_version`, `flows`, `vlan` | all | what was laid and sent |
//! | `device`, `sizes`, `mean_bytes` | all | the cell; bytes without FCS |
//! | `goal` | all | the goal; of `latency` the last one, of whose throughput `share` is a part |
//! | `state` | throughput | `found`, `at-least`, `lossy`, `not-converged`, `generator-limited`; `failed`: the cell has no figures |
//! | `lower_fps`, `upper_fps` | throughput | bounds, frames a second |
//! | `conditional_fps` | throughput | frames a second that were forwarded at the lower bound |
//! | `lower_bits_per_second` | throughput | bits of frames without FCS at the lower bound |
//! | `lower_l1_bits_per_second` | throughput | the same with FCS, preamble and gap: 24 bytes a frame more |
//! | `share`, `rate_fps` | latency | part of the last goal's lower bound; frames a second |
//! | `frames`, `lost_frames` | latency | frames measured, and lost meanwhile |
//! | `p50_ns` ... `max_ns` | latency | from when a frame was due to when the sink had it, one way |
//! | `pdv_p99_9_ns`, `ipdv_p99_ns` | latency | RFC 5481 PDV and RFC 3393 IPDV |
//! | `failure` | throughput | why the cell has no figures |
//! | `started_at`, `nearwire_version` | all | of the experiment |

use super::figures::{frame_bits, throughput, tidied, wire_bits};
use super::record::{Cell, DataplaneRecord, LatencyAt, State, Throughput};
use crate::render::{quoted, trimmed};

const COLUMNS: [&str; 28] = [
    "kind",
    "topology",
    "ip_version",
    "flows",
    "vlan",
    "device",
    "sizes",
    "mean_bytes",
    "goal",
    "state",
    "lower_fps",
    "upper_fps",
    "conditional_fps",
    "lower_bits_per_second",
    "lower_l1_bits_per_second",
    "share",
    "rate_fps",
    "frames",
    "lost_frames",
    "p50_ns",
    "p99_ns",
    "p99_9_ns",
    "max_ns",
    "pdv_p99_9_ns",
    "ipdv_p99_ns",
    "failure",
    "started_at",
    "nearwire_version",
];
/// Columns of `throughput` rows from `state` on, and of `latency` rows from `share` on.
const OF_THROUGHPUT: usize = 6;
const OF_LATENCY: usize = 10;

/// The record as rows, in the order of the experiment.
#[must_use]
pub fn render_dataplane_csv(record: &DataplaneRecord) -> String {
    let record = &tidied(record);
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for cell in &record.cells {
        for goal in &record.goals {
            row(&mut out, record, cell, "throughput", &goal.name, throughput_fields(cell, &goal.name));
        }
        let last = record.goals.last().map_or("", |goal| &goal.name);
        for at in &cell.latency {
            row(&mut out, record, cell, "latency", last, latency_fields(at));
        }
    }
    out
}

fn row(out: &mut String, record: &DataplaneRecord, cell: &Cell, kind: &str, goal: &str, figures: Vec<String>) {
    let traffic = &record.traffic;
    let mut fields = vec![kind.to_owned(), record.topology.clone()];
    fields.extend([traffic.ip_version.to_string(), traffic.flows.to_string()]);
    fields.push(traffic.vlan.map(|id| id.to_string()).unwrap_or_default());
    fields.extend([cell.device.clone(), cell.sizes.clone(), trimmed(cell.mean_bytes), goal.to_owned()]);
    fields.extend(figures);
    let failure = cell.failure.clone().filter(|_| kind == "throughput");
    fields.extend([failure.unwrap_or_default(), record.started_at.clone(), record.nearwire_version.clone()]);
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    out.push_str(&fields.join(","));
    out.push('\n');
}

fn number(value: Option<f64>) -> String {
    value.map(trimmed).unwrap_or_default()
}

fn throughput_fields(cell: &Cell, goal: &str) -> Vec<String> {
    let found = throughput(cell, goal);
    let state = match found {
        None if cell.failure.is_some() => "failed",
        None => "",
        Some(Throughput { state, .. }) => state_name(*state),
    };
    let lower_fps = found.and_then(|found| found.lower_fps);
    let figures = [
        lower_fps,
        found.and_then(|found| found.upper_fps),
        found.and_then(|found| found.conditional_fps),
        lower_fps.map(|rate_fps| frame_bits(rate_fps, cell.mean_bytes)),
        lower_fps.map(|rate_fps| wire_bits(rate_fps, cell.mean_bytes)),
    ];
    let mut fields = vec![state.to_owned()];
    fields.extend(figures.map(number));
    fields.resize(OF_THROUGHPUT + OF_LATENCY, String::new());
    fields
}

fn latency_fields(at: &LatencyAt) -> Vec<String> {
    let mut fields = vec![String::new(); OF_THROUGHPUT];
    fields.extend([trimmed(at.share), trimmed(at.rate_fps), at.frames.to_string(), at.lost_frames.to_string()]);
    fields.extend([at.p50_ns, at.p99_ns, at.p999_ns, at.max_ns, at.pdv_p999_ns, at.ipdv_p99_ns].map(number));
    fields
}

/// As the record has it.
const fn state_name(state: State) -> &'static str {
    match state {
        State::Found => "found",
        State::AtLeast => "at-least",
        State::Lossy => "lossy",
        State::NotConverged => "not-converged",
        State::GeneratorLimited => "generator-limited",
    }
}

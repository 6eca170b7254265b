//! One row a cell, with units in the column names; fields are quoted as RFC 4180 section 2 says.
//!
//! Empty fields are what the samples do not support. Lines end in a line feed, which every reader takes and
//! which keeps carriage returns out of `awk` and `cut`.

use super::units::{quantile, variation};
use crate::record::{Latency, Metric, Record, Run};

const HEADER: &str = "path,tx,rx,ip_version,size_bytes,samples,lost,duplicated,reordered,corrupted,\
half_rtt_min_ns,half_rtt_p50_ns,half_rtt_p50_low_ns,half_rtt_p50_high_ns,half_rtt_p90_ns,\
half_rtt_p99_ns,half_rtt_p99_low_ns,half_rtt_p99_high_ns,half_rtt_p99_9_ns,half_rtt_p99_99_ns,\
half_rtt_p99_999_ns,half_rtt_max_ns,half_rtt_mean_ns,half_rtt_standard_deviation_ns,\
slow_events_per_second,cpu_initiator_ns_per_message,cpu_responder_ns_per_message,from_histogram,\
rounds,warnings,workload,cable,started_at,nearwire_version";

pub(super) fn render(record: &Record) -> String {
    // Only where there are any, so that readers of other records find what they know.
    let has_variations = record.runs.iter().any(|run| !run.cell.variation.is_empty());
    let has_rates = record.runs.iter().any(|run| run.cell.rate_per_second.is_some());
    let metrics: &[Metric] = record.runs.first().map_or(&[], |run| &run.metrics);
    let header = match record.experiment.latency {
        Latency::HalfRtt => HEADER.to_owned(),
        Latency::ResponseTime => HEADER.replace("half_rtt", "response_time"),
        Latency::None => HEADER.replace("half_rtt", "latency"),
    };
    let mut out = format!("{header}{}", if has_variations { ",variation" } else { "" });
    if has_rates {
        out.push_str(",rate_per_second,arrivals,invalid");
    }
    metrics.iter().for_each(|metric| out.push_str(&format!(",{}", column(metric))));
    out.push('\n');
    for run in &record.runs {
        let mut fields = fields(record, run);
        fields.extend(has_variations.then(|| variation(&run.cell)));
        if has_rates {
            fields.push(run.cell.rate_per_second.map(|rate| rate.to_string()).unwrap_or_default());
            fields.extend([&record.experiment.arrivals, &run.invalid].map(|text| text.clone().unwrap_or_default()));
        }
        fields.extend(metrics.iter().map(|metric| run.metric(&metric.name).map(trimmed).unwrap_or_default()));
        let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

fn fields(record: &Record, run: &Run) -> Vec<String> {
    let cell = &run.cell;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let number = |value: Option<f64>| value.map(trimmed).unwrap_or_default();
    let low = |percent| number(quantile(run, percent).and_then(|line| line.low_ns));
    let high = |percent| number(quantile(run, percent).and_then(|line| line.high_ns));
    let half = &run.latency_ns;
    let warnings: Vec<&str> = run.warnings.iter().map(|warning| warning.code.as_str()).collect();
    let mut fields = vec![cell.path.clone(), text(&cell.tx), text(&cell.rx)];
    fields.push(cell.ip_version.map(|version| version.to_string()).unwrap_or_default());
    fields.push(cell.size_bytes.to_string());
    fields.extend([run.samples, run.lost, run.duplicated, run.reordered, run.corrupted].map(|count| count.to_string()));
    fields.extend([number(half.min), number(half.p50), low(50.0), high(50.0), number(half.p90)]);
    fields.extend([number(half.p99), low(99.0), high(99.0), number(half.p99_9)]);
    fields.extend([half.p99_99, half.p99_999, half.max].map(number));
    fields.extend([run.mean_ns, run.standard_deviation_ns, run.slow_events_per_second].map(number));
    fields.extend([run.cpu_initiator_ns_per_message, run.cpu_responder_ns_per_message].map(number));
    fields.extend([run.from_histogram.to_string(), run.rounds.len().to_string()]);
    fields.push(warnings.join(" "));
    fields.extend([record.experiment.workload.clone(), record.experiment.cable.clone()]);
    fields.extend([record.started_at.clone(), record.nearwire_version.clone()]);
    fields
}

/// A metric's name with its unit, as the other columns have it.
fn column(metric: &Metric) -> String {
    let unit = match metric.unit.as_str() {
        "messages/s" => "per_second",
        unit => unit,
    };
    format!("{}_{unit}", metric.name.replace(['-', '.'], "_"))
}

/// Three decimals at most: a thousandth of a nanosecond is beyond every clock.
pub(crate) fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }

    #[test]
    fn whole_numbers_have_no_decimals() {
        assert_eq!(trimmed(643.0), "643");
        assert_eq!(trimmed(643.5), "643.5");
        assert_eq!(trimmed(0.0), "0");
    }
}

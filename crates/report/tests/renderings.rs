//! What the terminal and other tools' readers see, word for word.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use nearwire_report::record::Record;
use nearwire_report::statistics::Distribution;
use nearwire_report::{Format, TableOptions, render, render_html, render_table};

/// A few cells that show every case of a format.
fn few_cells() -> Record {
    let mut record = common::sample_record();
    record.runs.retain(|run| {
        let cell = &run.cell;
        let shown = ["udp/block", "udp/spin", "frame/packet"].contains(&cell.path.as_str())
            || (cell.tx.as_deref(), cell.rx.as_deref()) == (Some("prepared"), Some("in-place"));
        shown && cell.size_bytes != 256
    });
    record
}

/// One cell in which nothing came back.
fn all_lost() -> Record {
    let mut record = common::sample_record();
    record.runs.truncate(1);
    let run = &mut record.runs[0];
    run.samples = 0;
    run.lost = 1_000;
    let mut nothing = Distribution::new(0);
    nothing.record_round(&[], run.lost);
    let summary = nothing.summary(0);
    (run.latency_ns, run.quantiles) = (summary.latency_ns, summary.quantiles);
    (run.mean_ns, run.standard_deviation_ns, run.slow_events_per_second) = (None, None, None);
    run.rounds.clear();
    run.warnings = nearwire_report::statistics::doubts(run);
    record
}

#[test]
fn whole_record_as_table() {
    insta::assert_snapshot!(render_table(
        &common::sample_record(),
        TableOptions { width: 140, colour: false, intervals: false }
    ));
}

#[test]
fn narrow_terminal_leaves_columns_out() {
    let table = render_table(&few_cells(), TableOptions { width: 80, colour: false, intervals: false });
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    insta::assert_snapshot!(table);
}

#[test]
fn intervals_stand_beside_the_quantiles_that_have_them() {
    let table = render_table(&few_cells(), TableOptions { width: 200, colour: false, intervals: true });
    insta::assert_snapshot!(table);
}

#[test]
fn ratio_to_the_kernel_is_taken_within_rounds() {
    let mut record = few_cells();
    // Both paths are twice as slow in every other round, in which the machine was another one.
    for run in &mut record.runs {
        for round in run.rounds.iter_mut().filter(|round| round.index % 2 == 1) {
            round.p50_ns = round.p50_ns.map(|ns| ns * 2.0);
        }
    }
    let table = render_table(&record, TableOptions::default());
    let line = table.lines().find(|line| line.starts_with("64 B: p50 of frame/xdp")).unwrap();
    let (_, range) = line.split_once('(').unwrap();
    let (low, high) = range.split_once(" in 10 rounds)").unwrap().0.split_once("..").unwrap();
    let [low, high] = [low, high].map(|number| number.parse::<f64>().unwrap());
    assert!(high / low < 1.1, "{line}");
}

#[test]
fn colour_only_adds_escapes() {
    let plain = render_table(&few_cells(), TableOptions { width: 120, colour: false, intervals: false });
    let coloured = render_table(&few_cells(), TableOptions { width: 120, colour: true, intervals: false });
    assert!(!plain.contains('\u{1b}'));
    let mut stripped = String::new();
    for (index, part) in coloured.split('\u{1b}').enumerate() {
        stripped.push_str(if index == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped, plain);
}

#[test]
fn few_cells_as_exanic() {
    insta::assert_snapshot!(render(&few_cells(), Format::Exanic).unwrap());
}

#[test]
fn few_cells_as_sockperf() {
    insta::assert_snapshot!(render(&few_cells(), Format::Sockperf).unwrap());
}

#[test]
fn few_cells_as_netpipe() {
    insta::assert_snapshot!(render(&few_cells(), Format::Netpipe).unwrap());
}

#[test]
fn few_cells_as_csv() {
    insta::assert_snapshot!(render(&few_cells(), Format::Csv).unwrap());
}

#[test]
fn all_lost_in_every_format() {
    let record = all_lost();
    let mut out = String::new();
    for format in Format::ALL.into_iter().filter(|&format| format != Format::Json) {
        out.push_str(&format!("== {format}\n{}", render(&record, format).unwrap()));
    }
    insta::assert_snapshot!(out);
    assert!(render_html(&[record]).is_ok());
}

/// One cell of which three in a hundred messages were lost.
fn partly_lost() -> Record {
    let mut record = common::sample_record();
    record.runs.truncate(1);
    let run = &mut record.runs[0];
    let mut most = Distribution::new(usize::MAX);
    for _ in 0..10 {
        let rtt_ns: Vec<u32> = (0..970).map(|index| 4_000 + index).collect();
        most.record_round(&rtt_ns, 30);
    }
    let summary = most.summary(1_000_000);
    (run.samples, run.lost) = (summary.samples, most.lost());
    (run.latency_ns, run.quantiles) = (summary.latency_ns, summary.quantiles);
    run.rounds.clear();
    run.warnings = nearwire_report::statistics::doubts(run);
    record
}

#[test]
fn quantile_of_a_lost_message_is_named_in_every_format() {
    let record = partly_lost();
    let says = |format, words: &str| {
        let text = render(&record, format).unwrap();
        assert!(text.contains(words), "{text}");
    };
    says(Format::Table, "lost: so many messages were lost that this quantile is one of them");
    says(Format::Table, "2.45  lost ");
    says(Format::Sockperf, "# percentile 99.900, 99.000 left out: it is that of a dropped message");
    says(Format::Sockperf, "# percentile 99.999, 99.990 left out: fewer than 10 of 9700 observations lie beyond");
    says(Format::Exanic, "Warning: Percentile 99.000 is that of a lost message, the greatest stands in for it.");
    says(Format::Json, "\"p99\": null");
    assert!(render_html(std::slice::from_ref(&record)).unwrap().contains("so many messages were lost"));
}

#[test]
fn forwarder_shows_its_own_latency() {
    let table = render(&common::forward_record(), Format::Table).unwrap();
    assert!(table.contains("the forwarder's own latency, one way, is p50 0.23 us"), "{table}");
}

#[test]
fn every_format_survives_a_record_without_runs() {
    let mut record = common::sample_record();
    record.runs.clear();
    for format in Format::ALL {
        render(&record, format).unwrap();
    }
    assert!(render_html(&[record]).unwrap_err().to_string().contains("bench --json"));
    assert!(render_html(&[]).is_err());
}

#[test]
fn markup_in_a_record_is_escaped_in_the_page() {
    let mut record = common::sample_record();
    let evil = "<script>alert('1')</script>\"&";
    record.command = vec![evil.to_owned()];
    record.started_at = evil.to_owned();
    record.clock.reason = evil.to_owned();
    record.experiment.cable_detail = evil.to_owned();
    record.runs[0].cell.path = format!("udp/{evil}");
    record.runs[0].notes.push(evil.to_owned());
    record.warnings[0].text = evil.to_owned();
    let html = render_html(&[record.clone(), record]).unwrap();
    let (shown, records) = html.split_once("<script type=\"application/json\"").unwrap();
    assert!(!shown.contains("<script"), "markup got through");
    assert!(!shown.contains("alert('1')"), "quotes got through");
    assert_eq!(records.matches("<script").count(), 1, "each record has one element, and no text begins another");
    assert_eq!(records.matches("</script").count(), 2, "no text ends it");
}

#[test]
fn page_refers_to_nothing_outside() {
    let html = render_html(&[common::sample_record()]).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    for mark in ["643 ns", "805 ns", "3.20 µs", "3.80 µs", "2.13 µs", "Published, other hardware"] {
        assert!(html.contains(mark), "{mark}");
    }
    let shown = html.split("<script type=\"application/json\"").next().unwrap().len();
    assert!(shown < 450_000, "{shown} bytes beside the record");
}

#[test]
fn text_from_a_record_cannot_steer_the_terminal() {
    let mut record = few_cells();
    record.warnings[0].text = "\u{1b}]0;owned\u{7}".to_owned();
    record.clock.reason = "\u{1b}[2J".to_owned();
    record.runs[0].cell.path = "udp/\u{1b}[31m".to_owned();
    assert!(!render(&record, Format::Table).unwrap().contains('\u{1b}'));
}

#[test]
fn load_as_table_says_what_is_carried() {
    let table = render_table(&common::load_record(), TableOptions { width: 140, colour: false, intervals: false });
    insta::assert_snapshot!(table);
}

#[test]
fn load_as_csv_has_its_rates_and_metrics() {
    let csv = render(&common::load_record(), Format::Csv).unwrap();
    let (header, rows) = csv.split_once('\n').unwrap();
    assert!(header.contains(",response_time_p50_ns,") && !header.contains("half_rtt"), "{header}");
    assert!(
        header.ends_with(
            "rate_per_second,arrivals,invalid,answered_rate_per_second,lateness_p99_ns,outstanding_most_messages"
        ),
        "{header}"
    );
    assert!(rows.lines().next().unwrap().ends_with(",10000,poisson,,10000,850,3"), "{rows}");
}

#[test]
fn load_in_the_format_of_a_ping_pong_is_refused() {
    for format in [Format::Exanic, Format::Sockperf, Format::Netpipe] {
        let error = render(&common::load_record(), format).unwrap_err().to_string();
        assert!(error.contains("load") && error.contains(format.name()) && error.contains("csv"), "{error}");
    }
}

#[test]
fn page_of_a_load_draws_latency_against_rate_and_no_published_marks() {
    let page = render_html(&[common::load_record()]).unwrap();
    for words in ["carries 200 000 messages of 64 B a second", "Latency against rate", "knee at 100 000"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("ExaNIC"), "what was published is half of a round trip without load");
}

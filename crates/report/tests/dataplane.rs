//! What the terminal, scripts and browsers see of a dataplane experiment.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::dataplane::{dataplane_record, one_size_record, small_dataplane_record};
use nearwire_report::dataplane::record::{DataplaneRecord, Method, Part, State};
use nearwire_report::{HtmlError, TableOptions, render_dataplane_csv, render_dataplane_html, render_dataplane_table};

fn table(record: &DataplaneRecord, width: usize) -> String {
    render_dataplane_table(record, TableOptions { width, colour: false, intervals: false })
}

/// The page without the records' JSON; slashes as they are.
fn shown(records: &[DataplaneRecord]) -> String {
    let page = render_dataplane_html(records).unwrap().replace("&#x2f;", "/");
    page.split("<script type=\"application/json\"").next().unwrap().to_owned()
}

#[test]
fn record_as_table() {
    let table = table(&dataplane_record(), 120);
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    insta::assert_snapshot!(table);
}

#[test]
fn narrow_terminal_leaves_columns_out() {
    let table = table(&small_dataplane_record(), 80);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("(left out for width: L1 Gb/s, p99.9 us, reordered, doubled"), "{table}");
}

#[test]
fn colour_only_adds_escapes() {
    let record = small_dataplane_record();
    let coloured = render_dataplane_table(&record, TableOptions { width: 120, colour: true, intervals: false });
    let mut stripped = String::new();
    for (index, part) in coloured.split('\u{1b}').enumerate() {
        stripped.push_str(if index == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_ne!(coloured, stripped);
    assert_eq!(stripped, table(&record, 120));
}

#[test]
fn record_as_csv() {
    let csv = render_dataplane_csv(&small_dataplane_record());
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    insta::assert_snapshot!(csv);
}

#[test]
fn record_as_page() {
    let mut record = small_dataplane_record();
    for cell in &mut record.cells {
        cell.trials.truncate(4);
        cell.latency.truncate(3);
    }
    let page = shown(&[record]);
    let body = page.split_once("<body>").unwrap().1;
    insta::assert_snapshot!(body.replace("><", ">\n<"));
}

#[test]
fn page_has_every_chart_and_says_every_state() {
    let page = shown(&[dataplane_record()]);
    for words in [
        "io/xdp carries 1.41 Mpps of 64 B (PDR); l2/xdp carries 1.20, 3.99 times as many as l2/kernel.",
        "aria-label=\"frames a second of each device against frame size, by PDR\"",
        "aria-label=\"bits a second of each device against frame size, by NDR\"",
        "aria-label=\"latency of each device at imix against load\"",
        "aria-label=\"frame loss rate of each device at 64 B against rate\"",
        "aria-label=\"rate of each trial of l2/xdp 64 B, in their order\"",
        "the parts that frames pass, in their order: generator, forwarder l2/xdp, sink",
        "NDR: less than 0.00900 Mpps; it does not keep to the goal at the least rate",
        "at the highest rate that was allowed it still keeps to the goal",
        "trials or time were used up before the bounds were near enough",
        "the generator was too slow, so the device carries at least that",
        "CPU 0, shared with sink",
        "l2/packet 1514 B failed: open a port on nw1: permission denied",
        "generator and sink share CPU 0",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    assert!(page.contains("class=\"ring\"") && page.contains("class=\"chip shared\""));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn one_size_has_bars_in_place_of_lines() {
    let page = shown(&[one_size_record()]);
    assert!(page.contains("aria-label=\"frames a second of each device at 64 B\""));
    assert!(!page.contains("against frame size"));
}

#[test]
fn record_without_devices_has_no_page_and_a_table_that_says_so() {
    let mut record = dataplane_record();
    record.cells.clear();
    assert!(matches!(render_dataplane_html(&[]), Err(HtmlError::Nothing)));
    assert!(matches!(render_dataplane_html(std::slice::from_ref(&record)), Err(HtmlError::Nothing)));
    assert!(table(&record, 120).contains("No device was measured."));
    assert_eq!(render_dataplane_csv(&record).lines().count(), 1);
}

#[test]
fn records_without_a_figure_have_a_verdict() {
    let mut record = one_size_record();
    for found in record.cells.iter_mut().flat_map(|cell| &mut cell.throughput) {
        (found.state, found.lower_fps) = (State::Lossy, None);
    }
    assert!(table(&record, 120).contains("No device keeps to PDR at any rate that was tried."));
    assert!(shown(&[record.clone()]).contains("No device keeps to PDR"));
    record.cells.iter_mut().for_each(|cell| cell.throughput.clear());
    assert!(table(&record, 120).contains("No device could be measured."));
    record.goals.clear();
    record.method = Method::Rfc2544;
    let table = table(&record, 120);
    assert!(table.contains("The experiment had no goal.") && table.contains("RFC 2544"), "{table}");
    assert!(shown(&[record]).contains("The experiment had no goal."));
}

#[test]
fn a_figure_that_is_a_least_is_not_the_kernels_best() {
    let mut record = one_size_record();
    record.cells[4].throughput[1].state = State::GeneratorLimited;
    let table = table(&record, 120);
    assert!(table.contains("\nio/xdp carries 1.41 Mpps of 64 B (PDR).\n"), "{table}");
}

#[test]
fn more_parts_than_a_row_has_are_drawn_in_the_next() {
    let mut record = one_size_record();
    let link = |index: usize| Part {
        name: format!("bridge {index}"),
        detail: "a detail that is much longer than what fits into two lines of a box of this width ".repeat(3),
        interfaces: vec!["left".to_owned(), "right".to_owned()],
        cpus: vec![1, 2, 3, 4, 5, 6, 7, 8],
        place: if index < 3 { "host" } else { "guest" }.to_owned(),
    };
    for cell in &mut record.cells {
        cell.parts.splice(1..1, (0..6).map(link));
    }
    let page = shown(&[record]);
    for words in ["bridge 5</text>", "host</text>", "guest (the same)</text>", "class=\"wire\" d=\"M"] {
        assert!(page.contains(words), "no {words}");
    }
}

#[test]
fn size_without_a_figure_is_a_gap_in_the_line() {
    let mut record = dataplane_record();
    record.cells.retain(|cell| cell.device == "l2/xdp" && cell.sizes != "imix");
    let curves = |record: &DataplaneRecord| {
        let page = shown(std::slice::from_ref(record));
        let chart = page.split("aria-label=\"frames a second of each device").nth(1).unwrap();
        chart.split("</svg>").next().unwrap().matches("class=\"curve").count()
    };
    assert_eq!(curves(&record), 1);
    record.cells[3].throughput.clear();
    assert_eq!(curves(&record), 2);
}

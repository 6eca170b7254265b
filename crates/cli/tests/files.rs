//! What is written and read: full disks, broken records, formats.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use common::{assert_says, bench, code, command, errors, may_run, nearwire, record, text};
use serde_json::Value;

fn short_record(file: &Path) -> Value {
    let output =
        bench(&["udp/spin", "frame/packet", "--rounds", "8", "--count", "4000", "--json", file.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    record(file)
}

#[test]
fn disk_full_names_the_file_and_prints_what_was_measured() {
    if !may_run() {
        return;
    }
    for option in ["--json", "--report", "--samples"] {
        let output = bench(&["udp/spin", option, "/dev/full"]);
        assert_says(&output, 4, &[if option == "--samples" { "raw samples" } else { "/dev/full" }, "space"]);
        assert!(text(&output).contains("udp/spin"), "{option}: the results were lost");
    }
    let full = Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let output = command(&["bench", "udp/spin"]).args(common::SHORT).stdout(full).output().unwrap();
    assert_says(&output, 4, &["standard output", "space"]);
}

#[test]
fn file_that_cannot_be_written_is_refused_before_measuring() {
    let directory = tempfile::tempdir().unwrap();
    for file in [directory.path().to_str().unwrap(), "/nonexistent/directory/r.json"] {
        for option in ["--json", "--report", "--samples"] {
            let output = bench(&["udp/spin", option, file]);
            assert_says(&output, 2, &[file]);
            assert_eq!(text(&output), "");
        }
    }
}

#[test]
fn broken_records_are_named_with_their_fault() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let newer = r#"{"schema":"nearwire-record","schema_version":99}"#;
    let broken = [
        (file("empty.json", ""), "empty.json"),
        (file("cut.json", r#"{"schema":"nearwire-record","schema_version":1,"runs":[{"#), "cut.json"),
        (file("other.json", r#"{"a":1}"#), "other.json"),
        (file("list.json", "[]"), "list.json"),
        (file("binary.json", "\u{0}\u{1}PNG"), "binary.json"),
        (file("newer.json", newer), "99"),
        ("/nonexistent.json".to_owned(), "/nonexistent.json"),
    ];
    let page = directory.path().join("out.html");
    for (path, word) in broken {
        assert_says(&nearwire(&["compare", &path, &path]), 2, &[word]);
        assert_says(&nearwire(&["report", &path, "-o", page.to_str().unwrap()]), 2, &[word]);
        assert!(!page.exists());
    }
}

#[test]
fn numbers_that_would_let_everything_pass_are_refused() {
    for (option, value) in [("--threshold", "NaN"), ("--cpu-threshold", "-1"), ("--loss-threshold", "inf")] {
        let option = format!("{option}={value}");
        assert_says(&nearwire(&["compare", &option, "a.json", "b.json"]), 2, &["a number of per cent"]);
    }
    for value in ["95", "0.99999", "0", "NaN"] {
        let option = format!("--confidence={value}");
        assert_says(&nearwire(&["compare", &option, "a.json", "b.json"]), 2, &["from 0.5 to 0.9999"]);
    }
}

#[test]
fn record_against_itself_has_no_difference_and_against_a_slower_one_has() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a.json"), directory.path().join("b.json"));
    let mut slower = short_record(&a);
    let same = nearwire(&["compare", a.to_str().unwrap(), a.to_str().unwrap()]);
    assert_eq!(code(&same), Some(0), "{}{}", text(&same), errors(&same));
    let mut fewer = slower.clone();
    fewer["runs"].as_array_mut().unwrap().pop();
    fs::write(&b, fewer.to_string()).unwrap();
    let missing = nearwire(&["compare", a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(code(&missing), Some(1), "{}{}", text(&missing), errors(&missing));
    assert!(text(&missing).contains("Missing in B: "), "{}", text(&missing));
    let strict = ["compare", "--confidence", "0.9999", "--threshold", "0", "--conclusive"];
    let undecided = nearwire(&[&strict[..], &[a.to_str().unwrap(), a.to_str().unwrap()]].concat());
    assert_eq!(code(&undecided), Some(3), "{}{}", text(&undecided), errors(&undecided));
    double_latencies(&mut slower);
    fs::write(&b, slower.to_string()).unwrap();
    let different = nearwire(&["compare", a.to_str().unwrap(), b.to_str().unwrap()]);
    assert_eq!(code(&different), Some(1), "{}{}", text(&different), errors(&different));
    assert!(text(&different).contains("slower"));
    let page = directory.path().join("both.html");
    let report = nearwire(&["report", a.to_str().unwrap(), b.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    assert_eq!(code(&report), Some(0), "{}", errors(&report));
    assert!(fs::read_to_string(&page).unwrap().contains("frame/packet"));
}

/// Every half round trip twice as long.
fn double_latencies(value: &mut Value) {
    const LATENCIES: [&str; 12] =
        ["min", "p50", "p90", "p99", "p99_9", "p99_99", "p99_999", "max", "value_ns", "low_ns", "high_ns", "p50_ns"];
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_f64() {
                    Some(ns) if LATENCIES.contains(&name.as_str()) => *member = (ns * 2.0).into(),
                    _ => double_latencies(member),
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(double_latencies),
        _ => {}
    }
}

#[test]
fn samples_file_has_a_line_for_every_round_trip() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (json, samples) = (directory.path().join("r.json"), directory.path().join("s.csv"));
    let output =
        bench(&["udp/spin", "frame/xdp", "--json", json.to_str().unwrap(), "--samples", samples.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let lines = fs::read_to_string(&samples).unwrap();
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some("path,tx,rx,size_bytes,ip_version,round,sent_ns,rtt_ns"));
    let lines = lines.collect::<Vec<_>>();
    let counted =
        record(&json)["runs"].as_array().unwrap().iter().map(|run| run["samples"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(lines.len() as u64, counted);
    for line in lines {
        let fields = line.split(',').collect::<Vec<_>>();
        assert_eq!(fields.len(), 8, "{line}");
        assert!(fields[7].parse::<u64>().unwrap() > 100, "{line}");
    }
}

#[test]
fn every_format_is_what_its_readers_look_for() {
    if !may_run() {
        return;
    }
    let print = |format: &str| text(&bench(&["udp/spin", "frame/packet", "--format", format]));
    let json: Value = serde_json::from_str(&print("json")).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    let csv = print("csv");
    let columns = csv.lines().map(|line| line.split(',').count()).collect::<Vec<_>>();
    assert!(columns.len() == 3 && columns.iter().all(|count| *count == columns[0]), "{csv}");
    assert!(print("sockperf").contains("---> percentile 50.000 ="));
    assert!(print("exanic").lines().count() > 1);
    let netpipe = print("netpipe");
    assert!(netpipe.lines().any(|line| line.split_whitespace().count() >= 3), "{netpipe}");
    assert_says(&bench(&["--format", "xml"]), 2, &["xml", "table"]);
}

#[test]
fn reader_that_leaves_is_no_failure() {
    for args in [&["settings"][..], &["--help"][..]] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(!errors(&output).contains("panicked"), "{}", errors(&output));
    }
}

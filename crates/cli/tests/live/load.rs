//! `nearwire bench --workload load`: messages by a schedule.

use serde_json::Value;

use crate::common::{code, errors, may_run, nearwire, record, text};

const PATHS: [&str; 7] = ["udp/spin", "udp/block", "udp/bypass", "udp/sockets", "tcp/epoll", "tcp/bypass", "frame/xdp"];

fn metric(run: &Value, name: &str) -> f64 {
    let metrics = run["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn every_path_is_measured_at_each_rate_and_says_what_it_answered() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, samples) = (directory.path().join("r.json"), directory.path().join("samples.csv"));
    let mut args = vec!["bench"];
    args.extend(PATHS);
    args.extend(["--workload", "load", "--rate", "500,2k", "--arrivals", "fixed", "--time", "200ms", "--rounds", "2"]);
    args.extend(["--size", "64", "--tx", "frame", "--rx", "in-place", "--xdp", "generic", "--quiet"]);
    args.extend(["--json", file.to_str().unwrap(), "--samples", samples.to_str().unwrap()]);
    let output = nearwire(&args);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    for words in ["response time, us - load, fixed arrivals", "answered/s", "late p99"] {
        assert!(text(&output).contains(words), "{words}: {}", text(&output));
    }
    let record = record(&file);
    let experiment = &record["experiment"];
    assert_eq!([&experiment["latency"], &experiment["arrivals"]], ["response-time", "fixed"]);
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * PATHS.len());
    for run in runs {
        let rate_per_second = run["rate_per_second"].as_u64().unwrap();
        let count = |name: &str| run[name].as_u64().unwrap();
        // 200 ms of a fixed rate, in two rounds.
        let all = count("samples") + count("lost") + metric(run, "unsent") as u64;
        assert_eq!(all, rate_per_second / 5, "{run:#} {:#}", record["warnings"]);
        let is_valid = run["invalid"].is_null();
        assert!(!is_valid || metric(run, "sent-rate") > rate_per_second as f64 * 0.98, "{run:#}");
        assert!(metric(run, "answered-rate") <= rate_per_second as f64 * 1.01, "{run:#}");
        assert!(run["cpu_initiator_ns_per_message"].is_null(), "a generator that never sleeps");
    }
    let lines = std::fs::read_to_string(samples).unwrap();
    assert!(lines.lines().next().unwrap().ends_with("sent_ns,rtt_ns,rate_per_second,intended_ns"), "{lines:.200}");
    for line in lines.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let at = |index: usize| fields[index].parse::<u64>().unwrap();
        assert!(at(9) <= at(6), "no message leaves before it is due: {line}");
    }
}

#[test]
fn sweep_finds_what_a_path_carries_and_prints_it() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, page) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let output = nearwire(&[
        "bench",
        "udp/block",
        "--workload",
        "load",
        "--rate",
        "sweep",
        "--time",
        "100ms",
        "--rounds",
        "2",
        "--size",
        "64",
        "--quiet",
        "--json",
        file.to_str().unwrap(),
        "--report",
        page.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record = record(&file);
    let rates: Vec<u64> =
        record["runs"].as_array().unwrap().iter().map(|run| run["rate_per_second"].as_u64().unwrap()).collect();
    assert!((2..=10).contains(&rates.len()) && rates.is_sorted(), "{rates:?}");
    assert!(text(&output).contains("udp/block 64 B: carries "), "{}", text(&output));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Latency against rate") && page.contains("response time"), "the page has the chart");
}

#[test]
fn stream_counts_what_arrives_on_every_path_and_tcp_loses_nothing() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, page) = (directory.path().join("r.json"), directory.path().join("r.html"));
    let mut args = vec!["bench"];
    args.extend(PATHS);
    args.extend(["--workload", "stream", "--count", "20000", "--rounds", "2", "--size", "64,1400", "--quiet"]);
    args.extend(["--tx", "frame", "--rx", "in-place", "--xdp", "generic"]);
    args.extend(["--json", file.to_str().unwrap(), "--report", page.to_str().unwrap()]);
    let output = nearwire(&args);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    for words in ["one way - stream", "received/s", "Gb/s"] {
        assert!(text(&output).contains(words), "{words}: {}", text(&output));
    }
    let record = record(&file);
    assert_eq!(record["experiment"]["latency"], "none");
    for run in record["runs"].as_array().unwrap() {
        let count = |name: &str| run[name].as_u64().unwrap();
        assert_eq!(
            (count("samples") + count("lost"), count("duplicated"), count("corrupted")),
            (20_000, 0, 0),
            "{run:#}"
        );
        assert!(count("samples") > 0 && metric(run, "received-rate") > 0.0, "{run:#}");
        let bits = metric(run, "received-rate") * f64::from(run["size_bytes"].as_u64().unwrap() as u32) * 8.0;
        assert!((metric(run, "received-bits") / bits - 1.0).abs() < 1e-9);
        if run["path"].as_str().unwrap().starts_with("tcp") {
            assert_eq!(count("lost"), 0, "{run:#}");
        }
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("How much each path moves") && page.contains("Bits a second"), "the page has the charts");
}

#[test]
fn stream_over_a_faulty_wire_counts_lost_doubled_and_reordered_frames() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let output = nearwire(&[
        "bench",
        "frame/packet",
        "udp/bypass",
        "--workload",
        "stream",
        "--count",
        "2000",
        "--rounds",
        "1",
        "--size",
        "64",
        "--fault",
        "loss=10%,duplicate=5%,reorder=5%,on=send",
        "--quiet",
        "--json",
        file.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    for run in record(&file)["runs"].as_array().unwrap() {
        let count = |name: &str| run[name].as_u64().unwrap();
        assert_eq!(count("samples") + count("lost"), 2000, "{run:#}");
        // More may be lost at the far end's ring.
        assert!(count("lost") >= 130, "{run:#}");
        assert!(count("duplicated") > 0 && count("reordered") > 0, "{run:#}");
    }
}

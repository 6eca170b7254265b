//! The command as scripts use it. Needs privileges for namespaces; says SKIP without them unless NEARWIRE_REQUIRE is set.

use crate::common::{assert_says, bench, code, errors, may_run, nearwire, record, text};

#[test]
fn unknown_path_is_a_usage_error_that_lists_the_known_ones() {
    let output = nearwire(&["bench", "udp/blok"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("udp/block"));
}

#[test]
fn missing_record_is_unusable_input() {
    assert_eq!(nearwire(&["compare", "/nonexistent/a.json", "/nonexistent/b.json"]).status.code(), Some(2));
}

#[test]
fn size_above_mtu_is_a_usage_error() {
    if may_run() {
        let output = nearwire(&["bench", "udp/spin", "--size", "9000"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("1472"));
    }
}

#[test]
fn every_named_path_gives_a_run_with_samples() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let paths = ["udp/spin", "udp/bypass", "udp/sockets", "tcp/block", "tcp/bypass", "frame/packet", "frame/xdp"];
    let mut args = vec!["bench"];
    args.extend(paths);
    args.extend(["--count", "200", "--size", "64", "--rounds", "2", "--quiet", "--json", file.to_str().unwrap()]);
    let output = nearwire(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let record = record(&file);
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6 + 4);
    for run in runs {
        assert!(paths.contains(&run["path"].as_str().unwrap()));
        assert_eq!(run["samples"].as_u64().unwrap() + run["lost"].as_u64().unwrap(), 200);
        assert!(run["latency_ns"]["p50"].as_f64().unwrap() > 0.0);
        assert!(run["latency_ns"]["p99_99"].is_null());
    }
}

#[test]
fn impossible_wishes_are_usage_errors_that_say_what_is_possible() {
    if !may_run() {
        return;
    }
    for (args, words) in [
        (&["udp/spin", "--fault", "loss=1%"][..], &["udp/spin", "--fault", "frame/xdp"][..]),
        (&["tcp/block", "--vlan", "5"], &["tcp/block", "--vlan"]),
        (&["udp/bypass", "--vlan", "5"], &["udp/bypass", "--vlan"]),
        (&["udp/bypass", "--workload", "forward"], &["udp/bypass", "forward"]),
        (&["udp/spin", "--workload", "forward"], &["forward", "frame/packet"]),
        (&["frame/xdp", "--fault", "loss=1"], &["loss=1", "%"]),
        (&["--cpus", "0,4095"], &["4095", "--cpus"]),
        (&["udp/spin", "--rate", "10k"], &["--rate", "--workload load"]),
        (&["udp/spin", "--arrivals", "fixed"], &["--arrivals", "--workload load"]),
        (&["udp/spin", "--workload", "load", "--rate", "0"], &["'0'", "10k", "sweep"]),
        (&["udp/spin", "--workload", "load", "--arrivals", "bursts"], &["bursts", "poisson"]),
        (&["udp/spin", "--workload", "load", "--format", "sockperf"], &["sockperf", "load", "csv"]),
        (&["--ip", "5"], &["5"]),
        (&["--cable", "eth0"], &["eth0", "IF0:IF1"]),
    ] {
        assert_says(&bench(args), 2, words);
    }
    assert_says(&nearwire(&["bench", "udp/spin", "--size", "0"]), 2, &["0 B", "1472"]);
    assert_says(&nearwire(&["bench", "frame/xdp", "--size", "20"]), 2, &["20 B", "60"]);
    assert_says(&nearwire(&["bench", "udp/spin", "--workload", "load", "--size", "2"]), 2, &["2 B", "load", "4 B"]);
    assert_says(&nearwire(&["bench", "--time", "0s"]), 2, &["0s"]);
}

#[test]
fn lossy_reordering_duplicating_wire_ends_with_the_right_counts() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let faults = "loss=10%,reorder=10%,duplicate=10%";
    let paths = ["frame/xdp", "frame/packet", "udp/bypass"];
    let output =
        bench(&[&paths[..], &["--fault", faults, "--timeout", "5ms", "--json", file.to_str().unwrap()]].concat());
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    let record = record(&file);
    assert!(record["experiment"]["fault"].as_str().unwrap().contains("loss=10%"));
    for run in record["runs"].as_array().unwrap() {
        let count = |name: &str| run[name].as_u64().unwrap();
        assert_eq!(count("samples") + count("lost"), 200, "{run:#}");
        assert!((5..60).contains(&count("lost")), "{run:#}");
        assert!((5..60).contains(&count("duplicated")), "{run:#}");
    }
}

#[test]
fn wire_that_loses_everything_ends_soon_and_fails() {
    if !may_run() {
        return;
    }
    let began = std::time::Instant::now();
    let output = nearwire(&["bench", "frame/packet", "--fault", "loss=100%", "--size", "64", "--quiet"]);
    assert_says(&output, 4, &["nothing was measured"]);
    assert!(text(&output).contains("all-lost"), "{}", text(&output));
    assert!(began.elapsed().as_secs() < 60);
}

#[test]
fn forwarder_has_its_own_latency() {
    if !may_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let output = bench(&["--workload", "forward", "--count", "2000", "--json", file.to_str().unwrap()]);
    assert_eq!(code(&output), Some(0), "{}", errors(&output));
    for run in record(&file)["runs"].as_array().unwrap() {
        let p50 = run["forwarder_ns"].as_array().unwrap().iter().find(|quantile| quantile["percent"] == 50.0).unwrap();
        let (own_ns, loop_ns) = (p50["value_ns"].as_f64().unwrap(), run["latency_ns"]["p50"].as_f64().unwrap() * 2.0);
        assert!(own_ns > 0.0 && own_ns < loop_ns, "{own_ns} of {loop_ns}");
    }
}

#[test]
fn tagged_frames_and_both_ip_versions_run() {
    if !may_run() {
        return;
    }
    let tagged = bench(&["--vlan", "5"]);
    assert_eq!(code(&tagged), Some(0), "{}", errors(&tagged));
    assert!(text(&tagged).contains("frame/packet") && text(&tagged).contains("frame/xdp"));
    let both = bench(&["udp/spin", "udp/bypass", "tcp/block", "tcp/bypass", "--ip", "4,6"]);
    assert_eq!(code(&both), Some(0), "{}", errors(&both));
    assert!(text(&both).contains("v4") && text(&both).contains("v6"), "{}", text(&both));
}

#[test]
fn tcp_past_the_kernel_carries_long_messages_and_repairs_what_a_faulty_wire_loses() {
    if !may_run() {
        return;
    }
    for (size, more) in [("100000", None), ("64", Some("loss=2%"))] {
        let mut args = vec!["tcp/bypass", "--size", size, "--timeout", "10s", "--format", "csv"];
        args.extend(more.iter().flat_map(|fault| ["--fault", *fault]));
        let output = bench(&args);
        assert_eq!(code(&output), Some(0), "{size}: {}", errors(&output));
        let csv = text(&output);
        let [names, row] = [0, 1].map(|line| csv.lines().nth(line).unwrap().split(',').collect::<Vec<_>>());
        let lost = names.iter().position(|name| *name == "lost").unwrap();
        assert_eq!(row[lost], "0", "{size}: {csv}");
    }
}

#[test]
fn both_ends_on_one_cpu_run_and_are_labelled() {
    if may_run() {
        let output = bench(&["udp/block", "tcp/epoll", "--cpus", "0,0"]);
        assert_eq!(code(&output), Some(0), "{}", errors(&output));
        assert!(text(&output).contains("shared-core"), "{}", text(&output));
    }
}

#[test]
fn cell_asked_for_twice_is_measured_once() {
    if may_run() {
        let output = bench(&["udp/block", "udp/block", "--format", "csv"]);
        assert_eq!(text(&output).lines().count(), 2, "{}", text(&output));
    }
}

#[test]
fn paths_are_listed_with_their_reasons() {
    if !may_run() {
        return;
    }
    let output = nearwire(&["paths", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    let rows = rows.as_array().unwrap();
    let names: std::collections::BTreeSet<_> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rows.len(), "a path is listed twice");
    let known =
        ["udp/block", "udp/spin", "udp/bypass", "udp/sockets", "tcp/block", "tcp/bypass", "frame/packet", "frame/xdp"];
    for path in known {
        assert!(names.contains(path), "{path} is not among {names:?}");
    }
    assert!(rows.iter().all(|row| row["runs"] == true || !row["why_not"].as_str().unwrap().is_empty()));
}

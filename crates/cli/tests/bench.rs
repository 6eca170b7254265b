//! The command as scripts use it. Needs privileges for namespaces; says SKIP without them unless NEARWIRE_REQUIRE is set.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::Command;

fn nearwire(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_nearwire")).args(args).output().expect("the program starts")
}

fn may_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root");
        println!("SKIP not root");
    }
    root
}

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
    let paths = ["udp/spin", "tcp/block", "frame/packet", "frame/xdp"];
    let mut args = vec!["bench"];
    args.extend(paths);
    args.extend(["--count", "200", "--size", "64", "--rounds", "2", "--quiet", "--json", file.to_str().unwrap()]);
    let output = nearwire(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3 + 4);
    for run in runs {
        assert!(paths.contains(&run["path"].as_str().unwrap()));
        assert_eq!(run["samples"].as_u64().unwrap() + run["lost"].as_u64().unwrap(), 200);
        assert!(run["half_rtt_ns"]["p50"].as_f64().unwrap() > 0.0);
        assert!(run["half_rtt_ns"]["p99_99"].is_null());
    }
}

//! Tools of the field as the subject of a measurement, each in a network namespace of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use nearwire_worth::subject::command::{UserCommand, Wanted};
use nearwire_worth::{Figure, Subject};

/// Whether root and these programs are here; elsewhere the test says SKIP, or fails where nothing may be skipped.
fn may_run(programs: &[&str]) -> bool {
    let paths = std::env::var("PATH").unwrap_or_default();
    let is_here = |program: &&&str| paths.split(':').any(|path| Path::new(path).join(program).exists());
    let missing: Vec<_> = programs.iter().filter(|program| !is_here(program)).collect();
    let can = rustix::process::geteuid().is_root() && missing.is_empty();
    if !can {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "this test needs root and {missing:?}");
        println!("SKIP not root, or without {missing:?}");
    }
    can
}

/// A command whose loopback interface nobody else has.
fn command(script: &str) -> UserCommand {
    let script = format!("ip link set lo up; {script}");
    let argv = ["unshare", "--net", "sh", "-c", &script].map(OsString::from).to_vec();
    UserCommand::new(argv, Duration::from_secs(30), Wanted::Recognised)
}

/// The processes of this program that listen in some namespace.
fn running(name: &str, argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let command_lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let words = |line: Vec<u8>| line.split(|byte| *byte == 0).map(|word| word.to_vec()).collect::<Vec<_>>();
    let is_it =
        |words: &Vec<Vec<u8>>| words[0] == name.as_bytes() && words.iter().any(|word| word == argument.as_bytes());
    command_lines.map(words).filter(is_it).count()
}

#[test]
fn sockperf_gives_the_same_figures_each_time_and_its_server_ends_with_it() {
    if !may_run(&["sockperf", "ip", "unshare"]) {
        return;
    }
    let client = "sockperf ping-pong -i 127.0.0.1 -p 11117 -t 1";
    let mut sockperf = command(&format!("sockperf server -i 127.0.0.1 -p 11117 >/dev/null & sleep 0.3; {client}"));
    let first = sockperf.run().unwrap();
    let second = sockperf.run().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for figure in [Figure::P50Ns, Figure::P99Ns, Figure::CpuPerMessageNs] {
        // From a fraction of a microsecond to a very busy machine.
        assert!((100.0..100e6).contains(&first[&figure]), "{first:?}");
    }
    assert!(first[&Figure::P50Ns] <= first[&Figure::P99Ns], "{first:?}");
    assert!(sockperf.latency().unwrap().starts_with("half of the round trip"));
    assert_eq!(running("sockperf", "11117"), 0);
}

#[test]
fn iperf3_gives_the_bit_rate_as_text_and_as_json() {
    if !may_run(&["iperf3", "ip", "unshare"]) {
        return;
    }
    for options in ["", "-J", "-u -b 20M", "-P 2"] {
        let client = format!("iperf3 -c 127.0.0.1 -p 11118 -t 1 {options}");
        let figures = command(&format!("iperf3 -s -p 11118 >/dev/null & sleep 0.3; {client}")).run().unwrap();
        assert_eq!(figures.keys().collect::<Vec<_>>(), [&Figure::BitsPerSecond], "{options}");
        assert!(figures[&Figure::BitsPerSecond] > 1e6, "{options}: {figures:?}");
    }
    assert_eq!(running("iperf3", "11118"), 0);
}

#[test]
fn tool_that_cannot_reach_its_server_fails_with_what_it_said() {
    if !may_run(&["iperf3", "ip", "unshare"]) {
        return;
    }
    for options in ["", "-J"] {
        let error = command(&format!("iperf3 -c 127.0.0.1 -p 11119 {options}")).run().unwrap_err().to_string();
        // With -J the exit code is 0 all the same.
        assert!(error.contains("Connection refused"), "{error}");
        assert_eq!(error.contains("exit code 1"), options.is_empty(), "{error}");
    }
}

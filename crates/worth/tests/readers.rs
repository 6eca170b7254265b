//! Figures in what tools print: outputs of the tools themselves, and what nobody prints on purpose.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use nearwire_worth::subject::readers::{Expression, Printed, READERS, ReadersError, read, read_expression, reader};
use nearwire_worth::{Figure, Figures};
use proptest::prelude::*;

use Figure::{BitsPerSecond, P50Ns, P99Ns, P999Ns, RatePerSecond};

fn output(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs").join(name)).unwrap()
}

fn printed(text: &str) -> Printed {
    Printed::new(text.as_bytes(), b"")
}

/// A file, the tool that is recognised, its figures, and the messages that the run had.
type Expected = (&'static str, &'static str, &'static [(Figure, f64)], Option<f64>);

#[rustfmt::skip]
const OUTPUTS: &[Expected] = &[
    ("sockperf-ping-pong.txt", "sockperf", &[(P50Ns, 1_918.0), (P99Ns, 32_833.0), (P999Ns, 52_882.0)], Some(165_326.0)),
    ("sockperf-full-rtt.txt", "sockperf", &[(P50Ns, 3_738.0), (P99Ns, 67_433.0), (P999Ns, 155_408.0)], Some(145_616.0)),
    ("sockperf-under-load.txt", "sockperf", &[(P50Ns, 23_180.0), (P99Ns, 1_561_800.0), (P999Ns, 2_392_568.0)], Some(10_003.0)),
    ("sockperf-throughput.txt", "sockperf", &[(RatePerSecond, 734_034.0), (BitsPerSecond, 358.415 * 1_048_576.0)], Some(734_384.0)),
    ("iperf3-tcp.txt", "iperf3", &[(BitsPerSecond, 14.8e9)], None),
    ("iperf3-tcp-kbytes.txt", "iperf3", &[(BitsPerSecond, 2_725_423.0 * 8_192.0)], None),
    ("iperf3-tcp-two-streams.txt", "iperf3", &[(BitsPerSecond, 21.2e9)], None),
    ("iperf3-udp.txt", "iperf3", &[(BitsPerSecond, 50.1e6)], None),
    ("iperf3-tcp.json", "iperf3", &[(BitsPerSecond, 14_412_961_093.383_877)], None),
    ("iperf3-udp.json", "iperf3", &[(BitsPerSecond, 50_061_444.107_498_7)], None),
    ("redis-benchmark.txt", "redis-benchmark", &[(P50Ns, 183_000.0), (P99Ns, 303_000.0), (RatePerSecond, 169_491.53)], Some(20_000.0)),
    ("redis-benchmark-quiet.txt", "redis-benchmark", &[(P50Ns, 183_000.0), (RatePerSecond, 169_491.53)], None),
    ("redis-benchmark.csv", "redis-benchmark", &[(P50Ns, 183_000.0), (P99Ns, 303_000.0), (RatePerSecond, 169_491.53)], None),
    ("wrk-latency.txt", "wrk", &[(P50Ns, 2_980_000.0), (P99Ns, 8_210_000.0), (RatePerSecond, 680.84)], Some(1_362.0)),
    ("wrk.txt", "wrk", &[(RatePerSecond, 815.47)], Some(816.0)),
    ("wrk2.txt", "wrk", &[(P50Ns, 3_320_000.0), (P99Ns, 1.07e9), (P999Ns, 1.19e9), (RatePerSecond, 1_988.42)], Some(342_024.0)),
    ("pgbench.txt", "pgbench", &[(RatePerSecond, 49_378.370_098)], Some(98_470.0)),
    ("pgbench-13.txt", "pgbench", &[(RatePerSecond, 85.296_346)], Some(10_000.0)),
    ("fio-read.txt", "fio", &[(P50Ns, 58_000.0), (P99Ns, 310_000.0), (P999Ns, 416_000.0), (RatePerSecond, 15_400.0), (BitsPerSecond, 63.2e6 * 8.0)], Some(15_415.4)),
    ("fio-write-lat.txt", "fio", &[(P50Ns, 652.0), (P99Ns, 1_256.0), (P999Ns, 80_384.0), (RatePerSecond, 719_000.0), (BitsPerSecond, 2_947e6 * 8.0)], Some(719_719.0)),
    ("fio-read.json", "fio", &[(P50Ns, 61_696.0), (P99Ns, 337_920.0), (P999Ns, 2_408_448.0), (RatePerSecond, 13_266.733_267), (BitsPerSecond, 54_340_539.0 * 8.0)], Some(13_280.0)),
    ("netperf-tcp-rr.txt", "netperf", &[(RatePerSecond, 29_150.15)], Some(291_501.5)),
    ("netperf-udp-rr-cpu.txt", "netperf", &[(RatePerSecond, 35_123.40)], Some(351_234.0)),
    ("netperf-tcp-stream.txt", "netperf", &[(BitsPerSecond, 4_742.36e6)], None),
    ("netperf-udp-stream.txt", "netperf", &[(BitsPerSecond, 4_230.69e6)], None),
    ("netperf-omni-keys.txt", "netperf", &[(P50Ns, 33_000.0), (P99Ns, 54_000.0), (RatePerSecond, 29_150.15)], Some(291_501.5)),
    ("netperf-omni-columns.txt", "netperf", &[(P50Ns, 33_000.0), (P99Ns, 54_000.0), (RatePerSecond, 29_150.15)], None),
];

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

#[test]
fn output_of_each_tool_is_recognised_and_read_in_our_units() {
    for (name, tool, figures, messages) in OUTPUTS {
        let found = read(&printed(&output(name)), &READERS).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.reader.name, *tool, "{name}");
        let read: Figures = found.reading.figures();
        let wanted: Figures = figures.iter().copied().collect();
        assert_eq!(read.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{name}");
        for (figure, value) in &wanted {
            assert!(close(read[figure], *value), "{name}: {figure:?} is {} and not {value}", read[figure]);
        }
        match (found.reading.messages(), messages) {
            (Some(read), Some(wanted)) => assert!(close(read, *wanted), "{name}: {read} messages"),
            (read, wanted) => assert_eq!(read, *wanted, "{name}"),
        }
        let has_latency = wanted.contains_key(&P50Ns);
        assert!(!has_latency || found.latency.unwrap().contains("as "), "{name}: {:?}", found.latency);
    }
}

#[test]
fn latency_of_every_output_says_what_it_is() {
    let latency = |name: &str| read(&printed(&output(name)), &READERS).unwrap().latency.unwrap();
    assert!(latency("netperf-omni-keys.txt").starts_with("the round trip"));
    assert!(latency("sockperf-ping-pong.txt").starts_with("half of the round trip"));
    assert!(latency("sockperf-full-rtt.txt").starts_with("the round trip"));
    assert!(latency("wrk-latency.txt").starts_with("the response time"));
    assert!(latency("fio-read.json").starts_with("the time of an operation"));
}

#[test]
fn output_of_no_tool_says_what_was_looked_for() {
    let error = read(&printed("elapsed 3 s, all fine\n"), &READERS).unwrap_err();
    let text = error.to_string();
    for word in ["sockperf: Summary:", "iperf3 -J", "--figure 'REGEX'", "tps ="] {
        assert!(text.contains(word), "no {word} in: {text}");
    }
    assert!(matches!(error, ReadersError::NotRecognised { .. }));
    let text = read(&printed("x"), &[reader("wrk").unwrap()]).unwrap_err().to_string();
    assert!(text.contains("Requests/sec:") && !text.contains("sockperf"), "{text}");
}

#[test]
fn outputs_of_two_tools_are_ambiguous_until_one_is_named() {
    let both = output("netperf-tcp-rr.txt") + "transaction type: x\ntps = 5.5 (without initial connection time)\n";
    let error = read(&printed(&both), &READERS).unwrap_err().to_string();
    assert!(error.contains("netperf") && error.contains("pgbench") && error.contains("--reader"), "{error}");
    let named = read(&printed(&both), &[reader("pgbench").unwrap()]).unwrap();
    assert_eq!(named.reading.figures(), Figures::from([(RatePerSecond, 5.5)]));
}

#[test]
fn tool_that_ran_twice_is_ambiguous() {
    let twice = output("netperf-tcp-rr.txt").repeat(2);
    let error = read(&printed(&twice), &READERS).unwrap_err().to_string();
    assert!(error.contains("the rate stands there 2 times") && error.contains("run netperf once"), "{error}");
}

#[test]
fn several_results_of_one_run_are_ambiguous_and_say_what_to_ask_for() {
    for (name, advice) in [
        ("redis-benchmark-two.csv", "-t get"),
        ("redis-benchmark-two-quiet.txt", "-t get"),
        ("iperf3-both-ways.txt", "one direction"),
        ("iperf3-both-ways.json", "one direction"),
        ("fio-both.json", "either reads or writes"),
    ] {
        let error = read(&printed(&output(name)), &READERS).unwrap_err().to_string();
        assert!(error.contains("2 times") && error.contains(advice), "{name}: {error}");
    }
}

#[test]
fn error_that_a_tool_reports_is_shown() {
    let error = read(&printed(&output("iperf3-refused.json")), &READERS).unwrap_err().to_string();
    assert!(error.contains("Connection refused"), "{error}");
}

#[test]
fn json_behind_lines_of_text_is_found() {
    let text = format!("note: both iodepth >= 1\n{{\n{}", output("fio-read.json"));
    assert_eq!(read(&printed(&text), &READERS).unwrap().reader.name, "fio");
}

#[test]
fn output_cut_off_before_its_numbers_says_so() {
    let whole = output("sockperf-ping-pong.txt");
    let cut = whole.split("sockperf: \u{1b}[2;35mTotal").next().unwrap().replace("[Total Run]", "");
    let error = read(&printed(&cut), &READERS).unwrap_err().to_string();
    assert!(error.contains("cut off") && error.contains("sockperf"), "{error}");
}

#[test]
fn number_of_another_locale_is_refused_and_not_read_by_half() {
    let text = output("netperf-tcp-rr.txt").replace("29150.15", "29150,15");
    let error = read(&printed(&text), &READERS).unwrap_err().to_string();
    assert!(error.contains("'29150,15'") && error.contains("LC_ALL=C"), "{error}");
    let thousands = output("netperf-omni-keys.txt").replace("=33\n", "=1'033\n");
    assert!(read(&printed(&thousands), &READERS).is_err());
    let not_a_number = output("netperf-omni-keys.txt").replace("=33\n", "=-nan\n");
    assert!(read(&printed(&not_a_number), &READERS).is_err());
}

#[test]
fn user_expression_finds_its_number_in_either_stream() {
    let expression = Expression::new(r"mean time: ([0-9.]+) ms").unwrap();
    assert_eq!(read_expression(&printed("a\nmean time: 2.5 ms\n"), &expression), Ok(2.5));
    assert_eq!(read_expression(&Printed::new(b"", b"\x1b[1mmean time: 7 ms"), &expression), Ok(7.0));
}

#[test]
fn user_expression_that_does_not_match_once_says_what_it_matched() {
    let expression = Expression::new(r"^took (\S+)$").unwrap();
    let error = |text: &str| read_expression(&printed(text), &expression).unwrap_err().to_string();
    assert!(error("nothing").contains("^took"));
    let several = error("took 1\ntook 2\n");
    assert!(several.contains("2 times (1, 2)"), "{several}");
    assert!(error("took 1,5\n").contains("'1,5'"));
    assert!(error("took -1\n").contains("'-1'"));
    assert!(error("took inf\n").contains("'inf'"));
    assert!(error("took 1e999\n").contains("1e999"));
}

#[test]
fn user_expression_needs_one_group() {
    for (pattern, word) in [("([0-9]+)/([0-9]+)", "2 groups"), ("[0-9]+", "0 groups"), ("(", "regular expression")] {
        let error = Expression::new(pattern).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(pattern), "{error}");
    }
    assert!(Expression::new("(?:a|b) ([0-9]+)").is_ok());
}

fn any_output() -> impl Strategy<Value = String> {
    let names: Vec<_> = OUTPUTS.iter().map(|(name, ..)| *name).collect();
    prop::sample::select(names).prop_map(output)
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(stdout: Vec<u8>, stderr: Vec<u8>) {
        let printed = Printed::new(&stdout, &stderr);
        let _ = read(&printed, &READERS);
        let _ = read_expression(&printed, &Expression::new("(.)").unwrap());
    }

    #[test]
    fn output_cut_off_anywhere_is_read_or_refused(text in any_output(), at in 0.0_f64..1.0) {
        let bytes = text.as_bytes();
        let cut = &bytes[..(bytes.len() as f64 * at) as usize];
        if let Ok(found) = read(&Printed::new(cut, b""), &READERS) {
            prop_assert!(found.reading.figures().values().all(|value| value.is_finite() && *value >= 0.0));
        }
    }

    #[test]
    fn output_with_changed_bytes_is_read_or_refused(text in any_output(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = text.into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(found) = read(&Printed::new(&bytes, b""), &READERS) {
            prop_assert!(found.reading.figures().values().all(|value| value.is_finite() && *value >= 0.0));
        }
    }

    #[test]
    fn figure_of_a_user_is_what_was_printed(value in 0.0_f64..1e12) {
        let expression = Expression::new("figure=(.*)").unwrap();
        let read = read_expression(&printed(&format!("x\nfigure={value}\n")), &expression).unwrap();
        prop_assert_eq!(read, value);
    }
}

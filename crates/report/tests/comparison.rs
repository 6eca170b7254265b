//! Verdicts on records with known truth: the same, shifted, noisy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::cell::RefCell;

use common::{Random, sample_record};
use nearwire_report::compare::{VariationComparison, compare_variations};
use nearwire_report::record::{Reading, Record, Run};
use nearwire_report::statistics::Distribution;
use nearwire_report::{
    CompareOptions, Comparison, Format, TableOptions, Verdict, compare, render, render_comparison, render_html,
    render_table,
};

const OPTIONS: CompareOptions = CompareOptions { confidence: 0.95, threshold_percent: 3.0, resamples: 300, seed: 7 };

/// Records are made from one template, so that a test spends its time on rounds.
fn template() -> Record {
    thread_local!(static MADE: RefCell<Option<Record>> = const { RefCell::new(None) });
    MADE.with_borrow_mut(|made| {
        made.get_or_insert_with(|| {
            let mut record = sample_record();
            record.runs.truncate(1);
            record
        })
        .clone()
    })
}

/// A record with one cell of ten rounds; `round_noise` is the deviation of the rounds' levels.
fn record(seed: u64, median_ns: f64, round_noise: f64) -> Record {
    let mut record = template();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9) + 1);
    let mut all = Distribution::new(usize::MAX);
    let run: &mut Run = &mut record.runs[0];
    for round in &mut run.rounds {
        let level = median_ns * (round_noise * random.normal()).exp();
        let rtt_ns = common::round_trips(&mut random, level, 500.0, 1_000);
        let figures = all.record_round(&rtt_ns, 0);
        (round.p50_ns, round.p99_ns, round.blocks) = (figures.p50_ns, figures.p99_ns, figures.blocks);
    }
    record
}

fn verdicts(seeds: u64, ratio: f64, round_noise: f64) -> Vec<Comparison> {
    (0..seeds)
        .map(|seed| {
            let a = record(2 * seed, 2_000.0, round_noise);
            let b = record(2 * seed + 1, 2_000.0 * ratio, round_noise);
            compare(&a, &b, OPTIONS)
        })
        .collect()
}

#[test]
fn same_distribution_shows_no_difference() {
    let alarms = verdicts(200, 1.0, 0.005).iter().filter(|found| found.has_difference()).count();
    assert!(alarms <= 10, "{alarms} of 200");
}

#[test]
fn noisy_rounds_give_no_false_verdict() {
    let alarms = verdicts(200, 1.0, 0.08).iter().filter(|found| found.has_difference()).count();
    assert!(alarms <= 10, "{alarms} of 200");
}

#[test]
fn tenth_more_is_slower_and_tenth_less_is_faster() {
    for (ratio, verdict) in [(1.10, Verdict::Slower), (1.0 / 1.10, Verdict::Faster)] {
        for found in verdicts(30, ratio, 0.01) {
            let figure = found.cells[0].p50.unwrap();
            assert_eq!(figure.verdict, verdict, "{figure:?}");
            assert!(figure.low <= figure.ratio && figure.ratio <= figure.high);
            assert!(found.has_difference());
        }
    }
}

#[test]
fn difference_below_the_threshold_is_not_called_one() {
    let differing = verdicts(30, 1.015, 0.001).iter().filter(|found| found.has_difference()).count();
    assert!(differing <= 2, "{differing} of 30");
}

#[test]
fn record_against_itself_shows_no_difference() {
    let record = sample_record();
    let found = compare(&record, &record, OPTIONS);
    assert_eq!(found.cells.len(), record.runs.len());
    assert!(!found.has_difference());
    assert!(found.figures().all(|figure| figure.ratio == 1.0));
}

#[test]
fn same_seed_gives_the_same_comparison() {
    let (a, b) = (record(1, 2_000.0, 0.01), record(2, 2_100.0, 0.01));
    assert_eq!(compare(&a, &b, OPTIONS), compare(&a, &b, OPTIONS));
}

#[test]
fn cells_and_settings_of_one_side_are_listed() {
    let (mut a, mut b) = (sample_record(), sample_record());
    a.runs.truncate(3);
    b.runs.drain(..1);
    b.runs.truncate(3);
    b.environment.initiator.insert("cpu.governor".to_owned(), Reading::Value { value: "performance".to_owned() });
    let found = compare(&a, &b, OPTIONS);
    assert_eq!((found.cells.len(), found.only_a.len(), found.only_b.len()), (2, 1, 1));
    assert_eq!(found.settings.len(), 1);
    let text = render_comparison(&found);
    assert!(text.contains("initiator cpu.governor: unsupported -> performance"), "{text}");
    assert!(text.contains("not-interleaved"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn few_rounds_give_no_verdict_and_say_so() {
    let (mut a, mut b) = (record(1, 2_000.0, 0.01), record(2, 4_000.0, 0.01));
    a.runs[0].rounds.truncate(2);
    b.runs[0].rounds.truncate(2);
    let found = compare(&a, &b, OPTIONS);
    assert_eq!((found.cells[0].p50, found.has_difference()), (None, false));
    assert!(found.notes.iter().any(|note| note.code == "few-rounds"));
}

#[test]
fn nothing_in_common_is_said_plainly() {
    let (a, mut b) = (sample_record(), sample_record());
    for run in &mut b.runs {
        run.cell.size_bytes += 1;
    }
    let found = compare(&a, &b, OPTIONS);
    assert!(found.cells.is_empty() && !found.has_difference());
    assert!(render_comparison(&found).contains("no cell in common"));
}

/// One experiment with a setting under each of these values, of which each takes so many times as long.
fn varied(values: &[(&str, f64)]) -> Record {
    let run = |(seed, (value, ratio)): (usize, &(&str, f64))| {
        let mut run = record(seed as u64, 2_000.0 * ratio, 0.005).runs.remove(0);
        run.cell.variation.insert("nic.offload.gro".to_owned(), (*value).to_owned());
        run
    };
    let runs = values.iter().enumerate().map(run).collect();
    Record { runs, ..template() }
}

#[test]
fn values_of_a_setting_are_compared_with_the_first_one() {
    let record = varied(&[("on", 1.0), ("off", 1.3), ("also", 1.0)]);
    let found = compare_variations(&record, OPTIONS);
    let told: Vec<_> = found
        .iter()
        .map(|VariationComparison { first, other }| {
            let value = |cell: &nearwire_report::record::Cell| cell.variation["nic.offload.gro"].clone();
            (value(first), value(&other.cell), other.p50.unwrap().verdict)
        })
        .collect();
    let row = |other: &str, verdict| ("on".to_owned(), other.to_owned(), verdict);
    assert_eq!(told, [row("off", Verdict::Slower), row("also", Verdict::NoDifference)]);
    assert!(compare_variations(&template(), OPTIONS).is_empty());
}

#[test]
fn values_of_a_setting_are_in_every_rendering() {
    let record = varied(&[("on", 1.0), ("off", 1.3)]);
    let table = render_table(&record, TableOptions { width: 200, ..TableOptions::default() });
    assert!(table.contains("nic.offload.gro=off against nic.offload.gro=on: p50 1."), "{table}");
    assert!(table.contains("SLOWER") && table.contains("variation"), "{table}");
    let csv = render(&record, Format::Csv).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",variation") && csv.contains(",nic.offload.gro=on\n"), "{csv}");
    assert!(render_html(std::slice::from_ref(&record)).unwrap().contains("nic.offload.gro=off"));
    assert!(render_comparison(&compare(&record, &record, OPTIONS)).contains("nic.offload.gro=on"));
    assert!(!render(&template(), Format::Csv).unwrap().contains("variation"));
}

#[test]
fn records_under_other_values_have_no_cell_in_common() {
    let (on, off) = (varied(&[("on", 1.0)]), varied(&[("off", 1.0)]));
    let found = compare(&on, &off, OPTIONS);
    assert_eq!((found.cells.len(), found.only_a.len(), found.only_b.len()), (0, 1, 1));
}

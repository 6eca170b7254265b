//! Verdicts on records with known truth: the same, shifted, noisy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::compared::{OPTIONS, record, template};
use common::sample_record;
use nearwire_report::compare::{VariationComparison, compare_variations};
use nearwire_report::record::{Reading, Record};
use nearwire_report::{
    CompareOptions, Comparison, Figure, Format, Quantity, TableOptions, Verdict, compare, render, render_comparison,
    render_html, render_table,
};

fn verdicts(seeds: u64, ratio: f64, round_noise: f64) -> Vec<Comparison> {
    (0..seeds)
        .map(|seed| {
            let a = record(2 * seed, 2_000.0, round_noise);
            let b = record(2 * seed + 1, 2_000.0 * ratio, round_noise);
            compare(&a, &b, OPTIONS)
        })
        .collect()
}

fn p50(found: &Comparison) -> Figure {
    *found.cells[0].figure(Quantity::P50).unwrap()
}

#[test]
fn tenth_more_is_slower_and_tenth_less_is_faster() {
    for (ratio, verdict) in [(1.10, Verdict::Worse), (1.0 / 1.10, Verdict::Better)] {
        for found in verdicts(10, ratio, 0.01) {
            let figure = p50(&found);
            assert_eq!(figure.verdict, verdict, "{figure:?}");
            let (low, high) = figure.interval.unwrap();
            assert!(low <= figure.change && figure.change <= high);
            assert!(figure.is_confirmed && found.has_difference());
        }
    }
}

#[test]
fn difference_below_the_threshold_is_not_called_one() {
    for found in verdicts(10, 1.015, 0.001) {
        assert_eq!(p50(&found).verdict, Verdict::NoDifference, "{:?}", p50(&found));
        assert!(!found.has_difference());
    }
}

#[test]
fn no_difference_is_said_only_where_the_interval_lies_within_the_threshold() {
    for round_noise in [0.001, 0.01, 0.03, 0.1] {
        for found in verdicts(10, 1.0, round_noise) {
            let figure = p50(&found);
            let (low, high) = figure.interval.unwrap();
            let is_within = low >= 1.0 / 1.03 && high <= 1.03;
            assert_eq!(figure.verdict == Verdict::NoDifference, is_within, "{figure:?}");
            assert!(is_within || figure.verdict == Verdict::CannotTell, "{figure:?}");
            let half_width = (high / figure.change).max(figure.change / low) * 100.0 - 100.0;
            let visible = figure.smallest_visible_percent.unwrap();
            assert!((visible / half_width.max(figure.noise_floor_percent.unwrap()) - 1.0).abs() < 1e-9, "{figure:?}");
        }
    }
    let noisy = &verdicts(1, 1.0, 0.1)[0];
    assert!(noisy.has_undecided() && !noisy.has_difference());
    assert!(render_comparison(noisy).contains("cannot tell (below "), "{}", render_comparison(noisy));
    assert!(render_comparison(noisy).contains("not everything could be told"));
}

#[test]
fn record_against_itself_shows_no_difference() {
    let record = sample_record();
    let found = compare(&record, &record, OPTIONS);
    assert_eq!(found.cells.len(), record.runs.len());
    assert!(!found.has_difference());
    assert!(found.figures().all(|figure| figure.change == f64::from(figure.quantity != Quantity::Loss)));
    assert!(found.figures().all(|figure| !figure.verdict.is_difference() && !figure.is_confirmed));
}

#[test]
fn other_cells_change_no_figure_of_a_cell() {
    let (a, b) = (record(1, 2_000.0, 0.01), record(2, 2_050.0, 0.01));
    let alone = compare(&a, &b, OPTIONS);
    let with_others = |record: &Record, others: u64| {
        let mut record = record.clone();
        for other in 0..others {
            let mut run = common::compared::record(10 + other, 3_000.0, 0.05).runs.remove(0);
            run.cell.path = format!("a/{other}");
            record.runs.insert(0, run);
        }
        record
    };
    for others in [1, 5] {
        let found = compare(&with_others(&a, others), &with_others(&b, others), OPTIONS);
        let cell = found.cells.iter().find(|cell| cell.cell == a.runs[0].cell).unwrap();
        for (figure, own) in cell.figures.iter().zip(&alone.cells[0].figures) {
            // Only whether it counts among all of them depends on how many there are.
            let mut figure = *figure;
            figure.is_confirmed = own.is_confirmed;
            assert_eq!(figure, *own);
        }
    }
}

#[test]
fn cells_with_the_same_rounds_have_streams_of_their_own() {
    let (mut a, mut b) = (record(1, 2_000.0, 0.02), record(2, 2_000.0, 0.02));
    for record in [&mut a, &mut b] {
        let mut other = record.runs[0].clone();
        other.cell.size_bytes += 1;
        record.runs.push(other);
    }
    let found = compare(&a, &b, CompareOptions { resamples: 100, ..OPTIONS });
    let intervals: Vec<_> = found.cells.iter().map(|cell| cell.figure(Quantity::P50).unwrap().interval).collect();
    assert_ne!(intervals[0], intervals[1]);
}

#[test]
fn round_with_many_blocks_weighs_no_more_than_another() {
    let (a, mut b) = (record(1, 2_000.0, 0.001), record(1, 2_000.0, 0.001));
    let before = p50(&compare(&a, &b, OPTIONS));
    // One round of ten is twice as slow and has a hundred times the blocks.
    let round = &mut b.runs[0].rounds[3];
    for block in &mut round.blocks {
        block.p50_ns *= 2.0;
    }
    round.blocks = round.blocks.repeat(100);
    round.p50_ns = round.p50_ns.map(|p50_ns| 2.0 * p50_ns);
    let found = p50(&compare(&a, &b, OPTIONS));
    assert!((found.change / before.change - 1.0).abs() < 0.002, "{found:?}");
    assert_eq!(found.verdict, Verdict::NoDifference, "{found:?}");
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
    assert!(found.has_difference(), "a cell that vanished is one");
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
    assert_eq!(found.cells[0].figure(Quantity::P50), None);
    assert!(!found.has_difference() && found.has_undecided());
    assert!(found.notes.iter().any(|note| note.code == "few-rounds"));
}

#[test]
fn nothing_in_common_is_said_plainly() {
    let (a, mut b) = (sample_record(), sample_record());
    for run in &mut b.runs {
        run.cell.size_bytes += 1;
    }
    let found = compare(&a, &b, OPTIONS);
    assert!(found.cells.is_empty() && found.has_difference() && found.has_undecided());
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
            (value(first), value(&other.cell), other.figure(Quantity::P50).unwrap().verdict)
        })
        .collect();
    let row = |other: &str, verdict| ("on".to_owned(), other.to_owned(), verdict);
    assert_eq!(told, [row("off", Verdict::Worse), row("also", Verdict::NoDifference)]);
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

//! Verdicts on records with known truth: the same, shifted, noisy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::cell::RefCell;

use common::{Random, sample_record};
use nearwire_report::compare::{VariationComparison, compare_variations};
use nearwire_report::record::{Reading, Record, Run};
use nearwire_report::statistics::Distribution;
use nearwire_report::{
    CompareOptions, Comparison, Figure, Format, Quantity, TableOptions, Verdict, compare, render, render_comparison,
    render_html, render_table,
};

const OPTIONS: CompareOptions = CompareOptions {
    confidence: 0.95,
    threshold_percent: 3.0,
    cpu_threshold_percent: 10.0,
    loss_threshold_percent: 0.1,
    resamples: 300,
    seed: 7,
};

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
        round.samples = rtt_ns.len() as u64;
    }
    run.samples = all.len();
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
            let mut run = self::record(10 + other, 3_000.0, 0.05).runs.remove(0);
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
fn figure_that_differs_alone_does_not_count_among_many() {
    // Fifty cells of which one differs by little more than its noise.
    let many = |ratio: f64, seed: u64| {
        let mut all = template();
        all.runs.clear();
        for cell in 0..50 {
            let ratio = if cell == 0 { ratio } else { 1.0 };
            let mut run = record(seed + cell, 2_000.0 * ratio, 0.01).runs.remove(0);
            run.cell.size_bytes = 100 + cell as u32;
            all.runs.push(run);
        }
        all
    };
    let found = compare(&many(1.0, 1), &many(1.045, 1_000), OPTIONS);
    let figure = p50(&found);
    assert!(figure.verdict == Verdict::Worse && figure.is_only_alone(), "{figure:?}");
    assert!(!found.has_difference() && found.has_undecided());
    let text = render_comparison(&found);
    assert!(text.contains("SLOWER (alone)") && text.contains("NOTE only-alone"), "{text}");
    assert!(text.contains("Holm's correction for"), "{text}");
    let mut alone = (many(1.0, 1), many(1.045, 1_000));
    alone.0.runs.truncate(1);
    alone.1.runs.truncate(1);
    let found = compare(&alone.0, &alone.1, OPTIONS);
    assert!(found.has_difference(), "{:?}", p50(&found));
    let mut confirmed = p50(&found);
    confirmed.is_confirmed = false;
    assert_eq!(confirmed, figure);
}

/// The record with so many messages lost in each of its ten rounds.
fn losing(record: &Record, lost: u64) -> Record {
    let mut record = record.clone();
    let run = &mut record.runs[0];
    for round in &mut run.rounds {
        round.lost = lost;
    }
    run.lost = 10 * lost;
    record
}

#[test]
fn lost_messages_are_a_difference_in_both_directions() {
    let plain = losing(&record(1, 2_000.0, 0.005), 0);
    let lossy = losing(&plain, 3);
    for (a, b, verdict, words) in
        [(&plain, &lossy, Verdict::Worse, "MORE LOSS"), (&lossy, &plain, Verdict::Better, "LESS LOSS")]
    {
        let found = compare(a, b, OPTIONS);
        let figure = found.cells[0].figure(Quantity::Loss).unwrap();
        assert!(figure.verdict == verdict && figure.is_confirmed, "{figure:?}");
        assert!(found.has_difference() && p50(&found).verdict == Verdict::NoDifference);
        assert!(render_comparison(&found).contains(words), "{}", render_comparison(&found));
    }
    for record in [&plain, &lossy] {
        assert!(!compare(record, record, OPTIONS).has_difference());
    }
    // One lost message of many is no proof of anything.
    let mut once = plain.clone();
    (once.runs[0].lost, once.runs[0].rounds[0].lost) = (1, 1);
    assert!(!compare(&plain, &once, OPTIONS).has_difference());
}

#[test]
fn quantile_of_a_lost_message_is_left_to_the_loss() {
    let a = losing(&record(1, 2_000.0, 0.005), 0);
    let mut b = losing(&a, 400);
    for round in &mut b.runs[0].rounds {
        round.p99_ns = None;
        for block in &mut round.blocks {
            block.p99_ns = None;
        }
    }
    for (a, b) in [(&a, &b), (&b, &a), (&b, &b)] {
        let found = compare(a, b, OPTIONS);
        let figure = found.cells[0].figure(Quantity::P99).unwrap();
        assert!(figure.is_lost() && figure.verdict == Verdict::CannotTell, "{figure:?}");
        assert_eq!(found.has_difference(), a != b);
        let text = render_comparison(&found);
        assert!(text.contains(" lost ") && text.contains("cannot tell (lost; see loss)"), "{text}");
    }
}

#[test]
fn tail_and_cpu_time_are_compared_too() {
    let a = sample_record();
    let mut b = a.clone();
    let spin = b.runs.iter_mut().find(|run| run.cell.path == "udp/spin" && run.cell.size_bytes == 64).unwrap();
    for line in spin.quantiles.iter_mut().filter(|line| line.percent > 99.8) {
        for value in [&mut line.value_ns, &mut line.low_ns, &mut line.high_ns].into_iter().flatten() {
            *value *= 3.0;
        }
    }
    for cpu_ns in spin.rounds.iter_mut().filter_map(|round| round.cpu_responder_ns_per_message.as_mut()) {
        *cpu_ns *= 0.8;
    }
    let found = compare(&a, &b, OPTIONS);
    let told: Vec<_> = found.figures().filter(|figure| figure.verdict.is_difference()).collect();
    let told: Vec<_> = told.iter().map(|figure| (figure.quantity, figure.verdict, figure.is_confirmed)).collect();
    let wanted = [(Quantity::P999, Verdict::Worse, true), (Quantity::CpuResponder, Verdict::Better, true)];
    assert_eq!(told, wanted);
    let text = render_comparison(&found);
    assert!(text.contains("LESS CPU\n") && !text.contains("NOTE no-interval"), "{text}");
}

#[test]
fn cpu_time_without_rounds_is_compared_by_its_size_alone() {
    let without_rounds = |cpu_ns: f64| {
        let mut record = record(1, 2_000.0, 0.001);
        let run = &mut record.runs[0];
        (run.cpu_initiator_ns_per_message, run.cpu_responder_ns_per_message) = (Some(cpu_ns), None);
        for round in &mut run.rounds {
            (round.cpu_initiator_ns_per_message, round.cpu_responder_ns_per_message) = (None, None);
        }
        record
    };
    let verdict = |cpu_ns| {
        let found = compare(&without_rounds(4_000.0), &without_rounds(cpu_ns), OPTIONS);
        let figure = *found.cells[0].figure(Quantity::CpuInitiator).unwrap();
        assert_eq!(figure.interval, None);
        assert_eq!(found.has_difference(), figure.verdict.is_difference());
        if found.has_difference() {
            let text = render_comparison(&found);
            assert!(text.contains("CPU (no interval)") && text.contains("NOTE no-interval"), "{text}");
        }
        figure.verdict
    };
    let verdicts = [3_500.0, 3_700.0, 4_300.0, 4_500.0].map(verdict);
    assert_eq!(verdicts, [Verdict::Better, Verdict::NoDifference, Verdict::NoDifference, Verdict::Worse]);
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
fn cell_that_only_b_has_is_no_difference() {
    let (mut a, b) = (sample_record(), sample_record());
    a.runs.truncate(3);
    let found = compare(&a, &b, OPTIONS);
    assert!(found.only_a.is_empty() && !found.only_b.is_empty() && !found.has_difference());
}

#[test]
fn cell_that_is_answered_on_one_side_only_is_a_difference() {
    let answered = record(1, 2_000.0, 0.01);
    let mut silent = answered.clone();
    let run = &mut silent.runs[0];
    (run.samples, run.lost) = (0, 1_000);
    (run.half_rtt_ns, run.mean_ns) = (Default::default(), None);
    run.quantiles.clear();
    run.rounds.clear();
    let found = compare(&answered, &silent, OPTIONS);
    assert!(found.has_difference() && found.answered_only_in_a.len() == 1);
    let text = render_comparison(&found);
    assert!(text.contains("Answered in A only: ") && text.contains("cells answered in A only: 1"), "{text}");
    let found = compare(&silent, &answered, OPTIONS);
    assert!(found.has_difference() && found.answered_only_in_b.len() == 1);
    // Nothing was sent at all.
    silent.runs[0].lost = 0;
    assert!(compare(&answered, &silent, OPTIONS).has_difference());
    let found = compare(&silent, &silent, OPTIONS);
    assert!(!found.has_difference() && found.has_undecided() && found.never_answered.len() == 1);
}

#[test]
fn cpus_that_were_moved_between_the_records_are_told() {
    let a = record(1, 2_000.0, 0.001);
    let mut b = record(2, 1_700.0, 0.001);
    assert!(!render_comparison(&compare(&a, &b, OPTIONS)).contains("machine"));
    for round in &mut b.runs[0].rounds {
        round.cache_line_ns = Some(30.0);
    }
    let text = render_comparison(&compare(&a, &b, OPTIONS));
    assert!(text.contains("a cache line took 61 ns between the two CPUs in A and 30 ns in B"), "{text}");
    assert!(text.contains("the machine differs too (NOTE machine-differs)"), "{text}");
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

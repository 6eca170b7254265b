//! What a comparison's exit code stands for, beside the latency of cells: many figures, loss, tails, CPU time, cells that
//! are gone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::compared::{OPTIONS, record, template};
use common::sample_record;
use nearwire_report::record::{Headline, Latency, Metric, MetricKind, Record};
use nearwire_report::{CompareOptions, Comparison, Figure, Quantity, Verdict, compare, render_comparison};

fn p50(found: &Comparison) -> Figure {
    *found.cells[0].figure(Quantity::P50).unwrap()
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
    (run.latency_ns, run.mean_ns) = (Default::default(), None);
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

/// A record of a stream has no latencies: its messages may take longer all the same.
#[test]
fn stream_that_moves_fewer_messages_is_slower() {
    let stream = |slower: f64| {
        let mut record = common::load_record();
        (record.experiment.workload, record.experiment.latency) = ("stream".to_owned(), Latency::None);
        record.runs.truncate(1);
        let run = &mut record.runs[0];
        (run.cell.rate_per_second, run.latency_ns, run.quantiles) = (None, Headline::default(), Vec::new());
        run.metrics = vec![Metric {
            name: "received-rate".to_owned(),
            unit: "messages/s".to_owned(),
            kind: MetricKind::Rate,
            value: Some(1e6 / slower),
        }];
        for round in &mut run.rounds {
            (round.p50_ns, round.p99_ns) = (None, None);
            round.blocks.clear();
            let noise = 1.0 + 0.002 * f64::from(round.index % 3);
            (round.samples, round.duration_ns) = (100_000, (1e8 * slower * noise) as u64);
        }
        record
    };
    let same = compare(&stream(1.0), &stream(1.0), CompareOptions::default());
    assert!(!same.has_difference() && !same.has_undecided(), "{}", render_comparison(&same));
    let slower = compare(&stream(1.0), &stream(1.2), CompareOptions::default());
    assert!(slower.has_difference(), "{}", render_comparison(&slower));
    assert!(render_comparison(&slower).contains("a message"), "{}", render_comparison(&slower));
}

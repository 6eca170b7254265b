//! How often a comparison is wrong, and how often it finds what was planted: simulated rounds, with and without drift.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Random;
use nearwire_report::record::{Block, Record, Run};
use nearwire_report::statistics::Distribution;
use nearwire_report::{CompareOptions, Comparison, Quantity, Verdict, compare};

/// A threshold that hides nothing: what is told is told by the intervals.
const OPTIONS: CompareOptions = CompareOptions {
    confidence: 0.95,
    threshold_percent: 0.1,
    cpu_threshold_percent: 10.0,
    loss_threshold_percent: 0.1,
    resamples: 200,
    seed: 7,
};

/// How the levels of a cell's rounds go with each other.
#[derive(Debug, Clone, Copy)]
enum Course {
    /// Not at all.
    Independent,
    /// Each resembles the one before: an AR(1) process with this correlation.
    Correlated(f64),
    /// Each is the one before and a step; both records begin at the same level.
    Walk,
}

impl Course {
    /// Logarithms of levels; `deviation` is that of a level, and of a step of a walk.
    fn levels(self, random: &mut Random, rounds: usize, deviation: f64) -> Vec<f64> {
        let mut state = match self {
            Course::Walk => 0.0,
            _ => deviation * random.normal(),
        };
        let next = |_| {
            let level = state;
            let step = deviation * random.normal();
            state = match self {
                Course::Independent => step,
                Course::Correlated(r) => r * state + (1.0 - r * r).sqrt() * step,
                Course::Walk => state + step,
            };
            level
        };
        (0..rounds).map(next).collect()
    }
}

struct Kind {
    cells: u32,
    rounds: usize,
    course: Course,
    deviation: f64,
}

fn empty_run(size_bytes: u32) -> Run {
    let mut run = common::small_run();
    run.cell.size_bytes = size_bytes;
    (run.cpu_initiator_ns_per_message, run.cpu_responder_ns_per_message) = (None, None);
    run.quantiles.clear();
    run
}

fn record(random: &mut Random, kind: &Kind, ratio: f64) -> Record {
    let mut record = common::without_runs();
    for size_bytes in 0..kind.cells {
        let mut run = empty_run(size_bytes);
        let template = run.rounds[0].clone();
        let levels = kind.course.levels(random, kind.rounds, kind.deviation);
        run.rounds = levels
            .into_iter()
            .map(|level| {
                let p50_ns = 2_000.0 * ratio * (level + 0.002 * random.normal()).exp();
                let p99_ns = 1.3 * p50_ns * (0.01 * random.normal()).exp();
                let mut round = template.clone();
                (round.samples, round.lost) = (10_000, 0);
                (round.cpu_initiator_ns_per_message, round.cpu_responder_ns_per_message) = (None, None);
                round.blocks = vec![Block { samples: 10_000, p50_ns, p99_ns: Some(p99_ns) }];
                (round.p50_ns, round.p99_ns) = (Some(p50_ns), Some(p99_ns));
                round
            })
            .collect();
        run.samples = 10_000 * kind.rounds as u64;
        record.runs.push(run);
    }
    record
}

fn comparisons(seeds: u64, kind: &Kind, ratio: f64) -> Vec<Comparison> {
    (0..seeds)
        .map(|seed| {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9) + 1);
            let a = record(&mut random, kind, 1.0);
            let b = record(&mut random, kind, ratio);
            compare(&a, &b, OPTIONS)
        })
        .collect()
}

/// How many of the comparisons of records that do not differ are called different.
fn alarms(seeds: u64, kind: &Kind) -> usize {
    comparisons(seeds, kind, 1.0).iter().filter(|found| found.has_difference()).count()
}

#[test]
fn many_cells_that_do_not_differ_are_rarely_called_different() {
    let courses = [Course::Independent, Course::Correlated(0.6), Course::Correlated(0.8), Course::Walk];
    for course in courses {
        let alarms = alarms(60, &Kind { cells: 10, rounds: 10, course, deviation: 0.02 });
        assert!(alarms <= 3, "{course:?}: {alarms} of 60");
    }
}

#[test]
fn one_cell_that_does_not_differ_is_rarely_called_different() {
    for course in [Course::Independent, Course::Correlated(0.6), Course::Walk] {
        for rounds in [5, 10] {
            let alarms = alarms(150, &Kind { cells: 1, rounds, course, deviation: 0.02 });
            assert!(alarms <= 8, "{course:?}, {rounds} rounds: {alarms} of 150");
        }
    }
}

#[test]
fn intervals_hold_no_change_as_often_as_they_say() {
    for course in [Course::Independent, Course::Correlated(0.6)] {
        let found = comparisons(200, &Kind { cells: 1, rounds: 10, course, deviation: 0.02 }, 1.0);
        let intervals = found.iter().map(|found| found.cells[0].figure(Quantity::P50).unwrap().interval.unwrap());
        let held = intervals.filter(|(low, high)| *low <= 1.0 && *high >= 1.0).count();
        assert!(held >= 186, "{course:?}: {held} of 200");
    }
}

#[test]
fn difference_of_five_per_cent_is_found_in_most_cells() {
    let kind = Kind { cells: 10, rounds: 10, course: Course::Independent, deviation: 0.01 };
    let found = comparisons(15, &kind, 1.05);
    let figures: Vec<_> =
        found.iter().flat_map(|found| &found.cells).map(|c| c.figure(Quantity::P50).unwrap()).collect();
    let alone = figures.iter().filter(|figure| figure.verdict == Verdict::Worse).count();
    let confirmed = figures.iter().filter(|figure| figure.is_confirmed).count();
    assert!(alone >= 140 && confirmed >= 110, "{alone} and {confirmed} of 150");
    assert!(found.iter().all(Comparison::has_difference));
}

#[test]
fn smallest_visible_difference_is_found_about_as_often_as_not() {
    // A difference as large as what could have been told lies at the edge of the interval.
    let kind = Kind { cells: 1, rounds: 10, course: Course::Independent, deviation: 0.01 };
    let visible = |found: &Comparison| found.cells[0].figure(Quantity::P50).unwrap().smallest_visible_percent.unwrap();
    let mut all: Vec<f64> = comparisons(100, &kind, 1.0).iter().map(visible).collect();
    all.sort_by(f64::total_cmp);
    let told = comparisons(100, &kind, 1.0 + all[50] / 100.0);
    let told =
        told.iter().filter(|found| found.cells[0].figure(Quantity::P50).unwrap().verdict == Verdict::Worse).count();
    assert!((30..=80).contains(&told), "{told} of 100");
}

/// A run whose every message is simulated; `round_deviation` is that of the rate of slow ones from round to round.
fn run_with_tail(random: &mut Random, slow: f64, round_deviation: f64) -> Run {
    let mut run = empty_run(64);
    let mut all = Distribution::new(usize::MAX);
    for _ in 0..10 {
        let every = 300.0 / slow * (round_deviation * random.normal()).exp();
        all.record_round(&common::round_trips(random, 2_000.0, every, 2_000), 0);
    }
    run.quantiles = all.summary(1).quantiles;
    (run.samples, run.lost) = (all.len(), 0);
    run
}

#[test]
fn tail_that_does_not_differ_is_rarely_called_different_and_one_that_does_is_found() {
    for (slow, round_deviation, wanted) in [(1.0, 0.0, 0..=2), (1.0, 0.7, 0..=2), (6.0, 0.3, 20..=40)] {
        let told = (0..40).filter(|&seed| {
            let mut random = Random(seed * 7919 + 1);
            let (mut a, mut b) = (common::without_runs(), common::without_runs());
            a.runs.push(run_with_tail(&mut random, 1.0, round_deviation));
            b.runs.push(run_with_tail(&mut random, slow, round_deviation));
            compare(&a, &b, OPTIONS).cells[0].figure(Quantity::P999).unwrap().verdict.is_difference()
        });
        let told = told.count();
        assert!(wanted.contains(&told), "{slow} {round_deviation}: {told} of 40");
    }
}

/// A run that loses so many messages at a time, in this share of its rounds, and so many in each round besides.
fn run_with_loss(random: &mut Random, burst: u64, share: f64, steady: u64) -> Run {
    let mut run = empty_run(64);
    for round in &mut run.rounds {
        let bursts = if random.uniform() < share { burst } else { 0 };
        let single = (0..2 * steady).filter(|_| random.uniform() < 0.5).count() as u64;
        (round.samples, round.lost) = (10_000, bursts + single);
        (round.p50_ns, round.p99_ns) = (None, None);
        (round.cpu_initiator_ns_per_message, round.cpu_responder_ns_per_message) = (None, None);
        round.blocks.clear();
    }
    run.samples = 100_000;
    run.lost = run.rounds.iter().map(|round| round.lost).sum();
    run
}

#[test]
fn loss_that_does_not_differ_is_rarely_called_different_and_one_that_does_is_found() {
    let told = |a: (u64, f64, u64), b: (u64, f64, u64)| {
        let of = (0..300).filter(|&seed| {
            let mut random = Random(seed * 7919 + 1);
            let (mut before, mut after) = (common::without_runs(), common::without_runs());
            before.runs.push(run_with_loss(&mut random, a.0, a.1, a.2));
            after.runs.push(run_with_loss(&mut random, b.0, b.1, b.2));
            compare(&before, &after, OPTIONS).cells[0].figure(Quantity::Loss).unwrap().verdict.is_difference()
        });
        of.count()
    };
    for same in [(0, 0.0, 0), (0, 0.0, 1), (0, 0.0, 20), (20, 0.3, 0), (20, 0.1, 1), (200, 0.5, 3)] {
        let alarms = told(same, same);
        assert!(alarms <= 15, "{same:?}: {alarms} of 300");
    }
    for (a, b, least) in
        [((0, 0.0, 0), (0, 0.0, 2), 290), ((20, 0.2, 0), (20, 0.2, 30), 290), ((0, 0.0, 0), (50, 0.9, 0), 250)]
    {
        let found = told(a, b);
        assert!(found >= least, "{a:?} {b:?}: {found} of 300");
    }
}

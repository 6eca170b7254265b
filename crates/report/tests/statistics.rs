//! Quantiles, their intervals and the doubts about them, against oracles and simulations with known truth.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Random;
use nearwire_report::record::Quantile;
use nearwire_report::statistics::rank::{NORMAL_95, interval_ranks, quantile_rank};
use nearwire_report::statistics::{Distribution, PERCENTS, quantiles_of};
use proptest::prelude::*;

const KEEP_ALL: usize = usize::MAX;

fn at(quantiles: &[Quantile], percent: f64) -> Quantile {
    *quantiles.iter().find(|line| line.percent == percent).unwrap()
}

/// The quantile by its definition: the least sample that enough samples do not exceed.
fn oracle(sorted: &[u32], percent: f64) -> Option<(u32, u64)> {
    let share = (percent * 1e6).round() as u128;
    let enough = |count: usize| count as u128 * 100_000_000 >= share * sorted.len() as u128;
    let rank = (1..=sorted.len()).find(|&count| enough(count))?;
    let beyond = if percent >= 50.0 { sorted.len() - rank } else { rank - 1 };
    Some((sorted[rank - 1], beyond as u64))
}

proptest! {
    #[test]
    fn any_values_agree_with_the_definition(mut values in prop::collection::vec(1u32..5_000, 0..2_500)) {
        let table = quantiles_of(&mut values);
        values.sort_unstable();
        for line in &table {
            let extreme = line.percent == 0.0 || line.percent == 100.0;
            match oracle(&values, line.percent) {
                Some((value, beyond)) if extreme || beyond >= 10 => {
                    prop_assert_eq!(line.value_ns, Some(f64::from(value)));
                    prop_assert_eq!(line.support, beyond);
                }
                _ => prop_assert_eq!(line.value_ns, None),
            }
        }
    }

    #[test]
    fn any_rounds_give_ordered_quantiles_within_their_intervals(
        rounds in prop::collection::vec(prop::collection::vec(100u32..4_000_000, 0..300), 1..8),
        keep in prop::sample::select(vec![0usize, 200, KEEP_ALL]),
    ) {
        let mut all = Distribution::new(keep);
        for round in &rounds {
            all.record_round(round, 0);
        }
        let summary = all.summary(1_000_000_000);
        let shown: Vec<f64> = summary.quantiles.iter().filter_map(|line| line.value_ns).collect();
        prop_assert!(shown.is_sorted());
        for line in &summary.quantiles {
            prop_assert!(line.value_ns.is_none() || line.low_ns.is_none_or(|low| Some(low) <= line.value_ns));
            prop_assert!(line.high_ns.is_none_or(|high| Some(high) >= line.value_ns));
            prop_assert!(line.value_ns.is_some() || (line.low_ns, line.high_ns) == (None, None));
        }
        prop_assert_eq!(summary.samples, rounds.iter().map(|round| round.len() as u64).sum::<u64>());
    }

    #[test]
    fn any_values_have_the_same_quantiles_folded_and_kept(
        rounds in prop::collection::vec(prop::collection::vec(100u32..4_000_000_000, 1..400), 1..6),
    ) {
        let (mut kept, mut folded) = (Distribution::new(KEEP_ALL), Distribution::new(150));
        for round in &rounds {
            prop_assert_eq!(kept.record_round(round, 0), folded.record_round(round, 0));
        }
        let (kept, folded) = (kept.summary(1), folded.summary(1));
        for (exact, binned) in kept.quantiles.iter().zip(&folded.quantiles) {
            prop_assert_eq!(exact.support, binned.support);
            match (exact.value_ns, binned.value_ns) {
                (Some(exact), Some(binned)) => {
                    prop_assert!((binned / exact - 1.0).abs() < 0.002, "{} {}", exact, binned);
                }
                (exact, binned) => prop_assert_eq!(exact, binned),
            }
        }
        prop_assert_eq!(kept.latency_ns.min, folded.latency_ns.min);
        prop_assert_eq!(kept.latency_ns.max, folded.latency_ns.max);
    }

    #[test]
    fn any_round_is_cut_into_blocks_that_hold_all_of_it(round in prop::collection::vec(1u32..9_999, 0..2_000)) {
        let blocks = Distribution::new(KEEP_ALL).record_round(&round, 0).blocks;
        prop_assert!(blocks.len() <= 10);
        prop_assert!(blocks.iter().all(|block| block.samples >= 20));
        if round.len() >= 20 {
            prop_assert_eq!(blocks.iter().map(|block| block.samples).sum::<u64>(), round.len() as u64);
        } else {
            prop_assert!(blocks.is_empty());
        }
    }

    #[test]
    fn any_values_have_the_mean_and_deviation_of_two_passes(round in prop::collection::vec(1u32..4_000_000, 2..500)) {
        let mut all = Distribution::new(KEEP_ALL);
        all.record_round(&round, 0);
        let summary = all.summary(1);
        let halves: Vec<f64> = round.iter().map(|&rtt| f64::from(rtt) / 2.0).collect();
        let mean = halves.iter().sum::<f64>() / halves.len() as f64;
        let variance = halves.iter().map(|half| (half - mean).powi(2)).sum::<f64>() / (halves.len() - 1) as f64;
        prop_assert!((summary.mean_ns.unwrap() - mean).abs() <= 1e-9 * mean);
        prop_assert!((summary.standard_deviation_ns.unwrap() - variance.sqrt()).abs() <= 1e-6 * mean);
    }
}

/// Share of seeds whose interval holds the truth, for each percent; `rounds` makes one seed's samples.
fn coverage(
    seeds: u64,
    truth_ns: &[(f64, f64)],
    keep: usize,
    rounds: impl Fn(&mut Random) -> Vec<Vec<u32>>,
) -> Vec<f64> {
    let mut held = vec![0u32; truth_ns.len()];
    for seed in 0..seeds {
        let mut random = Random(seed * 7919 + 1);
        let mut all = Distribution::new(keep);
        for round in rounds(&mut random) {
            all.record_round(&round, 0);
        }
        let quantiles = all.summary(1).quantiles;
        for (held, &(percent, truth)) in held.iter_mut().zip(truth_ns) {
            let line = at(&quantiles, percent);
            let above = line.low_ns.unwrap() <= truth;
            *held += u32::from(above && line.high_ns.is_none_or(|high| truth <= high));
        }
    }
    held.into_iter().map(|count| f64::from(count) / seeds as f64).collect()
}

/// Half round trip of 1 us plus an exponential one with mean 1 us.
fn exponential(random: &mut Random) -> u32 {
    (2_000.0 - 2_000.0 * random.uniform().ln()) as u32
}

#[test]
fn independent_samples_are_covered_as_promised() {
    let truth = [50.0, 90.0, 99.0].map(|percent: f64| (percent, 1_000.0 - 1_000.0 * (1.0 - percent / 100.0).ln()));
    for keep in [KEEP_ALL, 500] {
        let shares = coverage(300, &truth, keep, |random| {
            (0..10).map(|_| (0..250).map(|_| exponential(random)).collect()).collect()
        });
        assert!(shares.iter().all(|&share| share >= 0.93), "{keep}: {shares:?}");
    }
}

/// Log-normal round trips whose logarithms follow an AR(1) process with correlation `phi`.
fn correlated(random: &mut Random, phi: f64, rounds: usize, samples: usize) -> Vec<Vec<u32>> {
    let mut state = random.normal();
    let mut next = |random: &mut Random| {
        state = phi * state + (1.0 - phi * phi).sqrt() * random.normal();
        (20_000.0 * (0.2 * state).exp()) as u32
    };
    (0..rounds).map(|_| (0..samples).map(|_| next(random)).collect()).collect()
}

#[test]
fn samples_that_resemble_their_neighbours_are_covered_too() {
    let truth = [(50.0, 10_000.0), (90.0, 10_000.0 * (0.2f64 * 1.2816).exp())];
    let shares = coverage(200, &truth, KEEP_ALL, |random| correlated(random, 0.9, 10, 1_000));
    assert!(shares.iter().all(|&share| share >= 0.92), "{shares:?}");
    // The same data with the interval of independent samples, to show that the test can tell.
    let naive = (0..200).filter(|&seed| {
        let mut all: Vec<u32> = correlated(&mut Random(seed * 7919 + 1), 0.9, 10, 1_000).concat();
        all.sort_unstable();
        let (low, high) = interval_ranks(all.len() as u64, 50.0, NORMAL_95);
        (all[low.unwrap() as usize - 1]..=all[high.unwrap() as usize - 1]).contains(&20_000)
    });
    assert!(naive.count() < 130, "independence was good enough here");
}

#[test]
fn rounds_that_differ_are_covered_too() {
    let truth = [(50.0, 1_000.0)];
    let shares = coverage(200, &truth, KEEP_ALL, |random| {
        let round = |random: &mut Random| {
            let level = 2_000.0 * (0.03 * random.normal()).exp();
            (0..400).map(|_| (level * (0.05 * random.normal()).exp()) as u32).collect()
        };
        (0..10).map(|_| round(random)).collect()
    });
    assert!(shares[0] >= 0.92, "{shares:?}");
}

#[test]
fn tail_without_enough_samples_is_not_shown() {
    let mut values: Vec<u32> = (0..5_000).collect();
    let table = quantiles_of(&mut values);
    assert_eq!(at(&table, 99.9).value_ns, None);
    assert_eq!(at(&table, 99.9).support, 5);
    assert_eq!(at(&table, 99.0).value_ns, Some(4_949.0));
    assert_eq!(at(&table, 100.0).value_ns, Some(4_999.0));
    assert_eq!((at(&table, 100.0).low_ns, at(&table, 0.0).high_ns), (None, None));
}

#[test]
fn no_samples_give_no_figures() {
    let all = Distribution::new(10);
    assert!(all.is_empty());
    let summary = all.summary(1_000);
    assert_eq!(summary.latency_ns, Default::default());
    assert_eq!((summary.mean_ns, summary.slow_events_per_second), (None, None));
    assert_eq!(summary.quantiles.len(), PERCENTS.len());
    let mut folded = Distribution::new(0);
    folded.record_round(&[], 0);
    assert_eq!(folded.summary(1).latency_ns.p50, None);
}

#[test]
fn slow_events_are_counted_per_second() {
    let mut round = vec![2_000u32; 990];
    round.extend([12_000; 6]);
    round.extend([11_999; 4]);
    for keep in [KEEP_ALL, 0] {
        let mut all = Distribution::new(keep);
        all.record_round(&round, 0);
        let slow = all.summary(500_000_000).slow_events_per_second.unwrap();
        // The histogram cannot tell 11 999 from 12 000; it may count the four as well.
        assert!(slow == 12.0 || (keep == 0 && slow == 20.0), "{slow}");
    }
}

#[test]
fn folding_starts_when_the_limit_is_passed() {
    let mut all = Distribution::new(1_000);
    all.record_round(&vec![2_000; 1_000], 0);
    assert!(!all.summary(1).from_histogram);
    all.record_round(&[2_000], 0);
    assert!(all.summary(1).from_histogram);
    assert_eq!(all.len(), 1_001);
}

fn warned(keep: usize, rounds: usize, samples: usize, mut sample: impl FnMut(usize) -> f64) -> Vec<String> {
    let mut all = Distribution::new(keep);
    for round in 0..rounds {
        let rtt: Vec<u32> = (0..samples).map(|_| sample(round) as u32).collect();
        all.record_round(&rtt, 0);
    }
    all.warnings().into_iter().map(|warning| warning.code).collect()
}

#[test]
fn one_state_is_never_called_two() {
    for seed in 0..40 {
        let mut random = Random(seed);
        for deviation in [0.01, 0.1, 0.5, 1.0] {
            let codes = warned(KEEP_ALL, 10, 300, |_| 2_000.0 * (deviation * random.normal()).exp());
            assert!(!codes.contains(&"bimodal".to_owned()), "log-normal {deviation}, seed {seed}");
        }
        for keep in [KEEP_ALL, 0] {
            let codes = warned(keep, 10, 300, |_| f64::from(exponential(&mut random)));
            assert!(!codes.contains(&"bimodal".to_owned()), "shifted exponential, seed {seed}");
            let codes = warned(keep, 10, 300, |_| 1.0 - 2_000.0 * random.uniform().ln());
            assert!(!codes.contains(&"bimodal".to_owned()), "exponential, seed {seed}");
            let codes = warned(keep, 10, 300, |_| 1_000.0 + 3_000.0 * random.uniform());
            assert!(!codes.contains(&"bimodal".to_owned()), "uniform, seed {seed}");
        }
    }
}

#[test]
fn coarse_clock_is_not_two_states() {
    let mut random = Random(1);
    let codes = warned(KEEP_ALL, 10, 1_000, |_| (2_000.0 * (0.05 * random.normal()).exp() / 40.0).round() * 40.0);
    assert!(codes.is_empty(), "{codes:?}");
}

#[test]
fn long_tail_is_not_a_second_state() {
    let mut random = Random(1);
    let codes = warned(KEEP_ALL, 10, 2_000, |_| {
        let slow = if random.uniform() < 0.05 { 20_000.0 } else { 0.0 };
        2_000.0 * (0.05 * random.normal()).exp() + slow
    });
    assert!(codes.is_empty(), "{codes:?}");
}

#[test]
fn two_states_within_the_rounds_are_found() {
    for (seed, share) in [(1, 0.5), (2, 0.5), (3, 0.2), (4, 0.8)] {
        for keep in [KEEP_ALL, 0] {
            let mut random = Random(seed);
            let codes = warned(keep, 10, 300, |_| {
                let level = if random.uniform() < share { 2_000.0 } else { 4_000.0 };
                level * (0.05 * random.normal()).exp()
            });
            assert_eq!(codes, ["bimodal"], "seed {seed}, share {share}");
        }
    }
}

#[test]
fn two_levels_of_rounds_are_found() {
    let mut random = Random(1);
    let codes = warned(KEEP_ALL, 10, 200, |round| {
        let level = if [1, 4, 5, 8].contains(&round) { 2_600.0 } else { 2_000.0 };
        level * (0.02 * random.normal()).exp()
    });
    assert_eq!(codes, ["bimodal"]);
}

#[test]
fn rising_rounds_are_called_a_drift() {
    let mut random = Random(1);
    let codes =
        warned(KEEP_ALL, 10, 200, |round| 2_000.0 * (1.0 + 0.02 * round as f64) * (0.02 * random.normal()).exp());
    assert_eq!(codes, ["drift"]);
}

#[test]
fn steady_rounds_are_rarely_called_a_drift() {
    let alarms = (0..200).filter(|&seed| {
        let mut random = Random(seed);
        let levels: Vec<f64> = (0..10).map(|_| 2_000.0 * (0.03 * random.normal()).exp()).collect();
        warned(KEEP_ALL, 10, 40, |round| levels[round] * (0.02 * random.normal()).exp()).contains(&"drift".to_owned())
    });
    assert!(alarms.count() <= 10);
}

#[test]
fn few_samples_are_said_to_be_few() {
    assert_eq!(warned(KEEP_ALL, 2, 20, |_| 2_000.0), ["few-samples"]);
    assert_eq!(quantile_rank(40, 50.0), 20);
}

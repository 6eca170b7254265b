use proptest::prelude::*;

use super::*;
use crate::search::simulated::{Random, Simulated};
use crate::search::{Pauses, SECOND_NS};

const NDR: Goal = Goal::ndr(SECOND_NS);
const PDR: Goal = Goal::pdr(SECOND_NS);

const LIMITS: Limits = Limits {
    least_fps: 1000.0,
    most_fps: Some(10e6),
    most_trials: 2000,
    most_time_ns: 10_000 * SECOND_NS,
    pauses: Pauses::NONE,
};

fn made(bed: &mut Simulated, goals: &[Goal], limits: &Limits) -> Search {
    let Ok(search) = search(bed, goals, limits) else { panic!("a simulated test bed does not fail") };
    assert_eq!(search.trials.len(), bed.plans.len());
    assert!(search.trials.len() <= limits.most_trials && search.time_ns <= limits.most_time_ns);
    search
}

fn found(result: &GoalResult) -> (f64, f64, f64) {
    match *result {
        GoalResult::Found { lower_fps, upper_fps, conditional_fps } => (lower_fps, upper_fps, conditional_fps),
        other => panic!("{other:?}"),
    }
}

/// Of the full-length trials at a load, which part of their time was bad.
fn bad_part(search: &Search, rate_fps: f64, number: usize, goal: &Goal) -> f64 {
    let at = search.trials.iter().filter(|trial| !trial.is_warm_up && trial.rate_fps.to_bits() == rate_fps.to_bits());
    let full: Vec<_> = at.filter(|trial| trial.duration_ns >= goal.final_trial_ns).collect();
    let bad_ns: u64 = full.iter().filter(|trial| !trial.is_good_for[number]).map(|trial| trial.duration_ns).sum();
    let all_ns: u64 = full.iter().map(|trial| trial.duration_ns).sum();
    bad_ns as f64 / all_ns.max(goal.duration_sum_ns) as f64
}

#[test]
fn ideal_device_is_found_within_the_width() {
    let search = made(&mut Simulated::sharp(3_141_592.0), &[NDR], &LIMITS);
    let (lower_fps, upper_fps, conditional_fps) = found(&search.goals[0]);
    assert!(lower_fps <= 3_141_592.0 && 3_141_592.0 < upper_fps, "{lower_fps} {upper_fps}");
    assert!((upper_fps - lower_fps) / upper_fps <= NDR.width * 1.000_001);
    assert!((conditional_fps - lower_fps).abs() < 1.0);
    // Eleven trials for each bound, and a few to get there.
    assert!(search.trials.len() <= 32, "{}", search.trials.len());
}

#[test]
fn rate_that_is_not_known_is_found_by_the_warm_up() {
    let search = made(&mut Simulated::sharp(2e6).with_generator(5e6), &[NDR], &Limits { most_fps: None, ..LIMITS });
    assert!(search.trials[0].is_warm_up && search.trials[0].rate_fps.is_infinite());
    assert_eq!(search.most_fps, Some(5e6));
    let (lower_fps, upper_fps, _) = found(&search.goals[0]);
    assert!(lower_fps <= 2e6 && 2e6 < upper_fps);
}

#[test]
fn noise_in_a_few_trials_does_not_move_the_result() {
    for seed in 0..100 {
        let search = made(&mut Simulated::noisy(2e6, 0.05, seed), &[NDR, PDR], &LIMITS);
        for (number, goal) in [NDR, PDR].iter().enumerate() {
            let (lower_fps, upper_fps, _) = found(&search.goals[number]);
            let truth_fps = 2e6 / (1.0 - goal.loss_ratio);
            assert!((lower_fps / truth_fps - 1.0).abs() < 0.03, "seed {seed}: {lower_fps} of {truth_fps}");
            assert!(upper_fps > lower_fps);
            let bad_part = bad_part(&search, lower_fps, number, goal);
            assert!(bad_part <= goal.exceed_ratio, "seed {seed}: {bad_part} of the trials at {lower_fps} are bad");
        }
    }
}

#[test]
fn frequent_noise_lowers_no_bound_to_a_load_that_fails() {
    for seed in 0..50 {
        let goal = Goal { exceed_ratio: 0.2, ..NDR };
        let search = made(&mut Simulated::noisy(2e6, 0.15, seed), &[goal], &LIMITS);
        if let Some(lower_fps) = search.goals[0].carried_fps() {
            assert!(bad_part(&search, lower_fps, 0, &goal) <= 0.2, "seed {seed}");
        }
    }
}

#[test]
fn goals_at_once_are_ordered_and_need_fewer_trials_than_one_by_one() {
    let goals = [PDR, NDR, Goal { loss_ratio: 0.05, ..NDR }];
    for (seed, noise) in [(1, 0.0), (2, 0.05), (3, 0.2), (4, 0.4)] {
        let at_once = made(&mut Simulated::noisy(2e6, noise, seed), &goals, &LIMITS);
        let [pdr_fps, ndr_fps, loose_fps] = [0, 1, 2].map(|number: usize| found(&at_once.goals[number]).0);
        assert!(ndr_fps <= pdr_fps && pdr_fps <= loose_fps, "{ndr_fps} {pdr_fps} {loose_fps}");
        let one_by_one = goals.map(|goal| made(&mut Simulated::noisy(2e6, noise, seed), &[goal], &LIMITS).trials.len());
        assert!(at_once.trials.len() < one_by_one.iter().sum(), "{} {one_by_one:?}", at_once.trials.len());
        // Without noise: eleven for each of two bounds of three goals, less what the strictest goal has in common with another.
        assert!(noise > 0.0 || at_once.trials.len() <= 65, "{}", at_once.trials.len());
    }
}

#[test]
fn inconsistent_device_has_no_upper_bound_below_its_result() {
    // Between two rates it loses frames, above them up to its capacity it does not.
    let device = || {
        Simulated::new(|offered| {
            let is_in_hole = (1.2e6..1.7e6).contains(&offered.rate_fps);
            let over_fps = (offered.rate_fps - 2e6).max(0.0) * 3.0;
            if is_in_hole { offered.frames / 50 } else { (over_fps * offered.seconds) as u64 }
        })
    };
    let search = made(&mut device(), &[NDR, PDR], &LIMITS);
    for (number, result) in search.goals.iter().enumerate() {
        let (lower_fps, upper_fps, _) = found(result);
        assert!(lower_fps < upper_fps);
        let uppers = search.trials.iter().filter(|trial| !trial.is_warm_up && trial.rate_fps < lower_fps);
        for trial in uppers {
            assert!(bad_part(&search, trial.rate_fps, number, &NDR) <= 0.5, "{} is below {lower_fps}", trial.rate_fps);
        }
    }
    // A range that ends in the hole finds the load below it.
    let search = made(&mut device(), &[NDR], &Limits { most_fps: Some(1.6e6), ..LIMITS });
    let (lower_fps, upper_fps, _) = found(&search.goals[0]);
    assert!(lower_fps < 1.2e6 && 1.2e6 <= upper_fps, "{lower_fps} {upper_fps}");
}

#[test]
fn device_that_breaks_down_under_overload_is_found_from_below() {
    let mut bed = Simulated::new(|offered| if offered.rate_fps > 123_456.0 { offered.frames } else { 0 });
    let search = made(&mut bed, &[NDR], &LIMITS);
    let (lower_fps, upper_fps, _) = found(&search.goals[0]);
    assert!(lower_fps <= 123_456.0 && 123_456.0 < upper_fps, "{lower_fps} {upper_fps}");
    assert!(search.trials.len() < 60, "{}", search.trials.len());
}

#[test]
fn latency_that_explodes_before_loss_decides() {
    let mut bed = Simulated::sharp(2e6);
    bed.latency_ns = Box::new(|rate_fps| if rate_fps > 1.5e6 { 3_000_000 } else { 8000 });
    let bound = LatencyBound { percentile: 99.0, at_most_ns: 50_000 };
    let goals = [Goal { latency: Some(bound), ..NDR }, NDR];
    let search = made(&mut bed, &goals, &LIMITS);
    let (lower_fps, upper_fps, _) = found(&search.goals[0]);
    assert!(lower_fps <= 1.5e6 && 1.5e6 < upper_fps, "{lower_fps} {upper_fps}");
    let (lower_fps, upper_fps, _) = found(&search.goals[1]);
    assert!(lower_fps <= 2e6 && 2e6 < upper_fps, "{lower_fps} {upper_fps}");
}

#[test]
fn generator_that_is_slower_than_the_device_is_named() {
    let search = made(&mut Simulated::sharp(5e6).with_generator(1e6), &[NDR, PDR], &LIMITS);
    for result in &search.goals {
        let GoalResult::GeneratorLimited { lower_fps: Some(lower_fps), upper_fps: Some(upper_fps), .. } = *result
        else {
            panic!("{result:?}");
        };
        assert!(lower_fps <= 1e6 / (1.0 - PDR.loss_ratio) && 1e6 < upper_fps, "{lower_fps} {upper_fps}");
    }
}

#[test]
fn generator_that_is_too_slow_is_named_even_if_the_search_must_stop() {
    let mut limited = 0;
    for most_trials in 1..50 {
        let limits = Limits { most_trials, ..LIMITS };
        for result in made(&mut Simulated::sharp(5e6).with_generator(2e5), &[NDR, PDR], &limits).goals {
            match result {
                GoalResult::NotConverged { upper_fps: None, .. } => {}
                GoalResult::GeneratorLimited { upper_fps: Some(upper_fps), .. } if upper_fps > 2e5 => limited += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // Of both goals, from about the thirtieth trial on.
    assert!(limited > 30, "{limited}");
}

#[test]
fn generator_that_cannot_send_the_least_rate_is_named_at_once() {
    let search = made(&mut Simulated::sharp(5e6).with_generator(10.0), &[NDR], &Limits { most_fps: None, ..LIMITS });
    let nothing = GoalResult::GeneratorLimited { lower_fps: None, upper_fps: None, conditional_fps: None };
    assert_eq!((search.goals, search.trials.len()), (vec![nothing], 1));
}

#[test]
fn device_that_loses_at_all_rates_is_not_at_the_least() {
    let search = made(&mut Simulated::new(|offered| offered.frames / 10), &[NDR, PDR], &LIMITS);
    assert_eq!(search.goals, [GoalResult::NotAtLeast { least_fps: 1000.0 }; 2]);
}

#[test]
fn device_that_loses_nothing_is_at_least_at_the_most_rate() {
    let search = made(&mut Simulated::new(|_| 0), &[NDR, PDR], &LIMITS);
    assert_eq!(search.goals, [GoalResult::AtLeast { most_fps: 10e6, conditional_fps: 10e6 }; 2]);
    assert_eq!(search.trials.len(), 12);
}

#[test]
fn search_without_enough_trials_tells_the_bounds_that_it_has() {
    for most_trials in 0..30 {
        let limits = Limits { most_trials, ..LIMITS };
        let search = made(&mut Simulated::sharp(2e6), &[NDR, Goal { width: 0.001, ..PDR }], &limits);
        for result in search.goals {
            match result {
                GoalResult::NotConverged { lower_fps, upper_fps, stop: Stop::Trials, .. } => {
                    assert!(lower_fps.is_none_or(|fps| fps < 2.02e6) && upper_fps.is_none_or(|fps| fps > 2e6));
                }
                other => assert!(found(&other).0 <= 2.02e6),
            }
        }
    }
}

#[test]
fn search_on_a_device_at_random_ends_within_its_time() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut bed = Simulated::new(move |_| u64::from(random.part() < 0.5));
        let limits = Limits { most_time_ns: 100 * SECOND_NS, pauses: Pauses::SHORT, ..LIMITS };
        let search = made(&mut bed, &[NDR], &limits);
        assert!(search.time_ns <= limits.most_time_ns);
        if let GoalResult::NotConverged { lower_fps, upper_fps, stop, .. } = search.goals[0] {
            assert_eq!(stop, Stop::Time);
            assert!(lower_fps.zip(upper_fps).is_none_or(|(lower_fps, upper_fps)| lower_fps < upper_fps));
        }
    }
}

#[test]
fn short_trials_are_too_kind_to_a_buffer_and_the_final_ones_correct_it() {
    let goal = Goal::rfc2544(SECOND_NS, 0.001);
    let search = made(&mut Simulated::with_buffer(1e6, 100_000), &[goal], &LIMITS);
    let (lower_fps, upper_fps, conditional_fps) = found(&search.goals[0]);
    // In 60 s, the buffer takes a sixtieth of the frames above capacity.
    let truth_fps = 1e6 + 100_000.0 / 60.0;
    assert!(lower_fps <= truth_fps && truth_fps <= upper_fps, "{lower_fps} {upper_fps}");
    assert!((conditional_fps - lower_fps).abs() < 1e-3);
    let long = search.trials.iter().filter(|trial| trial.duration_ns == 60 * SECOND_NS).count();
    assert!(long <= 12, "{long}");
}

#[test]
fn pauses_are_passed_on_and_counted() {
    let limits = Limits { pauses: Pauses::STRICT, ..LIMITS };
    let mut bed = Simulated::new(|_| 0);
    let search = made(&mut bed, &[NDR], &limits);
    assert_eq!(bed.paused_ns, 12 * 5 * SECOND_NS);
    assert!(bed.plans.iter().all(|plan| plan.residual_ns == 2 * SECOND_NS));
    assert_eq!(search.time_ns, 12 * 8 * SECOND_NS);
}

#[test]
fn input_that_cannot_be_searched_with_is_refused_with_its_value() {
    let mut bed = Simulated::sharp(1e6);
    let mut refused = |goals: &[Goal], limits: &Limits| search(&mut bed, goals, limits).unwrap_err().to_string();
    assert_eq!(refused(&[], &LIMITS), "no goal is given");
    let cases = [
        (Goal { loss_ratio: 1.0, ..NDR }, "loss ratio is 1;"),
        (Goal { exceed_ratio: -0.5, ..NDR }, "exceed ratio is -0.5;"),
        (Goal { width: 0.0, ..NDR }, "width is 0;"),
        (Goal { initial_trial_ns: 0, ..NDR }, "initial trial duration is 0;"),
        (Goal { initial_trial_ns: 2 * SECOND_NS, ..NDR }, "initial trial duration is 2000000000, above"),
        (Goal { duration_sum_ns: 1, ..NDR }, "duration sum, which is 1"),
        (Goal { latency: Some(LatencyBound { percentile: 100.0, at_most_ns: 1 }), ..NDR }, "percentile is 100;"),
    ];
    for (goal, wanted) in cases {
        let error = refused(&[NDR, goal], &LIMITS);
        assert!(error.contains(wanted), "{error}");
    }
    assert!(refused(&[NDR], &Limits { least_fps: 0.0, ..LIMITS }).contains("least rate is 0;"));
    assert!(refused(&[NDR], &Limits { least_fps: 2e7, ..LIMITS }).contains("20000000, above"));
    assert!(refused(&[NDR], &Limits { most_fps: Some(f64::NAN), ..LIMITS }).contains("NaN"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_capacity_is_between_bounds_after_few_trials(
        capacity_fps in 1100f64..9.9e6,
        width in 0.0005f64..0.3,
        breaks_down in any::<bool>(),
    ) {
        let mut bed = if breaks_down {
            Simulated::new(move |offered| if offered.rate_fps > capacity_fps { offered.frames } else { 0 })
        } else {
            Simulated::sharp(capacity_fps)
        };
        let goal = Goal { width, ..NDR };
        let search = made(&mut bed, &[goal], &LIMITS);
        let (lower_fps, upper_fps, _) = found(&search.goals[0]);
        // A frame more or less in a second is not seen.
        prop_assert!(lower_fps <= capacity_fps + 1.0 && capacity_fps <= upper_fps + 1.0, "{} {}", lower_fps, upper_fps);
        prop_assert!((upper_fps - lower_fps) / upper_fps <= width * 1.000_001);
        // 22 for the bounds themselves, 40 for what halving the range needs at the smallest width.
        prop_assert!(search.trials.len() <= 62, "{}", search.trials.len());
    }
}

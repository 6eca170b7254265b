use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::search::simulated::{Random, Simulated};
use crate::search::{Pauses, SECOND_NS, SearchError};
use crate::trial::{Testbed, Trial, TrialPlan};

const STRICT: ThroughputConfig = ThroughputConfig::strict(1000.0, 10e6);

fn searched(bed: &mut Simulated, config: &ThroughputConfig) -> ThroughputResult {
    let Ok(result) = throughput(bed, config) else { panic!("a simulated test bed does not fail") };
    assert!(result.trials.len() == bed.plans.len() && result.trials.len() <= config.most_trials);
    result
}

fn found(result: &ThroughputResult) -> (f64, f64) {
    match result.throughput {
        Throughput::Found { rate_fps, lossy_fps } => (rate_fps, lossy_fps),
        other => panic!("{other:?}"),
    }
}

/// A rate counts as throughput only where a full trial lost nothing and no trial at the rate or below did.
fn assert_confirmed(result: &ThroughputResult, rate_fps: f64) {
    let at = |trial: &&ThroughputTrial| trial.rate_fps.to_bits() == rate_fps.to_bits();
    let full = result.trials.iter().filter(at).find(|trial| trial.duration_ns == 60 * SECOND_NS);
    assert!(full.is_some_and(|trial| trial.outcome.is_lossless()));
    assert!(result.trials.iter().all(|trial| trial.outcome.is_lossless() || trial.rate_fps > rate_fps));
}

#[test]
fn ideal_device_has_its_capacity_as_throughput() {
    let result = searched(&mut Simulated::sharp(3_141_592.0), &STRICT);
    let (rate_fps, lossy_fps) = found(&result);
    assert!(rate_fps <= 3_141_592.0 && 3_141_592.0 < lossy_fps, "{rate_fps} {lossy_fps}");
    assert!(lossy_fps - rate_fps <= lossy_fps * 0.001);
    assert_confirmed(&result, rate_fps);
    assert_eq!(result.trials.iter().filter(|trial| trial.duration_ns == 60 * SECOND_NS).count(), 1);
}

#[test]
fn strict_pauses_are_passed_on_after_each_trial() {
    let mut bed = Simulated::sharp(1e6);
    let result = searched(&mut bed, &STRICT);
    assert_eq!(bed.paused_ns, result.trials.len() as u64 * 5 * SECOND_NS);
    assert!(bed.plans.iter().all(|plan| plan.residual_ns == 2 * SECOND_NS));
    assert_eq!(result.time_ns, result.trials.iter().map(|trial| trial.duration_ns + 7 * SECOND_NS).sum::<u64>());
}

#[test]
fn rate_that_its_confirmation_refuses_is_searched_for_below() {
    // Short trials hide up to a tenth of a second of frames above capacity.
    let result = searched(&mut Simulated::with_buffer(1e6, 100_000), &STRICT);
    let (rate_fps, lossy_fps) = found(&result);
    let truth_fps = 1e6 + 100_000.0 / 60.0;
    assert!(rate_fps <= truth_fps && truth_fps <= lossy_fps, "{rate_fps} {lossy_fps}");
    assert_confirmed(&result, rate_fps);
    let refused = result.trials.iter().filter(|trial| trial.duration_ns == 60 * SECOND_NS).count() - 1;
    assert!((1..10).contains(&refused), "{refused}");
}

#[test]
fn noise_lowers_throughput_but_never_below_what_was_confirmed() {
    for seed in 0..50 {
        let result = searched(&mut Simulated::noisy(2e6, 0.05, seed), &STRICT);
        let rate_fps = result.throughput.confirmed_fps().unwrap();
        assert!(rate_fps <= 2e6);
        assert_confirmed(&result, rate_fps);
    }
}

#[test]
fn latency_has_no_part_in_throughput() {
    let mut bed = Simulated::sharp(2e6);
    bed.latency_ns = Box::new(|rate_fps| if rate_fps > 1e6 { 3_000_000 } else { 8000 });
    let (rate_fps, lossy_fps) = found(&searched(&mut bed, &STRICT));
    assert!(rate_fps <= 2e6 && 2e6 < lossy_fps);
}

#[test]
fn inconsistent_device_has_no_lossy_rate_below_its_throughput() {
    let mut bed = Simulated::new(|offered| {
        let is_in_hole = (1.0e6..1.4e6).contains(&offered.rate_fps);
        if is_in_hole || offered.rate_fps > 2e6 { offered.frames / 50 } else { 0 }
    });
    let result = searched(&mut bed, &STRICT);
    assert_confirmed(&result, found(&result).0);
}

#[test]
fn generator_that_is_slower_than_the_device_is_named() {
    let result = searched(&mut Simulated::sharp(5e6).with_generator(1e6), &STRICT);
    let Throughput::GeneratorLimited { rate_fps: Some(rate_fps), lossy_fps } = result.throughput else {
        panic!("{:?}", result.throughput);
    };
    assert!(rate_fps <= 1e6 && 1e6 < lossy_fps);
    let few = ThroughputConfig { most_trials: 3, ..STRICT };
    let result = searched(&mut Simulated::sharp(5e6).with_generator(1e6), &few);
    assert_eq!(result.throughput, Throughput::GeneratorLimited { rate_fps: None, lossy_fps: 2_500_750.0 });
}

#[test]
fn device_that_loses_at_all_rates_or_none_has_a_result_of_its_own() {
    let all = searched(&mut Simulated::new(|offered| offered.frames / 10), &STRICT);
    assert_eq!(all.throughput, Throughput::NotAtLeast { least_fps: 1000.0 });
    let none = searched(&mut Simulated::new(|_| 0), &STRICT);
    assert_eq!((none.throughput, none.trials.len()), (Throughput::AtLeast { most_fps: 10e6 }, 2));
}

#[test]
fn device_that_fails_every_full_trial_is_not_at_the_least() {
    let result = searched(&mut Simulated::new(|offered| u64::from(offered.seconds > 30.0)), &STRICT);
    assert_eq!(result.throughput, Throughput::NotAtLeast { least_fps: 1000.0 });
    assert!(result.trials.len() < 60, "{}", result.trials.len());
}

#[test]
fn search_without_enough_trials_tells_the_rates_that_it_has() {
    for most_trials in 0..12 {
        let result = searched(&mut Simulated::sharp(2e6), &ThroughputConfig { most_trials, ..STRICT });
        let Throughput::NotConverged { lossless_fps, lossy_fps } = result.throughput else {
            panic!("{:?}", result.throughput);
        };
        assert!(lossless_fps.is_none_or(|fps| fps <= 2e6) && lossy_fps.is_none_or(|fps| fps > 2e6));
        assert_eq!((result.trials.len(), lossy_fps.is_some()), (most_trials, most_trials > 0));
    }
}

#[test]
fn latency_is_the_mean_of_the_means_of_twenty_trials() {
    let mut bed = Simulated::sharp(2e6);
    bed.latency_ns = Box::new(|rate_fps| rate_fps as u64);
    let Ok(latency) = latency(&mut bed, &LatencyConfig::strict(5000.0)) else { panic!() };
    let mean_ns = latency.mean_ns.unwrap();
    assert!((mean_ns.mean - 5000.0).abs() < 5.0 && mean_ns.count == 20, "{mean_ns:?}");
    assert_eq!((latency.missing_frames, latency.time_ns), (0, 20 * 127 * SECOND_NS));
    // One trial supports 99 %, all of them together 99.9 %.
    assert!(latency.all.p999_ns.is_some() && latency.trials[0].outcome.latency.p999_ns.is_none());
}

#[test]
fn latency_of_a_device_that_forwards_nothing_is_none() {
    let mut bed = Simulated::new(|offered| offered.frames);
    let config = LatencyConfig { repetitions: 2, trial_ns: SECOND_NS, ..LatencyConfig::strict(100.0) };
    let Ok(latency) = latency(&mut bed, &config) else { panic!() };
    assert_eq!((latency.mean_ns, latency.missing_frames), (None, 200));
}

#[test]
fn frame_loss_goes_down_by_tenths_until_two_trials_are_lossless() {
    let Ok(loss) = frame_loss(&mut Simulated::sharp(6.5e6), &FrameLossConfig::strict(10e6)) else { panic!() };
    let percents: Vec<f64> = loss.points.iter().map(|point| point.of_most_percent.round()).collect();
    assert_eq!(percents, [100.0, 90.0, 80.0, 70.0, 60.0, 50.0]);
    assert!((loss.points[0].loss_percent.unwrap() - 35.0).abs() < 1e-9);
    assert!(loss.ended_lossless && loss.points[4].loss_percent == Some(0.0));
}

#[test]
fn frame_loss_of_a_device_that_always_loses_ends_at_the_last_step() {
    let mut bed = Simulated::new(|offered| offered.frames / 4).with_generator(8.5e6);
    let Ok(loss) = frame_loss(&mut bed, &FrameLossConfig::strict(10e6)) else { panic!() };
    assert_eq!((loss.points.len(), loss.ended_lossless), (10, false));
    let is_limited: Vec<bool> = loss.points.iter().map(|point| point.is_generator_limited).collect();
    assert_eq!(is_limited[..3], [true, true, false]);
    // The device's share is of what was sent.
    assert!((loss.points[0].loss_percent.unwrap() - 25.0).abs() < 1e-5);
}

#[test]
fn longest_burst_and_buffer_time_follow_from_buffer_and_throughput() {
    let mut bed = Simulated::with_buffer(4e6, 3000).with_generator(10e6);
    let config = BackToBackConfig { repetitions: 3, ..BackToBackConfig::strict(Some(10e6), 4e6) };
    let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
    // While 5000 frames come in at line rate, 2000 leave.
    assert!((result.frames.mean - 5000.0).abs() <= 1.0, "{:?}", result.frames);
    assert_eq!(result.frames.count, 3);
    assert!((result.implied_buffer_ns - 500_000.0).abs() < 200.0);
    assert!((result.corrected_buffer_ns - 300_000.0).abs() < 200.0, "{}", result.corrected_buffer_ns);
    assert!(result.at_most_burst == 0 && !result.is_generator_limited);
    assert!(bed.plans.iter().all(|plan| plan.frames.is_some() && plan.rate_fps.is_infinite()));
}

#[test]
fn line_rate_that_is_not_given_is_what_the_generator_sends() {
    let mut bed = Simulated::with_buffer(1e6, 1000).with_generator(2e6);
    let config = BackToBackConfig { repetitions: 1, resolution_frames: 10, ..BackToBackConfig::strict(None, 1e6) };
    let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
    assert!((result.line_fps - 2e6).abs() < 1.0);
    assert!((1990.0..=2000.0).contains(&result.frames.mean), "{:?}", result.frames);
    assert!((result.corrected_buffer_ns - 500_000.0).abs() < 5000.0);
}

#[test]
fn buffer_that_is_longer_than_the_longest_burst_is_marked() {
    let config = BackToBackConfig { repetitions: 2, ..BackToBackConfig::strict(Some(1e6), 5e5) };
    let mut bed = Simulated::with_buffer(5e5, u64::MAX / 2).with_generator(1e6);
    let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
    assert_eq!((result.at_most_burst, result.frames.least), (2, 2e6));
}

#[test]
fn burst_that_the_generator_cannot_send_is_marked() {
    let config = BackToBackConfig { repetitions: 1, ..BackToBackConfig::strict(Some(10e6), 2e6) };
    let mut bed = Simulated::with_buffer(2e6, 100).with_generator(3e6);
    let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
    assert!(result.is_generator_limited);
}

#[test]
fn rare_noise_does_not_shorten_a_burst_that_is_verified() {
    let mut random = Random(7);
    let mut bed = Simulated::new(move |offered| offered.frames.saturating_sub(5000) + u64::from(random.part() < 0.02));
    let config = BackToBackConfig { repetitions: 20, verifications: 2, ..BackToBackConfig::strict(Some(1e9), 1e3) };
    let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
    assert_eq!((result.frames.least, result.frames.greatest), (5000.0, 5000.0));
    assert_eq!(result.frames.standard_deviation, Some(0.0));
}

#[test]
fn throughput_at_line_rate_leaves_no_burst_to_search_for() {
    let refused = back_to_back(&mut Simulated::sharp(1e6), &BackToBackConfig::strict(Some(1e6), 1e6)).unwrap_err();
    assert!(refused.to_string().contains("throughput is 1000000; it must be below the line rate"), "{refused}");
    let bed = &mut Simulated::sharp(1e6).with_generator(1e6);
    assert!(matches!(back_to_back(bed, &BackToBackConfig::strict(None, 1e6)), Err(SearchError::Input(_))));
}

/// A device that is silent after a reset for as long as is listed.
struct Silent {
    bed: Simulated,
    outages_ns: Vec<Option<u64>>,
}

impl Testbed for Silent {
    type Error = Infallible;

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Infallible> {
        self.bed.trial(plan)
    }

    fn pause(&mut self, duration_ns: u64) -> Result<(), Infallible> {
        self.bed.pause(duration_ns)
    }
}

impl Resettable for Silent {
    fn reset(&mut self, rate_fps: f64) -> Result<Option<u64>, Infallible> {
        assert!(rate_fps > 0.0);
        Ok(self.outages_ns.pop().flatten())
    }
}

#[test]
fn reset_is_the_mean_of_outages_and_ends_where_no_frame_comes_again() {
    let config = ResetConfig { rate_fps: 1e6, repetitions: 3, pauses: Pauses::STRICT };
    let outages_ns = vec![Some(30), Some(10), Some(20)];
    let mut bed = Silent { bed: Simulated::sharp(1e6), outages_ns };
    let Ok(result) = reset(&mut bed, &config) else { panic!() };
    assert_eq!(result.outage_ns.map(|spread| (spread.mean, spread.greatest)), Some((20.0, 30.0)));
    assert_eq!(bed.bed.paused_ns, 15 * SECOND_NS);
    bed.outages_ns = vec![Some(30), None, Some(20)];
    let Ok(result) = reset(&mut bed, &config) else { panic!() };
    assert_eq!(result.outages_ns, [Some(20), None]);
}

#[test]
fn input_that_cannot_be_measured_with_is_refused_with_its_value() {
    let mut bed = Simulated::sharp(1e6);
    let refused = [
        throughput(&mut bed, &ThroughputConfig { resolution: 0.0, ..STRICT }).unwrap_err(),
        throughput(&mut bed, &ThroughputConfig { search_trial_ns: 61 * SECOND_NS, ..STRICT }).unwrap_err(),
        frame_loss(&mut bed, &FrameLossConfig { step: 0.2, ..FrameLossConfig::strict(1e6) }).unwrap_err(),
        latency(&mut bed, &LatencyConfig { repetitions: 0, ..LatencyConfig::strict(1e6) }).unwrap_err(),
    ]
    .map(|error| error.to_string());
    let wanted = ["resolution is 0;", "61000000000, above", "step is 0.2;", "repetitions is 0;"];
    for (error, wanted) in refused.iter().zip(wanted) {
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(bed.plans, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_capacity_is_between_bounds_after_few_trials(capacity_fps in 1100f64..9.9e6, resolution in 0.0005f64..0.3) {
        let mut bed = Simulated::sharp(capacity_fps);
        let result = searched(&mut bed, &ThroughputConfig { resolution, ..STRICT });
        let (rate_fps, lossy_fps) = found(&result);
        prop_assert!(rate_fps <= capacity_fps + 1.0 && capacity_fps <= lossy_fps + 1.0, "{} {}", rate_fps, lossy_fps);
        prop_assert!(lossy_fps - rate_fps <= lossy_fps * resolution * 1.000_001);
        prop_assert!(result.trials.len() <= 40, "{}", result.trials.len());
    }

    #[test]
    fn any_buffer_is_found_within_the_resolution(buffer_frames in 0u64..100_000, resolution_frames in 1u64..100) {
        let config = BackToBackConfig { repetitions: 1, resolution_frames, ..BackToBackConfig::strict(Some(8e6), 2e6) };
        let mut bed = Simulated::with_buffer(2e6, buffer_frames).with_generator(8e6);
        let Ok(result) = back_to_back(&mut bed, &config) else { panic!() };
        let buffer_ns = buffer_frames as f64 / 8e6 * 1e9;
        // The last frame of a burst may have left in part.
        let tolerance_ns = (resolution_frames + 1) as f64 / 8e6 * 1e9;
        prop_assert!((result.corrected_buffer_ns - buffer_ns).abs() <= tolerance_ns, "{}", result.corrected_buffer_ns);
    }
}

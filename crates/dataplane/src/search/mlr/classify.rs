//! What trials at one load say about a goal (RFC 9971, appendices "Load Classification Code" and "Conditional Throughput
//! Code").

/// Durations are summed as floating-point numbers. Less than this is no difference: half of the unit in which they are given.
const ROUNDING_NS: f64 = 0.5;

/// What a load is for a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// It is carried, whatever further trials within the duration sum show.
    Lower,
    /// It is not, whatever further trials show.
    Upper,
    /// Further trials decide.
    Undecided,
}

/// How long and how many trials decide a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// A shorter trial is a short one.
    pub(super) trial_ns: u64,
    /// Goal Duration Sum.
    pub(super) duration_sum_ns: u64,
    /// Goal Exceed Ratio.
    pub(super) exceed_ratio: f64,
    /// How close the bounds must be, as a part of the upper one.
    pub(super) width: f64,
}

/// One trial as a goal sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) duration_ns: u64,
    /// Not high-loss, and within the latency bound.
    pub(super) is_good: bool,
    pub(super) loss_ratio: f64,
}

/// Time of the trials at one load.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    full_good_ns: f64,
    full_bad_ns: f64,
    short_good_ns: f64,
    short_bad_ns: f64,
}

impl Sums {
    fn of(trials: impl Iterator<Item = Seen>, target: &Target) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let sum = match (trial.duration_ns >= target.trial_ns, trial.is_good) {
                (true, true) => &mut sums.full_good_ns,
                (true, false) => &mut sums.full_bad_ns,
                (false, true) => &mut sums.short_good_ns,
                (false, false) => &mut sums.short_bad_ns,
            };
            *sum += trial.duration_ns as f64;
        }
        sums
    }
}

/// What the load is for the target.
///
/// Short good trials only make up for short bad ones, in the ratio that the exceed ratio allows; they never show that a load is
/// carried.
pub(super) fn classify(trials: impl Iterator<Item = Seen>, target: &Target) -> Class {
    let sums = Sums::of(trials, target);
    let exceed_coefficient = target.exceed_ratio / (1.0 - target.exceed_ratio);
    let excess_ns = (sums.short_bad_ns - sums.short_good_ns * exceed_coefficient).max(0.0);
    let bad_ns = sums.full_bad_ns + excess_ns;
    let whole_ns = (sums.full_good_ns + bad_ns).max(target.duration_sum_ns as f64);
    let allowed_ns = whole_ns * target.exceed_ratio + ROUNDING_NS;
    // All that is still to be measured may turn out bad.
    let bad_at_worst_ns = whole_ns - sums.full_good_ns;
    if bad_ns > allowed_ns {
        Class::Upper
    } else if bad_at_worst_ns <= allowed_ns {
        Class::Lower
    } else {
        Class::Undecided
    }
}

/// Frames a second that are typically forwarded at a load that the target's goal calls carried: what is left after the loss
/// of the worst trial that is within the exceed ratio. 0 if too few trials were measured.
pub(super) fn conditional_fps(load_fps: f64, trials: impl Iterator<Item = Seen>, target: &Target) -> f64 {
    let mut full: Vec<Seen> = trials.filter(|trial| trial.duration_ns >= target.trial_ns).collect();
    // Without a latency bound this is the order of loss ratios.
    full.sort_by(|a, b| b.is_good.cmp(&a.is_good).then(a.loss_ratio.total_cmp(&b.loss_ratio)));
    let full_ns: f64 = full.iter().map(|trial| trial.duration_ns as f64).sum();
    let mut remaining_ns = full_ns.max(target.duration_sum_ns as f64) * (1.0 - target.exceed_ratio);
    for trial in full {
        remaining_ns -= trial.duration_ns as f64;
        if remaining_ns <= ROUNDING_NS {
            return load_fps * (1.0 - trial.loss_ratio);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::SECOND_NS;

    fn target(trial_s: u64, sum_s: u64, exceed_ratio: f64) -> Target {
        Target { trial_ns: trial_s * SECOND_NS, duration_sum_ns: sum_s * SECOND_NS, exceed_ratio, width: 0.005 }
    }

    /// How many trials, how long, with which loss.
    type Trials = [(usize, u64, f64)];

    fn seen(trials: &Trials, loss_ratio_most: f64) -> impl Iterator<Item = Seen> {
        trials.iter().flat_map(move |&(count, seconds, loss_ratio)| {
            let is_good = loss_ratio <= loss_ratio_most;
            std::iter::repeat_n(Seen { duration_ns: seconds * SECOND_NS, is_good, loss_ratio }, count)
        })
    }

    /// The points in time of RFC 9971, appendix "Example Search": what was measured up to each.
    const POINTS: [&Trials; 6] = [
        &[(59, 1, 0.0)],
        &[(59, 1, 0.0), (1, 1, 0.01)],
        &[(59, 1, 0.0), (60, 1, 0.01)],
        &[(60, 1, 0.0), (60, 1, 0.01)],
        &[(60, 1, 0.0), (60, 1, 0.01), (1, 60, 0.001)],
        &[(60, 1, 0.0), (60, 1, 0.01), (1, 60, 0.001), (1, 60, 0.0)],
    ];

    fn classes(target: &Target, loss_ratio_most: f64) -> [Class; 6] {
        POINTS.map(|trials| classify(seen(trials, loss_ratio_most), target))
    }

    #[test]
    fn example_of_the_rfc_is_classified_as_it_is_there() {
        use Class::{Lower, Undecided, Upper};
        let rfc2544 = [Undecided, Upper, Upper, Upper, Upper, Upper];
        assert_eq!(classes(&target(60, 60, 0.0), 0.0), rfc2544);
        let tst009 = [Undecided, Undecided, Undecided, Undecided, Undecided, Lower];
        assert_eq!(classes(&target(60, 120, 0.5), 0.0), tst009);
        let final_of_1_s = [Undecided, Undecided, Undecided, Lower, Lower, Lower];
        assert_eq!(classes(&target(1, 120, 0.5), 0.005), final_of_1_s);
        let exceed_of_20_percent = [Undecided, Undecided, Upper, Upper, Upper, Upper];
        assert_eq!(classes(&target(60, 60, 0.2), 0.005), exceed_of_20_percent);
    }

    #[test]
    fn load_without_a_trial_is_undecided() {
        assert_eq!(classify(std::iter::empty(), &target(1, 21, 0.5)), Class::Undecided);
    }

    #[test]
    fn load_is_decided_as_soon_as_the_rest_cannot_change_it() {
        let target = target(1, 21, 0.5);
        assert_eq!(classify(seen(&[(10, 1, 0.0)], 0.0), &target), Class::Undecided);
        assert_eq!(classify(seen(&[(11, 1, 0.0)], 0.0), &target), Class::Lower);
        assert_eq!(classify(seen(&[(10, 1, 0.1)], 0.0), &target), Class::Undecided);
        assert_eq!(classify(seen(&[(11, 1, 0.1)], 0.0), &target), Class::Upper);
    }

    #[test]
    fn exceed_ratio_that_is_not_exact_in_binary_is_met_exactly() {
        // 29 of 100 are bad, and 29 % may be.
        assert_eq!(classify(seen(&[(71, 1, 0.0), (29, 1, 0.1)], 0.0), &target(1, 100, 0.29)), Class::Lower);
    }

    #[test]
    fn conditional_throughput_is_of_the_worst_trial_within_the_exceed_ratio() {
        let trials = [(5, 1, 0.0), (5, 1, 0.001), (5, 1, 0.4), (6, 1, 0.001)];
        // Half of 21: the eleventh from below.
        let fps = conditional_fps(1000.0, seen(&trials, 0.005), &target(1, 21, 0.5));
        assert!((fps - 999.0).abs() < 1e-9, "{fps}");
        let fps = conditional_fps(1000.0, seen(&[(11, 1, 0.001)], 0.005), &target(1, 21, 0.5));
        assert!((fps - 999.0).abs() < 1e-9, "{fps}");
    }

    #[test]
    fn conditional_throughput_of_too_few_trials_is_zero() {
        assert!(conditional_fps(1000.0, seen(&[(10, 1, 0.0)], 0.0), &target(1, 21, 0.5)).abs() < f64::EPSILON);
    }
}

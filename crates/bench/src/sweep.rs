//! The rates of a sweep: up to what a path carries, which short trials find.

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::interrupted;

use crate::bed::TestBed;
use crate::experiment::{CellSpec, Experiment};
use crate::round::{self, RoundError};
use crate::workloads::{RoundPlan, SampleBuffer};

/// Rates of a sweep, each so many parts of the greatest.
const POINTS: u64 = 10;
/// Where the search begins.
const FIRST_PER_SECOND: u64 = 1000;
/// How long one trial sends.
const TRIAL_NS: u64 = 30_000_000;
/// A trial that fails is repeated: the machine may have been busy with something else.
const TRIALS: u32 = 3;
/// Halvings of the distance between a rate that is carried and twice of it.
const HALVINGS: u32 = 3;
/// Of so many messages one may be missing where a path carries a rate.
const MISSING_ONE_OF: u64 = 1000;

/// The rates of a sweep of one cell, ascending. Pins nothing; callers do.
///
/// # Errors
/// The path failed, or the responder is gone.
pub fn rates(
    bed: &mut TestBed,
    clock: Clock,
    experiment: &Experiment,
    cell: &CellSpec,
) -> Result<Vec<u64>, RoundError> {
    let greatest = greatest_per_second(|rate_per_second| carries(bed, clock, experiment, cell, rate_per_second))?;
    Ok(points(greatest))
}

/// The greatest rate that is carried, found by doubling and halving; [`FIRST_PER_SECOND`] where not even that is.
fn greatest_per_second<E>(mut is_carried: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let mut carried = FIRST_PER_SECOND;
    while carried < crate::workloads::load::RATE_PER_SECOND_MAX && is_carried(carried * 2)? {
        carried *= 2;
    }
    let mut step = carried;
    for _ in 0..HALVINGS {
        step /= 2;
        if is_carried(carried + step)? {
            carried += step;
        }
    }
    Ok(carried)
}

/// Equal steps up to the greatest rate, with two significant digits each.
fn points(greatest_per_second: u64) -> Vec<u64> {
    let mut points: Vec<u64> = (1..=POINTS).map(|part| two_digits(greatest_per_second * part / POINTS)).collect();
    points.dedup();
    points
}

fn two_digits(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    number / unit * unit
}

/// Whether nearly all messages of a rate leave in time and are answered, in one of some trials.
fn carries(
    bed: &mut TestBed,
    clock: Clock,
    experiment: &Experiment,
    cell: &CellSpec,
    rate_per_second: u64,
) -> Result<bool, RoundError> {
    let cell = CellSpec { rate_per_second: Some(rate_per_second), ..*cell };
    for trial in 0..TRIALS {
        // Nothing more is measured then, whatever is found.
        if interrupted() {
            return Ok(false);
        }
        let setup = experiment.setup(&cell, bed, std::process::id(), trial, None);
        let plan = RoundPlan {
            warm_up_messages: 0,
            warm_up_ns: TRIAL_NS / 10,
            messages: None,
            time_ns: Some(TRIAL_NS),
            timeout_ns: experiment.timeout_ns,
            cpu: None,
        };
        let mut buffer = SampleBuffer::new(0);
        let outcome = round::run(bed, clock, &setup, &plan, &mut buffer)?.outcome;
        let missing = outcome.unsent + outcome.lost;
        if missing * MISSING_ONE_OF <= outcome.sent + outcome.unsent {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn found(limit: u64) -> (u64, u32) {
        let mut trials = 0;
        let greatest = greatest_per_second(|rate| {
            trials += 1;
            Ok::<_, Infallible>(rate <= limit)
        });
        (greatest.unwrap(), trials)
    }

    #[test]
    fn greatest_rate_is_found_to_an_eighth_from_below() {
        for limit in [2000, 3333, 57_000, 999_999, 7_654_321] {
            let (greatest, trials) = found(limit);
            assert!(greatest <= limit && greatest * 9 / 8 >= limit * 7 / 8, "{limit}: {greatest}");
            assert!(trials < 20, "{trials}");
        }
    }

    #[test]
    fn path_that_carries_nothing_is_swept_at_the_least_rate() {
        assert_eq!(found(0).0, FIRST_PER_SECOND);
    }

    #[test]
    fn ten_points_have_two_digits_and_end_at_the_greatest() {
        let points = points(1_280_000);
        assert_eq!(points.len(), 10);
        assert_eq!([points[0], points[4], points[9]], [120_000, 640_000, 1_200_000]);
    }
}

//! Which load is tried next for a goal. RFC 9971 leaves this open: it decides how long a search takes, not what it finds.
//!
//! A goal is approached in levels. The first has the shortest trials, decides a load by one of them, and wants bounds that
//! are only roughly close; the last one is the goal itself. Each begins at the bounds of the level before.

use super::Goal;
use super::classify::Target;
use super::loads::{Bounds, Loads};

/// The level of the goal itself.
pub(super) const LAST_LEVEL: usize = 2;
/// Width of the first level, in widths of the goal, and at most.
const FIRST_WIDTH: (f64, f64) = (4.0, 0.5);
/// A step of a search that has yet to find a bound goes at most so far, as a part of the rate.
const STEP_MOST: f64 = 0.5;
/// Bounds that are more steps apart than this are not halved: the next load is a step away from the newer one.
const FAR_STEPS: f64 = 8.0;
/// Widths are compared with this tolerance, as a part: a step of exactly a width may be a little more in binary.
const WIDTH_TOLERANCE: f64 = 1e-9;

/// What decides a load for a goal at a level.
pub(super) fn target(goal: &Goal, level: usize) -> Target {
    let short = |trial_ns: u64, width: f64| Target {
        trial_ns,
        duration_sum_ns: trial_ns,
        exceed_ratio: goal.exceed_ratio,
        width,
    };
    match level {
        0 => short(goal.initial_trial_ns, (goal.width * FIRST_WIDTH.0).min(FIRST_WIDTH.1).max(goal.width)),
        1 => {
            let between_ns = (goal.initial_trial_ns as f64 * goal.final_trial_ns as f64).sqrt() as u64;
            short(between_ns.clamp(goal.initial_trial_ns, goal.final_trial_ns), goal.width)
        }
        _ => Target {
            trial_ns: goal.final_trial_ns,
            duration_sum_ns: goal.duration_sum_ns,
            exceed_ratio: goal.exceed_ratio,
            width: goal.width,
        },
    }
}

/// Least and greatest load of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) least_fps: f64,
    pub(super) most_fps: f64,
}

/// Whether nothing is left to be tried: the bounds are close, or one is at the end of the range.
pub(super) fn is_settled(bounds: &Bounds, width: f64, range: &Range) -> bool {
    match (bounds.lower_fps, bounds.upper_fps) {
        (None, None) => false,
        (None, Some(upper_fps)) => upper_fps <= range.least_fps,
        (Some(lower_fps), None) => lower_fps >= range.most_fps,
        (Some(lower_fps), Some(upper_fps)) => upper_fps - lower_fps <= upper_fps * width * (1.0 + WIDTH_TOLERANCE),
    }
}

/// How far one goal has come.
#[derive(Debug)]
pub(super) struct Progress {
    /// Number of the goal.
    number: usize,
    pub(super) level: usize,
    /// A load whose trials have not decided it yet.
    pending_fps: Option<f64>,
    /// Steps up and down at this level so far; each is twice as long as the one before.
    steps: (i32, i32),
}

impl Progress {
    pub(super) const fn new(number: usize) -> Progress {
        Progress { number, level: 0, pending_fps: None, steps: (0, 0) }
    }

    /// The load for the next trial at this level; `None` if the level is settled.
    pub(super) fn next_fps(&mut self, goal: &Goal, loads: &Loads, range: &Range) -> Option<f64> {
        let target = target(goal, self.level);
        let bounds = loads.bounds(self.number, &target);
        if is_settled(&bounds, target.width, range) {
            return None;
        }
        // A load between the bounds that has trials is undecided: it would be a bound otherwise.
        let pending_fps = self.pending_fps.filter(|&fps| bounds.are_around(fps));
        let next_fps = pending_fps
            .or_else(|| self.bound_of_level_before(goal, loads, &bounds))
            .unwrap_or_else(|| self.new_load(goal, loads, range, &bounds, target.width));
        self.pending_fps = Some(next_fps);
        self.pending_fps
    }

    /// Goes on to the next level.
    pub(super) const fn rise(&mut self) {
        self.level += 1;
        self.pending_fps = None;
        self.steps = (0, 0);
    }

    /// The lower one first: what is found at a smaller load may make trials at a greater one needless.
    fn bound_of_level_before(&self, goal: &Goal, loads: &Loads, bounds: &Bounds) -> Option<f64> {
        let before = loads.bounds(self.number, &target(goal, self.level.checked_sub(1)?));
        [before.lower_fps, before.upper_fps].into_iter().flatten().find(|&fps| bounds.are_around(fps))
    }

    fn new_load(&mut self, goal: &Goal, loads: &Loads, range: &Range, bounds: &Bounds, width: f64) -> f64 {
        let next_fps = match (bounds.lower_fps, bounds.upper_fps) {
            (None, None) => range.most_fps,
            (Some(lower_fps), None) => self.step_up(lower_fps, width),
            (None, Some(upper_fps)) => self.step_down(upper_fps, width, goal, loads),
            (Some(lower_fps), Some(upper_fps)) => self.between((lower_fps, upper_fps), width, goal, loads),
        };
        next_fps.clamp(range.least_fps, range.most_fps)
    }

    fn step_up(&mut self, lower_fps: f64, width: f64) -> f64 {
        let step = width * 2f64.powi(self.steps.0);
        self.steps.0 += 1;
        lower_fps * (1.0 + step)
    }

    /// Down by a step, or to what the device forwarded of a load that is too high if that is further down: it forwards a load
    /// just below that without loss unless it breaks down under overload.
    fn step_down(&mut self, upper_fps: f64, width: f64, goal: &Goal, loads: &Loads) -> f64 {
        let step = (width * 2f64.powi(self.steps.1)).min(STEP_MOST);
        self.steps.1 += 1;
        let forwarded = loads.outcomes(upper_fps).map(|trial| upper_fps * (1.0 - trial.outcome.loss_ratio()));
        let carried_fps = forwarded.fold(0.0, f64::max) / (1.0 - goal.loss_ratio) * (1.0 - width / 2.0);
        (upper_fps * (1.0 - step)).min(carried_fps)
    }

    fn between(&mut self, (lower_fps, upper_fps): (f64, f64), width: f64, goal: &Goal, loads: &Loads) -> f64 {
        // Rates are compared by ratio, so the middle is the geometric one.
        let middle_fps = (lower_fps * upper_fps).sqrt();
        let is_from_below = loads.is_newer(lower_fps, upper_fps);
        let steps = if is_from_below { self.steps.0 } else { self.steps.1 };
        if width * 2f64.powi(steps) * FAR_STEPS > upper_fps / lower_fps - 1.0 {
            return middle_fps;
        }
        if is_from_below {
            self.step_up(lower_fps, width)
        } else {
            let next_fps = self.step_down(upper_fps, width, goal, loads);
            if next_fps > lower_fps * (1.0 + width) { next_fps } else { middle_fps }
        }
    }
}

//! Searches for what a device carries. They make trials of a [`Testbed`] and neither wait nor read a clock themselves.
//!
//! | search | what it finds | source |
//! |---|---|---|
//! | [`mlr`] | load bounds for several goals at once, on devices with noise | RFC 9971 (draft-ietf-bmwg-mlrsearch) |
//! | [`rfc2544`] | throughput, latency, frame loss rate, back-to-back frames, reset | RFC 2544 section 26, RFC 9004 |
//!
//! Frames that the generator did not send in time count as lost. Where they are most of the loss, the result says that the
//! generator was the limit, and is no figure of the device.
//!
//! None of these may run on a network that carries other traffic (RFC 6815 section 4): the caller sees to that.

use crate::trial::{Testbed, Trial, TrialPlan};

pub mod mlr;
mod outcome;
pub mod rfc2544;
#[cfg(test)]
mod simulated;

pub use outcome::{LatencySummary, Outcome};

/// A second, in ns.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Times without traffic around trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// After the last frame, for frames that are still on their way.
    pub residual_ns: u64,
    /// After that and before the next trial, for the device to come to rest.
    pub settle_ns: u64,
}

impl Pauses {
    /// What RFC 2544 section 23 asks for, steps d and e: 2 s and 5 s.
    pub const STRICT: Pauses = Pauses { residual_ns: 2 * SECOND_NS, settle_ns: 5 * SECOND_NS };
    /// For searches that make many short trials of a device without deep buffers: 100 ms and none.
    pub const SHORT: Pauses = Pauses { residual_ns: SECOND_NS / 10, settle_ns: 0 };
    /// No wait at all, for test beds without time.
    pub const NONE: Pauses = Pauses { residual_ns: 0, settle_ns: 0 };
}

impl Default for Pauses {
    /// [`Pauses::STRICT`].
    fn default() -> Pauses {
        Pauses::STRICT
    }
}

/// Why a search was not made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InputError {
    /// There is nothing to search for.
    #[error("no goal is given")]
    NoGoal,
    /// A value is not one that a search can be made with.
    #[error("{name} is {value}; it must be {wanted}")]
    OutOfRange {
        /// Which value.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What can be given.
        wanted: &'static str,
    },
    /// Of two values the first must not be above the second.
    #[error("{low_name} is {low}, above {high_name}, which is {high}")]
    Order {
        /// Which value is too high.
        low_name: &'static str,
        /// What was given for it.
        low: f64,
        /// Which value it must not exceed.
        high_name: &'static str,
        /// What was given for that.
        high: f64,
    },
}

impl InputError {
    /// An error unless `is_right`.
    pub(crate) const fn unless(
        is_right: bool,
        name: &'static str,
        value: f64,
        wanted: &'static str,
    ) -> Result<(), InputError> {
        if is_right { Ok(()) } else { Err(InputError::OutOfRange { name, value, wanted }) }
    }

    /// An error if `low` is above `high`.
    pub(crate) fn unless_ordered(
        (low_name, low): (&'static str, f64),
        (high_name, high): (&'static str, f64),
    ) -> Result<(), InputError> {
        if low <= high { Ok(()) } else { Err(InputError::Order { low_name, low, high_name, high }) }
    }
}

/// Why a search ended without a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError<E> {
    /// What was asked for cannot be searched for.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The test bed failed in a trial.
    #[error("a trial failed")]
    Testbed(#[source] E),
}

/// Makes trials with pauses, and adds up how long that takes.
#[derive(Debug)]
pub(crate) struct Runner<'a, B> {
    bed: &'a mut B,
    pauses: Pauses,
    /// Planned time of all trials so far, with their pauses.
    pub(crate) time_ns: u64,
}

impl<'a, B: Testbed> Runner<'a, B> {
    pub(crate) const fn new(bed: &'a mut B, pauses: Pauses) -> Runner<'a, B> {
        Runner { bed, pauses, time_ns: 0 }
    }

    /// How long a trial takes with its pauses.
    pub(crate) const fn cost_ns(&self, duration_ns: u64) -> u64 {
        duration_ns.saturating_add(self.pauses.residual_ns).saturating_add(self.pauses.settle_ns)
    }

    /// A trial at a rate.
    pub(crate) fn steady(&mut self, rate_fps: f64, duration_ns: u64) -> Result<Trial, SearchError<B::Error>> {
        self.run(TrialPlan::steady(rate_fps, duration_ns, self.pauses.residual_ns))
    }

    /// A burst at the generator's full rate.
    pub(crate) fn burst(&mut self, frames: u64, most_ns: u64) -> Result<Trial, SearchError<B::Error>> {
        self.run(TrialPlan::burst(frames, most_ns, self.pauses.residual_ns))
    }

    fn run(&mut self, plan: TrialPlan) -> Result<Trial, SearchError<B::Error>> {
        self.time_ns = self.time_ns.saturating_add(self.cost_ns(plan.duration_ns));
        let trial = self.bed.trial(plan).map_err(SearchError::Testbed)?;
        self.settle()?;
        Ok(trial)
    }

    /// Lets the device come to rest.
    pub(crate) fn settle(&mut self) -> Result<(), SearchError<B::Error>> {
        if self.pauses.settle_ns == 0 {
            return Ok(());
        }
        self.bed.pause(self.pauses.settle_ns).map_err(SearchError::Testbed)
    }

    /// The test bed itself.
    pub(crate) const fn bed(&mut self) -> &mut B {
        self.bed
    }
}

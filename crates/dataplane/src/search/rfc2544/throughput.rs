//! Throughput (RFC 2544 section 26.1): the greatest rate at which not one frame is lost.

use super::check_rate;
use crate::search::{InputError, Outcome, Pauses, Runner, SECOND_NS, SearchError};
use crate::trial::Testbed;

/// How throughput is searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputConfig {
    /// Where the search starts: the maximum frame rate of the medium at this frame size (section 20).
    pub most_fps: f64,
    /// Where it gives up.
    pub least_fps: f64,
    /// How close the greatest rate without loss and the least with loss must be, as a part of the latter.
    pub resolution: f64,
    /// Length of trials that search. Section 24 allows that they are shorter.
    pub search_trial_ns: u64,
    /// Length of the trial that confirms a rate: at least 60 s (section 24).
    pub trial_ns: u64,
    /// Trials, after which the search ends in any case.
    pub most_trials: usize,
    /// Waits after each trial (section 23).
    pub pauses: Pauses,
}

impl ThroughputConfig {
    /// The values of the RFC: 60 s, and 2 s and 5 s of rest. It names no resolution and no length for trials that search: 0.1 %
    /// and 10 s.
    #[must_use]
    pub const fn strict(least_fps: f64, most_fps: f64) -> ThroughputConfig {
        ThroughputConfig {
            most_fps,
            least_fps,
            resolution: 0.001,
            search_trial_ns: 10 * SECOND_NS,
            trial_ns: 60 * SECOND_NS,
            most_trials: 200,
            pauses: Pauses::STRICT,
        }
    }

    fn check(&self) -> Result<(), InputError> {
        check_rate("the least rate", self.least_fps)?;
        check_rate("the greatest rate", self.most_fps)?;
        InputError::unless_ordered(("the least rate", self.least_fps), ("the greatest", self.most_fps))?;
        let is_resolution = (1e-6..1.0).contains(&self.resolution);
        InputError::unless(is_resolution, "the resolution", self.resolution, "from 0.000001 to below 1")?;
        let [search_ns, full_ns] = [self.search_trial_ns, self.trial_ns].map(|ns| ns as f64);
        InputError::unless(search_ns > 0.0, "the length of a trial that searches", search_ns, "above 0 ns")?;
        InputError::unless_ordered(("the length of a trial that searches", search_ns), ("the full one", full_ns))
    }
}

/// One trial of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputTrial {
    /// What was offered.
    pub rate_fps: f64,
    /// For how long, as planned.
    pub duration_ns: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Throughput {
    /// The throughput, to the resolution.
    Found {
        /// Greatest rate that a full trial confirmed.
        rate_fps: f64,
        /// Least rate at which a trial lost a frame.
        lossy_fps: f64,
    },
    /// A full trial at the maximum rate lost nothing.
    AtLeast {
        /// The maximum rate.
        most_fps: f64,
    },
    /// Frames were lost even at the least rate.
    NotAtLeast {
        /// The least rate.
        least_fps: f64,
    },
    /// The generator did not send what was due at the least rate with loss: this is no figure of the device.
    GeneratorLimited {
        /// Greatest rate that a full trial confirmed; `None`: none was.
        rate_fps: Option<f64>,
        /// Least rate that was not sent in time.
        lossy_fps: f64,
    },
    /// The search ended after [`ThroughputConfig::most_trials`].
    NotConverged {
        /// Greatest rate at which a trial lost nothing, below any that did; it is not confirmed.
        lossless_fps: Option<f64>,
        /// Least rate at which a trial lost a frame.
        lossy_fps: Option<f64>,
    },
}

impl Throughput {
    /// The rate that a full trial confirmed.
    #[must_use]
    pub const fn confirmed_fps(&self) -> Option<f64> {
        match *self {
            Throughput::Found { rate_fps, .. } => Some(rate_fps),
            Throughput::AtLeast { most_fps } => Some(most_fps),
            Throughput::GeneratorLimited { rate_fps, .. } => rate_fps,
            Throughput::NotAtLeast { .. } | Throughput::NotConverged { .. } => None,
        }
    }
}

/// Throughput and the trials that it was found by.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputResult {
    /// What was found.
    pub throughput: Throughput,
    /// All trials, in order.
    pub trials: Vec<ThroughputTrial>,
    /// Time of all trials with their pauses, as planned.
    pub time_ns: u64,
}

/// Searches by bisection with short trials; a full trial confirms what is found. If that loses a frame, the search goes on below
/// with full trials, since short ones are too kind to the device.
///
/// # Errors
/// A value is not possible, or the test bed failed.
pub fn throughput<B: Testbed>(
    bed: &mut B,
    config: &ThroughputConfig,
) -> Result<ThroughputResult, SearchError<B::Error>> {
    config.check()?;
    let mut runner = Runner::new(bed, config.pauses);
    let mut bisection = Bisection { config, lossless: Vec::new(), lossy: None, search_ns: config.search_trial_ns };
    let mut trials = Vec::new();
    let throughput = loop {
        let (rate_fps, duration_ns) = match bisection.next() {
            Next::Trial { .. } if trials.len() >= config.most_trials => break bisection.not_converged(),
            Next::Trial { rate_fps, duration_ns } => (rate_fps, duration_ns),
            Next::End(throughput) => break throughput,
        };
        let outcome = Outcome::from(&runner.steady(rate_fps, duration_ns)?);
        bisection.learn(rate_fps, duration_ns, &outcome);
        trials.push(ThroughputTrial { rate_fps, duration_ns, outcome });
    };
    Ok(ThroughputResult { throughput, trials, time_ns: runner.time_ns })
}

enum Next {
    Trial { rate_fps: f64, duration_ns: u64 },
    End(Throughput),
}

#[derive(Debug, Clone, Copy)]
struct Lossless {
    rate_fps: f64,
    is_confirmed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Lossy {
    rate_fps: f64,
    is_generator_limited: bool,
}

/// What trials showed so far.
struct Bisection<'a> {
    config: &'a ThroughputConfig,
    /// Rates without loss, all below the least rate with loss.
    lossless: Vec<Lossless>,
    /// The least rate with loss.
    lossy: Option<Lossy>,
    /// Length of trials that search.
    search_ns: u64,
}

impl Bisection<'_> {
    fn learn(&mut self, rate_fps: f64, duration_ns: u64, outcome: &Outcome) {
        // What a shorter trial showed at this rate does not count any more, and nothing is known above a rate with loss.
        let known = self.lossless.len();
        self.lossless.retain(|lossless| lossless.rate_fps < rate_fps);
        let is_confirmed = duration_ns >= self.config.trial_ns;
        if outcome.is_lossless() {
            self.lossless.push(Lossless { rate_fps, is_confirmed });
            return;
        }
        if self.lossless.len() < known {
            self.search_ns = self.config.trial_ns;
        }
        self.lossy = Some(Lossy { rate_fps, is_generator_limited: outcome.is_generator_limited() });
    }

    fn greatest_lossless(&self) -> Option<Lossless> {
        self.lossless.iter().copied().max_by(|a, b| a.rate_fps.total_cmp(&b.rate_fps))
    }

    fn next(&self) -> Next {
        let &ThroughputConfig { least_fps, most_fps, .. } = self.config;
        let search = |rate_fps| Next::Trial { rate_fps, duration_ns: self.search_ns };
        match (self.greatest_lossless(), self.lossy) {
            (None, None) => search(most_fps),
            (Some(lossless), None) => self.confirm(lossless, Throughput::AtLeast { most_fps }),
            (None, Some(lossy)) if lossy.rate_fps <= least_fps => Next::End(self.at_most(None, lossy)),
            (None, Some(lossy)) if self.are_close(least_fps, lossy) => search(least_fps),
            (None, Some(lossy)) => search(f64::midpoint(least_fps, lossy.rate_fps)),
            (Some(lossless), Some(lossy)) if self.are_close(lossless.rate_fps, lossy) => {
                self.confirm(lossless, self.at_most(Some(lossless.rate_fps), lossy))
            }
            (Some(lossless), Some(lossy)) => search(f64::midpoint(lossless.rate_fps, lossy.rate_fps)),
        }
    }

    const fn confirm(&self, lossless: Lossless, throughput: Throughput) -> Next {
        if lossless.is_confirmed {
            return Next::End(throughput);
        }
        Next::Trial { rate_fps: lossless.rate_fps, duration_ns: self.config.trial_ns }
    }

    fn are_close(&self, rate_fps: f64, lossy: Lossy) -> bool {
        lossy.rate_fps - rate_fps <= lossy.rate_fps * self.config.resolution
    }

    const fn at_most(&self, rate_fps: Option<f64>, lossy: Lossy) -> Throughput {
        let lossy_fps = lossy.rate_fps;
        match rate_fps {
            _ if lossy.is_generator_limited => Throughput::GeneratorLimited { rate_fps, lossy_fps },
            Some(rate_fps) => Throughput::Found { rate_fps, lossy_fps },
            None => Throughput::NotAtLeast { least_fps: self.config.least_fps },
        }
    }

    fn not_converged(&self) -> Throughput {
        let greatest = self.greatest_lossless();
        if let Some(lossy) = self.lossy.filter(|lossy| lossy.is_generator_limited) {
            let rate_fps = greatest.filter(|lossless| lossless.is_confirmed).map(|lossless| lossless.rate_fps);
            return self.at_most(rate_fps, lossy);
        }
        Throughput::NotConverged {
            lossless_fps: greatest.map(|lossless| lossless.rate_fps),
            lossy_fps: self.lossy.map(|lossy| lossy.rate_fps),
        }
    }
}

//! Reset (RFC 2544 section 26.6): for how long a device that is reset forwards nothing.

use super::{Spread, check_rate, check_some};
use crate::search::{Pauses, Runner, SearchError};
use crate::trial::Testbed;

/// A test bed whose device can be reset.
pub trait Resettable: Testbed {
    /// Offers the smallest frames at a rate, resets the device meanwhile, and goes on until frames come again.
    ///
    /// Returns the time from the last frame that came before the reset to the first that came after it. `None`: none came for as
    /// long as the test bed waits.
    ///
    /// # Errors
    /// The test bed failed, or could not cause a reset.
    fn reset(&mut self, rate_fps: f64) -> Result<Option<u64>, Self::Error>;
}

/// How a reset is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResetConfig {
    /// The rate: the throughput at the smallest frame size.
    pub rate_fps: f64,
    /// Resets. RFC 2544 names no number.
    pub repetitions: u32,
    /// Waits after each reset (section 23).
    pub pauses: Pauses,
}

/// For how long a device that was reset forwarded nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reset {
    /// Of the resets after which frames came again, in ns; `None`: of none.
    pub outage_ns: Option<Spread>,
    /// Each reset; `None`: no frame came after it. The measurement ends there.
    pub outages_ns: Vec<Option<u64>>,
}

/// Resets the device under load, repeatedly.
///
/// # Errors
/// A value is not possible, or the test bed failed.
pub fn reset<B: Resettable>(bed: &mut B, config: &ResetConfig) -> Result<Reset, SearchError<B::Error>> {
    check_rate("the rate", config.rate_fps)?;
    check_some("the number of repetitions", config.repetitions.into())?;
    let mut runner = Runner::new(bed, config.pauses);
    let mut outages_ns = Vec::new();
    for _ in 0..config.repetitions {
        let outage_ns = runner.bed().reset(config.rate_fps).map_err(SearchError::Testbed)?;
        outages_ns.push(outage_ns);
        if outage_ns.is_none() {
            break;
        }
        runner.settle()?;
    }
    let known: Vec<f64> = outages_ns.iter().flatten().map(|&ns| ns as f64).collect();
    Ok(Reset { outage_ns: Spread::of(&known), outages_ns })
}

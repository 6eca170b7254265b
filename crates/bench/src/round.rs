//! One cell in one round, at the initiator: open both ends, connect, measure, take apart.

use nearwire_lab::LabError;
use nearwire_sys::tsc::Clock;

use crate::bed::TestBed;
use crate::control::{Answer, Ask, ControlError, ResponderReport};
use crate::endpoint::{Endpoint, EndpointError, Remark};
use crate::paths::{Path, PathError, PathVisitor, Setup, with_path};
use crate::workloads::{RoundOutcome, RoundPlan, SampleBuffer, Workload};

/// What came of it, beside the samples in the buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundResult {
    /// The initiator's side.
    pub outcome: RoundOutcome,
    /// The responder's side.
    pub responder: ResponderReport,
    /// What the initiator's end has to say.
    pub remarks: Vec<Remark>,
}

/// Measures one cell for one round.
///
/// # Errors
/// See [`RoundError`]: some end only the cell, some the experiment.
pub fn run(
    bed: &mut TestBed,
    clock: Clock,
    setup: &Setup,
    plan: &RoundPlan,
    samples: &mut SampleBuffer,
) -> Result<RoundResult, RoundError> {
    with_path(setup.path, setup.fault.is_some(), Measurement { bed, clock, setup, plan, samples })
}

struct Measurement<'a> {
    bed: &'a mut TestBed,
    clock: Clock,
    setup: &'a Setup,
    plan: &'a RoundPlan,
    samples: &'a mut SampleBuffer,
}

impl PathVisitor for Measurement<'_> {
    type Output = Result<RoundResult, RoundError>;

    fn visit<P: Path>(self) -> Self::Output {
        let open = Ask::Open { setup: Box::new(self.setup.clone()) };
        let far = match self.bed.control().ask(&open)? {
            Answer::Opened { address } => address,
            other => return Err(ControlError::unexpected("open", &other).into()),
        };
        let near = self.bed.enter(|| {
            let opened = P::open(self.setup, &self.bed.local)?;
            let address = opened.address();
            Ok((opened.connect(&far)?, address))
        })?;
        let (mut endpoint, address) = match near {
            Ok(near) => near,
            Err(error) => {
                // The far end waits for start or stop.
                self.bed.control().ask(&Ask::Stop)?;
                return Err(RoundError::Path(error));
            }
        };
        match self.bed.control().ask(&Ask::Start { peer: address })? {
            Answer::Started => {}
            other => return Err(ControlError::unexpected("start", &other).into()),
        }
        let outcome = self.setup.workload.initiate(&mut endpoint, self.clock, self.plan, self.samples);
        let remarks = endpoint.remarks();
        drop(endpoint);
        let responder = match self.bed.control().ask(&Ask::Stop)? {
            Answer::Done { report } => report,
            other => return Err(ControlError::unexpected("stop", &other).into()),
        };
        Ok(RoundResult { outcome: outcome?, responder, remarks })
    }
}

/// Why a round gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The responder.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The initiator's end could not be opened or connected.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The initiator's end failed while measuring.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The near namespace.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl RoundError {
    /// True when the experiment cannot go on with other cells: the responder is gone or makes no sense.
    #[must_use]
    pub fn ends_experiment(&self) -> bool {
        match self {
            RoundError::Control(ControlError::Refused { .. }) => false,
            RoundError::Control(_) | RoundError::Lab(_) => true,
            RoundError::Path(_) | RoundError::Endpoint(_) => false,
        }
    }
}

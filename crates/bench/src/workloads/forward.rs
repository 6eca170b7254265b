//! Forward: frames go out of one port, the far end hands them on to its second port, and they come back on the second cable.

use nearwire_sys::tsc::Clock;
use serde::{Deserialize, Serialize};

use super::echo;
use super::{PingPong, Responded, RoundOutcome, RoundPlan, SampleBuffer, Workload};
use crate::endpoint::{Endpoint, EndpointError};

/// One frame out at a time, through a forwarder that stamps what it adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {}

impl Workload for Forward {
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError> {
        PingPong {}.initiate(endpoint, clock, plan, samples)
    }

    fn respond<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        stop: impl FnMut() -> bool,
    ) -> Result<Responded, EndpointError> {
        echo::run(endpoint, clock, true, stop)
    }
}

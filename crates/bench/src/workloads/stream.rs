//! Stream: messages one way, as fast as the path takes them. The far end counts what comes.

use nearwire_report::record::{Metric, MetricKind};
use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::{ThreadUsage, interrupted};
use serde::{Deserialize, Serialize};

use super::{Responded, RoundOutcome, RoundPlan, SampleBuffer, Workload, sink};
use crate::endpoint::{Endpoint, EndpointError};

/// Messages given to the path together, where it can send several with one kick.
const BURST: u32 = 64;

/// As many messages as the path takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {}

impl Workload for Stream {
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError> {
        samples.clear();
        let warm_up_began = clock.now_ticks();
        // Every message counts at the far end, which does not know when the warm-up is over; so the sender's figures are of all of them too.
        let usage_before = ThreadUsage::now();
        let ticks = |ns: Option<u64>| ns.map_or(u64::MAX, |ns| clock.ticks(ns));
        let ends_ticks = warm_up_began.saturating_add(ticks(plan.time_ns));
        let messages = plan.messages.unwrap_or(u64::MAX);
        let (mut sent, mut now) = (0, warm_up_began);
        while sent < messages && now < ends_ticks && !interrupted() {
            let burst = u32::try_from(messages - sent).map_or(BURST, |left| left.min(BURST));
            let taken = endpoint.try_send_burst(sent + 1, burst)?;
            sent += u64::from(taken);
            if taken < burst {
                // No room. What makes some comes in, as the far end's acknowledgements.
                endpoint.try_receive()?;
            }
            now = clock.now_ticks();
        }
        Ok(RoundOutcome {
            started_ticks: warm_up_began,
            duration_ns: clock.ns(now - warm_up_began),
            sent,
            usage: ThreadUsage::now().since(&usage_before),
            ..RoundOutcome::default()
        })
    }

    fn respond<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        stop: impl FnMut() -> bool,
    ) -> Result<Responded, EndpointError> {
        sink::run(endpoint, clock, stop)
    }
}

/// Sums over all rounds of a cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) size_bytes: u32,
    pub(crate) sent: u64,
    pub(crate) sent_in_ns: u64,
    pub(crate) received: u64,
    pub(crate) received_in_ns: u64,
    pub(crate) rounds: u64,
}

impl Totals {
    /// The metrics of a run.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let rate = |name, unit, value| Metric::new(name, unit, MetricKind::Rate, value);
        let per_second = |messages: u64, ns: u64| (ns > 0).then(|| messages as f64 * 1e9 / ns as f64);
        // The time begins with the first message of a round, which is not of it.
        let received = per_second(self.received.saturating_sub(self.rounds), self.received_in_ns);
        let bits = received.map(|rate| rate * f64::from(self.size_bytes) * 8.0);
        vec![
            rate("sent-rate", "messages/s", per_second(self.sent, self.sent_in_ns)),
            rate("received-rate", "messages/s", received),
            rate("received-bits", "bits/s", bits),
        ]
    }
}

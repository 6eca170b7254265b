//! The far end of workloads that want every message back.

use nearwire_sys::tsc::Clock;
use nearwire_sys::usage::ThreadUsage;

use super::Responded;
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError};

/// How often an idle responder looks whether it is to stop.
pub(super) const IDLE_NS: u64 = 4_000_000;

/// Most forwarding times kept of a round, the first ones: what one control message carries.
pub const FORWARD_SAMPLES: usize = 1 << 16;

/// Sends messages back until `stop` says so, which is asked whenever nothing came for a few milliseconds.
///
/// # Errors
/// The path failed for good. A peer that closed the connection ends the loop without an error.
pub fn run<E: Endpoint>(
    endpoint: &mut E,
    clock: Clock,
    stamp_forwarding: bool,
    mut stop: impl FnMut() -> bool,
) -> Result<Responded, EndpointError> {
    let mut outcome = Responded::default();
    // Every page is touched now.
    let mut forward_ns = if stamp_forwarding { vec![1; FORWARD_SAMPLES] } else { Vec::new() };
    forward_ns.clear();
    let idle_ticks = clock.ticks(IDLE_NS);
    let mut usage_before = ThreadUsage::now();
    loop {
        let deadline = Deadline::after(clock, clock.now_ticks(), idle_ticks);
        match endpoint.receive(&deadline) {
            Ok(Some(Arrival::Message(sequence))) => {
                let is_sent = if stamp_forwarding {
                    forward(endpoint, clock, sequence, &mut forward_ns)?
                } else {
                    endpoint.send(sequence)?
                };
                outcome.unsent += u64::from(!is_sent);
                // Behind the answer, which it must not delay.
                outcome.corrupted += u64::from(!endpoint.is_last_as_sent());
                outcome.messages += 1;
                if outcome.messages == 1 {
                    usage_before = ThreadUsage::now();
                }
            }
            Ok(Some(Arrival::Corrupt)) => outcome.corrupted += 1,
            Ok(None) if stop() => break,
            Ok(None) => {}
            Err(EndpointError::Closed) => break,
            Err(error) => return Err(error),
        }
    }
    outcome.forward_ns = stamp_forwarding.then_some(forward_ns);
    Ok(outcome.with_usage_since(&usage_before))
}

#[inline]
fn forward<E: Endpoint>(
    endpoint: &mut E,
    clock: Clock,
    sequence: u64,
    forward_ns: &mut Vec<u32>,
) -> Result<bool, EndpointError> {
    let seen = clock.start_ticks();
    let is_sent = endpoint.send(sequence)?;
    let (handed_on, _) = clock.end_ticks();
    if forward_ns.len() < FORWARD_SAMPLES {
        forward_ns.push(u32::try_from(clock.ns(handed_on - seen)).unwrap_or(u32::MAX));
    }
    Ok(is_sent)
}

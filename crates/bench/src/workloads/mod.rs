//! Traffic patterns over any [`Endpoint`].
//!
//! A [`Workload`] is what both ends of a path do in a round, with its settings. It knows no sockets and no frames. Adding one: a file
//! here and a variant of [`AnyWorkload`].

pub mod echo;
pub mod forward;
pub mod load;
pub mod ping_pong;
mod round;
mod sequence;
mod sink;
pub mod stream;

use nearwire_report::record::Latency;
use nearwire_sys::tsc::Clock;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, EndpointError};
pub use forward::Forward;
pub use load::Load;
pub use ping_pong::PingPong;
pub use round::{Responded, RoundOutcome, RoundPlan, Sample, SampleBuffer};
pub use sink::{Numbers, Seen};
pub use stream::Stream;

/// What both ends of a path do in a round.
pub trait Workload {
    /// The end that stamps: sends by the pattern for one round and keeps what comes back in `samples`.
    ///
    /// # Errors
    /// The path failed for good; losses are counted, not errors.
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError>;

    /// The far end, until `stop` says so.
    ///
    /// # Errors
    /// The path failed for good. A peer that closed the connection ends it without an error.
    fn respond<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        stop: impl FnMut() -> bool,
    ) -> Result<Responded, EndpointError> {
        echo::run(endpoint, clock, false, stop)
    }
}

/// Any workload with its settings, as the initiator tells the responder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum AnyWorkload {
    /// One message out at a time.
    PingPong(PingPong),
    /// Frames pass a forwarder and come back on another cable.
    Forward(Forward),
    /// Messages leave by a schedule, whatever comes back.
    Load(Load),
    /// Messages go one way, as fast as the path takes them.
    Stream(Stream),
}

impl AnyWorkload {
    /// As on the command line and in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            AnyWorkload::PingPong(_) => "ping-pong",
            AnyWorkload::Forward(_) => "forward",
            AnyWorkload::Load(_) => "load",
            AnyWorkload::Stream(_) => "stream",
        }
    }

    /// Whether the far end sends on another cable than it receives on. Only frames do.
    #[must_use]
    pub const fn uses_two_cables(&self) -> bool {
        matches!(self, AnyWorkload::Forward(_))
    }

    /// Shortest message by whose number the pattern tells messages apart.
    #[must_use]
    pub const fn least_message_bytes(&self) -> u32 {
        match self {
            AnyWorkload::PingPong(_) | AnyWorkload::Forward(_) | AnyWorkload::Stream(_) => 1,
            AnyWorkload::Load(_) => load::MESSAGE_BYTES_MIN,
        }
    }

    /// What its latencies are.
    #[must_use]
    pub const fn latency(&self) -> Latency {
        match self {
            AnyWorkload::PingPong(_) | AnyWorkload::Forward(_) => Latency::HalfRtt,
            AnyWorkload::Load(_) => Latency::ResponseTime,
            AnyWorkload::Stream(_) => Latency::None,
        }
    }

    /// How messages are spread over time; `None`: by their answers.
    #[must_use]
    pub const fn arrivals(&self) -> Option<load::Arrivals> {
        match self {
            AnyWorkload::PingPong(_) | AnyWorkload::Forward(_) | AnyWorkload::Stream(_) => None,
            AnyWorkload::Load(load) => Some(load.arrivals),
        }
    }

    /// Messages a second that it is to send; `None`: as fast as answers come.
    #[must_use]
    pub const fn rate_per_second(&self) -> Option<u64> {
        match self {
            AnyWorkload::PingPong(_) | AnyWorkload::Forward(_) | AnyWorkload::Stream(_) => None,
            AnyWorkload::Load(load) => Some(load.rate_per_second),
        }
    }
}

impl Workload for AnyWorkload {
    fn initiate<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        plan: &RoundPlan,
        samples: &mut SampleBuffer,
    ) -> Result<RoundOutcome, EndpointError> {
        match self {
            AnyWorkload::PingPong(workload) => workload.initiate(endpoint, clock, plan, samples),
            AnyWorkload::Forward(workload) => workload.initiate(endpoint, clock, plan, samples),
            AnyWorkload::Load(workload) => workload.initiate(endpoint, clock, plan, samples),
            AnyWorkload::Stream(workload) => workload.initiate(endpoint, clock, plan, samples),
        }
    }

    fn respond<E: Endpoint>(
        &self,
        endpoint: &mut E,
        clock: Clock,
        stop: impl FnMut() -> bool,
    ) -> Result<Responded, EndpointError> {
        match self {
            AnyWorkload::PingPong(workload) => workload.respond(endpoint, clock, stop),
            AnyWorkload::Forward(workload) => workload.respond(endpoint, clock, stop),
            AnyWorkload::Load(workload) => workload.respond(endpoint, clock, stop),
            AnyWorkload::Stream(workload) => workload.respond(endpoint, clock, stop),
        }
    }
}

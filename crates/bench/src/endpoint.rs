//! The seam between workloads and paths: one end that sends and receives numbered messages.
//!
//! A workload is generic over it and statically dispatched; it knows nothing of sockets or frames. What a message
//! looks like (size, headers, where its number stands) is the endpoint's business.

use nearwire_frames::PortError;
use nearwire_report::record::Warning;
use nearwire_sys::tsc::Clock;
use serde::{Deserialize, Serialize};

/// One connected end of a path.
pub trait Endpoint {
    /// Sends the message with this number, waiting for room. `false`: there was none for as long as an answer may take, or a queue of this
    /// end dropped it; it is not on the wire.
    ///
    /// # Errors
    /// The path failed for good.
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError>;

    /// Waits for the next message until `deadline`; `None` when it passed without one.
    ///
    /// # Errors
    /// The path failed for good, or the peer closed it.
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError>;

    /// Sends the message with this number if it can leave now. `false`: there is no room, and nothing of the message left or, of a stream, a
    /// part of it; the caller tries the same number again.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError>;

    /// Sends messages numbered from `first_sequence` on as long as there is room, with one kick where the path can: how many of `count` left.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    fn try_send_burst(&mut self, first_sequence: u64, count: u32) -> Result<u32, EndpointError> {
        while_room(count, |sent| self.try_send(first_sequence + u64::from(sent)))
    }

    /// A message that has come; never waits, whatever the path does in [`Endpoint::receive`].
    ///
    /// # Errors
    /// As [`Endpoint::receive`].
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError>;

    /// Whether all that was sent arrives, however late, until the sender closes: a stream of TCP.
    fn is_reliable(&self) -> bool {
        false
    }

    /// Whether the content of the message that was received last is what was sent. Workloads ask outside of what they time: it takes longer
    /// the longer the message is. Paths that know when they receive, by a checksum or by comparing, have nothing to add.
    fn is_last_as_sent(&self) -> bool {
        true
    }

    /// How many low bits of the number survive the trip: messages shorter than eight bytes carry fewer than 64.
    fn sequence_bits(&self) -> u32 {
        64
    }

    /// What is worth saying about this end after the round, as in the AF_XDP mode in use.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }
}

/// Gives messages to `take`, each by how many went before it, until there is no room for one or all of `count` went: how many did.
#[inline]
pub(crate) fn while_room<E>(count: u32, mut take: impl FnMut(u32) -> Result<bool, E>) -> Result<u32, E> {
    for taken in 0..count {
        if !take(taken)? {
            return Ok(taken);
        }
    }
    Ok(count)
}

/// Something an end has to say after a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// What was chosen, as in the AF_XDP mode in use.
    Note(String),
    /// A reason to doubt the figures.
    Doubt(Warning),
    /// So many frames came to the end's port that it had no room for.
    Dropped(u64),
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A whole message with this number (its low [`Endpoint::sequence_bits`]).
    Message(u64),
    /// Something of the wrong length or content.
    Corrupt,
}

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    clock: Clock,
    at_ticks: u64,
}

impl Deadline {
    /// `wait_ticks` after the stamp `from_ticks`.
    #[inline]
    #[must_use]
    pub fn after(clock: Clock, from_ticks: u64, wait_ticks: u64) -> Deadline {
        Deadline { clock, at_ticks: from_ticks.saturating_add(wait_ticks) }
    }

    /// True when it has passed. Reads the clock: spinning callers look at it once in many empty polls.
    #[inline]
    #[must_use]
    pub fn passed(&self) -> bool {
        self.clock.now_ticks() >= self.at_ticks
    }

    /// What is left, 0 when it has passed.
    #[must_use]
    pub fn left_ns(&self) -> u64 {
        self.clock.ns(self.at_ticks.saturating_sub(self.clock.now_ticks()))
    }
}

/// Why an end failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The port under a path failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The stack leaves the message to the kernel, which this path is not to measure.
    #[error("send by the stack: {reason}; only the kernel can send this, take another udp path")]
    NeedsKernel {
        /// Why the stack does not send it.
        reason: nearwire_stack::NeedsKernel,
    },
}

impl EndpointError {
    /// For `map_err` after the stack was asked to send.
    pub(crate) fn needs_kernel(reason: nearwire_stack::NeedsKernel) -> EndpointError {
        EndpointError::NeedsKernel { reason }
    }

    /// For `map_err` after a system call.
    pub fn io<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> EndpointError {
        move |error| EndpointError::Io { doing, source: error.into() }
    }
}

//! What a forwarder does with a frame.
//!
//! A [`Function`] is sans-I/O: it sees a frame, the port it came in by and the time, and says what is to be done. The
//! [`crate::forwarder`] does it. Functions in use: [`Io`] and [`MacSwap`] for the cost of a forwarder alone, [`Bridge`] for layer 2,
//! [`Router`] for layer 3.

mod any;
mod drops;
mod l2;
pub mod l3;
mod pairs;
mod rewrite;

pub use any::{AnyFunction, FunctionKind, UnknownFunction};
pub use drops::{DropCause, Drops};
pub use l2::{Bridge, BridgeConfig, Loop};
pub use l3::Router;
pub use pairs::{Io, MacSwap};
pub use rewrite::Rewrite;

/// Bytes of an Ethernet address.
pub(crate) const ADDRESS_BYTES: usize = 6;

/// What is to be done with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by one port.
    Forward {
        /// Number of the port, from 0.
        egress: usize,
        /// What is changed in the copy that leaves.
        rewrite: Rewrite,
    },
    /// It leaves, unchanged, by all ports but the one it came in by.
    Flood,
    /// It does not leave.
    Drop(DropCause),
}

/// Decides about frames, one at a time.
pub trait Function {
    /// Decides about a frame (without FCS) that came in by port `ingress`.
    ///
    /// `now_ns` is a time of any clock that does not go back, nanoseconds. The frame may be any bytes.
    fn judge(&mut self, now_ns: u64, ingress: usize, frame: &[u8]) -> Verdict;

    /// The last sign that frames come back by another way, if there was any and the function looks for it.
    fn loop_seen(&self) -> Option<Loop> {
        None
    }
}

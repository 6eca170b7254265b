//! Experiments: which paths are measured how, in which order, over which cable.
//!
//! A sample's journey, top to bottom:
//!
//! * [`experiment`] says what to measure; [`bed`] is the cable with a responder at its far end;
//! * [`engine`] takes the cells through interleaved rounds, [`round`] one cell through one round;
//! * [`paths`] opens and connects both ends, which gives an [`endpoint`];
//! * [`workloads`] stamps, sends and receives over it, into a buffer made before;
//! * `outcome` makes a record's run of the samples, by way of the report crate.
//!
//! The far end is [`responder`], told what to do over [`control`].
#![forbid(unsafe_code)]

pub mod bed;
pub mod cells;
pub mod control;
pub mod endpoint;
pub mod engine;
pub mod experiment;
pub mod order;
mod outcome;
pub mod paths;
pub mod probe;
pub mod responder;
pub mod round;
pub mod sweep;
pub mod workloads;
pub mod xdp_choice;

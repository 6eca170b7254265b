//! Settings of a host: what they are, where they are read, what they say.
//!
//! * [`catalogue`]: one table an area; a row is a [`Setting`] with its stable id;
//! * [`Root`]: the live host or a directory that looks like one, by the same code;
//! * [`environment`]: every setting's [`Reading`], for the record of a measurement;
//! * [`topology`]: which CPUs share what, and which two suit a ping-pong.
//!
//! Reading never changes anything, never fails as a whole and never gives MAC or IP addresses,
//! serial numbers or UUIDs.

#![forbid(unsafe_code)]

pub mod catalogue;
mod cpuset;
mod environment;
mod read;
mod reading;
mod redact;
mod root;
mod setting;
pub mod topology;

pub use cpuset::{CpuSet, CpuSetError};
pub use environment::{environment, host_environment, interface_environment};
pub use reading::Reading;
pub use root::{Root, RootError};
pub use setting::{Area, EthtoolFact, LinkFact, NicFact, ReadFrom, Setting};

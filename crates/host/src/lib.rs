//! Settings of a host: what they are, where they are read, what they say.
//!
//! * [`catalogue`]: one table an area; a row is a [`Setting`] with its stable id, and beside the
//!   tables what papers print about each and where they disagree;
//! * [`Root`]: the live host, or a directory or archive that looks like one, by the same code;
//! * [`Snapshot`]: an archive of everything that settings are read from;
//! * [`environment()`]: the [`Reading`]s that belong in the record of a measurement;
//! * [`read_settings`]: those of any settings;
//! * [`guide`]: what is known of a setting in words;
//! * [`profile`]: wanted values for a purpose;
//! * [`check()`](check::check): a host against a profile;
//! * [`probe`]: what must be measured, on request;
//! * [`topology`]: which CPUs share what, and which two suit a ping-pong;
//! * [`change`]: values written, verified and put back, with a [`journal`] on disk before the first;
//! * [`plan`]: which CPUs, queues, interrupts and memory belong to whom;
//! * [`LatencyRequest`]: a request for a short wake-up, which lasts as long as it is held;
//! * [`tune`]: from findings to changes;
//! * [`export`]: goals as files of the system that outlive a boot.
//!
//! Reading never changes anything, never fails as a whole and never gives MAC or IP addresses,
//! serial numbers or UUIDs.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod change;
pub mod check;
mod cpuset;
mod environment;
pub mod export;
mod goal;
pub mod guide;
pub mod journal;
mod latency_request;
pub mod markup;
mod number;
pub mod plan;
pub mod probe;
pub mod profile;
mod read;
mod reading;
mod redact;
mod root;
mod setting;
mod snapshot;
pub mod topology;
pub mod tune;

pub use cpuset::{CpuSet, CpuSetError};
pub use environment::{environment, has_device, host_environment, interface_environment, interfaces, read_settings};
pub use goal::Goal;
pub use latency_request::{LatencyRequest, LatencyRequestError};
pub use reading::Reading;
pub use root::{ArchiveError, Root, RootError};
pub use setting::{
    Area, Disruption, EthtoolFact, LinkFact, Menu, MsrField, NetlinkFact, NicFact, PcieFact, Persist, ReadFrom, Risk,
    RoceFact, Setting, Value, Vendor, Write,
};
pub use snapshot::{Snapshot, SnapshotError};

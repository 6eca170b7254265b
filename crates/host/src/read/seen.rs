//! What was seen of a host's interrupts and threads, and is kept while it is read (`placement.rs`).

use std::collections::BTreeMap;
use std::time::Instant;

use crate::{CpuSet, Reading};

/// Interrupt and CPU.
pub(super) type Place = (u32, u32);

/// The first of two readings of interrupts.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(super) since: Instant,
    pub(super) before: Result<BTreeMap<Place, u64>, Reading>,
}

/// A thread, as far as it is asked about.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(super) is_kernel: bool,
    pub(super) is_rescuer: bool,
    pub(super) cpus: CpuSet,
}

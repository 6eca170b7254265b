//! What tests of beds share.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nearwire_dataplane::bed::Cpus;
use nearwire_sys::affinity::allowed_cpus;

/// Where others keep the device or the tester from their CPUs for milliseconds, what comes then does not fit into a buffer (an AF_PACKET
/// socket of Open vSwitch takes about 90 long frames): a trial is made again, and one of so many must lose nothing.
pub const TRIALS_MOST: usize = 10;

/// One bed at a time: its threads take a whole CPU each.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the tester and of the device. Asked once: the thread that makes trials is pinned.
pub fn cpus() -> Cpus {
    static CPUS: OnceLock<Vec<u32>> = OnceLock::new();
    let cpus = CPUS.get_or_init(allowed_cpus);
    let last = cpus[cpus.len() - 1];
    Cpus { tester: cpus[0], sink: None, device: last, second_device: last }
}

//! What only x86 processors have.

use super::Setting;

/// Settings that x86 processors have and no others, by the beginnings of their ids: what is not in an incomplete copy of another host
/// was not on the host either.
const OF_X86: &[&str] = &[
    "cpu.amd-pstate.",
    "cpu.cache.io-ways",
    "cpu.energy-performance-",
    "cpu.pstate.",
    "cpu.uncore.",
    "firmware.amd.",
    "firmware.c1",
    "firmware.execute-disable",
    "firmware.package-c-state",
    "firmware.prefetcher.",
    "firmware.smi.",
    "kernel.split_lock_mitigate",
    "noise.machine-check-interval",
    "noise.smi-count",
];

impl Setting {
    /// Whether only x86 processors have it.
    pub(crate) fn is_of_x86(&self) -> bool {
        OF_X86.iter().any(|start| self.id.starts_with(start))
    }
}

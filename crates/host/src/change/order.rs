//! In which order changes are written, and which write may move another value. Both are tables; the stage of a
//! setting of an interface is in its row of the catalogue.

use super::Change;
use crate::catalogue;
use crate::setting::{Disruption, Stage};

/// The stage of the settings of the host whose id begins so; the first row that fits counts.
const STAGES: &[(&str, Stage)] = &[
    ("irq.irqbalance", Stage::Services),
    ("service.", Stage::Services),
    ("clock.chrony", Stage::Services),
    ("clock.timesyncd", Stage::Services),
    ("noise.stalld", Stage::Services),
    ("cpu.smt", Stage::Cpus),
    ("cpu.online", Stage::Cpus),
    ("cpu.isolated", Stage::Isolation),
    ("cpu.workqueue-affinity", Stage::Isolation),
    ("irq.", Stage::Interrupts),
    ("", Stage::Independent),
];

/// Within a stage these go first, in this order, and all others after them.
const FIRST: &[&str] = &[
    // The modes of the driver before what is chosen within them.
    "cpu.pstate.status",
    "cpu.amd-pstate.status",
    // Refused once the governor is performance (intel_pstate and amd_pstate, active).
    "cpu.energy-performance-preference",
    "cpu.governor",
    // The least must not pass the most.
    "cpu.frequency.max-khz",
    "cpu.frequency.min-khz",
    "cpu.uncore.max-khz",
    "cpu.uncore.min-khz",
    "cpu.pstate.max-percent",
    "cpu.pstate.min-percent",
    // The total spreads pages over all nodes, so the nodes' own numbers come last.
    "vm.nr_hugepages",
    "memory.huge-pages",
    // Pause frames that the two ends agree on are not the ones asked for (e1000e, igb).
    "nic.pause.autoneg",
    // A fixed delay is refused or without effect while it adapts itself.
    "nic.coalesce.adaptive-rx",
    "nic.coalesce.adaptive-tx",
    // Deferring interrupts without a timer that ends the wait delays frames.
    "nic.gro-flush-timeout-ns",
    "nic.napi-defer-hard-irqs",
    // The kernel takes isolated CPUs out of this mask, so that what it is without them is found first and put back last.
    "cpu.workqueue-affinity",
];

/// Pairs of beginnings of ids: a write to the first may move values of the second, on the same
/// interface if they have one.
const MOVES: &[(&str, &str)] = &[
    ("nic.coalesce.", "nic.coalesce."),
    ("nic.offload.", "nic.offload."),
    ("nic.pause", "nic.pause"),
    ("cpu.governor", "cpu.energy-performance"),
    ("cpu.governor", "cpu.frequency."),
    ("cpu.pstate.", "cpu."),
    ("cpu.amd-pstate.", "cpu."),
    ("cpu.turbo", "cpu.frequency."),
    ("cpu.frequency.", "cpu.frequency."),
    ("cpu.smt", "cpu."),
    ("cpu.smt", "irq."),
    ("cpu.smt", "nic.irq-affinity"),
    ("vm.nr_hugepages", "memory.huge-pages"),
    ("memory.huge-pages", "vm.nr_hugepages"),
    ("cpu.isolated", "cpu.workqueue-affinity"),
    ("noise.machine-check-interval", "noise.machine-check-interval"),
];

/// The stage of a setting, by its id with or without instance.
#[must_use]
pub fn stage(id: &str) -> Stage {
    match catalogue::setting(id.split('[').next().unwrap_or(id)) {
        Some(setting) if id.starts_with("nic.") => setting.nic.stage,
        _ => STAGES.iter().find(|(start, _)| id.starts_with(start)).map_or(Stage::Independent, |(_, stage)| *stage),
    }
}

/// The place of a setting among others, by its id with or without instance: its stage, and its place in that.
pub(crate) fn rank(id: &str) -> (Stage, usize) {
    let first = FIRST.iter().position(|start| id.starts_with(start));
    (stage(id), first.unwrap_or(FIRST.len()))
}

/// Puts changes into the order in which they are safe to write, which is the order in which
/// [`super::apply`] writes them.
pub fn put_in_order(changes: &mut [Change]) {
    changes.sort_by_cached_key(|change| rank(&change.id));
}

/// Whether writing `earlier` may move the value of `other`.
pub(super) fn may_move(earlier: &Change, other: &Change) -> bool {
    let devices = (earlier.target.device(), other.target.device());
    let same_device = matches!(devices, (Some(one), Some(other)) if one.key() == other.key());
    if same_device && earlier.disruption() == Disruption::LinkReset {
        return true;
    }
    let is_pair = |(one, two): &(&str, &str)| earlier.id.starts_with(one) && other.id.starts_with(two);
    let one_has_no_device = devices.0.is_none() || devices.1.is_none();
    (same_device || one_has_no_device) && earlier.id != other.id && MOVES.iter().any(is_pair)
}

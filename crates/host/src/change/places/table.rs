//! The places that do not follow from where a setting is read.

/// Such a place.
pub(super) enum Place {
    /// The first of these switches that exists: path, text for on, text for off.
    Switches(&'static [(&'static str, &'static str, &'static str)]),
    /// Each idle state of each CPU.
    IdleStates,
    /// The pool of each page size on each node.
    HugePages,
    /// The control group whose CPUs are isolated.
    Partition,
    /// A systemd unit.
    Unit(&'static str),
    /// None, for this reason.
    None(&'static str),
}

pub(super) const PLACES: &[(&str, Place)] = &[
    (
        "cpu.turbo",
        Place::Switches(&[
            ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1"),
            ("/sys/devices/system/cpu/cpufreq/boost", "1", "0"),
        ]),
    ),
    ("cpu.idle.disabled", Place::IdleStates),
    ("cpu.isolated", Place::Partition),
    ("cpu.isolated.cgroup", Place::Partition),
    ("memory.huge-pages", Place::HugePages),
    ("irq.irqbalance", Place::Unit("irqbalance.service")),
    ("memory.cache-allocation", Place::None("it is a table of several lines; use /sys/fs/resctrl")),
    ("noise.tracer", Place::None("somebody may be using it")),
];

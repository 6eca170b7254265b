//! The places that do not follow from where a setting is read.

use super::super::{ChannelField as Ch, CoalesceField as Co, EthtoolParameter, RingField};

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
    /// Parameters of ethtool.
    Ethtool(&'static [EthtoolParameter]),
    /// None, for this reason.
    None(&'static str),
}

use EthtoolParameter::{Channels, Coalesce, EnergyEfficient, Pause, PauseAutoneg, Ring, WakeOnLan};

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
    ("nic.ring.rx", Place::Ethtool(&[Ring(RingField::Rx)])),
    ("nic.ring.tx", Place::Ethtool(&[Ring(RingField::Tx)])),
    ("nic.channels.rx", Place::Ethtool(&[Channels(Ch::Rx)])),
    ("nic.channels.tx", Place::Ethtool(&[Channels(Ch::Tx)])),
    ("nic.channels.combined", Place::Ethtool(&[Channels(Ch::Combined)])),
    ("nic.coalesce.rx-usecs", Place::Ethtool(&[Coalesce(Co::RxUsecs)])),
    ("nic.coalesce.rx-frames", Place::Ethtool(&[Coalesce(Co::RxFrames)])),
    ("nic.coalesce.rx-irq", Place::Ethtool(&[Coalesce(Co::RxUsecsIrq), Coalesce(Co::RxFramesIrq)])),
    ("nic.coalesce.tx-usecs", Place::Ethtool(&[Coalesce(Co::TxUsecs)])),
    ("nic.coalesce.tx-frames", Place::Ethtool(&[Coalesce(Co::TxFrames)])),
    ("nic.coalesce.tx-frames-irq", Place::Ethtool(&[Coalesce(Co::TxFramesIrq)])),
    ("nic.coalesce.adaptive-rx", Place::Ethtool(&[Coalesce(Co::AdaptiveRx)])),
    ("nic.coalesce.adaptive-tx", Place::Ethtool(&[Coalesce(Co::AdaptiveTx)])),
    (
        "nic.coalesce.packet-rates",
        Place::Ethtool(&[
            Coalesce(Co::PktRateLow),
            Coalesce(Co::PktRateHigh),
            Coalesce(Co::SampleInterval),
            Coalesce(Co::StatsBlockUsecs),
        ]),
    ),
    ("nic.coalesce.rx-usecs-low", Place::Ethtool(&[Coalesce(Co::RxUsecsLow)])),
    ("nic.coalesce.rx-usecs-high", Place::Ethtool(&[Coalesce(Co::RxUsecsHigh)])),
    ("nic.pause", Place::Ethtool(&[Pause])),
    ("nic.pause.autoneg", Place::Ethtool(&[PauseAutoneg])),
    ("nic.energy-efficient", Place::Ethtool(&[EnergyEfficient])),
    ("nic.wake-on-lan", Place::Ethtool(&[WakeOnLan])),
    ("nic.carrier", Place::None("it is the state of the link, not a wish")),
    ("nic.byte-queue-limit", Place::None("the kernel moves it by itself all the time")),
    ("nic.speed-mbps", Place::None("both ends must agree; use ethtool -s")),
    ("nic.autoneg", Place::None("both ends must agree; use ethtool -s")),
    ("nic.fec", Place::None("both ends must agree; use ethtool --set-fec")),
    ("nic.rss.hash-function", Place::None("its key and table go with it; use ethtool -X")),
    ("nic.qdisc", Place::None("a discipline that is replaced loses its options; use tc")),
    ("memory.cache-allocation", Place::None("it is a table of several lines; use /sys/fs/resctrl")),
    ("noise.tracer", Place::None("somebody may be using it")),
];

//! Network interfaces.

use nearwire_sys::ethtool::{Duplex, LinkSettings, SoTimestamping, Timestamping};

use crate::{Area, EthtoolFact, LinkFact, NicFact, ReadFrom, Reading, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting { id: "nic.driver", area: Area::Nic, what: "The driver.", read: ReadFrom::Nic(NicFact::Driver) },
    Setting {
        id: "nic.driver.version",
        area: Area::Nic,
        what: "The version of the driver, which is that of the kernel for its own drivers.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Driver(|found| text(&found.version)))),
    },
    Setting {
        id: "nic.firmware",
        area: Area::Nic,
        what: "The version of the firmware.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Driver(|found| text(&found.firmware_version)))),
    },
    Setting {
        id: "nic.bus-info",
        area: Area::Nic,
        what: "Where the device sits on its bus.",
        read: ReadFrom::Nic(NicFact::BusInfo),
    },
    Setting {
        id: "nic.private-flags",
        area: Area::Nic,
        what: "How many private flags the driver has.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Driver(|found| Reading::value(found.private_flags)))),
    },
    Setting {
        id: "nic.kind",
        area: Area::Nic,
        what: "The kind of a virtual interface.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::Kind)),
    },
    Setting {
        id: "nic.speed-mbps",
        area: Area::Nic,
        what: "The speed of the link, megabits a second.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Link(speed))),
    },
    Setting {
        id: "nic.duplex",
        area: Area::Nic,
        what: "Whether both directions of the link work at once.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Link(duplex))),
    },
    Setting {
        id: "nic.mtu",
        area: Area::Nic,
        what: "The largest payload of a frame, bytes.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::Mtu)),
    },
    Setting {
        id: "nic.tx-queue-length",
        area: Area::Nic,
        what: "Frames that may wait in the root queueing discipline.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::TxQueueLength)),
    },
    Setting {
        id: "nic.qdisc",
        area: Area::Nic,
        what: "The root queueing discipline.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::Qdisc)),
    },
    Setting {
        id: "nic.queues.rx",
        area: Area::Nic,
        what: "Receive queues the kernel made.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::RxQueues)),
    },
    Setting {
        id: "nic.queues.tx",
        area: Area::Nic,
        what: "Transmit queues the kernel made.",
        read: ReadFrom::Nic(NicFact::Link(LinkFact::TxQueues)),
    },
    Setting {
        id: "nic.ring.rx",
        area: Area::Nic,
        what: "Descriptors of the receive ring.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Rings(|found| Reading::value(found.rx)))),
    },
    Setting {
        id: "nic.ring.rx-max",
        area: Area::Nic,
        what: "Descriptors the receive ring could have.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Rings(|found| Reading::value(found.rx_max)))),
    },
    Setting {
        id: "nic.ring.tx",
        area: Area::Nic,
        what: "Descriptors of the transmit ring.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Rings(|found| Reading::value(found.tx)))),
    },
    Setting {
        id: "nic.ring.tx-max",
        area: Area::Nic,
        what: "Descriptors the transmit ring could have.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Rings(|found| Reading::value(found.tx_max)))),
    },
    Setting {
        id: "nic.coalesce.rx-usecs",
        area: Area::Nic,
        what: "Microseconds a receive interrupt may be held back, or between two.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::value(found.rx_usecs)))),
    },
    Setting {
        id: "nic.coalesce.rx-frames",
        area: Area::Nic,
        what: "Frames a receive interrupt may wait for.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::value(found.rx_frames)))),
    },
    Setting {
        id: "nic.coalesce.tx-usecs",
        area: Area::Nic,
        what: "Microseconds a transmit interrupt may be held back.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::value(found.tx_usecs)))),
    },
    Setting {
        id: "nic.coalesce.tx-frames",
        area: Area::Nic,
        what: "Frames a transmit interrupt may wait for.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::value(found.tx_frames)))),
    },
    Setting {
        id: "nic.coalesce.adaptive-rx",
        area: Area::Nic,
        what: "Whether the receive interrupt delay follows the load.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::switch(found.adaptive_rx)))),
    },
    Setting {
        id: "nic.coalesce.adaptive-tx",
        area: Area::Nic,
        what: "Whether the transmit interrupt delay follows the load.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Coalesce(|found| Reading::switch(found.adaptive_tx)))),
    },
    Setting {
        id: "nic.channels.rx",
        area: Area::Nic,
        what: "Queues that only receive.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.rx)))),
    },
    Setting {
        id: "nic.channels.rx-max",
        area: Area::Nic,
        what: "Queues that only receive, at most.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.rx_max)))),
    },
    Setting {
        id: "nic.channels.tx",
        area: Area::Nic,
        what: "Queues that only transmit.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.tx)))),
    },
    Setting {
        id: "nic.channels.tx-max",
        area: Area::Nic,
        what: "Queues that only transmit, at most.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.tx_max)))),
    },
    Setting {
        id: "nic.channels.combined",
        area: Area::Nic,
        what: "Queues that do both.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.combined)))),
    },
    Setting {
        id: "nic.channels.combined-max",
        area: Area::Nic,
        what: "Queues that do both, at most.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.combined_max)))),
    },
    Setting {
        id: "nic.offload.rx-checksum",
        area: Area::Nic,
        what: "Whether the device checks checksums.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-checksum"])),
    },
    Setting {
        id: "nic.offload.tx-checksum",
        area: Area::Nic,
        what: "Whether the device makes checksums.",
        read: ReadFrom::Nic(NicFact::Offload(&[
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-checksum-ipv6",
            "tx-checksum-fcoe-crc",
            "tx-checksum-sctp",
        ])),
    },
    Setting {
        id: "nic.offload.tso",
        area: Area::Nic,
        what: "Whether the device cuts TCP data into segments.",
        read: ReadFrom::Nic(NicFact::Offload(&[
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
        ])),
    },
    Setting {
        id: "nic.offload.gso",
        area: Area::Nic,
        what: "Whether the kernel cuts data into segments as late as possible.",
        read: ReadFrom::Nic(NicFact::Offload(&["tx-generic-segmentation"])),
    },
    Setting {
        id: "nic.offload.gro",
        area: Area::Nic,
        what: "Whether the kernel joins received segments.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-gro"])),
    },
    Setting {
        id: "nic.offload.lro",
        area: Area::Nic,
        what: "Whether the device joins received segments.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-lro"])),
    },
    Setting {
        id: "nic.offload.rx-vlan",
        area: Area::Nic,
        what: "Whether the device takes off VLAN tags.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-vlan-hw-parse"])),
    },
    Setting {
        id: "nic.offload.ntuple",
        area: Area::Nic,
        what: "Whether the device steers flows by rules.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-ntuple-filter"])),
    },
    Setting {
        id: "nic.offload.rxhash",
        area: Area::Nic,
        what: "Whether the device hashes flows.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-hashing"])),
    },
    Setting {
        id: "nic.offload.gro-hw",
        area: Area::Nic,
        what: "Whether the device joins received segments so that they can be cut again.",
        read: ReadFrom::Nic(NicFact::Offload(&["rx-gro-hw"])),
    },
    Setting {
        id: "nic.timestamping",
        area: Area::Nic,
        what: "What can stamp times on frames.",
        read: ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Timestamping(timestamping))),
    },
    Setting {
        id: "nic.gro-flush-timeout-ns",
        area: Area::Nic,
        what: "Nanoseconds joined segments and deferred interrupts may wait.",
        read: ReadFrom::Nic(NicFact::File("gro_flush_timeout")),
    },
    Setting {
        id: "nic.napi-defer-hard-irqs",
        area: Area::Nic,
        what: "Empty polls before the interrupt is enabled again.",
        read: ReadFrom::Nic(NicFact::File("napi_defer_hard_irqs")),
    },
    Setting {
        id: "nic.threaded",
        area: Area::Nic,
        what: "Whether queues are polled by kernel threads.",
        read: ReadFrom::Nic(NicFact::File("threaded")),
    },
    Setting {
        id: "nic.carrier",
        area: Area::Nic,
        what: "Whether the link is up.",
        read: ReadFrom::Nic(NicFact::File("carrier")),
    },
    Setting {
        id: "nic.rps-cpus",
        area: Area::Nic,
        what: "CPUs that received frames are spread to by software.",
        read: ReadFrom::Nic(NicFact::QueueMask("rx", "rps_cpus")),
    },
    Setting {
        id: "nic.xps-cpus",
        area: Area::Nic,
        what: "CPUs that each transmit queue serves.",
        read: ReadFrom::Nic(NicFact::QueueMask("tx", "xps_cpus")),
    },
    Setting {
        id: "nic.irq-affinity",
        area: Area::Nic,
        what: "CPUs that the interrupts of the device go to, in effect.",
        read: ReadFrom::Nic(NicFact::IrqAffinity),
    },
    Setting {
        id: "nic.numa-node",
        area: Area::Nic,
        what: "The memory node of the device, where -1 is not known.",
        read: ReadFrom::Nic(NicFact::Device("numa_node")),
    },
    Setting {
        id: "nic.local-cpus",
        area: Area::Nic,
        what: "CPUs near the device.",
        read: ReadFrom::Nic(NicFact::Device("local_cpulist")),
    },
    Setting {
        id: "nic.pcie.speed",
        area: Area::Nic,
        what: "The speed of the PCIe link.",
        read: ReadFrom::Nic(NicFact::Device("current_link_speed")),
    },
    Setting {
        id: "nic.pcie.speed-max",
        area: Area::Nic,
        what: "The speed the PCIe link could have.",
        read: ReadFrom::Nic(NicFact::Device("max_link_speed")),
    },
    Setting {
        id: "nic.pcie.width",
        area: Area::Nic,
        what: "The lanes of the PCIe link.",
        read: ReadFrom::Nic(NicFact::Device("current_link_width")),
    },
    Setting {
        id: "nic.pcie.width-max",
        area: Area::Nic,
        what: "The lanes the PCIe link could have.",
        read: ReadFrom::Nic(NicFact::Device("max_link_width")),
    },
];

/// Drivers leave empty what they do not have; some say `N/A`.
pub(crate) fn text(field: &str) -> Reading {
    match field.trim() {
        "" | "N/A" | "n/a" => Reading::Unsupported,
        text => Reading::value(text),
    }
}

fn speed(link: &LinkSettings) -> Reading {
    let unknown = || Reading::unknown("the link is down or the device has no speed");
    link.speed_mbps.map_or_else(unknown, Reading::value)
}

fn duplex(link: &LinkSettings) -> Reading {
    match link.duplex {
        Some(Duplex::Full) => Reading::value("full"),
        Some(Duplex::Half) => Reading::value("half"),
        None => Reading::unknown("the link is down or the device has no duplex"),
    }
}

fn timestamping(found: &Timestamping) -> Reading {
    let names = [
        (SoTimestamping::TX_HARDWARE, "tx-hardware"),
        (SoTimestamping::TX_SOFTWARE, "tx-software"),
        (SoTimestamping::RX_HARDWARE, "rx-hardware"),
        (SoTimestamping::RX_SOFTWARE, "rx-software"),
    ];
    let has = |(bit, _): &(SoTimestamping, &str)| found.so_timestamping.contains(*bit);
    let mut words: Vec<_> = names.iter().filter(|name| has(name)).map(|name| name.1).collect();
    if found.phc_index.is_some() {
        words.push("clock");
    }
    Reading::value(if words.is_empty() { "none".to_owned() } else { words.join(" ") })
}

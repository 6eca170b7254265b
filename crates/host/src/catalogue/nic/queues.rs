//! Rings, queues, and which queue and CPU a flow goes to.

use crate::catalogue::base;
use crate::setting::Stage;
use crate::{Area, EthtoolFact, LinkFact, NicFact, ReadFrom, Reading, Setting};

const RESET: Setting = base::ethtool_with_reset();
const RINGS: Setting = RESET.stage(Stage::Rings).tuned("ring");
const CHANNELS: Setting = RESET.stage(Stage::Channels).tuned("channels");
const FACT: Setting = base::fact(Area::Nic).docs(&["ethtool(8)"]);
const STEER: Setting = base::device_file(Area::Nic).docs(&["Documentation/networking/scaling.rst"]);
const RING_WHY: &str = "A small ring stays in the cache, and a ring that is too small drops bursts.";
const CHANNEL_WHY: &str = "Each queue has an interrupt and needs a CPU, and a flow must land on the right one.";

macro_rules! rings {
    ($field:ident) => {
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Rings(|found| Reading::value(found.$field))))
    };
}

macro_rules! channels {
    ($field:ident) => {
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Channels(|found| Reading::value(found.$field))))
    };
}

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "nic.queues.rx",
        "Receive queues the kernel made.",
        CHANNEL_WHY,
        ReadFrom::Nic(NicFact::Link(LinkFact::RxQueues)),
    )
    .number("")
    .in_record(),
    FACT.row(
        "nic.queues.tx",
        "Transmit queues the kernel made.",
        CHANNEL_WHY,
        ReadFrom::Nic(NicFact::Link(LinkFact::TxQueues)),
    )
    .number("")
    .in_record(),
    RINGS
        .row("nic.ring.rx", "Descriptors of the receive ring.", RING_WHY, rings!(rx))
        .ethtool("-G", &["rx"])
        .link(&["RxBufferSize"])
        .number("frames")
        .in_record(),
    FACT.row("nic.ring.rx-max", "Descriptors the receive ring could have.", RING_WHY, rings!(rx_max))
        .number("frames")
        .in_record(),
    RINGS
        .row("nic.ring.tx", "Descriptors of the transmit ring.", RING_WHY, rings!(tx))
        .ethtool("-G", &["tx"])
        .link(&["TxBufferSize"])
        .number("frames")
        .in_record(),
    FACT.row("nic.ring.tx-max", "Descriptors the transmit ring could have.", RING_WHY, rings!(tx_max))
        .number("frames")
        .in_record(),
    CHANNELS
        .row("nic.channels.rx", "Queues that only receive.", CHANNEL_WHY, channels!(rx))
        .ethtool("-L", &["rx"])
        .link(&["RxChannels"])
        .number("")
        .in_record(),
    FACT.row("nic.channels.rx-max", "Queues that only receive, at most.", CHANNEL_WHY, channels!(rx_max))
        .number("")
        .in_record(),
    CHANNELS
        .row("nic.channels.tx", "Queues that only transmit.", CHANNEL_WHY, channels!(tx))
        .ethtool("-L", &["tx"])
        .link(&["TxChannels"])
        .number("")
        .in_record(),
    FACT.row("nic.channels.tx-max", "Queues that only transmit, at most.", CHANNEL_WHY, channels!(tx_max))
        .number("")
        .in_record(),
    CHANNELS
        .row("nic.channels.combined", "Queues that do both.", CHANNEL_WHY, channels!(combined))
        .ethtool("-L", &["combined"])
        .link(&["CombinedChannels"])
        .number("")
        .in_record(),
    FACT.row("nic.channels.combined-max", "Queues that do both, at most.", CHANNEL_WHY, channels!(combined_max))
        .number("")
        .in_record(),
    base::ethtool()
        .row(
            "nic.rss.hash-function",
            "The function that spreads flows to queues.",
            "Whether two flows share a queue depends on it.",
            ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::HashFunction(hash_function))),
        )
        .words(&["toeplitz", "xor", "crc32"])
        .stage(Stage::Offloads)
        .ethtool("-X", &["hfunc"])
        .not_at_run_time("its key and table go with it; use ethtool -X")
        .docs(&["Documentation/networking/scaling.rst"]),
    STEER
        .row(
            "nic.rps-cpus",
            "CPUs that received frames are spread to by software.",
            "Spreading costs an interrupt between CPUs for each batch.",
            ReadFrom::Nic(NicFact::QueueMask("rx", "rps_cpus")),
        )
        .moved_by_reset()
        .cpus()
        .today("The printed loop for a second port writes to the first one.")
        .in_record(),
    STEER
        .row(
            "nic.rps-flow-count",
            "Flows of each receive queue that are steered to the CPU of their reader.",
            "A packet handled where it is read is still in the cache.",
            ReadFrom::Nic(NicFact::QueueFile("rx", "rps_flow_cnt")),
        )
        .moved_by_reset()
        .number(""),
    STEER
        .row(
            "nic.xps-cpus",
            "CPUs that each transmit queue serves.",
            "A queue of its own saves a CPU the lock that it would share.",
            ReadFrom::Nic(NicFact::QueueMask("tx", "xps_cpus")),
        )
        .moved_by_reset()
        .cpus()
        .in_record(),
    STEER.row(
        "nic.xps-rxqs",
        "Receive queues whose flows each transmit queue serves.",
        "Both directions of a flow then use one CPU and one interrupt.",
        ReadFrom::Nic(NicFact::QueueMask("tx", "xps_rxqs")),
    ),
    STEER
        .row(
            "nic.byte-queue-limit",
            "Bytes that may wait in the ring of each transmit queue now.",
            "What waits in the ring cannot be overtaken.",
            ReadFrom::Nic(NicFact::QueueFile("tx", "byte_queue_limits/limit")),
        )
        .number("bytes")
        .docs(&["Documentation/ABI/testing/sysfs-class-net-queues"])
        .not_at_run_time("the kernel moves it by itself all the time"),
    base::irq(Area::Nic)
        .row(
            "nic.irq-affinity",
            "CPUs that the interrupts of the device go to, in effect.",
            "The CPU of the interrupt is the one that has the packet in its cache, and the one that is disturbed.",
            ReadFrom::Nic(NicFact::IrqAffinity),
        )
        .stage(Stage::Interrupts)
        .moved_by_reset()
        .cpus()
        .today("It must be set again after each time the interface comes up, because the vectors are made anew.")
        .in_record(),
];

/// Bits of `hfunc` (`ETH_RSS_HASH_*`).
fn hash_function(bits: u8) -> Reading {
    match bits {
        0 => Reading::Unsupported,
        1 => Reading::value("toeplitz"),
        2 => Reading::value("xor"),
        4 => Reading::value("crc32"),
        other => Reading::Value(format!("bits {other:#x}")),
    }
}

//! What drivers answer only to the netlink form of ethtool, to devlink, or by names of their own.

use crate::catalogue::base;
use crate::setting::Persist;
use crate::{NetlinkFact, NicFact, ReadFrom, Setting};

const ROW: Setting = base::ethtool();
const RESET: Setting = base::ethtool_with_reset().persist(&[Persist::UdevRule, Persist::SystemdUnit]);

/// Told by the netlink form of ethtool only.
const fn netlink(look: &'static str) -> ReadFrom {
    ReadFrom::Elsewhere { why: "only the netlink form of ethtool tells it", look }
}

pub(super) const SETTINGS: &[Setting] = &[
    RESET
        .row(
            "nic.ring.tx-push",
            "Whether the driver writes descriptors straight into the device.",
            "The device then need not fetch them from memory.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::TxPush)),
        )
        .switch(),
    RESET
        .row(
            "nic.ring.tx-push-bytes",
            "Bytes of a frame that are written straight into the device.",
            "A small frame then needs no read of memory at all.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::TxPushBytes)),
        )
        .number("bytes"),
    RESET
        .row(
            "nic.ring.rx-push",
            "Whether the driver writes receive descriptors straight into the device.",
            "The device then need not fetch them from memory.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::RxPush)),
        )
        .switch(),
    RESET
        .row(
            "nic.ring.data-split",
            "Whether headers and payload of TCP go to different buffers.",
            "It serves reading without a copy and costs a second buffer for each frame.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::DataSplit)),
        )
        .switch(),
    RESET
        .row(
            "nic.ring.completion-bytes",
            "The length of a completion that the device writes, bytes.",
            "A completion that fills a cache line saves the read of the rest.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::CompletionBytes)),
        )
        .number("bytes"),
    RESET
        .row(
            "nic.ring.buffer-bytes",
            "The length of one receive buffer, bytes.",
            "A frame longer than one buffer takes several descriptors.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::BufferBytes)),
        )
        .number("bytes"),
    ROW.row(
        "nic.coalesce.completion-timer",
        "Whether the interrupt delay starts with the first completion or with each one.",
        "A delay that starts anew with each frame can go on for long.",
        ReadFrom::Nic(NicFact::Netlink(NetlinkFact::CompletionTimer)),
    )
    .words(&["event", "completion"]),
    ROW.row(
        "nic.coalesce.per-queue",
        "Interrupt delays of single queues.",
        "The queue that matters can be quick while the others save work.",
        netlink("ethtool --per-queue IF queue_mask MASK --show-coalesce"),
    ),
    ROW.row(
        "nic.rss.indirection",
        "Which queue each value of the hash goes to, and the contexts of single groups of queues.",
        "A table that leaves a queue out keeps it for the flows that are steered there.",
        ReadFrom::Elsewhere { why: "the table has hundreds of entries", look: "ethtool -x IF" },
    )
    .docs(&["Documentation/networking/scaling.rst"]),
    RESET.row(
        "nic.private-flags.names",
        "The private flags of the driver that are on.",
        "Some compress completions or choose another receive path.",
        ReadFrom::Elsewhere { why: "each driver has names of its own", look: "ethtool --show-priv-flags IF" },
    ),
    RESET
        .row(
            "nic.module.power-mode",
            "Whether the plugged module may save power.",
            "A module in low power takes seconds until the link is up.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::ModulePower)),
        )
        .words(&["high", "auto"]),
    RESET
        .row(
            "nic.frame-preemption",
            "Whether an urgent frame may interrupt another one on the wire.",
            "Both ends must have it, and each frame that is cut takes longer.",
            netlink("ethtool --show-mm IF"),
        )
        .switch(),
    RESET
        .row(
            "nic.devlink",
            "Parameters, switching mode and health of the device behind the interface.",
            "A device in switching mode passes each frame through its own tables.",
            ReadFrom::Elsewhere {
                why: "they belong to the device and have names of its own",
                look: "devlink dev param show, devlink dev eswitch show, devlink health show",
            },
        )
        .docs(&["Documentation/networking/devlink/index.rst"]),
];

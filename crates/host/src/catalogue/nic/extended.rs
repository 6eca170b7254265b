//! What drivers answer only to the netlink form of ethtool, to devlink, or by names of their own.

use nearwire_sys::ethtool::PrivateFlags;

use crate::catalogue::base;
use crate::setting::Stage;
use crate::setting::{Persist, Value, WordValues};
use crate::{Area, EthtoolFact, NetlinkFact, NicFact, ReadFrom, Reading, Setting};

const ROW: Setting = base::ethtool().stage(Stage::Coalesce);
const RESET: Setting = base::ethtool_with_reset();
const RINGS: Setting = RESET.stage(Stage::Rings);

/// A switch that one driver has a name of its own for.
const FLAG: Setting = RESET
    .switch()
    .no_file("each driver has names of its own; a udev rule can run ethtool --set-priv-flags")
    .docs(&["drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c"]);

macro_rules! flag {
    ($name:literal) => {
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::PrivateFlags(|flags| {
            flags.get($name).map_or(Reading::Unsupported, Reading::switch)
        })))
    };
}

fn flags_on(flags: &PrivateFlags) -> Reading {
    let on: Vec<_> = flags.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    Reading::Value(if on.is_empty() { "none".to_owned() } else { on.join(" ") })
}

/// Told by the netlink form of ethtool only.
const fn netlink(look: &'static str) -> ReadFrom {
    ReadFrom::Elsewhere { why: "only the netlink form of ethtool tells it", look }
}

pub(super) const SETTINGS: &[Setting] = &[
    RINGS
        .row(
            "nic.ring.tx-push",
            "Whether the driver writes descriptors straight into the device.",
            "The device then need not fetch them from memory.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::TxPush)),
        )
        .ethtool("-G", &["tx-push"])
        .switch(),
    RINGS
        .row(
            "nic.ring.tx-push-bytes",
            "Bytes of a frame that are written straight into the device.",
            "A small frame then needs no read of memory at all.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::TxPushBytes)),
        )
        .ethtool("-G", &["tx-push-buf-len"])
        .number("bytes"),
    RINGS
        .row(
            "nic.ring.rx-push",
            "Whether the driver writes receive descriptors straight into the device.",
            "The device then need not fetch them from memory.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::RxPush)),
        )
        .ethtool("-G", &["rx-push"])
        .switch(),
    RINGS
        .row(
            "nic.ring.data-split",
            "Whether headers and payload of TCP go to different buffers.",
            "It serves reading without a copy and costs a second buffer for each frame.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::DataSplit)),
        )
        .ethtool("-G", &["tcp-data-split"])
        .switch(),
    RINGS
        .row(
            "nic.ring.completion-bytes",
            "The length of a completion that the device writes, bytes.",
            "A completion that fills a cache line saves the read of the rest.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::CompletionBytes)),
        )
        .ethtool("-G", &["cqe-size"])
        .number("bytes"),
    RINGS
        .row(
            "nic.ring.buffer-bytes",
            "The length of one receive buffer, bytes.",
            "A frame longer than one buffer takes several descriptors.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::BufferBytes)),
        )
        .ethtool("-G", &["rx-buf-len"])
        .number("bytes"),
    ROW.row(
        "nic.coalesce.completion-timer",
        "Whether the interrupt delay starts with the first completion or with each one.",
        "A delay that starts anew with each frame can go on for long.",
        ReadFrom::Nic(NicFact::Netlink(NetlinkFact::CompletionTimer)),
    )
    .words(&["event", "completion"])
    .ethtool_of("-C", &["cqe-mode-rx", "cqe-mode-tx"], WordValues::If("completion")),
    ROW.row(
        "nic.coalesce.per-queue",
        "Interrupt delays of single queues.",
        "The queue that matters can be quick while the others save work.",
        netlink("ethtool --per-queue IF queue_mask MASK --show-coalesce"),
    )
    .no_file("which queue is meant is not said in the value"),
    ROW.row(
        "nic.rss.indirection",
        "The queues that the hash brings flows to, and whether each gets as many.",
        "A table that leaves a queue out keeps it for the flows that are steered there.",
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::Indirection)),
    )
    .no_file("the table depends on the number of queues")
    .docs(&["Documentation/networking/scaling.rst"]),
    FLAG.row(
        "nic.private-flags.names",
        "The private flags of the driver that are on.",
        "Some compress completions or choose another receive path.",
        ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::PrivateFlags(flags_on))),
    )
    .value(Value::Text)
    .docs(&["ethtool(8)"]),
    FLAG.row(
        "nic.private-flags.rx-cqe-compress",
        "Whether a ConnectX device writes several receive completions as one.",
        "A completion may wait for the next one, and the driver takes each compressed block apart.",
        flag!("rx_cqe_compress"),
    ),
    FLAG.row(
        "nic.private-flags.tx-cqe-compress",
        "Whether a ConnectX device writes several send completions as one.",
        "The bus is used less, and a send buffer may be given back later.",
        flag!("tx_cqe_compress"),
    ),
    FLAG.row(
        "nic.private-flags.rx-striding-rq",
        "Whether a ConnectX device puts several frames into one large receive buffer.",
        "It saves descriptors under load, and a buffer is given back only when all its frames are.",
        flag!("rx_striding_rq"),
    )
    .today("The driver chooses it by the speed of the bus, and zero copy of AF_XDP chooses for itself."),
    FLAG.row(
        "nic.private-flags.legacy-rx",
        "Whether an Intel device's driver copies each received frame instead of building it around its buffer.",
        "The copy costs for each frame.",
        flag!("legacy-rx"),
    )
    .docs(&["drivers/net/ethernet/intel/ice/ice_ethtool.c"]),
    RESET
        .row(
            "nic.pci-write-ordering",
            "Whether the firmware of a ConnectX device lets its writes overtake each other, where the bus allows it.",
            "Ordered writes wait for each other on the way to memory, above all on processors of AMD.",
            ReadFrom::Elsewhere {
                why: "only the vendor's own tool reads the device's configuration",
                look: "mlxconfig -d PCI-ADDRESS query PCI_WR_ORDERING, and nic.pcie.relaxed-ordering for what the bus allows",
            },
        )
        .docs(&["mlxconfig(1)"]),
    base::nic_module(Area::Nic)
        .row(
            "nic.ena.large-llq-header",
            "Whether an ENA device takes headers of 224 instead of 96 bytes with a descriptor.",
            "A longer header is otherwise fetched from memory, and larger entries halve the queue.",
            ReadFrom::ModuleParameter("ena", "force_large_llq_header"),
        )
        .switch()
        .persist(&[Persist::ModprobeD("options ena force_large_llq_header=1")])
        .docs(&["Documentation/networking/device_drivers/ethernet/amazon/ena.rst"])
        .today("Only the vendor's own driver has it; with the kernel's nic.ring.tx-push-bytes tells the length, 96 or 224, and ethtool -G IF tx-push-buf-len sets it."),
    base::application(Area::Nic)
        .row(
            "nic.ena.express",
            "What ENA Express (SRD) carries over several paths of the cloud's network.",
            "It shortens the tail of loaded paths and may lengthen the typical delay of idle ones.",
            ReadFrom::Nic(NicFact::EnaExpress),
        )
        .words(&["off", "tcp", "udp", "tcp udp"])
        .docs(&["Documentation/networking/device_drivers/ethernet/amazon/ena.rst"])
        .today("It is set for the instance: aws ec2 modify-network-interface-attribute --ena-srd-specification."),
    RESET
        .row(
            "nic.module.power-mode",
            "Whether the plugged module may save power.",
            "A module in low power takes seconds until the link is up.",
            ReadFrom::Nic(NicFact::Netlink(NetlinkFact::ModulePower)),
        )
        .words(&["high", "auto"])
        .ethtool("--set-module", &["power-mode-policy"]),
    RESET
        .row(
            "nic.frame-preemption",
            "Whether an urgent frame may interrupt another one on the wire.",
            "Both ends must have it, and each frame that is cut takes longer.",
            netlink("ethtool --show-mm IF"),
        )
        .switch()
        .ethtool("--set-mm", &["pmac-enabled", "tx-enabled"]),
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
        .no_file("they belong to the device and have names of its own")
        .docs(&["Documentation/networking/devlink/index.rst"]),
];

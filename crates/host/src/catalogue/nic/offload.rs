//! What the device or the kernel's last step does for the stack.

use crate::catalogue::base;
use crate::setting::Stage;
use crate::{NicFact, ReadFrom, Setting};

const ROW: Setting = base::ethtool()
    .switch()
    .stage(Stage::Offloads)
    .tuned("features")
    .docs(&["Documentation/networking/segmentation-offloads.rst"]);
const CHECKSUM_WHY: &str = "The CPU otherwise walks over each byte of the packet.";

const fn offload(id: &'static str, names: &'static [&'static str], what: &'static str, why: &'static str) -> Setting {
    ROW.row(id, what, why, ReadFrom::Nic(NicFact::Offload(names)))
}

pub(super) const SETTINGS: &[Setting] = &[
    offload("nic.offload.rx-checksum", &["rx-checksum"], "Whether the device checks checksums.", CHECKSUM_WHY)
        .ethtool("-K", &["rx"])
        .link(&["ReceiveChecksumOffload"])
        .in_record(),
    offload(
        "nic.offload.tx-checksum",
        &["tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-fcoe-crc", "tx-checksum-sctp"],
        "Whether the device makes checksums.",
        CHECKSUM_WHY,
    )
    .ethtool("-K", &["tx"])
    .link(&["TransmitChecksumOffload"])
    .in_record(),
    offload(
        "nic.offload.tso",
        &["tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"],
        "Whether the device cuts TCP data into segments.",
        "It saves the CPU work on large writes and does nothing to small ones.",
    )
    .ethtool("-K", &["tso"])
    .link(&["TCPSegmentationOffload", "TCP6SegmentationOffload"])
    .in_record(),
    offload(
        "nic.offload.gso",
        &["tx-generic-segmentation"],
        "Whether the kernel cuts data into segments as late as possible.",
        "It saves the CPU work on large writes and does nothing to small ones.",
    )
    .ethtool("-K", &["gso"])
    .link(&["GenericSegmentationOffload"])
    .in_record(),
    offload(
        "nic.offload.gro",
        &["rx-gro"],
        "Whether the kernel joins received segments.",
        "It saves work for bulk data, and a single packet pays for the attempt.",
    )
    .ethtool("-K", &["gro"])
    .link(&["GenericReceiveOffload"])
    .in_record(),
    offload(
        "nic.offload.lro",
        &["rx-lro"],
        "Whether the device joins received segments.",
        "A packet may wait for others, and forwarded packets are damaged.",
    )
    .ethtool("-K", &["lro"])
    .moved_by_reset()
    .link(&["LargeReceiveOffload"])
    .in_record(),
    offload(
        "nic.offload.scatter-gather",
        &["tx-scatter-gather", "tx-scatter-gather-fraglist"],
        "Whether a frame may be sent from several places in memory.",
        "Without it each frame is copied together, and segmentation offload is off too.",
    )
    .ethtool("-K", &["sg"]),
    offload(
        "nic.offload.rx-vlan",
        &["rx-vlan-hw-parse"],
        "Whether the device takes off VLAN tags.",
        "The kernel otherwise moves the headers of each tagged frame.",
    )
    .ethtool("-K", &["rxvlan"])
    .link(&["ReceiveVLANCTAGHardwareAcceleration"])
    .in_record(),
    offload(
        "nic.offload.tx-vlan",
        &["tx-vlan-hw-insert"],
        "Whether the device puts on VLAN tags.",
        "The kernel otherwise moves the headers of each tagged frame.",
    )
    .ethtool("-K", &["txvlan"])
    .link(&["TransmitVLANCTAGHardwareAcceleration"]),
    offload(
        "nic.offload.vlan-stag",
        &["tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse"],
        "Whether the device handles the outer tags of doubly tagged frames.",
        "It matters only on provider networks.",
    )
    .ethtool("-K", &["tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse"]),
    offload(
        "nic.offload.ntuple",
        &["rx-ntuple-filter"],
        "Whether the device steers flows by rules.",
        "A rule brings a flow to the queue of its reader.",
    )
    .ethtool("-K", &["ntuple"])
    .moved_by_reset()
    .link(&["NTupleFilter"])
    .today("The kernel may accept the request and leave it off, so that the active state counts.")
    .in_record(),
    offload(
        "nic.offload.rxhash",
        &["rx-hashing"],
        "Whether the device hashes flows.",
        "The CPU otherwise hashes each packet that is spread to CPUs.",
    )
    .ethtool("-K", &["rxhash"])
    .in_record(),
    offload(
        "nic.offload.gro-hw",
        &["rx-gro-hw"],
        "Whether the device joins received segments so that they can be cut again.",
        "A packet may wait for others.",
    )
    .ethtool("-K", &["rx-gro-hw"])
    .link(&["GenericReceiveOffloadHardware"])
    .in_record(),
    offload(
        "nic.offload.tx-nocache-copy",
        &["tx-nocache-copy"],
        "Whether data to send is copied past the cache.",
        "The device then reads it from memory instead of the cache.",
    )
    .ethtool("-K", &["tx-nocache-copy"]),
    offload(
        "nic.offload.loopback",
        &["loopback"],
        "Whether the device hands frames back instead of sending them.",
        "Left on after a test, nothing reaches the wire.",
    )
    .ethtool("-K", &["loopback"]),
    offload(
        "nic.offload.rx-fcs",
        &["rx-fcs"],
        "Whether the checksum of the frame is handed to the kernel.",
        "Each frame is four bytes longer on its way to memory.",
    )
    .ethtool("-K", &["rx-fcs"]),
    offload(
        "nic.offload.hw-tc",
        &["hw-tc-offload"],
        "Whether the device can take over rules of the traffic control.",
        "Open vSwitch moves flows into the device by it.",
    )
    .ethtool("-K", &["hw-tc-offload"]),
];

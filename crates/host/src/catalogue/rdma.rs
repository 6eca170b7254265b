//! RDMA and bypass drivers.

use super::base;
use crate::read::{module, rdma};
use crate::setting::{Disruption, Persist};
use crate::{Area, NicFact, ReadFrom, RoceFact, Setting};

const MLX4: Setting = base::nic_module(Area::Rdma);
const FACT: Setting = base::fact(Area::Rdma).docs(&["modinfo(8)"]);

/// What belongs to the lossless or marked traffic of RoCE.
const ROCE: Setting = base::switch().in_area(Area::Rdma).docs(&["dcb(8)"]);

const fn roce(fact: RoceFact) -> ReadFrom {
    ReadFrom::Nic(NicFact::Roce(fact))
}

pub(super) const SETTINGS: &[Setting] = &[
    base::application(Area::Rdma)
        .row(
            "rdma.roce.gid-types",
            "The kinds of RoCE addresses that the Ethernet ports of RDMA devices have.",
            "Only frames of version 2 are IP packets, which can be routed and marked for congestion.",
            ReadFrom::Computed(rdma::gid_types, "/sys/class/infiniband/DEVICE/ports/N/gid_attrs/types"),
        )
        .docs(&["Documentation/ABI/stable/sysfs-class-infiniband"]),
    ROCE.row(
        "rdma.roce.flow-control",
        "The priorities that are paused one by one (PFC).",
        "A paused priority loses nothing and has no bound on its delay, and both ends must agree.",
        roce(RoceFact::FlowControl),
    ),
    ROCE.row(
        "rdma.roce.trust",
        "Whether the device sorts frames into priorities by the DSCP of IP or by the VLAN tag.",
        "Without a tag all frames fall into one priority when the tag is trusted.",
        roce(RoceFact::Trust),
    )
    .words(&["dscp", "pcp"]),
    ROCE.row(
        "rdma.roce.congestion-control",
        "Whether senders slow down when switches mark frames (ECN, DCQCN).",
        "Without it a congested path is paused hop by hop, which stops others too.",
        roce(RoceFact::CongestionControl),
    )
    .switch(),
    ROCE.row(
        "rdma.roce.chain",
        "Whether RDMA gets into a priority that is paused and marked: addresses, trust, DSCP, pauses and marks as one.",
        "Each may look right alone while the frames of RDMA are in a priority that loses them.",
        roce(RoceFact::Chain),
    ),
    MLX4.row(
        "rdma.mlx4.flow-steering",
        "How ConnectX-3 lays out its steering tables, where -1 lets it steer flows by rules.",
        "A bypass stack needs flow steering to get its packets past the kernel.",
        ReadFrom::ModuleParameter("mlx4_core", "log_num_mgm_entry_size"),
    )
    .number("")
    .persist(&[Persist::ModprobeD("options mlx4_core log_num_mgm_entry_size=-1")]),
    MLX4.row(
        "rdma.mlx4.port-type",
        "Whether the ports of ConnectX-3 are Ethernet (2) or InfiniBand (1).",
        "A port of the other type is no network interface.",
        ReadFrom::ModuleParameter("mlx4_core", "port_type_array"),
    )
    .persist(&[Persist::ModprobeD("options mlx4_core port_type_array=2,2")]),
    MLX4.row(
        "rdma.mlx4.vfs",
        "How many virtual functions ConnectX-3 makes.",
        "They share the device's resources.",
        ReadFrom::ModuleParameter("mlx4_core", "num_vfs"),
    )
    .persist(&[Persist::ModprobeD("options mlx4_core num_vfs=N")]),
    MLX4.row(
        "rdma.mlx4.probe-vf",
        "How many virtual functions of ConnectX-3 the host itself drives.",
        "Each one is an interface that the host does not need.",
        ReadFrom::ModuleParameter("mlx4_core", "probe_vf"),
    )
    .persist(&[Persist::ModprobeD("options mlx4_core probe_vf=0")]),
    MLX4.row(
        "rdma.mlx4.large-completions",
        "Whether ConnectX-3 writes completions of 64 bytes.",
        "A completion that fills a cache line saves the read of the rest.",
        ReadFrom::ModuleParameter("mlx4_core", "enable_64b_cqe_eqe"),
    )
    .switch()
    .persist(&[Persist::ModprobeD("options mlx4_core enable_64b_cqe_eqe=1")])
    .today("The default is on; the printed 0 was not measured."),
    MLX4.row(
        "rdma.mlx4.inline-threshold",
        "Frames up to this length are written into the descriptor itself, bytes.",
        "The device then need not fetch the payload from memory.",
        ReadFrom::ModuleParameter("mlx4_en", "inline_thold"),
    )
    .number("bytes")
    .persist(&[Persist::ModprobeD("options mlx4_en inline_thold=104")])
    .today("The printed 0 is commented out and would make small frames slower."),
    MLX4.row(
        "rdma.mlx4.softdep",
        "What is loaded together with the driver of ConnectX-3.",
        "Without mlx4_en the device is no network interface.",
        ReadFrom::Computed(module::mlx4_softdep, "/etc/modprobe.d/*.conf"),
    )
    .persist(&[Persist::ModprobeD("softdep mlx4_core post: mlx4_en")])
    .docs(&["modprobe.d(5)"]),
    FACT.row(
        "rdma.driver-version",
        "The version of the ConnectX-3 driver, which the vendor's package has and the kernel's own may not.",
        "Options and defaults differ between the two.",
        ReadFrom::File("/sys/module/mlx4_core/version"),
    ),
    FACT.row(
        "rdma.device-flow-steering",
        "Whether the device manages flow steering by itself.",
        "A bypass stack needs it to take single flows past the kernel.",
        ReadFrom::Elsewhere {
            why: "the driver says it only in the kernel's log and in its own counters",
            look: "journalctl -k for \"Steering mode\", or the documentation of the device",
        },
    )
    .switch(),
    FACT.row(
        "rdma.devices",
        "The RDMA devices, usNIC included.",
        "A bypass stack opens one of them.",
        ReadFrom::Names("/sys/class/infiniband"),
    )
    .docs(&["Documentation/infiniband/core_locking.rst"]),
    base::firmware()
        .row(
            "rdma.vnic-coalescing",
            "The interrupt delay of a Cisco virtual interface, microseconds.",
            "A packet waits that long for its interrupt.",
            ReadFrom::Elsewhere {
                why: "it is set in the adapter's profile",
                look: "the management controller (CIMC), or nic.coalesce.rx-usecs of the interface",
            },
        )
        .number("us")
        .in_area(Area::Rdma)
        .disrupts(Disruption::LinkReset),
];

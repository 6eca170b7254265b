//! Whether and in what this host is a guest. Only maker and product are read, never serial numbers.

use crate::{Area, ReadFrom, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        id: "virtualisation.hypervisor-flag",
        area: Area::Virtualisation,
        what: "Whether the processor says that it is a guest.",
        read: ReadFrom::CpuFlag("hypervisor"),
    },
    Setting {
        id: "virtualisation.maker",
        area: Area::Virtualisation,
        what: "The maker of the machine, real or virtual.",
        read: ReadFrom::File("/sys/class/dmi/id/sys_vendor"),
    },
    Setting {
        id: "virtualisation.product",
        area: Area::Virtualisation,
        what: "The product name of the machine, real or virtual.",
        read: ReadFrom::File("/sys/class/dmi/id/product_name"),
    },
    Setting {
        id: "virtualisation.hypervisor",
        area: Area::Virtualisation,
        what: "The kind of hypervisor, where the kernel names it.",
        read: ReadFrom::File("/sys/hypervisor/type"),
    },
];

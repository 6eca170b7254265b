//! Memory: nodes, pages, limits.

use crate::read::{memory, process};
use crate::{Area, ReadFrom, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        id: "memory.total",
        area: Area::Memory,
        what: "Memory of the host.",
        read: ReadFrom::MemInfo("MemTotal"),
    },
    Setting {
        id: "memory.nodes",
        area: Area::Memory,
        what: "The list of memory nodes.",
        read: ReadFrom::CpuList("/sys/devices/system/node/online"),
    },
    Setting {
        id: "memory.thp",
        area: Area::Memory,
        what: "When memory is given in huge pages without being asked for.",
        read: ReadFrom::Chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
    },
    Setting {
        id: "memory.thp.defrag",
        area: Area::Memory,
        what: "When a thread waits for the kernel to make a huge page.",
        read: ReadFrom::Chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
    },
    Setting {
        id: "memory.huge-page-size",
        area: Area::Memory,
        what: "The default size of huge pages.",
        read: ReadFrom::MemInfo("Hugepagesize"),
    },
    Setting {
        id: "memory.huge-pages",
        area: Area::Memory,
        what: "Huge pages set aside on each node.",
        read: ReadFrom::Computed(memory::huge_pages),
    },
    Setting {
        id: "memory.swap",
        area: Area::Memory,
        what: "Swap areas in use.",
        read: ReadFrom::Computed(memory::swap_areas),
    },
    Setting {
        id: "memory.ksm",
        area: Area::Memory,
        what: "Whether the kernel merges equal pages.",
        read: ReadFrom::File("/sys/kernel/mm/ksm/run"),
    },
    Setting {
        id: "memory.lock-limit-bytes",
        area: Area::Memory,
        what: "Memory this process may lock without a capability, bytes.",
        read: ReadFrom::Computed(process::memory_lock_limit),
    },
];

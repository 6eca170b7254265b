//! Memory: nodes, pages, limits, address translation of devices.

use super::base;
use crate::read::{memory, process};
use crate::setting::{Menu, Persist, Risk, Vendor};
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Memory).docs(&["Documentation/admin-guide/mm/numaperf.rst"]);
const FILE: Setting = base::file(Area::Memory);
const HUGE: Setting = FILE.docs(&["Documentation/admin-guide/mm/transhuge.rst"]);

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "memory.total",
        "Memory of the host.",
        "Huge pages, guests and programs must fit into it with room for the kernel.",
        ReadFrom::MemInfo("MemTotal"),
    )
    .docs(&["proc_meminfo(5)"])
    .in_record(),
    FACT.row(
        "memory.available",
        "Memory that programs can still get, kB.",
        "A host that runs out of memory reclaims it in the path of whoever asks.",
        ReadFrom::Computed(memory::available_kb, "MemAvailable in /proc/meminfo"),
    )
    .number("kB")
    .docs(&["proc_meminfo(5)"]),
    base::firmware()
        .row(
            "memory.nodes",
            "The list of memory nodes.",
            "Memory of another node answers later, and one node on several sockets means that each access is a toss.",
            ReadFrom::CpuList("/sys/devices/system/node/online"),
        )
        .cpus()
        .in_area(Area::Memory)
        .menu(&[Menu { vendor: Vendor::Cisco, words: "NUMA = Enabled" }])
        .docs(&["Documentation/admin-guide/mm/numaperf.rst"])
        .in_record(),
    FACT.row(
        "memory.node-cpus",
        "The CPUs of each memory node.",
        "CPUs are numbered in blocks on some hosts and in turn on others, so a plan must look them up.",
        ReadFrom::Each { directory: "/sys/devices/system/node", prefix: "node", file: "cpulist" },
    ),
    FACT.row(
        "memory.node-distances",
        "How far each memory node is from the others, where 10 is near.",
        "It says what a remote access costs by the firmware's own account.",
        ReadFrom::Each { directory: "/sys/devices/system/node", prefix: "node", file: "distance" },
    ),
    FACT.row(
        "memory.node-free",
        "Memory of each node, free of total.",
        "A full node near the NIC sends a program's buffers to the far one.",
        ReadFrom::Computed(memory::nodes, "/sys/devices/system/node/nodeN/meminfo"),
    ),
    HUGE.row(
        "memory.thp",
        "When memory is given in huge pages without being asked for.",
        "Huge pages save address translations, and making one can stop a thread for hundreds of microseconds.",
        ReadFrom::Chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
    )
    .words(&["always", "madvise", "never"])
    .persist(&[Persist::CommandLine("transparent_hugepage=MODE"), Persist::TmpfilesD])
    .in_record(),
    HUGE.row(
        "memory.thp.defrag",
        "When a thread waits for the kernel to make a huge page.",
        "The wait is in the middle of a page fault.",
        ReadFrom::Chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
    )
    .words(&["always", "defer", "defer+madvise", "madvise", "never"])
    .in_record(),
    HUGE.row(
        "memory.thp.background-defrag",
        "Whether a kernel thread makes huge pages in the background.",
        "It moves pages of running programs, which stops whoever uses them.",
        ReadFrom::File("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"),
    )
    .switch(),
    FILE.row(
        "memory.huge-page-size",
        "The default size of huge pages.",
        "Larger pages need fewer entries in the cache of address translations.",
        ReadFrom::MemInfo("Hugepagesize"),
    )
    .persist(&[Persist::CommandLine("default_hugepagesz=SIZE")])
    .docs(&["Documentation/admin-guide/mm/hugetlbpage.rst"])
    .in_record(),
    FILE.row(
        "memory.huge-pages",
        "Huge pages set aside on each node.",
        "Bypass stacks put their buffers there, and they help only on the node of the NIC.",
        ReadFrom::Computed(memory::huge_pages, "/sys/devices/system/node/nodeN/hugepages, else /proc/meminfo"),
    )
    .persist(&[Persist::CommandLine("hugepagesz=SIZE hugepages=COUNT"), Persist::SysctlD])
    .risk(&[Risk::Memory])
    .docs(&["Documentation/admin-guide/mm/hugetlbpage.rst"])
    .in_record(),
    FACT.row(
        "memory.swap",
        "Swap areas in use.",
        "A page that was swapped out comes back in milliseconds.",
        ReadFrom::Computed(memory::swap_areas, "/proc/swaps"),
    )
    .number("")
    .docs(&["swapon(8)"])
    .in_record(),
    FILE.row(
        "memory.ksm",
        "Whether the kernel merges equal pages.",
        "The first write to a merged page copies it.",
        ReadFrom::File("/sys/kernel/mm/ksm/run"),
    )
    .switch()
    .docs(&["Documentation/admin-guide/mm/ksm.rst"])
    .in_record(),
    base::limit(Area::Memory, &[Persist::Limits("memlock unlimited"), Persist::Limits("LimitMEMLOCK=infinity")])
        .row(
            "memory.lock-limit-bytes",
            "Memory that nearwire, as it was started, may lock without a capability, bytes.",
            "Bypass stacks register their buffers with the device and must lock them for that.",
            ReadFrom::Computed(process::memory_lock_limit, "/proc/self/limits"),
        )
        .number("bytes")
        .today("It says nothing of other programs, whose limits are app.memory-lock-limit-bytes: a service has LimitMEMLOCK= of its own.")
        .in_record(),
    base::boot()
        .in_area(Area::Memory)
        .row(
            "memory.iommu-groups",
            "How addresses of each device group are translated, in effect.",
            "Translated addresses cost when the translation is not cached; identity means no translation.",
            ReadFrom::Each { directory: "/sys/kernel/iommu_groups", prefix: "", file: "type" },
        )
        .words(&["identity", "DMA", "DMA-FQ", "blocked"])
        .persist(&[Persist::CommandLine("iommu=pt")])
        .risk(&[Risk::Security])
        .docs(&["Documentation/ABI/testing/sysfs-kernel-iommu_groups"]),
    base::file(Area::Memory)
        .row(
            "memory.cache-allocation",
            "How the last-level cache is divided between groups of programs.",
            "A group of its own keeps other programs from evicting the data of a hot one.",
            ReadFrom::File("/sys/fs/resctrl/schemata"),
        )
        .docs(&["Documentation/filesystems/resctrl.rst"]),
    FACT.row(
        "memory.free-blocks",
        "Free blocks of each node and zone by their size, from one page up in powers of two.",
        "Huge pages can be set aside only while there are blocks as large as they are.",
        ReadFrom::File("/proc/buddyinfo"),
    )
    .docs(&["proc_buddyinfo(5)"]),
    HUGE.row(
        "memory.thp.scan-sleep-ms",
        "Milliseconds between two searches for pages that could become huge.",
        "Each search walks over the memory of running programs.",
        ReadFrom::File("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"),
    )
    .number("ms"),
];

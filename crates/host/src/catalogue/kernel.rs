//! The kernel: version, build and command line.

use crate::read::kernel;
use crate::{Area, ReadFrom, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        id: "kernel.release",
        area: Area::Kernel,
        what: "The release of the running kernel.",
        read: ReadFrom::File("/proc/sys/kernel/osrelease"),
    },
    Setting {
        id: "kernel.version",
        area: Area::Kernel,
        what: "The build of the running kernel.",
        read: ReadFrom::File("/proc/sys/kernel/version"),
    },
    Setting {
        id: "kernel.preemption",
        area: Area::Kernel,
        what: "Which kernel code a more urgent thread may interrupt.",
        read: ReadFrom::Computed(kernel::preemption),
    },
    Setting {
        id: "kernel.hz",
        area: Area::Kernel,
        what: "Timer interrupts a second on a busy CPU.",
        read: ReadFrom::Computed(kernel::tick_hz),
    },
    Setting {
        id: "boot.command-line",
        area: Area::Boot,
        what: "The whole kernel command line, without addresses and identifiers.",
        read: ReadFrom::Computed(kernel::command_line),
    },
    Setting {
        id: "boot.isolcpus",
        area: Area::Boot,
        what: "CPUs taken from the scheduler at boot.",
        read: ReadFrom::CommandLine("isolcpus"),
    },
    Setting {
        id: "boot.nohz_full",
        area: Area::Boot,
        what: "CPUs whose timer tick stops while one thread runs.",
        read: ReadFrom::CommandLine("nohz_full"),
    },
    Setting {
        id: "boot.rcu_nocbs",
        area: Area::Boot,
        what: "CPUs whose RCU callbacks run elsewhere.",
        read: ReadFrom::CommandLine("rcu_nocbs"),
    },
    Setting {
        id: "boot.irqaffinity",
        area: Area::Boot,
        what: "CPUs that interrupts go to by default.",
        read: ReadFrom::CommandLine("irqaffinity"),
    },
    Setting {
        id: "boot.idle",
        area: Area::Boot,
        what: "What idle CPUs do instead of sleeping.",
        read: ReadFrom::CommandLine("idle"),
    },
    Setting {
        id: "boot.intel_idle.max_cstate",
        area: Area::Boot,
        what: "The deepest idle state that the intel_idle driver may use.",
        read: ReadFrom::CommandLine("intel_idle.max_cstate"),
    },
    Setting {
        id: "boot.processor.max_cstate",
        area: Area::Boot,
        what: "The deepest idle state that the acpi_idle driver may use.",
        read: ReadFrom::CommandLine("processor.max_cstate"),
    },
    Setting {
        id: "boot.intel_pstate",
        area: Area::Boot,
        what: "How the intel_pstate driver is used.",
        read: ReadFrom::CommandLine("intel_pstate"),
    },
    Setting {
        id: "boot.mitigations",
        area: Area::Boot,
        what: "Which processor weaknesses the kernel works around.",
        read: ReadFrom::CommandLine("mitigations"),
    },
    Setting {
        id: "boot.tsc",
        area: Area::Boot,
        what: "What the kernel is told about the time stamp counter.",
        read: ReadFrom::CommandLine("tsc"),
    },
    Setting {
        id: "boot.clocksource",
        area: Area::Boot,
        what: "The clock source asked for at boot.",
        read: ReadFrom::CommandLine("clocksource"),
    },
    Setting {
        id: "boot.nosmt",
        area: Area::Boot,
        what: "Whether simultaneous multithreading is switched off at boot.",
        read: ReadFrom::CommandLine("nosmt"),
    },
    Setting {
        id: "boot.skew_tick",
        area: Area::Boot,
        what: "Whether the ticks of the CPUs are spread in time.",
        read: ReadFrom::CommandLine("skew_tick"),
    },
    Setting {
        id: "boot.threadirqs",
        area: Area::Boot,
        what: "Whether interrupt handlers run in threads.",
        read: ReadFrom::CommandLine("threadirqs"),
    },
    Setting {
        id: "boot.preempt",
        area: Area::Boot,
        what: "The preemption model asked for at boot.",
        read: ReadFrom::CommandLine("preempt"),
    },
    Setting {
        id: "boot.iommu",
        area: Area::Boot,
        what: "The mode of the IOMMU asked for at boot.",
        read: ReadFrom::CommandLine("iommu"),
    },
    Setting {
        id: "boot.intel_iommu",
        area: Area::Boot,
        what: "The mode of the Intel IOMMU asked for at boot.",
        read: ReadFrom::CommandLine("intel_iommu"),
    },
    Setting {
        id: "boot.pcie_aspm",
        area: Area::Boot,
        what: "How PCIe links save power.",
        read: ReadFrom::CommandLine("pcie_aspm"),
    },
];

//! The kernel: version, build, security modules.

use super::base;
use crate::read::kernel;
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Kernel).docs(&["uname(2)"]);
const BUILD: Setting = base::kernel_build();

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "kernel.release",
        "The release of the running kernel.",
        "Busy polling came with 3.11, its preferred form with 5.11, settings of each NAPI with 6.13.",
        ReadFrom::File("/proc/sys/kernel/osrelease"),
    )
    .in_record(),
    FACT.row(
        "kernel.version",
        "The build of the running kernel.",
        "It says whether the kernel is preemptible and which build of a distribution it is.",
        ReadFrom::File("/proc/sys/kernel/version"),
    )
    .in_record(),
    base::boot()
        .in_area(Area::Kernel)
        .row(
            "kernel.preemption",
            "Which kernel code a more urgent thread may interrupt.",
            "More preemption shortens the wait of an urgent thread and makes everything else slower.",
            ReadFrom::Computed(
                kernel::preemption,
                "/sys/kernel/realtime, /sys/kernel/debug/sched/preempt, version, config",
            ),
        )
        .words(&["none", "voluntary", "lazy", "full", "rt"])
        .persist(&[Persist::CommandLine("preempt=MODE"), Persist::KernelBuild])
        .in_record(),
    BUILD
        .row(
            "kernel.hz",
            "Timer interrupts a second on a busy CPU.",
            "Each tick takes microseconds from whatever runs.",
            ReadFrom::Computed(kernel::tick_hz, "the kernel's configuration, else the resolution of the coarse clock"),
        )
        .number("1/s")
        .in_record(),
    BUILD.row(
        "kernel.config.no-hz-full",
        "Whether the kernel can stop the tick of a busy CPU.",
        "Without it the option nohz_full= has no effect and each tick interrupts the program.",
        ReadFrom::KernelConfig("CONFIG_NO_HZ_FULL"),
    ),
    BUILD
        .row(
            "kernel.config.busy-poll",
            "Whether sockets can poll device queues.",
            "Without it net.core.busy_read and SO_BUSY_POLL do not exist.",
            ReadFrom::KernelConfig("CONFIG_NET_RX_BUSY_POLL"),
        )
        .today("It is on by default unless real-time preemption meets a built-in netconsole."),
    BUILD.row(
        "kernel.config.rfs-accel",
        "Whether devices can be told which queue a flow's reader is near.",
        "Accelerated flow steering needs it beside ntuple filters and flow tables.",
        ReadFrom::KernelConfig("CONFIG_RFS_ACCEL"),
    ),
    BUILD.row(
        "kernel.config.rcu-nocb",
        "Whether RCU callbacks can be moved off CPUs.",
        "Without it rcu_nocbs= has no effect and callbacks run in the middle of the program.",
        ReadFrom::KernelConfig("CONFIG_RCU_NOCB_CPU"),
    ),
    BUILD
        .row(
            "kernel.config.lockdep",
            "Whether the kernel proves its locking at run time.",
            "A kernel with it is several times slower in the network path.",
            ReadFrom::KernelConfig("CONFIG_PROVE_LOCKING"),
        )
        .risk(&[Risk::Debugging]),
    BUILD
        .row(
            "kernel.config.kasan",
            "Whether the kernel checks each of its memory accesses.",
            "A kernel with it is several times slower everywhere.",
            ReadFrom::KernelConfig("CONFIG_KASAN"),
        )
        .risk(&[Risk::Debugging]),
    BUILD
        .row(
            "kernel.config.init-on-alloc",
            "Whether the kernel clears memory when it hands it out, unless told otherwise at boot.",
            "Each packet buffer is cleared before it is filled.",
            ReadFrom::KernelConfig("CONFIG_INIT_ON_ALLOC_DEFAULT_ON"),
        )
        .persist(&[Persist::CommandLine("init_on_alloc=0"), Persist::KernelBuild])
        .risk(&[Risk::Security]),
    BUILD.row(
        "kernel.config.osnoise-tracer",
        "Whether the kernel can trace what interrupts a CPU.",
        "It names the source of each interruption where it exists.",
        ReadFrom::KernelConfig("CONFIG_OSNOISE_TRACER"),
    ),
    base::boot()
        .in_area(Area::Kernel)
        .row(
            "kernel.security-modules",
            "The security modules in use, in order.",
            "Each has hooks in the path of sockets and files.",
            ReadFrom::File("/sys/kernel/security/lsm"),
        )
        .persist(&[Persist::CommandLine("lsm=LIST")])
        .risk(&[Risk::Security]),
];

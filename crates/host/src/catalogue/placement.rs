//! Which thread, interrupt and memory is where.

use super::base;
use crate::read::placement;
use crate::setting::Risk;
use crate::{Area, ReadFrom, Setting};

const PROGRAM: Setting = base::application(Area::Placement).docs(&["sched_setaffinity(2)"]);
const FACT: Setting = base::fact(Area::Placement);

/// What depends on which program is meant.
const OF_PROCESS: ReadFrom = ReadFrom::Elsewhere {
    why: "it belongs to one program, which has to be named",
    look: "Cpus_allowed_list in /proc/PID/task/TID/status and /proc/PID/numa_maps",
};
/// What depends on how the CPUs are meant to be used.
const OF_PLAN: ReadFrom = ReadFrom::Elsewhere {
    why: "it compares the host with a plan of CPUs, interrupts and memory",
    look: "the plan, against cpu.isolated, nic.irq-affinity and nic.numa-node",
};

pub(super) const SETTINGS: &[Setting] = &[
    PROGRAM
        .row(
            "placement.pinning",
            "Whether each hot thread is bound to one CPU.",
            "A thread that moves finds cold caches, and one without a CPU of its own waits.",
            OF_PROCESS,
        )
        .cpus(),
    PROGRAM
        .row(
            "placement.memory-node",
            "The memory node that the program's memory is on.",
            "Memory on another node than the device answers later.",
            OF_PROCESS,
        )
        .docs(&["numactl(8)"]),
    FACT.row(
        "placement.threads-on-isolated",
        "How many threads of programs may run on each isolated CPU.",
        "Two threads on one CPU wait for each other's time slices.",
        ReadFrom::Computed(placement::threads_on_isolated, "/proc/PID/task/TID/status"),
    )
    .number("threads")
    .docs(&["Documentation/admin-guide/kernel-per-CPU-kthreads.rst"]),
    PROGRAM.row(
        "placement.threads-fit",
        "Whether there are no more busy threads than CPUs for them.",
        "One thread too many costs a switch in the middle of another one's work.",
        OF_PLAN,
    ),
    FACT.row(
        "placement.plan",
        "Which CPUs belong to the system, the interrupts, the program and the guests.",
        "A CPU with two duties is as slow as the slower one.",
        OF_PLAN,
    ),
    base::irq(Area::Placement)
        .row(
            "placement.program-and-interrupt",
            "Whether the program and the interrupt of its queue share a CPU.",
            "A spinning program is hardly interrupted, and a sleeping one loses time to the handler on its own CPU.",
            OF_PLAN,
        )
        .switch(),
    base::irq(Area::Placement)
        .row(
            "irq.on-isolated",
            "Interrupts that come to isolated CPUs, each with those CPUs.",
            "An interrupt takes microseconds from a spinning thread.",
            ReadFrom::Computed(placement::irqs_on_isolated, "/proc/interrupts, read twice"),
        )
        .today("A vector that may go to a CPU and never does, as managed ones of unused queues, disturbs nobody."),
    base::irq(Area::Placement)
        .row(
            "irq.of-each-cpu",
            "How many interrupts go to each CPU in effect.",
            "A CPU with all of them becomes the bottleneck.",
            ReadFrom::Computed(placement::irqs_of_each_cpu, "/proc/irq/N/effective_affinity_list"),
        )
        .number(""),
    PROGRAM
        .row(
            "placement.capabilities",
            "Whether the program may open the device.",
            "A bypass stack without the right falls back to the kernel or stops.",
            ReadFrom::Elsewhere {
                why: "it belongs to one program, which has to be named",
                look: "CapEff in /proc/PID/status and the mode of /dev/infiniband/*",
            },
        )
        .risk(&[Risk::Security])
        .docs(&["capabilities(7)"]),
];

//! What interrupts a CPU that should be left alone. Counters are since boot: what matters is
//! whether they grow while a program runs.

use super::base;
use crate::read::{counters, placement, service};
use crate::setting::{MsrField, Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Noise);
const FILE: Setting = base::file(Area::Noise);

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "noise.smi-count",
        "Management interrupts of CPU 0 since boot.",
        "Each one stops all CPUs for microseconds to milliseconds, unseen by the kernel.",
        ReadFrom::Msr(MsrField { register: 0x34, low_bit: 0, bits: 32, words: &[] }),
    )
    .number("")
    .docs(&["Intel SDM volume 4"]),
    FACT.row(
        "noise.timer-interrupts",
        "Local timer interrupts since boot, all CPUs.",
        "On a CPU without tick a spinning thread should see less than two a second.",
        ReadFrom::Computed(counters::timer_interrupts, "line LOC of /proc/interrupts"),
    )
    .number("")
    .docs(&["Documentation/timers/no_hz.rst"]),
    FACT.row(
        "noise.cpu-interrupts",
        "Interrupts that CPUs sent to each other since boot.",
        "Unmapping memory and patching code interrupt every CPU.",
        ReadFrom::Computed(counters::cpu_interrupts, "lines RES, CAL and TLB of /proc/interrupts"),
    )
    .docs(&["proc_interrupts(5)"]),
    FACT.row(
        "noise.kernel-threads",
        "How many unbound kernel threads may run on each isolated CPU.",
        "The scheduler keeps its own off, but a thread with its own affinity comes.",
        ReadFrom::Computed(placement::kernel_threads_on_isolated, "/proc/PID/task/TID/status"),
    )
    .number("threads")
    .docs(&["Documentation/admin-guide/kernel-per-CPU-kthreads.rst"]),
    FACT.row(
        "noise.steal",
        "Time that other guests took from this one since boot, clock ticks.",
        "A guest whose CPU is taken away sees delays of milliseconds.",
        ReadFrom::Computed(counters::steal, "/proc/stat"),
    )
    .number("ticks")
    .docs(&["proc_stat(5)"]),
    base::service().in_area(Area::Noise).row(
        "noise.timers",
        "The systemd timers that start something by themselves.",
        "Package updates and file system trims come in the middle of a run.",
        ReadFrom::Computed(service::timers, "timers.target.wants"),
    ),
    FILE.row(
        "noise.machine-check-interval",
        "Seconds between looks for corrected errors, hexadecimal, 0 for none.",
        "Each look reads registers on all CPUs.",
        ReadFrom::Each {
            directory: "/sys/devices/system/machinecheck",
            prefix: "machinecheck",
            file: "check_interval",
        },
    )
    .number("s, hexadecimal")
    .risk(&[Risk::Debugging])
    .persist(&[Persist::TmpfilesD, Persist::CommandLine("mce=ignore_ce")])
    .docs(&["Documentation/ABI/testing/sysfs-mce"])
    .today("All CPUs share one value, so that the printed loop writes the same thing several times."),
    FILE.row(
        "noise.fair-server",
        "Nanoseconds of each second that ordinary threads get beside real-time ones, each CPU.",
        "A real-time thread that spins is stopped for that long.",
        ReadFrom::Each { directory: "/sys/kernel/debug/sched/fair_server", prefix: "cpu", file: "runtime" },
    )
    .number("ns")
    .risk(&[Risk::Hang])
    .docs(&["Documentation/scheduler/sched-deadline.rst"])
    .today("Since Linux 6.12 this, and not sched_rt_runtime_us alone, limits real-time threads."),
    FILE.row(
        "noise.tracer",
        "The tracer that is active.",
        "A tracer left on costs at each function or event.",
        ReadFrom::File("/sys/kernel/tracing/current_tracer"),
    )
    .docs(&["Documentation/trace/ftrace.rst"]),
    FILE.row(
        "noise.writeback-affinity",
        "CPUs that write file data back.",
        "Its work queue has a mask of its own.",
        ReadFrom::CpuMask("/sys/devices/virtual/workqueue/writeback/cpumask"),
    )
    .cpus()
    .docs(&["Documentation/core-api/workqueue.rst"]),
    FACT.row(
        "noise.unbound-work-isolated",
        "CPUs that unbound kernel work is kept off because they are isolated.",
        "It shows whether an isolated partition took effect for kernel work.",
        ReadFrom::CpuMask("/sys/devices/virtual/workqueue/cpumask_isolated"),
    )
    .cpus()
    .docs(&["Documentation/ABI/testing/sysfs-devices-system-cpu"]),
    FACT.row(
        "noise.sleep-gaps",
        "The longest time a spinning thread is kept from running, by anything.",
        "It is the floor below which no tuning of the network can bring the worst case.",
        ReadFrom::Elsewhere {
            why: "it must be measured, which takes a CPU for a minute",
            look: "nearwire check --probe noise, or the tracers hwlat and osnoise where the kernel has them",
        },
    )
    .number("ns")
    .docs(&["Documentation/trace/hwlat_detector.rst", "Documentation/trace/osnoise-tracer.rst"]),
    FACT.row(
        "noise.memory-errors",
        "Corrected memory errors of each controller since it was set up.",
        "Each one may raise an interrupt, and many show a module that fails.",
        ReadFrom::Each { directory: "/sys/devices/system/edac/mc", prefix: "mc", file: "ce_count" },
    )
    .number("")
    .docs(&["Documentation/driver-api/edac.rst"]),
    FILE.row(
        "noise.nvme-scheduler",
        "How requests to NVMe disks are sorted.",
        "Sorting takes time on the CPU that asks.",
        ReadFrom::Each { directory: "/sys/block", prefix: "nvme", file: "queue/scheduler" },
    )
    .persist(&[Persist::UdevRule])
    .docs(&["Documentation/block/switching-sched.rst"]),
    base::service().in_area(Area::Noise).row(
        "noise.stalld",
        "Whether stalld runs and starts at boot.",
        "It gives time to threads that a spinning real-time thread starves.",
        ReadFrom::Service("stalld.service"),
    ),
];

//! Kernel parameters outside the network; the id is the name of the sysctl.

use super::base;
use crate::setting::{Disruption, Persist, Risk};
use crate::{ReadFrom, Setting};

const VM: Setting = base::sysctl(&["Documentation/admin-guide/sysctl/vm.rst"]);
const KERNEL: Setting = base::sysctl(&["Documentation/admin-guide/sysctl/kernel.rst"]);

/// The row of a sysctl: its name is its id.
pub(super) const fn sysctl(base: Setting, name: &'static str, what: &'static str, why: &'static str) -> Setting {
    base.row(name, what, why, ReadFrom::Sysctl(name))
}

pub(super) const SETTINGS: &[Setting] = &[
    sysctl(
        VM,
        "vm.swappiness",
        "How readily memory of programs is swapped out.",
        "A page that was swapped out comes back in milliseconds.",
    )
    .number("")
    .in_record(),
    sysctl(
        VM,
        "vm.stat_interval",
        "Seconds between updates of memory statistics on each CPU.",
        "Each update is work on a CPU that should be left alone.",
    )
    .number("s")
    .today("CPUs with nothing to report, such as those without tick, are skipped, so that it changes little.")
    .in_record(),
    sysctl(
        VM,
        "vm.zone_reclaim_mode",
        "Whether a full memory node is cleaned before another is used.",
        "Cleaning stops the thread that asked for memory.",
    )
    .number("")
    .in_record(),
    sysctl(
        VM,
        "vm.compaction_proactiveness",
        "How eagerly the kernel moves pages together in the background.",
        "A page that is moved stops whoever uses it.",
    )
    .number("")
    .in_record(),
    sysctl(
        VM,
        "vm.overcommit_memory",
        "Whether memory is promised beyond what there is.",
        "A store that forks to save itself fails without it, and with it the host may run out of memory.",
    )
    .words(&["0", "1", "2"])
    .risk(&[Risk::Hang]),
    sysctl(
        VM,
        "vm.nr_hugepages",
        "Huge pages of the default size set aside on all nodes.",
        "Bypass stacks put their buffers there.",
    )
    .number("pages")
    .risk(&[Risk::Memory])
    .today("The pages are spread over all nodes, so the files of each node say what is near the NIC."),
    sysctl(
        VM,
        "vm.min_free_kbytes",
        "Memory kept free for those who cannot wait, kB.",
        "A receive path that finds no page drops the frame.",
    )
    .number("kB")
    .risk(&[Risk::Memory]),
    sysctl(
        VM,
        "vm.dirty_ratio",
        "Per cent of memory with unwritten file data at which a writer must wait.",
        "A program that logs is stopped until the disk has caught up.",
    )
    .number("%"),
    sysctl(
        VM,
        "vm.dirty_background_ratio",
        "Per cent of memory with unwritten file data at which writing starts.",
        "Writing early keeps the writer from having to wait.",
    )
    .number("%"),
    sysctl(
        KERNEL,
        "kernel.sched_rt_runtime_us",
        "Microseconds of each period that real-time threads may take.",
        "A real-time thread that spins is stopped when it has used them up.",
    )
    .number("us")
    .risk(&[Risk::Hang])
    .docs(&["Documentation/scheduler/sched-rt-group.rst"])
    .today("Since Linux 6.12 the fair server of each CPU limits real-time threads too, so that -1 alone does not lift the limit.")
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.watchdog",
        "Whether lock-ups of CPUs are looked for.",
        "The search wakes a thread on each CPU every few seconds.",
    )
    .switch()
    .risk(&[Risk::Debugging])
    .today("The kernel keeps it off the CPUs of nohz_full= by itself, and kernel.watchdog_cpumask does so for others.")
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.nmi_watchdog",
        "Whether hard lock-ups are looked for with a performance counter.",
        "It raises an interrupt that cannot be masked and takes a performance counter.",
    )
    .switch()
    .risk(&[Risk::Debugging])
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.watchdog_cpumask",
        "CPUs on which lock-ups are looked for.",
        "It keeps the search on the CPUs that need not be left alone.",
    )
    .cpus()
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.timer_migration",
        "Whether timers move from idle CPUs to busy ones.",
        "A timer that moves to the CPU of the program interrupts it.",
    )
    .switch()
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.numa_balancing",
        "Whether the kernel moves memory between nodes behind programs.",
        "It takes pages away for a moment to see who uses them, which ends in page faults.",
    )
    .switch()
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.unprivileged_bpf_disabled",
        "Whether only privileged users may load BPF programs.",
        "A bypass that loads a program needs the right to do so.",
    )
    .words(&["0", "1", "2"])
    .risk(&[Risk::Security])
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.perf_event_paranoid",
        "What unprivileged users may measure.",
        "An explanation of where time goes needs performance counters.",
    )
    .number("")
    .risk(&[Risk::Security])
    .in_record(),
    sysctl(
        KERNEL,
        "kernel.shmmax",
        "The largest shared memory segment, bytes.",
        "Bypass stacks that share huge pages by System V calls need one large enough.",
    )
    .number("bytes")
    .today("The default is the largest possible number, so that the printed 1000000000 lowers it."),
    sysctl(
        KERNEL,
        "kernel.hung_task_timeout_secs",
        "Seconds after which a thread that does not run is reported.",
        "The search walks over all threads.",
    )
    .number("s")
    .risk(&[Risk::Debugging]),
    sysctl(
        KERNEL,
        "kernel.sched_autogroup_enabled",
        "Whether threads are scheduled in groups by their session.",
        "A group gets its share as a whole, whatever the priority of its threads.",
    )
    .switch(),
    sysctl(
        KERNEL,
        "kernel.split_lock_mitigate",
        "Whether a thread that locks across two cache lines is put to sleep for it.",
        "The thread sleeps for 10 ms and then waits until it alone may do so.",
    )
    .switch()
    .risk(&[Risk::Debugging])
    .today("It exists since Linux 6.2 on x86, the kernel's log names the programs that it slows down, and it is without effect on processors of AMD, whose traps for such locks (since Linux 6.13) put nobody to sleep."),
    sysctl(
        KERNEL,
        "kernel.randomize_va_space",
        "Whether addresses of programs differ from start to start.",
        "Different addresses mean different cache conflicts, so that starts of the same program differ.",
    )
    .words(&["0", "1", "2"])
    .risk(&[Risk::Security])
    .disrupts(Disruption::Restart)
    .persist(&[Persist::SysctlD]),
];

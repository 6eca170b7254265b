//! The kernel's command line: what was asked for. What came of it is read elsewhere.

use super::base;
use crate::read::{kernel, log};
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const BOOT: Setting = base::boot();
const FACT: Setting = base::fact(Area::Boot).docs(&["Documentation/admin-guide/kernel-parameters.rst"]);

/// An option that is asked for by `words`.
const fn option(
    id: &'static str,
    name: &'static str,
    words: &'static [Persist],
    what: &'static str,
    why: &'static str,
) -> Setting {
    BOOT.row(id, what, why, ReadFrom::CommandLine(name)).persist(words)
}

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "boot.command-line",
        "The whole kernel command line, without addresses and identifiers.",
        "It says what was asked for, which is not always what came of it.",
        ReadFrom::Computed(kernel::command_line, "/proc/cmdline"),
    )
    .in_record(),
    FACT.row(
        "boot.rejected",
        "Options of the command line that the kernel says it did not take.",
        "A misspelt or refused option stays in /proc/cmdline and looks as if it worked.",
        ReadFrom::Computed(log::rejected_options, "/dev/kmsg"),
    ),
    option(
        "boot.isolcpus",
        "isolcpus",
        &[Persist::CommandLine("isolcpus=LIST")],
        "CPUs taken from the scheduler at boot.",
        "A thread pinned to such a CPU shares it with nothing the scheduler could move there.",
    )
    .cpus()
    .today("The kernel's documentation calls it deprecated, because isolated cpuset partitions do the same while the host runs.")
    .in_record(),
    option(
        "boot.nohz_full",
        "nohz_full",
        &[Persist::CommandLine("nohz_full=LIST")],
        "CPUs whose timer tick stops while one thread runs.",
        "The tick takes microseconds from a spinning thread, but each system call gets slower.",
    )
    .cpus()
    .docs(&["Documentation/timers/no_hz.rst"])
    .today("It needs CONFIG_NO_HZ_FULL and implies rcu_nocbs= for the same CPUs.")
    .in_record(),
    option(
        "boot.rcu_nocbs",
        "rcu_nocbs",
        &[Persist::CommandLine("rcu_nocbs=LIST")],
        "CPUs whose RCU callbacks run elsewhere.",
        "Callbacks otherwise run in softirq context in the middle of the program.",
    )
    .cpus()
    .today("CPUs in nohz_full= have it without being asked.")
    .in_record(),
    option(
        "boot.rcu_nocb_poll",
        "rcu_nocb_poll",
        &[Persist::CommandLine("rcu_nocb_poll")],
        "Whether the threads that run RCU callbacks poll for them.",
        "The isolated CPU then need not wake them.",
    )
    .switch(),
    option(
        "boot.irqaffinity",
        "irqaffinity",
        &[Persist::CommandLine("irqaffinity=LIST")],
        "CPUs that interrupts go to by default.",
        "Interrupts set up later stay off the CPUs that should be left alone.",
    )
    .cpus()
    .today("Drivers that spread their own vectors override it, so the effective affinity must be read.")
    .in_record(),
    option(
        "boot.idle",
        "idle",
        &[Persist::CommandLine("idle=poll")],
        "What idle CPUs do instead of sleeping.",
        "A CPU that never sleeps needs no time to wake up.",
    )
    .words(&["poll", "halt", "nomwait", "mwait"])
    .risk(&[Risk::Power, Risk::Hang])
    .today("The kernel rejects idle=mwait, and idle=poll takes away the turbo headroom and can overheat the processor.")
    .in_record(),
    option(
        "boot.intel_idle.max_cstate",
        "intel_idle.max_cstate",
        &[Persist::CommandLine("intel_idle.max_cstate=1")],
        "The deepest idle state that the intel_idle driver may use.",
        "Waking up from a deep state takes up to hundreds of microseconds.",
    )
    .number("")
    .risk(&[Risk::Power])
    .docs(&["Documentation/admin-guide/pm/intel_idle.rst"])
    .today("0 only hands over to acpi_idle, which may still use deep states.")
    .in_record(),
    option(
        "boot.processor.max_cstate",
        "processor.max_cstate",
        &[Persist::CommandLine("processor.max_cstate=1")],
        "The deepest idle state that the acpi_idle driver may use.",
        "It matters when intel_idle is switched off or not there.",
    )
    .number("")
    .risk(&[Risk::Power])
    .today("The kernel silently takes 0 as 1.")
    .in_record(),
    option(
        "boot.intel_pstate",
        "intel_pstate",
        &[Persist::CommandLine("intel_pstate=MODE")],
        "How the intel_pstate driver is used.",
        "Without it the firmware or acpi-cpufreq chooses the clock.",
    )
    .words(&["active", "passive", "disable", "no_hwp"])
    .docs(&["Documentation/admin-guide/pm/intel_pstate.rst"])
    .today("On processors that control P-states themselves, active with the governor performance does better than disable.")
    .in_record(),
    option(
        "boot.mitigations",
        "mitigations",
        &[Persist::CommandLine("mitigations=off")],
        "Which processor weaknesses the kernel works around.",
        "The work-arounds make each system call and interrupt longer.",
    )
    .words(&["auto", "auto,nosmt", "off"])
    .risk(&[Risk::Security])
    .in_record(),
    option(
        "boot.tsc",
        "tsc",
        &[Persist::CommandLine("tsc=reliable")],
        "What the kernel is told about the time stamp counter.",
        "A watched counter is compared by an interrupt twice a second.",
    )
    .words(&["reliable", "nowatchdog", "noirqtime", "unstable"])
    .risk(&[Risk::Debugging])
    .today("The kernel does not watch a constant counter with TSC_ADJUST on up to four packages, so the option mostly only hides faults.")
    .in_record(),
    option(
        "boot.clocksource",
        "clocksource",
        &[Persist::CommandLine("clocksource=tsc")],
        "The clock source asked for at boot.",
        "Reading the time from anything but the processor's counter takes a microsecond or more.",
    )
    .in_record(),
    option(
        "boot.hpet",
        "hpet",
        &[Persist::CommandLine("hpet=disable")],
        "Whether the high precision event timer is used.",
        "As a watchdog of the time stamp counter it is slow to read.",
    ),
    option(
        "boot.nosmt",
        "nosmt",
        &[Persist::CommandLine("nosmt")],
        "Whether simultaneous multithreading is switched off at boot.",
        "Two threads of one core take each other's execution units and caches.",
    )
    .switch()
    .in_record(),
    option(
        "boot.skew_tick",
        "skew_tick",
        &[Persist::CommandLine("skew_tick=1")],
        "Whether the ticks of the CPUs are spread in time.",
        "Ticks at the same moment wait for the same locks.",
    )
    .switch()
    .risk(&[Risk::Power])
    .in_record(),
    option(
        "boot.threadirqs",
        "threadirqs",
        &[Persist::CommandLine("threadirqs")],
        "Whether interrupt handlers run in threads.",
        "A thread can be put below the program in priority but costs a switch.",
    )
    .switch()
    .in_record(),
    option(
        "boot.preempt",
        "preempt",
        &[Persist::CommandLine("preempt=MODE")],
        "The preemption model asked for at boot.",
        "It decides between throughput and the wait of an urgent thread.",
    )
    .words(&["none", "voluntary", "lazy", "full"])
    .in_record(),
    option(
        "boot.iommu",
        "iommu",
        &[Persist::CommandLine("iommu=pt")],
        "The mode of the IOMMU asked for at boot.",
        "Devices of the kernel that pass through pay no translation.",
    )
    .words(&["pt", "off", "force", "soft"])
    .risk(&[Risk::Security])
    .docs(&["Documentation/arch/x86/iommu.rst"])
    .today("Distributions may have pass-through as their default without any option, so the type of the groups must be read.")
    .in_record(),
    option(
        "boot.intel_iommu",
        "intel_iommu",
        &[Persist::CommandLine("intel_iommu=on")],
        "The mode of the Intel IOMMU asked for at boot.",
        "It is needed to give devices to guests and to user programs.",
    )
    .words(&["on", "off", "on,sm_on"])
    .risk(&[Risk::Security])
    .docs(&["Documentation/arch/x86/iommu.rst"])
    .in_record(),
    option(
        "boot.pcie_aspm",
        "pcie_aspm",
        &[Persist::CommandLine("pcie_aspm=off")],
        "How PCIe links save power.",
        "A link asleep takes microseconds to wake up for the first frame.",
    )
    .words(&["off", "force"])
    .risk(&[Risk::Power])
    .today("off keeps the kernel from changing what the firmware set, which may be on.")
    .in_record(),
    option(
        "boot.selinux",
        "selinux",
        &[Persist::CommandLine("selinux=0")],
        "Whether SELinux is switched off at boot.",
        "Its hooks check each use of a socket.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.audit",
        "audit",
        &[Persist::CommandLine("audit=0")],
        "Whether the audit subsystem is switched off at boot.",
        "With rules loaded each system call takes the slow path.",
    )
    .switch()
    .risk(&[Risk::Security])
    .docs(&["auditctl(8)"])
    .today("Without rules it costs next to nothing, so that removing rules is enough."),
    option(
        "boot.default_hugepagesz",
        "default_hugepagesz",
        &[Persist::CommandLine("default_hugepagesz=1G")],
        "The huge page size that a program gets if it does not say.",
        "Larger pages need fewer entries in the cache of address translations.",
    )
    .risk(&[Risk::Memory])
    .docs(&["Documentation/admin-guide/mm/hugetlbpage.rst"]),
    option(
        "boot.hugepages",
        "hugepages",
        &[Persist::CommandLine("hugepagesz=SIZE hugepages=COUNT")],
        "Huge pages set aside at boot; of several sizes the last.",
        "Large pages are only sure to be found before memory is fragmented.",
    )
    .number("pages")
    .risk(&[Risk::Memory])
    .docs(&["Documentation/admin-guide/mm/hugetlbpage.rst"])
    .today("The count is spread over all memory nodes, so that only part of it is near the NIC."),
    option(
        "boot.workqueue.unbound_cpus",
        "workqueue.unbound_cpus",
        &[Persist::CommandLine("workqueue.unbound_cpus=LIST")],
        "CPUs that unbound kernel work may run on, from boot.",
        "Kernel work otherwise runs in the middle of the program.",
    )
    .cpus(),
    option(
        "boot.nosoftlockup",
        "nosoftlockup",
        &[Persist::CommandLine("nosoftlockup")],
        "Whether the search for soft lock-ups is switched off at boot.",
        "The search wakes a thread on each CPU every few seconds.",
    )
    .switch()
    .risk(&[Risk::Debugging])
    .today("Restricting it to the other CPUs with kernel.watchdog_cpumask does the same and keeps it."),
    option(
        "boot.init_on_alloc",
        "init_on_alloc",
        &[Persist::CommandLine("init_on_alloc=0")],
        "Whether the kernel clears memory when it hands it out.",
        "Each packet buffer is cleared before it is filled.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.init_on_free",
        "init_on_free",
        &[Persist::CommandLine("init_on_free=0")],
        "Whether the kernel clears memory when it is given back.",
        "Each packet buffer is cleared after its use.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.mce",
        "mce",
        &[Persist::CommandLine("mce=ignore_ce")],
        "How machine checks are handled.",
        "Corrected errors raise interrupts that a program notices.",
    )
    .risk(&[Risk::Debugging]),
    option(
        "boot.split_lock_detect",
        "split_lock_detect",
        &[Persist::CommandLine("split_lock_detect=off")],
        "What happens to a program that locks across two cache lines.",
        "Such a lock stops the whole memory bus, and the warning slows the program on purpose.",
    )
    .words(&["off", "warn", "fatal", "ratelimit:N"])
    .risk(&[Risk::Debugging]),
    option(
        "boot.iommu.passthrough",
        "iommu.passthrough",
        &[Persist::CommandLine("iommu.passthrough=1")],
        "Whether devices of the kernel pass the IOMMU by, on every architecture.",
        "A device that passes through pays no translation.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.iommu.strict",
        "iommu.strict",
        &[Persist::CommandLine("iommu.strict=0")],
        "Whether a translation is taken back at once.",
        "Taking back waits for the IOMMU, once for each frame.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.amd_pstate",
        "amd_pstate",
        &[Persist::CommandLine("amd_pstate=active")],
        "How the amd_pstate driver is used.",
        "Without it the firmware or acpi-cpufreq chooses the clock.",
    )
    .words(&["active", "passive", "guided", "disable"])
    .docs(&["Documentation/admin-guide/pm/amd-pstate.rst"]),
    option(
        "boot.cpuidle.off",
        "cpuidle.off",
        &[Persist::CommandLine("cpuidle.off=1")],
        "Whether idle states are switched off on every architecture.",
        "A CPU that is only halted wakes up sooner.",
    )
    .switch()
    .risk(&[Risk::Power])
    .docs(&["Documentation/admin-guide/pm/cpuidle.rst"]),
    option(
        "boot.mem_encrypt",
        "mem_encrypt",
        &[Persist::CommandLine("mem_encrypt=off")],
        "Whether memory is encrypted.",
        "Each miss of the cache takes longer, and buffers of devices are copied.",
    )
    .switch()
    .risk(&[Risk::Security]),
    option(
        "boot.psi",
        "psi",
        &[Persist::CommandLine("psi=0")],
        "Whether stalls for lack of CPU, memory or disk are accounted.",
        "The accounting costs at each switch of threads.",
    )
    .switch()
    .risk(&[Risk::Debugging])
    .docs(&["Documentation/accounting/psi.rst"]),
    option(
        "boot.rcu_normal_after_boot",
        "rcupdate.rcu_normal_after_boot",
        &[Persist::CommandLine("rcupdate.rcu_normal_after_boot=1")],
        "Whether RCU stops to hurry once the host is up.",
        "A hurried grace period interrupts every CPU.",
    )
    .switch(),
    option(
        "boot.rcu_patience_ms",
        "rcutree.nohz_full_patience_delay",
        &[Persist::CommandLine("rcutree.nohz_full_patience_delay=1000")],
        "Milliseconds RCU waits before it disturbs a tickless CPU.",
        "A CPU that enters the kernel by itself in that time is not disturbed.",
    )
    .number("ms")
    .today("It exists since Linux 6.11."),
];

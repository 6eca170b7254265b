//! Processors: model, frequency, idle states, isolation.

use super::base;
use crate::read::cpu;
use crate::setting::{Disruption, Menu, MsrField, Persist, Risk, Vendor, Write};
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Cpu).docs(&["proc_cpuinfo(5)"]);
const FILE: Setting = base::file(Area::Cpu).docs(&["Documentation/ABI/testing/sysfs-devices-system-cpu"]);
const FREQUENCY: Setting = FILE.docs(&["Documentation/admin-guide/pm/cpufreq.rst"]).risk(&[Risk::Power]);
const PSTATE: Setting = FILE.docs(&["Documentation/admin-guide/pm/intel_pstate.rst"]).risk(&[Risk::Power]);
const IDLE: Setting = FILE.docs(&["Documentation/admin-guide/pm/cpuidle.rst"]).risk(&[Risk::Power]);

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "cpu.model",
        "The name of the processor.",
        "Idle states, caches and clocks differ from model to model.",
        ReadFrom::CpuInfo("model name"),
    )
    .in_record(),
    FACT.row(
        "cpu.microcode",
        "The revision of the microcode.",
        "Revisions change the cost of entering the kernel.",
        ReadFrom::CpuInfo("microcode"),
    )
    .in_record(),
    FACT.row(
        "cpu.packages",
        "Processor packages with an online CPU.",
        "What crosses from package to package is slower.",
        ReadFrom::Computed(cpu::packages, "cpuN/topology/physical_package_id"),
    )
    .number("")
    .in_record(),
    FACT.row(
        "cpu.cores",
        "Physical cores with an online CPU.",
        "Threads that spin need a core each.",
        ReadFrom::Computed(cpu::cores, "cpuN/topology/thread_siblings_list"),
    )
    .number("")
    .in_record(),
    FACT.row(
        "cpu.threads",
        "Online CPUs.",
        "With more busy threads than CPUs a thread waits for another one's time slice.",
        ReadFrom::Computed(cpu::threads, "/sys/devices/system/cpu/online"),
    )
    .number("")
    .in_record(),
    FACT.row(
        "cpu.kind",
        "Which CPUs are of a slower kind of core, on hosts with several kinds.",
        "A slower core takes longer for everything that is done for a packet.",
        ReadFrom::Computed(
            cpu::kinds,
            "cpuN/cpu_capacity, /sys/devices/cpu_core, cpu_atom and cpu_lowpower, cpu/types",
        ),
    )
    .words(&["fast", "slow"])
    .docs(&["Documentation/devicetree/bindings/cpu/cpu-capacity.txt", "arch/x86/events/intel/core.c"]),
    FACT.row(
        "cpu.preferred-rank",
        "How high the firmware of AMD ranks each core; the highest reach the highest clock.",
        "Cores of one kind differ by some percent of frequency, and the scheduler prefers the better ones.",
        ReadFrom::EachCpu("cpufreq/amd_pstate_prefcore_ranking"),
    )
    .number("")
    .docs(&["Documentation/admin-guide/pm/amd-pstate.rst"])
    .today(
        "nearwire plan gives the application the cores of the highest rank; the ranks can change while the host runs.",
    ),
    FILE.row(
        "cpu.online",
        "The list of online CPUs.",
        "Interrupts and threads of an offline CPU move to others.",
        ReadFrom::CpuList("/sys/devices/system/cpu/online"),
    )
    .cpus()
    .risk(&[Risk::Network])
    .in_record(),
    FACT.row(
        "cpu.siblings",
        "The CPUs that share a core with each CPU.",
        "Numbers of siblings follow no rule, so a plan must look them up.",
        ReadFrom::EachCpu("topology/thread_siblings_list"),
    )
    .docs(&["Documentation/admin-guide/cputopology.rst"]),
    base::cgroup(Area::Cpu)
        .row(
            "cpu.isolated",
            "CPUs taken from the scheduler at boot, in effect.",
            "A thread pinned to such a CPU shares it with nothing the scheduler could move there.",
            ReadFrom::CpuList("/sys/devices/system/cpu/isolated"),
        )
        .cpus()
        .persist(&[Persist::CommandLine("isolcpus=LIST")])
        .today("It does not show CPUs isolated by cpuset partitions.")
        .in_record(),
    base::cgroup(Area::Cpu)
        .row(
            "cpu.isolated.cgroup",
            "CPUs taken from the scheduler by cpuset partitions, in effect.",
            "It does what isolcpus= does, while the host runs and with a way back.",
            ReadFrom::Computed(cpu::isolated_by_partitions, "/sys/fs/cgroup/cpuset.cpus.isolated"),
        )
        .cpus()
        .in_record(),
    base::boot()
        .row(
            "cpu.nohz_full",
            "CPUs whose timer tick stops while one thread runs, in effect.",
            "The tick takes microseconds from a spinning thread.",
            ReadFrom::CpuList("/sys/devices/system/cpu/nohz_full"),
        )
        .in_area(Area::Cpu)
        .cpus()
        .persist(&[Persist::CommandLine("nohz_full=LIST")])
        .docs(&["Documentation/timers/no_hz.rst"])
        .in_record(),
    FILE.row(
        "cpu.smt",
        "Whether simultaneous multithreading is on, off or not there.",
        "Two threads of one core take each other's execution units and caches.",
        ReadFrom::File("/sys/devices/system/cpu/smt/control"),
    )
    .words(&["on", "off", "forceoff", "notsupported", "notimplemented"])
    .persist(&[Persist::CommandLine("nosmt"), Persist::FirmwareMenu, Persist::SystemdUnit])
    .risk(&[Risk::Network])
    .menu(&[
        Menu { vendor: Vendor::Cisco, words: "Intel Hyper-Threading technology = Disabled" },
        Menu { vendor: Vendor::Supermicro, words: "Hyperthreading = Off" },
    ])
    .today("Leaving the sibling of each hot CPU empty or offline has the effect without halving the other CPUs.")
    .in_record(),
    FREQUENCY
        .row(
            "cpu.governor",
            "What chooses the frequency of each CPU.",
            "A CPU that idled at a low clock is slow for the first packets.",
            ReadFrom::EachCpu("cpufreq/scaling_governor"),
        )
        .words(&["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"])
        .today("With intel_pstate active the energy performance preference must be performance too.")
        .in_record(),
    FREQUENCY
        .row(
            "cpu.frequency.driver",
            "The driver that sets the frequency of each CPU.",
            "Governors mean different things with different drivers.",
            ReadFrom::EachCpu("cpufreq/scaling_driver"),
        )
        .persist(&[Persist::CommandLine("intel_pstate=MODE"), Persist::CommandLine("amd_pstate=MODE")])
        .disrupts(Disruption::Reboot)
        .in_record(),
    FREQUENCY
        .row(
            "cpu.frequency.min-khz",
            "The lowest frequency each CPU may take, kHz.",
            "Equal to the highest one it keeps the clock from moving.",
            ReadFrom::EachCpu("cpufreq/scaling_min_freq"),
        )
        .number("kHz")
        .in_record(),
    FREQUENCY
        .row(
            "cpu.frequency.max-khz",
            "The highest frequency each CPU may take, kHz.",
            "A limit left by another tool slows everything down.",
            ReadFrom::EachCpu("cpufreq/scaling_max_freq"),
        )
        .number("kHz")
        .in_record(),
    base::fact(Area::Cpu)
        .row(
            "cpu.frequency.now-khz",
            "The frequency each CPU has now, kHz.",
            "Below nominal under load it shows power saving or a cap.",
            ReadFrom::EachCpu("cpufreq/scaling_cur_freq"),
        )
        .number("kHz")
        .docs(&["Documentation/admin-guide/pm/cpufreq.rst"])
        .today("The value of an idle CPU says nothing; it must be read under load."),
    base::fact(Area::Cpu)
        .row(
            "cpu.frequency.reached-khz",
            "The clock that each CPU reaches under load, kHz.",
            "A cap of firmware or heat keeps it below nominal while every setting looks right.",
            ReadFrom::Elsewhere {
                why: "it must be measured, which loads the CPU",
                look: "nearwire check --probe clock, or turbostat",
            },
        )
        .number("kHz")
        .docs(&["Documentation/admin-guide/pm/cpufreq.rst"]),
    FREQUENCY
        .row(
            "cpu.energy-performance-preference",
            "Whether the processor prefers speed or saving.",
            "A processor that controls its P-states weighs each change by it.",
            ReadFrom::EachCpu("cpufreq/energy_performance_preference"),
        )
        .words(&["performance", "balance_performance", "default", "balance_power", "power"])
        .in_record(),
    PSTATE
        .row(
            "cpu.energy-performance-bias",
            "How far each CPU prefers saving, from 0 for speed to 15.",
            "It decides how eagerly the processor raises its clock and leaves idle states.",
            ReadFrom::EachCpu("power/energy_perf_bias"),
        )
        .number("")
        .menu(&[Menu { vendor: Vendor::Cisco, words: "Energy performance = Performance" }]),
    PSTATE
        .row(
            "cpu.turbo",
            "Whether CPUs may exceed their nominal frequency.",
            "A higher clock shortens everything, and a changing one spreads the results of repeated runs.",
            ReadFrom::Computed(cpu::turbo, "intel_pstate/no_turbo, else cpufreq/boost"),
        )
        .switch()
        .persist(&[Persist::TmpfilesD, Persist::FirmwareMenu])
        .menu(&[
            Menu { vendor: Vendor::Cisco, words: "Intel Turbo Boost technology = Enabled" },
            Menu { vendor: Vendor::Supermicro, words: "Turbo mode = On" },
        ])
        .in_record(),
    PSTATE
        .row(
            "cpu.pstate.status",
            "Whether intel_pstate is active, passive or off.",
            "Active means that the processor itself follows the preference.",
            ReadFrom::File("/sys/devices/system/cpu/intel_pstate/status"),
        )
        .words(&["active", "passive", "off"]),
    PSTATE
        .row(
            "cpu.pstate.min-percent",
            "The least performance intel_pstate allows, per cent.",
            "At 100 the clock does not fall when a CPU is little used.",
            ReadFrom::File("/sys/devices/system/cpu/intel_pstate/min_perf_pct"),
        )
        .number("%"),
    PSTATE
        .row(
            "cpu.pstate.max-percent",
            "The most performance intel_pstate allows, per cent.",
            "Below 100 the clock cannot reach its best.",
            ReadFrom::File("/sys/devices/system/cpu/intel_pstate/max_perf_pct"),
        )
        .number("%"),
    PSTATE
        .row(
            "cpu.pstate.dynamic-boost",
            "Whether the clock is raised for a moment when a CPU wakes up from waiting for a device.",
            "It helps a blocking reader on processors that control P-states themselves.",
            ReadFrom::File("/sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost"),
        )
        .switch(),
    PSTATE
        .row(
            "cpu.amd-pstate.status",
            "Whether amd_pstate is active, passive, guided or off.",
            "Active means that the processor itself follows the preference.",
            ReadFrom::File("/sys/devices/system/cpu/amd_pstate/status"),
        )
        .words(&["active", "passive", "guided", "disable"])
        .docs(&["Documentation/admin-guide/pm/amd-pstate.rst"]),
    PSTATE
        .row(
            "cpu.uncore.min-khz",
            "The least frequency of caches and interconnect of each package, kHz.",
            "Equal to the highest one it keeps accesses to cache and memory even.",
            ReadFrom::Each {
                directory: "/sys/devices/system/cpu/intel_uncore_frequency",
                prefix: "package",
                file: "min_freq_khz",
            },
        )
        .number("kHz")
        .docs(&["Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst"]),
    PSTATE
        .row(
            "cpu.uncore.max-khz",
            "The highest frequency of caches and interconnect of each package, kHz.",
            "A limit slows each access that misses the core's own caches.",
            ReadFrom::Each {
                directory: "/sys/devices/system/cpu/intel_uncore_frequency",
                prefix: "package",
                file: "max_freq_khz",
            },
        )
        .number("kHz")
        .docs(&["Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst"]),
    base::fact(Area::Cpu)
        .row(
            "cpu.uncore.initial-max-khz",
            "The highest frequency of caches and interconnect that each package had at boot, kHz.",
            "It is what the processor can do, whatever limit was set since.",
            ReadFrom::Each {
                directory: "/sys/devices/system/cpu/intel_uncore_frequency",
                prefix: "package",
                file: "initial_max_freq_khz",
            },
        )
        .number("kHz")
        .docs(&["Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst"]),
    base::fact(Area::Cpu)
        .row(
            "cpu.throttle-count",
            "How often each core was slowed down by heat since boot.",
            "A core that is too hot lowers its clock for milliseconds.",
            ReadFrom::EachCpu("thermal_throttle/core_throttle_count"),
        )
        .number("")
        .docs(&["Documentation/ABI/testing/sysfs-devices-system-cpu"]),
    PSTATE
        .row(
            "cpu.power-limit-uw",
            "The long-term power limit of each package, microwatts.",
            "A limit below what the processor may draw lowers its clock under load.",
            ReadFrom::Each {
                directory: "/sys/class/powercap",
                prefix: "intel-rapl:",
                file: "constraint_0_power_limit_uw",
            },
        )
        .number("uW")
        .docs(&["Documentation/power/powercap/powercap.rst"]),
    base::boot()
        .in_area(Area::Cpu)
        .row(
            "cpu.page-table-levels",
            "Whether the processor can have five levels of page tables.",
            "A walk over five levels takes one access to memory more.",
            ReadFrom::CpuFlag("la57"),
        )
        .switch()
        .persist(&[Persist::CommandLine("no5lvl")])
        .docs(&["Documentation/arch/x86/x86_64/5level-paging.rst"]),
    IDLE.row(
        "cpu.idle.driver",
        "The driver that puts idle CPUs to sleep.",
        "It decides which idle states there are and how long they are said to take.",
        ReadFrom::File("/sys/devices/system/cpu/cpuidle/current_driver"),
    )
    .persist(&[Persist::CommandLine("intel_idle.max_cstate=0")])
    .disrupts(Disruption::Reboot)
    .in_record(),
    IDLE.row(
        "cpu.idle.governor",
        "What chooses how deep an idle CPU sleeps.",
        "A governor that expects a long pause picks a state that takes long to leave.",
        ReadFrom::File("/sys/devices/system/cpu/cpuidle/current_governor"),
    )
    .words(&["menu", "teo", "ladder", "haltpoll"])
    .persist(&[Persist::CommandLine("cpuidle.governor=NAME"), Persist::TmpfilesD])
    .in_record(),
    IDLE.row(
        "cpu.idle.states",
        "The idle states and the time to leave each.",
        "The exit latency of the deepest one is the worst delay of a packet that finds its CPU asleep.",
        ReadFrom::Computed(cpu::idle_states, "cpu0/cpuidle/stateN/{name,latency}"),
    )
    .persist(&[Persist::FirmwareMenu, Persist::CommandLine("intel_idle.max_cstate=N")])
    .disrupts(Disruption::Reboot)
    .menu(&[Menu { vendor: Vendor::Cisco, words: "Processor power state C6 = Disabled" }])
    .in_record(),
    FACT.row(
        "cpu.idle.c1-exit-us",
        "The time to leave the shallowest idle state in which a CPU does not poll, at least 1, microseconds.",
        "A limit of the wake-up just as long lets that state in and keeps the deeper ones out.",
        ReadFrom::Computed(cpu::c1_exit_us, "cpu0/cpuidle/stateN/{name,latency}"),
    )
    .number("us")
    .docs(&["Documentation/admin-guide/pm/cpuidle.rst"]),
    IDLE.row(
        "cpu.idle.disabled",
        "The idle states that each CPU may not enter.",
        "With the deep states closed on the CPUs that matter, the others can still save power for turbo.",
        ReadFrom::Computed(cpu::idle_states_disabled, "cpuN/cpuidle/stateN/disable"),
    )
    .persist(&[Persist::SystemdUnit, Persist::FirmwareMenu])
    .menu(&[Menu { vendor: Vendor::Hp, words: "Minimum Processor Core Idle C-state = No C-states" }])
    .in_record(),
    IDLE.row(
        "cpu.pm-qos-resume-latency-us",
        "The longest wake-up each CPU accepts, where 0 means any and n/a means none.",
        "It closes deep idle states on single CPUs while the host runs, with a way back.",
        ReadFrom::EachCpu("power/pm_qos_resume_latency_us"),
    )
    .number("us")
    .docs(&["Documentation/ABI/testing/sysfs-devices-power"])
    .today("Writing 0 lifts the limit, and n/a makes an idle CPU poll with its tick on, as idle=poll does.")
    .in_record(),
    base::pm_qos(Area::Cpu)
        .row(
            "cpu.dma-latency-us",
            "The longest wake-up that all CPUs accept, as programs ask for it.",
            "The request lasts as long as a program holds the device open.",
            ReadFrom::Computed(cpu::dma_latency, "/dev/cpu_dma_latency"),
        )
        .number("us"),
    base::boot()
        .in_area(Area::Cpu)
        .row(
            "cpu.mitigations",
            "What the kernel does about weaknesses of this processor.",
            "The work-arounds make each system call and interrupt longer.",
            ReadFrom::Computed(cpu::mitigations, "/sys/devices/system/cpu/vulnerabilities"),
        )
        .persist(&[Persist::CommandLine("mitigations=MODE")])
        .risk(&[Risk::Security])
        .docs(&["Documentation/admin-guide/hw-vuln/index.rst"])
        .in_record(),
    FACT.row(
        "cpu.cache.l3",
        "The CPUs that share a last-level cache with CPU 0.",
        "Threads that pass a packet on should share a cache.",
        ReadFrom::CpuList("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list"),
    )
    .cpus(),
    base::firmware()
        .in_area(Area::Cpu)
        .row(
            "cpu.cache.io-ways",
            "The ways of the last-level cache that devices write to, as a mask in decimal.",
            "Frames that do not fit into them are read from memory.",
            ReadFrom::Msr(MsrField { register: 0xc8b, low_bit: 0, bits: 20, words: &[] }),
        )
        .number("mask")
        .write_by(Write::File)
        .persist(&[Persist::SystemdUnit])
        .disrupts(Disruption::None)
        .docs(&["Intel SDM volume 4"])
        .today("Server processors of Intel have it; more ways help only where misses were measured."),
    base::irq(Area::Placement)
        .row(
            "irq.default-affinity",
            "CPUs that a new interrupt goes to.",
            "An interrupt on the CPU of the program takes microseconds from it.",
            ReadFrom::CpuMask("/proc/irq/default_smp_affinity"),
        )
        .cpus()
        .persist(&[Persist::CommandLine("irqaffinity=LIST"), Persist::SystemdUnit])
        .in_record(),
    FILE.row(
        "cpu.workqueue-affinity",
        "CPUs that unbound kernel work runs on.",
        "Kernel work otherwise runs in the middle of the program.",
        ReadFrom::CpuMask("/sys/devices/virtual/workqueue/cpumask"),
    )
    .cpus()
    .persist(&[Persist::TmpfilesD, Persist::CommandLine("workqueue.unbound_cpus=LIST")])
    .docs(&["Documentation/core-api/workqueue.rst"])
    .in_record(),
];

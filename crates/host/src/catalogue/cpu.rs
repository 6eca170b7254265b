//! Processors: model, frequency, idle states, isolation.

use crate::read::{cpu, process};
use crate::{Area, ReadFrom, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        id: "cpu.model",
        area: Area::Cpu,
        what: "The name of the processor.",
        read: ReadFrom::CpuInfo("model name"),
    },
    Setting {
        id: "cpu.microcode",
        area: Area::Cpu,
        what: "The revision of the microcode.",
        read: ReadFrom::CpuInfo("microcode"),
    },
    Setting {
        id: "cpu.packages",
        area: Area::Cpu,
        what: "Processor packages with an online CPU.",
        read: ReadFrom::Computed(cpu::packages),
    },
    Setting {
        id: "cpu.cores",
        area: Area::Cpu,
        what: "Physical cores with an online CPU.",
        read: ReadFrom::Computed(cpu::cores),
    },
    Setting { id: "cpu.threads", area: Area::Cpu, what: "Online CPUs.", read: ReadFrom::Computed(cpu::threads) },
    Setting {
        id: "cpu.online",
        area: Area::Cpu,
        what: "The list of online CPUs.",
        read: ReadFrom::CpuList("/sys/devices/system/cpu/online"),
    },
    Setting {
        id: "cpu.isolated",
        area: Area::Cpu,
        what: "CPUs taken from the scheduler at boot, in effect.",
        read: ReadFrom::CpuList("/sys/devices/system/cpu/isolated"),
    },
    Setting {
        id: "cpu.isolated.cgroup",
        area: Area::Cpu,
        what: "CPUs taken from the scheduler by cpuset partitions, in effect.",
        read: ReadFrom::CpuList("/sys/fs/cgroup/cpuset.cpus.isolated"),
    },
    Setting {
        id: "cpu.nohz_full",
        area: Area::Cpu,
        what: "CPUs whose timer tick stops while one thread runs, in effect.",
        read: ReadFrom::CpuList("/sys/devices/system/cpu/nohz_full"),
    },
    Setting {
        id: "cpu.smt",
        area: Area::Cpu,
        what: "Whether simultaneous multithreading is on, off or not there.",
        read: ReadFrom::File("/sys/devices/system/cpu/smt/control"),
    },
    Setting {
        id: "cpu.governor",
        area: Area::Cpu,
        what: "What chooses the frequency of each CPU.",
        read: ReadFrom::EachCpu("cpufreq/scaling_governor"),
    },
    Setting {
        id: "cpu.frequency.driver",
        area: Area::Cpu,
        what: "The driver that sets the frequency of each CPU.",
        read: ReadFrom::EachCpu("cpufreq/scaling_driver"),
    },
    Setting {
        id: "cpu.frequency.min-khz",
        area: Area::Cpu,
        what: "The lowest frequency each CPU may take, kHz.",
        read: ReadFrom::EachCpu("cpufreq/scaling_min_freq"),
    },
    Setting {
        id: "cpu.frequency.max-khz",
        area: Area::Cpu,
        what: "The highest frequency each CPU may take, kHz.",
        read: ReadFrom::EachCpu("cpufreq/scaling_max_freq"),
    },
    Setting {
        id: "cpu.energy-performance-preference",
        area: Area::Cpu,
        what: "Whether the processor prefers speed or saving.",
        read: ReadFrom::EachCpu("cpufreq/energy_performance_preference"),
    },
    Setting {
        id: "cpu.turbo",
        area: Area::Cpu,
        what: "Whether CPUs may exceed their nominal frequency.",
        read: ReadFrom::Computed(cpu::turbo),
    },
    Setting {
        id: "cpu.idle.driver",
        area: Area::Cpu,
        what: "The driver that puts idle CPUs to sleep.",
        read: ReadFrom::File("/sys/devices/system/cpu/cpuidle/current_driver"),
    },
    Setting {
        id: "cpu.idle.governor",
        area: Area::Cpu,
        what: "What chooses how deep an idle CPU sleeps.",
        read: ReadFrom::File("/sys/devices/system/cpu/cpuidle/current_governor"),
    },
    Setting {
        id: "cpu.idle.states",
        area: Area::Cpu,
        what: "The idle states and the time to leave each.",
        read: ReadFrom::Computed(cpu::idle_states),
    },
    Setting {
        id: "cpu.idle.disabled",
        area: Area::Cpu,
        what: "The idle states that each CPU may not enter.",
        read: ReadFrom::Computed(cpu::idle_states_disabled),
    },
    Setting {
        id: "cpu.pm-qos-resume-latency-us",
        area: Area::Cpu,
        what: "The longest wake-up each CPU accepts, where 0 means any and n/a means none.",
        read: ReadFrom::EachCpu("power/pm_qos_resume_latency_us"),
    },
    Setting {
        id: "cpu.mitigations",
        area: Area::Cpu,
        what: "What the kernel does about weaknesses of this processor.",
        read: ReadFrom::Computed(cpu::mitigations),
    },
    Setting {
        id: "irq.default-affinity",
        area: Area::Cpu,
        what: "CPUs that a new interrupt goes to.",
        read: ReadFrom::CpuMask("/proc/irq/default_smp_affinity"),
    },
    Setting {
        id: "irq.irqbalance",
        area: Area::Cpu,
        what: "Whether irqbalance moves interrupts.",
        read: ReadFrom::Computed(process::irqbalance),
    },
    Setting {
        id: "cpu.workqueue-affinity",
        area: Area::Cpu,
        what: "CPUs that unbound kernel work runs on.",
        read: ReadFrom::CpuMask("/sys/devices/virtual/workqueue/cpumask"),
    },
];

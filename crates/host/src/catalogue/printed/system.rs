//! Checks of the kernel: build, command line, parameters, memory.

use super::{Printed, busy_poll, check, exanic, netronome, usnic, vma};

pub(super) const KERNEL_BUILD: &[Printed] = &[
    check("KC-NOHZ", "CONFIG_NO_HZ_FULL", "kernel.config.no-hz-full", &[exanic("Kernel Build Configuration", "y")]),
    check(
        "KC-BUSYPOLL",
        "CONFIG_NET_RX_BUSY_POLL",
        "kernel.config.busy-poll",
        &[busy_poll("Requirements", "configured")],
    ),
    check("KC-RFSACCEL", "CONFIG_RFS_ACCEL", "kernel.config.rfs-accel", &[vma("Enable RSS/RFS", "compiled in")]),
    check(
        "KC-VER",
        "kernel version",
        "kernel.release",
        &[vma("Enable RSS/RFS", "2.6.39 or later"), busy_poll("Requirements", "3.11 or later")],
    ),
];

pub(super) const COMMAND_LINE: &[Printed] = &[
    check(
        "KB-ISOL",
        "isolcpus",
        "boot.isolcpus",
        &[exanic("Kernel Boot Configuration", "2,3"), netronome("slide 22", "all but those of the host")],
    ),
    check("KB-NOHZFULL", "nohz_full", "boot.nohz_full", &[exanic("Kernel Boot Configuration", "2,3")]),
    check("KB-NOCBS", "rcu_nocbs", "boot.rcu_nocbs", &[exanic("Kernel Boot Configuration", "2,3")]),
    check(
        "KB-IIDLE",
        "intel_idle.max_cstate",
        "boot.intel_idle.max_cstate",
        &[
            exanic("Kernel Boot Configuration", "0"),
            netronome("slide 21", "0"),
            vma("CPU info", "0"),
            usnic("Kernel Parameters", "0"),
        ],
    ),
    check(
        "KB-PCST",
        "processor.max_cstate",
        "boot.processor.max_cstate",
        &[netronome("slide 21", "0"), vma("CPU info", "1")],
    ),
    check(
        "KB-IDLE",
        "idle",
        "boot.idle",
        &[netronome("slide 21", "mwait or poll"), usnic("Kernel Parameters", "poll")],
    ),
    check("KB-PSTATE", "intel_pstate", "boot.intel_pstate", &[netronome("slide 21", "disable")]),
    check("KB-IRQAFF", "irqaffinity", "boot.irqaffinity", &[exanic("Kernel Boot Configuration", "0,1")]),
    check("KB-SELINUX", "selinux", "boot.selinux", &[exanic("Kernel Boot Configuration", "0")]),
    check("KB-AUDIT", "audit", "boot.audit", &[exanic("Kernel Boot Configuration", "0")]),
    check("KB-TSC", "tsc", "boot.tsc", &[exanic("Kernel Boot Configuration", "reliable")]),
    check(
        "KB-DHPSZ",
        "default_hugepagesz",
        "boot.default_hugepagesz",
        &[netronome("slide 23", "1G in the text, 2M in the example")],
    ),
    check(
        "KB-HP",
        "hugepagesz, hugepages",
        "boot.hugepages",
        &[netronome("slide 23", "224 of 1G"), netronome("slide 32", "16384 of 2M and 8 of 1G")],
    ),
    check(
        "KB-IOMMU",
        "intel_iommu",
        "boot.intel_iommu",
        &[netronome("slide 32", "on"), usnic("Kernel Parameters", "on"), busy_poll("Tuning and Configuration", "off")],
    ),
    check("KB-IOMMUPT", "iommu", "boot.iommu", &[netronome("slide 32", "pt")]),
    check(
        "KB-EFFECT",
        "cat /proc/cmdline",
        "boot.rejected",
        &[exanic("Kernel Boot Configuration", "shows the parameters")],
    ),
];

pub(super) const SYSCTL: &[Printed] = &[
    check("SY-RTRT", "sched_rt_runtime_us", "kernel.sched_rt_runtime_us", &[exanic("Software Settings", "-1")]),
    check("SY-WDOG", "kernel/watchdog", "kernel.watchdog", &[exanic("Software Settings", "0")]),
    check("SY-NMI", "kernel/nmi_watchdog", "kernel.nmi_watchdog", &[exanic("Software Settings", "0")]),
    check("SY-MCE", "machinecheck check_interval", "noise.machine-check-interval", &[exanic("Software Settings", "0")]),
    check(
        "SY-GOV",
        "scaling_governor",
        "cpu.governor",
        &[exanic("Software Settings", "performance"), usnic("CPU Governor", "performance")],
    ),
    check("SY-DEFAFF", "default_smp_affinity", "irq.default-affinity", &[exanic("Software Settings", "3")]),
    check("SY-BREAD", "net.core.busy_read", "net.core.busy_read", &[busy_poll("Enabling", "50")]),
    check(
        "SY-BPOLL",
        "net.core.busy_poll",
        "net.core.busy_poll",
        &[
            busy_poll("Enabling", "50, or 100 for several hundred sockets"),
            busy_poll("Software Configuration", "50 also where it is called disabled"),
        ],
    ),
    check("SY-BUDGET", "net.core.netdev_budget", "net.core.netdev_budget", &[vma("sysctl.conf for ipv4", "300")]),
    check(
        "SY-BACKLOG",
        "net.core.netdev_max_backlog",
        "net.core.netdev_max_backlog",
        &[vma("sysctl.conf for ipv4", "250000"), vma("txqueuelen", "1000 is sufficient")],
    ),
    check("SY-RMEM", "net.core.rmem_max", "net.core.rmem_max", &[vma("sysctl.conf for ipv4", "4194304")]),
    check("SY-WMEM", "net.core.wmem_max", "net.core.wmem_max", &[vma("sysctl.conf for ipv4", "4194304")]),
    check("SY-RDEF", "net.core.rmem_default", "net.core.rmem_default", &[vma("sysctl.conf for ipv4", "4194304")]),
    check("SY-WDEF", "net.core.wmem_default", "net.core.wmem_default", &[vma("sysctl.conf for ipv4", "4194304")]),
    check("SY-OPTMEM", "net.core.optmem_max", "net.core.optmem_max", &[vma("sysctl.conf for ipv4", "4194304")]),
    check("SY-SACK", "net.ipv4.tcp_sack", "net.ipv4.tcp_sack", &[vma("sysctl.conf for ipv4", "0")]),
    check("SY-TS", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_timestamps", &[vma("sysctl.conf for ipv4", "0")]),
    check("SY-TCPRMEM", "net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem", &[vma("sysctl.conf for ipv4", "4096 87380 4194304")]),
    check("SY-TCPWMEM", "net.ipv4.tcp_wmem", "net.ipv4.tcp_wmem", &[vma("sysctl.conf for ipv4", "4096 65536 4194304")]),
    check("SY-LOWLAT", "net.ipv4.tcp_low_latency", "net.ipv4.tcp_low_latency", &[vma("sysctl.conf for ipv4", "1")]),
    check("SY-ADVWIN", "net.ipv4.tcp_adv_win_scale", "net.ipv4.tcp_adv_win_scale", &[vma("sysctl.conf for ipv4", "1")]),
    check(
        "SY-TSOWIN",
        "net.ipv4.tcp_tso_win_divisor",
        "net.ipv4.tcp_tso_win_divisor",
        &[vma("Interrupt coalescing", "30")],
    ),
    check("SY-MTUPROBE", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_mtu_probing", &[vma("Enable jumbo frames", "1")]),
    check("SY-BASEMSS", "net.ipv4.tcp_base_mss", "net.ipv4.tcp_base_mss", &[vma("Enable jumbo frames", "512")]),
    check("SY-PMTU", "net.ipv4.ip_no_pmtu_disc", "net.ipv4.ip_no_pmtu_disc", &[vma("Enable jumbo frames", "0")]),
    check("SY-SOMAXCONN", "net/core/somaxconn", "net.core.somaxconn", &[vma("redis-benchmark", "1024")]),
    check("SY-OVERCOMMIT", "vm.overcommit_memory", "vm.overcommit_memory", &[vma("redis-benchmark", "1")]),
    check("SY-SHMMAX", "kernel/shmmax", "kernel.shmmax", &[vma("Configure libvma", "1000000000")]),
    check("SY-NRHP", "vm/nr_hugepage (for nr_hugepages)", "vm.nr_hugepages", &[vma("Configure libvma", "800")]),
    check(
        "SY-THP",
        "transparent_hugepage",
        "memory.thp",
        &[vma("redis-benchmark", "never, but never made VMA slower")],
    ),
];

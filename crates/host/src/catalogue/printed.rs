//! What five papers print about settings of a host: each check they name and the setting that stands for it here.
//! Several checks may be one setting. What each paper says of a setting, and where, is in the profile that holds the
//! paper's advice to the letter.

use std::sync::LazyLock;

use crate::Setting;
use crate::profile::Profile;

/// A paper whose advice the catalogue covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Paper {
    /// Cisco (Exablaze): Nexus `SmartNIC` (`ExaNIC`) benchmarking guide, 2020.
    ExaNic,
    /// Netronome, Open-NFP: `SmartNIC` benchmarking and tuning, 2017.
    Netronome,
    /// Benchmark of a Mellanox `ConnectX-3` Pro with VMA, 2016.
    Vma,
    /// Cisco usNIC Performance white paper, 2014.
    UsNic,
    /// Intel: Open Source Kernel Enhancements for Low Latency Sockets using Busy Poll, 2013.
    BusyPoll,
}

impl Paper {
    /// Author, title and year.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ExaNic => "Cisco (Exablaze), Nexus SmartNIC benchmarking guide, 2020",
            Self::Netronome => "Netronome (Open-NFP), SmartNIC benchmarking, 2017",
            Self::Vma => "ConnectX-3 Pro VMA benchmark, 2016",
            Self::UsNic => "Cisco, usNIC performance, 2014",
            Self::BusyPoll => "Intel, Low Latency Sockets using Busy Poll, 2013",
        }
    }

    /// How sources call it: `VMA benchmark`.
    pub(super) fn name(self) -> &'static str {
        self.profile().1.trim_end_matches(", ")
    }

    /// The profile that holds what it prints, and what the sources there begin with.
    const fn profile(self) -> (&'static str, &'static str) {
        match self {
            Self::ExaNic => ("as-printed/exanic", "ExaNIC guide, "),
            Self::Netronome => ("as-printed/opennfp", "OpenNFP deck, "),
            Self::Vma => ("as-printed/vma", "VMA benchmark, "),
            Self::UsNic => ("as-printed/usnic", "usNIC white paper, "),
            Self::BusyPoll => ("as-printed/busy-poll", "Busy Poll paper, "),
        }
    }
}

/// The papers.
pub const PAPERS: [Paper; 5] = [Paper::ExaNic, Paper::Netronome, Paper::Vma, Paper::UsNic, Paper::BusyPoll];

/// What one paper says about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The paper.
    pub paper: Paper,
    /// Section or slide.
    pub place: String,
    /// The value it advises or shows.
    pub value: String,
}

/// What papers say about a setting.
pub fn said(id: &str) -> impl Iterator<Item = &'static Said> + '_ {
    static SAID: LazyLock<Vec<(&'static Setting, Said)>> =
        LazyLock::new(|| PAPERS.into_iter().flat_map(read).collect());
    SAID.iter().filter(move |(setting, _)| setting.id == id).map(|(_, said)| said)
}

/// What a paper says, from its profile, which is a built-in one and has no mistakes.
fn read(paper: Paper) -> Vec<(&'static Setting, Said)> {
    let (name, title) = paper.profile();
    let Ok(profile) = Profile::load(name) else { return Vec::new() };
    let said = |setting, source: &str, value: String| {
        (setting, Said { paper, place: source.trim_start_matches(title).to_owned(), value })
    };
    let wishes = profile.wishes.iter().map(|wish| {
        let printed = wish.printed.clone().unwrap_or_else(|| wish.wanted.to_string());
        said(wish.setting, &wish.source, printed)
    });
    let left_out = profile.left_out.iter();
    let left_out =
        left_out.map(|advice| said(advice.setting, advice.source.as_deref().unwrap_or(""), advice.printed.clone()));
    wishes.chain(left_out).collect()
}

/// A check as the papers print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The setting that stands for it.
    pub id: &'static str,
    /// The printed name.
    pub words: &'static str,
}

/// The checks of one part of a host.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The part.
    pub name: &'static str,
    /// Its checks.
    pub checks: &'static [Printed],
}

/// The checks that a setting stands for.
pub fn printed(id: &str) -> impl Iterator<Item = &'static Printed> + '_ {
    PRINTED.iter().flat_map(|group| group.checks).filter(move |check| check.id == id)
}

const fn check(id: &'static str, words: &'static str) -> Printed {
    Printed { id, words }
}

/// Every check that the papers name.
pub const PRINTED: [Group; 11] = [
    Group {
        name: "firmware, processor and hardware",
        checks: &[
            check("cpu.smt", "hyper-threading"),
            check("firmware.cores", "number of enabled cores"),
            check("firmware.execute-disable", "execute disable"),
            check("firmware.virtualisation", "Intel VT"),
            check("firmware.iommu", "Intel VT-d"),
            check("firmware.iommu.coherency", "Intel VT-d coherency support"),
            check("nic.pcie.address-translation", "Intel VT-d ATS support"),
            check("firmware.power-profile", "power profile, power regulator, CPU performance"),
            check("firmware.prefetcher.l2", "hardware prefetcher"),
            check("firmware.prefetcher.adjacent-line", "adjacent cache line prefetcher"),
            check("firmware.prefetcher.dcu-streamer", "DCU streamer prefetch"),
            check("firmware.prefetcher.dcu-ip", "DCU IP prefetcher"),
            check("firmware.p-states", "SpeedStep, P-state"),
            check("cpu.turbo", "Turbo Boost"),
            check("cpu.idle.states", "processor power state C6"),
            check("firmware.c1e", "C1 enhanced"),
            check("cpu.idle.disabled", "C-state, power saving"),
            check("firmware.package-c-state", "minimum package idle C-state"),
            check("firmware.frequency-floor", "frequency floor override"),
            check("firmware.p-state-coordination", "P-STATE coordination"),
            check("cpu.energy-performance-bias", "energy performance"),
            check("firmware.memory-ras", "select memory RAS"),
            check("firmware.dram-throttling", "DRAM clock throttling"),
            check("memory.nodes", "NUMA"),
            check("firmware.memory-voltage", "low-voltage DDR mode"),
            check("firmware.dram-refresh", "DRAM refresh rate"),
            check("firmware.channel-interleaving", "channel interleaving"),
            check("firmware.rank-interleaving", "rank interleaving"),
            check("firmware.patrol-scrub", "patrol scrub"),
            check("firmware.demand-scrub", "demand scrub"),
            check("firmware.altitude", "altitude"),
            check("firmware.smi.power-monitoring", "Processor Power and Utilization Monitoring SMI"),
            check("firmware.smi.memory-prefailure", "Memory Pre-Failure Notification SMI"),
            check("firmware.smi.other", "all non-essential SMIs"),
            check("nic.vfs-max", "ARI, SR-IOV"),
            check("cpu.frequency.reached-khz", "cpu MHz, cpuinfo_max_freq"),
            check("cpu.threads", "clock rate and number of cores"),
            check("memory.node-free", "system RAM"),
            check("hardware.memory-bandwidth", "numademo local copy"),
            check("hardware.memory-speed", "memory clock"),
            check("nic.pcie.speed", "LnkSta speed"),
            check("nic.pcie.width", "LnkSta width"),
            check("nic.pcie.path", "slot directly connected to a CPU"),
            check("nic.pcie.max-payload", "PCI-E bus as the bottleneck"),
            check("nic.numa-node", "numa_node of the device"),
            check("nic.local-cpus", "local_cpus, local_cpulist"),
            check("memory.node-cpus", "NUMA node CPU(s)"),
        ],
    },
    Group {
        name: "kernel build",
        checks: &[
            check("kernel.config.no-hz-full", "CONFIG_NO_HZ_FULL"),
            check("kernel.config.busy-poll", "CONFIG_NET_RX_BUSY_POLL"),
            check("kernel.config.rfs-accel", "CONFIG_RFS_ACCEL"),
            check("kernel.release", "kernel version"),
        ],
    },
    Group {
        name: "kernel command line",
        checks: &[
            check("boot.isolcpus", "isolcpus"),
            check("boot.nohz_full", "nohz_full"),
            check("boot.rcu_nocbs", "rcu_nocbs"),
            check("boot.intel_idle.max_cstate", "intel_idle.max_cstate"),
            check("boot.processor.max_cstate", "processor.max_cstate"),
            check("boot.idle", "idle"),
            check("boot.intel_pstate", "intel_pstate"),
            check("boot.irqaffinity", "irqaffinity"),
            check("boot.selinux", "selinux"),
            check("boot.audit", "audit"),
            check("boot.tsc", "tsc"),
            check("boot.default_hugepagesz", "default_hugepagesz"),
            check("boot.hugepages", "hugepagesz, hugepages"),
            check("boot.intel_iommu", "intel_iommu"),
            check("boot.iommu", "iommu"),
            check("boot.rejected", "cat /proc/cmdline"),
        ],
    },
    Group {
        name: "sysctl and memory",
        checks: &[
            check("kernel.sched_rt_runtime_us", "sched_rt_runtime_us"),
            check("kernel.watchdog", "kernel/watchdog"),
            check("kernel.nmi_watchdog", "kernel/nmi_watchdog"),
            check("noise.machine-check-interval", "machinecheck check_interval"),
            check("cpu.governor", "scaling_governor"),
            check("irq.default-affinity", "default_smp_affinity"),
            check("net.core.busy_read", "net.core.busy_read"),
            check("net.core.busy_poll", "net.core.busy_poll"),
            check("net.core.netdev_budget", "net.core.netdev_budget"),
            check("net.core.netdev_max_backlog", "net.core.netdev_max_backlog"),
            check("net.core.rmem_max", "net.core.rmem_max"),
            check("net.core.wmem_max", "net.core.wmem_max"),
            check("net.core.rmem_default", "net.core.rmem_default"),
            check("net.core.wmem_default", "net.core.wmem_default"),
            check("net.core.optmem_max", "net.core.optmem_max"),
            check("net.ipv4.tcp_sack", "net.ipv4.tcp_sack"),
            check("net.ipv4.tcp_timestamps", "net.ipv4.tcp_timestamps"),
            check("net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem"),
            check("net.ipv4.tcp_wmem", "net.ipv4.tcp_wmem"),
            check("net.ipv4.tcp_low_latency", "net.ipv4.tcp_low_latency"),
            check("net.ipv4.tcp_adv_win_scale", "net.ipv4.tcp_adv_win_scale"),
            check("net.ipv4.tcp_tso_win_divisor", "net.ipv4.tcp_tso_win_divisor"),
            check("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_mtu_probing"),
            check("net.ipv4.tcp_base_mss", "net.ipv4.tcp_base_mss"),
            check("net.ipv4.ip_no_pmtu_disc", "net.ipv4.ip_no_pmtu_disc"),
            check("net.core.somaxconn", "net/core/somaxconn"),
            check("vm.overcommit_memory", "vm.overcommit_memory"),
            check("kernel.shmmax", "kernel/shmmax"),
            check("vm.nr_hugepages", "vm/nr_hugepage (for nr_hugepages)"),
            check("memory.thp", "transparent_hugepage"),
        ],
    },
    Group {
        name: "network interface",
        checks: &[
            check("nic.firmware", "driver and firmware version"),
            check("nic.speed-mbps", "port speed"),
            check("nic.carrier", "port status"),
            check("nic.module", "SFP present"),
            check("nic.coalesce.rx-usecs", "rx-usecs"),
            check("nic.coalesce.rx-frames", "rx-frames"),
            check("nic.coalesce.rx-irq", "rx-usecs-irq, rx-frames-irq"),
            check("nic.coalesce.tx-usecs", "tx-usecs"),
            check("nic.coalesce.tx-frames", "tx-frames, tx-frames-irq"),
            check("nic.coalesce.adaptive-rx", "adaptive-rx, adaptive-tx"),
            check("nic.coalesce.packet-rates", "pkt-rate-low, pkt-rate-high, sample-interval"),
            check("nic.ring.rx", "ring size, receive"),
            check("nic.ring.tx", "ring size, transmit"),
            check("nic.drops", "rx_no_buffer_count, rx_missed_errors"),
            check("nic.offload.rx-checksum", "rx-checksumming"),
            check("nic.offload.tx-checksum", "tx-checksumming"),
            check("nic.offload.tso", "tcp-segmentation-offload"),
            check("nic.offload.gso", "generic-segmentation-offload"),
            check("nic.offload.gro", "generic-receive-offload"),
            check("nic.offload.lro", "large-receive-offload"),
            check("nic.offload.scatter-gather", "scatter-gather"),
            check("nic.offload.rx-vlan", "rx-vlan-offload, tx-vlan-offload, S-tags"),
            check("nic.offload.ntuple", "ntuple-filters"),
            check("nic.offload.rxhash", "receive-hashing"),
            check("nic.offload.tx-nocache-copy", "tx-nocache-copy"),
            check("nic.offload.loopback", "loopback, rx-fcs"),
            check("nic.channels.combined", "multi-queue"),
            check("nic.rss.hash-function", "XOR RSS hash function"),
            check("nic.rps-cpus", "rps_cpus"),
            check("nic.rps-flow-count", "RFS, rps_flow_cnt"),
            check("nic.xps-cpus", "XPS"),
            check("nic.pause", "pause, flow control"),
            check("nic.pause.autoneg", "pause autoneg"),
            check("nic.mtu", "MTU"),
            check("nic.tx-queue-length", "txqueuelen"),
            check("nic.irq-affinity", "smp_affinity of the device's interrupts"),
            check("placement.program-and-interrupt", "application and interrupt cores"),
            check("irq.on-isolated", "interrupts off data plane CPUs"),
            check("irq.of-each-cpu", "equal distribution of interrupts"),
            check("nic.vfs", "number of VFs"),
            check("nic.bypass-only", "bypass-only"),
            check("nic.local-loopback", "local-loopback"),
            check("hardware.cable", "as little equipment as possible"),
        ],
    },
    Group {
        name: "services",
        checks: &[
            check("service.irqbalance", "irqbalance"),
            check("service.numad", "numad"),
            check("service.tuned", "tuned"),
            check("service.cpuspeed", "cpuspeed GOVERNOR"),
            check("service.selinux", "SELINUX in /etc/selinux/config"),
            check("service.default-target", "runlevel"),
            check("service.irqbalance.banned-cpus", "/etc/default/irqbalance"),
        ],
    },
    Group {
        name: "placement",
        checks: &[
            check("memory.lock-limit-bytes", "ulimit -l"),
            check("placement.pinning", "taskset, numactl -C, bind to core"),
            check("placement.memory-node", "numactl -N, preferred node"),
            check("placement.threads-on-isolated", "one task a CPU"),
            check("placement.threads-fit", "threads and cores"),
            check("memory.available", "memory left for the system"),
            check("placement.capabilities", "errno 13, permission denied"),
            check("placement.plan", "CPU allocation plan"),
        ],
    },
    Group {
        name: "virtualisation",
        checks: &[
            check("virtualisation.vcpu-pinning", "vcpupin"),
            check("virtualisation.emulator-pinning", "emulator threads"),
            check("virtualisation.huge-pages", "hugepages for guests"),
            check("virtualisation.guest-irqbalance", "irqbalance in the guest"),
            check("virtualisation.guest-pinning", "-c or -l core map in the guest"),
            check("virtualisation.memory-channels", "-n 4"),
            check("virtualisation.guest-size", "guest specification"),
            check("virtualisation.relay-cpus", "relay --cpus, --virtio-cpu"),
            check("virtualisation.hypervisor-flag", "virtualised environment"),
            check("ovs.hardware-offload", "OVS on the SmartNIC"),
            check("ovs.wire-mode", "configure wire"),
            check("ovs.pmd-cpus", "polling CPUs of OVS"),
        ],
    },
    Group {
        name: "RDMA modules",
        checks: &[
            check("rdma.mlx4.flow-steering", "log_num_mgm_entry_size"),
            check("rdma.mlx4.port-type", "port_type_array"),
            check("rdma.mlx4.vfs", "num_vfs"),
            check("rdma.mlx4.probe-vf", "probe_vf"),
            check("rdma.mlx4.large-completions", "enable_64b_cqe_eqe"),
            check("rdma.mlx4.inline-threshold", "inline_thold"),
            check("rdma.mlx4.softdep", "softdep mlx4_core post: mlx4_en"),
            check("rdma.driver-version", "OFED or inbox driver"),
            check("rdma.device-flow-steering", "Device Managed Flow Steering"),
            check("rdma.devices", "usNIC packages and VIC firmware"),
            check("rdma.vnic-coalescing", "interrupt coalescing timer"),
        ],
    },
    Group {
        name: "switch",
        checks: &[
            check("switch.flow-control", "flowcontrol receive and send"),
            check("switch.no-drop", "pause no-drop"),
            check("switch.class", "cos 2 to qos-group 1"),
            check("switch.mtu", "network MTU"),
            check("switch.warp-mode", "forwarding-mode warp"),
            check("switch.cut-through", "single hop, cut-through"),
        ],
    },
    Group {
        name: "application and measurement",
        checks: &[
            check("app.busy-poll", "SO_BUSY_POLL"),
            check("app.epoll-busy-poll", "epoll support"),
            check("app.warm-up", "warm-up frames"),
            check("app.prepared-send", "preloaded"),
            check("app.in-place-receive", "chunk_inplace"),
            check("hardware.memory-bandwidth", "numademo 128m memcpy"),
            check("app.store-options", "options of the store"),
            check("app.bypass-options", "LD_PRELOAD, VMA_STATS_FD_NUM"),
            check("app.same-hosts", "second machine with the same configuration"),
        ],
    },
];

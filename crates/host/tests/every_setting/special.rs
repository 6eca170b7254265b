//! What the kind of a row does not say: files of computed rows, answers of interfaces, and outcomes that are other ones for
//! a reason.

use std::collections::{BTreeMap, BTreeSet};

use nearwire_host::{ReadFrom, catalogue};
use serde_json::{Value, json};

/// Path, text as wanted, another text.
type File = (&'static str, &'static str, &'static str);

/// What the daemons of clocks answered.
const CLOCKS: File = (
    "/nearwire/clocks.json",
    r#"{"chrony": {"offset-ns": -3}, "ptp4l": {"offset-ns": 3}}"#,
    r#"{"chrony": {"offset-ns": 5}, "ptp4l": {"offset-ns": 5}}"#,
);

/// Files of rows that are computed from several, or whose text has a form of its own.
pub const FILES: &[(&str, &[File])] = &[
    ("boot.command-line", &[]),
    (
        "boot.rejected",
        &[(
            "/dev/kmsg",
            "6,0,0,-;Linux version 6\n",
            "6,0,0,-;Linux version 6\n6,1,0,-;Unknown kernel command line parameters \"x\", will be passed\n",
        )],
    ),
    ("kernel.release", &[("/proc/sys/kernel/osrelease", "6.12.0", "6.12.1")]),
    ("cpu.online", &[("/sys/devices/system/cpu/online", "0-1", "0-2")]),
    (
        "cpu.packages",
        &[
            ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0", "0"),
            ("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "1", "1"),
            ("/sys/devices/system/cpu/cpu2/topology/physical_package_id", "2", "2"),
        ],
    ),
    (
        "cpu.cores",
        &[
            ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1", "0"),
            ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1", "1"),
            ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2", "2"),
        ],
    ),
    ("cpu.threads", &[]),
    (
        "cpu.kind",
        &[
            ("/sys/devices/system/cpu/cpu0/cpu_capacity", "1024", "400"),
            ("/sys/devices/system/cpu/cpu1/cpu_capacity", "400", "1024"),
        ],
    ),
    // The first domain of Xen is no guest.
    ("virtualisation.hypervisor-flag", &[("/proc/xen/capabilities", "", "control_d")]),
    ("cpu.isolated.cgroup", &[("/sys/fs/cgroup/cpuset.cpus.isolated", "1", "0")]),
    ("cpu.siblings", &[]),
    ("cpu.turbo", &[("/sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1")]),
    (
        "cpu.idle.states",
        &[
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL", "C1"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0", "2"),
        ],
    ),
    (
        "cpu.idle.disabled",
        &[
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0", "1"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state0/disable", "0", "1"),
        ],
    ),
    (
        "cpu.idle.c1-exit-us",
        &[
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1", "C1E"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "1", "4"),
        ],
    ),
    ("cpu.dma-latency-us", &[]),
    ("cpu.mitigations", &[("/sys/devices/system/cpu/vulnerabilities/mds", "Not affected", "Vulnerable")]),
    ("firmware.virtualisation", &[]),
    ("firmware.nodes-per-socket", &[]),
    // The interrupt that the answers of the other tree name.
    ("nic.chain", &[("/proc/irq/31/effective_affinity_list", "", "1")]),
    ("memory.node-cpus", &[("/sys/devices/system/node/node0/cpulist", "0-1", "0-2")]),
    (
        "service.irqbalance.banned-cpus",
        &[("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n", "IRQBALANCE_BANNED_CPULIST=0\n")],
    ),
    (
        "rdma.roce.gid-types",
        &[
            ("/sys/class/infiniband/x/ports/1/link_layer", "Ethernet", "Ethernet"),
            ("/sys/class/infiniband/x/ports/1/gid_attrs/types/0", "RoCE v2", "IB/RoCE v1"),
        ],
    ),
    ("stack.udp-buffer-errors", &[("/proc/net/snmp", "Udp: RcvbufErrors\nUdp: 0\n", "Udp: RcvbufErrors\nUdp: 1\n")]),
    ("firmware.iommu.coherency", &[("/sys/class/iommu/dmar0/intel-iommu/ecap", "f1", "f0")]),
    ("firmware.memory-voltage", &[]),
    ("hardware.memory-speed", &[]),
    ("kernel.preemption", &[("/sys/kernel/debug/sched/preempt", "(none) full", "none (full)")]),
    ("kernel.hz", &[]),
    ("memory.available", &[]),
    (
        "memory.node-free",
        &[(
            "/sys/devices/system/node/node0/meminfo",
            "MemTotal: 8 kB\nMemFree: 4 kB\n",
            "MemTotal: 8 kB\nMemFree: 2 kB\n",
        )],
    ),
    (
        "memory.huge-pages",
        &[
            ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "8", "4"),
            ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "4", "4"),
        ],
    ),
    ("memory.swap", &[("/proc/swaps", "Filename\n", "Filename\n/dev/x\n")]),
    (
        "memory.lock-limit-bytes",
        &[(
            "/proc/self/limits",
            "Max locked memory  unlimited unlimited bytes\n",
            "Max locked memory  8192 8192 bytes\n",
        )],
    ),
    (
        "noise.timer-interrupts",
        &[(
            "/proc/interrupts",
            "CPU0 CPU1\n30: 0 0 x\nLOC: 1 1 x\nRES: 1 1 x\nCAL: 0 0 x\nTLB: 0 0 x\n",
            "CPU0 CPU1\n30: 1 0 x\nLOC: 2 2 x\nRES: 2 2 x\nCAL: 0 0 x\nTLB: 0 0 x\n",
        )],
    ),
    ("noise.cpu-interrupts", &[]),
    ("noise.kernel-threads", &[("/proc/2/task/2/status", "Cpus_allowed_list:\t0-1\n", "Cpus_allowed_list:\t0\n")]),
    (
        "placement.threads-on-isolated",
        &[(
            "/proc/1/task/1/status",
            "VmSize: 1 kB\nCpus_allowed_list:\t0-1\n",
            "VmSize: 1 kB\nCpus_allowed_list:\t1\n",
        )],
    ),
    ("irq.on-isolated", &[]),
    ("irq.of-each-cpu", &[]),
    ("irq.irqbalance", &[("/proc/1/comm", "irqbalance", "init")]),
    ("noise.steal", &[("/proc/stat", "cpu 1 1 1 1 1 1 1 0 0 0", "cpu 1 1 1 1 1 1 1 7 0 0")]),
    ("noise.timers", &[("/etc/systemd/system/timers.target.wants/one.timer", "", "")]),
    ("clock.offset-ns", &[CLOCKS]),
    ("clock.ptp.offset-ns", &[CLOCKS]),
    ("clock.stamps", &[("/etc/chrony.conf", "hwtimestamp *\n", "pool x\n")]),
    // Its other files are those of each priority, see `more`.
    ("rdma.roce.congestion-control", &[("/sys/class/net/eth0/device/infiniband/x/node_type", "1", "1")]),
    ("rdma.mlx4.softdep", &[("/etc/modprobe.d/x.conf", "softdep mlx4_core post: mlx4_en\n", "\n")]),
    (
        "service.default-target",
        &[("/etc/systemd/system/default.target", "link:multi-user.target", "link:graphical.target")],
    ),
    ("stack.softnet", &[("/proc/net/softnet_stat", "0 0 0\n", "0 1 0\n")]),
    ("stack.taps", &[("/proc/net/packet", "sk\n", "sk\nx 3 3 0003 2\n")]),
];

/// Lines of files that several rows read, as wanted and otherwise.
pub const SHARED: &[(&str, [&str; 2])] = &[
    ("/boot/config-6.12.0", ["CONFIG_HZ=100\n", "CONFIG_HZ=250\n"]),
    ("/proc/meminfo", ["MemAvailable: 3 kB\n", "MemAvailable: 5 kB\n"]),
    ("/proc/cpuinfo", ["vendor_id: GenuineIntel\n", "vendor_id: GenuineIntel\n"]),
    ("flags", ["vmx ", ""]),
];

/// Files that one text for both trees cannot hold.
pub fn more(files: &mut BTreeMap<String, Vec<u8>>, is_wanted: bool) {
    let mut module = vec![17_u8, 40];
    module.resize(40, 0);
    let mut put = |at: usize, value: u16| module[at..at + 2].copy_from_slice(&value.to_le_bytes());
    put(0x0c, 16);
    put(0x15, 3200);
    put(0x20, if is_wanted { 3200 } else { 2933 });
    put(0x26, if is_wanted { 1200 } else { 1350 });
    files.insert("/sys/firmware/dmi/entries/17-0/raw".to_owned(), module);
    for priority in 0..8 {
        for end in ["roce_np", "roce_rp"] {
            let path = format!("/sys/class/net/eth0/ecn/{end}/enable/{priority}");
            files.insert(path, if is_wanted { b"1" } else { b"0" }.to_vec());
        }
    }
    if !is_wanted {
        files.insert("/etc/systemd/system/timers.target.wants/two.timer".to_owned(), Vec::new());
    }
}

/// The configuration space of a function with a PCI Express capability and address translation.
pub fn pcie_config(is_wanted: bool) -> Vec<u8> {
    let mut config = vec![0_u8; 4096];
    config[0x34] = 0x40;
    config[0x40] = 0x10;
    // 256 bytes of payload, 512 of requests, both switches; the other one has none of it.
    let control: u16 = if is_wanted { 1 << 5 | 2 << 12 | 1 << 4 | 1 << 8 } else { 0 };
    config[0x48..0x4a].copy_from_slice(&control.to_le_bytes());
    config[0x50] = u8::from(!is_wanted);
    config[0x100] = 0x0f;
    config[0x107] = if is_wanted { 0x80 } else { 0 };
    config
}

/// The registers and devices that rows read, by path and offset, each with this answer.
pub fn devices(answer: impl Fn(u32) -> Value) -> Value {
    let mut msr = serde_json::Map::new();
    for setting in catalogue::settings() {
        if let ReadFrom::Msr(field) = setting.read {
            msr.insert(format!("{:#x}", field.register), answer(field.register));
        }
    }
    json!({"/dev/cpu/0/msr": msr, "/dev/cpu_dma_latency": {"0x0": answer(u32::MAX)}})
}

/// Of these directories those whose names anybody sees, and those that root alone may list.
pub fn split_directories(all: &BTreeSet<String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let is_names = |path: &String| {
        catalogue::settings().any(|setting| matches!(setting.read, ReadFrom::Names(directory) if directory == path))
            || UNSEEN.contains(&path.as_str())
    };
    all.iter().cloned().partition(|path| !is_names(path))
}

/// Directories whose names are all there is to read.
const UNSEEN: &[&str] =
    &["/etc/systemd/system", "/usr/lib/systemd/system", "/sys/module", "/etc/modprobe.d", "/proc", "/proc/irq"];

/// Id, answer that holds it, its fields as wanted and otherwise.
pub const ANSWERS: &[(&str, &str, &str, &str)] = &[
    ("nic.driver", "driver", r#"{"driver": "one"}"#, r#"{"driver": "two"}"#),
    ("nic.driver.version", "driver", r#"{"version": "1"}"#, r#"{"version": "2"}"#),
    ("nic.firmware", "driver", r#"{"firmware-version": "1"}"#, r#"{"firmware-version": "2"}"#),
    ("nic.bus-info", "driver", r#"{"bus-info": "0000:00:01.0"}"#, r#"{"bus-info": "0000:00:02.0"}"#),
    ("nic.private-flags", "private-flags", FLAGS[0], r#"{"of-a-later-driver": true}"#),
    ("nic.private-flags.names", "private-flags", FLAGS[0], FLAGS[1]),
    ("nic.private-flags.rx-cqe-compress", "private-flags", FLAGS[0], FLAGS[1]),
    ("nic.private-flags.tx-cqe-compress", "private-flags", FLAGS[0], FLAGS[1]),
    ("nic.private-flags.rx-striding-rq", "private-flags", FLAGS[0], FLAGS[1]),
    ("nic.private-flags.legacy-rx", "private-flags", FLAGS[0], FLAGS[1]),
    ("nic.kind", "link", r#"{"kind": "veth"}"#, r#"{"kind": "bond"}"#),
    ("nic.speed-mbps", "link-settings", r#"{"speed-mbps": 40000}"#, r#"{"speed-mbps": 10000}"#),
    ("nic.duplex", "link-settings", r#"{"duplex": "full"}"#, r#"{"duplex": "half"}"#),
    ("nic.autoneg", "link-settings", r#"{"autonegotiation": true}"#, r#"{"autonegotiation": false}"#),
    ("nic.mtu", "link", r#"{"mtu": 9000}"#, r#"{"mtu": 1500}"#),
    ("nic.tx-queue-length", "link", r#"{"tx-queue-length": 1000}"#, r#"{"tx-queue-length": 2000}"#),
    ("nic.qdisc", "link", r#"{"qdisc": "mq"}"#, r#"{"qdisc": "fq"}"#),
    ("nic.queues.rx", "link", r#"{"rx-queues": 8}"#, r#"{"rx-queues": 4}"#),
    ("nic.queues.tx", "link", r#"{"tx-queues": 8}"#, r#"{"tx-queues": 4}"#),
    ("nic.module", "module", r#"{"kind": 3}"#, r#"{"kind": 2}"#),
    ("nic.pause", "pause", r#"{"rx": true, "tx": true}"#, r#"{"rx": false, "tx": true}"#),
    ("nic.pause.autoneg", "pause", r#"{"autoneg": true}"#, r#"{"autoneg": false}"#),
    ("nic.energy-efficient", "eee", r#"{"enabled": true}"#, r#"{"enabled": false}"#),
    ("nic.fec", "fec", r#"{"active": 4}"#, r#"{"active": 8}"#),
    ("nic.wake-on-lan", "wake-on-lan", r#"{"events": 32}"#, r#"{"events": 0}"#),
    ("nic.timestamping", "timestamping", r#"{"phc-index": 0}"#, r#"{"phc-index": null}"#),
    ("nic.rss.hash-function", "rss-hash", r#"{"bits": 1}"#, r#"{"bits": 2}"#),
    ("nic.rss.indirection", "rss-table", r#"{"queues": [0, 1]}"#, r#"{"queues": [0, 0]}"#),
    ("nic.ring.rx", "rings", r#"{"rx": 512}"#, r#"{"rx": 1024}"#),
    ("nic.ring.rx-max", "rings", r#"{"rx-max": 4096}"#, r#"{"rx-max": 8192}"#),
    ("nic.ring.tx", "rings", r#"{"tx": 512}"#, r#"{"tx": 1024}"#),
    ("nic.ring.tx-max", "rings", r#"{"tx-max": 4096}"#, r#"{"tx-max": 8192}"#),
    ("nic.channels.rx", "channels", r#"{"rx": 1}"#, r#"{"rx": 2}"#),
    ("nic.channels.rx-max", "channels", r#"{"rx-max": 4}"#, r#"{"rx-max": 8}"#),
    ("nic.channels.tx", "channels", r#"{"tx": 1}"#, r#"{"tx": 2}"#),
    ("nic.channels.tx-max", "channels", r#"{"tx-max": 4}"#, r#"{"tx-max": 8}"#),
    ("nic.channels.combined", "channels", r#"{"combined": 1}"#, r#"{"combined": 2}"#),
    ("nic.channels.combined-max", "channels", r#"{"combined-max": 4}"#, r#"{"combined-max": 8}"#),
    ("nic.coalesce.rx-usecs", "coalesce", r#"{"rx-usecs": 0}"#, r#"{"rx-usecs": 16}"#),
    ("nic.coalesce.rx-frames", "coalesce", r#"{"rx-frames": 1}"#, r#"{"rx-frames": 44}"#),
    ("nic.coalesce.rx-irq", "coalesce", r#"{"rx-usecs-irq": 0}"#, r#"{"rx-usecs-irq": 1}"#),
    ("nic.coalesce.tx-usecs", "coalesce", r#"{"tx-usecs": 8}"#, r#"{"tx-usecs": 16}"#),
    ("nic.coalesce.tx-frames", "coalesce", r#"{"tx-frames": 16}"#, r#"{"tx-frames": 32}"#),
    ("nic.coalesce.tx-frames-irq", "coalesce", r#"{"tx-frames-irq": 256}"#, r#"{"tx-frames-irq": 1}"#),
    ("nic.coalesce.adaptive-rx", "coalesce", r#"{"adaptive-rx": false}"#, r#"{"adaptive-rx": true}"#),
    ("nic.coalesce.adaptive-tx", "coalesce", r#"{"adaptive-tx": false}"#, r#"{"adaptive-tx": true}"#),
    ("nic.coalesce.packet-rates", "coalesce", r#"{"pkt-rate-low": 400000}"#, r#"{"pkt-rate-low": 1}"#),
    ("nic.coalesce.rx-usecs-low", "coalesce", r#"{"rx-usecs-low": 0}"#, r#"{"rx-usecs-low": 1}"#),
    ("nic.coalesce.rx-usecs-high", "coalesce", r#"{"rx-usecs-high": 128}"#, r#"{"rx-usecs-high": 1}"#),
    ("nic.coalesce.completion-timer", "coalesce-netlink", r#"{"use-cqe-mode-rx": 0}"#, r#"{"use-cqe-mode-rx": 1}"#),
    ("nic.ring.tx-push", "rings-netlink", r#"{"tx-push": 1}"#, r#"{"tx-push": 0}"#),
    ("nic.ring.tx-push-bytes", "rings-netlink", r#"{"tx-push-buf-len": 96}"#, r#"{"tx-push-buf-len": 224}"#),
    ("nic.ring.rx-push", "rings-netlink", r#"{"rx-push": 1}"#, r#"{"rx-push": 0}"#),
    ("nic.ring.data-split", "rings-netlink", r#"{"tcp-data-split": 1}"#, r#"{"tcp-data-split": 2}"#),
    ("nic.ring.completion-bytes", "rings-netlink", r#"{"cqe-size": 64}"#, r#"{"cqe-size": 128}"#),
    ("nic.ring.buffer-bytes", "rings-netlink", r#"{"rx-buf-len": 2048}"#, r#"{"rx-buf-len": 4096}"#),
    ("nic.module.power-mode", "module-netlink", r#"{"power-mode-policy": 1}"#, r#"{"power-mode-policy": 2}"#),
    ("nic.xdp-features", "netdev", r#"{"xdp-features": 11}"#, r#"{"xdp-features": 3}"#),
    ("nic.rx-steering-rules", "flow-rules", r#"{"rules": []}"#, RULE),
    ("nic.ena.express", "ena", r#"{"srd-mode": 0}"#, r#"{"srd-mode": 3}"#),
    ("rdma.roce.flow-control", "dcb", DCB[0], DCB[1]),
    ("rdma.roce.trust", "dcb", DCB[0], DCB[1]),
    ("rdma.roce.chain", "dcb", DCB[0], DCB[1]),
    ("nic.napi.map", "napi", NAPI[0], NAPI[1]),
    ("nic.napi.defer-hard-irqs", "napi", NAPI[0], NAPI[1]),
    ("nic.napi.gro-flush-timeout-ns", "napi", NAPI[0], NAPI[1]),
    ("nic.napi.irq-suspend-timeout-ns", "napi", NAPI[0], NAPI[1]),
    ("nic.napi.threaded", "napi", NAPI[0], NAPI[1]),
];

const DCB: [&str; 2] =
    [r#"{"paused-priorities": 8, "dscp-priorities": [[26, 3]]}"#, r#"{"paused-priorities": 0, "dscp-priorities": []}"#];

const RULE: &str = r#"{"rules": [{"location": 1, "kind": "udp4", "queue": 0}]}"#;

const FLAGS: [&str; 2] = [
    r#"{"rx_cqe_compress": true, "tx_cqe_compress": true, "rx_striding_rq": true, "legacy-rx": true}"#,
    r#"{"rx_cqe_compress": false, "tx_cqe_compress": false, "rx_striding_rq": false, "legacy-rx": false}"#,
];

const NAPI: [&str; 2] = [
    r#"{"instances": [{"queues": ["rx-0"], "irq": 30, "defer-hard-irqs": 2, "gro-flush-timeout": 20000, "irq-suspend-timeout": 20000000, "threaded": 1}]}"#,
    r#"{"instances": [{"queues": ["rx-0"], "irq": 31, "defer-hard-irqs": 0, "gro-flush-timeout": 0, "irq-suspend-timeout": 0, "threaded": 0}]}"#,
];

/// Ids whose outcome is another one, by the beginning where they end in a dot.
type Exceptions = &'static [(&'static str, &'static str)];

pub fn outcome(exceptions: Exceptions, id: &str, rule: &'static str) -> &'static str {
    let is_meant = |of: &str| if of.ends_with('.') { id.starts_with(of) } else { of == id };
    exceptions.iter().find(|(of, _)| is_meant(of)).map_or(rule, |(_, outcome)| outcome)
}

/// The list of online CPUs is there in any tree, and with it their number. Where no CPU is isolated nothing can be wrong on
/// those that are.
pub const WHEN_ABSENT: Exceptions = &[
    ("cpu.online", "ok"),
    ("cpu.threads", "ok"),
    // Without a word on siblings each CPU is a core.
    ("cpu.cores", "differs"),
    // Every host is a guest or is none.
    ("virtualisation.hypervisor-flag", "unknown"),
    ("irq.on-isolated", "not-applicable"),
    ("noise.kernel-threads", "not-applicable"),
    ("placement.threads-on-isolated", "not-applicable"),
];
/// There is a kind of cores only where there are several, so the CPUs cannot all have the same value.
pub const IN_THE_WANTED_TREE: Exceptions = &[("cpu.kind", "differs")];
/// Whether what came to an isolated CPU since boot still comes is not told by one reading. Both trees have one node.
pub const IN_THE_OTHER_TREE: Exceptions = &[("irq.on-isolated", "unknown"), ("firmware.nodes-per-socket", "ok")];
pub const NOTHING_WHEN_ABSENT: Exceptions = &[
    ("cpu.online", "differs"),
    ("cpu.threads", "differs"),
    ("cpu.cores", "differs"),
    ("virtualisation.hypervisor-flag", "unknown"),
];
pub const WHEN_ROOT_IS_NEEDED: Exceptions = &[
    ("cpu.online", "ok"),
    ("cpu.threads", "ok"),
    ("cpu.cores", "differs"),
    ("cpu.packages", "unsupported"),
    ("cpu.kind", "unsupported"),
    ("firmware.nodes-per-socket", "unsupported"),
    ("virtualisation.hypervisor-flag", "unknown"),
    ("irq.on-isolated", "not-applicable"),
    ("noise.kernel-threads", "not-applicable"),
    ("placement.threads-on-isolated", "not-applicable"),
    // Names and links in directories that everybody may list.
    ("nic.neighbours", "ok"),
    ("nic.pcie.path", "ok"),
];

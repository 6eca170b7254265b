//! Checks of services, placement, guests, modules, switch and program.

use super::{Printed, busy_poll, check, exanic, netronome, usnic, vma};

pub(super) const SERVICES: &[Printed] = &[
    check(
        "SVC-IRQB",
        "irqbalance",
        "service.irqbalance",
        &[
            exanic("Software Settings", "interrupts placed by hand"),
            netronome("slide 24", "stopped"),
            vma("CPU info", "stopped"),
        ],
    ),
    check("SVC-NUMAD", "numad", "service.numad", &[netronome("slide 24", "disabled")]),
    check("SVC-TUNED", "tuned", "service.tuned", &[netronome("slide 24", "disabled")]),
    check("SVC-CPUSPEED", "cpuspeed GOVERNOR", "service.cpuspeed", &[usnic("CPU Governor", "performance")]),
    check(
        "SVC-SELINUX",
        "SELINUX in /etc/selinux/config",
        "service.selinux",
        &[usnic("Operating System Settings, Other", "disabled")],
    ),
    check("SVC-RUNLEVEL", "runlevel", "service.default-target", &[usnic("Operating System Settings, Other", "3")]),
    check(
        "SVC-IRQBCFG",
        "/etc/default/irqbalance",
        "service.irqbalance.banned-cpus",
        &[netronome("slide 24", "edited")],
    ),
];

pub(super) const PLACEMENT: &[Printed] = &[
    check("PR-MEMLOCK", "ulimit -l", "memory.lock-limit-bytes", &[vma("Configure libvma", "unlimited")]),
    check(
        "PR-PIN",
        "taskset, numactl -C, bind to core",
        "placement.pinning",
        &[
            exanic("Improving performance with libexanic", "CPU 2"),
            netronome("slide CPU affinity and pinning", "unique CPUs"),
            vma("Benchmark", "core 2"),
            usnic("Point-to-Point Benchmarks", "bound to a core, from socket 0, core 0"),
            busy_poll("Tuning and Configuration", "bound"),
        ],
    ),
    check(
        "PR-MEMBIND",
        "numactl -N, preferred node",
        "placement.memory-node",
        &[vma("Benchmark", "node 0"), busy_poll("Tuning and Configuration", "node of the device")],
    ),
    check(
        "PR-ONE",
        "one task a CPU",
        "placement.threads-on-isolated",
        &[netronome("slide CPU affinity and pinning", "critical")],
    ),
    check(
        "PR-OVERSUB",
        "threads and cores",
        "placement.threads-fit",
        &[busy_poll("Cautions", "not more threads than cores")],
    ),
    check("PR-HPLEFT", "memory left for the system", "memory.available", &[netronome("slide 23", "sufficient")]),
    check(
        "PR-CAPS",
        "errno 13, permission denied",
        "placement.capabilities",
        &[vma("qperf", "the right to open the device")],
    ),
    check(
        "PR-PLAN",
        "CPU allocation plan",
        "placement.plan",
        &[netronome("slide 22", "host, relay, guests, application")],
    ),
];

pub(super) const VIRTUALISATION: &[Printed] = &[
    check(
        "VMX-PIN",
        "vcpupin",
        "virtualisation.vcpu-pinning",
        &[netronome("slide CPU affinity and pinning", "unique CPUs")],
    ),
    check(
        "VMX-EMU",
        "emulator threads",
        "virtualisation.emulator-pinning",
        &[netronome("slide 22", "CPUs of the host")],
    ),
    check(
        "VMX-HP",
        "hugepages for guests",
        "virtualisation.huge-pages",
        &[netronome("slide 23", "required by the relay")],
    ),
    check("VMX-GIRQB", "irqbalance in the guest", "virtualisation.guest-irqbalance", &[netronome("slide 27", "off")]),
    check(
        "VMX-GPIN",
        "-c or -l core map in the guest",
        "virtualisation.guest-pinning",
        &[netronome("slide 27", "not CPU 0")],
    ),
    check("VMX-EALN", "-n 4", "virtualisation.memory-channels", &[netronome("slide 27", "4")]),
    check(
        "VMX-SPEC",
        "guest specification",
        "virtualisation.guest-size",
        &[netronome("slide 31", "4 CPUs, 4 GB, 2 virtio interfaces")],
    ),
    check(
        "VMX-RELAY",
        "relay --cpus, --virtio-cpu",
        "virtualisation.relay-cpus",
        &[netronome("slide 32", "unique CPUs")],
    ),
    check("VMX-AVOID", "virtualised environment", "virtualisation.hypervisor-flag", &[busy_poll("Cautions", "avoid")]),
    check(
        "OVS-OFFL",
        "OVS on the SmartNIC",
        "ovs.hardware-offload",
        &[netronome("slide Agilio OVS, example (1/5)", "offloaded")],
    ),
    check(
        "OVS-WIRE",
        "configure wire",
        "ovs.wire-mode",
        &[netronome("slide Test topologies, Port-to-Port", "for tests of the device alone")],
    ),
    check("OVS-PMD", "polling CPUs of OVS", "ovs.pmd-cpus", &[netronome("slide 22", "not shared with guests")]),
];

pub(super) const RDMA: &[Printed] = &[
    check("RD-MGM", "log_num_mgm_entry_size", "rdma.mlx4.flow-steering", &[vma("Configure libvma", "-1")]),
    check("RD-PORTTYPE", "port_type_array", "rdma.mlx4.port-type", &[vma("Configure libvma", "2,2")]),
    check("RD-NUMVFS", "num_vfs", "rdma.mlx4.vfs", &[vma("Configure libvma", "2")]),
    check("RD-PROBEVF", "probe_vf", "rdma.mlx4.probe-vf", &[vma("Configure libvma", "0")]),
    check("RD-CQE", "enable_64b_cqe_eqe", "rdma.mlx4.large-completions", &[vma("Configure libvma", "0")]),
    check("RD-INLINE", "inline_thold", "rdma.mlx4.inline-threshold", &[vma("Configure libvma", "0, commented out")]),
    check("RD-SOFTDEP", "softdep mlx4_core post: mlx4_en", "rdma.mlx4.softdep", &[vma("Configure libvma", "set")]),
    check("RD-DRV", "OFED or inbox driver", "rdma.driver-version", &[vma("Update driver", "3.3-1.0.0")]),
    check("RD-DMFS", "Device Managed Flow Steering", "rdma.device-flow-steering", &[vma("Enable RSS/RFS", "required")]),
    check(
        "RD-VIC",
        "usNIC packages and VIC firmware",
        "rdma.devices",
        &[usnic("System under Test Configuration", "a matching set")],
    ),
    check("RD-COAL", "interrupt coalescing timer", "rdma.vnic-coalescing", &[usnic("Adapter Configuration", "0")]),
];

pub(super) const SWITCH: &[Printed] = &[
    check(
        "SW-FC",
        "flowcontrol receive and send",
        "switch.flow-control",
        &[usnic("Network Switch Configuration", "on")],
    ),
    check("SW-NODROP", "pause no-drop", "switch.no-drop", &[usnic("Network Switch Configuration", "enabled")]),
    check("SW-QOS", "cos 2 to qos-group 1", "switch.class", &[usnic("Network Switch Configuration", "set")]),
    check("SW-MTU", "network MTU", "switch.mtu", &[usnic("Network Switch Configuration", "9216")]),
    check("SW-WARP", "forwarding-mode warp", "switch.warp-mode", &[usnic("Network Switch Configuration", "enabled")]),
    check(
        "SW-CUT",
        "single hop, cut-through",
        "switch.cut-through",
        &[exanic("introduction", "no switch"), usnic("Network Switch Configuration", "one switch")],
    ),
];

pub(super) const APPLICATION: &[Printed] = &[
    check("AP-SOBP", "SO_BUSY_POLL", "app.busy-poll", &[busy_poll("Enabling", "on the sockets that matter")]),
    check("AP-EPOLL", "epoll support", "app.epoll-busy-poll", &[busy_poll("Cautions", "planned for later")]),
    check("AP-WARM", "warm-up frames", "app.warm-up", &[exanic("Running benchmarking utilities", "100000")]),
    check("AP-TXPRE", "preloaded", "app.prepared-send", &[exanic("Improving performance with libexanic", "preloaded")]),
    check(
        "AP-RXINPL",
        "chunk_inplace",
        "app.in-place-receive",
        &[exanic("Improving performance with libexanic", "chunk_inplace")],
    ),
    check(
        "AP-NUMACHK",
        "numademo 128m memcpy",
        "hardware.memory-bandwidth",
        &[busy_poll("Tuning and Configuration", "when in doubt")],
    ),
    check(
        "AP-REDIS",
        "options of the store",
        "app.store-options",
        &[vma("redis-benchmark", "maxmemory 12000mb, allkeys-lru, protected-mode no")],
    ),
    check(
        "AP-VMASTAT",
        "LD_PRELOAD, VMA_STATS_FD_NUM",
        "app.bypass-options",
        &[vma("redis-benchmark", "libvma.so, 500")],
    ),
    check(
        "AP-PAIR",
        "second machine with the same configuration",
        "app.same-hosts",
        &[exanic("Benchmarking latency with exasock", "the same")],
    ),
];

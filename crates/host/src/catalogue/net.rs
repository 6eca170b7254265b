//! Kernel parameters of the network; the id is the name of the sysctl.

use super::base;
use super::sysctl::sysctl;
use crate::setting::Risk;
use crate::{ReadFrom, Setting};

const CORE: Setting = base::sysctl(&["Documentation/admin-guide/sysctl/net.rst"]);
const IPV4: Setting = base::sysctl(&["Documentation/networking/ip-sysctl.rst"]);

pub(super) const SETTINGS: &[Setting] = &[
    sysctl(
        CORE,
        "net.core.busy_read",
        "Microseconds a read spins on the device queue.",
        "A packet found by spinning needs no interrupt and no wake-up.",
    )
    .number("us")
    .risk(&[Risk::Power])
    .docs(&["Documentation/networking/napi.rst"])
    .today("It makes every socket of the host spin, so that SO_BUSY_POLL on single sockets is the better way.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.busy_poll",
        "Microseconds poll and select spin on device queues.",
        "A packet found by spinning needs no interrupt and no wake-up.",
    )
    .number("us")
    .risk(&[Risk::Power])
    .docs(&["Documentation/networking/napi.rst"])
    .today("It drives epoll too, and only for sockets with SO_BUSY_POLL or with busy_read set.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.netdev_budget",
        "Frames one round of the receive softirq may handle.",
        "A round that ends early leaves frames for a thread that must be scheduled.",
    )
    .number("frames")
    .today("The printed 300 is the default, and netdev_budget_usecs often ends the round first.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.netdev_budget_usecs",
        "Microseconds one round of the receive softirq may last.",
        "A round that ends early leaves frames for a thread that must be scheduled.",
    )
    .number("us")
    .in_record(),
    sysctl(
        CORE,
        "net.core.dev_weight",
        "Frames one poll of a queue may handle.",
        "A larger share of one queue keeps the others waiting.",
    )
    .number("frames")
    .in_record(),
    sysctl(
        CORE,
        "net.core.netdev_max_backlog",
        "Frames that may wait for a CPU in the per-CPU queue.",
        "A long queue hides drops behind delay.",
    )
    .number("frames")
    .today("Only frames steered by software or of drivers without NAPI go through that queue.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.rmem_max",
        "The largest receive buffer a program may ask for, bytes.",
        "Bursts that do not fit are dropped.",
    )
    .number("bytes")
    .risk(&[Risk::Memory])
    .in_record(),
    sysctl(
        CORE,
        "net.core.wmem_max",
        "The largest send buffer a program may ask for, bytes.",
        "A sender with a full buffer blocks.",
    )
    .number("bytes")
    .risk(&[Risk::Memory])
    .in_record(),
    sysctl(
        CORE,
        "net.core.rmem_default",
        "The receive buffer of a new socket, bytes.",
        "Bursts that do not fit are dropped.",
    )
    .number("bytes")
    .risk(&[Risk::Memory])
    .today("The printed 4 MiB go to every socket of the host, so that SO_RCVBUF on single ones is the better way.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.wmem_default",
        "The send buffer of a new socket, bytes.",
        "A sender with a full buffer blocks.",
    )
    .number("bytes")
    .risk(&[Risk::Memory])
    .today("The printed 4 MiB go to every socket of the host, so that SO_SNDBUF on single ones is the better way.")
    .in_record(),
    sysctl(
        CORE,
        "net.core.optmem_max",
        "Memory for options and control messages of a socket, bytes.",
        "Multicast filters and time stamps of sends come out of it.",
    )
    .number("bytes"),
    sysctl(
        CORE,
        "net.core.somaxconn",
        "Connections that may wait to be accepted.",
        "A full queue makes clients try again after a second.",
    )
    .number("")
    .today("The default is 4096 since Linux 5.4, so that the printed 1024 lowers it."),
    sysctl(
        CORE,
        "net.core.default_qdisc",
        "The queueing discipline of new interfaces.",
        "A discipline that paces or sorts adds work to each frame.",
    )
    .in_record(),
    sysctl(
        CORE,
        "net.core.bpf_jit_enable",
        "Whether BPF programs are compiled to machine code.",
        "An interpreted program costs several times more for each frame.",
    )
    .words(&["0", "1", "2"])
    .in_record(),
    sysctl(
        CORE,
        "net.core.rps_sock_flow_entries",
        "Size of the table that steers flows to the CPUs of their readers.",
        "Steering by software costs an interrupt between CPUs.",
    )
    .number("")
    .docs(&["Documentation/networking/scaling.rst"])
    .in_record(),
    CORE.row(
        "net.core.rps_default_mask",
        "CPUs that frames of new interfaces are spread to by software.",
        "An interface made later would otherwise use the CPU of its interrupt only.",
        // The one CPU mask below /proc/sys/net/core: the others are lists or numbers.
        ReadFrom::CpuMask("/proc/sys/net/core/rps_default_mask"),
    )
    .cpus()
    .docs(&["Documentation/networking/scaling.rst"])
    .today("It affects only interfaces made after it was set."),
    sysctl(
        CORE,
        "net.core.netdev_tstamp_prequeue",
        "Whether frames are stamped before they are steered to a CPU.",
        "A later stamp leaves the wait for that CPU out.",
    )
    .switch()
    .in_record(),
    sysctl(
        CORE,
        "net.core.skb_defer_max",
        "Packet buffers that a CPU may keep back for the CPU that allocated them.",
        "Giving them back interrupts the other CPU.",
    )
    .number(""),
    sysctl(
        IPV4,
        "net.ipv4.tcp_low_latency",
        "An option without effect since Linux 4.14.",
        "It once made a reader skip the queue of its socket.",
    )
    .switch()
    .today("It has no effect any more.")
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_timestamps",
        "Whether TCP segments carry times.",
        "They cost 12 bytes a segment and give better estimates of the round trip.",
    )
    .words(&["0", "1", "2"])
    .today("Without them TCP loses its protection against old segments and samples of the round trip.")
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_sack",
        "Whether TCP acknowledges selectively.",
        "Without it one lost segment costs a round trip for each that follows.",
    )
    .switch()
    .today("The printed 0 carries the comment of another option and makes recovery from loss slower.")
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_congestion_control",
        "How TCP reacts to congestion.",
        "Some ways pace their segments, which adds delay on an empty link.",
    )
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_rmem",
        "Least, initial and largest TCP receive buffer, bytes.",
        "A window smaller than the path holds stops the sender.",
    )
    .today("The default's largest value is above the printed 4194304, which lowers it.")
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_wmem",
        "Least, initial and largest TCP send buffer, bytes.",
        "A buffer smaller than the path holds stops the sender.",
    )
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_adv_win_scale",
        "The share of the receive buffer that is not offered as window.",
        "It was a guess at the overhead of packet buffers.",
    )
    .number("")
    .today("It is obsolete since Linux 6.6, and the printed 1 is its default."),
    sysctl(
        IPV4,
        "net.ipv4.tcp_tso_win_divisor",
        "The share of the congestion window that one large segment may take, as a divisor.",
        "Large segments use it up in bursts.",
    )
    .number(""),
    sysctl(
        IPV4,
        "net.ipv4.tcp_mtu_probing",
        "Whether TCP finds the largest segment of a path by trying.",
        "On a path that swallows large frames a connection otherwise hangs.",
    )
    .words(&["0", "1", "2"]),
    sysctl(
        IPV4,
        "net.ipv4.tcp_base_mss",
        "The segment size that probing starts from, bytes.",
        "A small one makes the start of each probed connection slow.",
    )
    .number("bytes")
    .today("The default is 1024, and the printed 512 makes recovery slower when probing starts."),
    sysctl(
        IPV4,
        "net.ipv4.ip_no_pmtu_disc",
        "Whether the discovery of the path's largest frame is off.",
        "Without it frames may be cut in pieces on the way.",
    )
    .words(&["0", "1", "2", "3"])
    .today("The printed 0 is the default."),
    sysctl(
        IPV4,
        "net.ipv4.tcp_autocorking",
        "Whether small TCP writes wait for earlier ones to leave.",
        "A small message behind another one waits for the device.",
    )
    .switch()
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_slow_start_after_idle",
        "Whether an idle TCP connection starts slowly again.",
        "A burst after a pause needs several round trips instead of one.",
    )
    .switch()
    .in_record(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_notsent_lowat",
        "Unsent bytes above which a socket is not writable.",
        "Data that waits in the kernel cannot be overtaken by newer data.",
    )
    .number("bytes"),
    sysctl(
        IPV4,
        "net.ipv4.tcp_fastopen",
        "Whether data may go with the first segment of a connection.",
        "It saves a round trip of short connections.",
    )
    .number("bits")
    .risk(&[Risk::Security]),
    sysctl(
        IPV4,
        "net.ipv4.tcp_rto_min_us",
        "The least time TCP waits before it sends again, microseconds.",
        "Inside one rack the default is a thousand round trips.",
    )
    .number("us"),
    sysctl(
        IPV4,
        "net.ipv4.tcp_comp_sack_delay_ns",
        "How long TCP may hold selective acknowledgements back, nanoseconds.",
        "The sender learns of a loss that much later.",
    )
    .number("ns"),
    sysctl(
        IPV4,
        "net.ipv4.tcp_limit_output_bytes",
        "Bytes of one TCP socket that may wait in queues below it.",
        "What waits there cannot be overtaken.",
    )
    .number("bytes"),
    sysctl(
        IPV4,
        "net.ipv4.udp_rmem_min",
        "The receive buffer a UDP socket has even when memory is short, bytes.",
        "A burst that does not fit is dropped.",
    )
    .number("bytes"),
    sysctl(
        IPV4,
        "net.ipv4.ip_early_demux",
        "Whether the socket of a packet is looked up before its route.",
        "A known socket saves the lookup of the route.",
    )
    .switch(),
    sysctl(
        IPV4,
        "net.ipv4.udp_early_demux",
        "Whether the socket of a UDP packet is looked up before its route.",
        "A connected socket saves the lookup of the route.",
    )
    .switch(),
    sysctl(
        IPV4,
        "net.ipv4.tcp_early_demux",
        "Whether the socket of a TCP segment is looked up before its route.",
        "A known socket saves the lookup of the route.",
    )
    .switch(),
];

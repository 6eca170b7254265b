//! The network stack between interfaces and sockets.

use super::base;
use crate::read::counters;
use crate::setting::Risk;
use crate::{Area, ReadFrom, Setting};

const FACT: Setting = base::fact(Area::Stack);

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row(
        "stack.softnet",
        "Frames dropped because the queue of a CPU was full, and rounds that ended early, since boot.",
        "The first are losses, the second delays until a thread is scheduled.",
        ReadFrom::Computed(counters::softnet, "/proc/net/softnet_stat"),
    )
    .docs(&["Documentation/admin-guide/sysctl/net.rst"]),
    FACT.row(
        "stack.udp-buffer-errors",
        "UDP datagrams dropped since boot because the buffer of their socket was full.",
        "A receiver of bursts, above all of multicast, needs a buffer for the longest burst.",
        ReadFrom::Computed(counters::udp_buffer_errors, "RcvbufErrors of Udp in /proc/net/snmp"),
    )
    .number("")
    .docs(&["Documentation/networking/snmp_counter.rst"]),
    base::service()
        .row(
            "stack.packet-filters",
            "The modules of packet filters and connection tracking that are loaded.",
            "Each packet passes their hooks, also without a rule that matches.",
            ReadFrom::Modules(&[
                "nf_tables",
                "ip_tables",
                "ip6_tables",
                "nf_conntrack",
                "nf_nat",
                "br_netfilter",
                "ebtables",
                "ip_vs",
            ]),
        )
        .in_area(Area::Stack)
        .risk(&[Risk::Security])
        .docs(&["nft(8)"]),
    FACT.row(
        "stack.taps",
        "How many packet sockets are open that take all frames or those of IP.",
        "A forgotten capture is shown each packet.",
        ReadFrom::Computed(counters::packet_sockets, "/proc/net/packet"),
    )
    .number("")
    .docs(&["packet(7)"]),
];

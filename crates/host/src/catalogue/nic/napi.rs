//! How queues are polled.

use crate::catalogue::base;
use crate::setting::Risk;
use crate::{Area, EthtoolFact, NetlinkFact, NicFact, ReadFrom, Setting};

const FILE: Setting = base::device_file(Area::Nic).docs(&["Documentation/networking/napi.rst"]);
const NAPI: Setting =
    base::napi().no_file("instances of NAPI are made anew with their queues, and no file of the system names them");

/// What only generic netlink tells.
const fn netlink(fact: NetlinkFact) -> ReadFrom {
    ReadFrom::Nic(NicFact::Netlink(fact))
}

pub(super) const SETTINGS: &[Setting] = &[
    FILE.row(
        "nic.gro-flush-timeout-ns",
        "Nanoseconds joined segments and deferred interrupts may wait.",
        "It keeps interrupts off while a program polls, and delays whoever sleeps.",
        ReadFrom::Nic(NicFact::File("gro_flush_timeout")),
    )
    .moved_by_reset()
    .number("ns")
    .today("It does nothing useful without napi_defer_hard_irqs, and one value fits one load.")
    .in_record(),
    FILE.row(
        "nic.napi-defer-hard-irqs",
        "Empty polls before the interrupt is enabled again.",
        "It lets a program that polls in time never see an interrupt.",
        ReadFrom::Nic(NicFact::File("napi_defer_hard_irqs")),
    )
    .moved_by_reset()
    .number("polls")
    .today("It does nothing useful without gro_flush_timeout.")
    .in_record(),
    FILE.row(
        "nic.threaded",
        "Whether queues are polled by kernel threads.",
        "A thread can be placed and ranked, and costs a switch.",
        ReadFrom::Nic(NicFact::File("threaded")),
    )
    .switch()
    .in_record(),
    NAPI.row(
        "nic.napi.defer-hard-irqs",
        "Empty polls of one queue before its interrupt is enabled again.",
        "It can be set for the queue that matters and left alone elsewhere.",
        netlink(NetlinkFact::DeferHardIrqs),
    )
    .number("polls")
    .today("Writing the file in sysfs overwrites the value of every queue."),
    NAPI.row(
        "nic.napi.gro-flush-timeout-ns",
        "Nanoseconds joined segments and deferred interrupts of one queue may wait.",
        "It can be set for the queue that matters and left alone elsewhere.",
        netlink(NetlinkFact::GroFlushTimeout),
    )
    .number("ns")
    .today("Writing the file in sysfs overwrites the value of every queue."),
    NAPI.row(
        "nic.napi.irq-suspend-timeout-ns",
        "Nanoseconds the interrupt of a queue stays off after a busy poll that found packets.",
        "A program that keeps finding packets is never interrupted, and one that stops gets its interrupts back.",
        netlink(NetlinkFact::IrqSuspendTimeout),
    )
    .number("ns")
    .today("It needs Linux 6.13 and epoll with preferred busy polling."),
    NAPI.row(
        "nic.napi.threaded",
        "Whether a kernel thread polls one queue.",
        "It can be set for the queue that matters and left alone elsewhere.",
        netlink(NetlinkFact::Threaded),
    )
    .words(&["off", "on", "busy-poll"])
    .today("It needs Linux 6.17, and writing the file in sysfs overwrites the value of every queue."),
    NAPI.row(
        "nic.napi.map",
        "Which queue has which NAPI instance, interrupt and CPU.",
        "Steering a flow and placing its reader need the whole chain.",
        netlink(NetlinkFact::NapiMap),
    ),
    base::fact(Area::Nic)
        .row(
            "nic.chain",
            "Whether each receive queue has an interrupt on a CPU of its own that is near the device and not the program's, and rules and the hash bring flows to such queues.",
            "A frame is as late as the worst link between its flow and the CPU that handles it.",
            netlink(NetlinkFact::Chain),
        )
        .docs(&["Documentation/networking/scaling.rst"])
        .today("Drivers tell the interrupt of a queue since Linux 6.8, not all of them; of others its name in /proc/interrupts counts."),
    base::application(Area::Nic)
        .row(
            "nic.programs",
            "BPF programs attached to the interface.",
            "Each one runs for every frame, and a forgotten one costs without use.",
            ReadFrom::Elsewhere { why: "several parts of the kernel hold them", look: "bpftool net list" },
        )
        .docs(&["bpftool-net(8)"]),
    base::fact(Area::Nic)
        .row(
            "nic.xdp-features",
            "What the driver can do for AF_XDP, zero copy above all.",
            "Without zero copy each frame of a bypass is copied once.",
            netlink(NetlinkFact::XdpFeatures),
        )
        .docs(&["Documentation/netlink/specs/netdev.yaml"]),
    base::application(Area::Nic)
        .row(
            "nic.rx-steering-rules",
            "Rules that bring single flows to single queues.",
            "A flow without a rule lands on the queue that its hash says.",
            ReadFrom::Nic(NicFact::Ethtool(EthtoolFact::FlowRules)),
        )
        .risk(&[Risk::Network])
        .docs(&["Documentation/networking/scaling.rst"])
        .today("Rules vanish when the device is reset."),
    FILE.row(
        "nic.power-control",
        "Whether the kernel may put the device to sleep.",
        "A device asleep takes milliseconds to come back.",
        ReadFrom::Nic(NicFact::Device("power/control")),
    )
    .words(&["on", "auto"])
    .risk(&[Risk::Power])
    .docs(&["Documentation/power/runtime_pm.rst"]),
];

//! The device, its driver, its link and what is stacked on it.

use nearwire_sys::ethtool::{Duplex, Fec, LinkSettings, Pause, SoTimestamping, Timestamping};

use crate::catalogue::base;
use crate::setting::Stage;
use crate::setting::{Disruption, Menu, Persist, Risk, Vendor, WordValues, Write};
use crate::{Area, EthtoolFact, LinkFact, NicFact, ReadFrom, Reading, Setting};

use crate::read::text;

const FACT: Setting = base::fact(Area::Nic).docs(&["ethtool(8)"]);
const RESET: Setting = base::ethtool_with_reset().stage(Stage::Link);
const BOTH_ENDS: &str = "both ends must agree; use ethtool -s";
const FILE: Setting = base::device_file(Area::Nic).docs(&["Documentation/ABI/testing/sysfs-class-net"]);
const DRIVER_WHY: &str = "What an option does, and whether it exists, is the driver's and firmware's choice.";

const fn ethtool(fact: EthtoolFact) -> ReadFrom {
    ReadFrom::Nic(NicFact::Ethtool(fact))
}

pub(super) const SETTINGS: &[Setting] = &[
    FACT.row("nic.driver", "The driver.", DRIVER_WHY, ReadFrom::Nic(NicFact::Driver)).in_record(),
    FACT.row(
        "nic.driver.version",
        "The version of the driver, which is that of the kernel for its own drivers.",
        DRIVER_WHY,
        ethtool(EthtoolFact::Driver(|found| text(&found.version))),
    )
    .in_record(),
    FACT.row(
        "nic.firmware",
        "The version of the firmware.",
        DRIVER_WHY,
        ethtool(EthtoolFact::Driver(|found| text(&found.firmware_version))),
    )
    .in_record(),
    FACT.row(
        "nic.bus-info",
        "Where the device sits on its bus.",
        "Two ports of one device share its slot.",
        ReadFrom::Nic(NicFact::BusInfo),
    )
    .in_record(),
    FACT.row(
        "nic.private-flags",
        "How many private flags the driver has.",
        "They switch features that ethtool has no name for, such as compressed completions.",
        ethtool(EthtoolFact::PrivateFlags(|found| Reading::value(found.iter().count()))),
    )
    .number("")
    .in_record(),
    FACT.row(
        "nic.kind",
        "The kind of a virtual interface.",
        "A virtual interface hands its frames to another one.",
        ReadFrom::Nic(NicFact::Link(LinkFact::Kind)),
    )
    .in_record(),
    RESET
        .row(
            "nic.speed-mbps",
            "The speed of the link, megabits a second.",
            "A frame takes a tenth of the time at ten times the speed, and unequal ports need a buffer.",
            ethtool(EthtoolFact::Link(speed)),
        )
        .number("Mbit/s")
        .ethtool("-s", &["speed"])
        .link(&["BitsPerSecond=#M"])
        .not_at_run_time(BOTH_ENDS)
        .in_record(),
    FACT.row(
        "nic.duplex",
        "Whether both directions of the link work at once.",
        "Half duplex means collisions and waiting.",
        ethtool(EthtoolFact::Link(duplex)),
    )
    .words(&["full", "half"])
    .in_record(),
    RESET
        .row(
            "nic.autoneg",
            "Whether the two ends of the link agree on its speed.",
            "A link that was agreed on wrongly is slow or down.",
            ethtool(EthtoolFact::Link(|found| Reading::switch(found.is_autonegotiated))),
        )
        .switch()
        .ethtool("-s", &["autoneg"])
        .link(&["AutoNegotiation"])
        .not_at_run_time(BOTH_ENDS),
    FILE.row(
        "nic.mtu",
        "The largest payload of a frame, bytes.",
        "Large frames save work for bulk data and keep small ones waiting behind them.",
        ReadFrom::Nic(NicFact::Link(LinkFact::Mtu)),
    )
    .number("bytes")
    .stage(Stage::Link)
    .link(&["MTUBytes"])
    .tuned("mtu")
    .risk(&[Risk::Network])
    .disrupts(Disruption::LinkReset)
    .in_record(),
    FILE.row(
        "nic.tx-queue-length",
        "Frames that may wait in the root queueing discipline.",
        "A long queue hides drops behind delay.",
        ReadFrom::Nic(NicFact::Link(LinkFact::TxQueueLength)),
    )
    .number("frames")
    .link(&["TransmitQueueLength"])
    .tuned("txqueuelen")
    .today("Only disciplines of the pfifo kind look at it.")
    .in_record(),
    base::sysctl(&["tc(8)"])
        .row(
            "nic.qdisc",
            "The root queueing discipline.",
            "A discipline that paces or sorts adds work to each frame.",
            ReadFrom::Nic(NicFact::Link(LinkFact::Qdisc)),
        )
        .in_area(Area::Nic)
        .persist(&[Persist::SystemdUnit, Persist::UdevRule])
        .not_at_run_time("a discipline that is replaced loses its options; use tc")
        .in_record(),
    FILE.row(
        "nic.carrier",
        "Whether the link is up.",
        "Without a link there is nothing to measure.",
        ReadFrom::Nic(NicFact::File("carrier")),
    )
    .switch()
    .not_at_run_time("it is the state of the link, not a wish")
    .no_file("the cable and the device decide it")
    .in_record(),
    FACT.row(
        "nic.operational-state",
        "The state of the link as the kernel uses it.",
        "A port that is down takes no part in any path.",
        ReadFrom::Nic(NicFact::File("operstate")),
    )
    .words(&["up", "down", "unknown", "dormant", "lowerlayerdown", "notpresent", "testing"])
    .docs(&["Documentation/networking/operstates.rst"]),
    FILE.row(
        "nic.ipoib-mode",
        "How an InfiniBand interface carries its frames.",
        "In datagram mode the fabric bounds the length of a frame, at 2044 or 4092 bytes.",
        ReadFrom::Nic(NicFact::File("mode")),
    )
    .words(&["datagram", "connected"])
    .disrupts(Disruption::LinkReset)
    .risk(&[Risk::Network])
    .docs(&["Documentation/infiniband/ipoib.rst"]),
    FACT.row(
        "nic.carrier-changes",
        "How often the link came up or went down.",
        "A link that flaps loses frames and resets the device.",
        ReadFrom::Nic(NicFact::File("carrier_changes")),
    )
    .number(""),
    FACT.row(
        "nic.module",
        "The kind of the module or cable that is plugged in.",
        "A copper cable adds less delay than an optical module, and a badly seated one loses frames.",
        ethtool(EthtoolFact::Module(module)),
    ),
    FACT.row(
        "nic.drops",
        "Frames the device could not keep, since it was set up.",
        "They show a ring that is too small or a CPU that is too slow.",
        ReadFrom::Nic(NicFact::Statistics(&["rx_missed_errors", "rx_fifo_errors", "rx_dropped", "rx_over_errors"])),
    )
    .docs(&["Documentation/networking/statistics.rst"]),
    FACT.row(
        "nic.errors",
        "Frames with errors since the device was set up.",
        "They show a bad cable, module or port.",
        ReadFrom::Nic(NicFact::Statistics(&["rx_errors", "rx_crc_errors", "rx_frame_errors", "tx_errors"])),
    )
    .docs(&["Documentation/networking/statistics.rst"]),
    FACT.row(
        "nic.neighbours",
        "Interfaces stacked on this one or below it.",
        "Each bond, bridge or VLAN adds its own work to a frame.",
        ReadFrom::Nic(NicFact::Neighbours),
    )
    .docs(&["Documentation/networking/bonding.rst"]),
    RESET
        .row(
            "nic.pause",
            "Whether pause frames stop the transmitter and are sent.",
            "One slow receiver stops everybody who sends through the same port, but nothing is lost.",
            ethtool(EthtoolFact::Pause(pause)),
        )
        .words(&["off", "rx", "tx", "rx tx"])
        .ethtool_of("-A", &["rx", "tx"], WordValues::IfNamed)
        .link(&["RxFlowControl", "TxFlowControl"])
        .tuned("pause"),
    RESET
        .row(
            "nic.pause.autoneg",
            "Whether the two ends agree on pause frames.",
            "What was agreed on overrides what was set.",
            ethtool(EthtoolFact::Pause(|found| Reading::switch(found.autoneg))),
        )
        .switch()
        .ethtool("-A", &["autoneg"])
        .link(&["AutoNegotiationFlowControl"])
        .tuned("pause")
        .today("Some drivers, mlx4 among them, refuse it."),
    RESET
        .row(
            "nic.energy-efficient",
            "Whether the transmitter sleeps between frames.",
            "It takes microseconds to wake up for the first frame after a pause.",
            ethtool(EthtoolFact::EnergyEfficient(|found| {
                let state = if found.is_active { "active" } else { "not active" };
                if found.is_enabled { Reading::Value(format!("on, {state}")) } else { Reading::value("off") }
            })),
        )
        .switch()
        .ethtool("--set-eee", &["eee"]),
    RESET
        .row(
            "nic.fec",
            "How errors on the link are corrected.",
            "Reed-Solomon waits for a whole block of data before it hands any of it on.",
            ethtool(EthtoolFact::Fec(fec)),
        )
        .words(&["none", "auto", "off", "rs", "baser", "llrs"])
        .ethtool("--set-fec", &["encoding"])
        .not_at_run_time("both ends must agree; use ethtool --set-fec"),
    base::ethtool()
        .row(
            "nic.wake-on-lan",
            "Whether frames can wake the host.",
            "Some devices keep a slower clock for it.",
            ethtool(EthtoolFact::WakeOnLan(|bits| Reading::switch(bits != 0))),
        )
        .switch()
        .stage(Stage::Link)
        .ethtool_of("-s", &["wol"], WordValues::Off("d"))
        .link(&["WakeOnLan"])
        .tuned("wake_on_lan"),
    FACT.row(
        "nic.timestamping",
        "What can stamp times on frames.",
        "Stamps by the device show where the time goes between wire and program.",
        ethtool(EthtoolFact::Timestamping(timestamping)),
    )
    .docs(&["Documentation/networking/timestamping.rst"])
    .in_record(),
    FILE.row(
        "nic.vfs",
        "How many virtual functions the device has made.",
        "They share its queues and its slot.",
        ReadFrom::Nic(NicFact::Device("sriov_numvfs")),
    )
    .stage(Stage::Link)
    .number("")
    .risk(&[Risk::Network])
    .disrupts(Disruption::LinkReset)
    .docs(&["Documentation/PCI/pci-iov-howto.rst"]),
    base::firmware()
        .row(
            "nic.vfs-max",
            "How many virtual functions the device could make.",
            "Guests and user programs need one each to reach the device directly.",
            ReadFrom::Nic(NicFact::Device("sriov_totalvfs")),
        )
        .number("")
        .in_area(Area::Nic)
        .menu(&[Menu { vendor: Vendor::Cisco, words: "Number of VF instances = 16" }])
        .docs(&["Documentation/PCI/pci-iov-howto.rst"]),
    base::application(Area::Nic)
        .row(
            "nic.bypass-only",
            "Whether an ExaNIC port is kept from the kernel.",
            "The kernel's driver then takes no frame of the program.",
            VENDOR_TOOL,
        )
        .switch()
        .risk(&[Risk::Network])
        .write_by(Write::OtherDevice),
    base::application(Area::Nic)
        .row(
            "nic.local-loopback",
            "Whether an ExaNIC port hands frames it sends back to its own host.",
            "Each frame sent is then also received.",
            VENDOR_TOOL,
        )
        .switch()
        .write_by(Write::OtherDevice),
];

const VENDOR_TOOL: ReadFrom =
    ReadFrom::Elsewhere { why: "only the vendor's own tool knows it", look: "exanic-config exanic0:0" };

fn speed(link: &LinkSettings) -> Reading {
    let unknown = || Reading::unknown("the link is down or the device has no speed");
    link.speed_mbps.map_or_else(unknown, Reading::value)
}

fn duplex(link: &LinkSettings) -> Reading {
    match link.duplex {
        Some(Duplex::Full) => Reading::value("full"),
        Some(Duplex::Half) => Reading::value("half"),
        None => Reading::unknown("the link is down or the device has no duplex"),
    }
}

fn pause(found: &Pause) -> Reading {
    Reading::value(match (found.rx, found.tx) {
        (true, true) => "rx tx",
        (true, false) => "rx",
        (false, true) => "tx",
        (false, false) => "off",
    })
}

/// Bits of `enum ethtool_fec_config_bits`.
fn fec(found: &Fec) -> Reading {
    let names = ["none", "auto", "off", "rs", "baser", "llrs"];
    let bits = if found.active != 0 { found.active } else { found.configured };
    let words: Vec<_> =
        names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect();
    if words.is_empty() { Reading::Unsupported } else { Reading::Value(words.join(" ")) }
}

/// `ETH_MODULE_*` of `include/uapi/linux/ethtool.h`.
fn module(kind: u32) -> Reading {
    match kind {
        1 => Reading::value("SFP (SFF-8079)"),
        2 => Reading::value("SFP (SFF-8472)"),
        3 => Reading::value("QSFP (SFF-8636)"),
        4 => Reading::value("QSFP (SFF-8436)"),
        other => Reading::Value(format!("kind {other}")),
    }
}

fn timestamping(found: &Timestamping) -> Reading {
    let names = [
        (SoTimestamping::TX_HARDWARE, "tx-hardware"),
        (SoTimestamping::TX_SOFTWARE, "tx-software"),
        (SoTimestamping::RX_HARDWARE, "rx-hardware"),
        (SoTimestamping::RX_SOFTWARE, "rx-software"),
    ];
    let has = |(bit, _): &(SoTimestamping, &str)| found.so_timestamping.contains(*bit);
    let mut words: Vec<_> = names.iter().filter(|name| has(name)).map(|name| name.1).collect();
    if found.phc_index.is_some() {
        words.push("clock");
    }
    Reading::value(if words.is_empty() { "none".to_owned() } else { words.join(" ") })
}

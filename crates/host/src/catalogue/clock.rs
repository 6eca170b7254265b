//! Clocks.

use super::base;
use crate::read::clock;
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FLAG: Setting = base::fact(Area::Clock).switch().docs(&["Documentation/virt/kvm/x86/timekeeping.rst"]);

/// What a daemon answers of a clock that it keeps.
const OFFSET: Setting = base::application(Area::Clock).number("ns");

pub(super) const SETTINGS: &[Setting] = &[
    base::file(Area::Clock)
        .row(
            "clock.clocksource",
            "The counter the kernel reads the time from.",
            "Reading the time from anything but the processor's counter takes a microsecond or more.",
            ReadFrom::File("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        )
        .persist(&[Persist::CommandLine("clocksource=tsc"), Persist::TmpfilesD])
        .risk(&[Risk::Debugging])
        .docs(&["kernel/time/clocksource.c"])
        .in_record(),
    base::fact(Area::Clock)
        .row(
            "clock.clocksource.available",
            "The counters the kernel could read the time from.",
            "A time stamp counter that is missing here was found unstable.",
            ReadFrom::File("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
        )
        .docs(&["kernel/time/clocksource.c"])
        .in_record(),
    FLAG.row(
        "clock.constant_tsc",
        "Whether the time stamp counter ignores frequency changes.",
        "Otherwise its ticks are not a time.",
        ReadFrom::CpuFlag("constant_tsc"),
    )
    .in_record(),
    FLAG.row(
        "clock.nonstop_tsc",
        "Whether the time stamp counter runs in deep idle states.",
        "Otherwise the kernel does not use it as a clock.",
        ReadFrom::CpuFlag("nonstop_tsc"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_known_freq",
        "Whether the frequency of the time stamp counter is given and not measured.",
        "A measured frequency is off by some parts in a million.",
        ReadFrom::CpuFlag("tsc_known_freq"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_reliable",
        "Whether the kernel trusts the time stamp counter without watching it.",
        "A watched counter costs an interrupt twice a second.",
        ReadFrom::CpuFlag("tsc_reliable"),
    )
    .in_record(),
    FLAG.row(
        "clock.rdtscp",
        "Whether the ordered read of the time stamp counter exists.",
        "Without it a read needs a fence before it.",
        ReadFrom::CpuFlag("rdtscp"),
    )
    .in_record(),
    FLAG.row(
        "clock.tsc_adjust",
        "Whether the kernel can see that firmware changed a time stamp counter.",
        "With it the kernel need not watch the counter of small hosts.",
        ReadFrom::CpuFlag("tsc_adjust"),
    ),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.chrony",
            "Whether chrony disciplines the clock.",
            "A step of the clock in the middle of a run spoils time stamps that two hosts compare.",
            ReadFrom::Service("chrony.service"),
        )
        .docs(&["chronyd(8)"]),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.chronyd",
            "Whether chrony disciplines the clock, under the name that its unit has on Red Hat.",
            "A step of the clock in the middle of a run spoils time stamps that two hosts compare.",
            ReadFrom::Service("chronyd.service"),
        )
        .docs(&["chronyd(8)"]),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.ptp4l",
            "Whether ptp4l keeps the clock of a network device with that of the network.",
            "Stamps of two hosts can be compared only as closely as their clocks agree.",
            ReadFrom::Service("ptp4l.service"),
        )
        .docs(&["ptp4l(8)"]),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.phc2sys",
            "Whether phc2sys keeps the system's clock with that of a network device.",
            "Stamps of the device and of the kernel can be compared only as closely as the two clocks agree.",
            ReadFrom::Service("phc2sys.service"),
        )
        .docs(&["phc2sys(8)"]),
    OFFSET
        .row(
            "clock.offset-ns",
            "How far the system's clock is from the one that chronyd follows, nanoseconds.",
            "A delay from host to host is wrong by as much.",
            ReadFrom::Computed(clock::system_offset_ns, "chronyd at 127.0.0.1:323, as chronyc -c tracking asks it"),
        )
        .docs(&["chronyc(1)"]),
    OFFSET
        .row(
            "clock.ptp.offset-ns",
            "How far the clock of a network device is from that of the network, by ptp4l, nanoseconds.",
            "Stamps of two devices can be compared only as closely as their clocks agree.",
            ReadFrom::Computed(clock::device_offset_ns, "/run/ptp4lro or /run/ptp4l, as pmc -u -b 0 'GET TIME_STATUS_NP' asks it"),
        )
        .docs(&["pmc(8)"])
        .today("How far the system's clock is from that of the device phc2sys tells in its log only: journalctl -u phc2sys."),
    base::application(Area::Clock)
        .row(
            "clock.stamps",
            "Where the stamps are taken that ptp4l and chronyd work with.",
            "A stamp in software moves with the load of the host, by microseconds.",
            ReadFrom::Computed(clock::stamps, "the arguments and configuration of ptp4l, and chrony.conf"),
        )
        .words(&["hardware", "software"])
        .docs(&["ptp4l(8)", "chrony.conf(5)"]),
    base::service()
        .in_area(Area::Clock)
        .row(
            "clock.timesyncd",
            "Whether systemd-timesyncd disciplines the clock.",
            "A step of the clock in the middle of a run spoils time stamps that two hosts compare.",
            ReadFrom::Service("systemd-timesyncd.service"),
        )
        .docs(&["systemd-timesyncd.service(8)"]),
    base::fact(Area::Clock)
        .row(
            "clock.hardware-clocks",
            "The hardware clocks that network and other devices offer.",
            "They stamp frames at the wire, so that the host's part can be told from the network's.",
            ReadFrom::Names("/sys/class/ptp"),
        )
        .docs(&["Documentation/driver-api/ptp.rst"]),
];

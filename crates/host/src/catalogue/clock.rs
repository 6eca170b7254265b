//! Clocks.

use super::base;
use crate::setting::{Persist, Risk};
use crate::{Area, ReadFrom, Setting};

const FLAG: Setting = base::fact(Area::Clock).switch().docs(&["Documentation/virt/kvm/x86/timekeeping.rst"]);

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
    base::application(Area::Clock)
        .row(
            "clock.offset-ns",
            "How far this clock is from the one that it follows, nanoseconds.",
            "A delay from host to host is wrong by as much.",
            ReadFrom::Elsewhere {
                why: "the daemon that keeps the clock tells it to its own client only",
                look: "pmc -u -b 0 'GET TIME_STATUS_NP' for ptp4l, journalctl -u phc2sys, chronyc tracking",
            },
        )
        .number("ns")
        .docs(&["pmc(8)", "chronyc(1)"]),
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
